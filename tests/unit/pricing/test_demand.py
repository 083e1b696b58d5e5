"""From work to whole machines, one number and many at once."""

import pytest

from pricing.columns import array
from pricing.demand import fleet


@pytest.mark.parametrize(
    ("at_work", "peak", "limit", "spare", "serving", "busy", "peak_busy"),
    [
        (2, 2, 0.5, 0, 8, 0.25, 0.5),  # 2 x 2 / 0.5 = 8; 2 of 8; 4 of 8
        (2, 2, 0.5, 2, 8, 0.2, 0.5),  # spare ones make all less busy, and serve nobody in the busiest hour
        (3, 2, 0.5, 1, 12, 3 / 13, 0.5),
        (2.1, 2, 0.5, 0, 9, 2.1 / 9, 4.2 / 9),  # 8.4 is rounded up
        (0.01, 1, 0.7, 1, 1, 0.005, 0.01),  # one at least
        (0.3, 1, 0.1, 0, 3, 0.1, 0.1),  # 2.9999999999999996 is three
    ],
)
def test_a_fleet_by_hand(at_work, peak, limit, spare, serving, busy, peak_busy):
    found = fleet(at_work, peak, limit, spare)
    assert (found.serving, found.replicas) == (serving, serving + spare)
    assert (found.busy_share, found.peak_busy_share) == (pytest.approx(busy), pytest.approx(peak_busy))


def test_many_fleets_at_once_are_each_the_one_alone():
    work = [0.01, 0.3, 2, 2.1, 3]
    found = fleet(array(work), 2.0, 0.5, 1.0)
    for i, each in enumerate(work):
        one = fleet(each, 2.0, 0.5, 1.0)
        for name in ("serving", "replicas", "busy_share", "peak_busy_share"):
            assert getattr(found, name)[i] == getattr(one, name), (name, each)
