"""One number, two, all by chance; and what moved between two scenarios."""

import pytest
from helpers.scenarios import scenario

from pricing.sensitivity import drawn, monte_carlo, quantile, ranges, tornado, two_way
from pricing.tco import tco

RANGED = {
    "workload__peak_factor": {"value": 2, "low": 1, "high": 4},
    "cloud__0__parts__0__per_gpu_hour": {"value": 2.49, "low": 2.0, "high": 3.0},
}


def test_the_tornado_is_each_number_alone_at_its_ends():
    made = scenario(**RANGED)
    found = {driver.path: driver for driver in tornado(made, "rented")}
    assert set(found) == set(ranges(made))
    price = found["cloud.0.parts.0.per_gpu_hour"]
    assert price.base_cost == pytest.approx(9 * 2.49 * 8760)
    assert price.low_cost == pytest.approx(9 * 2.0 * 8760)
    assert price.high_cost == pytest.approx(9 * 3.0 * 8760)
    peak = found["workload.peak_factor"]
    assert peak.low_cost == pytest.approx(5 * 2.49 * 8760)  # 2 / 0.5 and 1
    assert peak.high_cost == pytest.approx(17 * 2.49 * 8760)
    assert [driver.path for driver in tornado(made, "rented")] == [peak.path, price.path]


def test_a_latency_limit_and_its_curve_move_the_fleet_too():
    curve = {
        arm: [{"busy_share": 0.25, "p95_s": 1}, {"busy_share": 0.5, "p95_s": {"value": 2, "low": 1.5, "high": 3}}]
        for arm in ("plain", "speculative")
    }
    made = scenario(load_curve=curve, serving__p95_target_s={"value": 2, "low": 1, "high": 2})
    found = {driver.path: driver for driver in tornado(made, "rented")}
    target = found["serving.p95_target_s"]
    assert target.base_cost == pytest.approx(9 * 2.49 * 8760)  # 4 / 0.5 and 1
    assert target.low_cost == pytest.approx(17 * 2.49 * 8760)  # 4 / 0.25 and 1
    slower = found["load_curve.speculative.1.p95_s"]
    assert slower.high_cost == pytest.approx(12 * 2.49 * 8760)  # 2 s lies half-way: 4 / 0.375 -> 11, and 1
    assert found["load_curve.plain.1.p95_s"].swing == 0


def test_a_two_way_table_is_the_total_at_each_pair():
    made = scenario()
    rows = ("workload.peak_factor", [1, 2, 4])
    across = ("cloud.0.parts.0.per_gpu_hour", [2.0, 3.0])
    table = two_way(made, "rented", rows, across)
    for i, peak in enumerate(rows[1]):
        for j, price in enumerate(across[1]):
            one = made.with_values({rows[0]: peak, across[0]: price})
            assert table[i][j] == pytest.approx(tco(one).option("rented").total)


def test_draws_are_the_scenario_with_other_numbers():
    """Each draw through the one arithmetic for all draws, and by itself."""
    made = scenario(
        years=2,
        owned=[{"name": "own", "gpus_per_server": 8, "price": 300_000, "idle_kw": 2, "active_kw": 10, "per_kwh": 0.1,
                "life_years": {"value": 1.5, "low": 0.5, "high": 3}, "residual_share": 0.3}],
        workload__growth_per_year={"value": 0.5, "low": 0, "high": 2},
        **RANGED,
    )  # fmt: skip
    draws = drawn(made, 40, seed=3)
    by_option = {chance.option: chance for chance in monte_carlo(made, 40, seed=3)}
    for i in range(40):
        one = tco(made.with_values({path: values[i] for path, values in draws.items()}))
        for option in one.options:
            assert by_option[option.title].totals[i] == pytest.approx(option.total)


