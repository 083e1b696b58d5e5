"""Latency and cost against load: how busy a replica may be, and what a token costs when it is less so."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from pricing.columns import Array, Numbers, column
from pricing.cost import usd_per_million_tokens
from pricing.scenario import Arm, Scenario


def busy_limit(scenario: Scenario, arm: Arm, x: Numbers) -> Array:
    """The busy share up to which P95 stays within its target: read off the arm's load curve where there is one, else
    `serving.busy_limit`. Raises ValueError when the curve misses the target everywhere."""
    points = scenario.load_curve.get(arm)
    if not points or scenario.serving.p95_target_s is None:
        return x("serving.busy_limit")
    targets = _drawn(x, "serving.p95_target_s")
    curve = [
        [_drawn(x, f"load_curve.{arm}.{i}.{name}") for name in ("busy_share", "p95_s")] for i in range(len(points))
    ]
    draws = max(len(values) for values in (targets, *(v for point in curve for v in point)))
    limits = []
    for draw in range(draws):

        def of(values: list[float], draw: int = draw) -> float:
            return values[draw] if len(values) > 1 else values[0]

        limit = highest_busy_share([(of(busy), of(p95)) for busy, p95 in curve], of(targets))
        if limit is None:
            raise ValueError(
                f"{scenario.name}: at no point of its load curve does {arm} decoding keep P95 within "
                f"{of(targets):g} s; raise the target or use faster machines"
            )
        limits.append(limit)
    return column(limits)


def _drawn(x: Numbers, path: str) -> list[float]:
    return [float(value) for value in x(path).reshape(-1)]


def highest_busy_share(points: Sequence[tuple[float, float]], p95_target_s: float) -> float | None:
    """Where the curve crosses the target, straight between its points; the busiest point when all keep it, None when
    none does. points: (busy share, P95 in s). A curve that dips back is believed up to its first crossing only."""
    known = sorted(points)
    best: float | None = None
    for i, (busy, p95) in enumerate(known):
        if p95 > p95_target_s:
            if i == 0:
                return None
            before, p95_before = known[i - 1]
            return before + (busy - before) * (p95_target_s - p95_before) / (p95 - p95_before)
        best = busy
    return best


@dataclass(frozen=True)
class LoadCost:
    """At one offered load of one replica: what it is, how busy, its latency (None: not known or without end), and what
    1M output tokens cost then, all of the bill on them. `kept_up`: False beyond what the replica can do."""

    requests_per_second: float
    busy_share: float
    p50_s: float | None
    p95_s: float | None
    per_million_output_tokens: float | None
    kept_up: bool


def cost_against_load(
    per_replica_hour: float,
    request_s: float,
    output_tokens: float,
    requests_per_second: Sequence[float],
    *,
    at_once: int = 1,
    latency_s: float | None = None,
    requests: int = 4000,
    seed: int = 0,
) -> list[LoadCost]:
    """A replica's bill over the tokens that it really makes, at each load; simulated.

    request_s: seconds of the replica that a request takes when it is busy. at_once: requests that it works on at once,
    each then taking at_once x request_s; latency_s: what one takes alone, where that is known (default: just that).
    Arrivals are independent (exponential gaps), served in their order by `at_once` equal places: an M/D/c queue.
    """
    found = []
    for rate in requests_per_second:
        busy = rate * request_s
        if busy >= 1:
            full = usd_per_million_tokens(per_replica_hour, output_tokens / request_s)
            found.append(LoadCost(rate, 1.0, None, None, full, kept_up=False))
            continue
        waits = simulate_queue(rate, at_once * request_s, at_once, requests, seed)
        # What a request takes by itself, and the wait for a place: the places are slower only when all are taken.
        alone = latency_s if latency_s is not None else at_once * request_s
        times = sorted(wait + alone for wait in waits)
        cost = usd_per_million_tokens(per_replica_hour, output_tokens / request_s, busy) if busy > 0 else None
        p50, p95 = times[len(times) // 2], times[int(0.95 * (len(times) - 1))]
        found.append(LoadCost(rate, busy, p50, p95, cost, kept_up=True))
    return found


def simulate_queue(rate: float, service_s: float, places: int, requests: int, seed: int) -> list[float]:
    """Seconds that each of `requests` arrivals waits for one of `places`, first come first served; the first tenth,
    which finds an empty house, is left out."""
    if not (rate > 0 and service_s > 0 and places >= 1 and requests >= 1):
        return [0.0] * max(1, requests)
    chance = random.Random(seed)
    free = [0.0] * places
    now, waits = 0.0, []
    for _ in range(requests):
        now += chance.expovariate(rate)
        soonest = min(range(places), key=free.__getitem__)
        start = max(now, free[soonest])
        free[soonest] = start + service_s
        waits.append(start - now)
    return waits[requests // 10 :]
