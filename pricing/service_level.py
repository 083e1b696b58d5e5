"""How busy a replica may be so that P95 stays within its target, and what P95 is then.

Where an arm's load curve was measured, it decides. Else the wait for one of `serving.requests_at_once` places follows
from Erlang's formula (`pricing.queue`): a request of average length takes `requests_at_once` x its seconds of the
replica by itself, and waits besides for as long as 95 % at most do; longer requests take longer, which a scenario of
averages cannot know and a measured curve does. No replica may be busier than `serving.busy_limit` then either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from pricing.columns import Array, Numbers, column
from pricing.queue import BUSY_SHARES, p95_wait, wait_curve
from pricing.scenario import Arm, Scenario

Origin = Literal["load curve", "queue"]
TOLERANCE = 1e-9


def busy_limit(scenario: Scenario, arm: Arm, x: Numbers, request_s: Array) -> Array:
    """Share of its time that a replica may be busy in the busiest hour, [draws, 1]. request_s: seconds of the replica
    that a request takes, [draws, 1].

    Where not even an idle replica keeps the target, the fleet is that of the nearest target that can be kept, so that a
    missed target is never cheaper than a kept one, and `service_level` says that it is missed. Raises ValueError when a
    measured load curve misses it everywhere."""
    if scenario.serving.p95_target_s is None:
        return x("serving.busy_limit")
    if scenario.load_curve.get(arm):
        return _read_off(scenario, arm, x)
    places = x("serving.requests_at_once")
    whole = sorted({max(1, round(p)) for p in places.reshape(-1).tolist()})
    if len(whole) > 1:
        raise ValueError("serving.requests_at_once has a range; it is chosen, so give it one value")
    return queue_limit(x("serving.p95_target_s"), whole[0], request_s, x("serving.busy_limit"))


def queue_limit(p95_target_s: Array, places: int, request_s: Array, most: Array) -> Array:
    """The busy share, `most` at most, at which 5 % of the requests wait for longer than the target leaves beside a
    request of average length; where it leaves nothing, that at which 5 % have to wait at all."""
    # How long a request may take, over what it takes by itself; floats do not miss what arithmetic keeps.
    room = (p95_target_s * (1 + TOLERANCE) / (places * request_s)).clip(1 + TOLERANCE)
    return _smaller(_busiest_within(room, places), most)


def target_missed(scenario: Scenario, arm: Arm, x: Numbers, request_s: Array) -> Array | None:
    """Whether no fleet keeps the target, however idle, [draws, 1]: a request that waits for nobody takes longer. None
    where there is no target. Nowhere on a measured load curve: what misses it everywhere is refused by `busy_limit`."""
    if scenario.serving.p95_target_s is None:
        return None
    if scenario.load_curve.get(arm):
        return 0 * request_s > 0
    return x("serving.requests_at_once") * request_s > x("serving.p95_target_s") * (1 + TOLERANCE)


def _busiest_within(room: Array, places: int) -> Array:
    """Where 1 + P95 of the wait, in service times, comes to `room`; straight between the curve's points."""
    curve = wait_curve(places)
    limit = curve[0][0] + 0 * room
    for (busy, wait), (next_busy, next_wait) in pairwise(curve):
        step = next_busy - busy
        rise = next_wait - wait
        # A flat piece is within reach whenever its end is.
        limit = limit + step * ((room - 1 - wait) / rise if rise > 0 else (room - 1 >= next_wait) * 1.0).clip(0, 1)
    return limit


def _smaller(a: Array, b: Array) -> Array:
    return a - (a - b).clip(min=0)


def _read_off(scenario: Scenario, arm: Arm, x: Numbers) -> Array:
    points = scenario.load_curve[arm]
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
class ServiceLevel:
    """One arm in the busiest hour of its busiest month. alone_s: what a request takes when it waits for nobody; None
    where a load curve was measured. busy_share: of a replica that is no spare. kept: P95 within the target."""

    arm: Arm
    origin: Origin
    target_s: float
    alone_s: float | None
    busy_share: float
    p95_s: float

    @property
    def kept(self) -> bool:
        return self.p95_s <= self.target_s * (1 + 2 * TOLERANCE)


def service_level(scenario: Scenario, arm: Arm, busy_share: float, request_s: float) -> ServiceLevel | None:
    """None where there is no target. busy_share: in the busiest hour, below 1; request_s: seconds of a replica."""
    serving = scenario.serving
    if serving.p95_target_s is None:
        return None
    target = serving.p95_target_s.value
    if scenario.load_curve.get(arm):
        points = [(point.busy_share.value, point.p95_s.value) for point in scenario.load_curve[arm]]
        return ServiceLevel(arm, "load curve", target, None, busy_share, along(points, busy_share))
    places = round(serving.requests_at_once.value)
    alone = places * request_s
    return ServiceLevel(arm, "queue", target, alone, busy_share, alone * (1 + wait_at(places, busy_share)))


def wait_at(places: int, busy_share: float) -> float:
    """P95 of the wait in service times, on the very curve that limits are read from: straight between its points."""
    if busy_share > BUSY_SHARES[-1]:
        return p95_wait(places, busy_share)
    return along(list(wait_curve(places)), busy_share)


def along(points: Sequence[tuple[float, float]], at: float) -> float:
    """Straight between points and level beyond their ends."""
    known = sorted(points)
    if at <= known[0][0]:
        return known[0][1]
    for (x0, y0), (x1, y1) in pairwise(known):
        if at <= x1:
            return y0 + (y1 - y0) * (at - x0) / (x1 - x0)
    return known[-1][1]
