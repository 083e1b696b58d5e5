"""A CSV or XLSX file as rows of cells with their line numbers. What a cell means is for others to say.

Nothing is computed: a formula counts by the value that the spreadsheet stored with it, or not at all.
"""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, NamedTuple

from pricing.cells import shown
from pricing.currencies import Currency, currency
from pricing.faults import Fault, PriceError
from pricing.workbook_parts import WorkbookError, check_parts, hidden_rows

MAX_BYTES = 5_000_000
MAX_ROWS = 10_000
MAX_COLUMNS = 64
_DELIMITERS = (",", ";", "\t")
_LOCALE = re.compile(r"\[\$([^\]-]*)(?:-[^\]]*)?\]")  # [$₺-41F] is a sign in a language, [$-41F] a language alone
_BRACKETS = re.compile(r"\[[^\]]*\]")
_ESCAPED = re.compile(r'\\(.)|"([^"]*)"|[_*].')
_SCALED = re.compile(r"[0#?],+(?![0#?,])")  # a comma behind the last digit of a format divides by a thousand


@dataclass(frozen=True)
class Cell:
    """value: text as it stands, or the number or day that a spreadsheet holds; None when blank. text: for people.

    currency: the one that the cell's number format shows. fault: why the cell cannot be used, "" when it can.
    """

    value: str | int | float | date | None
    text: str
    currency: Currency | None = None
    fault: str = ""

    @property
    def blank(self) -> bool:
        return not self.fault and (self.value is None or (isinstance(self.value, str) and not self.value.strip()))


BLANK = Cell(None, "")
Line = tuple[int, list[Cell]]


class Lines(NamedTuple):
    """(line number, cells) of each row that is not blank, the header first. hidden: the numbers of those that the
    workbook does not show."""

    rows: list[Line]
    hidden: tuple[int, ...]


def read_lines(data: bytes, name: str, known: frozenset[str], sheet: str | None = None) -> Lines:
    """known: column names, in lower case.

    sheet: of a workbook with several. Raises PriceError: not a CSV or XLSX, too large, or too many rows.
    """
    if len(data) > MAX_BYTES:
        raise _refused(name, f"is larger than {MAX_BYTES // 1_000_000} MB, too large for a price list; split it")
    unseen: set[int] = set()
    if data.startswith(b"PK\x03\x04"):
        lines = _workbook(data, name, sheet, unseen)
    elif data.startswith(b"\xd0\xcf\x11\xe0"):
        raise _refused(name, "is an old .xls workbook or has a password; save it as .xlsx without one, or as CSV")
    elif sheet is not None:
        raise _refused(name, f"is no workbook, so there is no sheet {shown(sheet)} in it; leave the sheet out")
    else:
        lines = _text_lines(data, name, known)
    found: list[Line] = []
    for number, cells in lines:
        if all(cell.blank for cell in cells):
            continue
        if len(found) > MAX_ROWS:
            raise _refused(name, f"has more than {MAX_ROWS:,} rows, too many for a price list; split it", number)
        found.append((number, cells))
    if not found:
        raise _refused(name, "is empty; its first row holds the names of the columns")
    return Lines(found, tuple(number for number, _ in found if number in unseen))


def _refused(name: str, message: str, line: int = 1) -> PriceError:
    return PriceError(name, [Fault(line, "", message)])


