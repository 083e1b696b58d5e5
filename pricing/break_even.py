"""From what demand on one option costs less than another: requests a day, tokens a month, how busy GPUs are there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from pricing.demand import DAYS_PER_MONTH, first
from pricing.scenario import Arm, Scenario
from pricing.tco import Costed, cost_options

# Demand is looked through from a thousandth to so many times the scenario's.
MOST_TIMES = 1000
_STEPS = 40  # for each tenfold, at first
# A round looks at so many demands, in so many stretches. Where two options cost all but the same at every demand, there
# is no end to where one might still cross the other, so after so many looks only the last crossing is made out.
_AT_ONCE = 200
_STRETCHES = 40
_MOST_LOOKS = 2000
_HALF_A_CENT = 0.005


@dataclass(frozen=True)
class BreakEven:
    """Of `option` in place of `instead_of`, in the first month. requests_per_day: the fewest, in whole requests, from
    which it costs less over the term, as `break_even_requests_per_day` has it; 0 where it does at all that were looked
    at, None where it does not at `MOST_TIMES` today's demand. Beside that tokens_per_month (input, cached and output
    ones) and busy_share (while the service is on, of the GPUs that are paid for), both at that demand; None where there
    is none such. arm: how `option` decodes."""

    option: str
    instead_of: str
    requests_per_day: int | None
    tokens_per_month: float | None
    busy_share: float | None
    arm: Arm = "speculative"


def break_evens(scenario: Scenario, arm: Arm = "speculative") -> list[BreakEven]:
    """Of everything that is rented or owned in place of each API."""
    own = [*(option.name for option in scenario.cloud), *(option.name for option in scenario.owned)]
    return [break_even(scenario, name, api.name, arm) for name in own for api in scenario.api]


def break_even(scenario: Scenario, option: str, instead_of: str, arm: Arm = "speculative") -> BreakEven:
    """Raises ValueError for an option that there is not."""
    requests = break_even_requests_per_day(scenario, option, instead_of, arm)
    if not requests:
        return BreakEven(option, instead_of, requests, requests, None, arm)
    work = scenario.workload
    tokens = requests * DAYS_PER_MONTH * (work.input_tokens.value + work.output_tokens.value)
    there = _at(_only(scenario, option), [requests], arm)[option]
    busy = None
    if there.kind != "api":
        at_work = first(there.demand.busy_share * there.demand.replicas)
        busy = at_work * scenario.serving.gpus_per_replica.value / first(there.gpus)
    return BreakEven(option, instead_of, requests, tokens, busy, arm)


def break_even_requests_per_day(
    scenario: Scenario, option: str, instead_of: str, arm: Arm = "speculative"
) -> int | None:
    """The smallest whole number of requests a day from which on, at each up to `MOST_TIMES` the scenario's, `option`
    costs at least half a cent less over the term than `instead_of`, all else as it is. Fleets grow in whole machines,
    so the two may cross often: this is the last time. 0 where it costs less at all that were looked at, from a
    thousandth of the scenario's demand (one request at the least) on; None where it does not at `MOST_TIMES` it,
    whatever it does below. Raises ValueError for an option that there is not.

    It is exact where neither total falls while demand rises: between two demands that were looked at, and at which the
    one costs less at its dearer than the other at its cheaper, there can be no crossing, and all other stretches are
    looked at more closely, down to single requests. A total may fall where reserved GPUs outlast a falling demand, or
    where three or more parts of a fleet are rounded to whole replicas; then a crossing back and forth between two
    demands that were looked at, 6 % apart at most, can be missed. So it can where the two cost the same to a per mille
    over much of the range, as after `_MOST_LOOKS` demands only the last crossing known is made out."""
    pair, known = _Pair(scenario, option, instead_of, arm), _Known()
    own = scenario.workload.requests_per_day.value
    scale = (10 ** (power / _STEPS) for power in range(-3 * _STEPS, 3 * _STEPS + 1))
    known.add(pair, {max(1, round(own * times)) for times in scale})
    while gaps := list(known.unsure())[:_STRETCHES]:  # the nearer to one crossing, the likelier another
        if len(known) >= _MOST_LOOKS and gaps[0][0] != known.last:
            break
        if len(known) >= _MOST_LOOKS:
            gaps = gaps[:1]  # that of the last crossing known
        known.add(pair, (demand for gap in gaps for demand in _between(*gap, _AT_ONCE // len(gaps))))
    demands = known.demands
    if known.last is None:
        return 0
    return None if known.last == demands[-1] else demands[demands.index(known.last) + 1]


def _between(low: int, high: int, count: int) -> Iterator[int]:
    """Up to so many whole numbers between two that are at least two apart, evenly."""
    count = min(count, high - low - 1)
    return (low + (high - low) * i // (count + 1) for i in range(1, count + 1))


class _Pair:
    """What two options cost over the term at other demands."""

    def __init__(self, scenario: Scenario, option: str, instead_of: str, arm: Arm) -> None:
        for name in (option, instead_of):
            if name not in (known := [o.name for o in scenario.options]):
                raise ValueError(f"no option is called {name}; there are {', '.join(known)}")
        self._scenario, self._arm = _only(scenario, option, instead_of), arm
        self._names = (option, instead_of)

    def __call__(self, demands: list[int]) -> Iterator[tuple[float, float]]:
        found = _at(self._scenario, demands, self._arm)
        return zip(*(found[name].total.tolist() for name in self._names), strict=True)


class _Known:
    """The totals (option, in place of) at the demands that were looked at. demands: in their order; last: the largest
    at which the option does not cost less."""

    def __init__(self) -> None:
        self._totals: dict[int, tuple[float, float]] = {}
        self.demands: list[int] = []
        self.last: int | None = None

    def __len__(self) -> int:
        return len(self._totals)

    def add(self, pair: _Pair, demands: Iterable[int]) -> None:
        new = sorted(set(demands))
        self._totals.update(zip(new, pair(new), strict=True))
        self.demands = sorted(self._totals)
        self.last = next((n for n in reversed(self.demands) if not _less(*self._totals[n])), None)

    def unsure(self) -> Iterator[tuple[int, int]]:
        """Stretches from the last crossing on in which there might be a later one, or it itself."""
        for low, high in pairwise(self.demands):
            if high - low > 1 and (self.last is None or self.last <= low):
                own, other = zip(self._totals[low], self._totals[high], strict=True)
                if not _less(max(own), min(other)):
                    yield low, high


def _less(own: float, other: float) -> bool:
    return other - own >= _HALF_A_CENT


def _at(scenario: Scenario, demands: list[int], arm: Arm) -> dict[str, Costed]:
    draws = {"workload.requests_per_day": [float(demand) for demand in demands]}
    return {costed.option: costed for costed in cost_options(scenario, draws, arms=(arm,))}


def _only(scenario: Scenario, *names: str) -> Scenario:
    """With these options alone: the others would only be calculated along, at hundreds of loads."""
    groups = ("cloud", "owned", "api")
    return scenario.model_copy(
        update={"best": {}, "worst": {}}
        | {group: tuple(o for o in getattr(scenario, group) if o.name in names) for group in groups}
    )
