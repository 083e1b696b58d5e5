"""A token that is bought costs what the list says, whatever a replica of one's own would take for it."""

import pytest
from helpers.scenarios import scenario

from pricing.tco import tco

API = {"name": "api", "input_per_million": 0.15, "output_per_million": 0.6, "cached_input_per_million": 0.075}


@pytest.mark.parametrize(("tax", "times"), [(0.0, 1.0), (0.2, 1.2)])
def test_an_apis_tokens_cost_their_list_prices_and_the_tax(tax, times):
    made = scenario(
        api=[API], tax_share=tax, workload__cached_input_share=0.4, serving__plain__output_tokens_per_second=3
    )
    cost = tco(made).option("api", "plain").tokens
    assert cost.per_million_input == pytest.approx(0.15 * times)
    assert cost.per_million_cached_input == pytest.approx(0.075 * times)
    assert cost.per_million_output == pytest.approx(0.6 * times)
    assert cost.per_1000_words_turkish == pytest.approx(0.6 * times * 2.6 / 1000)
    # 600 read, 400 from the cache, 200 written: 90 + 30 + 120 a million requests
    assert cost.per_request == pytest.approx(240e-6 * times)
    assert cost.blended_per_million == pytest.approx(0.2 * times)


def test_without_a_price_for_cached_input_it_costs_as_other_input():
    plain = {name: price for name, price in API.items() if name != "cached_input_per_million"}
    made = scenario(api=[plain], workload__cached_input_share=0.4)
    cost = tco(made).option("api", "plain").tokens
    assert cost.per_million_cached_input == pytest.approx(0.15)
