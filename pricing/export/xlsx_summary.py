"""The Summary sheet: what it costs, what speculation is worth, any option in place of any other, and the checks."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from pricing.export.formula import (
    Cells,
    Formula,
    apart,
    choose,
    entry,
    largest,
    literal,
    mean,
    place_of,
    place_of_smallest,
    rank_of,
    rounded,
    sign_of,
    smallest,
    when,
)
from pricing.export.told import Conditions
from pricing.export.words import NO_VALUE, Words
from pricing.export.workbook import Kind, Sheet
from pricing.export.xlsx_cases import of_block
from pricing.export.xlsx_charts import cumulative_chart, waterfall_chart
from pricing.export.xlsx_choices import Choices, Compared
from pricing.export.xlsx_inputs import Inputs
from pricing.export.xlsx_options import Block
from pricing.scenario import Scenario
from pricing.tco import Tco

CASE, OWN, OTHER = (4, 1), (5, 1), (6, 1)  # the three cells that a reader chooses in
_HEADLINE = 8
_CHARTS = 15
_TABLES = 34
COSTS = (
    "per_request", "per_million_input", "per_million_cached_input", "per_million_output", "blended_per_million",
    "per_1000_words_english", "per_1000_words_turkish",
)  # fmt: skip


def choices_cells(sheet: Sheet, words: Words, case: str, names: Cells) -> Formula:
    """The case's switch, written before all that follows it; its number from 1."""
    sheet.put(CASE[0], 0, words("summary.case"))
    picked = sheet.put(*CASE, words(f"case.{case}"), look="input")
    sheet.made.data_validation(*CASE, *CASE, {"validate": "list", "source": "=" + names.text})
    return place_of(picked, names)


def write_pickers(sheet: Sheet, words: Words, choices: Choices, own: Block, other: Block) -> tuple[Formula, Formula]:
    """The two options that are compared: their labels' cells."""
    cells = []
    for at, key, block in ((OWN, "summary.own", own), (OTHER, "summary.other", other)):
        sheet.put(at[0], 0, words(key))
        sheet.made.merge_range(at[0], at[1], at[0], at[1] + 2, "", sheet.workbook.format("text", "input"))
        cells.append(sheet.put(*at, block.label, look="input"))
        sheet.made.data_validation(*at, *at, {"validate": "list", "source": "=" + choices.labels.text})
    return cells[0], cells[1]


