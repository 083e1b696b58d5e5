"""One number of a scenario with where it comes from, and the range that it may lie in."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, field_validator, model_validator

from pricing.rows import finite, shown

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
    source: str = ""
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
        number = finite(given)
        if number is None:
            raise ValueError(f"{shown(given)} is not a finite number; write it as 1234.5")
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


def _within(allowed: Callable[[float], bool], told: str) -> AfterValidator:
    def check(figure: Figure) -> Figure:
        for number in (figure.value, figure.low, figure.high):
            if number is not None and not allowed(number):
                raise ValueError(f"{number:g} must be {told}")
        return figure

    return AfterValidator(check)


Positive = Annotated[Figure, _within(lambda n: n > 0, "above 0")]
NotNegative = Annotated[Figure, _within(lambda n: n >= 0, "at least 0")]
AtLeastOne = Annotated[Figure, _within(lambda n: n >= 1, "at least 1")]
Share = Annotated[Figure, _within(lambda n: 0 <= n <= 1, "a share from 0 to 1 (0.25 is a quarter)")]
PositiveShare = Annotated[Figure, _within(lambda n: 0 < n <= 1, "a share above 0 and at most 1")]
# Of a fleet that is never there, nothing could be billed.
LossShare = Annotated[Figure, _within(lambda n: 0 <= n < 1, "a share from 0 to below 1")]
Growth = Annotated[Figure, _within(lambda n: n > -1, "above -1 (0.2 is 20 % a year more)")]
Count = Annotated[Figure, _within(lambda n: n >= 1 and n == math.floor(n), "a whole number of at least 1")]
CountOrNone = Annotated[Figure, _within(lambda n: n >= 0 and n == math.floor(n), "a whole number of at least 0")]
