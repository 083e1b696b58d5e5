"""What a token costs at each load of a replica, and where on that curve a scenario lies."""

from dataclasses import dataclass, replace

from app.finance.desk import Now
from pricing.columns import Numbers
from pricing.demand import HOURS_PER_MONTH, first, request_seconds
from pricing.load import LoadCost, cost_against_load
from pricing.scenario import ARMS
from pricing.service_level import along
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
    scenario = now.scenario
    for arm in ARMS:
        option = now.made.option(name, arm)
        if option.kind == "api":
            return []
        per_hour, busy = replica_hour(now, option)
        request_s = first(request_seconds(Numbers(scenario), arm).total)
        shares = sorted({*BUSY, busy})
        points = cost_against_load(
            per_hour, request_s, scenario.workload.output_tokens.value, [share / request_s for share in shares],
            at_once=round(scenario.serving.requests_at_once.value),
        )  # fmt: skip
        measured = [(p.busy_share.value, p.p95_s.value) for p in scenario.load_curve.get(arm, ())]
        if measured:  # which knows better, but says nothing of the median
            points = [replace(p, p50_s=None, p95_s=along(measured, p.busy_share)) for p in points]
        found.append(LoadLine(name, arm, tuple(points), shares.index(busy), per_hour, request_s))
    return found


def replica_hour(now: Now, option: Option) -> tuple[float, float]:
    """(cost of a replica for an hour in which the service is on, the share of it that is busy): means of the term."""
    months = option.monthly
    hours = float(months["replicas"].sum()) * HOURS_PER_MONTH * now.scenario.workload.hours_on_share.value
    busy = float(months["at_work"].sum() / months["replicas"].sum())
    return option.total / hours, busy
