"""The currency that a reader has asked for in one browser tab, at a rate that this reader gave: typed, or a
bulletin's file."""

import base64
import binascii
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from app.catalogue import Words
from app.finance.shown import clean
from app.finance.typed import read_number
from pricing import Exchange, Rate, RateError, Rates, cells, read_bulletin, tcmb
from pricing.currencies import CURRENCIES, Currency
from pricing.exchange import checked_days
from pricing.export import provenance
from pricing.export.words import Words as ExportWords
from pricing.fx import split_kind

EVENTS = ("rate", "bulletin", "own")
SAYS = (
    "open", "choose", "currency", "base", "value", "day", "side", "source", "use", "type", "upload", "kind", "file",
    "own", "large",
)  # fmt: skip
KINDS = ("forex_selling", "forex_buying", "banknote_selling", "banknote_buying")
# What pricing says of a file, by a part of its sentence.
FILE_FAULTS = (
    ("document type definition", "entities"), ("larger than", "large"), ("no TCMB bulletin", "other"),
    ("not well-formed", "xml"), ("has no ", "none"), ("in the future", "future"),
)  # fmt: skip


@dataclass
class ShownIn:
    """Lives in gr.State, one a tab, never shared. to: None until a rate was given. typed: whether it was typed, so that
    a second one of another pair joins it."""

    to: Exchange | None = None
    typed: bool = False

    def type_rate(self, given: Any, words: Words, today: date) -> None:
        """Raises ValueError with a sentence for the reader; what was in force then stays."""
        asked = given if isinstance(given, Mapping) else {}
        target, base = _currency(asked.get("currency"), words), _currency(asked.get("base"), words)
        if target == base:
            raise ValueError(words("rates_same", currency=target))
        side = asked.get("side")
        if side not in ("buying", "selling"):
            raise ValueError(words("rates_no_side"))
        try:
            value = read_number(str(asked.get("value") or ""), words)
        except OverflowError:
            value = 0.0
        try:
            day = cells.day(str(asked.get("day") or ""))
        except ValueError:
            raise ValueError(words("rates_no_day")) from None
        source = clean(str(asked.get("source") or ""))[:80].strip()
        if not source:
            raise ValueError(words("rates_no_source"))
        try:
            checked_days([rate := Rate(base, target, value, side, day, source)], today)
        except RateError as error:
            key = "rates_future" if "in the future" in str(error) else "rates_no_rate"
            raise ValueError(words(key, day=day.isoformat())) from None
        held: list[Rate] = []
        if self.to is not None and self.typed and (self.to.currency, self.to.side) == (target, side):
            held = [other for other in self.to.rates if {other.base, other.quote} != {base, target}]
        self.to, self.typed = Exchange(target, Rates([*held, rate]), side), True

    def read_file(self, given: Any, words: Words, today: date) -> None:
        """Raises ValueError with a sentence for the reader; what was in force then stays."""
        asked = given if isinstance(given, Mapping) else {}
        target = _currency(asked.get("currency"), words)
        if asked.get("kind") not in KINDS:
            raise ValueError(words("rates_no_kind"))
        market, side = split_kind(str(asked["kind"]))
        text = asked.get("base64")
        if not isinstance(text, str) or len(text) > 2 * tcmb.MAX_BYTES:
            raise ValueError(words("rates_file_large"))
        try:
            rates = read_bulletin(base64.b64decode(text, validate=True), market)
            checked_days(rates, today)
        except (RateError, binascii.Error, ValueError) as error:
            key = next((key for part, key in FILE_FAULTS if part in str(error)), "other")
            raise ValueError(words(f"rates_file_{key}")) from None
        self.to, self.typed = Exchange(target, rates, side), False

    def own(self) -> None:
        """Back to every price's own currency."""
        self.to, self.typed = None, False


def now_told(to: Exchange | None, words: Words) -> str:
    """In what currency, at which rates of which day, side and source; "" without one. Of a bulletin only the lira rates
    that it has are named."""
    if to is None:
        return ""
    rates = "; ".join(told_rate(rate, words) for rate in to.rates if rate.kind == to.side)
    return words("rates_now", currency=to.currency, rates=rates)


def told_rate(rate: Rate, words: Words) -> str:
    """As exports say it."""
    return provenance.told_rate(rate, ExportWords("tr" if words.language == "tr" else "en"))


def form(held: ShownIn, words: Words, today: date, told: str = "", tone: str = "") -> dict[str, Any]:
    """What rates_form.js shows; a new `n` each time, so that the same sentence is said again."""
    return {
        "says": {key: words(f"rates_{key}") for key in SAYS},
        "currencies": list(CURRENCIES),
        "sides": [{"value": side, "text": words(f"rates_{side}")} for side in ("buying", "selling")],
        "kinds": [{"value": kind, "text": words(f"rates_{kind}")} for kind in KINDS],
        "today": today.isoformat(),
        "now": now_told(held.to, words),
        "n": uuid.uuid4().hex,
        "told": told,
        "tone": tone,
    }


def act(held: ShownIn, name: str, given: Any, words: Words, today: date | None = None) -> dict[str, Any]:
    """What the form's event `name` does, and its next value."""
    day = today or date.today()
    try:
        if name == "rate":
            held.type_rate(given, words, day)
        elif name == "bulletin":
            held.read_file(given, words, day)
        else:
            held.own()
            return form(held, words, day)
    except ValueError as error:
        return form(held, words, day, str(error), "fault")
    return form(held, words, day, words("rates_done"), "gain")


def _currency(given: Any, words: Words) -> Currency:
    found = next((code for code in CURRENCIES if code == given), None)
    if found is None:
        raise ValueError(words("rates_no_currency"))
    return found
