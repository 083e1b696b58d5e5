"""What newer prices would change in a table: shown first, and taken over only by choice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal

from pricing import history
from pricing.cells import finite
from pricing.rows import PriceRow
from pricing.tables import PriceTable

What = Literal["added", "changed", "confirmed", "older", "gone"]


@dataclass(frozen=True)
class Entry:
    """One difference. added: only `new`. gone: only `old`. changed: another price of the same instance, commitment and
    currency. confirmed: the same price, read again later. older: a price from before the one that is held, or that has
    ended, which is history and changes nothing today."""

    what: What
    old: PriceRow | None
    new: PriceRow | None

    @property
    def share(self) -> float | None:
        """How much dearer (0.1: a tenth) or, below 0, cheaper; None where there are not two prices."""
        if self.old is None or self.new is None:
            return None
        return finite(self.new.per_hour / self.old.per_hour - 1)


@dataclass(frozen=True)
class PriceDiff:
    """Every difference between the prices of `old` in force on `day` and `new`, in the order of the tables.

    unchanged: how many of the new prices `old` has already, read on the same day or later.
    """

    old: PriceTable
    new: PriceTable
    day: date
    entries: tuple[Entry, ...]
    unchanged: int

    @property
    def added(self) -> tuple[Entry, ...]:
        return self._of("added")

    @property
    def changed(self) -> tuple[Entry, ...]:
        return self._of("changed")

    @property
    def confirmed(self) -> tuple[Entry, ...]:
        return self._of("confirmed")

    @property
    def older(self) -> tuple[Entry, ...]:
        return self._of("older")

    @property
    def gone(self) -> tuple[Entry, ...]:
        return self._of("gone")

    def _of(self, what: What) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries if entry.what == what)


def diff_tables(
    old: PriceTable, new: PriceTable, day: date | None = None, *, covers: Callable[[PriceRow], bool] | None = None
) -> PriceDiff:
    """Compare the prices of `new` with those of `old` that are in force on `day` (default: the local day).

    Of each instance and commitment the latest price of `new` counts; its earlier ones are history, as older ones are.
    covers: whether `new` would list this row of `old` if it still held; only then is its absence "gone". Default: rows
    of the providers, commitments and kind (contract or list price) that `new` has: a price list of one provider says
    nothing of another's. Prices are never compared across currencies: a price that changed its currency is gone and
    added.
    """
    day = day or date.today()
    before: dict[history.Key, list[PriceRow]] = defaultdict(list)
    for row in old.on(day):
        before[history.price_key(row)].append(row)
    current = new.on(max([day, *(row.as_of for row in new)]))  # what was read where it is tomorrow already, too
    scope = {_scope(row) for row in current}
    entries: list[Entry] = []
    unchanged = 0
    for row in current:
        held = before.get(history.price_key(row), [])
        same = next((other for other in held if other.per_hour == row.per_hour), None)
        if not held:
            entries.append(Entry("added", None, row))
        elif same is not None and row.as_of <= same.as_of:
            unchanged += 1
        else:
            what: What = "older" if row.as_of < held[-1].as_of else "confirmed" if same is not None else "changed"
            entries.append(Entry(what, same or held[-1], row))
    latest, readings = set(current), {history.reading(row) for row in old}
    for row in new:
        if row not in latest and history.reading(row) not in readings:
            held = before.get(history.price_key(row), [])
            entries.append(Entry("older", held[-1] if held else None, row))
    listed = {history.price_key(row) for row in current}
    expected = covers or (lambda row: _scope(row) in scope)
    for key, rows in before.items():
        entries += [Entry("gone", row, None) for row in rows if key not in listed and expected(row)]
    return PriceDiff(old, new, day, tuple(entries), unchanged)


def _scope(row: PriceRow) -> tuple[str, str, bool]:
    return row.provider, row.commitment, row.is_contract


def accept(difference: PriceDiff, chosen: Collection[Entry]) -> PriceTable:
    """`difference.old` with the chosen entries taken over, and nothing else.

    A new price comes in with its own date; the price that it replaces stays and is closed on the day before. A gone
    price stays and is closed on the day before `difference.day`. Raises ValueError for an entry that is not one of this
    difference's.
    """
    wanted = set(chosen)
    if not wanted <= set(difference.entries):
        raise ValueError("an entry to accept is not one of this difference; take it from its entries")
    table = difference.old
    # In the order of the difference, whatever the order of choice: the same choice gives the same table.
    taken = [entry for entry in difference.entries if entry in wanted]
    gone = {entry.old for entry in taken if entry.new is None}
    last_day = difference.day - timedelta(days=1)
    rows = tuple(history.closed(row, last_day) if row in gone else row for row in table.rows)
    if rows != table.rows:
        table = PriceTable.of(rows, table.file)
    fresh = [entry.new for entry in taken if entry.new is not None]
    return table.merged(PriceTable.of(fresh, difference.new.file)) if fresh else table
