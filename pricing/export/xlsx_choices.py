"""What one option is worth in place of another: the comparisons of the Calculation sheet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pricing.export.formula import Cells, Formula, both, entry, largest, literal, number_of, when, when_number
from pricing.export.grid import NAME, WHOLE, Grid, Row, stack, wholes
from pricing.export.words import NO_VALUE, Words
from pricing.export.workbook import shown_text
from pricing.export.xlsx_demand import Time
from pricing.export.xlsx_inputs import Inputs
from pricing.export.xlsx_options import COST_LINES, Block
from pricing.export.xlsx_rate import RateSearch


@dataclass(frozen=True)
class Compared:
    """`own` in place of `other`, both by title. Paybacks are texts where there is none."""

    own: Formula
    other: Formula
    own_total: Formula
    other_total: Formula
    saving: Formula
    saving_share: Formula
    npv: Formula
    irr: Formula
    payback_weeks: Formula
    discounted_payback_weeks: Formula


class Choices:
    """blocks: all options. `pair`: a comparison of two of them; `chosen`: of the two at the places that are picked in
    the workbook (from 1)."""

    def __init__(self, grid: Grid, x: Inputs, time: Time, blocks: list[Block], currency: str, words: Words) -> None:
        self.grid, self.x, self.time, self.currency, self.words = grid, x, time, currency, words
        self.blocks = blocks
        self._write_all()
        self.search = RateSearch(grid, x, time, currency, words)

    def _write_all(self) -> None:
        """Every option's money under each other, so that one can be picked by its place."""
        grid, words = self.grid, self.words
        grid.heading(words("calc.numbered"))
        first = grid.next
        number = Formula(grid.sheet.at(first - 1, WHOLE), 0.0)  # the heading's, which is blank
        for block in self.blocks:
            number = grid.value(block.label, "", number + 1, "whole")
        last = grid.next - 1
        texts = tuple(shown_text(block.label) for block in self.blocks)
        self.labels = grid.sheet.cells((first, NAME), (last, NAME), texts)
        counted = tuple(float(block.number) for block in self.blocks)
        self._numbers = grid.sheet.cells((first, WHOLE), (last, WHOLE), counted)
        grid.heading(words("calc.all_flows"))
        self.flows = [
            grid.line(block.label, self.currency, lambda t, block=block: block.flows[t], first=0)  # type: ignore[misc]
            for block in self.blocks
        ]
        self.totals = wholes(self.flows)

    def place(self, label: Formula, name: str) -> Formula:
        """The option's place by its label, letter for letter: people may call it anything."""
        return self.grid.value(name, "", number_of(label, self.labels, self._numbers), "whole")

    def pair(self, own: Block, other: Block) -> Compared:
        self.grid.heading(self.words("calc.instead", own=own.title, other=other.title))
        return self._compare(
            lambda t: own.flows[t], lambda t: other.flows[t], own.flows.whole, other.flows.whole,
            self._label(own), self._label(other),
        )  # fmt: skip

    def _label(self, block: Block) -> Formula:
        return self.flows[block.number - 1].name

    def chosen(self, own: Formula, other: Formula) -> Compared:
        """own, other: the places of the options."""
        grid, words = self.grid, self.words
        grid.heading(words("calc.chosen"))

        def of(t: int, place: Formula) -> Formula:
            return entry(stack(self.flows, t), place)

        own_row = grid.line(words("calc.chosen_own"), self.currency, lambda t: of(t, own), first=0)
        other_row = grid.line(words("calc.chosen_other"), self.currency, lambda t: of(t, other), first=0)
        return self._compare(
            lambda t: own_row[t], lambda t: other_row[t], own_row.whole, other_row.whole,
            entry(self.labels, own), entry(self.labels, other),
        )  # fmt: skip

    def by_line(self) -> dict[str, Cells]:
        """Each line of the bill over the term, an option a row; lines that no option has are left out."""
        grid, words = self.grid, self.words
        found: dict[str, Cells] = {}
        for line in COST_LINES:
            if not any(line in block.lines for block in self.blocks):
                continue
            grid.heading(words("calc.by_line", line=words(f"line.{line}")))
            first = grid.next
            values = []
            for block in self.blocks:
                held = block.lines[line].whole if line in block.lines else None
                made = grid.value(block.label, self.currency, held if held is not None else Formula("0", 0.0), "money")
                values.append(made.value)
            found[line] = grid.sheet.cells((first, 2), (grid.next - 1, 2), tuple(values))
        return found

    def _compare(
        self,
        own: Callable[[int], Formula],
        other: Callable[[int], Formula],
        own_total: Formula,
        other_total: Formula,
        own_name: Formula,
        other_name: Formula,
    ) -> Compared:
        grid, x, words, money = self.grid, self.x, self.words, self.currency
        saved = grid.line(words("calc.saved"), money, lambda t: other(t) - own(t), first=0)
        discount = self.time.discount
        worth = grid.line(words("calc.saved_worth"), money, lambda t: saved[t] * discount[t], first=0)
        summed = grid.running(words("calc.saved_summed"), money, lambda before, t: before + saved[t])
        worth_summed = grid.running(words("calc.worth_summed"), money, lambda before, t: before + worth[t])
        simple = self._payback(self._back(saved, summed, words("calc.back")))
        late = self._payback(self._back(worth, worth_summed, words("calc.worth_back")), simple)
        none = literal(NO_VALUE)
        share = when(other_total > 0, saved.whole / other_total, none)
        share = grid.value(words("choice.saving_share"), words("unit.share"), share, "share")
        monthly = self.search.monthly(saved, summed)
        per_year = x.constant("months_per_year")
        yearly = when_number(monthly, lambda rate: (1 + rate) ** per_year - 1, none)
        irr = grid.value(words("choice.irr"), words("unit.share_year"), yearly, "irr")

        def in_weeks(key: str, months: Formula) -> Formula:
            weeks = when_number(months, lambda number: number * self.time.weeks_per_month, none)
            return grid.value(words(key), words("unit.weeks"), weeks)

        return Compared(
            own=own_name,
            other=other_name,
            own_total=own_total,
            other_total=other_total,
            saving=saved.whole,
            saving_share=share,
            npv=worth.whole,
            irr=irr,
            payback_weeks=in_weeks("choice.payback", simple),
            discounted_payback_weeks=in_weeks("choice.discounted_payback", late),
        )

    def _back(self, flows: Row, summed: Row, name: str) -> Formula:
        """Months until the sum is never below nothing again, straight within a month; a text where it ends there."""
        grid, words = self.grid, self.words
        month = self.time.month
        back = grid.line(
            name, words("unit.months"),
            lambda t: when(
                both(summed[t - 1] < 0, summed[t] >= 0), month[t] - 1 + (0 - summed[t - 1]) / flows[t], 0
            ), "number", whole=largest,
        )  # fmt: skip
        return when(summed.fixed(grid.months) < 0, literal(NO_VALUE), back.whole)

    def _payback(self, back: Formula, other: Formula | None = None) -> Formula:
        """That, and where `other` asks for more, what both do: the rule of `pricing.finance.payback_months`."""
        if other is not None:
            none = literal(NO_VALUE)
            back = when_number(back, lambda own: when_number(other, lambda least: largest(own, least), none), none)
        return self.grid.value(self.words("calc.payback_months"), self.words("unit.months"), back)
