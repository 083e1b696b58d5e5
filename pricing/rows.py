"""One price of the table and what a cell may hold. Each check says in a sentence what was wrong.

A missing price is an absent row. It is never stored as 0, which would make a GPU look free and rank first.
"""

from __future__ import annotations

import math
import numbers
import re
import unicodedata
from datetime import date, timedelta
from decimal import Decimal
from typing import Annotated, Literal, get_args
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationInfo, field_validator

Commitment = Literal[
    "on_demand", "spot", "reserved_1yr", "reserved_3yr", "capacity_block", "marketplace", "reserved_unstated"
]
Evidence = Literal["A", "B", "C"]

STALE_AFTER_DAYS = 90
# Guard against a price in the wrong unit (per minute, per month, per token, another currency), in USD per
# GPU-hour. Public list prices of data-centre GPUs ran from about 1 to 27 in 2026; the guard leaves a wide
# margin on both sides.
MIN_USD_PER_GPU_HOUR = 0.05
MAX_USD_PER_GPU_HOUR = 200.0
COLUMNS = (
    "provider", "instance", "gpu", "gpu_count", "gpu_mem_gb", "usd_per_hour", "commitment", "valid_until",
    "region", "as_of", "source_url", "evidence", "notes",
)  # fmt: skip
_PLAIN_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")
_PLAIN_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
# Control, format (zero width, text direction), lone surrogate, line and paragraph separator: what a reader of the
# table cannot see, and what can make a cell read as another one.
_UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")


