"""The user's own contract prices, from a CSV or XLSX file: all of them, or every reason why not."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from pricing.amounts import DecimalMark
from pricing.cells import shown
from pricing.currencies import Currency
from pricing.currencies import currency as checked_currency
from pricing.faults import Fault, PriceError
from pricing.history import price_key
from pricing.import_row import KNOWN, Header, RowReader
from pricing.import_row import Reading as Reading
from pricing.regular_file import read_regular
from pricing.rows import PriceRow
from pricing.sheets import MAX_BYTES, read_lines
from pricing.tables import PriceTable


@dataclass(frozen=True)
class ImportedPrices:
    """The rows of one file, all of them good. sha256: of the file. readings: each number, currency and date. hidden:
    lines that the workbook does not show, which were read like the others."""

    rows: tuple[PriceRow, ...]
    file: str
    sha256: str
    readings: tuple[Reading, ...]
    hidden: tuple[int, ...] = ()

    @property
    def table(self) -> PriceTable:
        return PriceTable(self.rows, self.sha256, self.file)


def import_prices(
    path: str | Path,
    *,
    currency: Currency | str | None = None,
    decimal: DecimalMark | None = None,
    as_of: date | None = None,
    sheet: str | None = None,
    today: date | None = None,
) -> ImportedPrices:
    """Read a price list: CSV (comma, semicolon or tab; UTF-8) or XLSX, its first row the names of the columns.

    Columns: those of the price table in any order, with the price for the whole instance as `price`, `per_hour` or
    `usd_per_hour`. provider, instance, gpu, gpu_count and commitment are needed, and `as_of` unless it is given here.
    The currency is taken from the price's cell ("₺89,90", or a workbook's number format), the `currency` column or the
    argument; where they disagree, or none says, the row is refused. decimal: the decimal mark, for texts like "1,234"
    that are refused otherwise. Dates: 2026-03-01, 01.03.2026 or a workbook's own. sheet: of a workbook with several.
    Without an `evidence` column the rows are "contract", and their source is the file's name and sha256.

    Raises `PriceError` with every fault, by line and column; a file with one fault gives no row at all. A date after
    `today` (default: the local day) is a fault. ValueError for an argument that is none of the known ones.
    """
    file = Path(path)
    if decimal not in (None, ",", "."):
        raise ValueError(f"decimal must be ',' or '.', not {shown(decimal)}")
    told = checked_currency(currency) if currency is not None else None
    try:
        data = read_regular(file, MAX_BYTES)
    except OSError as error:
        raise PriceError(file.name, [Fault(1, "", f"cannot be read ({error.strerror})")]) from error
    lines, hidden = read_lines(data, file.name, KNOWN, sheet)
    header = Header(file.name, lines[0], as_of is not None)
    if len(lines) == 1:
        raise PriceError(file.name, [Fault(lines[0][0], "", "there is no price after the header")])
    sha256 = hashlib.sha256(data).hexdigest()
    base = {"evidence": "contract", "source_file": file.name, "source_sha256": sha256, "as_of": as_of or ""}
    rows: list[PriceRow] = []
    faults: list[Fault] = []
    readings: list[Reading] = []
    firsts: dict[Any, tuple[int, PriceRow]] = {}
    for line, cells in lines[1:]:
        reader = RowReader(header, line, cells, told, decimal)
        row = reader.row(base, today or date.today())
        faults += reader.faults
        readings += reader.readings
        if row is None:
            continue
        rows.append(row)
        first_line, first = firsts.setdefault((price_key(row), row.as_of), (line, row))
        if first_line != line:
            what = "the same price" if first.per_hour == row.per_hour else "another price"
            said = f"is {what} of the same instance and day as line {first_line}; keep one"
            faults.append(Fault(line, header.shown(header.price), said))
    if faults:
        raise PriceError(file.name, faults)
    return ImportedPrices(tuple(rows), file.name, sha256, tuple(readings), hidden)
