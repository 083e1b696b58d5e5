"""What a decision rests on: the work, how fast it is done, what it would cost where. TOML files and the page's forms
have this one schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self, get_args

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
from pricing.rows import Commitment

Currency = Literal["USD", "EUR", "TRY"]
Arm = Literal["plain", "speculative"]
ARMS: tuple[Arm, ...] = get_args(Arm)
# Bought by the hour and given back when nobody asks; all others are billed around the clock.
BY_THE_HOUR = ("on_demand", "spot", "marketplace")
Name = Annotated[str, Field(min_length=1, max_length=80)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def assumed(value: float) -> Any:
    return Field(default_factory=lambda: Figure(value=value, source="specscope's default"))


class Workload(_Part):
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


class Speed(_Part):
    """Tokens per second of one replica, all its requests together, at the load and latency that it is run at: while it
    reads prompts, and while it writes."""

    input_tokens_per_second: Positive
    output_tokens_per_second: Positive


class LoadPoint(_Part):
    """Of one replica: `busy_share` of its time spent on requests, and the P95 of a request's latency then, in s."""

    busy_share: PositiveShare
    p95_s: Positive


class Serving(_Part):
    """One replica of the model on `gpus_per_replica` GPUs, plain and speculative on the same machine.

    `busy_limit`: the share of its time that a replica may be busy in the busiest hour with P95 within `p95_target_s`;
    where `load_curve` is given, it is read off there for each arm. `spare_replicas`: 1 is N+1.
    `cached_input_cost_share`: what reading a cached token takes of reading one that is not.
    """

    model: Name
    gpu: Name
    gpus_per_replica: Count
    plain: Speed
    speculative: Speed
    busy_limit: PositiveShare
    spare_replicas: CountOrNone = assumed(1.0)
    cached_input_cost_share: Share = assumed(0.1)
    p95_target_s: Positive | None = None


class Speculation(_Part):
    """What speculation costs beside time. `capacity_share_taken`: of a replica's output speed, lost to the room that
    the draft takes from the KV cache; 0 where the speed was measured with the draft loaded. Money in the scenario's
    currency: `engineering_weeks` at `per_engineering_week` and `pilot` once, `upkeep_per_month` from then on."""

    engineering_weeks: NotNegative = assumed(0.0)
    per_engineering_week: NotNegative = assumed(0.0)
    pilot: NotNegative = assumed(0.0)
    upkeep_per_month: NotNegative = assumed(0.0)
    capacity_share_taken: LossShare = assumed(0.0)


class CloudPart(_Part):
    """`fleet_share` of the replicas at one price. `interruption_share`: of a spot GPU's hours, lost to interruptions
    and to what is done again; so many more are rented."""

    commitment: Commitment
    per_gpu_hour: Positive
    fleet_share: PositiveShare = assumed(1.0)
    interruption_share: LossShare = assumed(0.0)

    @property
    def by_the_hour(self) -> bool:
        return self.commitment in BY_THE_HOUR


class Cloud(_Part):
    """Rented GPUs, in whole instances of `gpus_per_instance`. `support_share` is of the compute bill."""

    name: Name
    parts: Annotated[tuple[CloudPart, ...], Field(min_length=1)]
    gpus_per_instance: Count = assumed(1.0)
    storage_per_month: NotNegative = assumed(0.0)
    egress_per_million_requests: NotNegative = assumed(0.0)
    support_share: NotNegative = assumed(0.0)

    @model_validator(mode="after")
    def _whole_fleet(self) -> Self:
        if any(part.fleet_share.is_a_range for part in self.parts):
            raise ValueError(f"a fleet share of {self.name} has a range; it is chosen, so give it one value")
        total = sum(part.fleet_share.value for part in self.parts)
        if abs(total - 1) > 1e-9:
            raise ValueError(f"the fleet shares of {self.name} add up to {total:g}; make them add up to 1")
        return self


