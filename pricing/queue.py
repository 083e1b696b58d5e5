"""Waiting for a place: Erlang's formula for requests that arrive on their own and take turns at equal places.

M/M/c, first come first served: the usual model of call centres and server pools. Times are in units of one request's
time in service, so that one curve serves every speed.
"""

from __future__ import annotations

import math
from functools import lru_cache

# Loads at which the curve is worked out; straight between them.
BUSY_SHARES = tuple(i / 100 for i in range(1, 100))
# Of the requests that may take longer than the P95.
LATER = 0.05


def erlang_b(places: int, erlangs: float) -> float:
    """Share of arrivals that find all `places` taken where nobody waits. erlangs: arrivals a second x seconds each
    takes. Raises ValueError when there is no place or a load below 0."""
    if places < 1 or not erlangs >= 0:
        raise ValueError(f"{places} places at a load of {erlangs:g}: there is at least one place, and no load below 0")
    blocked = 1.0
    for taken in range(1, places + 1):
        blocked = erlangs * blocked / (taken + erlangs * blocked)
    return blocked


def erlang_c(places: int, busy_share: float) -> float:
    """Chance that an arrival has to wait, with each place busy for `busy_share` of the time; 1 from 1 on."""
    if busy_share >= 1:
        return 1.0
    blocked = erlang_b(places, places * busy_share)
    return blocked / (1 - busy_share * (1 - blocked))


def wait_exceeded_by(share: float, places: int, busy_share: float) -> float:
    """The wait that only `share` of arrivals exceed, in service times; 0 where no more than those have to wait at all,
    without end from a busy share of 1 on."""
    if busy_share >= 1:
        return math.inf
    waits = erlang_c(places, busy_share)
    return max(0.0, math.log(waits / share)) / (places * (1 - busy_share)) if waits > 0 else 0.0


def p95_wait(places: int, busy_share: float) -> float:
    return wait_exceeded_by(LATER, places, busy_share)


@lru_cache(maxsize=64)
def wait_curve(places: int) -> tuple[tuple[float, float], ...]:
    """(busy share, P95 of the wait in service times) for each of BUSY_SHARES."""
    return tuple((busy, p95_wait(places, busy)) for busy in BUSY_SHARES)
