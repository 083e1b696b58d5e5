"""Prices over time: which were in force on a day, and how newer ones take the place of older ones.

Days are calendar days. Nothing is thrown away: what was replaced stays, with the last day on which it held.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import date, timedelta

from pricing.rows import PriceRow

_DAY = timedelta(days=1)
Key = tuple[object, ...]


def price_key(row: PriceRow) -> Key:
    """What two prices must share for one to take the place of the other.

    Currency is part of it, as a provider may quote in two; and a contract price never replaces a list price, or the
    other way round: both hold, each for its own buyer.
    """
    return (
        row.provider, row.instance, row.gpu, row.gpu_count, row.gpu_mem_gb, row.commitment, row.region, row.currency,
        row.is_contract,
    )  # fmt: skip


def reading(row: PriceRow) -> Key:
    """One price as read on one day; a second source for it adds nothing."""
    return (*price_key(row), row.per_hour, row.as_of)


def in_force(rows: Iterable[PriceRow], day: date) -> tuple[PriceRow, ...]:
    """The rows that were in force on `day`, in their order.

    Of each instance and commitment that is the latest price read on or before that day whose `valid_until` had not
    passed. `as_of` is the day on which somebody read the price, not the first day on which it held, so for a day
    before `as_of` a row says nothing, with one exception: after a price with a known last day the next reading holds,
    as it is what replaced it. (AWS p5.48xlarge: 98.32 until 2025-05-31; 55.04, read in 2026, from 2025-06-01 on.)
    A price that was only read later is not carried back to a day on which nobody had seen it: absent, not assumed.

    Two readings of one day from two sources are both in force, unless one of them ends on that day.
    """
    ordered = list(rows)
    groups: dict[Key, list[PriceRow]] = defaultdict(list)
    for row in ordered:
        groups[price_key(row)].append(row)
    held = {id(row) for group in groups.values() for row in _held(group, day)}
    return tuple(row for row in ordered if id(row) in held)


def _held(group: list[PriceRow], day: date) -> list[PriceRow]:
    read = [row for row in group if row.as_of <= day and not row.is_superseded(day)]
    if not read and any(row.is_superseded(day) for row in group):
        later = [row for row in group if row.as_of > day]
        first = min((row.as_of for row in later), default=None)
        return [row for row in later if row.as_of == first]
    latest = max(((row.as_of, row.valid_until or date.max) for row in read), default=None)
    if latest is None:
        return []
    ends_later = latest[1] > day
    return [r for r in read if r.as_of == latest[0] and (not ends_later or (r.valid_until or date.max) > day)]


def merged(old: Iterable[PriceRow], new: Iterable[PriceRow], day: date | None = None) -> tuple[PriceRow, ...]:
    """`old` and `new` together, each price closed (`valid_until`) on the day before the next reading took its place.

    day: the first day on which the new prices hold, when that is known to be before they were read; no price of `old`
    is closed before the day it was read on. A row of `new` that is older than one of `old` is history, and is closed
    itself. A reading that `old` has already adds nothing, but closes it when it carries an earlier last day. An end
    that is brought forward stays in the notes.
    """
    rows = list(old)
    index = {reading(row): i for i, row in enumerate(rows)}
    touched: dict[Key, None] = {}
    fresh: set[int] = set()
    for row in new:
        at = index.get(reading(row))
        if at is None:
            index[reading(row)] = len(rows)
            fresh.add(len(rows))
            rows.append(row)
            touched[price_key(row)] = None
        elif row.valid_until is not None and row.valid_until < (rows[at].valid_until or date.max):
            rows[at] = row
    by_key: dict[Key, list[int]] = defaultdict(list)
    for i, row in enumerate(rows):
        if price_key(row) in touched:
            by_key[price_key(row)].append(i)
    for places in by_key.values():
        # Of two readings of one day the new one comes after the old one; two of the same side stand beside each other.
        places.sort(key=lambda i: (rows[i].as_of, i in fresh))
        for place in places:
            after = [i for i in places if _replaces(i, place, rows, fresh)]
            if after:
                start = rows[after[0]].as_of
                if day is not None and after[0] in fresh and place not in fresh:
                    start = min(start, day)
                rows[place] = closed(rows[place], start - _DAY)
    return tuple(rows)


def _replaces(later: int, earlier: int, rows: list[PriceRow], fresh: set[int]) -> bool:
    if rows[later].as_of != rows[earlier].as_of:
        return rows[later].as_of > rows[earlier].as_of
    return later in fresh and earlier not in fresh


def closed(row: PriceRow, last_day: date) -> PriceRow:
    """`row` with `last_day` as its end, unless it ends before that; never before the day on which it was read."""
    last_day = max(last_day, row.as_of)
    if row.valid_until is not None and row.valid_until <= last_day:
        return row
    notes = row.notes
    if row.valid_until is not None:
        notes = "; ".join(filter(None, [notes, f"replaced before its end, {row.valid_until}"]))
    return row.model_copy(update={"valid_until": last_day, "notes": notes})
