"""A CSV or XLSX file as rows of cells with their line numbers. What a cell means is for others to say.

Nothing is computed: a formula counts by the value that the spreadsheet stored with it, or not at all.
"""

from __future__ import annotations

import csv
import io
import re
import warnings
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from pricing.cells import shown
from pricing.currencies import Currency, currency
from pricing.faults import Fault, PriceError

MAX_BYTES = 5_000_000
MAX_UNPACKED_BYTES = 50_000_000
MAX_ROWS = 10_000
MAX_COLUMNS = 64
_DELIMITERS = (",", ";", "\t")
_LOCALE = re.compile(r"\[\$([^\]-]*)(?:-[^\]]*)?\]")  # [$₺-41F] is a sign in a language, [$-41F] a language alone
_BRACKETS = re.compile(r"\[[^\]]*\]")
_ESCAPED = re.compile(r'\\(.)|"([^"]*)"|[_*].')


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


def read_lines(data: bytes, name: str, known: frozenset[str], sheet: str | None = None) -> list[Line]:
    """(line number, cells) of each row that is not blank, the header first; known: column names, in lower case.

    sheet: of a workbook with several. Raises PriceError: not a CSV or XLSX, too large, or too many rows.
    """
    if len(data) > MAX_BYTES:
        raise _refused(name, f"is larger than {MAX_BYTES // 1_000_000} MB, too large for a price list; split it")
    if data.startswith(b"PK\x03\x04"):
        lines = _workbook(data, name, sheet)
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
    return found


def _refused(name: str, message: str, line: int = 1) -> PriceError:
    return PriceError(name, [Fault(line, "", message)])


def _text_lines(data: bytes, name: str, known: frozenset[str]) -> Iterator[Line]:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
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


def _workbook(data: bytes, name: str, sheet: str | None) -> Iterator[Line]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as parts:
            if sum(part.file_size for part in parts.infolist()) > MAX_UNPACKED_BYTES:
                raise _refused(name, f"unpacks to more than {MAX_UNPACKED_BYTES // 1_000_000} MB; split it")
            # No workbook has one, and entities are how a small file becomes an endless one.
            if any(b"<!DOCTYPE" in parts.read(part) for part in parts.infolist() if part.filename.endswith("xml")):
                raise _refused(name, "holds a document type definition, which no workbook needs; save it again")
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
            for page in pages:
                page.reset_dimensions()  # what a file says of its own size may be wrong, and rows would be lost
            both = (page.iter_rows(max_col=MAX_COLUMNS) for page in pages)
            for line, (cells, sources) in enumerate(zip(*both, strict=True), 1):
                if any(source.value is not None for source in sources):
                    yield line, [_cell(cell, source) for cell, source in zip(cells, sources, strict=True)]
    except PriceError:
        raise
    except Exception as error:  # a broken file breaks openpyxl in many ways, and all of them are the file's
        raise _refused(name, f"cannot be read as a workbook ({type(error).__name__}); save it again") from error


def _sheet(names: list[str], file: str, wanted: str | None) -> str:
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
    if "%" in _ESCAPED.sub("", number_format):
        return Cell(None, f"{value:%}", fault=f"is a percentage ({value:%}) and no figure of a price list")
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
