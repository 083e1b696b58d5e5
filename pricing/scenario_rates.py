"""The exchange rates that a scenario's figures were converted at: told with it, and never used to convert."""

from __future__ import annotations

from datetime import date
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from pricing.cells import day as day_of
from pricing.exchange import checked_days
from pricing.fx import Rate


class UsedRate(BaseModel):
    """1 `base` is `value` `quote`. side: the bank's, buying or selling. Raises a ValidationError with a sentence for
    what is no rate; where the reader says what day it is (context "today"), also for a day that has not come."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base: str
    quote: str
    value: float = Field(allow_inf_nan=True)  # the sentence for what is no rate is `Rate`'s
    side: str
    day: date
    source: str

    @field_validator("day", mode="before")
    @classmethod
    def _a_day(cls, given: Any) -> date:
        return day_of(given)

    @model_validator(mode="after")
    def _a_rate(self, info: ValidationInfo) -> Self:
        rate, today = self.rate, (info.context or {}).get("today")
        if today is not None:
            checked_days([rate], today)
        return self

    @property
    def rate(self) -> Rate:
        return Rate(self.base, self.quote, self.value, self.side, self.day, self.source)  # type: ignore[arg-type]
