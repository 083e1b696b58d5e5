"""An exchange rate as a reader gives it."""

from datetime import date

from pricing import Exchange, Rate, Rates

DAY = date(2026, 11, 27)


def exchange(currency="TRY", side="selling", **pairs):
    """USD_TRY=42.5: a rate of our bank of 27 November 2026."""
    given = [Rate(*pair.split("_"), value, side, DAY, "our bank") for pair, value in pairs.items()]
    return Exchange(currency, Rates(given), side)


def lira(side="selling", value=42.5):
    """1 USD is 42.5 TRY."""
    return exchange(side=side, USD_TRY=value)
