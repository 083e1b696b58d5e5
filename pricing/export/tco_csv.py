"""A total cost of ownership month by month as CSV, an option and month a line; also as Turkish Excel opens it."""

from __future__ import annotations

from datetime import date

from pricing.export.csv import Form, to_csv
from pricing.export.xlsx_notes import fingerprint
from pricing.tables import PriceTable
from pricing.tco import Tco


def tco_to_csv(
    found: Tco,
    *,
    case: str = "base",
    form: Form = "plain",
    table: PriceTable | None = None,
    exported_on: date | None = None,
) -> str:
    """Money in the scenario's currency, which each line names beside the scenario and the sha256 of its numbers;
    `label` says that all of it is calculated. What an API has none of (replicas, GPUs) is empty. table, form,
    exported_on: see `to_csv`."""
    scenario, sha256 = found.scenario, fingerprint(found.scenario)
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
            "scenario_sha256": sha256,
        }
        for option in found.options
        for month in option.monthly.to_dict(orient="records")
    ]
    return to_csv(rows, exported_on, form=form, table=table)
