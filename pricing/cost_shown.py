"""A price and its costs in the currency that the reader asked for, at a rate that somebody gave: beside their own."""

from __future__ import annotations

from dataclasses import dataclass

from pricing.currencies import Currency
from pricing.exchange import Exchange
from pricing.fx import Rate, RateError
from pricing.money import format_unit_price


@dataclass(frozen=True)
class Shown:
    """What a price and its costs are in another currency. own, amounts: GPU-hour, plain, speculative."""

    own: tuple[float | None, ...]
    amounts: tuple[float | None, ...]
    currency: Currency | None
    rate: Rate | None
    how: str

    @classmethod
    def of(cls, currency: Currency, own: tuple[float | None, ...], to: Exchange | None) -> Shown:
        nothing = (None,) * len(own)
        if to is None:
            return cls(own, nothing, None, None, "")
        try:
            made = [None if amount is None else to.price(amount, currency) for amount in own]
        except RateError as error:
            return cls(own, nothing, to.currency, None, f"not shown in {to.currency}: {error}")
        first = next((one for one in made if one is not None), None)
        amounts = tuple(None if one is None else one.amount for one in made)
        if first is None:
            return cls(own, nothing, to.currency, None, "")
        return cls(own, amounts, to.currency, first.rate, first.how)

    def told(self, currency: Currency) -> str:
        """For the end of a formula."""
        if self.currency is None or (self.rate is None and self.currency == currency):
            return ""
        if self.rate is None:
            return f"; {self.how}"
        sign = "x" if self.rate.base == currency else "/"
        steps = (
            f"{name} {format_unit_price(own, currency)} {sign} {self.rate.rate:.10g} = "
            f"{format_unit_price(amount, self.currency)}"
            for name, own, amount in zip(("plain", "speculative"), self.own[1:], self.amounts[1:], strict=True)
            if amount is not None
        )
        return f"; in {self.currency} {self.how}: " + ", ".join(steps)
