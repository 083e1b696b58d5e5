"""The four scenarios that come with specscope: they load, their prices are the table's, and they tell losses too."""

from datetime import date

import pytest

import pricing
from pricing.demand import service_levels
from pricing.price_match import matched_prices
from pricing.scenario_file import dump_scenario, parse_scenario, shipped_scenarios
from pricing.sensitivity import monte_carlo, ranges, tornado

NAMES = sorted(shipped_scenarios())


def test_there_are_four():
    assert NAMES == ["bank_summaries", "code_assistant", "ecommerce_chat", "start_up"]
    assert pricing.load_scenario("ecommerce_chat").workload.requests_per_day.value == 4_800_000


@pytest.mark.parametrize("name", NAMES)
def test_its_quoted_prices_stand_in_the_price_table(name):
    """To the fourth digit, of the provider, commitment and day that the source names."""
    table = pricing.load_prices()
    for cloud in pricing.load_scenario(name).cloud:
        for part in cloud.parts:
            price = part.per_gpu_hour
            assert price.label == "quoted"
            rows = [
                row
                for row in table
                if price.source.startswith(row.provider)
                and str(row.as_of) in price.source
                and row.source_url in price.source
                and row.commitment == part.commitment
                and row.instance in price.source
            ]
            assert any(price.value == pytest.approx(row.per_gpu_hour, rel=2e-4) for row in rows), (name, price)


@pytest.mark.parametrize("name", NAMES)
def test_the_price_table_vouches_for_its_prices_by_the_row_that_each_names(name):
    scenario = pricing.load_scenario(name)
    for part in matched_prices(scenario, pricing.load_prices(), date(2026, 12, 1)):
        source = scenario.figures()[part.path].source
        assert part.found is not None, part
        assert all(told in source for told in part.found), part


@pytest.mark.parametrize("name", NAMES)
def test_its_speeds_say_that_they_are_projected_and_how_far_off_such_are(name):
    serving = pricing.load_scenario(name).serving
    for arm in (serving.plain, serving.speculative):
        for figure in (arm.input_tokens_per_second, arm.output_tokens_per_second):
            assert figure.label == "projected"
            assert "specscope project" in figure.source
            assert "in the median" in figure.source


@pytest.mark.parametrize("name", NAMES)
def test_its_fleets_keep_their_latency_target_in_both_arms(name):
    """At as many requests at once as the speeds are projected for."""
    scenario = pricing.load_scenario(name)
    levels = service_levels(scenario)
    assert [level.arm for level in levels] == ["plain", "speculative"]
    assert all(level.kept for level in levels), levels
    assert (
        f"batch {scenario.serving.requests_at_once.value:g}," in scenario.serving.plain.output_tokens_per_second.source
    )


@pytest.mark.parametrize("name", NAMES)
def test_what_a_projection_may_be_off_by_is_a_range_that_chances_are_drawn_from(name):
    scenario = pricing.load_scenario(name)
    factor = scenario.serving.speed_factor
    assert factor.low < 1 < factor.high
    assert "published results" in factor.source
    assert "serving.speed_factor" in ranges(scenario)


@pytest.mark.parametrize("name", NAMES)
def test_it_survives_saving_and_has_ranges_best_and_worst(name):
    scenario = pricing.load_scenario(name)
    assert parse_scenario(dump_scenario(scenario)) == scenario
    assert len(ranges(scenario)) >= 5
    assert tornado(scenario, scenario.options[0].name)[0].swing > 0
    best, base, worst = (
        pricing.tco(scenario.with_values(case)).option(scenario.cloud[0].name).tokens.per_million_output
        for case in (scenario.best, {}, scenario.worst)
    )
    assert best < base < worst
    assert all(len(chance.totals) == 50 for chance in monte_carlo(scenario, 50))


def test_on_one_idle_gpu_speculation_is_a_loss_and_said_to_be():
    (choice,) = pricing.tco(pricing.load_scenario("start_up")).speculation
    assert choice.saving == -5000  # two weeks of work, and still one GPU
    assert choice.payback_weeks is None
