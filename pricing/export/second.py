"""A second currency in an export: amounts in it stand beside their own, at the one rate that a reader gave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pricing.currencies import Currency
from pricing.exchange import Exchange
from pricing.export.provenance import told_rate
from pricing.export.words import Words
from pricing.fx import Rate


@dataclass(frozen=True)
class Second:
    """own: the scenario's currency. rate: of the two, whichever of them is its base."""

    own: Currency
    currency: Currency
    rate: Rate
    to: Exchange

    @property
    def times(self) -> bool:
        """Whether an amount is multiplied by the rate; else it is divided by it."""
        return self.rate.base == self.own

    def amount(self, own: float | None) -> float | None:
        """Unrounded. Raises RateError beyond the range of numbers."""
        return None if own is None else self.to.price(own, self.own).amount

    def told(self, words: Words) -> str:
        """The line that names rate, day, side and source."""
        return words("rates.also", currency=self.currency, rate=told_rate(self.rate, words))


def second(to: Exchange | None, own: Currency) -> Second | None:
    """None where nothing else was asked for than `own`. Raises RateError where no rate leads there: none is made up."""
    rate = to.rate(own) if to is not None else None
    return Second(own, to.currency, rate, to) if to is not None and rate is not None else None


@dataclass(frozen=True)
class Money:
    """Amounts in the scenario's currency, and in the second one where there is one."""

    words: Words
    currency: Currency
    also: Second | None

    def in_line(self, value: float) -> str:
        """For a sentence: the second in brackets."""
        second = self.second(value)
        return f"{self.own(value)} ({second})" if second else self.own(value)

    def own(self, value: float) -> str:
        return self._told(value, self.currency)

    def second(self, value: float) -> str:
        """ "" without one."""
        return self._told(self.also.amount(value), self.also.currency) if self.also is not None else ""

    def whole(self, value: float) -> str:
        """For a cell: the second on a line of its own."""
        return self._both(value, lambda amount, currency: self.words.money(amount, currency, 0))

    def price(self, value: float | None) -> str:
        """By the token or request, for a cell."""
        return self._both(value, self.words.price)

    def _told(self, value: float | None, currency: Currency) -> str:
        return self.words.money(value, currency, 0 if value is not None and abs(value) >= 1000 else 2)

    def _both(self, value: float | None, told: Callable[[float | None, Currency], str]) -> str:
        own = told(value, self.currency)
        if self.also is None or value is None:
            return own
        return f"{own}\n{told(self.also.amount(value), self.also.currency)}"