def test_chance_stays_in_its_range_and_a_seed_repeats_it():
    made = scenario(**RANGED)
    values = drawn(made, 2000, seed=1)["workload.peak_factor"]
    assert min(values) >= 1
    assert max(values) <= 4
    assert sum(values) / 2000 == pytest.approx((1 + 2 + 4) / 3, abs=0.06)  # a triangle's mean
    assert drawn(made, 50, seed=1) == drawn(made, 50, seed=1) != drawn(made, 50, seed=2)


def test_the_share_of_losses_is_counted():
    made = scenario(serving__speculative__output_tokens_per_second={"value": 1000, "low": 1, "high": 2000})
    (chance,) = [c for c in monte_carlo(made, 4000) if c.option == "rented, speculative"]
    assert 0.3 < chance.loss_share < 0.7
    assert [c.loss_share for c in monte_carlo(made, 100) if c.option == "rented, plain"] == [None]


API = {"name": "api", "input_per_million": 0.5, "output_per_million": 1.5}


def test_draws_in_which_no_fleet_keeps_the_target_are_counted():
    """A request takes 0.1 + 200 / speed s by itself: 0.3 s at 1,000 tokens/s. Of a triangle from 500 to 2,000 with its
    peak at 1,000, a third lies below that. A speculative one takes 0.2 s, always."""
    made = scenario(
        serving__p95_target_s=0.3, api=[API],
        serving__plain__output_tokens_per_second={"value": 1000, "low": 500, "high": 2000},
    )  # fmt: skip
    found = {chance.option: chance.missed_share for chance in monte_carlo(made, 5000, seed=4)}
    slow = [speed < 1000 for speed in drawn(made, 5000, seed=4)["serving.plain.output_tokens_per_second"]]
    assert found == {"rented, plain": pytest.approx(sum(slow) / 5000), "rented, speculative": 0, "api": None}
    assert found["rented, plain"] == pytest.approx(1 / 3, abs=0.03)


def test_a_drawn_target_is_missed_as_often_as_it_lies_below_what_a_request_takes():
    """0.3 s plain, 0.2 s speculative. Of a triangle from 0.1 to 0.5 s with its peak at 0.2 s, 1/4 lies below 0.2 s, and
    above 0.3 s 0.2^2 / (0.4 x 0.3) = 1/3; so 2/3 below it. Four at a time take 1.2 and 0.8 s, all of them too long."""
    target = {"value": 0.2, "low": 0.1, "high": 0.5}
    found = {c.option: c.missed_share for c in monte_carlo(scenario(serving__p95_target_s=target), 5000)}
    assert found == {
        "rented, plain": pytest.approx(2 / 3, abs=0.03),
        "rented, speculative": pytest.approx(1 / 4, abs=0.03),
    }
    four = scenario(serving__p95_target_s=target, serving__requests_at_once=4)
    assert {c.missed_share for c in monte_carlo(four, 100)} == {1}


def test_what_no_draw_moves_is_missed_in_all_or_none_and_nothing_where_there_is_no_target():
    assert {c.option: c.missed_share for c in monte_carlo(scenario(serving__p95_target_s=0.25, **RANGED), 3000)} == {
        "rented, plain": 1, "rented, speculative": 0,
    }  # fmt: skip
    assert {c.missed_share for c in monte_carlo(scenario(**RANGED), 100)} == {None}
    curve = {arm: [{"busy_share": 0.5, "p95_s": 1}] for arm in ("plain", "speculative")}
    measured = scenario(load_curve=curve, serving__p95_target_s=1, **RANGED)
    assert {c.missed_share for c in monte_carlo(measured, 100)} == {0}
    with pytest.raises(ValueError, match="at no point of its load curve"):
        monte_carlo(scenario(load_curve=curve, serving__p95_target_s={"value": 1, "low": 0.5, "high": 2}), 100)


def test_without_a_range_there_is_no_chance():
    with pytest.raises(ValueError, match="gives no number a range"):
        monte_carlo(scenario())


def test_stopping_keeps_what_was_drawn():
    chances = monte_carlo(scenario(**RANGED), 10_000, stop=lambda: True)
    assert {len(chance.totals) for chance in chances} == {2000}


