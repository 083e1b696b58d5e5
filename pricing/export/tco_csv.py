"""A total cost of ownership month by month as CSV, an option and month a line; also as Turkish Excel opens it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from pricing.exchange import Exchange
from pricing.export.csv import Form, to_csv
from pricing.export.provenance import told_match, told_rates
from pricing.export.second import Second, second
from pricing.export.words import Words
from pricing.price_match import matched_prices
from pricing.scenario import Scenario
from pricing.scenario_file import fingerprint
from pricing.tables import PriceTable
from pricing.tco import Tco


def tco_to_csv(
    found: Tco,
    *,
    scenario: Scenario | None = None,
    case: str = "base",
    form: Form = "plain",
    table: PriceTable | None = None,
    exported_on: date | None = None,
    to: Exchange | None = None,
) -> str:
    """Money in the scenario's currency, which each line names beside the scenario and the sha256 of its numbers.
    scenario: as it was read, where `found` is of one of its cases: it is what the sha256 is of, as in all other files;
    `label` says that all of it is calculated, and `owed_after_term`, in the last month, what reservations still cost
    then. What an API has none of (replicas, GPUs) is empty. With a `table`,
    `prices_in_table` says of each rented part whether its price is in it, and only lines of an option that has one such
    carry its sha256 and file. to: another currency, in which each line has `shown_*` too, with the rate, its pair,
    side, day and source. form, exported_on: see `to_csv`. Raises RateError where no rate reaches that currency."""
    sha256 = fingerprint(scenario or found.scenario)
    scenario = found.scenario
    day, words = exported_on or date.today(), Words()
    stamps = _stamps(found, table, day, words)
    also = second(to, scenario.currency)
    rates = {"converted_at": "; ".join(told_rates(scenario, words))} if scenario.rates else {}
    rows = [
        {
            "scenario": scenario.name,
            "case": case,
            "option": option.name,
            "kind": option.kind,
            "arm": option.arm,
            "label": "calculated",
            "currency": scenario.currency,
            "year": (int(month["month"]) - 1) // 12 + 1,
            **{str(name): value for name, value in month.items()},
            "month": int(month["month"]),
            "paid": option.flows[int(month["month"])],
            "paid_today": option.flows[0] if month["month"] == 1 else 0.0,
            "owed_after_term": option.beyond_term if month["month"] == 12 * scenario.years else 0.0,
            "scenario_sha256": sha256,
            **rates,
            **stamps.get(option.name, {}),
        }
        for option in found.options
        for month in option.monthly.to_dict(orient="records")
    ]
    if also is not None:
        rows = [row | _shown(row, also) for row in rows]
    return to_csv(rows, day, form=form)


# Whole amounts: a line of the bill is one of many that `total` adds up.
_SHOWN = ("total", "paid", "paid_today", "owed_after_term")


def _shown(row: Mapping[str, object], also: Second) -> dict[str, object]:
    """The columns of a second currency, by the names that a cost table has."""
    rate = also.rate
    return {
        "shown_currency": also.currency,
        **{f"shown_{name}": also.amount(float(row[name])) for name in _SHOWN},  # type: ignore[arg-type]
        "rate": rate.rate,
        "rate_pair": f"{rate.base}/{rate.quote}",
        "rate_kind": rate.kind,
        "rate_day": rate.day,
        "rate_source": rate.source,
    }


def _stamps(found: Tco, table: PriceTable | None, day: date, words: Words) -> dict[str, dict[str, object]]:
    """By option: what of it the table vouches for."""
    if table is None:
        return {}
    matched = matched_prices(found.scenario, table, day)
    stamps: dict[str, dict[str, object]] = {}
    for name in {option.name for option in found.options}:
        parts = [part for part in matched if part.option == name]
        from_table = any(part.row is not None for part in parts)
        stamps[name] = {
            "prices_in_table": "; ".join(f"{part.value:g}: {told_match(part, words)}" for part in parts) or None,
            "price_table_sha256": table.sha256 if from_table else None,
            "price_table_file": table.file if from_table else None,
        }
    return stamps