def finite(value: object) -> float | None:
    """`value` as a finite float, or None when it is not a number, is too large for one, or is NaN or infinite.

    True is not 1 and "2.49" is not 2.49: a caller who passes those has mixed something up.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real | Decimal):
        return None
    try:
        number = float(value)
    except (OverflowError, ValueError):  # 10**400; a signalling NaN
        return None
    return number if math.isfinite(number) else None


def shown(value: object) -> str:
    """`value` for a message: short, and with what cannot be seen spelt out."""
    if isinstance(value, int) and abs(value) >= 10**15:  # Python refuses to write out very long ones
        return "a number of too many digits"
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def _number(value: object) -> float:
    """A positive finite number; text must be plain digits and a point, so '2,49' is never read as 249."""
    if isinstance(value, bool) or value is None:
        raise ValueError(f"{value!r} is not a number")
    if isinstance(value, str):
        text = _seen(value)
        if not text:
            raise ValueError("the cell is blank; leave the row out when there is no figure")
        if not _PLAIN_NUMBER.fullmatch(text):
            raise ValueError(f"{shown(text)} is not a plain positive number such as 2.49")
        value = float(text)
    number = finite(value)
    if number is None:
        raise ValueError(f"{shown(value)} is not a finite number")
    if number <= 0:
        raise ValueError(f"{shown(value)} must be above 0; a missing figure is never 0")
    return number


def _optional_number(value: object) -> float | None:
    return None if value is None or (isinstance(value, str) and not value.strip()) else _number(value)


def _count(value: object) -> int:
    number = _number(value)
    if not number.is_integer():
        raise ValueError(f"{value!r} is not a whole number")
    return int(number)


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("the cell is blank")
    return _seen(value)


def _optional_text(value: object) -> str:
    return "" if value is None else _seen(str(value))


def _notes(value: object) -> str:
    return "" if value is None else _seen(str(value), allowed="\t\r\n")


def _seen(text: str, allowed: str = "") -> str:
    """`text` without the space around it; refused when it holds a character that nobody sees."""
    for character in text.strip(" \t\r\n"):  # not a bare strip(): that would drop some control characters
        if unicodedata.category(character) in _UNSEEN and character not in allowed:
            raise ValueError(f"there is an invisible character (U+{ord(character):04X}) in {shown(text)}")
    return text.strip()


def _day(value: object) -> date:
    """A calendar day without a time zone: 2026-03-01 is 2026-03-01 everywhere."""
    if type(value) is date:  # a datetime is a date too, and carries a clock that must not be dropped silently
        return value
    text = _text(value) if isinstance(value, str) else repr(value)
    if not _PLAIN_DATE.fullmatch(text):
        raise ValueError(f"{shown(text)} is not a date written YYYY-MM-DD")
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a day of the calendar") from None


def _optional_day(value: object) -> date | None:
    return None if value is None or (isinstance(value, str) and not value.strip()) else _day(value)


def _url(value: object) -> str:
    text = _text(value)
    # Before any message that repeats the address: what is in front of the @ may be a password.
    if "@" in re.split(r"[/?#]", text.split("//", 1)[-1], maxsplit=1)[0]:
        raise ValueError("the web address holds a user name or password in front of an @; leave it out")
    try:
        parts = urlsplit(text)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and "." in (parts.hostname or "")
    except ValueError:  # e.g. an unclosed bracket in the host
        valid = False
    if not valid or any(c.isspace() for c in text):
        raise ValueError(f"{shown(text)} is not a web address that starts with http:// or https://")
    return text


def _one_of(allowed: tuple[str, ...]) -> BeforeValidator:
    def check(value: object) -> str:
        text = _text(value)
        if text not in allowed:
            raise ValueError(f"{shown(text)} is not one of {', '.join(allowed)}")
        return text

    return BeforeValidator(check)


Text = Annotated[str, BeforeValidator(_text)]
OptionalText = Annotated[str, BeforeValidator(_optional_text)]
Notes = Annotated[str, BeforeValidator(_notes)]


class PriceRow(BaseModel):
    """One list price. `usd_per_hour` is for the whole instance; `usd_per_gpu_hour` is that over `gpu_count`.

    `evidence`: A dated copy of the primary page, B dated third-party statement, C weak.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    provider: Text
    instance: Text
    gpu: Text
    gpu_count: Annotated[int, BeforeValidator(_count)]
    gpu_mem_gb: Annotated[float | None, BeforeValidator(_optional_number)] = None
    usd_per_hour: Annotated[float, BeforeValidator(_number)]
    commitment: Annotated[Commitment, _one_of(get_args(Commitment))]
    region: OptionalText = ""
    as_of: Annotated[date, BeforeValidator(_day)]
    valid_until: Annotated[date | None, BeforeValidator(_optional_day)] = None
    source_url: Annotated[str, BeforeValidator(_url)]
    evidence: Annotated[Evidence, _one_of(get_args(Evidence))]
    notes: Notes = ""

    @field_validator("usd_per_hour")
    @classmethod
    def _in_range(cls, usd_per_hour: float, info: ValidationInfo) -> float:
        per_gpu = usd_per_hour / info.data.get("gpu_count", 1)
        if "gpu_count" in info.data and not MIN_USD_PER_GPU_HOUR <= per_gpu <= MAX_USD_PER_GPU_HOUR:
            raise ValueError(
                f"{usd_per_hour:g} is {per_gpu:g} USD per GPU-hour, outside {MIN_USD_PER_GPU_HOUR:g} to "
                f"{MAX_USD_PER_GPU_HOUR:g}; is it USD per hour for the whole instance?"
            )
        return usd_per_hour

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

    @property
    def usd_per_gpu_hour(self) -> float:
        return self.usd_per_hour / self.gpu_count

    @property
    def gpu_key(self) -> str:
        """What a throughput is looked up by: A100s of 40 GB and of 80 GB are two machines with one name."""
        return self.gpu if self.gpu_mem_gb is None else f"{self.gpu} {self.gpu_mem_gb:g} GB"

    def is_superseded(self, today: date) -> bool:
        """True once `valid_until` has passed: a later price took the place of this one."""
        return self.valid_until is not None and self.valid_until < today

    def is_stale(self, today: date) -> bool:
        """True when the price was read more than 90 days before `today`, counted on calendar days."""
        return (today - self.as_of).days > STALE_AFTER_DAYS
