"""One price of the table. Prices stay in the currency that they were quoted in; nothing here converts one.

A missing price is an absent row. It is never stored as 0, which would make a GPU look free and rank first.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from pricing.cells import (
    Count,
    Day,
    Notes,
    OptionalDay,
    OptionalPositive,
    OptionalSha256,
    OptionalText,
    OptionalUrl,
    Positive,
    Text,
    one_of,
)
from pricing.cells import finite as finite
from pricing.cells import shown as shown
from pricing.currencies import CURRENCIES, Currency

Commitment = Literal[
    "on_demand", "spot", "reserved_1yr", "reserved_3yr", "capacity_block", "marketplace", "reserved_unstated"
]
Evidence = Literal["A", "B", "C", "contract"]

STALE_AFTER_DAYS = 90
# Nobody rented a computer by the hour before; an older date is a slip, or a spreadsheet's zero.
EARLIEST = date(2006, 1, 1)
# Of a name. Longer is another cell's text, and no table could show it.
MOST_CHARACTERS = 120
MOST_GPUS = 10_000  # of one instance
# Guard against a price in the wrong unit (per minute, per month, per token) or currency, per GPU-hour. Public list
# prices of data-centre GPUs ran from about 1 to 27 USD in 2026; the guard leaves a wide margin on both sides, and no
# exchange rate follows from it: lira went from 20 to 45 a dollar within three years.
MIN_USD_PER_GPU_HOUR = 0.05
MAX_USD_PER_GPU_HOUR = 200.0
PER_GPU_HOUR_RANGE: dict[Currency, tuple[float, float]] = {
    "USD": (MIN_USD_PER_GPU_HOUR, MAX_USD_PER_GPU_HOUR),
    "EUR": (0.05, 200.0),
    "GBP": (0.05, 200.0),
    "TRY": (2.0, 20_000.0),
}
COLUMNS = (
    "provider", "instance", "gpu", "gpu_count", "gpu_mem_gb", "usd_per_hour", "commitment", "valid_until",
    "region", "as_of", "source_url", "evidence", "notes",
)  # fmt: skip
# Of a file whose prices are in several currencies.
NATIVE_COLUMNS = (
    "provider", "instance", "gpu", "gpu_count", "gpu_mem_gb", "currency", "per_hour", "commitment", "valid_until",
    "region", "as_of", "source_url", "source_file", "source_sha256", "evidence", "notes",
)  # fmt: skip


class PriceRow(BaseModel):
    """One price, in its own currency. `per_hour` is for the whole instance; `per_gpu_hour` is that over `gpu_count`.

    `usd_per_hour=x` may be given in place of `currency="USD", per_hour=x`; a price without a currency is refused.

    `evidence`: A dated copy of the primary page, B dated third-party statement, C weak, contract: the user's own. A
    contract price needs no `source_url`: without one its source is `source_file` and that file's sha256.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    # The order matters: a check sees the fields before its own.
    provider: Text
    instance: Text
    gpu: Text
    gpu_count: Count
    gpu_mem_gb: OptionalPositive = None
    currency: Annotated[Currency, one_of(CURRENCIES)]
    per_hour: Positive
    commitment: Annotated[Commitment, one_of(get_args(Commitment))]
    region: OptionalText = ""
    as_of: Day
    valid_until: OptionalDay = None
    evidence: Annotated[Evidence, one_of(get_args(Evidence))]
    source_file: OptionalText = ""
    source_sha256: OptionalSha256 = ""
    source_url: OptionalUrl = Field("", validate_default=True)
    notes: Notes = ""

    @model_validator(mode="before")
    @classmethod
    def _usd_per_hour_is_price_and_currency(cls, given: Any) -> Any:
        if not isinstance(given, Mapping) or "usd_per_hour" not in given:
            return given
        values = dict(given)
        price = values.pop("usd_per_hour")
        if "per_hour" in values or values.get("currency", "USD") != "USD":
            raise ValueError("give usd_per_hour, or per_hour with its currency, and not both")
        return values | {"currency": "USD", "per_hour": price}

    @field_validator("per_hour")
    @classmethod
    def _in_range(cls, per_hour: float, info: ValidationInfo) -> float:
        count, currency = info.data.get("gpu_count"), info.data.get("currency")
        if count is None or currency is None:  # refused already
            return per_hour
        low, high = PER_GPU_HOUR_RANGE[currency]
        if not low <= per_hour / count <= high:
            raise ValueError(
                f"{per_hour:g} is {per_hour / count:g} {currency} per GPU-hour, outside {low:g} to {high:g}; "
                f"is it {currency} per hour for the whole instance?"
            )
        return per_hour

    @field_validator("provider", "instance", "gpu", "region")
    @classmethod
    def _is_a_name(cls, text: str) -> str:
        if len(text) > MOST_CHARACTERS:
            raise ValueError(f"has {len(text):,} characters, and a name has {MOST_CHARACTERS} at most; shorten it")
        return text

    @field_validator("gpu_count")
    @classmethod
    def _of_one_instance(cls, count: int) -> int:
        if count > MOST_GPUS:
            raise ValueError(f"{count:,} GPUs are more than one instance has ({MOST_GPUS:,} at most)")
        return count

    @field_validator("as_of", "valid_until")
    @classmethod
    def _not_before_there_were_prices(cls, day: date | None) -> date | None:
        if day is not None and day < EARLIEST:
            raise ValueError(
                f"{day} is before {EARLIEST}, when nothing was rented by the hour; give the price's own day"
            )
        return day

    @field_validator("as_of")
    @classmethod
    def _not_in_the_future(cls, as_of: date, info: ValidationInfo) -> date:
        """Only when the reader says what day it is (context "today"): a row alone knows no clock.

        A day's slack: where the price was read it may be tomorrow already.
        """
        today = (info.context or {}).get("today")
        if today is not None and as_of > today + timedelta(days=1):
            raise ValueError(f"{as_of} is in the future (today is {today})")
        return as_of

    @field_validator("valid_until")
    @classmethod
    def _not_before_as_of(cls, valid_until: date | None, info: ValidationInfo) -> date | None:
        as_of = info.data.get("as_of")
        if valid_until is not None and as_of is not None and valid_until < as_of:
            raise ValueError(f"{valid_until} is before the date of the price, {as_of}")
        return valid_until

    @field_validator("source_url")
    @classmethod
    def _has_a_source(cls, source_url: str, info: ValidationInfo) -> str:
        if source_url or "evidence" not in info.data:
            return source_url
        if info.data["evidence"] != "contract":
            raise ValueError("the cell is blank; only a contract price may name a file in place of a web address")
        if not (info.data.get("source_file") and info.data.get("source_sha256")):
            raise ValueError(
                "the cell is blank; a contract price names a web address, or source_file and source_sha256"
            )
        return source_url

    @property
    def per_gpu_hour(self) -> float:
        """In `currency`."""
        return self.per_hour / self.gpu_count

    @property
    def usd_per_hour(self) -> float | None:
        """None for a price in another currency: `pricing.fx` converts one, at a rate that somebody names."""
        return self.per_hour if self.currency == "USD" else None

    @property
    def usd_per_gpu_hour(self) -> float | None:
        return self.per_gpu_hour if self.currency == "USD" else None

    @property
    def gpu_key(self) -> str:
        """What a throughput is looked up by: A100s of 40 GB and of 80 GB are two machines with one name."""
        return self.gpu if self.gpu_mem_gb is None else f"{self.gpu} {self.gpu_mem_gb:g} GB"

    @property
    def is_contract(self) -> bool:
        return self.evidence == "contract"

    @property
    def source(self) -> str:
        """Where the price comes from: the web address, else the file with its sha256."""
        return self.source_url or f"{self.source_file} (sha256 {self.source_sha256})"

    def is_superseded(self, today: date) -> bool:
        """True once `valid_until` has passed: a later price took the place of this one."""
        return self.valid_until is not None and self.valid_until < today

    def is_stale(self, today: date) -> bool:
        """True when the price was read more than 90 days before `today`, counted on calendar days."""
        return (today - self.as_of).days > STALE_AFTER_DAYS
