"""The work of a scenario, how fast one replica does it, and what speculation costs beside time."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pricing.figure import (
    AtLeastOne,
    Count,
    CountOrNone,
    Figure,
    Growth,
    LossShare,
    NotNegative,
    Positive,
    PositiveShare,
    Share,
)
from pricing.texts import Name


class Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def assumed(value: float) -> Any:
    return Field(default_factory=lambda: Figure(value=value, source="specscope's default"))


class Workload(Part):
    """`requests_per_day`: in the first month, a mean over all days. `peak_factor`: requests/s of the busiest hour over
    the mean of the hours in which the service is on. `hours_on_share`: share of all hours in which it is on.
    Tokens are a request's, on average; `cached_input_share` of its input is found in a prefix cache."""

    requests_per_day: Positive
    input_tokens: Positive
    output_tokens: Positive
    peak_factor: AtLeastOne
    hours_on_share: PositiveShare = assumed(1.0)
    cached_input_share: Share = assumed(0.0)
    growth_per_year: Growth = assumed(0.0)
    turns_per_conversation: AtLeastOne = assumed(1.0)
    english_tokens_per_word: Positive | None = None
    turkish_tokens_per_word: Positive | None = None


class Speed(Part):
    """Tokens per second of one replica, all its requests together, at the load and latency that it is run at: while it
    reads prompts, and while it writes."""

    input_tokens_per_second: Positive
    output_tokens_per_second: Positive


class LoadPoint(Part):
    """Of one replica: `busy_share` of its time spent on requests, and the P95 of a request's latency then, in s."""

    busy_share: PositiveShare
    p95_s: Positive


class Serving(Part):
    """One replica of the model on `gpus_per_replica` GPUs, plain and speculative on the same machine.

    `busy_limit`: the most of its time that a replica may be busy in the busiest hour. Where there is a `p95_target_s`,
    the wait for one of `requests_at_once` places may allow less; where a `load_curve` was measured for each arm, it
    decides instead. Speeds are those with so many requests at once; `speed_factor` is what the machine does of them,
    both arms alike, as a projection that is wrong for one is wrong for the other. `spare_replicas`: 1 is N+1.
    `cached_input_cost_share`: what reading a cached token takes of reading one that is not.
    """

    model: Name
    gpu: Name
    gpus_per_replica: Count
    plain: Speed
    speculative: Speed
    busy_limit: PositiveShare
    requests_at_once: Count = assumed(1.0)
    speed_factor: Positive = assumed(1.0)
    spare_replicas: CountOrNone = assumed(1.0)
    cached_input_cost_share: Share = assumed(0.1)
    p95_target_s: Positive | None = None

    @model_validator(mode="after")
    def _one_number_of_places(self) -> Self:
        if self.requests_at_once.is_a_range:
            raise ValueError("serving.requests_at_once has a range; it is chosen, so give it one value")
        return self


class Speculation(Part):
    """What speculation costs beside time. `capacity_share_taken`: of a replica's output speed, lost to the room that
    the draft takes from the KV cache; 0 where the speed was measured with the draft loaded. Money in the scenario's
    currency: `engineering_weeks` at `per_engineering_week` and `pilot` once, `upkeep_per_month` from then on."""

    engineering_weeks: NotNegative = assumed(0.0)
    per_engineering_week: NotNegative = assumed(0.0)
    pilot: NotNegative = assumed(0.0)
    upkeep_per_month: NotNegative = assumed(0.0)
    capacity_share_taken: LossShare = assumed(0.0)
