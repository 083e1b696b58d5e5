"""Erlang's formulas against tables, closed forms and a simulation of nothing but chance."""

import heapq
import math
import random

import pytest

from pricing.queue import BUSY_SHARES, erlang_b, erlang_c, p95_wait, wait_curve


@pytest.mark.parametrize(
    ("places", "erlangs", "blocked"),
    # The first by hand: a / (1 + a); (a^2 / 2) / (1 + a + a^2 / 2). The last is in every Erlang B table: 10 lines block
    # 1 % at 4.461 erlangs.
    [(1, 1.0, 1 / 2), (2, 1.0, 0.5 / 2.5), (3, 2.0, (8 / 6) / (1 + 2 + 2 + 8 / 6)), (10, 4.461, 0.01)],
)
def test_erlang_b_is_that_of_the_tables(places, erlangs, blocked):
    assert erlang_b(places, erlangs) == pytest.approx(blocked, rel=1e-3)


def test_one_place_is_waited_for_as_often_as_it_is_taken():
    assert erlang_c(1, 0.3) == pytest.approx(0.3)
    # P(wait > t) = busy x exp(-(1 - busy) t): 5 % at ln(0.5 / 0.05) / 0.5.
    assert p95_wait(1, 0.5) == pytest.approx(math.log(10) / 0.5)


def test_two_places_by_hand():
    """a = 1: Erlang B 1/5, so C = 0.2 / (1 - 0.5 x 0.8) = 1/3; 5 % wait longer than ln(20/3) / (2 x 0.5)."""
    assert erlang_c(2, 0.5) == pytest.approx(1 / 3)
    assert p95_wait(2, 0.5) == pytest.approx(math.log(20 / 3))


def test_who_seldom_has_to_wait_has_no_p95_of_waiting():
    assert p95_wait(32, 0.5) == 0.0
    assert p95_wait(1, 0.0) == 0.0


def test_a_full_house_waits_without_end():
    assert p95_wait(4, 1.0) == math.inf
    assert erlang_c(4, 1.2) == 1.0


@pytest.mark.parametrize(("places", "busy"), [(1, 0.7), (4, 0.8), (16, 0.9)])
def test_chance_agrees(places, busy):
    chance = random.Random(7)
    free, now, waits = [0.0] * places, 0.0, []
    for _ in range(300_000):
        now += chance.expovariate(places * busy)
        start = max(now, heapq.heappop(free))
        waits.append(start - now)
        heapq.heappush(free, start + chance.expovariate(1.0))
    waits = sorted(waits[30_000:])
    assert waits[int(0.95 * len(waits))] == pytest.approx(p95_wait(places, busy), rel=0.1)


@pytest.mark.parametrize("places", [1, 2, 8, 64, 512])
def test_the_curve_never_falls(places):
    curve = wait_curve(places)
    assert [busy for busy, _ in curve] == list(BUSY_SHARES)
    waits = [wait for _, wait in curve]
    assert waits == sorted(waits)


@pytest.mark.parametrize(("places", "erlangs"), [(0, 1.0), (-1, 1.0), (1, -0.1), (1, math.nan)])
def test_no_place_and_no_load_below_nothing(places, erlangs):
    with pytest.raises(ValueError, match="at least one place"):
        erlang_b(places, erlangs)
