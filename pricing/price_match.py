"""Which of a scenario's rented prices are in a price table: its hash vouches for its own rows alone.

A price matches a row of the same GPU and commitment that is in force, when it is what the row says per GPU-hour, to the
digits that the price is written with. A row of another currency is compared at the rate that the scenario was converted
at.
"""

from __future__ import annotations

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


@dataclass(frozen=True)
class PartPrice:
    """One part of one cloud option. row: the row that its price is in the table as, None where there is none; more: how
    many other rows say the same; rate: the one at which the row was compared, None in its own currency."""

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
        _matched(option.name, f"cloud.{i}.parts.{j}.per_gpu_hour", part, rows, scenario)
        for i, option in enumerate(scenario.cloud)
        for j, part in enumerate(option.parts)
    )


def _matched(option: str, path: str, part: CloudPart, rows: Sequence[PriceRow], scenario: Scenario) -> PartPrice:
    value = part.per_gpu_hour.value
    told = f"{option} {part.per_gpu_hour.source}".casefold()
    same = [
        (row.provider.casefold() not in told, row.provider, row.instance, i, rate)
        for i, row in enumerate(rows)
        if row.commitment == part.commitment
        for price, rate in _in_currency(row, scenario)
        if _is_rounded(price, value)
    ]
    if not same:
        return PartPrice(option, path, value, None)
    # Several may ask the same: the one that the scenario names first.
    *_, at, rate = min(same, key=lambda one: one[:4])
    return PartPrice(option, path, value, rows[at], len({one[3] for one in same}) - 1, rate)


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
