"""A number as somebody typed it: one reading, or a sentence."""

import re
from decimal import Decimal

from babel.numbers import NumberFormatError, parse_decimal

from app.catalogue import Words
from app.finance.shown import clean, exact

_LOCALES = {"en": "en_US", "tr": "tr_TR"}
_AROUND = "$€£₺% \u00a0\u202f"  # what stands around a number without changing it
_PLAIN = re.compile(r"[+\-−]?[0-9][0-9.,]*")
LONGEST = 60


def read_number(given: object, words: Words) -> float:
    """A slider's number, or text in the notation of the reader's language. "1.234" is 1234 in Turkish and 1.234 in
    English; what is neither is refused with what it may have meant. Raises ValueError with a sentence."""
    if isinstance(given, int | float) and not isinstance(given, bool):
        return float(given)
    text = clean(given[:LONGEST]).strip().strip(_AROUND) if isinstance(given, str) else ""
    if not text:
        raise ValueError(words("typed_empty"))
    if not (text.isascii() or "−" in text) or not _PLAIN.fullmatch(text):
        raise ValueError(words("typed_no_number", text=text, example=exact(1234.5, words)))
    try:
        return float(parse_decimal(text.replace("−", "-"), _LOCALES[words.language], strict=True))
    except NumberFormatError as error:
        meant = _meant(error, words)
        raise ValueError(words("typed_notation", text=text, meant=meant, example=exact(1234.5, words))) from None


def _meant(error: NumberFormatError, words: Words) -> str:
    """The reading with the marks the other way round: a person who types 2.49 on a Turkish page means 2,49."""
    found = [s for s in (error.suggestions or []) if isinstance(s, str)]
    longest = max(found, key=len, default="")
    return longest or exact(float(Decimal("1234.5")), words)
