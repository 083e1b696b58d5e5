"""Spreadsheet formulas that know what they come to.

Each is put together from cells as text and as a number at once, so the value that is stored beside a formula in a
workbook is that very formula's, and Python can check the workbook's arithmetic without a spreadsheet program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Value = float | str | bool
# What stands where a division by zero would: it goes through all arithmetic and is never stored.
NOTHING = math.nan
_COMPARE, _ADD, _TIMES, _POWER, _ATOM = range(5)


@dataclass(frozen=True, eq=False)
class Formula:
    """`text` without its "=", and the `value` that it has. Beside cells a formula may hold the numbers 0 and 1 and
    nothing else: any other has a cell with its name and unit on Inputs. Raises ValueError for those."""

    text: str
    value: Value
    rank: int = _ATOM

    @property
    def number(self) -> float:
        """Raises TypeError for a text: it has no place in arithmetic."""
        if isinstance(self.value, str):
            raise TypeError(f"{self.text} is the text {self.value!r} and no number")
        return float(self.value)

    def __add__(self, other: Term) -> Formula:
        return _binary(self, "+", other, _ADD, lambda a, b: a + b)

    def __radd__(self, other: Term) -> Formula:
        return _term(other) + self

    def __sub__(self, other: Term) -> Formula:
        return _binary(self, "-", other, _ADD, lambda a, b: a - b)

    def __rsub__(self, other: Term) -> Formula:
        return _term(other) - self

    def __mul__(self, other: Term) -> Formula:
        return _binary(self, "*", other, _TIMES, lambda a, b: a * b)

    def __truediv__(self, other: Term) -> Formula:
        return _binary(self, "/", other, _TIMES, lambda a, b: a / b if b else NOTHING)

    def __rtruediv__(self, other: Term) -> Formula:
        return _term(other) / self

    def __pow__(self, other: Term) -> Formula:
        return _binary(self, "^", other, _POWER, _power)

    def __gt__(self, other: Term) -> Formula:
        return _binary(self, ">", other, _COMPARE, lambda a, b: a > b)

    def __lt__(self, other: Term) -> Formula:
        return _binary(self, "<", other, _COMPARE, lambda a, b: a < b)

    def __ge__(self, other: Term) -> Formula:
        return _binary(self, ">=", other, _COMPARE, lambda a, b: a >= b)

    def __le__(self, other: Term) -> Formula:
        return _binary(self, "<=", other, _COMPARE, lambda a, b: a <= b)

    def same_as(self, other: Term) -> Formula:
        return _binary(self, "=", other, _COMPARE, lambda a, b: a == b)


Term = Formula | int


@dataclass(frozen=True)
class Cells:
    """Neighbouring cells; a blank one is None."""

    text: str
    values: tuple[Value | None, ...]

    @property
    def numbers(self) -> list[float]:
        return [float(value) for value in self.values if value is not None and not isinstance(value, str)]


def _power(base: float, exponent: float) -> float:
    """A root of less than nothing and a number beyond floats are none."""
    try:
        found = base**exponent
    except (OverflowError, ZeroDivisionError):
        return NOTHING
    return NOTHING if isinstance(found, complex) else found


def _term(given: Term) -> Formula:
    if isinstance(given, Formula):
        return given
    if given not in (0, 1):
        raise ValueError(f"{given} may not stand in a formula; give it a cell on Inputs, with its unit")
    return Formula(str(given), given)


def _binary(a: Formula, sign: str, b: Term, rank: int, work: Callable[[float, float], float]) -> Formula:
    b = _term(b)
    left = f"({a.text})" if a.rank < rank else a.text
    right = f"({b.text})" if b.rank <= rank else b.text  # a - (b - c) and a / (b / c) are not the same without
    return Formula(f"{left}{sign}{right}", work(a.number, b.number), rank)


def _call(name: str, *parts: Formula | Cells | int) -> str:
    return f"{name}({','.join(part.text if isinstance(part, Formula | Cells) else str(part) for part in parts)})"


def literal(text: str) -> Formula:
    """Words of ours in a formula; what users wrote stands in cells."""
    quoted = text.replace('"', '""')
    return Formula(f'"{quoted}"', text)


def total(cells: Cells) -> Formula:
    return Formula(_call("SUM", cells), math.fsum(cells.numbers))


def largest(*parts: Term | Cells) -> Formula:
    return Formula(_call("MAX", *parts), max(_all_numbers(parts)))


def smallest(*parts: Term | Cells) -> Formula:
    return Formula(_call("MIN", *parts), min(_all_numbers(parts)))


def _all_numbers(parts: Sequence[Term | Cells]) -> list[float]:
    found: list[float] = []
    for part in parts:
        found += part.numbers if isinstance(part, Cells) else [_term(part).number]
    return found


def mean(cells: Cells) -> Formula:
    return Formula(_call("AVERAGE", cells), math.fsum(cells.numbers) / len(cells.numbers))


def round_up(part: Formula) -> Formula:
    """To the next whole number; of numbers that are not negative."""
    return Formula(_call("ROUNDUP", part, 0), float(math.ceil(part.number)))


def round_down(part: Formula) -> Formula:
    """To the whole number before it; of numbers that are not negative."""
    return Formula(_call("ROUNDDOWN", part, 0), float(math.floor(part.number)))


def round_off(part: Formula) -> Formula:
    """To the nearest whole number; a half goes up. Of numbers that are not negative."""
    return Formula(_call("ROUND", part, 0), float(math.floor(part.number + 0.5)))


def remainder(part: Formula, of: Formula) -> Formula:
    return Formula(_call("MOD", part, of), part.number % of.number)


def both(*parts: Formula) -> Formula:
    return Formula(_call("AND", *parts), all(part.value for part in parts))


def either(*parts: Formula) -> Formula:
    return Formula(_call("OR", *parts), any(part.value for part in parts))


def when(condition: Formula, yes: Term, no: Term) -> Formula:
    yes, no = _term(yes), _term(no)
    return Formula(_call("IF", condition, yes, no), yes.value if condition.value else no.value)


def choose(at: Formula, *parts: Formula) -> Formula:
    """The part at that place, counted from 1."""
    return Formula(_call("CHOOSE", at, *parts), parts[int(at.number) - 1].value)


def entry(cells: Cells, at: Formula) -> Formula:
    """The cell at that place, counted from 1; of a blank one 0."""
    found = cells.values[int(at.number) - 1]
    return Formula(_call("INDEX", cells, at), 0.0 if found is None else found)


def place_of(text: Formula, among: Cells) -> Formula:
    """Where the text stands, from 1. Only of our own words: MATCH reads ? and * as any letters."""
    return Formula(_call("MATCH", text, among, 0), float(among.values.index(text.value) + 1))


def number_of(text: Formula, among: Cells, numbers: Cells) -> Formula:
    """The number beside the very text, whatever letters it has; 0 where it is not there."""
    pairs = zip(among.values, numbers.values, strict=True)
    found = math.fsum(float(number or 0) for other, number in pairs if other == text.value)
    return Formula(f"SUMPRODUCT(EXACT({among.text},{text.text})*{numbers.text})", found)


def rank_of(part: Formula, among: Cells) -> Formula:
    """1 for the smallest."""
    return Formula(_call("RANK", part, among, 1), 1.0 + sum(number < part.number for number in among.numbers))


def in_case(case: Formula, base: Formula, *others: tuple[Formula, bool]) -> Formula:
    """The base, or what the case says where it says something. others: a cell, and whether it is blank."""
    cells = [f"IF(ISBLANK({cell.text}),{base.text},{cell.text})" for cell, _ in others]
    values = [base.value, *(base.value if blank else cell.value for cell, blank in others)]
    return Formula(f"CHOOSE({case.text},{base.text},{','.join(cells)})", values[int(case.number) - 1])


def due_again(bought: Cells, months: Cells, month: Formula, life: Formula) -> Formula:
    """Of what was bought in earlier months, all whose age is now a whole number of lives."""
    pairs = list(zip(bought.values, months.values, strict=True))
    found = math.fsum(float(n or 0) for n, m in pairs if (month.number - float(m or 0)) % life.number == 0)
    return Formula(f"SUMPRODUCT({bought.text}*(MOD({month.text}-{months.text},{life.text})=0))", found)


def still_running(rented: Cells, months: Cells, month: Formula, term: Formula) -> Formula:
    """Of what was rented in earlier months for a term of months, all that has not ended yet."""
    pairs = list(zip(rented.values, months.values, strict=True))
    found = math.fsum(float(n or 0) for n, m in pairs if month.number - float(m or 0) < term.number)
    return Formula(f"SUMPRODUCT({rented.text}*({month.text}-{months.text}<{term.text}))", found)


def worth_at(growth: Formula, flows: Cells, powers: Cells) -> Formula:
    """Flows, each over e^(growth x power): their worth today or in the end, by which way the powers go. No growth and
    power is below 0, so that nothing is too large; what is too small for a number is 0 with EXP, where LibreOffice
    makes an error of the same power of a base."""
    pairs = zip(flows.numbers, powers.numbers, strict=True)
    found = math.fsum(flow * math.exp(-growth.number * power) for flow, power in pairs)
    text = growth.text if growth.rank >= _TIMES else f"({growth.text})"
    return Formula(f"SUMPRODUCT({flows.text}*EXP(0-{text}*{powers.text}))", found)


def exponential(part: Formula) -> Formula:
    """e to the power of `part`; of numbers below 700."""
    return Formula(_call("EXP", part), math.exp(part.number))


def when_number(part: Formula, yes: Callable[[Formula], Formula], no: Formula) -> Formula:
    """What is made of a number, where `part` is one and no text."""
    is_text = isinstance(part.value, str)
    made = yes(Formula(part.text, 0.0, part.rank) if is_text else part)
    return Formula(f"IF(ISNUMBER({part.text}),{made.text},{no.text})", no.value if is_text else made.value)


def place_of_smallest(cells: Cells) -> Formula:
    """From 1; the first of equal ones."""
    found = cells.numbers.index(min(cells.numbers)) + 1
    return Formula(f"MATCH(MIN({cells.text}),{cells.text},0)", float(found))


def rounded(part: Formula, digits: Formula) -> Formula:
    return Formula(_call("ROUND", part, digits), round(part.number, int(digits.number)))


def apart(part: Formula) -> Formula:
    """Without its sign."""
    return Formula(_call("ABS", part), abs(part.number))


def sign_of(part: Formula) -> Formula:
    """1, 0 or -1."""
    return Formula(_call("SIGN", part), float((part.number > 0) - (part.number < 0)))


def logarithm(part: Formula) -> Formula:
    """Natural; of numbers above 0."""
    return Formula(_call("LN", part), math.log(part.number) if part.number > 0 else NOTHING)


def poisson(events: Formula, mean: Formula, *, upto: bool) -> Formula:
    """Chance of so many events, or of no more, where `mean` are expected."""

    def just(n: int) -> float:
        if mean.number <= 0:
            return float(n == 0)
        return math.exp(n * math.log(mean.number) - mean.number - math.lgamma(n + 1))

    whole = int(events.number)
    found = math.fsum(just(n) for n in range(whole + 1)) if upto else just(whole)
    return Formula(_call("POISSON", events, mean, int(upto)), found)
