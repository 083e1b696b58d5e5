"""In what currency amounts are shown beside their own, at which rates. Nothing here has a default."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta

from pricing.currencies import Currency
from pricing.fx import Converted, Rate, RateError, Rates, Side


@dataclass(frozen=True)
class Exchange:
    """To what currency, with which rates, at which of the bank's sides (None: no rate was given)."""

    currency: Currency
    rates: Rates
    side: Side | None

    def price(self, amount: float, currency: str) -> Converted:
        """In `self.currency`. Raises RateError when the rate is not there."""
        if currency == self.currency:  # no rate, and so no kind of one either
            return Converted(amount, self.currency, None, f"already in {currency}, so no rate is used")
        if self.side is None:
            raise RateError(f"there is no rate from {currency} to {self.currency}; give --rate or --tcmb, and --kind")
        return self.rates.convert(amount, currency, self.currency, kind=self.side)

    def rate(self, currency: str) -> Rate | None:
        """The one that amounts of `currency` are shown at; None when they need none. Raises RateError without one."""
        return self.price(1.0, currency).rate

    def reaches(self, currency: str) -> bool:
        """Whether amounts of `currency` can be shown in this one."""
        try:
            self.rate(currency)
        except RateError:
            return False
        return True


def checked_days(rates: Iterable[Rate], today: date) -> None:
    """Raises RateError for a rate of a day that has not come: nobody can have quoted it. A day's slack: where it was
    read it may be tomorrow already."""
    for rate in rates:
        if rate.day > today + timedelta(days=1):
            raise RateError(f"the rate {rate.base}/{rate.quote} of {rate.day} is in the future (today is {today})")