class Summary:
    def __init__(
        self, sheet: Sheet, scenario: Scenario, x: Inputs, choices: Choices, words: Words, python: Tco, swung: Block
    ) -> None:  # fmt: skip
        self.sheet, self.scenario, self.x, self.choices, self.words = sheet, scenario, x, choices, words
        self.blocks, self.python, self.swung = choices.blocks, python, swung
        self.row = 0

    def write(
        self,
        speculation: Sequence[Compared],
        chosen: Compared,
        by_line: dict[str, Cells],
        places: tuple[Formula, Formula],
        cases: Sequence[Tco],
        day: str,
        months: int,
        hangs: Conditions,
    ) -> None:
        """cases: the totals of base, best and worst, in this order."""
        sheet, words, scenario = self.sheet, self.words, self.scenario
        sheet.put(0, 0, scenario.name, look="title")
        sheet.put(
            1,
            0,
            words("summary.subtitle", term=words.term(scenario.years), currency=scenario.currency, date=day),
            look="about",
        )
        sheet.put(2, 0, words("summary.how"), look="about")
        self._headline(chosen, cases, day)
        self.row = _TABLES
        if scenario.about:
            sheet.put(self.row, 0, scenario.about, look="about")
            self.row += 2
        self._options()
        self._speculation(speculation)
        bars = self._waterfall(chosen, by_line, places)
        self._conditions(hangs)
        self._checks(day)
        self._charts(bars, months)
        largest = max(option.total for found in cases for option in found.options)
        # Narrow, so that it prints large, but no amount as a row of #.
        sheet.widths({0: 44, **dict.fromkeys(range(1, 15), max(14.0, len(f"{largest:,.2f}") + 1.5))})
        sheet.made.freeze_panes(_HEADLINE - 1, 0)
        sheet.made.fit_to_pages(1, 0)

    def _section(self, key: str, last: int = 11, **values: object) -> None:
        for column in range(last + 1):
            self.sheet.put(self.row, column, self.words(key, **values) if column == 0 else None, look="section")
        self.row += 1

    def _heads(self, keys: Sequence[str], **values: object) -> None:
        for column, key in enumerate(keys):
            self.sheet.put(self.row, column, self.words(key, **values), "number" if column else "text", "head")
        lines = max(len(wrap(self.words(key, **values), 12)) for key in keys[1:])
        self.sheet.made.set_row(self.row, 15 * max(2, lines))
        self.row += 1

    def _headline(self, chosen: Compared, cases: Sequence[Tco], day: str) -> None:
        sheet, words, choices = self.sheet, self.words, self.choices
        self.row = _HEADLINE
        self._section("summary.headline")
        self.presents = self._presents()
        cheapest = place_of_smallest(self.presents)
        self._say("summary.cheapest", (entry(choices.labels, cheapest), "text"))
        self._say(
            "summary.cheapest_cost",
            (entry(choices.totals, cheapest), "money"),
            (entry(self.presents, cheapest), "money"),
        )
        sheet.put(self.row - 1, 3, words("summary.present"), look="note")
        verdict = (self._verdict(chosen), "note")
        self._say("summary.chosen", (chosen.saving, "money"), (chosen.saving_share, "share"), verdict)
        self._say("summary.payback", (chosen.payback_weeks, "tenth"), (chosen.discounted_payback_weeks, "tenth"))
        sheet.put(self.row - 1, 3, words("summary.discounted"), look="note")
        _, best, worst = (of_block(found, self.swung).total for found in cases)
        self._say("summary.range", (best, "money"), (worst, "money"))
        sheet.put(self.row - 1, 3, words("summary.range_of", option=self.swung.title, date=day), look="note")

    def _say(self, key: str, *cells: tuple[object, str]) -> None:
        self.sheet.put(self.row, 0, self.words(key))
        for i, (what, kind) in enumerate(cells):
            look = "note" if kind == "note" else "bold" if i == 0 else "plain"
            self.sheet.put(self.row, 1 + i, what, "text" if kind == "note" else kind, look)  # type: ignore[arg-type]
        self.row += 1

    def _verdict(self, found: Compared) -> Formula:
        """As `pricing.tco.Choice.verdict`."""
        loss, late, gain, even = (literal(self.words(f"summary.{key}")) for key in ("loss", "late", "gain", "even"))
        saving, npv = (rounded(part, self.x.constant("two")) for part in (found.saving, found.npv))
        return when(saving < 0, loss, choose(self.x.constant("two") + sign_of(npv), late, even, gain))

    def _presents(self) -> Cells:
        """Present values of the cost, an option a row, in the options' table below."""
        first = self._first_option_row()
        values = tuple(block.discounted.whole.value for block in self.blocks)
        return self.sheet.cells((first, 2), (first + len(values) - 1, 2), values)

    def _first_option_row(self) -> int:
        return _TABLES + (2 if self.scenario.about else 0) + 2

    def _options(self) -> None:
        sheet, money = self.sheet, self.scenario.currency
        known = [cost for cost in COSTS if any(cost in block.tokens for block in self.blocks)]
        self._section("summary.options", 4 + len(known) + 3)
        heads = ["total", "present_head", "rank"]
        self._heads(
            ["summary.option", *(f"summary.{head}" for head in heads), *(f"cost.{cost}" for cost in known),
             "summary.gpus_first", "summary.gpus_last", "summary.busy", "summary.beyond_term"], currency=money,
        )  # fmt: skip
        assert self.row == self._first_option_row()
        for block in self.blocks:
            sheet.put(self.row, 0, block.label)
            sheet.put(self.row, 1, block.flows.whole, "money", "strong")
            present = sheet.put(self.row, 2, block.discounted.whole, "money")
            sheet.put(self.row, 3, rank_of(present, self.presents), "whole")
            for i, cost in enumerate(known):
                kind: Kind = "tiny" if cost == "per_request" else "rate"
                sheet.put(self.row, 4 + i, block.tokens.get(cost), kind)
            column = 4 + len(known)
            if block.gpus is not None and block.busy_share is not None:
                months = block.gpus.months
                sheet.row(self.row, column, (block.gpus.fixed(1), block.gpus.fixed(months)), "count")
                sheet.put(self.row, column + 2, mean(block.busy_share.all), "share")
            else:
                sheet.row(self.row, column, (NO_VALUE,) * 3, "count")
            sheet.put(self.row, column + 3, block.beyond, "money")
            self.row += 1
        self.row += 1

    def _speculation(self, speculation: Sequence[Compared]) -> None:
        sheet = self.sheet
        if not speculation:
            return
        self._section("summary.speculation", 9)
        keys = ("plain", "speculative", "saving", "share", "npv", "irr", "payback_head", "discounted_head", "verdict")
        self._heads(["summary.option", *(f"summary.{key}" for key in keys)])
        for found in speculation:
            sheet.put(self.row, 0, found.own)
            sheet.row(self.row, 1, (found.other_total, found.own_total, found.saving), "money")
            sheet.put(self.row, 4, found.saving_share, "share")
            sheet.put(self.row, 5, found.npv, "money")
            sheet.put(self.row, 6, found.irr, "irr")
            sheet.row(self.row, 7, (found.payback_weeks, found.discounted_payback_weeks), "tenth")
            sheet.put(self.row, 9, self._verdict(found), "count")
            self.row += 1
        self.row += 1

    def _waterfall(
        self, chosen: Compared, by_line: dict[str, Cells], places: tuple[Formula, Formula]
    ) -> tuple[int, int]:
        """From the one option's total to the other's, a line a step. Returns the first and the last row."""
        sheet, words = self.sheet, self.words
        self._section("summary.lines", 8)
        sheet.row(self.row, 0, (words("summary.from_to"), chosen.other, None, None, chosen.own), look="about")
        self.row += 1
        keys = ("line", "before", "after", "change", "level", "hidden", "saves", "costs", "whole")
        self._heads([f"summary.{key}" for key in keys])
        own, other = places
        first = self.row
        sheet.put(self.row, 0, words("summary.start"), look="strong")
        start = sheet.put(self.row, 1, chosen.other_total, "money", "strong")
        sheet.row(self.row, 2, (None, None), "money", "strong")
        level = sheet.put(self.row, 4, start, "money", "note")
        sheet.row(self.row, 5, (0, 0, 0), "money", "note")
        sheet.put(self.row, 8, start, "money", "note")
        for line, cells in by_line.items():
            self.row += 1
            sheet.put(self.row, 0, words(f"line.{line}"))
            was = sheet.put(self.row, 1, entry(cells, other), "money")
            now = sheet.put(self.row, 2, entry(cells, own), "money")
            change = sheet.put(self.row, 3, now - was, "change")
            after = sheet.put(self.row, 4, level + change, "money", "note")
            sheet.put(self.row, 5, smallest(level, after), "money", "note")
            sheet.put(self.row, 6, largest(0, 0 - change), "money", "note")
            sheet.put(self.row, 7, largest(0, change), "money", "note")
            sheet.put(self.row, 8, 0, "money", "note")
            level = after
        self.row += 1
        sheet.put(self.row, 0, words("summary.end"), look="strong")
        sheet.put(self.row, 1, None, "money", "strong")
        end = sheet.put(self.row, 2, chosen.own_total, "money", "strong")
        sheet.put(self.row, 3, end - start, "change", "strong")
        sheet.coloured((first + 1, 3), (self.row, 3))
        sheet.put(self.row, 4, end, "money", "note")
        sheet.row(self.row, 5, (0, 0, 0), "money", "note")
        sheet.put(self.row, 8, end, "money", "note")
        last = self.row
        self.row += 2
        return first, last

    def _conditions(self, hangs: Conditions) -> None:
        """What the answer hangs on most, with where it comes from."""
        sheet, words, scenario = self.sheet, self.words, self.scenario
        self.sheet.made.set_h_pagebreaks([self.row])
        self._section("summary.conditions_order" if hangs.moved else "summary.rests", 8)
        sheet.put(self.row, 0, words("summary.model", model=scenario.serving.model, gpu=scenario.serving.gpu))
        self.row += 1
        for number in hangs.numbers:
            kind: Kind = {"share": "share", "rate": "rate"}.get(number.kind, "number")  # type: ignore[assignment]
            name = f"{number.section}: {number.name}"
            sheet.put(self.row, 0, name, look="wrapped")
            sheet.high_enough(self.row, {name: 44, number.unit: 15, number.figure.source: 140})
            sheet.put(self.row, 1, self.x(number.path), kind)
            sheet.put(self.row, 2, number.unit, look="wrapped")
            sheet.put(self.row, 3, words(f"label.{number.figure.label}"))
            # In several cells made one, or what is beyond them would set the width of the printed page.
            sheet.made.merge_range(self.row, 4, self.row, 13, "", sheet.workbook.format("text", "wrapped"))
            sheet.put(self.row, 4, number.figure.source, look="wrapped")
            self.row += 1
        if hangs.left_out:
            sheet.put(self.row, 0, words("report.more", count=hangs.left_out).strip(" ()"), look="note")
            self.row += 1
        self.row += 1

    def _checks(self, day: str) -> None:
        sheet, words = self.sheet, self.words
        self._section("summary.checks", 4)
        self._heads(
            ["summary.option", "summary.parts", "summary.python", "summary.moved", "summary.verdict"],
            date=day,
        )  # fmt: skip
        two = self.x.constant("two")
        for block in self.blocks:
            sheet.put(self.row, 0, block.label)
            parts = sheet.put(self.row, 1, rounded(block.total.whole - block.flows.whole, two), "money")
            python = sheet.put(self.row, 2, of_block(self.python, block).total, "money")
            sheet.put(self.row, 3, rounded(block.flows.whole - python, two), "money")
            right, wrong = literal(words("summary.ok")), literal(words("summary.wrong"))
            sheet.put(self.row, 4, when(apart(parts) > 0, wrong, right), "count")
            self.row += 1
        self.row += 1

    def _charts(self, bars: tuple[int, int], months: int) -> None:
        self.sheet.made.insert_chart(
            _CHARTS, 0, cumulative_chart(self.sheet.workbook, self.blocks, self.choices.flows, self.words, months)
        )
        name = self.sheet.made.get_name()
        self.sheet.made.insert_chart(
            _CHARTS, 5, waterfall_chart(self.sheet.workbook, name, bars, self.words), {"x_offset": 24}
        )