def _text_lines(data: bytes, name: str, known: frozenset[str]) -> Iterator[Line]:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or _every_second_is_zero(data):
        raise _refused(name, "is UTF-16 text; save it as CSV UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _refused(name, "is not UTF-8 text; save it as CSV UTF-8", line) from error
    told = re.match(r'"?sep=([,;\t])"?\r?\n', text)  # spreadsheets put it first for each other
    skip = 1 if told else 0
    delimiter = told[1] if told else _delimiter(text, known)
    reader = csv.reader(io.StringIO(text[told.end() :] if told else text, newline=""), delimiter=delimiter, strict=True)
    width = 0
    line = 1
    try:
        while True:
            line = reader.line_num + 1 + skip  # a quoted cell may span lines: name the one where the row starts
            cells = next(reader, None)
            if cells is None:
                return
            if not any(cell.strip() for cell in cells):
                continue
            width = width or len(cells)
            if len(cells) != width:
                hint = "; a decimal comma needs quotes around the cell, or ; between cells" if delimiter == "," else ""
                raise _refused(name, f"has {len(cells)} cells where the header has {width}{hint}", line)
            yield line, [Cell(cell, cell) for cell in cells]
    except csv.Error as error:
        raise _refused(name, f"is not valid CSV ({error})", line) from error


def _every_second_is_zero(data: bytes) -> bool:
    """UTF-16 that does not say so: Latin letters have a zero byte each there."""
    halves = data[:200:2], data[1:200:2]
    return any(half.count(0) > len(half) / 2 for half in halves) and len(data) > 1


def _delimiter(text: str, known: frozenset[str]) -> str:
    """The one that makes the most column names of the first line; a sniffer would take a decimal comma for one."""
    first = next((line for line in text.splitlines() if line.strip()), "")

    def names(delimiter: str) -> int:
        try:
            cells = next(csv.reader([first], delimiter=delimiter), [])
        except csv.Error:
            return 0
        return len(known & {cell.strip().lower() for cell in cells})

    return max(_DELIMITERS, key=names)


def _workbook(data: bytes, name: str, sheet: str | None, unseen: set[int]) -> Iterator[Line]:
    """unseen: filled with the numbers of the hidden rows."""
    try:
        check_parts(data)
        # Imported here: only who imports a workbook pays for it.
        from openpyxl import load_workbook

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of styles and validations that are not read anyway
            # Twice: one reading has the stored values, the other tells which of them formulas made.
            books = [
                load_workbook(io.BytesIO(data), read_only=True, data_only=only, keep_links=False)
                for only in (True, False)
            ]
            title = _sheet([page.title for page in books[0].worksheets], name, sheet)
            pages = [book[title] for book in books]
            with pages[0]._get_source() as source:
                unseen |= hidden_rows(source.read())
            for page in pages:
                page.reset_dimensions()  # what a file says of its own size may be wrong, and rows would be lost
            both = (page.iter_rows(max_col=MAX_COLUMNS) for page in pages)
            for line, (cells, sources) in enumerate(zip(*both, strict=True), 1):
                if any(source.value is not None for source in sources):
                    yield line, [_cell(cell, source) for cell, source in zip(cells, sources, strict=True)]
    except PriceError:
        raise
    except WorkbookError as error:
        raise _refused(name, str(error), error.line) from error
    except Exception as error:  # a broken file breaks openpyxl in many ways, and all of them are the file's
        if b"xl/chartsheets/" in data:  # names of parts are not packed
            raise _refused(
                name, "has a chart sheet that cannot be read; save the sheet of prices alone, or as CSV"
            ) from error
        raise _refused(name, f"cannot be read as a workbook ({type(error).__name__}); save it again") from error


def _sheet(names: list[str], file: str, wanted: str | None) -> str:
    if not names:
        raise _refused(file, "has no sheet with rows; save the prices as a sheet of their own, or as CSV")
    if wanted is not None and wanted not in names:
        raise _refused(file, f"has no sheet {shown(wanted)}; its sheets are {', '.join(map(shown, names))}")
    if wanted is None and len(names) > 1:
        raise _refused(file, f"has {len(names)} sheets, {', '.join(map(shown, names))}; say which one holds the prices")
    return wanted if wanted is not None else names[0]


def _cell(cell: Any, source: Any) -> Cell:
    value = cell.value
    if value is None:
        if source.data_type == "f":
            return Cell(
                None, "", fault="holds a formula without a stored value; save the workbook again, or paste values"
            )
        return BLANK
    if isinstance(value, str):
        if cell.data_type == "e":
            return Cell(None, value, fault=f"holds the error {value}")
        return Cell(value, value)
    if isinstance(value, bool):
        return Cell(None, str(value), fault=f"holds {value}, which is neither text nor a number")
    if isinstance(value, datetime):
        if value.time() != value.min.time():
            return Cell(None, str(value), fault=f"holds the moment {value}; a date has no clock")
        return Cell(value.date(), value.date().isoformat())
    if isinstance(value, int | float):
        return _number_cell(value, str(cell.number_format))
    return Cell(None, str(value), fault=f"holds {shown(value)}, which is neither text, a number nor a date")


def _number_cell(value: int | float, number_format: str) -> Cell:
    plain = _ESCAPED.sub("", number_format)
    if "%" in plain:
        return Cell(None, f"{value:%}", fault=f"is a percentage ({value:%}) and no figure of a price list")
    if _SCALED.search(_BRACKETS.sub("", plain)):
        said = f"holds {value!r} and is shown in thousands or millions, by its number format {shown(number_format)}"
        return Cell(None, repr(value), fault=f"{said}; give the cell a format that shows the price itself")
    name = format_currency_name(number_format)
    if not name:
        return Cell(value, repr(value))
    text = f"{value!r} {name}"
    try:
        return Cell(value, text, currency(name))
    except ValueError as error:
        return Cell(None, text, fault=str(error))


def format_currency_name(number_format: str) -> str:
    """The currency that a spreadsheet's number format shows beside the number, as it names it; "" for none."""
    section = number_format.split(";")[0]
    named = [match for match in _LOCALE.findall(section) if match.strip()]
    rest = _BRACKETS.sub("", _LOCALE.sub("", section))
    literal = _ESCAPED.sub(lambda m: f" {m[1] or m[2] or ''} ", rest)
    named += [sign for sign in "$€£₺¥₹₩₽" if sign in literal]
    named += re.findall(r"\b(?:[A-Z]{3}|TL)\b", literal)
    return next((name.strip() for name in named), "")
