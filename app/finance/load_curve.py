"""What a token costs at each load of a replica, and where on that curve a scenario lies."""

from dataclasses import dataclass, replace
from functools import cache

from app.finance.desk import Now
from pricing.columns import Numbers
from pricing.demand import HOURS_PER_MONTH, first, request_seconds
from pricing.load import LoadCost, cost_against_load
from pricing.scenario import ARMS
from pricing.tco import Option

BUSY = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


@dataclass(frozen=True)
class LoadLine:
    """points: by rising load, the scenario's own among them at `own`."""

    option: str
    arm: str
    points: tuple[LoadCost, ...]
    own: int
    per_replica_hour: float
    request_s: float


def load_lines(now: Now, name: str) -> list[LoadLine]:
    """A line an arm of an option that has replicas."""
    found = []
    for arm in ARMS:
        option = now.made.option(name, arm)
        if option.kind == "api":
            return []
        per_hour, busy = replica_hour(now, option)
        request_s = first(request_seconds(Numbers(now.scenario), arm).total)
        shares = sorted({*BUSY, busy})
        points = tuple(
            _scaled(_unit(share), per_hour, request_s, now.scenario.workload.output_tokens.value) for share in shares
        )
        found.append(LoadLine(name, arm, points, shares.index(busy), per_hour, request_s))
    return found


def replica_hour(now: Now, option: Option) -> tuple[float, float]:
    """(cost of a replica for an hour in which the service is on, the share of it that is busy): means of the term."""
    months = option.monthly
    hours = float(months["replicas"].sum()) * HOURS_PER_MONTH * now.scenario.workload.hours_on_share.value
    busy = float((months["busy_share"] * months["replicas"]).sum() / months["replicas"].sum())
    return option.total / hours, busy


@cache
def _standard() -> dict[float, LoadCost]:
    return {point.busy_share: point for point in cost_against_load(1.0, 1.0, 1.0, BUSY)}


def _unit(busy: float) -> LoadCost:
    """At one unit of money an hour, one second a request and one token in it. A queue's waits are as long as its
    requests, so the standard loads are simulated once; of the scenario's own only the cost is asked for."""
    known = _standard().get(busy)
    if known is not None:
        return known
    return replace(cost_against_load(1.0, 1.0, 1.0, [busy], requests=1)[0], p50_s=None, p95_s=None)


def _scaled(unit: LoadCost, per_hour: float, request_s: float, output_tokens: float) -> LoadCost:
    def seconds(value: float | None) -> float | None:
        return None if value is None else value * request_s

    cost = unit.per_million_output_tokens
    return LoadCost(
        unit.requests_per_second / request_s,
        unit.busy_share,
        seconds(unit.p50_s),
        seconds(unit.p95_s),
        None if cost is None else cost * per_hour * request_s / output_tokens,
        unit.kept_up,
    )
