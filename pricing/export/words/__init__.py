"""Words and numbers of exports, in English and Turkish."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import date
from decimal import Context, localcontext
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Literal, get_args

from babel.dates import format_date
from babel.numbers import format_decimal

from pricing.currencies import SYMBOLS, Currency
from pricing.money import format_money, format_unit_price

Language = Literal["en", "tr"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
NO_VALUE = "–"
_LOCALES = {"en": "en_US", "tr": "tr_TR"}
# As people of the language shorten them; Unicode's Turkish "B" for a thousand reads as a billion.
_SCALES = (1e12, 1e9, 1e6, 1e3, 1.0)
_SHORT: dict[Language, tuple[str, ...]] = {
    "en": ("T", "B", "M", "K", ""),
    "tr": ("\u00a0trn", "\u00a0mr", "\u00a0mn", "\u00a0bin", ""),
}


@cache
def catalogue(language: Language) -> dict[str, str]:
    text = (Path(__file__).parent / f"{language}.json").read_text(encoding="utf-8")
    return {str(key): str(value) for key, value in json.loads(text).items()}


def _wide() -> AbstractContextManager[Context]:
    """Babel quantizes in the current context, whose 28 digits are fewer than a large number has before its point."""
    return localcontext(Context(prec=400))


class Words:
    """words("key", name=value) is that key's text with its placeholders filled. Numbers are plain text as people of the
    language write them; an absent one is a dash, never 0."""

    def __init__(self, language: Language = "en") -> None:
        if language not in LANGUAGES:
            raise ValueError(f"exports speak {' and '.join(LANGUAGES)}, not {language!r}")
        self.language = language
        self._texts = catalogue(language)
        self._locale = _LOCALES[language]

    def __call__(self, key: str, **values: object) -> str:
        """Raises KeyError for a key that there is not."""
        text = self._texts[key]
        for name, value in values.items():  # not str.format: a value may hold braces of its own
            text = text.replace("{" + name + "}", str(value))
        return text

    def term(self, years: int) -> str:
        return self("term.one") if years == 1 else self("term.many", years=years)

    def money(self, value: float | None, currency: Currency, digits: int = 2) -> str:
        """ "$1,234.50", "₺1.234,50", "-$3.00"; `pricing.money`'s, so what is not nothing is never "$0.00"."""
        return NO_VALUE if value is None else format_money(value, currency, self.language, digits)

    def price(self, value: float | None, currency: Currency) -> str:
        """Money by the token or request: four significant digits, never a tiny one as 0."""
        return NO_VALUE if value is None else format_unit_price(value, currency, self.language)

    def short_money(self, value: float, currency: Currency) -> str:
        """For charts: "$1.2M", "₺1,2 mn"; below a thousand written out."""
        if abs(value) < 1000:
            return self.money(value, currency, 0 if value == int(value) else 2)
        scale = next(scale for scale in _SCALES if abs(value) >= scale)
        short = _SHORT[self.language][_SCALES.index(scale)]
        return f"{'-' if value < 0 else ''}{SYMBOLS[currency]}{self.number(abs(value) / scale, 1)}{short}"

    def steps(self, levels: Sequence[float], currency: Currency) -> tuple[str, list[str], str]:
        """The first level, each step to the next, and the last one: of one unit and so many decimals that they add up
        as they are printed."""
        changes = [abs(b - a) for a, b in pairwise(levels) if b != a]
        largest = max(map(abs, levels))
        scale = next((scale for scale in _SCALES if largest >= 100 * scale), 1.0)
        digits = 0 if scale > 1 or largest >= 1000 else 2
        while digits < 2 and changes and min(changes) < scale / 10**digits:
            digits += 1
        short, symbol = _SHORT[self.language][_SCALES.index(scale)], SYMBOLS[currency]
        units = [round(level / scale * 10**digits) for level in levels]

        def shown(unit: int, plus: str = "") -> str:
            return f"{'-' if unit < 0 else plus}{symbol}{self._fixed(abs(unit) / 10**digits, digits)}{short}"

        return shown(units[0]), [shown(b - a, "+") for a, b in pairwise(units)], shown(units[-1])

    def weeks(self, weeks: float | None) -> str:
        """Of a payback, to a tenth."""
        if weeks is None or weeks == 0:
            return self.number(weeks)
        return self("weeks.under_one") if weeks < 1 else self._fixed(weeks, 1)

    def _fixed(self, value: float, digits: int) -> str:
        with _wide():
            shown = format_decimal(value, "#,##0" + ("." + "0" * digits if digits else ""), locale=self._locale)
        return str(shown)

    def number(self, value: float | None, digits: int = 2) -> str:
        """Up to `digits` after the point."""
        if value is None:
            return NO_VALUE
        with _wide():
            return str(format_decimal(value, "#,##0." + "#" * digits, locale=self._locale))

    def share(self, value: float | None, digits: int = 1) -> str:
        """0.457 is "45.7%", and "%45,7" in Turkish."""
        if value is None:
            return NO_VALUE
        shown = self.number(abs(value) * 100, digits)
        sign = "-" if value < 0 and shown != "0" else ""
        return f"{sign}%{shown}" if self.language == "tr" else f"{sign}{shown}%"

    def rate(self, yearly: float | None) -> str:
        """A rate of return; beyond 10,000% a year its digits say nothing."""
        most = 100.0
        return self.share(yearly) if yearly is None or yearly <= most else f"> {self.share(most)}"

    def day(self, day: date) -> str:
        return str(format_date(day, "d MMM yyyy", locale=self._locale))
