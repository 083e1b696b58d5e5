"""What moves a decision: one number at a time, two at once, all at once by chance."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pricing.figure import Figure
from pricing.scenario import Arm, Scenario
from pricing.tco import cost_options


@dataclass(frozen=True)
class Driver:
    """One number at its low and high, all others as they are. `low_cost` and `high_cost` are the option's totals."""

    path: str
    low: float
    high: float
    low_cost: float
    high_cost: float
    base_cost: float

    @property
    def swing(self) -> float:
        return abs(self.high_cost - self.low_cost)


def totals_of(scenario: Scenario, option: str, arm: Arm, draws: Mapping[str, Sequence[float]]) -> list[float]:
    """The option's total in each draw. Raises ValueError for an option that there is not, and where it cannot be
    served."""
    for costed in cost_options(scenario, draws):
        if costed.option == option and (costed.arm == arm or costed.kind == "api"):
            totals = [float(total) for total in costed.total]
            count = max((len(values) for values in draws.values()), default=1)
            return totals if len(totals) == count else totals * count
    raise ValueError(f"no option is called {option}; there are " + ", ".join(o.name for o in scenario.options))


def total_of(scenario: Scenario, option: str, arm: Arm) -> float:
    """As the scenario is. Raises as `totals_of` does."""
    return totals_of(scenario, option, arm, {})[0]


def ranges(scenario: Scenario) -> dict[str, Figure]:
    """The numbers that have a range, by path."""
    return {path: figure for path, figure in scenario.figures().items() if figure.is_a_range}


def tornado(scenario: Scenario, option: str, arm: Arm = "speculative") -> list[Driver]:
    """Every number with a range, the one that moves the option's total most first. Raises ValueError for an option that
    there is not, and where the scenario cannot be served at an end of a range."""
    ranged = ranges(scenario)
    own = {path: figure.value for path, figure in ranged.items()}
    cases: list[dict[str, float]] = [own]
    for path, figure in ranged.items():
        assert figure.low is not None
        assert figure.high is not None
        cases += [{**own, path: figure.low}, {**own, path: figure.high}]
    draws = {path: [case[path] for case in cases] for path in ranged}
    base, *totals = totals_of(scenario, option, arm, draws)
    drivers = [
        Driver(path, f.low or 0.0, f.high or 0.0, totals[2 * i], totals[2 * i + 1], base)
        for i, (path, f) in enumerate(ranged.items())
    ]
    return sorted(drivers, key=lambda driver: -driver.swing)


def two_way(
    scenario: Scenario,
    option: str,
    row: tuple[str, Sequence[float]],
    across: tuple[str, Sequence[float]],
    arm: Arm = "speculative",
) -> list[list[float]]:
    """The option's total for each value of `row` (down) and `across`. Raises ValueError with a sentence for a number
    that there is not, for a value that it may not have, alone or beside the other, for an option that there is not, and
    where the scenario cannot be served."""
    for values in ({row[0]: a, across[0]: b} for a in row[1] for b in across[1]):
        refused = scenario.refused(values)
        if refused is not None:
            raise ValueError(refused)
    pairs = [(a, b) for a in row[1] for b in across[1]]
    totals = totals_of(scenario, option, arm, {row[0]: [a for a, _ in pairs], across[0]: [b for _, b in pairs]})
    width = len(across[1])
    return [totals[i : i + width] for i in range(0, len(totals), width)]


@dataclass(frozen=True)
class Chances:
    """Of one option over all draws: what 5, 50 and 95 % of the totals stay below, and the mean. loss_share: of the
    draws in which speculation costs more than plain decoding; None for plain decoding and for an API. missed_share: of
    the draws in which no fleet keeps the P95 target, decoded that way; their totals are of the fleet that keeps the
    nearest target that can be kept. None where there is no target, and for an API. 0 where a load curve was measured: a
    draw that misses its target everywhere is refused."""

    option: str
    p05: float
    p50: float
    p95: float
    mean: float
    loss_share: float | None
    missed_share: float | None
    totals: tuple[float, ...]


def drawn(scenario: Scenario, draws: int, seed: int) -> dict[str, list[float]]:
    """Each ranged number by a triangle: from low to high, likeliest at its value, independent of all others. Of whole
    numbers the triangle reaches half a step beyond both ends and is rounded, so that each has its due and none is
    halved."""
    chance = random.Random(seed)
    found = {}
    for path, figure in ranges(scenario).items():
        low, high = figure.ends
        bounds = scenario.bounds(path)
        if bounds is not None and bounds.whole:
            many = (chance.triangular(low - 0.5, high + 0.5, figure.value) for _ in range(draws))
            found[path] = [min(max(float(math.floor(n + 0.5)), low), high) for n in many]
        else:
            found[path] = [chance.triangular(low, high, figure.value) for _ in range(draws)]
    return found


def monte_carlo(
    scenario: Scenario, draws: int = 10_000, seed: int = 0, stop: Callable[[], bool] = lambda: False
) -> list[Chances]:
    """What each option costs if every ranged number is what chance makes it. The same seed gives the same draws; stop
    is asked between two thousands of draws, and what is done by then is what is told. Raises ValueError where no number
    has a range, and where a draw cannot be served."""
    made = drawn(scenario, draws, seed)
    if not made:
        raise ValueError(f"{scenario.name} gives no number a range; write one as {{value = 3, low = 2, high = 5}}")
    totals: dict[tuple[str, str, Arm], list[float]] = {}
    missed: dict[tuple[str, str, Arm], float] = {}
    for begin in range(0, draws, 2000):
        if begin and stop():
            break
        for costed in cost_options(scenario, {path: values[begin : begin + 2000] for path, values in made.items()}):
            key, total = (costed.option, costed.kind, costed.arm), costed.total
            totals.setdefault(key, []).extend(total.tolist())
            if costed.demand.missed is not None and costed.kind != "api":  # one row where no draw moves it
                missed[key] = missed.get(key, 0.0) + float(costed.demand.missed.mean()) * len(total)
    found = []
    for key, values in totals.items():
        option, kind, arm = key
        plain = totals[option, kind, "plain"]
        loss = None
        if arm == "speculative":
            loss = sum(own > other for own, other in zip(values, plain, strict=True)) / len(values)
        ordered = sorted(values)
        title = option if kind == "api" else f"{option}, {arm}"
        p05, p50, p95 = (quantile(ordered, share) for share in (0.05, 0.5, 0.95))
        late = missed[key] / len(values) if key in missed else None
        found.append(Chances(title, p05, p50, p95, sum(values) / len(values), loss, late, tuple(values)))
    return found


def quantile(ordered: Sequence[float], share: float) -> float:
    """Straight between the two values around it."""
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)
