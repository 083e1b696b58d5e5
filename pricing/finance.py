"""What cash flows come to: present value, rate of return, payback. Flows are a list, the first one today."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy_financial

from pricing.rows import finite

WEEKS_PER_MONTH = 365 / 12 / 7


def monthly_rate(yearly_rate: float) -> float:
    """The rate that, twelve months running, makes the yearly one."""
    return float((1 + yearly_rate) ** (1 / 12) - 1)


def npv(yearly_rate: float, monthly_flows: Sequence[float]) -> float:
    """Present value of `monthly_flows`, the first one undiscounted."""
    return float(numpy_financial.npv(monthly_rate(yearly_rate), list(monthly_flows)))


def irr(monthly_flows: Sequence[float]) -> float | None:
    """Yearly rate at which the flows are worth nothing today. None where they do not change sign, or where no single
    rate can be named."""
    flows = [float(flow) for flow in monthly_flows]
    if not (any(flow > 0 for flow in flows) and any(flow < 0 for flow in flows)):
        return None
    found = finite(float(numpy_financial.irr(flows)))
    return None if found is None or found <= -1 else finite((1 + found) ** 12 - 1)


def payback_months(monthly_flows: Sequence[float], yearly_rate: float = 0.0) -> float | None:
    """Months until the flows, discounted at `yearly_rate`, have come back for good; straight within a month. 0 where
    nothing has to come back; None where it never does."""
    rate = monthly_rate(yearly_rate)
    reached, total = 0.0, 0.0
    below = False
    for month, flow in enumerate(monthly_flows):
        worth = flow / (1 + rate) ** month
        before, total = total, total + worth
        if total < 0:
            below, reached = True, math.inf
        elif below:
            below = False
            reached = month - 1 + (-before / worth if worth else 1.0)
    return None if math.isinf(reached) else reached


def payback_weeks(monthly_flows: Sequence[float], yearly_rate: float = 0.0) -> float | None:
    """`payback_months` in weeks of 7 days; a month is a twelfth of 365 days."""
    months = payback_months(monthly_flows, yearly_rate)
    return None if months is None else months * WEEKS_PER_MONTH


def annuity(capex: float, yearly_rate: float, years: float) -> float | None:
    """Equal payments at the end of each year that pay `capex` back with interest: capex r / (1 - (1 + r)^-n)."""
    if not (capex >= 0 and yearly_rate >= 0 and years > 0):
        return None
    return capex / years if yearly_rate == 0 else float(-numpy_financial.pmt(yearly_rate, years, capex))


def break_even_tokens_per_month(
    fixed_per_month: float, api_per_million: float, marginal_per_million: float = 0.0
) -> float | None:
    """Tokens a month at which an own fleet of fixed cost is as dear as an API. None where the API's token costs no more
    than another one of one's own: then it never is."""
    gap = api_per_million - marginal_per_million
    return fixed_per_month / gap * 1e6 if gap > 0 and fixed_per_month >= 0 else None


def break_even_busy_share(fixed_per_hour: float, by_the_hour: float) -> float | None:
    """Share of all hours from which a machine of fixed cost is cheaper than one rented by the hour; above 1 it never
    is."""
    return fixed_per_hour / by_the_hour if by_the_hour > 0 and fixed_per_hour >= 0 else None
