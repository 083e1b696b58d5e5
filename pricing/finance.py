"""What cash flows come to: present value, rate of return, payback. Flows are a list, the first one today."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise

import numpy_financial

from pricing.rows import finite

WEEKS_PER_MONTH = 365 / 12 / 7
_NOTHING = 1e-9  # of the largest flow: what rounding leaves of a difference has no sign
LARGEST_DISCOUNT = 2.0**19  # all but everything lost, each month; a power of two, as the search for it doubles


def monthly_rate(yearly_rate: float) -> float:
    """The rate that, twelve months running, makes the yearly one."""
    return float((1 + yearly_rate) ** (1 / 12) - 1)


def npv(yearly_rate: float, monthly_flows: Sequence[float]) -> float:
    """Present value of `monthly_flows`, the first one undiscounted."""
    return float(numpy_financial.npv(monthly_rate(yearly_rate), list(monthly_flows)))


def irr(monthly_flows: Sequence[float]) -> float | None:
    """Yearly rate at which the flows are worth nothing today; see `monthly_irr`. None too where it is beyond floats."""
    found = monthly_irr(monthly_flows)
    if found is None:
        return None
    try:
        return finite((1 + found) ** 12 - 1)
    except OverflowError:  # next to nothing paid first, much got back: no rate that anybody could name
        return None


def monthly_irr(monthly_flows: Sequence[float]) -> float | None:
    """A month's rate. None where nothing is paid in advance, and where there may be several rates or none: flows that
    change sign once have one rate (Descartes); so have, above 0, those whose sums rise through nothing once (Norstrom
    1972), as when new servers are paid out of what old ones have saved."""
    flows = [float(flow) for flow in monthly_flows]
    nothing = _NOTHING * max(map(abs, flows), default=0.0)
    first = next((flow for flow in flows if abs(flow) > nothing), 0.0)
    if first >= 0 or (_turns(flows, nothing) != 1 and _turns(accumulate(flows), nothing) != 1):
        return None
    # Of a clear loss, a last flow of 1e-12 would outweigh all others.
    counted = [flow if abs(flow) > nothing else 0.0 for flow in flows]

    def worth(discount: float) -> float:
        total = 0.0
        for flow in reversed(counted):
            total = total * discount + flow
        return total

    low, high = 0.0, 1.0  # of 1 / (1 + rate): what is paid first is worth most at 0
    while worth(high) < 0:
        high *= 2
        if high > LARGEST_DISCOUNT:
            return None
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if worth(middle) < 0 else (low, middle)
    return finite(1 / high - 1)


def _turns(values: Iterable[float], nothing: float) -> int:
    """How often the sign changes; what is as small as `nothing` has no sign."""
    signs = [value > 0 for value in values if abs(value) > nothing]
    return sum(a != b for a, b in pairwise(signs))


def payback_months(monthly_flows: Sequence[float], yearly_rate: float = 0.0) -> float | None:
    """Months until the flows have come back for good: from then on what has come back, added up as it is and, at a
    `yearly_rate`, at its value today, is never again below what was paid. Straight within a month. 0 where nothing has
    to come back; None where it does not within the flows.

    Both sums are asked for, because a later loss counts for less at its value today: where something is got first and
    paid for later, as when servers are saved and GPUs rented instead, the discounted sum alone could turn earlier."""
    own = _back_for_good(monthly_flows)
    if not yearly_rate:
        return own
    rate = monthly_rate(yearly_rate)
    late = _back_for_good([flow / (1 + rate) ** month for month, flow in enumerate(monthly_flows)])
    return None if own is None or late is None else max(own, late)


def _back_for_good(flows: Sequence[float]) -> float | None:
    reached, total = 0.0, 0.0
    below = False
    for month, flow in enumerate(flows):
        before, total = total, total + flow
        if total < 0:
            below, reached = True, math.inf
        elif below:
            below = False
            reached = month - 1 + (-before / flow if flow else 1.0)
    return None if math.isinf(reached) else reached


def payback_weeks(monthly_flows: Sequence[float], yearly_rate: float = 0.0) -> float | None:
    """`payback_months` in weeks of 7 days; a month is a twelfth of 365 days."""
    months = payback_months(monthly_flows, yearly_rate)
    return None if months is None else months * WEEKS_PER_MONTH
