"""The TCO tab's bill of one option, year by year."""

from typing import Any

from app.catalogue import Words
from app.components.finance_views import blocks
from app.finance import shown
from app.finance.desk import Now
from app.finance.tco_sheets import amount_cell, figure
from pricing import Exchange
from pricing.bill import LINES
from pricing.scenario import Arm
from pricing.tco import BEHIND

QUANTITIES = ("requests", "replicas", "gpus", "busy_share")


def years(now: Now, name: str, arm: Arm, words: Words, to: Exchange | None = None) -> dict[str, Any]:
    """The bill by year, a row a line of it. to: another currency, in which each year's total stands too."""
    option = now.made.option(name, arm)
    table, money = option.yearly, now.scenario.currency
    rows: list[dict[str, Any]] = []
    for quantity in QUANTITIES:
        values = [float(v) for v in table[quantity]]
        if all(v == v for v in values):  # an API has no replicas
            texts = [_quantity(quantity, v, words) for v in values]
            cells: list[Any] = [words(f"year_{quantity}")]
            cells += [figure(t, ["year", name, option.arm, quantity, str(y + 1)]) for y, t in enumerate(texts)]
            rows.append({"cells": [*cells, None], "tone": "quiet"})
    for line in (*LINES, *BEHIND, "total"):
        values = [float(v) for v in table[line]]
        if line != "total" and not any(values):
            continue
        also = to if line == "total" else None
        cells = [words(f"line_{line}")]
        cells += [
            amount_cell(v, money, also, words, ["year", name, option.arm, line, str(y + 1)])
            for y, v in enumerate(values)
        ]
        whole = ["year", name, option.arm, line, "0"] if line != "total" else ["option", name, option.arm, "total"]
        cells.append(amount_cell(sum(values), money, also, words, whole))
        rows.append({"cells": cells, "tone": "total" if line == "total" else ""})
    columns = [
        {"text": words("col_line"), "unit": shown.symbol(money), "text_left": True},
        *({"text": words("col_year", n=int(y))} for y in table["year"]),
        {"text": words("col_all_years")},
    ]
    return blocks({"type": "table", "name": "years", "columns": columns, "rows": rows, "dense": True})


def _quantity(name: str, value: float, words: Words) -> str:
    if name == "busy_share":
        return shown.percent(value, words, 0)
    return shown.number(value, words, 6) if name == "requests" else shown.number(round(value, 1), words, 12)
