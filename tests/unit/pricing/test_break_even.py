"""The demand from which one option costs less for good: to the request, by every demand looked at one by one."""

import pytest
from helpers.scenarios import scenario

from pricing import break_even as searched
from pricing.break_even import break_even, break_even_requests_per_day

# A hundredth of the speeds: a speculative request takes 20 s of a replica, so one that may be half busy in a peak of
# twice the mean serves 86,400 / 20 / 2 x 0.5 = 1,080 requests a day. A year of it is 2.49 x 8,760 = 21,812.40.
SERVES, PER_MONTH = 1080, 2.49 * 730
SLOW = {
    "serving__plain__input_tokens_per_second": 100, "serving__plain__output_tokens_per_second": 10,
    "serving__speculative__input_tokens_per_second": 100, "serving__speculative__output_tokens_per_second": 20,
    "serving__spare_replicas": 0,
}  # fmt: skip


def priced(per_million, **changes):
    """Beside an API of that price for the 200 output tokens of a request, and nothing for what it reads."""
    api = {"name": "api", "input_per_million": 0, "output_per_million": per_million}
    return scenario(**{**SLOW, "workload__requests_per_day": 50, "api": [api], **changes})


def test_of_eighty_three_crossings_the_last_is_found():
    """A request a day for a year is 365 x 200 x 280 / 1M = 20.44, so n replicas cost as much as n x 1,067.1429 requests
    a day, and serve 1,080: the first is cheaper from 1,068 to 1,080, then two are not. The 84th begins at 83 x 1,080 +
    1 = 89,641 requests, for 1,832,262.04 at the API, and 84 cost 1,832,241.60: cheaper from its first on. The 83rd
    begins at 88,561, for 1,810,186.84, and 83 cost 1,810,429.20 = 88,572.86 x 20.44."""
    assert break_even_requests_per_day(priced(280, workload__requests_per_day=200), "rented", "api") == 88_573


def test_where_both_cost_the_same_neither_costs_less():
    """A replica costs as much as 1,075 requests a day: 215 of them as 231,125, and the 215th begins at 214 x 1,080 + 1
    = 231,121. From the 216th (232,200 < 215 x 1,080 + 1 = 232,201) each is cheaper from its first on, by 0.5 % at most,
    and up to 50 million requests a day there are 46,000 of them."""
    made = priced(21_812.40 / 1075 * 1e6 / (365 * 200), workload__requests_per_day=50_000)
    assert break_even_requests_per_day(made, "rented", "api") == 231_126


def every_total(requests, growth, spare):
    """A year of whole replicas, by the month."""
    work = (requests * (1 + growth) ** (month / 12) for month in range(12))
    return sum(-int(-(each - 1e-6) // SERVES) + spare for each in work) * PER_MONTH


@pytest.mark.parametrize("growth", [0.0, 0.8, -0.6])
@pytest.mark.parametrize("spare", [0, 2])
@pytest.mark.parametrize("per_million", [300, 350, 900])
def test_every_demand_looked_at_one_by_one_finds_the_same(growth, spare, per_million):
    made = priced(per_million, workload__growth_per_year=growth, serving__spare_replicas=spare)
    per_request = sum((1 + growth) ** (month / 12) for month in range(12)) * 365 / 12 * 200 * per_million / 1e6
    last = next(n for n in range(50_000, 0, -1) if n * per_request - every_total(n, growth, spare) < 0.005)
    assert break_even_requests_per_day(made, "rented", "api") == (last + 1 if last < 50_000 else None)


def test_what_costs_all_but_the_same_is_looked_at_for_so_long_only(monkeypatch):
    """A replica costs as much as 1,079.9 requests a day and serves 1,080: from the 10,791st on each is cheaper from its
    first one (10,791 x 1,079.9 < 10,790 x 1,080 + 1). Up to 50 million, there are more stretches than can be looked at.
    What is found may not be the last crossing, but it is one."""
    looked = []
    costed = searched.cost_options

    def counted(scenario, draws, arms):
        looked.extend(next(iter(draws.values())))
        return costed(scenario, draws, arms=arms)

    monkeypatch.setattr(searched, "cost_options", counted)
    a_million = 21_812.40 / 1079.9 * 1e6 / (365 * 200)
    found = break_even_requests_per_day(priced(a_million, workload__requests_per_day=50_000), "rented", "api")
    assert len(looked) < 4000
    assert -(-found // 1080) * 1079.9 < found
    assert -(-(found - 1) // 1080) * 1079.9 > found - 1
    assert found <= 10_790 * 1080 + 1


def test_the_other_numbers_are_at_that_very_demand():
    """88,573 requests a day keep 88,573 x 20 / 86,400 = 20.503009 of 83 replicas at work; 1,200 tokens each."""
    found = break_even(priced(280, workload__requests_per_day=200), "rented", "api")
    assert found.tokens_per_month == pytest.approx(88_573 * 1200 * 365 / 12)
    assert found.busy_share == pytest.approx(20.503009 / 83, abs=1e-8)


def test_less_than_a_request_a_day_is_not_looked_at():
    """At 0.001 requests a day and a thousand times that, one a day is all: 7,300 or 73,000 a year to 21,812.40."""
    assert break_even_requests_per_day(priced(1e5, workload__requests_per_day=0.001), "rented", "api") is None
    assert break_even_requests_per_day(priced(1e6, workload__requests_per_day=0.001), "rented", "api") == 0
