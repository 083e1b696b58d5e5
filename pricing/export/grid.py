"""The Calculation sheet as a grid: a line a row, a month a column, one formula along the whole row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xlsxwriter.utility import xl_col_to_name, xl_rowcol_to_cell

from pricing.export.formula import Cells, Formula, Term, Value, total
from pricing.export.workbook import Kind, Sheet

NAME, UNIT, WHOLE, BEFORE, TODAY = range(5)
"""Columns: name, unit, the whole term or a single value, a blank one that month 0 can look back to, month 0 (today)."""
MONTH_ROW, YEAR_ROW = 4, 5
FIRST_ROW = 6


@dataclass(frozen=True)
class Row:
    """line[t]: the cell of month t, today 0; blank ones beside the term count as nothing. whole: the cell in front."""

    sheet: Sheet
    index: int
    months: int
    values: Mapping[int, Value]
    whole: Formula
    name: Formula

    def __getitem__(self, month: int) -> Formula:
        """Raises KeyError where the grid has no column: a formula there would read another sheet's mind."""
        if not -1 <= month <= self.months + 1:
            raise KeyError(f"month {month} of {self.months}")
        cell = xl_rowcol_to_cell(self.index, TODAY + month)
        return Formula(f"{self.sheet.name}!{cell}", self.values.get(month, 0.0))

    def fixed(self, month: int) -> Formula:
        """The same cell, anchored."""
        return Formula(self.sheet.at(self.index, TODAY + month), self[month].value)

    @property
    def all(self) -> Cells:
        """Today and all months, anchored."""
        return self.sheet.cells((self.index, TODAY), (self.index, TODAY + self.months), self._upto(self.months))

    @property
    def later(self) -> Cells:
        """All months, anchored, without today."""
        return self.sheet.cells((self.index, TODAY + 1), (self.index, TODAY + self.months), self._upto(self.months)[1:])

    def until(self, month: int) -> Cells:
        """Today to that month; the range grows along the row."""
        end = xl_col_to_name(TODAY + month)
        begin = xl_col_to_name(TODAY)
        text = f"{self.sheet.name}!${begin}{self.index + 1}:{end}{self.index + 1}"
        return Cells(text, self._upto(month))

    def _upto(self, month: int) -> tuple[Value | None, ...]:
        return tuple(self.values.get(t) for t in range(month + 1))


def stack(rows: Sequence[Row], month: int) -> Cells:
    """That month's cells of rows that follow each other, the rows anchored."""
    sheet, column = rows[0].sheet, TODAY + month
    begin, end = (xl_rowcol_to_cell(row.index, column, row_abs=True) for row in (rows[0], rows[-1]))
    return Cells(f"{sheet.name}!{begin}:{end}", tuple(row[month].value for row in rows))


def wholes(rows: Sequence[Row]) -> Cells:
    """The cells in front of rows that follow each other."""
    values = tuple(row.whole.value for row in rows)
    return rows[0].sheet.cells((rows[0].index, WHOLE), (rows[-1].index, WHOLE), values)


class Grid:
    """Written from above to below."""

    def __init__(self, sheet: Sheet, months: int) -> None:
        self.sheet, self.months = sheet, months
        self.next = FIRST_ROW

    def heading(self, title: str | Formula) -> None:
        self.next += 1
        for column in range(TODAY + self.months + 1):
            self.sheet.put(self.next, column, title if column == NAME else None, look="section")
        self.next += 1

    def value(
        self, name: str, unit: str, formula: Formula | None, kind: Kind = "number", look: str = "plain"
    ) -> Formula:
        """One for the whole term."""
        self.sheet.put(self.next, NAME, name, look=look)
        self.sheet.put(self.next, UNIT, unit, look="note")
        made = self.sheet.put(self.next, WHOLE, formula, kind, look)
        self.next += 1
        return made

    def line(
        self,
        name: str | Formula,
        unit: str,
        formula: Callable[[int], Term],
        kind: Kind = "money",
        *,
        first: int = 1,
        look: str = "plain",
        whole: Callable[[Cells], Formula] | None = total,
        at: int | None = None,
    ) -> Row:
        """A row of months from `first`; in front of them what `whole` makes of all. at: a row kept for it."""
        row = self.next if at is None else at
        named = self.sheet.put(row, NAME, name, look=look)
        self.sheet.put(row, UNIT, unit, look="note")
        values: dict[int, Value] = {}
        for month in range(first, self.months + 1):
            made = formula(month)
            cell = self.sheet.put(row, TODAY + month, made if isinstance(made, Formula) else float(made), kind, look)
            values[month] = cell.value
        line = Row(self.sheet, row, self.months, values, Formula(self.sheet.at(row, WHOLE), 0.0), named)
        front = self.sheet.put(row, WHOLE, whole(line.all) if whole is not None else None, kind, look)
        if at is None:
            self.next += 1
        return Row(self.sheet, row, self.months, values, front, named)

    def running(
        self, name: str, unit: str, step: Callable[[Formula, int], Term], kind: Kind = "money", *, first: int = 0
    ) -> Row:
        """A row in which each month goes on from the one before: step(that one's cell, month)."""
        index = self.next
        values: dict[int, Value] = {}

        def formula(month: int) -> Term:
            before = xl_rowcol_to_cell(index, TODAY + month - 1)
            made = step(Formula(f"{self.sheet.name}!{before}", values.get(month - 1, 0.0)), month)
            values[month] = made.value if isinstance(made, Formula) else float(made)
            return made

        return self.line(name, unit, formula, kind, first=first, whole=None)

    def history(self, name: str, unit: str, step: Callable[[Cells, int], Term], kind: Kind = "money") -> Row:
        """A row of months in which each looks back on all before it, a blank today with them: step(their cells,
        month)."""
        index = self.next
        values: dict[int, Value] = {}

        def formula(month: int) -> Term:
            so_far = Row(self.sheet, index, self.months, values, Formula("0", 0.0), Formula("0", 0.0))
            made = step(so_far.until(month - 1), month)
            values[month] = made.value if isinstance(made, Formula) else float(made)
            return made

        return self.line(name, unit, formula, kind, whole=None)
