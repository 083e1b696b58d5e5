"""The table's own file: UTF-8 CSV, read without repairing or guessing anything, and written so that it reads back."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from datetime import date

from pydantic import ValidationError

from pricing.faults import Fault, PriceError, messages
from pricing.rows import COLUMNS, NATIVE_COLUMNS, PriceRow


def parse(data: bytes, name: str, today: date | None) -> tuple[PriceRow, ...]:
    """The rows of a file with exactly `COLUMNS` or, when it has a `per_hour`, `NATIVE_COLUMNS`, in any order.

    Raises `PriceError` that names file, line and column of every fault. today: None holds no date to the clock.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise PriceError(name, [Fault(line, "", "is not UTF-8 text")]) from error
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[PriceRow] = []
    faults: list[Fault] = []
    first_lines: dict[tuple[object, ...], int] = {}
    line = 1
    try:
        header = [cell.strip() for cell in next(reader, [])]
        faults = _header_faults(header)
        if faults:
            raise PriceError(name, faults)
        while True:
            line = reader.line_num + 1  # a quoted cell may span lines: name the one where the row starts
            cells = next(reader, None)
            if cells is None:
                break
            if not any(cell.strip() for cell in cells):
                continue
            row = _row(header, cells, line, today)
            if not isinstance(row, PriceRow):
                faults.extend(row)
                continue
            rows.append(row)
            first = first_lines.setdefault(identity(row), line)
            if first != line:
                said = f"is the same price of the same instance as line {first}"
                faults.append(Fault(line, _price_column(header), said))
    except csv.Error as error:
        faults.append(Fault(line, "", f"is not valid CSV ({error})"))
    if not rows and not faults:
        faults.append(Fault(line, "", "there is no price after the header"))
    if faults:
        raise PriceError(name, faults)
    return tuple(rows)


def write(rows: Iterable[PriceRow]) -> str:
    """CSV with `NATIVE_COLUMNS`, that `parse` reads back to the very same rows; a table's hash is taken of it."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(NATIVE_COLUMNS)
    for row in rows:
        writer.writerow([_written(getattr(row, name)) for name in NATIVE_COLUMNS])
    return out.getvalue()


def identity(row: PriceRow) -> tuple[object, ...]:
    """What makes a price this one. Two prices of one instance and day may be two sources; twice the same is a slip."""
    apart = ("source_url", "source_file", "source_sha256", "evidence", "notes")
    return (row.is_contract, *(getattr(row, name) for name in NATIVE_COLUMNS if name not in apart))


def _written(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):  # never in exponents, which the reader takes for a slip
        return format(value, "f") if "e" in repr(value) else repr(value)
    return str(value)


def _price_column(header: list[str]) -> str:
    return "per_hour" if "per_hour" in header else "usd_per_hour"


def _header_faults(header: list[str]) -> list[Fault]:
    columns = NATIVE_COLUMNS if "per_hour" in header else COLUMNS
    missing = [Fault(1, column, "the column is missing") for column in columns if column not in header]
    # Refused, not skipped: an unknown column may change the price, as a currency does.
    unknown = [Fault(1, column, _unknown(column)) for column in header if column not in columns]
    twice = [Fault(1, c, "the column appears twice") for c in dict.fromkeys(header) if header.count(c) > 1]
    return missing + unknown + twice


def _unknown(column: str) -> str:
    if column == "currency":
        return "the column is not known beside usd_per_hour; call the price per_hour where it has a currency"
    return "the column is not known"


def _row(header: list[str], cells: list[str], line: int, today: date | None) -> PriceRow | list[Fault]:
    if len(cells) != len(header):
        return [Fault(line, "", f"has {len(cells)} cells where the header has {len(header)}")]
    try:
        return PriceRow.model_validate(dict(zip(header, cells, strict=True)), context={"today": today})
    except ValidationError as error:
        price = _price_column(header)
        return [Fault(line, price if field == "per_hour" else field, said) for field, said in messages(error)]
