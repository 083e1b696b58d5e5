"""One number, two, all by chance; and what moved between two scenarios."""

import pytest
from helpers.scenarios import scenario

from pricing.sensitivity import drawn, monte_carlo, quantile, ranges, tornado, two_way, what_moved
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


def test_without_a_range_there_is_no_chance():
    with pytest.raises(ValueError, match="gives no number a range"):
        monte_carlo(scenario())


def test_stopping_keeps_what_was_drawn():
    chances = monte_carlo(scenario(**RANGED), 10_000, stop=lambda: True)
    assert {len(chance.totals) for chance in chances} == {2000}


@pytest.mark.parametrize(("share", "worked"), [(0, 1), (0.5, 2.5), (1, 4), (0.25, 1.75)])
def test_quantiles_lie_straight_between_values(share, worked):
    assert quantile([1, 2, 3, 4], share) == worked


def test_what_moved_is_told_in_words_the_largest_first():
    before, after = scenario(), scenario(workload__peak_factor=4, cloud__0__parts__0__per_gpu_hour=2.0, name="later")
    first, second = what_moved(before, after, "rented")
    assert first.path == "workload.peak_factor"
    assert first.effect == pytest.approx(8 * 2.49 * 8760)  # 17 replicas and not 9
    assert first.sentence == (
        "workload.peak_factor goes from 2 to 4 (+100 %); that alone raises the total by 174,499.20 USD"
    )
    assert second.effect == pytest.approx(-9 * 0.49 * 8760)
    assert "lowers the total by 38,631.60 USD" in second.sentence
    more = scenario(api=[{"name": "api", "input_per_million": 1, "output_per_million": 3}], name="more")
    assert [m.sentence for m in what_moved(before, more, "rented")] == [
        "api.0.input_per_million is only in more",
        "api.0.output_per_million is only in more",
    ]
    assert what_moved(before, before, "rented") == []
