"""Amounts as people write them in two languages: "2,49", "1.234,56", "₺89,90". What can be read two ways is refused."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from pricing.cells import seen, shown
from pricing.currencies import CURRENCIES, Currency, currency_named

DecimalMark = Literal[",", "."]
LONGEST = 40  # characters: far longer than any price, far shorter than what would be slow to read
_AROUND = re.compile(r"([^0-9]*)([0-9](?:.*[0-9])?)([^0-9]*)")
_DATE = re.compile(r"[0-9]{1,4}([./-])[0-9]{1,2}\1[0-9]{2,4}")
_GROUPED = "[1-9][0-9]{{0,2}}(?:{mark}[0-9]{{3}})+"
# Marks between thousands. The space may be any kind: a spreadsheet writes no-break and narrow ones.
_GROUPS = {",": ",", ".": r"\.", " ": " ", "'": "'", "’": "’"}
_EXAMPLE = "write it like 2.49 or 2,49, with a currency beside it if need be"


@dataclass(frozen=True)
class Amount:
    """A positive amount as `text` says it. currency: None when the text names none."""

    text: str
    value: Decimal
    currency: Currency | None


def parse_amount(text: str, decimal: DecimalMark | None = None) -> Amount:
    """What `text` says, with a decimal comma or point, thousands marks and a currency before or after the number.

    A text that says two numbers, as "1,234" does, is refused unless `decimal` tells which mark is the decimal one.
    Raises ValueError with one sentence, also for what is no price: blank, 0, negative, a percentage, a date, two
    currencies.
    """
    clean = seen(text)
    if not clean:
        raise ValueError("the cell is blank; leave the row out when there is no price")
    clean = "".join(" " if unicodedata.category(c) == "Zs" else c for c in clean)
    if "%" in clean or "٪" in clean:
        raise ValueError(f"{shown(text)} is a percentage and no price")
    if _DATE.fullmatch(clean):
        raise ValueError(f"{shown(text)} is a date and no price")
    parts = _AROUND.fullmatch(clean) if len(clean) <= LONGEST else None
    if parts is None:
        raise ValueError(f"{shown(text)} is not a price; {_EXAMPLE}")
    front, body, back = (part.strip() for part in parts.groups())
    if front.startswith(("-", "−", "(")) or front.endswith(("-", "−")):
        raise ValueError(f"{shown(text)} must be above 0; a price is never negative")
    value = _value(body, text, decimal)
    if value == 0:
        raise ValueError(f"{shown(text)} must be above 0; a missing price is never 0")
    return Amount(text, value, _currency(front, back, text))


def _value(body: str, text: str, decimal: DecimalMark | None) -> Decimal:
    readings = _readings(body, decimal)
    if not readings:
        as_told = f" with {decimal!r} as the decimal mark" if decimal is not None else ""
        raise ValueError(f"{shown(text)} is not a price{as_told}; {_EXAMPLE}")
    if len(readings) > 1:
        low, high = (format(value, "f") for value in sorted(readings))
        raise ValueError(f"{shown(text)} is ambiguous, {low} or {high}; say which mark is the decimal one")
    return readings.pop()


def _readings(body: str, decimal: DecimalMark | None) -> set[Decimal]:
    """Every number that `body` can be, with either mark as the decimal one and any other between thousands."""
    found: set[Decimal] = set()
    for mark in (decimal,) if decimal is not None else (",", "."):
        for group, pattern in {"": "", **_GROUPS}.items():
            if group == mark:
                continue
            whole = _GROUPED.format(mark=pattern) if group else "(?:0|[1-9][0-9]*)"
            if re.fullmatch(rf"{whole}(?:{re.escape(mark)}[0-9]+)?", body):
                found.add(Decimal(body.replace(group, "").replace(mark, ".") if group else body.replace(mark, ".")))
    return found


def _currency(front: str, back: str, text: str) -> Currency | None:
    found: list[Currency] = []
    for name in filter(None, (front, back)):
        known = currency_named(name)
        if known is None:
            raise ValueError(
                f"{shown(text)} has {shown(name)} beside the number; only a currency may stand there, one of "
                f"{', '.join(CURRENCIES)}"
            )
        found.append(known)
    if len(set(found)) > 1:
        raise ValueError(f"{shown(text)} names two currencies, {found[0]} and {found[1]}")
    return found[0] if found else None
