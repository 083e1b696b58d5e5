"""The Summary sheet as a page: blocks beside each other, how large they come out, and how they are printed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from textwrap import wrap

from pricing.export.formula import Formula
from pricing.export.words import Words
from pricing.export.workbook import Kind, Sheet

_FIRST, _OTHER = 44.0, 12.5  # characters: of the first column, and of one without large amounts
_LINE = 15.0  # points of a row
# Pixels of a landscape A4 sheet within its margins, at the 96 an inch that rows and columns are measured in.
_PAPER = (1045, 712)
_LEGIBLE = 0.45  # of their size: 11 points are 5 then


class Page:
    """Rows and columns count from 0. `row`: the next one to be written. last: the last column that is printed."""

    def __init__(self, sheet: Sheet, words: Words, last: int) -> None:
        self.sheet, self.words, self.last = sheet, words, last
        self.row = self._end = 0
        self._heights: dict[int, float] = {}
        self._widths: dict[int, float] = {}

    def high(self, row: int, points: float) -> None:
        """At least so high."""
        self._heights[row] = max(points, self._heights.get(row, _LINE))
        self.sheet.made.set_row(row, self._heights[row])

    def section(self, title: str, first: int, last: int) -> None:
        for column in range(first, last + 1):
            self.sheet.put(self.row, column, title if column == first else None, look="section")
        self.row += 1

    def heads(self, texts: Sequence[str], first: int = 0, span: int = 1) -> None:
        """The heads of a table from the column `first` on, each over `span` columns."""
        for i, text in enumerate(texts):
            kind: Kind = "number" if i else "text"
            self.merged(self.row, first + i * span, first + (i + 1) * span - 1, text, kind, "head")
        lines = max(len(wrap(text, 12 * span)) for text in texts[1:])
        self.high(self.row, _LINE * max(2, lines))
        self.row += 1

    def merged(
        self, row: int, first: int, last: int, what: object, kind: Kind = "text", look: str = "plain"
    ) -> Formula:
        """In several cells made one."""
        if last > first:
            self.sheet.made.merge_range(row, first, row, last, "", self.sheet.workbook.format(kind, look))
        return self.sheet.put(row, first, what, kind, look)

    def paragraph(self, row: int, text: str) -> None:
        """Across the page, on as many lines as it takes, though no more than four."""
        self.merged(row, 0, self.last, text, look="how")
        room = int(_FIRST + _OTHER * self.last)
        self.high(row, _LINE * min(4, sum(max(1, -(-len(line) // room)) for line in text.split("\n"))))

    def widths(self, amount: float, wide: Collection[int], second: float | None) -> None:
        """wide: columns with whole amounts, of which the largest is `amount`, or `second` in another currency: none of
        them may be a row of #. Sets all of them, those beside the page too."""
        needed = max(len(f"{number:,.2f}") for number in (amount, second or 0.0)) + 1.5
        for column in range(self.last + 8):
            width = max(14.0, needed) if column in wide or column > self.last else _OTHER
            self._widths[column] = _FIRST if column == 0 else width
        self.sheet.widths(self._widths)

    def across(self, first: int, last: int) -> int:
        """Pixels of those columns."""
        return sum(int(self._widths[column] * 7 + 5) for column in range(first, last + 1))

    def down(self, first: int, last: int) -> int:
        """Pixels of those rows."""
        return int(sum(self._heights.get(row, _LINE) for row in range(first, last + 1)) * 4 / 3)

    def print(self, below: int) -> None:
        """On one page where that is legible; else as wide as one, and from row `below` on another."""
        made, last = self.sheet.made, self.row - 1
        made.print_area(0, 0, last, self.last)
        made.set_margins(left=0.4, right=0.4, top=0.35, bottom=0.5)
        made.center_horizontally()
        scale = min(_PAPER[0] / self.across(0, self.last), _PAPER[1] / self.down(0, last))
        made.fit_to_pages(1, 1 if scale >= _LEGIBLE else 0)
        if scale < _LEGIBLE:
            made.set_h_pagebreaks([below])
