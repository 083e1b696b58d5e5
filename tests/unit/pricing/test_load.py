"""Cost and latency against load."""

import pytest

from pricing.load import cost_against_load, simulate_queue


def test_a_single_server_waits_as_long_as_queueing_theory_says():
    """M/D/1: mean wait = busy x service / (2 x (1 - busy)) = 0.6 x 1 / 0.8 (Pollaczek-Khinchine)."""
    waits = simulate_queue(rate=0.6, service_s=1.0, places=1, requests=200_000, seed=0)
    assert sum(waits) / len(waits) == pytest.approx(0.75, rel=0.05)


def test_more_places_of_the_same_total_speed_wait_less():
    one = simulate_queue(0.8, 1.0, 1, 50_000, seed=0)
    four = simulate_queue(0.8, 4.0, 4, 50_000, seed=0)
    assert sum(four) < sum(one)


def test_an_idle_machine_makes_dear_tokens():
    """3.60 an hour, 0.1 s and 100 tokens a request: 1 a 1M when always busy, 10 at a tenth of that."""
    points = cost_against_load(3.60, 0.1, 100, [1, 5, 9, 10, 20])
    assert [p.per_million_output_tokens for p in points] == pytest.approx([10.0, 2.0, 10 / 9, 1.0, 1.0])
    assert [p.kept_up for p in points] == [True, True, True, False, False]
    assert [p.p95_s for p in points[3:]] == [None, None]
    latencies = [p.p95_s for p in points[:3]]
    assert latencies == sorted(latencies)
    assert min(p.p50_s for p in points[:3]) >= 0.1


def test_without_load_a_token_has_no_price():
    (point,) = cost_against_load(3.60, 0.1, 100, [0])
    assert point.per_million_output_tokens is None
    assert point.p95_s == pytest.approx(0.1)
