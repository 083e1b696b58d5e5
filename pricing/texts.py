"""Texts that people give to a scenario: kept as they are, and refused where a page or a file could not show them."""

from __future__ import annotations

import unicodedata
from typing import Annotated

from pydantic import AfterValidator, Field

# They turn the order of what follows, amounts of money too.
_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def _cannot_be_shown(character: str) -> bool:
    """Control characters, halves of surrogate pairs, and what Unicode says will never be a character."""
    code = ord(character)
    never = code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF
    return never or character in _TURNING or unicodedata.category(character) in ("Cc", "Cs")


def _shown(text: str, allowed: str) -> str:
    bad = next((c for c in text if c not in allowed and _cannot_be_shown(c)), None)
    if bad is not None:
        raise ValueError(f"it holds U+{ord(bad):04X}, which cannot be shown; leave it out")
    return text


def _line(text: str) -> str:
    if not text.strip():
        raise ValueError("it is blank; write something")
    return _shown(text, "\t")


def _lines(text: str) -> str:
    return _shown(text, "\t\r\n")


Name = Annotated[str, Field(min_length=1, max_length=80), AfterValidator(_line)]
Prose = Annotated[str, AfterValidator(_lines)]
