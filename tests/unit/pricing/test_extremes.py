"""The largest and the smallest numbers that a scenario holds: still numbers, and files of them."""

import math

import pytest
from helpers.scenarios import BY_HAND, scenario
from test_tco import API, OWN

from pricing.export.html import to_html
from pricing.export.report import make_report
from pricing.export.tco_csv import tco_to_csv
from pricing.export.xlsx import to_xlsx
from pricing.figure import LEAST, MOST
from pricing.tco import tco

EXTREMES = {
    "much": {"requests_per_day": MOST, "output_tokens": MOST, "input_tokens": MOST, "peak_factor": MOST},
    "little": {"requests_per_day": LEAST, "output_tokens": LEAST, "input_tokens": LEAST, "peak_factor": 1},
}


@pytest.mark.parametrize("work", EXTREMES)
@pytest.mark.parametrize("speed", [LEAST, MOST])
@pytest.mark.parametrize("price", [LEAST, MOST])
def test_at_the_ends_of_what_a_scenario_holds_there_still_are_numbers(work, speed, price):
    """And every file of them can be written."""
    each = {"input_tokens_per_second": speed, "output_tokens_per_second": speed}
    made = scenario(
        years=5, workload={**BY_HAND["workload"], **EXTREMES[work], "growth_per_year": 10}, serving__plain=each,
        serving__speculative=each, serving__busy_limit=LEAST, cost_of_capital=1, api=[API],
        cloud__0__parts__0__per_gpu_hour=price, owned=[{**OWN, "price": price, "life_years": MOST, "per_kwh": price}],
        serving__p95_target_s=price, serving__requests_at_once=1,
    )  # fmt: skip
    found = tco(made)
    for option in found.options:
        assert math.isfinite(option.total)
        assert math.isfinite(option.npv_of_cost)
    assert to_xlsx(made)
    assert to_html(make_report(made))
    assert tco_to_csv(found)
