"""A number as somebody typed it: one reading, or a sentence."""

import math
import re
from decimal import Decimal

from babel.numbers import NumberFormatError, parse_decimal

from app.catalogue import Words
from app.finance.shown import clean, exact

_LOCALES = {"en": "en_US", "tr": "tr_TR"}
_BLANKS = " \u00a0\u202f\t"
_SIGNS = "$€£₺%"
_PLAIN = re.compile(r"[+\-−]?[0-9][0-9.,]*")
LONGEST = 60


def read_number(given: object, words: Words, unit: str = "") -> float:
    """A slider's number, or text in the notation of the reader's language. "1.234" is 1234 in Turkish and 1.234 in
    English; what is neither is refused with what it may have meant. unit: of the field; its own sign may stand beside
    the number, another is refused, as 5 dollars are not 5 lira. Raises ValueError with a sentence."""
    if isinstance(given, int | float) and not isinstance(given, bool):
        return _finite(given, words)
    text = clean(given[: LONGEST + 1]).strip(_BLANKS) if isinstance(given, str) else ""
    if len(text) > LONGEST:
        raise ValueError(words("typed_long", n=LONGEST))
    own = "".join(c for c in _SIGNS if c in unit)
    other = next((c for c in text if c in _SIGNS and c not in own), None)
    if other is not None:
        raise ValueError(words("typed_sign", text=text, sign=other, unit=unit or words("typed_no_unit")))
    text = text.strip(_BLANKS + own)
    if not text:
        raise ValueError(words("typed_empty"))
    if not (text.isascii() or "−" in text) or not _PLAIN.fullmatch(text):
        raise ValueError(words("typed_no_number", text=text, example=exact(1234.5, words)))
    try:
        return _finite(parse_decimal(text.replace("−", "-"), _LOCALES[words.language], strict=True), words)
    except NumberFormatError as error:
        meant = _meant(text, error, words)
        raise ValueError(words("typed_notation", text=text, meant=meant, example=exact(1234.5, words))) from None


def _finite(number: float | Decimal, words: Words) -> float:
    try:
        found = float(number)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise ValueError(words("typed_no_number", text="∞", example=exact(1234.5, words)))
    return found


def _meant(text: str, error: NumberFormatError, words: Words) -> str:
    """The reading with the marks the other way round, where it is one: who types 2.49 on a Turkish page means 2,49."""
    found = [s for s in (error.suggestions or []) if isinstance(s, str)]
    swapped = text.translate(str.maketrans(".,", ",."))
    longest = swapped if swapped in found else max(found, key=len, default="")
    return longest or exact(float(Decimal("1234.5")), words)
