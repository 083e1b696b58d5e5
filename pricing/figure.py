"""One number of a scenario with where it comes from, and the range that it may lie in."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, field_validator, model_validator
from pydantic.fields import FieldInfo

from pricing.rows import finite, shown
from pricing.texts import Prose

# Products of a dozen of them still are numbers.
LEAST, MOST = 1e-9, 1e15
Label = Literal["measured", "projected", "quoted", "assumed"]


class Figure(BaseModel):
    """`value` with its `label`; `source` says who measured, projected or quoted it, where and when. `low` and `high`
    bound what it may be, for tornado and Monte Carlo; without them it is held to be known.

    A bare number is taken as an assumed one. Raises a ValidationError with a sentence for what is no finite number,
    for half a range, for a range without the value in it, and for a claim without a source.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: float
    label: Label = "assumed"
    source: Prose = ""
    low: float | None = None
    high: float | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_a_number(cls, given: Any) -> Any:
        return given if isinstance(given, dict | Figure) else {"value": given}

    @field_validator("value", "low", "high", mode="before")
    @classmethod
    def _a_number(cls, given: Any) -> float | None:
        if given is None:
            return None
        if isinstance(given, bool):
            raise ValueError(f"{str(given).lower()} is a yes or no; write a number, as 1234.5")
        number = finite(given)
        if number is None:
            raise ValueError(f"{shown(given)} is not a finite number; write it as 1234.5")
        if abs(number) > MOST:
            raise ValueError(f"{number:g} is beyond what a scenario can hold; the most is {MOST:g}")
        return number

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.low is None) != (self.high is None):
            raise ValueError("give both low and high, or neither")
        if self.low is not None and self.high is not None and not self.low <= self.value <= self.high:
            raise ValueError(f"{self.value:g} is not between its low {self.low:g} and its high {self.high:g}")
        if self.label != "assumed" and not self.source.strip():
            raise ValueError(f"a {self.label} number needs a source; say where it comes from")
        return self

    @property
    def is_a_range(self) -> bool:
        return self.low is not None and self.high is not None and self.low < self.high

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the most that it may be; its value twice where it has no range."""
        low, high = self.low, self.high
        return (self.value, self.value) if low is None or high is None else (low, high)

    def changed(self, value: float, told: str = "in place of {value} ({was})", label: str = "") -> Figure:
        """Another value in its place: an assumed one, whose source says what it was and never passes the old source off
        as its own. `told` says so in words of one's own, `label` is then what the old label is called. Its range goes.
        """
        if value == self.value:
            return self
        called = label or self.label
        was = f"{called}: {self.source}" if self.source.strip() else called
        source = told.replace("{value}", f"{self.value:.12g}").replace("{was}", was)
        return Figure(value=value, source=source)


@dataclass(frozen=True)
class Bounds:
    """What a kind of number may be: from `low` to `high`, an `open` end itself excluded; `whole`: no fractions. It is
    told as "must be `told`"; a `rate` beyond its high end, which is mostly a percentage written as a whole number, by
    what it would be ("20 is 2,000 % a year; write 0.2 for 20 %")."""

    low: float
    told: str
    high: float = math.inf
    low_open: bool = False
    high_open: bool = False
    whole: bool = False
    rate: str = ""

    def fault(self, number: float) -> str | None:
        """What is wrong with it, in a sentence; None where it may be."""
        if self.rate and number > self.high:
            return (
                f"{number:g} is {number * 100:,.10g} %{self.rate}; write {number / 100:.10g} for {number:g} %, and at "
                f"most {self.high:g}"
            )
        if self.low_open and self.low == 0 and 0 < number < LEAST:
            return f"{number:g} is beyond what a scenario can hold; the least is {LEAST:g}"
        below = number <= self.low if self.low_open else number < self.low
        beyond = number >= self.high if self.high_open else number > self.high
        return f"{number:g} must be {self.told}" if below or beyond or (self.whole and number % 1) else None

    def clipped(self, number: float, inside: float) -> float:
        """The nearest that may be; short of an open end, half-way to it from `inside`, which may be."""
        if self.whole:
            number = math.floor(number + 0.5)
        if number < self.low or (self.low_open and number == self.low):
            return (inside + self.low) / 2 if self.low_open else self.low
        if number > self.high or (self.high_open and number == self.high):
            return (inside + self.high) / 2 if self.high_open else self.high
        return number

    def __call__(self, figure: Figure) -> Figure:
        for number in (figure.value, figure.low, figure.high):
            if number is not None and (fault := self.fault(number)) is not None:
                raise ValueError(fault)
        return figure


def bounds_of(field: FieldInfo) -> Bounds | None:
    """Of a field that holds a Figure; None for one that holds something else."""
    told = [*field.metadata]
    for kind in get_args(field.annotation):  # of one that may be absent
        told += getattr(kind, "__metadata__", ())
    return next((t.func for t in told if isinstance(t, AfterValidator) and isinstance(t.func, Bounds)), None)


Positive = Annotated[Figure, AfterValidator(Bounds(0, "above 0", low_open=True))]
NotNegative = Annotated[Figure, AfterValidator(Bounds(0, "at least 0"))]
AtLeastOne = Annotated[Figure, AfterValidator(Bounds(1, "at least 1"))]
Share = Annotated[Figure, AfterValidator(Bounds(0, "a share from 0 to 1 (0.25 is a quarter)", 1))]
PositiveShare = Annotated[Figure, AfterValidator(Bounds(0, "a share above 0 and at most 1", 1, low_open=True))]
# Of a fleet that is never there, nothing could be billed.
LossShare = Annotated[Figure, AfterValidator(Bounds(0, "a share from 0 to below 1", 1, high_open=True))]
# A start-up may grow fourfold in a year; twentyfold is 20 % with its sign forgotten.
Growth = Annotated[
    Figure, AfterValidator(Bounds(-1, "above -1 (0.2 is 20 % a year more)", 10, low_open=True, rate=" more a year"))
]
# Of a price or a bill, and of money's own worth: nobody pays more than all of it again.
Rate = Annotated[Figure, AfterValidator(Bounds(0, "at least 0", 1, rate=" of it"))]
YearlyRate = Annotated[Figure, AfterValidator(Bounds(0, "at least 0", 1, rate=" a year"))]
Count = Annotated[Figure, AfterValidator(Bounds(1, "a whole number of at least 1", whole=True))]
CountOrNone = Annotated[Figure, AfterValidator(Bounds(0, "a whole number of at least 0", whole=True))]
