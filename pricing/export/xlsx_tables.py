"""The tables of the Summary sheet: options, what speculation is worth, a bill line by line, conditions and checks."""

from __future__ import annotations

from collections.abc import Sequence

from pricing.export.formula import (
    Cells,
    Formula,
    apart,
    choose,
    entry,
    largest,
    literal,
    mean,
    rank_of,
    rounded,
    sign_of,
    smallest,
    when,
)
from pricing.export.report_tables import cut
from pricing.export.told import Conditions
from pricing.export.words import NO_VALUE, Words
from pricing.export.workbook import Kind
from pricing.export.xlsx_cases import of_block
from pricing.export.xlsx_choices import Compared
from pricing.export.xlsx_inputs import Inputs
from pricing.export.xlsx_options import Block
from pricing.export.xlsx_page import Page
from pricing.export.xlsx_second import SecondCells
from pricing.scenario import Scenario
from pricing.tco import Tco

COSTS = (
    "per_request", "per_million_input", "per_million_cached_input", "per_million_output", "blended_per_million",
    "per_1000_words_english", "per_1000_words_turkish",
)  # fmt: skip


def known_costs(blocks: Sequence[Block]) -> list[str]:
    return [cost for cost in COSTS if any(cost in block.tokens for block in blocks)]


def verdict(found: Compared, x: Inputs, words: Words) -> Formula:
    """As `pricing.tco.Choice.verdict`."""
    loss, late, gain, even = (literal(words(f"summary.{key}")) for key in ("loss", "late", "gain", "even"))
    saving, npv = (rounded(part, x.constant("two")) for part in (found.saving, found.npv))
    return when(saving < 0, loss, choose(x.constant("two") + sign_of(npv), late, even, gain))


class Tables:
    """Those with a row an option. first: the row in which they begin. `presents`: present values of the cost, an option
    a row; `wide`: columns with whole amounts."""

    def __init__(
        self, page: Page, x: Inputs, blocks: Sequence[Block], second: SecondCells | None, currency: str, first: int
    ) -> None:
        self.page, self.x, self.blocks, self.second, self.currency = page, x, blocks, second, currency
        values = tuple(block.discounted.whole.value for block in blocks)
        self.presents = page.sheet.cells((first + 2, 2), (first + 1 + len(values), 2), values)
        self.wide = {1, 2, 3, 4, 6, 7} if second is not None else {1, 2, 3, 5}

    def write_options(self) -> None:
        page, sheet, words, known = self.page, self.page.sheet, self.page.words, known_costs(self.blocks)
        page.section(words("summary.options"), 0, page.last)
        keys = ("total", "present_head")
        heads = [words(f"summary.{key}", currency=self.currency) for key in keys]
        if self.second is not None:
            heads += [words(f"summary.{key}", currency=self.second.given.currency) for key in keys]
        more = ("gpus_first", "gpus_last", "busy", "beyond_term")
        page.heads(
            [words("summary.option"), *heads, words("summary.rank"), *(words(f"cost.{cost}") for cost in known),
             *(words(f"summary.{key}") for key in more)]
        )  # fmt: skip
        rank = 1 + len(heads)
        self.wide.add(rank + len(known) + 4)
        for block in self.blocks:
            row = page.row
            sheet.put(row, 0, block.label)
            total = sheet.put(row, 1, block.flows.whole, "money", "bold")
            present = sheet.put(row, 2, block.discounted.whole, "money")
            if self.second is not None:
                sheet.row(row, 3, (self.second.of(total), self.second.of(present)), "also")
            sheet.put(row, rank, rank_of(present, self.presents), "whole")
            for i, cost in enumerate(known, rank + 1):
                sheet.put(row, i, block.tokens.get(cost), "tiny" if cost == "per_request" else "rate")
            column = rank + 1 + len(known)
            if block.gpus is not None and block.busy_share is not None:
                months = block.gpus.months
                sheet.row(row, column, (block.gpus.fixed(1), block.gpus.fixed(months)), "count")
                sheet.put(row, column + 2, mean(block.busy_share.all), "share")
            else:
                sheet.row(row, column, (NO_VALUE,) * 3, "count")
            sheet.put(row, column + 3, block.beyond, "money")
            page.row += 1
        page.row += 1

    def write_speculation(self, speculation: Sequence[Compared]) -> None:
        if not speculation:
            return
        page, sheet, words, second = self.page, self.page.sheet, self.page.words, self.second
        also = [words(f"second.{key}", currency=second.given.currency) for key in ("saving", "npv")] if second else []
        heads = [words(f"summary.{key}") for key in ("plain", "speculative", "saving")] + also[:1]
        heads += [words("summary.share"), words("summary.npv"), *also[1:]]
        heads += [words(f"summary.{key}") for key in ("irr", "payback_head", "discounted_head", "verdict")]
        page.section(words("summary.speculation"), 0, len(heads))
        page.heads([words("summary.option"), *heads])
        for found in speculation:
            sheet.put(page.row, 0, found.own)
            saving = sheet.put(page.row, 3, found.saving, "money")
            sheet.row(page.row, 1, (found.other_total, found.own_total), "money")
            at = 4
            if second is not None:
                sheet.put(page.row, at, second.of(saving), "also")
                at += 1
            sheet.put(page.row, at, found.saving_share, "share")
            npv = sheet.put(page.row, at + 1, found.npv, "money")
            at += 2
            if second is not None:
                sheet.put(page.row, at, second.of(npv), "also")
                at += 1
            sheet.put(page.row, at, found.irr, "irr")
            sheet.row(page.row, at + 1, (found.payback_weeks, found.discounted_payback_weeks), "tenth")
            sheet.put(page.row, at + 3, verdict(found, self.x, words), "count")
            page.row += 1
        page.row += 1


