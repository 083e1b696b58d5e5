"""CSV for spreadsheets: plain numbers, absent values empty, and no text cell that a spreadsheet would run."""

from __future__ import annotations

import csv
import io
import numbers
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import date
from decimal import Decimal
from typing import Literal, get_args

from pricing.cells import finite, shown
from pricing.cost import CostRow
from pricing.rows import NATIVE_COLUMNS
from pricing.tables import PriceTable

Form = Literal["plain", "turkish"]
BOM = "\ufeff"
_STARTS_A_FORMULA = "=+-@"
_BLANK_LETTERS = "\u115f\u1160\u3164\uffa0"  # Hangul fillers: letters by category, nothing on the screen
_SEPARATORS = re.compile(r"([,;\t\r\n])")
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?[\]\s]*")


def guard(text: str) -> str:
    """`text`, with a leading ' when a spreadsheet would take it for a formula; quoting does not help.

    The same after every separator within: a spreadsheet set to another country's splits the line there, through the
    quotes, and what follows starts a cell of its own. A plain negative number there is left as it is.
    """
    start, *rest = _SEPARATORS.split(text)
    # Leading ones of these have been taken for nothing by spreadsheets, and what follows for the cell's start.
    dangerous = text.startswith(("\t", "\r", "\n")) or _is_formula(text)
    inner = (
        part if i % 2 == 0 or _NUMBER.fullmatch(part.strip()) or not _is_formula(part.lstrip(' "')) else f"'{part}"
        for i, part in enumerate(rest)
    )
    return ("'" if dangerous else "") + start + "".join(inner)


def _is_formula(text: str) -> bool:
    # The first character that shows: a spreadsheet may drop a BOM, zero-width and control characters before it reads.
    first = next((character for character in text if not _unseen(character)), "")
    # Compatibility form: some read a full-width or small sign as the plain one.
    return unicodedata.normalize("NFKC", first)[:1] in [*_STARTS_A_FORMULA]


def _unseen(character: str) -> bool:
    """Space, control, format and combining characters."""
    return unicodedata.category(character)[0] in "CZM" or character in _BLANK_LETTERS


def to_csv(
    rows: Sequence[CostRow | Mapping[str, object]],
    exported_on: date | None = None,
    *,
    form: Form = "plain",
    table: PriceTable | None = None,
    columns: Sequence[str] | None = None,
) -> str:
    """One header line, one line a row, CRLF. "plain": RFC 4180 (comma), which any CSV reader takes as it is. "turkish":
    as Excel in Turkish opens it: semicolons, decimal commas, a byte order mark.

    Each row of a cost table carries price date (`as_of`), busy share, and the price table's sha256 and file; with
    `table` every row does. `exported_on` (default: the local day) is added as the last column. Numbers keep full
    precision; None, NaN and infinities are empty cells. Mappings are taken too: the header is then the union of their
    keys, guarded like any text; without any row it is `columns`, by default those of a cost table. Raises ValueError
    for a form that is not known.
    """
    if form not in get_args(Form):
        raise ValueError(f"{shown(form)} is not one of the forms {', '.join(get_args(Form))}")
    day = exported_on or date.today()
    of_table = {} if table is None else {"price_table_sha256": table.sha256, "price_table_file": table.file}
    records = [_record(row) | of_table | {"exported_on": day} for row in rows]
    names = list(dict.fromkeys(name for record in records for name in record if name != "exported_on"))
    if not records:
        names = list(columns or [field.name for field in fields(CostRow)])
    names.append("exported_on")
    turkish = form == "turkish"
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\r\n", delimiter=";" if turkish else ",")
    writer.writerow([guard(name) for name in names])
    for record in records:
        writer.writerow([_cell(record.get(name), turkish) for name in names])
    return (BOM if turkish else "") + out.getvalue()


def prices_to_csv(table: PriceTable, exported_on: date | None = None, *, form: Form = "plain") -> str:
    """The rows of a price table as `to_csv` writes them: `NATIVE_COLUMNS`, per_gpu_hour, and the table's sha256 and
    file in each. Prices are in their own currency. To read a table back use its own file, which guards no text."""
    names = (*NATIVE_COLUMNS, "per_gpu_hour")
    rows = [{name: getattr(row, name) for name in names} for row in table]
    return to_csv(rows, exported_on, form=form, table=table, columns=[*names, "price_table_sha256", "price_table_file"])


def _record(row: CostRow | Mapping[str, object]) -> dict[str, object]:
    if isinstance(row, CostRow):
        return {field.name: getattr(row, field.name) for field in fields(row)}
    return {str(name): value for name, value in row.items()}


def _cell(value: object, turkish: bool) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return _number(str(value), turkish) if value.is_finite() else ""
    if isinstance(value, numbers.Real):  # numpy's numbers too; one beyond the range of floats is no figure
        number = finite(value)
        if number is None:
            return ""
        return _number(str(int(value)) if isinstance(value, numbers.Integral) else repr(number), turkish)
    if isinstance(value, date):
        return value.isoformat()
    return guard(str(value))


def _number(text: str, turkish: bool) -> str:
    return text.replace(".", ",") if turkish else text
