"""A fleet is sized so that P95 keeps its target; where no fleet can, that is said."""

import math

import pytest

from pricing import tco
from pricing.columns import Numbers, column
from pricing.demand import demand, service_levels
from pricing.queue import wait_curve
from pricing.sensitivity import monte_carlo
from pricing.service_level import busy_limit, highest_busy_share
from tests.helpers.scenarios import scenario

# By hand (tests.helpers.scenarios): a plain request takes 0.3 s of a replica, a speculative one 0.2 s; 20 requests/s in
# the peak hour; busy at most 0.5, one replica is spare.


def limit(made, arm="plain"):
    x = Numbers(made)
    return float(busy_limit(made, arm, x, demand(made, x, arm).seconds.total).reshape(-1)[0])


def test_without_a_target_the_given_limit_stands():
    assert limit(scenario()) == 0.5


def test_with_room_enough_the_given_limit_stands():
    assert limit(scenario(serving__p95_target_s=60)) == 0.5


def test_a_tight_target_leaves_replicas_idler():
    """One place: P95 of the wait is ln(busy / 0.05) / (1 - busy) service times. At 0.3 s a request and 0.3 busy:
    0.3 x (1 + ln 6 / 0.7) = 1.0679 s. 0.30 is a point of the curve, so exactly that target gives exactly that share."""
    target = 0.3 * (1 + math.log(6) / 0.7)
    made = scenario(serving__p95_target_s=target)
    assert limit(made) == pytest.approx(0.30)
    # 6 replicas at work in the peak hour, 0.3 each: 20, and the spare one.
    assert tco(made).option("rented", "plain").monthly["replicas"].iloc[0] == 21


def test_between_two_points_of_the_curve_it_goes_straight():
    """One place at 0.30: ln 6 / 0.7 = 2.5597 service times; at 0.31: ln 6.2 / 0.69 = 2.6443. Half way between in P95 is
    half way between in busy share."""
    target = 0.3 * (1 + (math.log(6) / 0.7 + math.log(6.2) / 0.69) / 2)
    assert limit(scenario(serving__p95_target_s=target)) == pytest.approx(0.305)


@pytest.mark.parametrize("places", [1, 2, 8, 32])
@pytest.mark.parametrize("room", [1.0, 1.05, 1.5, 2.5, 7.0, 80.0])
def test_the_vectorised_reading_is_the_plain_one(places, room):
    """Against the reading of a measured curve, point by point."""
    made = scenario(
        serving__requests_at_once=places, serving__p95_target_s=room * places * 0.3, serving__busy_limit=1.0
    )
    points = [(busy, 1 + wait) for busy, wait in wait_curve(places)]
    assert limit(made) == pytest.approx(highest_busy_share(points, room), abs=1e-6)


def test_many_places_wait_less_but_each_request_takes_longer():
    one = service_levels(scenario(serving__p95_target_s=30, serving__busy_limit=0.9))
    many = service_levels(scenario(serving__p95_target_s=30, serving__busy_limit=0.9, serving__requests_at_once=32))
    assert one[0].alone_s == pytest.approx(0.3)
    assert many[0].alone_s == pytest.approx(9.6)
    assert all(level.kept for level in (*one, *many))


def test_a_target_below_what_a_request_takes_by_itself_is_missed_and_said_so():
    """8 requests at once take 2.4 s each, plain, and 1.6 s, speculative: a target of 2 s is kept by the second only."""
    made = scenario(serving__requests_at_once=8, serving__p95_target_s=2)
    plain, speculative = service_levels(made)
    assert (plain.alone_s, speculative.alone_s) == pytest.approx((2.4, 1.6))
    assert (plain.kept, speculative.kept) == (False, True)
    # And the fleet is that of the nearest target that can be kept, of 2.4 s.
    assert limit(made) == pytest.approx(limit(scenario(serving__requests_at_once=8, serving__p95_target_s=2.4)))


@pytest.mark.parametrize("places", [1, 8, 32])
def test_a_tighter_target_and_a_slower_machine_never_take_fewer_machines(places):
    def limits(name, values):
        made = scenario(serving__requests_at_once=places, serving__p95_target_s=places * 0.306, serving__busy_limit=0.9)
        return [limit(made.with_values({name: value})) for value in values]

    by_target = limits("serving.p95_target_s", [places * 0.3 * room for room in (0.5, 0.99, 1.0, 1.02, 1.5, 6)])
    by_speed = limits("serving.speed_factor", [0.5, 0.8, 0.97, 0.985, 1.0, 1.2, 3])
    assert by_target == sorted(by_target)
    assert by_speed == sorted(by_speed)


def test_the_fleet_that_was_sized_keeps_the_target():
    for target in (0.35, 0.5, 1.0, 3.0):
        for level in service_levels(scenario(serving__p95_target_s=target, workload__growth_per_year=0.7)):
            assert level.kept, level


def test_without_a_target_there_is_no_level_to_keep():
    assert service_levels(scenario()) == ()


def test_a_measured_curve_decides_and_is_what_the_level_is_read_from():
    curve = [{"busy_share": 0.2, "p95_s": 1}, {"busy_share": 0.8, "p95_s": 4}]
    made = scenario(serving__p95_target_s=2, load_curve={"plain": curve, "speculative": curve})
    assert limit(made) == pytest.approx(0.4)
    plain, _ = service_levels(made)
    assert (plain.origin, plain.alone_s, plain.kept) == ("load curve", None, True)
    # 6 at work / 0.4 = 15 serving replicas, just 0.4 busy.
    assert (plain.busy_share, plain.p95_s) == pytest.approx((0.4, 2))


def test_every_draw_is_read_by_its_own_speed():
    made = scenario(serving__p95_target_s=0.3 * (1 + math.log(6) / 0.7))
    speeds = [1000.0, 4000.0, 100.0]
    x = Numbers(made, {"serving.plain.output_tokens_per_second": speeds})
    seconds = demand(made, x, "plain").seconds.total
    together = busy_limit(made, "plain", x, seconds).reshape(-1).tolist()
    alone = [limit(made.with_values({"serving.plain.output_tokens_per_second": speed})) for speed in speeds]
    assert together == pytest.approx(alone)
    assert alone == pytest.approx([0.30, 0.5, 0.05], abs=1e-6)  # the last one misses it, and 5 % wait at 0.05 busy


def test_so_many_requests_at_once_are_chosen_and_not_drawn():
    made = scenario(serving__p95_target_s=3)
    with pytest.raises(ValueError, match="requests_at_once"):
        busy_limit(made, "plain", Numbers(made, {"serving.requests_at_once": [1, 2]}), column([0.3, 0.3]))


def test_chances_are_drawn_over_a_target_too():
    made = scenario(
        serving__p95_target_s=2,
        serving__plain__output_tokens_per_second={"value": 1000, "low": 600, "high": 2000},
    )
    assert len(monte_carlo(made, draws=50, seed=1)) == 2
