"""Money as people read it, in English and Turkish. Rounded here, half to even, and nowhere before."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from typing import Literal

from babel.numbers import format_decimal

from pricing.cells import finite, shown
from pricing.currencies import SYMBOLS, Currency

Language = Literal["en", "tr"]
NO_VALUE = "n/a"
_LOCALES: dict[str, str] = {"en": "en_US", "tr": "tr_TR"}
_SMALLEST = Decimal("0.000001")


def format_unit_price(
    value: float | Decimal | None, currency: Currency, language: Language = "en", significant: int = 4
) -> str:
    """A price per unit, such as $/1M tokens: `significant` digits, whole units never cut; "n/a" for no value.

    A tiny price is "<$0.000001" and never "$0.00"; a loss keeps its sign: "-$2.500", Turkish "-₺2,500".
    """
    if significant < 1:
        raise ValueError(f"significant must be at least 1, not {significant}")
    amount = _decimal(value)
    if amount is None:
        return NO_VALUE
    if amount == 0:
        return _text(Decimal(0), 0, currency, language)
    if abs(amount) < _SMALLEST:
        return _below(_SMALLEST, 6, amount < 0, currency, language)
    context = Context(prec=max(significant, amount.adjusted() + 1), rounding=ROUND_HALF_EVEN)
    rounded = context.plus(amount)
    return _text(rounded, max(0, significant - 1 - rounded.adjusted()), currency, language)


def format_money(
    value: float | Decimal | None, currency: Currency, language: Language = "en", decimals: int = 2
) -> str:
    """An amount of money to the cent, such as a month's bill, or to `decimals`; "n/a" for no value.

    What rounds to nothing is "<$0.01" (or "<$1") and never "$0.00"; only nothing is "$0.00".
    """
    if decimals < 0:
        raise ValueError(f"decimals must be at least 0, not {decimals}")
    amount = _decimal(value)
    if amount is None:
        return NO_VALUE
    least = Decimal(1).scaleb(-decimals)
    context = Context(prec=max(1, amount.adjusted() + 2 + decimals), rounding=ROUND_HALF_EVEN)
    rounded = amount.quantize(least, context=context)
    if amount != 0 and rounded == 0:
        return _below(least, decimals, amount < 0, currency, language)
    return _text(rounded, decimals, currency, language)


def _decimal(value: float | Decimal | None) -> Decimal | None:
    number = finite(value)
    if number is None:
        return None
    return value if isinstance(value, Decimal) else Decimal(repr(number))


def _below(least: Decimal, decimals: int, negative: bool, currency: Currency, language: Language) -> str:
    """Between nothing and the smallest that is shown; of a loss, between it and nothing."""
    return (">" if negative else "<") + _text(-least if negative else least, decimals, currency, language)


def _text(amount: Decimal, decimals: int, currency: Currency, language: Language) -> str:
    locale = _LOCALES.get(language)
    if locale is None:
        raise ValueError(f"{shown(language)} is not one of the languages {', '.join(_LOCALES)}")
    if currency not in SYMBOLS:
        raise ValueError(f"{shown(currency)} is not one of the currencies {', '.join(SYMBOLS)}")
    # The sign stands in the pattern, as Babel's English knows none for the lira. Both locales put it first.
    pattern = f"{SYMBOLS[currency]}#,##0" + ("." + "0" * decimals if decimals else "")
    with localcontext(Context(prec=decimals + max(1, amount.adjusted() + 2))):  # Babel quantizes in the current one
        return format_decimal(amount, format=pattern, locale=locale)
