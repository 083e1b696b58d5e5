"""Which of a scenario's rented prices are in a price table: its hash vouches for its own rows alone.

A price is from a row of the same GPU and commitment that is in force, when it is what the row says per GPU-hour, to the
digits that the price is written with, and is said to be: it is a quoted one whose source names the row's provider or
web address (a contract's file), or the table by its file or hash. Any other is the user's own price, whatever it
equals: many providers ask the same. A row of another currency is compared at the rate that the scenario was converted
at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from pricing.fx import Rate, RateError, Rates
from pricing.rows import PriceRow
from pricing.scenario import Scenario
from pricing.scenario_options import CloudPart
from pricing.tables import PriceTable

_FEWEST_DECIMALS = 2
_HASH_SHOWN = 12


@dataclass(frozen=True)
class PartPrice:
    """One part of one cloud option. row: the row that its price is from, None where it is the user's own; more: how
    many other rows of that source ask the same; rate: the one at which the row was compared, None in its own currency.
    value: per GPU-hour, in the scenario's currency."""

    option: str
    path: str
    value: float
    row: PriceRow | None
    more: int = 0
    rate: Rate | None = None

    @property
    def found(self) -> tuple[str, str, str] | None:
        """(provider, instance, day) for people."""
        return None if self.row is None else (self.row.provider, self.row.instance, self.row.as_of.isoformat())


def matched_prices(scenario: Scenario, table: PriceTable, today: date) -> tuple[PartPrice, ...]:
    """Every part of every cloud option, in the scenario's order. today: the day whose prices are in force."""
    gpu = scenario.serving.gpu
    rows = [row for row in table.on(today) if gpu in (row.gpu, row.gpu_key)]
    return tuple(
        _matched(option.name, f"cloud.{i}.parts.{j}.per_gpu_hour", part, rows, scenario, table)
        for i, option in enumerate(scenario.cloud)
        for j, part in enumerate(option.parts)
    )


def _matched(
    option: str, path: str, part: CloudPart, rows: Sequence[PriceRow], scenario: Scenario, table: PriceTable
) -> PartPrice:
    value, source = part.per_gpu_hour.value, part.per_gpu_hour.source
    # What was changed by hand is an assumed number, and its source tells whose the one before it was.
    quoted = part.per_gpu_hour.label == "quoted"
    of_table = quoted and _names_table(source, table)
    same = [
        (*_told(row, source), row.provider, row.instance, i, rate)
        for i, row in enumerate(rows)
        if row.commitment == part.commitment and (of_table or (quoted and _names_row(source, row)))
        for price, rate in _in_currency(row, scenario)
        if _is_rounded(price, value)
    ]
    if not same:
        return PartPrice(option, path, value, None)
    # Several may ask the same: the one that the source tells most of.
    *_, at, rate = min(same, key=lambda one: one[:-1])
    return PartPrice(option, path, value, rows[at], len({one[-2] for one in same}) - 1, rate)


def _names_row(source: str, row: PriceRow) -> bool:
    return _names(source, row.provider) or _names_address(source, row.source_url) or _names_file(source, row)


def _names_table(source: str, table: PriceTable) -> bool:
    files = table.file.split(" + ")
    return any(_names(source, name) for name in files) or _names_hash(source, table.sha256)


def _names_file(source: str, row: PriceRow) -> bool:
    return bool(row.source_file and _names(source, row.source_file)) or _names_hash(source, row.source_sha256)


def _names_hash(source: str, sha256: str) -> bool:
    """Whole, or as far as the page shows it."""
    return bool(sha256) and sha256[:_HASH_SHOWN].casefold() in source.casefold()


def _names(source: str, name: str) -> bool:
    """As words of its own: "AWS" is not in "laws"."""
    return re.search(rf"(?<!\w){re.escape(name.casefold())}(?!\w)", source.casefold()) is not None


def _names_address(source: str, address: str) -> bool:
    """That page and none below it; a slash at its end makes no difference."""
    end = r"/?(?![\w/?#&=%-]|\.\w)"
    return bool(address) and re.search(re.escape(address.rstrip("/").casefold()) + end, source.casefold()) is not None


def _told(row: PriceRow, source: str) -> tuple[bool, bool, bool, bool]:
    """What the source does not tell of the row; False sorts first."""
    return (
        not _names(source, row.provider),
        not _names(source, row.instance),
        row.as_of.isoformat() not in source,
        not _names_address(source, row.source_url),
    )


def _in_currency(row: PriceRow, scenario: Scenario) -> Iterator[tuple[float, Rate | None]]:
    if row.currency == scenario.currency:
        yield row.per_gpu_hour, None
        return
    for used in scenario.rates:
        try:
            made = Rates([used.rate]).convert(
                row.per_gpu_hour, row.currency, scenario.currency, kind=used.rate.kind
            )  # fmt: skip
        except RateError:
            continue
        yield made.amount, made.rate


def _is_rounded(price: float, value: float) -> bool:
    """Whether `value` is `price` to the digits that `value` has, at least cents."""
    exponent = Decimal(repr(value)).normalize().as_tuple().exponent
    decimals = max(_FEWEST_DECIMALS, -exponent if isinstance(exponent, int) else 0)
    return abs(price - value) <= 0.5 * 10.0**-decimals * (1 + 1e-9)
