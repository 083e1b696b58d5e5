"""A workbook that is being written: guarded texts, plain numbers, formulas with their values, one look."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any, Literal

import xlsxwriter
from xlsxwriter.utility import xl_rowcol_to_cell

from pricing.currencies import SYMBOLS, Currency
from pricing.export.csv import guard
from pricing.export.formula import Cells, Formula, Value

Kind = Literal[
    "text", "count", "number", "factor", "share", "money", "rate", "tiny", "day", "whole", "tenth", "irr", "change",
    "also",
]  # fmt: skip
# What Excel takes in one cell is 32,767 characters.
LONGEST_TEXT = 32_000
INK, BLUE, PAPER_BLUE, RULE, DIM, GREEN, RED = (
    "#1F2933", "#0000FF", "#EAF2FD", "#9AA5B1", "#616E7C", "#1B7F4B", "#B42318",
)  # fmt: skip
_LOOKS: dict[str, dict[str, Any]] = {
    "plain": {},
    "input": {"font_color": BLUE, "bg_color": PAPER_BLUE, "border": 1, "border_color": "#C9D6E6", "locked": False},
    "strong": {"bold": True, "top": 1, "top_color": RULE},
    "bold": {"bold": True},
    "title": {"bold": True, "font_size": 18},
    "section": {"bold": True, "font_size": 12, "font_color": "#0B3A75", "bottom": 2, "bottom_color": "#0B3A75"},
    "head": {
        "bold": True, "bg_color": "#0B3A75", "font_color": "#FFFFFF", "text_wrap": True, "valign": "vcenter",
        "indent": 1, "left": 1, "right": 1, "border_color": "#FFFFFF",
    },
    "fixed": {"bg_color": "#EEF1F4"},
    "note": {"font_color": DIM, "italic": True},
    "about": {"font_color": DIM, "italic": True},
    "how": {"font_color": DIM, "italic": True, "text_wrap": True},
    "wrapped": {"text_wrap": True, "valign": "top"},
    "fit": {"shrink": True, "valign": "top"},  # on one line, however long
    "good": {"bold": True, "font_color": GREEN},
    "bad": {"bold": True, "font_color": RED},
}  # fmt: skip


def shown_text(text: str) -> str:
    """`text` as a cell may hold it: never a formula, short enough, and all of it text."""
    whole = text.encode("utf-8", "backslashreplace").decode("utf-8")  # a lone surrogate cannot be written
    return guard(whole if len(whole) <= LONGEST_TEXT else f"{whole[:LONGEST_TEXT]}…")


class Workbook:
    """`add` sheets, write them, `close` for the bytes. Money is shown in `currency`, kind "also" in the second one."""

    def __init__(self, currency: Currency, written_at: datetime, second: Currency | None = None) -> None:
        self._out = io.BytesIO()
        self.book = xlsxwriter.Workbook(
            self._out, {"in_memory": True, "strings_to_urls": False, "strings_to_formulas": False}
        )
        self.book.set_calc_mode("auto")
        self.book.set_properties({"created": written_at, "title": "specscope", "comments": "specscope"})
        self.symbol, self.second_symbol = SYMBOLS[currency], SYMBOLS[second or currency]
        self._formats: dict[tuple[str, str], Any] = {}

    def add(self, name: str, colour: str = "#0B3A75") -> Sheet:
        made = self.book.add_worksheet(name)
        made.set_tab_color(colour)
        made.hide_gridlines(2)
        made.set_landscape()
        made.set_paper(9)  # A4
        made.set_margins(left=0.4, right=0.4, top=0.5, bottom=0.6)
        made.set_footer("&L&8&F, &A&R&8&P / &N")
        return Sheet(self, made, name)

    def close(self) -> bytes:
        self.book.close()
        return self._out.getvalue()

    def format(self, kind: Kind, look: str) -> Any:
        if (kind, look) not in self._formats:
            money = f'"{self.symbol}"'
            code = {
                "text": "General", "count": "#,##0", "number": "#,##0.####",
                "factor": "0.000000", "share": "0.0#%", "money": _signed(f"{money}#,##0.00"),
                "rate": _signed(f"{money}#,##0.00##"), "tiny": _signed(f"{money}0.000000"), "day": "yyyy-mm-dd",
                "whole": "0", "tenth": "#,##0.0", "irr": '[>100]"> 10,000%";[<0][Red]-0.0#%;0.0#%',
                "change": f"+{money}#,##0.00;-{money}#,##0.00;{money}0.00",
                "also": _signed(f'"{self.second_symbol}"#,##0.00'),
            }[kind]  # fmt: skip
            settings = {"font_name": "Calibri", "font_color": INK, "valign": "top", "num_format": code, **_LOOKS[look]}
            settings["align"] = "left" if kind == "text" else "right"
            if kind == "text" and look in ("note", "wrapped", "fit"):
                settings["indent"] = 1
            self._formats[kind, look] = self.book.add_format(settings)
        return self._formats[kind, look]


def _signed(code: str) -> str:
    """A loss in red and with its minus before the sign of the currency, so that no colour alone tells it."""
    return f"{code};[Red]-{code}"


class Sheet:
    """Rows and columns count from 0. What is written is returned as what other formulas refer to it by."""

    def __init__(self, workbook: Workbook, made: Any, name: str) -> None:
        self.workbook, self.made = workbook, made
        self.name = name if name.isascii() and name.isalnum() else f"'{name}'"  # as formulas write it
        # Every formula by its place, for tests: text and value.
        self.formulas: dict[tuple[int, int], Formula] = {}

    def put(self, row: int, column: int, what: object, kind: Kind = "text", look: str = "plain") -> Formula:
        """A text, a number, a day or a formula; None leaves the cell blank, in its look. Raises ValueError for a number
        that is none: a cell shows what there is or nothing."""
        style = self.workbook.format(kind, look)
        if look == "title":
            self.made.set_row(row, 27)  # programs differ in whether they see to it themselves
        if what is None:
            self.made.write_blank(row, column, None, style)
            return Formula(self.at(row, column), 0.0)
        if isinstance(what, Formula):
            self._no_nan(what.value, row, column)
            self.formulas[row, column] = what
            self.made.write_formula(row, column, "=" + what.text.replace(f"{self.name}!", ""), style, what.value)
            return Formula(self.at(row, column), what.value)
        if isinstance(what, date):
            moment = datetime(what.year, what.month, what.day)
            self.made.write_datetime(row, column, moment, self.workbook.format("day", look))
            return Formula(self.at(row, column), 0.0)
        if isinstance(what, bool | str):
            text = shown_text(str(what))
            self.made.write_string(row, column, text, style)
            return Formula(self.at(row, column), text)
        number = float(what)  # type: ignore[arg-type]
        self._no_nan(number, row, column)
        self.made.write_number(row, column, number, style)
        return Formula(self.at(row, column), number)

    def _no_nan(self, value: Value, row: int, column: int) -> None:
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{self.name}, {xl_rowcol_to_cell(row, column)}: the number to be written is {value}")

    def row(self, row: int, column: int, cells: object, kind: Kind = "text", look: str = "plain") -> None:
        for i, cell in enumerate(cells):  # type: ignore[arg-type, var-annotated]
            self.put(row, column + i, cell, kind, look)

    def high_enough(self, row: int, texts: Mapping[str, float]) -> None:
        """For wrapped texts in columns of so many characters."""
        lines = max(
            sum(max(1, math.ceil(len(line) / width)) for line in text.split("\n")) for text, width in texts.items()
        )
        self.made.set_row(row, 15 * min(lines, 26))

    def coloured(self, first: tuple[int, int], last: tuple[int, int]) -> None:
        """Changes of a cost: less of it is good."""
        for criteria, look in (("<", "good"), (">", "bad")):
            colour = self.workbook.book.add_format({"font_color": _LOOKS[look]["font_color"]})
            self.made.conditional_format(
                *first, *last, {"type": "cell", "criteria": criteria, "value": 0, "format": colour}
            )

    def at(self, row: int, column: int) -> str:
        """The cell as all sheets may name it, both anchored."""
        return f"{self.name}!{xl_rowcol_to_cell(row, column, row_abs=True, col_abs=True)}"

    def cells(self, first: tuple[int, int], last: tuple[int, int], values: tuple[Value | None, ...]) -> Cells:
        """A range; its values are the caller's to know."""
        begin = xl_rowcol_to_cell(*first, row_abs=True, col_abs=True)
        end = xl_rowcol_to_cell(*last, row_abs=True, col_abs=True)
        return Cells(f"{self.name}!{begin}:{end}", values)

    def widths(self, widths: Mapping[int, float]) -> None:
        for column, width in widths.items():
            self.made.set_column(column, column, width)

    def print_as(self, *, pages_wide: int = 1, repeat_rows: int | None = None) -> None:
        self.made.fit_to_pages(pages_wide, 0)
        if repeat_rows is not None:
            self.made.repeat_rows(0, repeat_rows)
