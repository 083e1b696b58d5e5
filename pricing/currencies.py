"""The currencies that a price may be in, and the names that people write for them."""

from __future__ import annotations

from typing import Literal, get_args

Currency = Literal["USD", "EUR", "GBP", "TRY"]
CURRENCIES: tuple[Currency, ...] = get_args(Currency)
# What stands before an amount, in both languages: Babel's English would print "TRY" where readers know the sign.
SYMBOLS: dict[Currency, str] = {"USD": "$", "EUR": "€", "GBP": "£", "TRY": "₺"}
_NAMES: dict[str, Currency] = {
    **{code: code for code in CURRENCIES},
    **{symbol: code for code, symbol in SYMBOLS.items()},
    "US$": "USD",
    "TL": "TRY",
}


def currency_named(text: str) -> Currency | None:
    """The currency that `text` names ("TL", "try", "₺": TRY), or None: of an unknown one nothing is guessed."""
    return _NAMES.get(text.strip().upper())


def currency(text: object) -> Currency:
    """`currency_named`, or ValueError with a sentence."""
    found = currency_named(text) if isinstance(text, str) else None
    if found is None:
        raise ValueError(f"{str(text)[:40]!r} is not one of the currencies {', '.join(CURRENCIES)}")
    return found
