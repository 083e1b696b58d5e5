"""Cost and latency against load."""

import math

import pytest

from pricing.load import cost_against_load
from pricing.queue import wait_exceeded_by


def test_a_single_server_waits_as_long_as_queueing_theory_says():
    """M/M/1 at 0.6: half of all wait longer than ln(0.6 / 0.5) / 0.4, one in twenty longer than ln(0.6 / 0.05) / 0.4
    service times."""
    (point,) = cost_against_load(1.0, 2.0, 100, [0.3])
    assert point.busy_share == pytest.approx(0.6)
    assert point.p50_s == pytest.approx(2 + 2 * math.log(1.2) / 0.4)
    assert point.p95_s == pytest.approx(2 + 2 * math.log(12) / 0.4)


def test_more_places_of_the_same_total_speed_make_requests_slower_and_waits_rarer():
    (one,), (four,) = (cost_against_load(1.0, 1.0, 100, [0.8], at_once=places) for places in (1, 4))
    assert four.p50_s == pytest.approx(4 * (1 + wait_exceeded_by(0.5, 4, 0.8)))
    assert four.p95_s / 4 < one.p95_s


def test_an_idle_machine_makes_dear_tokens():
    """3.60 an hour, 0.1 s and 100 tokens a request: 1 a 1M when always busy, 10 at a tenth of that."""
    points = cost_against_load(3.60, 0.1, 100, [1, 5, 9, 10, 20])
    assert [p.per_million_output_tokens for p in points] == pytest.approx([10.0, 2.0, 10 / 9, 1.0, 1.0])
    assert [p.p95_s is not None for p in points] == [True, True, True, False, False]
    assert [p.p95_s for p in points[3:]] == [None, None]
    latencies = [p.p95_s for p in points[:3]]
    assert latencies == sorted(latencies)
    assert min(p.p50_s for p in points[:3]) >= 0.1


def test_without_load_a_token_has_no_price():
    (point,) = cost_against_load(3.60, 0.1, 100, [0])
    assert point.per_million_output_tokens is None
    assert point.p95_s == pytest.approx(0.1)
