"""A second currency in the workbook: its rate in cells of Inputs, and amounts in it as formulas over their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

from pricing.export.formula import Formula
from pricing.export.second import Second
from pricing.export.words import Words
from pricing.export.workbook import Kind, Sheet

_BEFORE_DAYS = date(1899, 12, 30)  # a spreadsheet's day 0


@dataclass(frozen=True)
class SecondCells:
    """Of Inputs, as all sheets may name them."""

    given: Second
    rate: Formula
    side: Formula
    day: Formula
    source: Formula
    unit: str

    @property
    def kind(self) -> Kind:
        """How the rate is shown: a lira in dollars needs more digits than a dollar in lira."""
        return rate_kind(self.given)

    def of(self, own: Formula) -> Formula:
        """That amount in the second currency, at the rate that stands on Inputs now."""
        return own * self.rate if self.given.times else own / self.rate


def rate_kind(given: Second) -> Kind:
    return "number" if given.rate.rate >= 1 else "factor"


def write_second(
    sheet: Sheet,
    given: Second,
    words: Words,
    line: Callable[[str, str, object, Kind, str, str, str], Formula],
) -> SecondCells:
    """The rate's four cells under each other. line(path, name, value, kind, unit, label, source): writes one and
    returns its cell."""
    rate = given.rate
    unit = words("second.unit", base=rate.base, quote=rate.quote)
    quoted = words("label.quoted")

    def put(key: str, value: object, kind: Kind, unit: str = "") -> Formula:
        return line(f"second.{key}", words(f"second.{key}"), value, kind, unit, quoted, rate.source)

    return SecondCells(
        given,
        rate=put("rate", rate.rate, rate_kind(given), unit),
        side=put("side", words(f"rates.side.{rate.kind}"), "text"),
        day=put("day", float((rate.day - _BEFORE_DAYS).days), "day"),
        source=put("source", rate.source, "text"),
        unit=unit,
    )
