"""How far predictions were from what was published, and what that makes of a projection: a range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from engine.stats import percentile

# What the fits behind a band had not seen, where it is to hold for everybody.
SOFTWARE = "any of the same software"
# How a band becomes the range of a projection.
RANGE_RULE = (
    "from projected / (1 + highest error) to projected / (1 + lowest error): where 80% of published results lay around "
    "their projections"
)


@dataclass(frozen=True, slots=True)
class ErrorBand:
    """Of predicted / published - 1 over `results` results in `engines` engines: the median of its size, and the range
    that holds the middle 80 % of it, signed (above 0: promised too much). of: which results. unseen: what the fits
    behind their predictions had not seen."""

    median_absolute: float
    low: float
    high: float
    results: int
    engines: int
    of: str
    unseen: str

    def __str__(self) -> str:
        return (
            f"median error {self.median_absolute:.0%}, 80% of errors from {self.low:+.0%} to {self.high:+.0%} "
            f"({self.results} published results {self.of} in {self.engines} engines, predicted without {self.unseen})"
        )

    def around(self, projected: float) -> tuple[float, float]:
        """Lowest and highest of what is to be expected where so much is projected; see RANGE_RULE."""
        return projected / (1 + self.high), projected / (1 + self.low)


def band_of(errors: Sequence[tuple[str, float]], of: str, unseen: str) -> ErrorBand:
    """errors: each with its origin."""
    signed = [error for _, error in errors]
    low, high = percentile(signed, 0.1), percentile(signed, 0.9)
    assert low is not None
    assert high is not None
    engines = len({origin for origin, _ in errors})
    return ErrorBand(median(map(abs, signed)), low, high, len(signed), engines, of, unseen)
