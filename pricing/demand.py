"""From requests to busy machines: seconds of a replica that a request takes, replicas that the busiest hour takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pricing.columns import Array, Numbers, array, ceiling
from pricing.load import busy_limit
from pricing.scenario import Arm, Scenario

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
    """A month a column, [draws, months] each but `seconds`. requests and tokens: in the month. replicas: what the
    busiest hour takes with P95 in its limit, and the spare ones; fractions of one are bought whole. busy_share: of a
    replica's time while the service is on."""

    seconds: RequestSeconds
    requests: Array
    input_tokens: Array
    cached_input_tokens: Array
    output_tokens: Array
    replicas: Array
    busy_share: Array


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
    written_per_s = x(f"serving.{arm}.output_tokens_per_second")
    if arm == "speculative":
        written_per_s = written_per_s * (1 - x("speculation.capacity_share_taken"))
    return split_seconds(
        x("workload.input_tokens"),
        x("workload.cached_input_share"),
        x("serving.cached_input_cost_share"),
        x(f"serving.{arm}.input_tokens_per_second"),
        x("workload.output_tokens"),
        written_per_s,
    )


def demand(scenario: Scenario, x: Numbers, arm: Arm) -> Demand:
    """Little's law: replicas at work = requests/s x seconds of a replica each takes."""
    month = array(range(12 * scenario.years)).reshape(1, -1)
    grown = (1 + x("workload.growth_per_year")) ** (month / 12)
    per_day = x("workload.requests_per_day") * grown
    seconds = request_seconds(x, arm)
    at_work = per_day / (SECONDS_PER_DAY * x("workload.hours_on_share")) * seconds.total
    limit = busy_limit(scenario, arm, x)
    replicas = ceiling(at_work * x("workload.peak_factor") / limit).clip(min=1) + x("serving.spare_replicas")
    requests = per_day * DAYS_PER_MONTH
    read = requests * x("workload.input_tokens")
    cached = read * x("workload.cached_input_share")
    return Demand(
        seconds=seconds,
        requests=requests,
        input_tokens=read - cached,
        cached_input_tokens=cached,
        output_tokens=requests * x("workload.output_tokens"),
        replicas=replicas,
        busy_share=at_work / replicas,
    )


def busy_share(requests_per_second: float, replica_seconds_per_request: float, replicas: int) -> float | None:
    """Share of `replicas` at work at this mean demand; above 1 they cannot keep up. None for what no fleet can be."""
    if not (requests_per_second >= 0 and replica_seconds_per_request > 0 and replicas >= 1):
        return None
    return requests_per_second * replica_seconds_per_request / replicas


def concurrency(requests_per_second: float, latency_s: float) -> float:
    """Requests under way at once (Little's law): arrivals a second x seconds each stays."""
    return requests_per_second * latency_s


def first(values: Any) -> float:
    """The first draw's first month, as a plain float."""
    return float(values.reshape(-1)[0])