@pytest.mark.parametrize(("share", "worked"), [(0, 1), (0.5, 2.5), (1, 4), (0.25, 1.75)])
def test_quantiles_lie_straight_between_values(share, worked):
    assert quantile([1, 2, 3, 4], share) == worked


@pytest.mark.parametrize(
    ("row", "across", "told"),
    [
        (("workload.hours_on_share", [-1]), ("workload.peak_factor", [2]), "hours_on_share: -1 must be a share"),
        (("workload.peak_factor", [2, 0.5]), ("workload.input_tokens", [1]), "peak_factor: 0.5 must be at least"),
        (("serving.gpus_per_replica", [1.5]), ("workload.input_tokens", [1]), "1.5 must be a whole number"),
        (("owned.0.idle_kw", [5]), ("owned.0.active_kw", [4]), "own takes 5 kW idle and only 4 busy"),
        (("workload.nothing", [1]), ("workload.input_tokens", [1]), "no number called workload.nothing"),
        (("cloud.0.parts.0.fleet_share", [0.5]), ("workload.input_tokens", [1]), "add up to 0.5"),
    ],
)
def test_a_two_way_table_holds_what_a_scenario_may_hold(row, across, told):
    with pytest.raises(ValueError, match=told):
        two_way(scenario(owned=[OWN]), "rented", row, across)
    with pytest.raises(ValueError, match="no option is called nobody"):
        two_way(scenario(), "nobody", ("workload.peak_factor", [2]), ("workload.input_tokens", [1]))


OWN = {"name": "own", "gpus_per_server": 8, "price": 300_000, "idle_kw": 2, "active_kw": 10, "per_kwh": 0.1}


def test_whole_numbers_are_drawn_whole_and_each_has_its_due():
    """A triangle from 0.5 to 3.5 with its top at 2: 1 and 3 have 1 / 2 x 1 x (1 / 1.5 x 2 / 3) = 2 / 9 each, 2 has the
    rest."""
    made = scenario(cloud__0__gpus_per_instance={"value": 2, "low": 1, "high": 3})
    values = drawn(made, 9000, seed=4)["cloud.0.gpus_per_instance"]
    assert set(values) == {1.0, 2.0, 3.0}
    counts = [values.count(n) / 9000 for n in (1, 2, 3)]
    assert counts == pytest.approx([2 / 9, 5 / 9, 2 / 9], abs=0.02)
    one = scenario(serving__spare_replicas={"value": 0, "low": 0, "high": 2})
    assert set(drawn(one, 500, seed=1)["serving.spare_replicas"]) == {0.0, 1.0, 2.0}
    for total in monte_carlo(one, 200)[0].totals:  # 12 to 14 whole replicas and never a part of one
        assert round(total / (2.49 * 8760), 6) in (12, 13, 14)


def test_ten_thousand_draws_of_a_mixed_fleet_are_each_its_own_scenario():
    parts = [
        {"commitment": "reserved_1yr", "fleet_share": 0.5, "per_gpu_hour": {"value": 2, "low": 1, "high": 3}},
        {"commitment": "spot", "fleet_share": 0.3, "per_gpu_hour": 1,
         "interruption_share": {"value": 0.1, "low": 0, "high": 0.5}},
        {"commitment": "on_demand", "fleet_share": 0.2, "per_gpu_hour": 3},
    ]  # fmt: skip
    made = scenario(
        years=3, tax_share=0.2, speculation__pilot=1000, cloud__0__parts=parts,
        workload__growth_per_year={"value": -0.2, "low": -0.7, "high": 1.0},
    )  # fmt: skip
    draws = drawn(made, 25, seed=5)
    by_option = {chance.option: chance for chance in monte_carlo(made, 25, seed=5)}
    for i in range(25):
        for option in tco(made.with_values({path: values[i] for path, values in draws.items()})).options:
            assert by_option[option.title].totals[i] == pytest.approx(option.total)
