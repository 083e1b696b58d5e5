"""What a cell of a price file may hold. Each check says in a sentence what was wrong."""

from __future__ import annotations

import math
import numbers
import re
import unicodedata
from datetime import date
from decimal import Decimal
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BeforeValidator

_PLAIN_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")
_PLAIN_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
# Control, format (zero width, text direction), lone surrogate, line and paragraph separator: what a reader of the
# table cannot see, and what can make a cell read as another one.
_UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")


def finite(value: object) -> float | None:
    """`value` as a finite float, or None when it is not a number, is too large for one, or is NaN or infinite.

    True is not 1 and "2.49" is not 2.49: a caller who passes those has mixed something up.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real | Decimal):
        return None
    try:
        number = float(value)
    except (OverflowError, ValueError):  # 10**400; a signalling NaN
        return None
    return number if math.isfinite(number) else None


def shown(value: object) -> str:
    """`value` for a message: short, and with what cannot be seen spelt out."""
    if isinstance(value, int) and abs(value) >= 10**15:  # Python refuses to write out very long ones
        return "a number of too many digits"
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def seen(text: str, allowed: str = "") -> str:
    """`text` without the space around it; refused when it holds a character that nobody sees."""
    for character in text.strip(" \t\r\n"):  # not a bare strip(): that would drop some control characters
        if unicodedata.category(character) in _UNSEEN and character not in allowed:
            raise ValueError(f"there is an invisible character (U+{ord(character):04X}) in {shown(text)}")
    return text.strip()


def positive(value: object) -> float:
    """A positive finite number; text must be plain digits and a point, so '2,49' is never read as 249."""
    if isinstance(value, bool) or value is None:
        raise ValueError(f"{value!r} is not a number")
    if isinstance(value, str):
        text = seen(value)
        if not text:
            raise ValueError("the cell is blank; leave the row out when there is no figure")
        if not _PLAIN_NUMBER.fullmatch(text):
            raise ValueError(f"{shown(text)} is not a plain positive number such as 2.49")
        value = float(text)
    number = finite(value)
    if number is None:
        raise ValueError(f"{shown(value)} is not a finite number")
    if number <= 0:
        raise ValueError(f"{shown(value)} must be above 0; a missing figure is never 0")
    return number


def day(value: object) -> date:
    """A calendar day without a time zone: 2026-03-01 is 2026-03-01 everywhere."""
    if type(value) is date:  # a datetime is a date too, and carries a clock that must not be dropped silently
        return value
    text = _text(value) if isinstance(value, str) else repr(value)
    if not _PLAIN_DATE.fullmatch(text):
        raise ValueError(f"{shown(text)} is not a date written YYYY-MM-DD")
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a day of the calendar") from None


def blank(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def one_of(allowed: tuple[str, ...]) -> BeforeValidator:
    def check(value: object) -> str:
        text = _text(value)
        if text not in allowed:
            raise ValueError(f"{shown(text)} is not one of {', '.join(allowed)}")
        return text

    return BeforeValidator(check)


def _optional_number(value: object) -> float | None:
    return None if blank(value) else positive(value)


def _count(value: object) -> int:
    number = positive(value)
    if not number.is_integer():
        raise ValueError(f"{value!r} is not a whole number")
    return int(number)


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("the cell is blank")
    return seen(value)


def _optional_text(value: object) -> str:
    return "" if value is None else seen(str(value))


def _notes(value: object) -> str:
    return "" if value is None else seen(str(value), allowed="\t\r\n")


def _optional_day(value: object) -> date | None:
    return None if blank(value) else day(value)


def _optional_url(value: object) -> str:
    if blank(value):
        return ""
    text = _text(value)
    # Before any message that repeats the address: what is in front of the @ may be a password.
    if "@" in re.split(r"[/?#]", text.split("//", 1)[-1], maxsplit=1)[0]:
        raise ValueError("the web address holds a user name or password in front of an @; leave it out")
    try:
        parts = urlsplit(text)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and "." in (parts.hostname or "")
    except ValueError:  # e.g. an unclosed bracket in the host
        valid = False
    if not valid or any(c.isspace() for c in text):
        raise ValueError(f"{shown(text)} is not a web address that starts with http:// or https://")
    return text


def _optional_sha256(value: object) -> str:
    text = _optional_text(value)
    if text and not _SHA256.fullmatch(text):
        raise ValueError(f"{shown(text)} is not a sha256: 64 digits from 0 to 9 and a to f")
    return text


Text = Annotated[str, BeforeValidator(_text)]
OptionalText = Annotated[str, BeforeValidator(_optional_text)]
Notes = Annotated[str, BeforeValidator(_notes)]
Positive = Annotated[float, BeforeValidator(positive)]
OptionalPositive = Annotated[float | None, BeforeValidator(_optional_number)]
Count = Annotated[int, BeforeValidator(_count)]
Day = Annotated[date, BeforeValidator(day)]
OptionalDay = Annotated[date | None, BeforeValidator(_optional_day)]
OptionalUrl = Annotated[str, BeforeValidator(_optional_url)]
OptionalSha256 = Annotated[str, BeforeValidator(_optional_sha256)]
