"""Exchange rates: dated, sourced, of a named kind, and never a default. A conversion says how it was done.

Kinds are the bank's, as it quotes the base currency: at the buying rate it buys the base currency, at the selling rate
it sells it. So a USD invoice paid from lira costs USD/TRY selling. One kind values an amount in both directions, and
there and back is the same amount.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from typing import Literal, get_args

from pricing.cells import finite, seen, shown
from pricing.currencies import CURRENCIES, Currency, currency

Side = Literal["buying", "selling"]
Market = Literal["forex", "banknote"]
Kind = Literal["forex_buying", "forex_selling", "banknote_buying", "banknote_selling"]
# Which of two currencies is the base of a quote, by the market's custom: EUR/USD, GBP/USD, USD/TRY.
_BASE_FIRST: tuple[Currency, ...] = ("EUR", "GBP", "USD", "TRY")


class RateError(ValueError):
    """There is no rate, or it cannot be used: one sentence."""


@dataclass(frozen=True)
class Rate:
    """1 `base` is `rate` `quote`. kind: the bank's side. day: of the quote. source: who says so, for people.

    Raises RateError for what is no rate: not positive and finite, an unknown currency, a moment in place of a day.
    """

    base: Currency
    quote: Currency
    rate: float
    kind: Side
    day: date
    source: str

    def __post_init__(self) -> None:
        for name in (self.base, self.quote):
            if name not in CURRENCIES:
                raise RateError(f"{shown(name)} is not one of the currencies {', '.join(CURRENCIES)}")
        if self.base == self.quote:
            raise RateError(f"{self.base} to {self.quote} needs no rate")
        value = finite(self.rate)
        if value is None or value <= 0 or finite(1 / value) is None:
            raise RateError(f"the rate {self.base}/{self.quote} must be a number above 0, not {shown(self.rate)}")
        pair = f"{self.base}/{self.quote}={value:.10g}"
        if not 1e-6 <= value <= 1e6:
            raise RateError(f"{pair} is no rate between two currencies; check its digits")
        if (self.base == "TRY" and value > 1) or (self.quote == "TRY" and value < 1):
            # A lira was never worth one of the others: the pair is the wrong way round.
            raise RateError(
                f"{self.base}/{self.quote}={value:.10g} would make a lira worth more than a "
                f"{self.quote if self.base == 'TRY' else self.base}; write it as {self.quote}/{self.base}={value:.10g}"
            )
        object.__setattr__(self, "rate", value)
        checked_side(self.kind)
        if type(self.day) is not date:  # a datetime carries a clock, and a rate holds for a day
            raise RateError(f"the rate {self.base}/{self.quote} needs the day of its quote, not {shown(self.day)}")
        try:
            source = seen(self.source) if isinstance(self.source, str) else ""
        except ValueError as error:
            raise RateError(f"the source of the rate {self.base}/{self.quote}: {error}") from None
        if not source:
            raise RateError(f"the rate {self.base}/{self.quote} needs a source: who quoted it")
        object.__setattr__(self, "source", source)

    def __str__(self) -> str:
        return f"{self.rate:.10g} {self.quote} per {self.base}, {self.kind}, {self.source}, {self.day}"


@dataclass(frozen=True)
class Converted:
    """An amount at a rate, unrounded. rate: the one used; None when there was nothing to convert. how: a sentence."""

    amount: float
    currency: Currency
    rate: Rate | None
    how: str


class Rates:
    """A set of rates. Of one pair and kind there may be one: two days or two sources are two sets."""

    def __init__(self, rates: Iterable[Rate]) -> None:
        self._rates: dict[tuple[str, str, str], Rate] = {}
        for rate in rates:
            for key in ((rate.base, rate.quote, rate.kind), (rate.quote, rate.base, rate.kind)):
                if key in self._rates:
                    raise RateError(
                        f"there are two {rate.kind} rates for {rate.base} and {rate.quote}, of "
                        f"{self._rates[key].day} ({self._rates[key].source}) and {rate.day} ({rate.source}); keep one"
                    )
            self._rates[rate.base, rate.quote, rate.kind] = rate
        for buying in [rate for rate in self if rate.kind == "buying"]:
            selling = self._rates.get((buying.base, buying.quote, "selling"))
            if selling is not None and selling.day == buying.day and selling.rate < buying.rate:
                raise RateError(
                    f"a bank would buy a {buying.base} at {buying.rate:.10g} {buying.quote} and sell it at "
                    f"{selling.rate:.10g}; buying and selling are the wrong way round"
                )

    def __iter__(self) -> Iterator[Rate]:
        return iter(self._rates.values())

    def __len__(self) -> int:
        return len(self._rates)

    def convert(self, amount: float, from_currency: str, to_currency: str, *, kind: Side) -> Converted:
        """`amount` of `from_currency` in `to_currency`, at the rate of `kind` between the two, whichever is its base.

        Where only a third currency connects them, as lira does in a bulletin of the Turkish central bank, the cross
        rate is made of the sides that a bank would use: it buys the base at its buying rate and sells the quote
        currency at its selling rate, so EUR/USD buying is EUR/TRY buying over USD/TRY selling, and EUR/USD selling is
        EUR/TRY selling over USD/TRY buying. Both must be of one day and one source. The base is the one that the
        market's custom makes it (EUR before GBP before USD before TRY).

        The same currency needs no rate. Raises RateError with one sentence when a rate is missing, when currencies or
        kind are not known ones, or when the amount is no finite number.
        """
        source, target, side = _currency(from_currency), _currency(to_currency), checked_side(kind)
        value = finite(amount)
        if value is None:
            raise RateError(f"{shown(amount)} is not an amount that can be converted")
        if source == target:
            return Converted(value, target, None, f"already in {target}, so no rate is used")
        rate = self._direct(source, target, side) or self._cross(source, target, side)
        result = finite(value * rate.rate if rate.base == source else value / rate.rate)
        if result is None or (result == 0 and value != 0):
            raise RateError(f"{shown(amount)} {source} is beyond the range of numbers in {target}")
        return Converted(result, target, rate, f"at {rate}")

    def _direct(self, one: Currency, other: Currency, kind: Side) -> Rate | None:
        return self._rates.get((one, other, kind)) or self._rates.get((other, one, kind))

    def _cross(self, one: Currency, other: Currency, kind: Side) -> Rate:
        base, quote = sorted((one, other), key=_BASE_FIRST.index)
        opposite: Side = "selling" if kind == "buying" else "buying"
        missing = f"there is no {kind} rate between {one} and {other}"
        for middle in CURRENCIES:
            top, bottom = self._rates.get((base, middle, kind)), self._rates.get((quote, middle, opposite))
            if top is None or bottom is None:
                continue
            if (top.day, top.source) != (bottom.day, bottom.source):
                raise RateError(
                    f"{missing}, and the rates through {middle} are not of one day and source: {top}; {bottom}"
                )
            # Named by its legs: the sentence of a conversion must let a reader redo it.
            above = f"{base}/{middle} {kind} {top.rate:.10g}"
            how = f"{top.source} ({above} over {quote}/{middle} {opposite} {bottom.rate:.10g})"
            return Rate(base, quote, top.rate / bottom.rate, kind, top.day, how)
        held = ", ".join(f"{rate.base}/{rate.quote} {rate.kind}" for rate in self._rates.values()) or "none"
        raise RateError(f"{missing}; give one with its day and source (there is: {held})")


def checked_side(kind: object) -> Side:
    if kind == "buying" or kind == "selling":
        return kind
    raise RateError(f"{shown(kind)} is not a kind of rate; name buying or selling, there is no default")


def split_kind(kind: str) -> tuple[Market, Side]:
    """("forex", "selling") of "forex_selling" or "forex-selling": the four kinds that a central bank publishes."""
    market, _, side = kind.replace("-", "_").partition("_")
    if f"{market}_{side}" not in get_args(Kind):
        raise RateError(f"{shown(kind)} is not a kind of rate; name one of {', '.join(get_args(Kind))}")
    return market, side  # type: ignore[return-value]


def _currency(name: str) -> Currency:
    try:
        return currency(name)
    except ValueError as error:
        raise RateError(str(error)) from None
