"""A rate of return is named only where there is one and no other."""

import random

import pytest

from pricing.finance import irr, monthly_irr, npv


def worth(flows, rate):
    return sum(flow / (1 + rate) ** month for month, flow in enumerate(flows))


def test_flows_with_two_rates_have_none():
    """-100, 230, -132 is worth nothing at 10 % and at 20 % a month: neither is the rate."""
    flows = [-100, 230, -132]
    assert worth(flows, 0.10) == pytest.approx(0)
    assert worth(flows, 0.20) == pytest.approx(0)
    assert irr(flows) is None


def test_a_gain_in_the_end_never_has_a_negative_rate():
    """Servers that speculation spares are bought and sold later: money first, then costs, then money; 849,563 saved and
    -69 % a year is no answer."""
    assert irr([359_200, -407_222, 407_546, 0, 411_235, -482_161, 411_266, -72_929, 411_275, -331_726]) is None
    assert irr([100, -110]) is None  # a loan: nothing was paid in advance


def test_a_refresh_that_eats_no_more_than_was_saved_keeps_the_rate():
    """-1000, 800, 900, then 500 again for new machines, 700: the sums rise through nothing once."""
    flows = [-1000, 800, 900, -500, 700]
    rate = monthly_irr(flows)
    assert rate > 0
    assert worth(flows, rate) == pytest.approx(0, abs=1e-6)
    assert worth(flows, rate / 2) > 0 > worth(flows, rate * 2)
    assert monthly_irr([-1000, 1100, -500, 700]) is None  # down again after it had come back


@pytest.mark.parametrize(
    ("flows", "rate"),
    [([-100, 110], 0.1), ([-100, 50], -0.5), ([-100, 0, 121], 0.1), ([-100, 100], 0.0), ([0, -100, 150], 0.5),
     ([-1, 1e6], 1e6 - 1)],
)  # fmt: skip
def test_worked_rates(flows, rate):
    assert monthly_irr(flows) == pytest.approx(rate, abs=1e-9)


@pytest.mark.parametrize("flows", [[], [0, 0], [-1, -2], [1, 2], [-1e-300, 1e300], [float("1e-320"), -1]])
def test_what_has_no_rate_has_none(flows):
    assert irr(flows) is None


def test_what_rounding_leaves_of_nothing_is_no_flow():
    assert monthly_irr([-100, 1e-12, -1e-12, 1e-12, 110]) == pytest.approx(1.1**0.25 - 1)


@pytest.mark.parametrize("rest", [-1e-12, 0.0, 1e-12])
def test_what_rounding_leaves_weighs_nothing_in_a_clear_loss(rest):
    """A thousandth is left after a month; 1e-12 five years later, at that rate, would be worth 1e168."""
    assert monthly_irr([-1e6, 1000, *[0.0] * 58, rest]) == pytest.approx(-0.999)


def test_at_the_rate_the_flows_are_worth_nothing():
    chance = random.Random(0)
    for _ in range(200):
        months = chance.choice([12, 36, 60])
        flows = [-chance.uniform(1, 1000), *(chance.uniform(0, 100) for _ in range(months))]
        assert npv(irr(flows), flows) == pytest.approx(0, abs=1e-6 * sum(map(abs, flows)))
