"""CSV for spreadsheets: plain numbers, absent values empty, and no text cell that a spreadsheet would run."""

from __future__ import annotations

import csv
import io
import numbers
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import date
from decimal import Decimal

from pricing.cost import CostRow
from pricing.rows import finite

_STARTS_A_FORMULA = "=+-@"
_BLANK_LETTERS = "\u115f\u1160\u3164\uffa0"  # Hangul fillers: letters by category, nothing on the screen


def guard(text: str) -> str:
    """`text`, with a leading ' when a spreadsheet would take it for a formula; quoting does not help."""
    # The first character that shows: a spreadsheet may drop a BOM, zero-width and control characters before it reads.
    first = next((character for character in text if not _unseen(character)), "")
    # Compatibility form: some read a full-width or small sign as the plain one.
    dangerous = text.startswith(("\t", "\r", "\n")) or unicodedata.normalize("NFKC", first)[:1] in [*_STARTS_A_FORMULA]
    return f"'{text}" if dangerous else text


def _unseen(character: str) -> bool:
    """Space, control, format and combining characters."""
    return unicodedata.category(character)[0] in "CZM" or character in _BLANK_LETTERS


def to_csv(rows: Sequence[CostRow | Mapping[str, object]], exported_on: date | None = None) -> str:
    """RFC 4180 text (comma, CRLF): one header line, one line a row; any CSV reader takes it as it is.

    Each row of a cost table carries price date (`as_of`), busy share and price-table hash; `exported_on`
    (default: the local day) is added as the last column. Numbers keep full precision; None, NaN and
    infinities are empty cells. Mappings are taken too: the header is then the union of their keys, guarded
    like any text.
    """
    day = exported_on or date.today()
    records = [_record(row) | {"exported_on": day} for row in rows]
    names = list(dict.fromkeys(name for record in records for name in record if name != "exported_on"))
    if not records:
        names = [field.name for field in fields(CostRow)]
    names.append("exported_on")
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow([guard(name) for name in names])
    for record in records:
        writer.writerow([_cell(record.get(name)) for name in names])
    return out.getvalue()


def _record(row: CostRow | Mapping[str, object]) -> dict[str, object]:
    if isinstance(row, CostRow):
        return {field.name: getattr(row, field.name) for field in fields(row)}
    return {str(name): value for name, value in row.items()}


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return str(value) if value.is_finite() else ""
    if isinstance(value, numbers.Real):  # numpy's numbers too; one beyond the range of floats is no figure
        number = finite(value)
        if number is None:
            return ""
        return str(int(value)) if isinstance(value, numbers.Integral) else repr(number)
    if isinstance(value, date):
        return value.isoformat()
    return guard(str(value))
