"""What a decision rests on: the work, how fast it is done, what it would cost where. TOML files and the page's forms
have this one schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from pricing.currencies import Currency as Currency
from pricing.figure import (
    AtLeastOne,
    Bounds,
    Count,
    CountOrNone,
    Figure,
    Growth,
    LossShare,
    NotNegative,
    Positive,
    PositiveShare,
    Rate,
    Share,
    YearlyRate,
    bounds_of,
)
from pricing.rows import Commitment
from pricing.scenario_faults import faults, no_such_number
from pricing.scenario_rates import UsedRate
from pricing.texts import Name, Prose

Arm = Literal["plain", "speculative"]
ARMS: tuple[Arm, ...] = get_args(Arm)
# A scenario's own numbers, or with those of its `best` or `worst` in them.
Case = Literal["base", "best", "worst"]
CASES: tuple[Case, ...] = get_args(Case)
# Bought by the hour and given back when nobody asks; all others are billed around the clock.
BY_THE_HOUR = ("on_demand", "spot", "marketplace")
# Months for which a GPU is paid once it is reserved; a reservation of unstated length is held to be of the shortest
# that is sold. A capacity block is a dated purchase of days or weeks and is bought anew each month: it commits to none.
TERM_MONTHS = {"reserved_1yr": 12, "reserved_3yr": 36, "reserved_unstated": 12}


_Number = Annotated[float, Field(strict=True)]


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
    """`fleet_share` of the replicas at one price: whole ones, dealt out so that all parts have together what the fleet
    takes. `interruption_share`: of a spot GPU's hours, lost to interruptions and to what is done again; so many more
    are rented. A reserved GPU is paid for its whole term, however demand falls; only when that ends may it go. The
    other parts keep their shares even where a reserved one stands idle."""

    commitment: Commitment
    per_gpu_hour: Positive
    fleet_share: PositiveShare = assumed(1.0)
    interruption_share: LossShare = assumed(0.0)

    @property
    def by_the_hour(self) -> bool:
        return self.commitment in BY_THE_HOUR

    @property
    def term_months(self) -> int:
        """Months that a GPU is paid for once rented; 1 where each month decides anew."""
        return TERM_MONTHS.get(self.commitment, 1)


class Cloud(_Part):
    """Rented GPUs, in whole instances of `gpus_per_instance`. `support_share` is of the compute bill."""

    name: Name
    parts: Annotated[tuple[CloudPart, ...], Field(min_length=1)]
    gpus_per_instance: Count = assumed(1.0)
    storage_per_month: NotNegative = assumed(0.0)
    egress_per_million_requests: NotNegative = assumed(0.0)
    support_share: Rate = assumed(0.0)

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
    network_share: Rate = assumed(0.0)
    install: NotNegative = assumed(0.0)
    residual_share: Share = assumed(0.0)
    life_years: Positive = assumed(4.0)
    pue: AtLeastOne = assumed(1.54)
    colocation_per_kw_month: NotNegative = assumed(0.0)
    staff_fte: NotNegative = assumed(0.0)
    per_fte_year: NotNegative = assumed(0.0)
    support_share_per_year: YearlyRate = assumed(0.0)
    licence_per_gpu_year: NotNegative = assumed(0.0)

    @model_validator(mode="after")
    def _idle_takes_no_more(self) -> Self:
        if self.idle_kw.value > self.active_kw.value:
            raise ValueError(f"{self.name} takes {self.idle_kw.value:g} kW idle and only {self.active_kw.value:g} busy")
        if self.idle_kw.ends[1] > self.active_kw.ends[0]:
            raise ValueError(
                f"{self.name} takes up to {self.idle_kw.ends[1]:g} kW idle and from {self.active_kw.ends[0]:g} kW "
                "busy; make the two ranges end where they meet"
            )
        return self


class Api(_Part):
    """Somebody else's model by the token, per 1M."""

    name: Name
    input_per_million: NotNegative
    output_per_million: Positive
    cached_input_per_million: NotNegative | None = None


class Scenario(_Part):
    """All of a decision. Money is in `currency`, whatever a price was quoted in; `tax_share` (VAT, KDV)
    comes on top of what is bought: compute, tokens, storage, egress, energy, colocation, support, licences, servers and
    the pilot; not of payroll (staff, engineering weeks, upkeep), and not of what is sold.

    `rates`: those that its figures were converted at before they came here; nothing is converted with them.
    `best` and `worst` give other values to inputs by their path, as {"workload.peak_factor": 2}.

    Raises pydantic's ValidationError; `pricing.load_scenario` turns it into sentences.
    """

    name: Name
    currency: Currency
    years: Annotated[int, Field(ge=1, le=5, strict=True)]
    workload: Workload
    serving: Serving
    speculation: Speculation = Field(default_factory=Speculation)
    load_curve: dict[Arm, tuple[LoadPoint, ...]] = Field(default_factory=dict)
    cloud: tuple[Cloud, ...] = ()
    owned: tuple[Owned, ...] = ()
    api: tuple[Api, ...] = ()
    cost_of_capital: YearlyRate = assumed(0.10)
    tax_share: Rate = assumed(0.0)
    about: Prose = ""
    rates: tuple[UsedRate, ...] = ()
    excluded: tuple[Prose, ...] = ()
    best: dict[str, _Number] = Field(default_factory=dict)
    worst: dict[str, _Number] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _something_to_compare(self) -> Self:
        names = [option.name for option in self.options]
        if not names:
            raise ValueError("there is nothing to pay; give at least one [[cloud]], [[owned]] or [[api]]")
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"two options are called {twice}; give each a name of its own")
        for case, values in (("best", self.best), ("worst", self.worst)):
            refused = self.refused(values)
            if refused is not None:
                raise ValueError(f"{case}: {refused}")
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
        """The same with other numbers, checked like any; each other one is assumed and its source says in place of what
        it stands. Ranges of the changed go, and `best` and `worst`. Raises ValueError for a path that there is not or a
        value that cannot be."""
        if not values:
            return self
        known = self.figures()
        whole = self.model_dump()
        whole["best"] = whole["worst"] = {}
        for path, value in values.items():
            if path not in known:
                raise ValueError(no_such_number(path, known))
            *way, last = path.split(".")
            at = whole
            for step in way:
                at = at[int(step)] if isinstance(at, list | tuple) else at[step]
            at[last] = known[path].changed(value).model_dump()
        return Scenario.model_validate(whole)

    def in_case(self, case: Case) -> Scenario:
        """With the numbers of that case in it."""
        return self if case == "base" else self.with_values(getattr(self, case))

    def bounds(self, path: str) -> Bounds | None:
        """What the number at that path may be, by itself. Raises ValueError for a path that there is not."""
        at: Any = self
        *way, last = path.split(".")
        try:
            for step in way:
                at = at[int(step)] if isinstance(at, tuple) else at[step] if isinstance(at, dict) else getattr(at, step)
            return bounds_of(type(at).model_fields[last])
        except (AttributeError, KeyError, IndexError, ValueError) as error:
            raise ValueError(no_such_number(path, self.figures())) from error

    def refused(self, values: Mapping[str, float]) -> str | None:
        """Why it cannot have these values, in a sentence; None where it can."""
        try:
            self.with_values(values)
        except ValidationError as error:
            place, said = faults(error)[0]
            return f"{place}: {said}" if place else said
        except ValueError as error:
            return str(error)
        return None


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
