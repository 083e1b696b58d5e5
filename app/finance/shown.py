"""Numbers as the page's reader writes them. Money is `pricing.money`'s; what is not money is written here."""

import math
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from typing import Any

from babel.numbers import format_decimal

from app.catalogue import Words
from pricing.currencies import SYMBOLS
from pricing.exchange import Exchange
from pricing.fx import RateError
from pricing.money import NO_VALUE, format_money, format_unit_price

NOTHING = "–"
_LOCALES = {"en": "en_US", "tr": "tr_TR"}
# Cents of a hundred thousand hide the figures that decide; the derivation has them.
_WHOLE_FROM = 1000


def clean(text: str) -> str:
    """What can be written as UTF-8: a lone half of a character, as JSON can hold, would break every answer it is in."""
    return text.encode("utf-8", "replace").decode("utf-8")


def symbol(currency: str) -> str:
    return SYMBOLS.get(currency, currency)  # type: ignore[call-overload, no-any-return]


def number(value: float | None, words: Words, significant: int = 4) -> str:
    """`significant` digits, whole ones never cut, no zeros behind that say nothing."""
    if value is None or not math.isfinite(value):
        return NOTHING
    amount = Decimal(repr(float(value)))
    if amount == 0:
        return "0"
    rounded = Context(prec=max(significant, amount.adjusted() + 1), rounding=ROUND_HALF_EVEN).plus(amount)
    decimals = min(15, max(0, significant - 1 - rounded.adjusted()))
    with localcontext(Context(prec=decimals + max(1, amount.adjusted() + 2))):  # Babel quantizes in the current one
        return format_decimal(rounded, format="#,##0." + "#" * decimals, locale=_LOCALES[words.language])


def exact(value: float, words: Words) -> str:
    """For a field that is edited: what is read back is what was there, to twelve digits."""
    return number(value, words, significant=12)


def percent(share: float | None, words: Words, decimals: int = 1, signed: bool = False) -> str:
    """As in "25.3%" and, in Turkish, "%25,3"; `signed` puts a plus before a rise."""
    if share is None or not math.isfinite(share):
        return NOTHING
    rounded = round(abs(share) * 100, decimals)
    with localcontext(Context(prec=400)):
        text = format_decimal(rounded, format="#,##0." + "0" * decimals, locale=_LOCALES[words.language])
    sign = "" if rounded == 0 else "−" if share < 0 else "+" if signed else ""
    return f"{sign}%{text}" if words.language == "tr" else f"{sign}{text}%"


def span(years: int, words: Words) -> str:
    return words("span_one") if years == 1 else words("span_many", n=years)


def money(value: float | None, currency: str, words: Words) -> str:
    """An amount: to the unit from a thousand on, to the cent below."""
    if value is None or not math.isfinite(value):
        return NOTHING
    if 0 < abs(value) < _WHOLE_FROM:
        return _minus(format_money(value, currency, words.language))  # type: ignore[arg-type]
    return _whole(value, currency, words)


def cents(value: float | None, currency: str, words: Words) -> str:
    """An amount to the cent."""
    text = format_money(value, currency, words.language)  # type: ignore[arg-type]
    return NOTHING if text == NO_VALUE else _minus(text)


def unit_price(value: float | None, currency: str, words: Words) -> str:
    """A price per something: four significant digits, never "0.00"."""
    text = format_unit_price(value, currency, words.language)  # type: ignore[arg-type]
    return NOTHING if text == NO_VALUE else _minus(text)


Write = Callable[[float | None, str, Words], str]


def also(
    cell: dict[str, Any],
    value: float | None,
    currency: str,
    to: Exchange | None,
    words: Words,
    write: Write = unit_price,
) -> dict[str, Any]:
    """The cell with the amount in the reader's other currency under it, above what stands there, where a rate was given
    that reaches it."""
    told = converted(value, currency, to, words, write)
    if told is None:
        return cell
    return {**cell, "sub": [told, cell["sub"]] if "sub" in cell else told}


def converted(
    value: float | None, currency: str, to: Exchange | None, words: Words, write: Write = money
) -> str | None:  # fmt: skip
    """The amount in the reader's other currency; None where no rate was given that reaches it."""
    if value is None or to is None or to.currency == currency:
        return None
    try:
        return write(to.price(value, currency).amount, to.currency, words)
    except RateError:  # none was given, or the amount is beyond what numbers hold there
        return None


def both(value: float, currency: str, to: Exchange | None, words: Words) -> str:
    """An amount in a sentence: its own, and the other after it in brackets."""
    own, other = money(value, currency, words), converted(value, currency, to, words)
    return own if other is None else f"{own} ({other})"


def _whole(value: float, currency: str, words: Words) -> str:
    return _minus(format_money(value, currency, words.language, 0))  # type: ignore[arg-type]


def _minus(text: str) -> str:
    """A true minus: as wide as a plus, so that columns of figures stand."""
    return text.replace("-", "−", 1)
