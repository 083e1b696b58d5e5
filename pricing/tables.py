"""The price table: read, checked row by row, and refused with line and column when a cell is wrong."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import ValidationError

from pricing.rows import COLUMNS, PriceRow

DEFAULT_PRICES = Path(__file__).parent / "data" / "gpu_prices.csv"
_FAULTS_SHOWN = 5


@dataclass(frozen=True)
class Fault:
    """One wrong cell. `line` counts from 1 as an editor does (the header is line 1); `column` may be ""."""

    line: int
    column: str
    message: str

    def __str__(self) -> str:
        # A column's name comes from the file: one that cannot be printed is spelt out.
        column = self.column if self.column.isprintable() else repr(self.column)[1:-1]
        where = f"line {self.line}" + (f", column {column}" if column else "")
        return f"{where}: {self.message}"


class PriceError(ValueError):
    """The price file cannot be used. `faults` holds all; the message shows the first few and the count."""

    def __init__(self, file: str, faults: Collection[Fault]) -> None:
        self.file = file
        self.faults = tuple(faults)
        shown = "; ".join(str(fault) for fault in self.faults[:_FAULTS_SHOWN])
        count = len(self.faults)
        more = f"; and {count - _FAULTS_SHOWN} more" if count > _FAULTS_SHOWN else ""
        super().__init__(f"{file} has {count} fault{'' if count == 1 else 's'}: {shown}{more}")


@dataclass(frozen=True)
class PriceTable:
    """All rows of one price file, superseded ones too, and the sha256 of the file they came from."""

    rows: tuple[PriceRow, ...]
    sha256: str
    file: str

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[PriceRow]:
        return iter(self.rows)

    def select(
        self,
        *,
        provider: str | Collection[str] | None = None,
        commitment: str | Collection[str] | None = None,
        gpu: str | Collection[str] | None = None,
        include_superseded: bool = False,
        today: date | None = None,
    ) -> PriceTable:
        """Rows that match every given value (one or several). `gpu` is a name ("A100 SXM") or a `gpu_key`.

        Superseded prices are left out unless asked for; `today` (default: the local day) decides what has
        passed.
        """
        day = today or date.today()

        def wanted(row: PriceRow) -> bool:
            return (
                _matches(provider, row.provider)
                and _matches(commitment, row.commitment)
                and _matches(gpu, row.gpu, row.gpu_key)
                and (include_superseded or not row.is_superseded(day))
            )

        return PriceTable(tuple(row for row in self.rows if wanted(row)), self.sha256, self.file)

    def to_frame(self, today: date | None = None) -> pd.DataFrame:
        """A DataFrame: the file's columns, then usd_per_gpu_hour, gpu_key, superseded, stale (on `today`)."""
        day = today or date.today()
        records = [
            {name: getattr(row, name) for name in COLUMNS}
            | {
                "usd_per_gpu_hour": row.usd_per_gpu_hour,
                "gpu_key": row.gpu_key,
                "superseded": row.is_superseded(day),
                "stale": row.is_stale(day),
            }
            for row in self.rows
        ]
        columns = [*COLUMNS, "usd_per_gpu_hour", "gpu_key", "superseded", "stale"]
        return pd.DataFrame.from_records(records, columns=columns)


def _matches(wanted: str | Collection[str] | None, *values: str) -> bool:
    if wanted is None:
        return True
    return any(value == wanted if isinstance(wanted, str) else value in wanted for value in values)


def load_prices(path: str | Path | None = None, *, today: date | None = None) -> PriceTable:
    """Read and check a price file (default: the one that ships with the package).

    The file is UTF-8 CSV, with or without a BOM, with exactly the columns of `COLUMNS` in any order;
    `usd_per_hour` is for the whole instance. Raises `PriceError` that names file, line and column of every
    fault. Nothing is repaired or guessed. A price dated after `today` (default: the local day) is a fault; the
    shipped file is held to that only when `today` is given, so that a clock set wrong does not stop the program.
    """
    day = today or (date.today() if path is not None else None)
    file = Path(path) if path is not None else DEFAULT_PRICES
    try:
        data = file.read_bytes()
    except OSError as error:
        raise PriceError(file.name, [Fault(1, "", f"cannot be read ({error.strerror})")]) from error
    rows = _parse(data, file.name, day)
    return PriceTable(rows, hashlib.sha256(data).hexdigest(), file.name)


def _parse(data: bytes, name: str, today: date | None) -> tuple[PriceRow, ...]:
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
            first = first_lines.setdefault(_identity(row), line)
            if first != line:
                faults.append(Fault(line, "usd_per_hour", f"is the same price of the same instance as line {first}"))
    except csv.Error as error:
        faults.append(Fault(line, "", f"is not valid CSV ({error})"))
    if not rows and not faults:
        faults.append(Fault(line, "", "there is no price after the header"))
    if faults:
        raise PriceError(name, faults)
    return tuple(rows)


def _header_faults(header: list[str]) -> list[Fault]:
    missing = [Fault(1, column, "the column is missing") for column in COLUMNS if column not in header]
    # Refused, not skipped: an unknown column may change the price, as a currency does.
    unknown = [Fault(1, column, "the column is not known") for column in header if column not in COLUMNS]
    twice = [Fault(1, c, "the column appears twice") for c in dict.fromkeys(header) if header.count(c) > 1]
    return missing + unknown + twice


def _identity(row: PriceRow) -> tuple[object, ...]:
    """What makes a price this one. Two prices of one instance and day may be two sources; twice the same is a slip."""
    return tuple(getattr(row, name) for name in COLUMNS if name not in ("source_url", "evidence", "notes"))


def _row(header: list[str], cells: list[str], line: int, today: date | None) -> PriceRow | list[Fault]:
    if len(cells) != len(header):
        return [Fault(line, "", f"has {len(cells)} cells where the header has {len(header)}")]
    try:
        return PriceRow.model_validate(dict(zip(header, cells, strict=True)), context={"today": today})
    except ValidationError as error:
        return [Fault(line, str(e["loc"][0]), _message(e)) for e in error.errors()]


def _message(error: Any) -> str:
    cause = error.get("ctx", {}).get("error")
    return str(cause) if cause is not None else str(error["msg"])