class Owned(_Part):
    """Bought servers. `price` of one; `network_share` of it on top, `install` each. After `life_years` it is replaced
    and sold at `residual_share` of its price; in between its value falls evenly. kW are a server's, at the wall
    without cooling: `pue` adds that. `support_share_per_year` is of the price."""

    name: Name
    gpus_per_server: Count
    price: Positive
    idle_kw: NotNegative
    active_kw: Positive
    per_kwh: NotNegative
    network_share: NotNegative = assumed(0.0)
    install: NotNegative = assumed(0.0)
    residual_share: Share = assumed(0.0)
    life_years: Positive = assumed(4.0)
    pue: AtLeastOne = assumed(1.54)
    colocation_per_kw_month: NotNegative = assumed(0.0)
    staff_fte: NotNegative = assumed(0.0)
    per_fte_year: NotNegative = assumed(0.0)
    support_share_per_year: NotNegative = assumed(0.0)
    licence_per_gpu_year: NotNegative = assumed(0.0)

    @model_validator(mode="after")
    def _idle_takes_no_more(self) -> Self:
        if self.idle_kw.value > self.active_kw.value:
            raise ValueError(f"{self.name} takes {self.idle_kw.value:g} kW idle and only {self.active_kw.value:g} busy")
        return self


class Api(_Part):
    """Somebody else's model by the token, per 1M."""

    name: Name
    input_per_million: NotNegative
    output_per_million: Positive
    cached_input_per_million: NotNegative | None = None


class Scenario(_Part):
    """All of a decision. Money is in `currency`, whatever a price was quoted in; `tax_share` comes on top of every
    bill. `best` and `worst` give other values to inputs by their path, as {"workload.peak_factor": 2}.

    Raises pydantic's ValidationError; `pricing.load_scenario` turns it into sentences.
    """

    name: Name
    currency: Currency
    years: Annotated[int, Field(ge=1, le=5)]
    workload: Workload
    serving: Serving
    speculation: Speculation = Field(default_factory=Speculation)
    load_curve: dict[Arm, tuple[LoadPoint, ...]] = Field(default_factory=dict)
    cloud: tuple[Cloud, ...] = ()
    owned: tuple[Owned, ...] = ()
    api: tuple[Api, ...] = ()
    cost_of_capital: NotNegative = assumed(0.10)
    tax_share: NotNegative = assumed(0.0)
    about: str = ""
    excluded: tuple[str, ...] = ()
    best: dict[str, float] = Field(default_factory=dict)
    worst: dict[str, float] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _something_to_compare(self) -> Self:
        names = [option.name for option in self.options]
        if not names:
            raise ValueError("there is nothing to pay; give at least one [[cloud]], [[owned]] or [[api]]")
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"two options are called {twice}; give each a name of its own")
        for case in (self.best, self.worst):
            self.with_values(case)
        if self.load_curve and (self.serving.p95_target_s is None or set(self.load_curve) != set(ARMS)):
            raise ValueError("a load curve needs both arms, plain and speculative, and serving.p95_target_s")
        return self

    @property
    def options(self) -> tuple[Cloud | Owned | Api, ...]:
        return (*self.cloud, *self.owned, *self.api)

    def figures(self) -> dict[str, Figure]:
        """Every number of the scenario by its path, as "cloud.0.parts.0.per_gpu_hour"."""
        return dict(_figures(self, ""))

    def with_values(self, values: Mapping[str, float]) -> Scenario:
        """The same with other numbers, checked like any; ranges, `best` and `worst` of the changed go. Raises
        ValueError for a path that there is not or a value that cannot be."""
        if not values:
            return self
        known = self.figures()
        whole = self.model_dump()
        whole["best"] = whole["worst"] = {}
        for path, value in values.items():
            if path not in known:
                raise ValueError(f"there is no number called {path}; the paths are those that `figures` gives")
            *way, last = path.split(".")
            at = whole
            for step in way:
                at = at[int(step)] if isinstance(at, list | tuple) else at[step]
            at[last] = {"value": value, "label": "assumed", "source": known[path].source}
        return Scenario.model_validate(whole)


def _figures(part: Any, path: str) -> Iterator[tuple[str, Figure]]:
    if isinstance(part, Figure):
        yield path, part
    elif isinstance(part, BaseModel):
        for name in type(part).model_fields:
            yield from _figures(getattr(part, name), f"{path}.{name}" if path else name)
    elif isinstance(part, tuple):
        for i, item in enumerate(part):
            yield from _figures(item, f"{path}.{i}")
    elif isinstance(part, dict):
        for name, item in part.items():
            yield from _figures(item, f"{path}.{name}")
