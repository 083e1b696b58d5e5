"""Latency and cost against load: what a token costs when a replica is less busy than it could be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pricing.cost import per_million_tokens
from pricing.queue import wait_exceeded_by


@dataclass(frozen=True)
class LoadCost:
    """At one offered load of one replica: what it is, how busy, its latency (None: not known or without end), and what
    1M output tokens cost then, all of the bill on them."""

    requests_per_second: float
    busy_share: float
    p50_s: float | None
    p95_s: float | None
    per_million_output_tokens: float | None


def cost_against_load(
    per_replica_hour: float,
    request_s: float,
    output_tokens: float,
    requests_per_second: Sequence[float],
    *,
    at_once: int = 1,
) -> list[LoadCost]:
    """A replica's bill over the tokens that it really makes, at each load, and how long requests take then.

    request_s: seconds of the replica that a request takes when it is busy. at_once: requests that it works on at once,
    each then taking at_once x request_s, whatever the load; arrivals beside them wait for a place (`pricing.queue`).
    Raises ValueError for fewer than one place.
    """
    found = []
    for rate in requests_per_second:
        busy = rate * request_s
        if busy >= 1:
            full = per_million_tokens(per_replica_hour, output_tokens / request_s)
            found.append(LoadCost(rate, 1.0, None, None, full))
            continue
        p50, p95 = (at_once * request_s * (1 + wait_exceeded_by(share, at_once, busy)) for share in (0.5, 0.05))
        cost = per_million_tokens(per_replica_hour, output_tokens / request_s, busy) if busy > 0 else None
        found.append(LoadCost(rate, busy, p50, p95, cost))
    return found
