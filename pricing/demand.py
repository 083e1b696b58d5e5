"""From requests to busy machines: seconds of a replica that a request takes, replicas that the busiest hour takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pricing.columns import Array, Numbers, array, at_least, ceiling
from pricing.scenario import ARMS, Arm, Scenario
from pricing.service_level import ServiceLevel, busy_limit, service_level, target_missed

HOURS_PER_YEAR = 8760
HOURS_PER_MONTH = HOURS_PER_YEAR / 12
DAYS_PER_MONTH = 365 / 12
SECONDS_PER_DAY = 86400


@dataclass(frozen=True)
class RequestSeconds:
    """Seconds of one replica that a request takes, by what they go to. [draws, 1] each; they add up to `total`."""

    input: Array
    cached_input: Array
    output: Array

    @property
    def total(self) -> Array:
        return self.input + self.cached_input + self.output


@dataclass(frozen=True)
class Demand:
    """A month a column, [draws, months] each but `seconds` and `missed`. requests and tokens: in the month. replicas:
    what the busiest hour takes with P95 in its limit, and the spare ones; fractions of one are bought whole.
    busy_share: of a replica's time while the service is on. peak_busy_share: in the busiest hour, of a replica that is
    no spare. missed: whether no fleet keeps the P95 target, [draws, 1]; None where there is no target."""

    seconds: RequestSeconds
    requests: Array
    input_tokens: Array
    cached_input_tokens: Array
    output_tokens: Array
    replicas: Array
    busy_share: Array
    peak_busy_share: Array
    missed: Array | None


@dataclass(frozen=True)
class Fleet:
    """Numbers, or arrays of them. serving: whole replicas that the busiest hour takes, one at least; replicas: with the
    spare ones. busy_share: of a replica's time on the mean, spare ones among them; peak_busy_share: in the busiest
    hour, of a replica that is no spare."""

    serving: Array
    replicas: Array
    busy_share: Array
    peak_busy_share: Array


def fleet(at_work: Array, peak_factor: Array, busy_limit: Array, spare_replicas: Array) -> Fleet:
    """at_work: replicas at work on the mean; by Little's law requests/s x seconds of a replica that each takes."""
    at_peak = at_work * peak_factor
    serving = at_least(ceiling(at_peak / busy_limit), 1)
    replicas = serving + spare_replicas
    return Fleet(serving, replicas, at_work / replicas, at_peak / serving)


def split_seconds(
    input_tokens: Array,
    cached_share: Array,
    cached_cost_share: Array,
    read_per_s: Array,
    output_tokens: Array,
    written_per_s: Array,
) -> RequestSeconds:
    """Prefill and decode apart: input tokens over the reading speed, output tokens over the writing speed; a cached
    token takes `cached_cost_share` of reading one. Numbers or arrays of them."""
    read_s = input_tokens / read_per_s
    return RequestSeconds(
        input=read_s * (1 - cached_share),
        cached_input=read_s * cached_share * cached_cost_share,
        output=output_tokens / written_per_s,
    )


def request_seconds(x: Numbers, arm: Arm) -> RequestSeconds:
    """Of a scenario's request in an arm; what the draft's memory takes slows writing."""
    factor = x("serving.speed_factor")
    written_per_s = x(f"serving.{arm}.output_tokens_per_second") * factor
    if arm == "speculative":
        written_per_s = written_per_s * (1 - x("speculation.capacity_share_taken"))
    return split_seconds(
        x("workload.input_tokens"),
        x("workload.cached_input_share"),
        x("serving.cached_input_cost_share"),
        x(f"serving.{arm}.input_tokens_per_second") * factor,
        x("workload.output_tokens"),
        written_per_s,
    )


def demand(scenario: Scenario, x: Numbers, arm: Arm) -> Demand:
    """What all draws of a scenario ask of an arm, month by month."""
    month = array(range(12 * scenario.years)).reshape(1, -1)
    grown = (1 + x("workload.growth_per_year")) ** (month / 12)
    per_day = x("workload.requests_per_day") * grown
    seconds = request_seconds(x, arm)
    at_work = per_day / (SECONDS_PER_DAY * x("workload.hours_on_share")) * seconds.total
    limit = busy_limit(scenario, arm, x, seconds.total)
    machines = fleet(at_work, x("workload.peak_factor"), limit, x("serving.spare_replicas"))
    requests = per_day * DAYS_PER_MONTH
    read = requests * x("workload.input_tokens")
    cached = read * x("workload.cached_input_share")
    return Demand(
        seconds=seconds,
        requests=requests,
        input_tokens=read - cached,
        cached_input_tokens=cached,
        output_tokens=requests * x("workload.output_tokens"),
        replicas=machines.replicas,
        busy_share=machines.busy_share,
        peak_busy_share=machines.peak_busy_share,
        missed=target_missed(scenario, arm, x, seconds.total),
    )


def service_levels(scenario: Scenario) -> tuple[ServiceLevel, ...]:
    """What P95 comes to in each arm in the busiest hour of its busiest month; empty where there is no target."""
    x = Numbers(scenario)
    found = []
    for arm in ARMS:
        need = demand(scenario, x, arm)
        level = service_level(scenario, arm, float(need.peak_busy_share.max()), first(need.seconds.total))
        if level is not None:
            found.append(level)
    return tuple(found)


def first(values: Any) -> float:
    """The first draw's first month, as a plain float."""
    return float(values.reshape(-1)[0])
