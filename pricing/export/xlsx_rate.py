"""The rate of return on the Calculation sheet, found by halving: IRR finds a clear loss only from beside it.

IRR begins at a rate that somebody names and goes where the slope points; of losses, and of rates far from the start, it
gives up, and each program at its own. Halving between what is surely too low and surely too high needs no start, and
each step is a sum that every program works out alike.
"""

from __future__ import annotations

from pricing.export.formula import (
    Formula,
    apart,
    both,
    either,
    exponential,
    largest,
    literal,
    logarithm,
    sign_of,
    smallest,
    when,
    worth_at,
)
from pricing.export.grid import Grid, Row
from pricing.export.words import NO_VALUE, Words
from pricing.export.xlsx_demand import Time
from pricing.export.xlsx_inputs import Inputs

# Columns, a halving each: 24 (the constant `rate_span`) over 2^56 is 3e-16, as closely as a number knows a rate.
HALVINGS = 56


class RateSearch:
    """Of any flows in the grid: `monthly(saved, summed)`. One row of steps serves all.

    What is looked for is the logarithm of a month's growth, or of its shrinking in a loss, so that it is never below 0:
    a gain's flows are worth nothing today, a loss's come to nothing in the end."""

    def __init__(self, grid: Grid, x: Inputs, time: Time, currency: str, words: Words) -> None:
        self.grid, self.x, self.time, self.currency, self.words = grid, x, time, currency, words
        grid.heading(words("calc.search"))
        wide = self._wide()
        span, two = x.constant("rate_span"), x.constant("two")
        unit = words("unit.logarithm")
        self._step = wide.running(
            words("calc.step"), unit, lambda before, t: when(before > 0, before, span) / two, "factor"
        )
        grid.next = wide.next

    def monthly(self, saved: Row, summed: Row) -> Formula:
        """A month's rate, or a dash: the rule of `pricing.finance.monthly_irr`. summed: what is saved so far."""
        grid, x, words = self.grid, self.x, self.words
        least = grid.value(
            words("calc.nothing"), self.currency,
            x.constant("tolerance") * largest(largest(saved.all), 0 - smallest(saved.all)), "factor",
        )  # fmt: skip
        signs, summed_signs = (self._signs(row, least, name) for row, name in ((saved, "flows"), (summed, "sums")))
        once = either(self._turns_once(signs, "flows"), self._turns_once(summed_signs, "sums"))
        once = grid.value(words("calc.one_rate"), words("unit.switch"), when(once, 1, 0), "whole")
        counted = grid.line(
            words("calc.counted"), self.currency, lambda t: when(apart(saved[t]) > least, saved[t], 0), first=0
        )
        way = grid.value(words("calc.way"), words("unit.sign"), sign_of(counted.whole), "whole")
        powers = self._powers(counted, way)
        growth = way * self._found(counted, way, powers)
        growth = grid.value(words("calc.growth_found"), words("unit.logarithm"), growth, "factor")
        kept = both(once > 0, growth >= 0 - logarithm(x.constant("largest_discount")))
        rate = when(kept, exponential(growth) - 1, literal(NO_VALUE))
        return grid.value(words("calc.monthly_irr"), words("unit.share_month"), rate, "factor")

    def _found(self, counted: Row, way: Formula, powers: Row) -> Formula:
        """As far as a gain is worth more than nothing, or a loss less; 0 where rounding alone is left of all flows."""
        wide, step = self._wide(), self._step

        def further(before: Formula, t: int) -> Formula:
            worth = worth_at(before + step[t], counted.all, powers.all)
            return before + when(way * worth > 0, step[t], 0)

        found = wide.running(self.words("calc.halved"), self.words("unit.logarithm"), further, "factor")
        self.grid.next = wide.next
        return found.fixed(HALVINGS - 1)

    def _wide(self) -> Grid:
        """A halving a column, from month 0's on."""
        wide = Grid(self.grid.sheet, HALVINGS - 1)
        wide.next = self.grid.next
        return wide

    def _powers(self, counted: Row, way: Formula) -> Row:
        """Months from the first flow in a gain, to the last one in a loss: that one's weight is 1, however much growth
        is tried, so that not all of them can become too small for a number."""
        grid, words, month = self.grid, self.words, self.time.month
        end, unit = month.fixed(grid.months), self.words("unit.months")
        away = grid.line(
            words("calc.away"), unit, lambda t: when(way < 0, end - month[t], month[t]), "whole", first=0, whole=None
        )
        nearest = grid.line(
            words("calc.nearest"), unit, lambda t: when(counted[t].same_as(0), end, away[t]), "whole", first=0,
            whole=smallest,
        )  # fmt: skip
        return grid.line(
            words("calc.power"), unit, lambda t: largest(0, away[t] - nearest.whole), "whole", first=0, whole=None
        )

    def _signs(self, flows: Row, least: Formula, name: str) -> Row:
        """What is rounding has the sign before it."""
        return self.grid.running(
            self.words(f"calc.sign_{name}"), self.words("unit.sign"),
            lambda before, t: when(apart(flows[t]) > least, sign_of(flows[t]), before), "whole",
        )  # fmt: skip

    def _turns_once(self, signs: Row, name: str) -> Formula:
        """From below nothing to above it, and never back."""
        turns = self.grid.line(
            self.words(f"calc.turns_{name}"), self.words("unit.sign"),
            lambda t: when(signs[t] * signs[t - 1] < 0, 1, 0), "whole", first=0,
        )  # fmt: skip
        return both(turns.whole.same_as(1), signs.fixed(self.grid.months).same_as(1))