class Bill:
    """From the one option's total to the other's, a line a step. helpers: the first column of what only the chart
    reads, beside the printed page."""

    def __init__(self, page: Page, helpers: int) -> None:
        self.page, self.helpers = page, helpers

    def write(
        self, chosen: Compared, by_line: dict[str, Cells], places: tuple[Formula, Formula]
    ) -> tuple[int, int]:  # fmt: skip
        """Returns the first and the last row."""
        page, sheet, words = self.page, self.page.sheet, self.page.words
        page.section(words("summary.lines"), 0, 3)
        sheet.row(page.row, 0, (words("summary.from_to"), chosen.other, None, chosen.own), look="about")
        page.row += 1
        page.heads([words(f"summary.{key}") for key in ("level", "hidden", "saves", "costs", "whole")], self.helpers)
        page.row -= 1
        page.heads([words(f"summary.{key}") for key in ("line", "before", "after", "change")])
        own, other = places
        first = page.row
        sheet.put(first, 0, words("summary.start"), look="strong")
        start = sheet.put(first, 1, chosen.other_total, "money", "strong")
        sheet.row(first, 2, (None, None), "money", "strong")
        level = self._helpers(start, 0, 0, 0, start)
        for line, cells in by_line.items():
            page.row += 1
            sheet.put(page.row, 0, words(f"line.{line}"))
            was = sheet.put(page.row, 1, entry(cells, other), "money")
            now = sheet.put(page.row, 2, entry(cells, own), "money")
            change = sheet.put(page.row, 3, now - was, "change")
            after = Formula(sheet.at(page.row, self.helpers), (level + change).value)
            self._helpers(level + change, smallest(level, after), largest(0, 0 - change), largest(0, change), 0)
            level = after
        page.row += 1
        sheet.put(page.row, 0, words("summary.end"), look="strong")
        sheet.put(page.row, 1, None, "money", "strong")
        end = sheet.put(page.row, 2, chosen.own_total, "money", "strong")
        sheet.put(page.row, 3, end - start, "change", "strong")
        sheet.coloured((first + 1, 3), (page.row, 3))
        self._helpers(end, 0, 0, 0, end)
        page.row += 1
        return first, page.row - 1

    def _helpers(self, *cells: object) -> Formula:
        """Level, below, saves, costs more, total; returns the level's cell."""
        made = [
            self.page.sheet.put(self.page.row, self.helpers + i, cell, "money", "note") for i, cell in enumerate(cells)
        ]
        return made[0]


def write_conditions(page: Page, first: int, hangs: Conditions, x: Inputs, scenario: Scenario) -> None:
    """What the answer hangs on most, with where it comes from; the whole of a source is on Inputs. first: a column."""
    sheet, words = page.sheet, page.words
    page.section(words("summary.conditions_order" if hangs.moved else "summary.rests"), first, page.last)
    model = words("summary.model", model=scenario.serving.model, gpu=scenario.serving.gpu)
    page.merged(page.row, first, page.last, model, look="fit")
    page.row += 1
    for number in hangs.numbers:
        kind: Kind = {"share": "share", "rate": "rate"}.get(number.kind, "number")  # type: ignore[assignment]
        page.merged(page.row, first, first + 3, f"{number.section}: {number.name}", look="fit")
        sheet.put(page.row, first + 4, x(number.path), kind)
        sheet.put(page.row, first + 5, number.unit, look="fit")
        sheet.put(page.row, first + 6, words(f"label.{number.figure.label}"), look="fit")
        room = 16 * (page.last - first - 6)  # characters, most of them narrow and a few more set smaller
        page.merged(page.row, first + 7, page.last, cut(number.figure.source, room), look="fit")
        page.row += 1
    if hangs.left_out:
        sheet.put(page.row, first, words("report.more", count=hangs.left_out).strip(" ()"), look="note")
        page.row += 1


def write_checks(
    page: Page, row: int, first: int, blocks: Sequence[Block], python: Tco, x: Inputs, day: str
) -> None:  # fmt: skip
    """Each over two columns from `first` on. python: the totals of the case in use, as they were at export."""
    words, two = page.words, x.constant("two")
    page.row = row
    page.section(words("summary.checks"), first, first + 9)
    keys = ("option", "parts", "python", "moved", "verdict")
    page.heads([words(f"summary.{key}", date=day) for key in keys], first, 2)
    for block in blocks:

        def put(at: int, what: object, kind: Kind, look: str = "plain") -> Formula:
            return page.merged(page.row, first + 2 * at, first + 2 * at + 1, what, kind, look)

        put(0, block.label, "text", "fit")
        parts = put(1, rounded(block.total.whole - block.flows.whole, two), "money")
        then = put(2, of_block(python, block).total, "money")
        put(3, rounded(block.flows.whole - then, two), "money")
        right, wrong = literal(words("summary.ok")), literal(words("summary.wrong"))
        put(4, when(apart(parts) > 0, wrong, right), "count")
        page.row += 1
