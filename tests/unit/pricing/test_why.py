"""Every number says why it is what it is, and what it says is true."""

import pytest
from helpers.derivation import evaluated
from helpers.scenarios import scenario

from pricing.tco import tco
from pricing.why import why

MADE = tco(
    scenario(
        years=3,
        tax_share=0.2,
        workload__hours_on_share=0.5,
        workload__cached_input_share=0.4,
        workload__growth_per_year=0.3,
        serving__plain__output_tokens_per_second={"value": 1000, "label": "measured", "source": "run 7, 2 November"},
        speculation__capacity_share_taken=0.1,
        speculation__pilot=1000,
        speculation__upkeep_per_month=10,
        cloud__0={
            "name": "rented",
            "gpus_per_instance": 8,
            "storage_per_month": 5,
            "egress_per_million_requests": 7,
            "support_share": 0.1,
            "parts": [
                {"commitment": "reserved_1yr", "per_gpu_hour": 2.0, "fleet_share": 0.5},
                {"commitment": "spot", "per_gpu_hour": 1.0, "fleet_share": 0.5, "interruption_share": 0.2},
            ],
        },
        owned=[
            {"name": "own", "gpus_per_server": 8, "price": 300_000, "idle_kw": 2, "active_kw": 10, "per_kwh": 0.1,
             "network_share": 0.1, "install": 500, "colocation_per_kw_month": 200, "staff_fte": 0.5,
             "per_fte_year": 80_000, "support_share_per_year": 0.05, "licence_per_gpu_year": 900}
        ],
        api=[{"name": "api", "input_per_million": 1, "cached_input_per_million": 0.1, "output_per_million": 3}],
    )
)  # fmt: skip


@pytest.mark.parametrize("option", MADE.options, ids=lambda option: option.title)
def test_each_formula_gives_the_number_beside_it(option):
    found = why(MADE, option.name, option.arm)
    values = {name: step.value for name, step in found.steps.items()} | {n: f.value for n, f in found.inputs.items()}
    told = 0
    for step in found.steps.values():
        if step.formula:
            assert evaluated(step, values) == pytest.approx(step.value), step.name
            told += 1
    assert told >= 5
    assert found.steps["total"].value == option.total


@pytest.mark.parametrize("option", MADE.options, ids=lambda option: option.title)
def test_every_name_leads_to_an_input_with_its_label(option):
    found = why(MADE, option.name, option.arm)
    figures = MADE.scenario.figures()
    for step in found.steps.values():
        for name in step.uses:
            assert name in found.steps or found.inputs[name] == figures[name]


def test_the_lines_say_formula_value_label_and_source():
    lines = why(MADE, "rented", "plain").lines("per_million_output")
    assert lines[0].startswith("per_million_output = total × output_s ÷ request_s ÷ output_tokens_of_term × 1e6 = ")
    assert any("output_tokens_per_second = 1000 (measured: run 7, 2 November)" in line for line in lines)
    assert sum(line.strip().startswith("request_s = ") for line in lines) == 1


def test_a_fleet_read_off_a_load_curve_says_so():
    curve = {
        arm: [{"busy_share": 0.5, "p95_s": 1}, {"busy_share": 0.9, "p95_s": 3}] for arm in ("plain", "speculative")
    }
    step = why(tco(scenario(load_curve=curve, serving__p95_target_s=2)), "rented").steps["busy_limit_at_p95"]
    assert step.value == pytest.approx(0.7)
    assert step.note == "read off the load curve at P95 = 2 s"
