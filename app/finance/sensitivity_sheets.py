"""What moves the total, as tables: one number at a time, two at once, by chance, and between two scenarios."""

from collections.abc import Sequence
from typing import Any

from app.catalogue import Words
from app.components.finance_views import blocks
from app.finance import fields, shown
from app.finance.desk import Now
from app.finance.tco_charts import value
from app.finance.tco_sheets import titled
from pricing.export.told_moved import sentences
from pricing.export.words import Words as ExportWords
from pricing.figure import Bounds, Figure
from pricing.moved import Moved
from pricing.scenario import Scenario
from pricing.sensitivity import Chances, Driver

SIZE = 5  # values of each number in a two-way table
MOST_MOVED = 12


def drivers(found: list[Driver], scenario: Scenario, words: Words) -> dict[str, Any]:
    """The tornado's figures."""
    if not found:
        return blocks({"type": "text", "text": words("no_ranges"), "tone": "small"})
    money = scenario.currency
    rows = [
        {
            "cells": [
                {"t": fields.full_label(scenario, d.path, words), "why": ["input", d.path]},
                {"t": value(d.path, d.low, words), "why": ["input", d.path]},
                {"t": value(d.path, d.high, words), "why": ["input", d.path]},
                {"t": shown.money(d.low_cost, money, words), "why": ["driver", d.path, "low"]},
                {"t": shown.money(d.high_cost, money, words), "why": ["driver", d.path, "high"]},
                {"t": shown.money(d.swing, money, words), "why": ["driver", d.path, "swing"]},
            ]
        }
        for d in found
    ]
    symbol = shown.symbol(money)
    columns = [
        {"text": words("col_number"), "text_left": True},
        {"text": words("col_low")},
        {"text": words("col_high")},
        {"text": words("col_total_low"), "unit": symbol},
        {"text": words("col_total_high"), "unit": symbol},
        {"text": words("col_swing"), "unit": symbol},
    ]
    table = {"type": "table", "name": "drivers", "columns": columns, "rows": rows, "dense": True}
    return blocks({"type": "fold", "name": "drivers", "title": words("drivers_table", n=len(found)), "blocks": [table]})


def steps(figure: Figure, bounds: Bounds | None = None) -> list[float]:
    """Values of a number for a two-way table: over its range, or half to double of it, in what it may be."""
    low, high = figure.ends
    if low == high:
        low, high = (figure.value / 2, figure.value * 2) if figure.value > 0 else (figure.value, figure.value + 1)
    if bounds is not None:
        low, high = bounds.clipped(low, figure.value), bounds.clipped(high, figure.value)
    even = [low + (high - low) * i / (SIZE - 1) for i in range(SIZE)]
    if bounds is not None and bounds.whole:
        even = [bounds.clipped(v, figure.value) for v in even]
    # Its own value takes the place of one next to it: two columns that say the same would be one too many.
    near = 0 if bounds is not None and bounds.whole else (high - low) / (3 * SIZE)
    return sorted({*(v for v in even if abs(v - figure.value) > near), figure.value})


def two_way(
    row: tuple[str, Sequence[float]],
    across: tuple[str, Sequence[float]],
    totals: list[list[float]],
    scenario: Scenario,
    words: Words,
) -> dict[str, Any]:
    """Totals over two numbers; the darker, the dearer; the scenario's own pair is marked."""
    figures = scenario.figures()
    everything = [total for line in totals for total in line]
    low, span = min(everything), max(everything) - min(everything)
    rows = []
    for i, (own, line) in enumerate(zip(row[1], totals, strict=True)):
        cells: list[Any] = [value(row[0], own, words)]
        for j, total in enumerate(line):
            here = own == figures[row[0]].value and across[1][j] == figures[across[0]].value
            cells.append(
                {
                    "t": shown.money(total, scenario.currency, words),
                    "why": ["two_way", row[0], across[0], str(i), str(j)],
                    "heat": round((total - low) / span, 3) if span > 0 else 0,
                    **({"tone": "here"} if here else {}),
                }
            )
        rows.append({"cells": cells})
    columns: list[dict[str, Any]] = [{"text": "↓ →", "text_left": True}]
    columns += [{"text": value(across[0], x, words)} for x in across[1]]
    return {"type": "table", "name": "two_way", "columns": columns, "rows": rows, "dense": True, "tight": True}


def chances(found: list[Chances], draws: int, now: Now, words: Words) -> list[dict[str, Any]]:
    """P5, P50, P95 of each option, how often speculation is a loss and how often no fleet keeps the P95 target."""
    money = now.scenario.currency
    targeted = any(one.missed_share is not None for one in found)
    rows = []
    for one in sorted(found, key=lambda c: c.p50):
        cells: list[Any] = [{"t": titled(now, one.option, words)}]
        for name in ("p05", "p50", "p95", "mean"):
            cells.append({"t": shown.money(getattr(one, name), money, words), "why": ["chance", one.option, name]})
        loss = one.loss_share
        tone = "quiet" if loss is None else "loss" if loss >= 0.5 else "gain"
        text = shown.NOTHING if loss is None else shown.percent(loss, words)
        cells.append(
            {"t": text, "tone": tone} | ({"why": ["chance", one.option, "loss_share"]} if loss is not None else {})
        )
        if targeted:
            cells.append(_missed(one, words))
        rows.append({"cells": cells})
    symbol = shown.symbol(money)
    columns = [
        {"text": words("col_option"), "text_left": True},
        *({"text": name, "unit": symbol} for name in ("P5", "P50", "P95")),
        {"text": words("col_mean"), "unit": symbol},
        {"text": words("col_loss_share")},
        *([{"text": words("col_missed_share")}] if targeted else []),
    ]
    told = [words("chances_told", n=shown.number(draws, words, 6))]
    if any(one.missed_share for one in found):
        told.append(words("chances_missed"))
    return [
        {"type": "table", "name": "chances", "columns": columns, "rows": rows, "cards": True},
        *({"type": "text", "text": text, "tone": "small"} for text in told),
    ]


def _missed(one: Chances, words: Words) -> dict[str, Any]:
    if one.missed_share is None:  # an API
        return {"t": shown.NOTHING, "tone": "quiet"}
    tone = "loss" if one.missed_share > 0 else "gain"
    return {"t": shown.percent(one.missed_share, words), "tone": tone, "why": ["chance", one.option, "missed_share"]}


def moved(
    found: list[Moved], before: Scenario, after: Scenario, name: str, totals: tuple[float, float] | None, words: Words
) -> list[dict[str, Any]]:
    """What is other in `after`, in sentences, what moves the total most first."""
    told = sentences(found, before, after, ExportWords(words.language))
    items = [{"t": text, "why": ["moved", one.kind, one.path]} for one, text in zip(found, told, strict=True)]
    if not items:
        return [{"type": "text", "text": words("moved_nothing"), "tone": "small"}]
    made: list[dict[str, Any]] = []
    if totals is not None:
        made.append(
            {
                "type": "text", "tone": "lead",
                "text": words(
                    "moved_total", name=name, before=shown.money(totals[0], before.currency, words),
                    after=shown.money(totals[1], after.currency, words),
                ),
            }
        )  # fmt: skip
    made.append({"type": "list", "items": items[:MOST_MOVED]})
    if len(items) > MOST_MOVED:
        rest = {"type": "list", "items": items[MOST_MOVED:]}
        title = words("moved_more", n=len(items) - MOST_MOVED)
        made.append({"type": "fold", "name": "moved", "title": title, "blocks": [rest]})
    return [*made, {"type": "text", "text": words("moved_told"), "tone": "small"}]
