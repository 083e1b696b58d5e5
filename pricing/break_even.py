"""From what demand on one option costs less than another: requests a day, tokens a month, how busy GPUs are there."""

from __future__ import annotations

from dataclasses import dataclass

from pricing.columns import Array
from pricing.demand import DAYS_PER_MONTH
from pricing.scenario import Arm, Scenario
from pricing.tco import Costed, cost_options, tco

# Demand is looked through from a thousandth to so many times the scenario's.
MOST_TIMES = 1000
_STEPS = 100  # for each tenfold


@dataclass(frozen=True)
class BreakEven:
    """Of `option` in place of `instead_of`, in the first month. requests_per_day: from which it costs less over the
    term; 0 where it does at all that were looked at, None where it does not at `MOST_TIMES` today's demand. Beside that
    tokens_per_month (input, cached and output ones) and busy_share (while the service is on, of the GPUs that are paid
    for), both at that demand; None where there is none such."""

    option: str
    instead_of: str
    requests_per_day: float | None
    tokens_per_month: float | None
    busy_share: float | None


def break_evens(scenario: Scenario, arm: Arm = "speculative") -> list[BreakEven]:
    """Of everything that is rented or owned in place of each API."""
    own = [*(option.name for option in scenario.cloud), *(option.name for option in scenario.owned)]
    return [break_even(scenario, name, api.name, arm) for name in own for api in scenario.api]


def break_even(scenario: Scenario, option: str, instead_of: str, arm: Arm = "speculative") -> BreakEven:
    """Raises ValueError for an option that there is not."""
    requests = break_even_requests_per_day(scenario, option, instead_of, arm)
    if not requests:
        return BreakEven(option, instead_of, requests, requests, None)
    work = scenario.workload
    tokens = requests * DAYS_PER_MONTH * (work.input_tokens.value + work.output_tokens.value)
    pair = _only(scenario, option)
    there = tco(pair.with_values({"workload.requests_per_day": requests})).option(option, arm)
    busy = None if there.kind == "api" else float(there.monthly["busy_share"].iloc[0])
    return BreakEven(option, instead_of, requests, tokens, busy)


def break_even_requests_per_day(
    scenario: Scenario, option: str, instead_of: str, arm: Arm = "speculative"
) -> float | None:
    """Requests a day from which `option` costs less over the term than `instead_of`, all else as it is. Fleets grow in
    whole machines, so this is the last crossing: beyond it, it stays cheaper, up to `MOST_TIMES` the scenario's demand.
    0 where it costs less from a thousandth of that demand on; None where it does not at `MOST_TIMES` it, whatever it
    does below. Raises ValueError for an option that there is not."""
    scale = [10 ** (power / _STEPS) for power in range(-3 * _STEPS, 3 * _STEPS + 1)]
    own = scenario.workload.requests_per_day.value
    draws = {"workload.requests_per_day": [own * s for s in scale]}
    costs: dict[tuple[str, Arm], Costed] = {}
    for costed in cost_options(_only(scenario, option, instead_of), draws):
        costs[costed.option, costed.arm] = costed

    def total(name: str) -> Array:
        costed = costs.get((name, arm)) or costs.get((name, "plain"))
        if costed is None:
            raise ValueError(f"no option is called {name}; there are " + ", ".join(o.name for o in scenario.options))
        return costed.total

    gap = [float(g) for g in total(instead_of) - total(option)]
    cheaper = [g > 0 for g in gap]
    if not cheaper[-1]:
        return None
    if all(cheaper):
        return 0.0
    at = len(cheaper) - 1 - cheaper[::-1].index(False)  # the last scale at which it is not
    share = -gap[at] / (gap[at + 1] - gap[at])
    return own * (scale[at] + share * (scale[at + 1] - scale[at]))


def _only(scenario: Scenario, *names: str) -> Scenario:
    """With these options alone: the others would only be calculated along, at six hundred loads."""
    groups = ("cloud", "owned", "api")
    return scenario.model_copy(
        update={"best": {}, "worst": {}}
        | {group: tuple(o for o in getattr(scenario, group) if o.name in names) for group in groups}
    )
