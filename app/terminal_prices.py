"""How the command line shows prices: in their own currency, dated, and what newer ones would change."""

from collections import Counter
from collections.abc import Sequence
from datetime import date
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from app import terminal
from pricing import PriceDiff, PriceRow, PriceTable, Reading, format_unit_price
from pricing.rows import STALE_AFTER_DAYS

WIDE = 200  # characters
_ENTRIES = ("changed", "added", "confirmed", "older", "gone")


def show_prices(table: PriceTable, converted: Sequence[dict[str, Any] | None], day: date) -> None:
    other = next((c["currency"] for c in converted if c), None)
    shown = Table()
    for name in ("instance", "GPUs", "terms"):
        shown.add_column(name, overflow="fold")
    for name in ("per hour", "per GPU-hour", *([f"in {other}"] if other else [])):
        shown.add_column(name, justify="right", no_wrap=True)
    shown.add_column("as of, evidence", overflow="fold")
    unreached: Counter[str] = Counter()
    for row, conversion in zip(table, converted, strict=True):
        prices = [_price(row), format_unit_price(row.per_gpu_hour, row.currency)]
        if conversion:
            prices.append(format_unit_price(conversion["per_gpu_hour"], conversion["currency"]))
        elif other:
            prices.append(terminal.NO_VALUE)
            unreached[row.currency] += 1
        notes = [f"{row.as_of} {row.evidence}", f"until {row.valid_until}" if row.valid_until else ""]
        notes.append("stale" if row.is_stale(day) else "")
        shown.add_row(*map(text, [*_what(row), *prices, ", ".join(filter(None, notes))]))
    _print(shown)
    for how, quoted in dict.fromkeys((c["how"], c["rate_day"]) for c in converted if c):
        age = (day - date.fromisoformat(quoted)).days if quoted else 0
        terminal.note(f"{other}: {how}" + (f" ({age} days before {day})" if age > 0 else ""))
    for currency, count in unreached.items():
        terminal.note(f"no rate was given from {currency} to {other}: {count} of the prices stand as they are only")
    stale = sum(row.is_stale(day) for row in table)
    if stale:
        terminal.note(f"{stale} of {len(table)} prices were read more than {STALE_AFTER_DAYS} days before {day}: stale")
    terminal.note(f"{len(table)} prices of {table.file}, sha256 {table.sha256}")


def show_readings(readings: Sequence[Reading]) -> None:
    """What each cell was read as, beside its text: the place to see a price that is off by a thousand."""
    shown = Table(title="as it was read", title_style="dim", title_justify="left")
    for name in ("line", "column", "in the file", "read as"):
        shown.add_column(name, justify="right" if name == "line" else "left", overflow="fold")
    for reading in readings:
        shown.add_row(*map(text, (str(reading.line), reading.column, reading.text, reading.read_as)))
    _print(shown)


def show_diff(difference: PriceDiff) -> None:
    shown = Table(title="against the prices that are held", title_style="dim", title_justify="left")
    for name in ("", "instance", "GPUs", "terms"):
        shown.add_column(name, overflow="fold")
    for name in ("held", "new", "change"):
        shown.add_column(name, justify="right", no_wrap=True)
    shown.add_column("as of", no_wrap=True)
    for what in _ENTRIES:
        for entry in getattr(difference, what):
            row = entry.new or entry.old
            change = f"{entry.share:+.1%}" if what == "changed" and entry.share is not None else ""
            cells = [what, *_what(row), _price(entry.old), _price(entry.new), change, str(row.as_of)]
            shown.add_row(*map(text, cells))
    if difference.entries:
        _print(shown)
    counts = ", ".join(f"{len(getattr(difference, what))} {what}" for what in _ENTRIES)
    terminal.note(f"{counts}, {difference.unchanged} held already")


def _what(row: PriceRow) -> list[str]:
    terms = f"{row.commitment}, {row.region}" if row.region else row.commitment
    return [f"{row.provider} {row.instance}", f"{row.gpu_count} x {row.gpu_key}", terms]


def _print(table: Table) -> None:
    """A pipe has no width to keep to."""
    out = terminal.out if terminal.out.is_terminal else Console(file=terminal.out.file, width=WIDE, highlight=False)
    out.print(table)


def _price(row: PriceRow | None) -> str:
    """As it was quoted: rounded, two prices could look like one."""
    return "" if row is None else f"{row.per_hour:.15g} {row.currency}"


def text(cell: str) -> Text:
    """Text of a file, without what would drive the terminal."""
    return Text("".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in cell))
