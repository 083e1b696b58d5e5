"""What a decision rests on: the work, how fast it is done, what it would cost where. TOML files and the page's forms
have this one schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BaseModel, Field, ValidationError, model_validator

from pricing.currencies import Currency as Currency
from pricing.figure import Bounds, Figure, Rate, YearlyRate, bounds_of
from pricing.scenario_faults import faults, no_such_number
from pricing.scenario_options import Api, Cloud, Owned
from pricing.scenario_rates import UsedRate
from pricing.scenario_work import LoadPoint, Part, Serving, Speculation, Workload, assumed
from pricing.texts import Name, Prose

Arm = Literal["plain", "speculative"]
ARMS: tuple[Arm, ...] = get_args(Arm)
# A scenario's own numbers, or with those of its `best` or `worst` in them.
Case = Literal["base", "best", "worst"]
CASES: tuple[Case, ...] = get_args(Case)
_Number = Annotated[float, Field(strict=True)]


class Scenario(Part):
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
