"""How a figure was come by: the numbers that went in, each with its label and source, and one line a calculation."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pricing.figure import Label

# From the firmest to the loosest: a figure is worth what its loosest input is.
# The source of what another step came to.
WORKED_OUT = "worked out"
_LABELS: tuple[Label, ...] = ("measured", "quoted", "projected", "assumed")


@dataclass(frozen=True, slots=True)
class Given:
    """One input. half: half of the last place that it was printed to, so that what was rounded is not taken for exact;
    0 where it is exact. at: which of several ("K 3", "batch 16"), or ""."""

    name: str
    value: float
    unit: str
    label: Label
    source: str
    at: str = ""
    half: float = 0.0

    @property
    def low(self) -> float:
        return self.value - self.half

    @property
    def high(self) -> float:
        return self.value + self.half

    @property
    def digits(self) -> str:
        """The value for a formula: as it was given, or rounded where it was computed."""
        return rounded(self.value) if self.label == "projected" or self.source == WORKED_OUT else shown(self.value)

    def __str__(self) -> str:
        return " ".join(part for part in (self.digits, self.unit) if part)

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name, "at": self.at or None, "value": self.value, "unit": self.unit, "label": self.label,
            "source": self.source,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Step:
    """One line of a derivation: `formula`, with the numbers in it, gives `value`. None: the inputs do not suffice."""

    name: str
    formula: str
    value: float | None
    unit: str
    inputs: tuple[Given, ...] = ()

    @property
    def label(self) -> Label:
        """The loosest of the inputs' labels."""
        return loosest(*(given.label for given in self.inputs))

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(given.source for given in self.inputs if given.source))

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name, "formula": self.formula, "value": self.value, "unit": self.unit, "label": self.label,
            "inputs": [given.as_dict() for given in self.inputs], "sources": list(self.sources),
        }  # fmt: skip


def loosest(*labels: Label) -> Label:
    """ "assumed" for none: what rests on nothing is an assumption."""
    return max(labels, key=_LABELS.index, default="assumed")


def half_place(text: str) -> float:
    """Half of the last place that a plain decimal number is printed to: 0.05 for "14.1", 0.5 for "38"."""
    exponent = Decimal(text.strip()).as_tuple().exponent
    return float(Decimal(5).scaleb(int(exponent) - 1)) if isinstance(exponent, int) else 0.0


def shown(value: float) -> str:
    """A number as it was given, for formulas."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.7g}"


def rounded(value: float) -> str:
    """A number that was computed: whole from a thousand on, four digits below."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def in_words(name: str) -> str:
    """usd_per_hour as people read it."""
    return name.replace("_", " ").replace("usd", "USD")


def named(words: str, at: str) -> str:
    return f"{words}, {at}" if at else words
