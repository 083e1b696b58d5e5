"""Scenarios (base, best, worst) and Sensitivity: what Python worked out at export, said so, beside what lives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pricing.break_even import MOST_TIMES, break_evens
from pricing.export.formula import Cells, Formula
from pricing.export.told import told
from pricing.export.words import Words
from pricing.export.workbook import Kind, Sheet
from pricing.export.xlsx_inputs import Inputs
from pricing.export.xlsx_options import Block
from pricing.scenario import CASES, Scenario
from pricing.sensitivity import Chances, Driver
from pricing.tco import Option, Tco

CASE_ROW = 4  # their names, which the switch on Summary is looked up in
_FIRST = 2


def case_names(sheet: Sheet, words: Words) -> Cells:
    """Written first: the switch needs them."""
    names = [words(f"case.{case}") for case in CASES]
    for i, name in enumerate(names):
        sheet.put(CASE_ROW, _FIRST + i, name, "number", "head")
    return sheet.cells((CASE_ROW, _FIRST), (CASE_ROW, _FIRST + len(CASES) - 1), tuple(names))


def write_scenarios(
    sheet: Sheet, scenario: Scenario, x: Inputs, blocks: Sequence[Block], cases: Sequence[Tco], words: Words, day: str
) -> None:
    """cases: the totals of base, best and worst, in this order."""
    sheet.put(0, 0, words("scenarios.title"), look="title")
    sheet.put(1, 0, words("scenarios.note"), look="about")
    sheet.put(CASE_ROW, 0, words("scenarios.inputs"), look="head")
    sheet.put(CASE_ROW, 1, words("calc.unit"), look="head")
    row = CASE_ROW + 1
    for number in told(scenario, words):
        best, worst = x.cases[number.path]
        if best is None and worst is None:
            continue
        kind: Kind = {"share": "share", "rate": "rate"}.get(number.kind, "number")  # type: ignore[assignment]
        base = x.base[number.path]
        sheet.put(row, 0, f"{number.section}: {number.name}")
        sheet.put(row, 1, number.unit, look="note")
        sheet.row(row, _FIRST, (base, best or base, worst or base), kind)
        row += 1
    if row == CASE_ROW + 1:
        sheet.put(row, 0, words("scenarios.none"), look="note")
        row += 1
    for title, pick in (("scenarios.totals", "total"), ("scenarios.npvs", "npv_of_cost")):
        row += 1
        sheet.put(row, 0, words(title, date=day), look="head")
        sheet.made.set_row(row, 30)
        sheet.put(row, 1, words("calc.unit"), look="head")
        for i, case in enumerate(CASES):
            sheet.put(row, _FIRST + i, words(f"case.{case}"), "number", "head")
        sheet.put(row, _FIRST + len(CASES), words("scenarios.now"), "number", "head")
        for block in blocks:
            row += 1
            sheet.put(row, 0, block.label)
            sheet.put(row, 1, scenario.currency, look="note")
            for i, case_tco in enumerate(cases):
                sheet.put(row, _FIRST + i, getattr(of_block(case_tco, block), pick), "money")
            live = block.flows.whole if pick == "total" else block.discounted.whole
            sheet.put(row, _FIRST + len(CASES), live, "money", "strong")
        row += 1
    sheet.widths({0: 58, 1: 20, 2: 18, 3: 18, 4: 18, 5: 20})
    sheet.made.freeze_panes(CASE_ROW + 1, 1)
    sheet.print_as()


def of_block(found: Tco, block: Block) -> Option:
    return next(o for o in found.options if (o.name, o.kind, o.arm) == (block.name, block.kind, block.arm))


@dataclass(frozen=True)
class Swings:
    """A tornado of one option."""

    block: Block
    drivers: Sequence[Driver]


def write_sensitivity(
    sheet: Sheet, scenario: Scenario, swings: Swings, chances: Sequence[Chances], words: Words, day: str
) -> None:
    sheet.put(0, 0, words("sensitivity.title"), look="title")
    sheet.put(1, 0, words("sensitivity.note", date=day), look="about")
    base = swings.drivers[0].base_cost if swings.drivers else None
    sheet.put(3, 0, words("sensitivity.of", option=swings.block.title), look="section")
    sheet.put(4, 0, words("sensitivity.live"))
    sheet.put(4, 1, swings.block.flows.whole, "money", "strong")
    sheet.put(5, 0, words("sensitivity.base", date=day))
    sheet.put(5, 1, base, "money")
    row = _tornado(sheet, scenario, swings, words, 7, day)
    row = _chances(sheet, chances, words, row + 1)
    _break_even(sheet, scenario, words, row + 1, day)
    sheet.widths({0: 62, 1: 18, 2: 14, 3: 14, 4: 18, 5: 18, 6: 18, 7: 18, 8: 18})
    sheet.print_as()


def _tornado(sheet: Sheet, scenario: Scenario, swings: Swings, words: Words, row: int, day: str) -> int:
    heads = ("driver", "unit", "low", "high", "low_cost", "high_cost", "low_change", "high_change")
    for i, head in enumerate(heads):
        sheet.put(row, i, words(f"sensitivity.{head}"), "text" if i < 2 else "number", "head")
    if not swings.drivers:
        sheet.put(row + 1, 0, words("sensitivity.none"), look="note")
        return row + 2
    by_path = {number.path: number for number in told(scenario, words)}
    first, base = row + 1, Formula(sheet.at(5, 1), swings.drivers[0].base_cost)
    for driver in swings.drivers:
        row += 1
        number = by_path[driver.path]
        kind: Kind = {"share": "share", "rate": "rate"}.get(number.kind, "number")  # type: ignore[assignment]
        sheet.put(row, 0, f"{number.section}: {number.name}")
        sheet.put(row, 1, number.unit, look="note")
        sheet.row(row, 2, (driver.low, driver.high), kind)
        costs = [sheet.put(row, 4 + i, cost, "money") for i, cost in enumerate((driver.low_cost, driver.high_cost))]
        sheet.row(row, 6, [cost - base for cost in costs], "change")
    sheet.coloured((first, 6), (row, 7))
    chart = sheet.workbook.book.add_chart({"type": "bar", "subtype": "stacked"})
    for i, (key, colour) in enumerate((("low_change", "#1D4ED8"), ("high_change", "#EA8C00"))):
        chart.add_series(
            {
                "name": words(f"sensitivity.{key}"),
                "categories": [sheet.made.get_name(), first, 0, row, 0],
                "values": [sheet.made.get_name(), first, 6 + i, row, 6 + i],
                "fill": {"color": colour}, "gap": 40, "overlap": 100,
            }
        )  # fmt: skip
    chart.set_title(
        {
            "name": words("sensitivity.chart", date=day),
            "name_font": {"size": 11},
            "overlay": False,
        }
    )
    chart.set_y_axis({"reverse": True, "label_position": "low", "num_font": {"size": 8}, "line": {"none": True}})
    chart.set_x_axis(
        {
            "num_format": f'"{sheet.workbook.symbol}"#,##0',
            "num_font": {"size": 8},
            "major_gridlines": {"visible": True, "line": {"color": "#D9DEE4"}},
        }
    )
    chart.set_legend({"position": "bottom"})
    height = max(220, 120 + 26 * len(swings.drivers))
    chart.set_size({"width": 1040, "height": height})
    sheet.made.insert_chart(row + 2, 0, chart)
    return row + 3 + height // 20


def _chances(sheet: Sheet, chances: Sequence[Chances], words: Words, row: int) -> int:
    if not chances:
        return row
    draws = len(chances[0].totals)
    sheet.put(row, 0, words("sensitivity.chances", draws=draws), look="section")
    row += 1
    targeted = any(chance.missed_share is not None for chance in chances)
    for i, head in enumerate(("option", "p05", "p50", "p95", "mean", "loss", *(["missed"] if targeted else []))):
        sheet.put(row, i, words(f"chances.{head}"), "number" if i else "text", "head")
    for chance in chances:
        row += 1
        sheet.put(row, 0, chance.option)
        sheet.row(row, 1, (chance.p05, chance.p50, chance.p95, chance.mean), "money")
        sheet.put(row, 5, chance.loss_share, "share")
        if targeted:
            sheet.put(row, 6, chance.missed_share, "share")
    return row + 2


def _break_even(sheet: Sheet, scenario: Scenario, words: Words, row: int, day: str) -> None:
    """From what demand on an own fleet costs less than an API: a search, and so no formula."""
    if not scenario.api:
        return
    sheet.put(row, 0, words("sensitivity.break_even", date=day), look="section")
    row += 1
    for column, head in enumerate(("requests", "tokens", "busy"), 1):
        sheet.put(row, column, words(f"break_even.{head}"), "number", "head")
    sheet.made.set_row(row, 30)
    for even in break_evens(scenario):
        row += 1
        sheet.put(row, 0, words("sensitivity.instead", own=even.option, other=even.instead_of))
        if even.requests_per_day:
            sheet.row(row, 1, (even.requests_per_day, even.tokens_per_month), "count")
            sheet.put(row, 3, even.busy_share, "share")
        else:
            key = "sensitivity.never" if even.requests_per_day is None else "break_even.always"
            sheet.put(row, 1, words(key, times=words.number(MOST_TIMES)))
