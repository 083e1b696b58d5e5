"""Projections against published results: predicted, published, error, each predicted by a fit that never saw it.

Two ways of not seeing it. Leaving the one result out is what a reader with measurements in the same software faces.
Leaving out all results of its software is what everybody else faces, so the error band beside a projection is made of
those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from statistics import median
from typing import Any

from engine.calibration import Fit, fit, predict
from engine.efficiency import Efficiency
from engine.published import LeftOut, PublishedResult, shipped_results
from engine.stats import percentile

# The largest median error at which projections are worth showing.
BAR = 0.20


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


@dataclass(frozen=True, slots=True)
class Check:
    """One published result, in its own measure. predicted: by a fit without it; predicted_without_software: by a fit
    without any result of its software. efficiency: what the first one used."""

    result: PublishedResult
    predicted: float
    predicted_without_software: float
    efficiency: Efficiency

    @property
    def published(self) -> float:
        return self.result.value

    @property
    def error(self) -> float:
        """predicted / published - 1; above 0 promises too much."""
        return self.predicted / self.result.value - 1

    @property
    def error_without_software(self) -> float:
        return self.predicted_without_software / self.result.value - 1

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready: where it is from, under what conditions, what was filled in, predicted and published."""
        r = self.result
        return {
            **{name: getattr(r, name) for name in ("id", "claim", "source_url", "evidence", "software")},
            "gpu": r.gpu.name,
            **{name: getattr(r, name) for name in ("gpus", "replicas", "model", "batch", "conditions", "assumed")},
            "precision": r.precision.name,
            "measure": r.measure,
            "published": r.value,
            "predicted": self.predicted,
            "error": self.error,
            "predicted_without_software": self.predicted_without_software,
            "error_without_software": self.error_without_software,
            "efficiency": [a._asdict() for a in self.efficiency.assumptions()],
        }


@dataclass(frozen=True)
class Validation:
    """All results that could be predicted, however badly, and those that could not, each with its missing condition."""

    checks: tuple[Check, ...]
    left_out: tuple[LeftOut, ...]

    @property
    def band(self) -> ErrorBand:
        return _band([(c.result, c.error) for c in self.checks], "of all kinds", "the one result")

    @property
    def band_without_software(self) -> ErrorBand:
        return _band([(c.result, c.error_without_software) for c in self.checks], "of all kinds", _SOFTWARE)

    @property
    def median_by_software(self) -> dict[str, tuple[float, int]]:
        """Median size of the error and how many results, by origin: many results of one source do not speak louder."""
        found: dict[str, list[float]] = {}
        for check in self.checks:
            found.setdefault(check.result.origin, []).append(abs(check.error))
        return {name: (median(errors), len(errors)) for name, errors in found.items()}

    @property
    def bar(self) -> float:
        return BAR

    @property
    def passes(self) -> bool:
        return self.band.median_absolute <= BAR

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "checks": [check.as_dict() for check in self.checks],
            "left_out": [asdict(left) for left in self.left_out],
            "band": asdict(self.band),
            "band_without_software": asdict(self.band_without_software),
            "median_by_software": {
                name: {"median_absolute": error, "results": n} for name, (error, n) in self.median_by_software.items()
            },
            "bar": BAR,
            "passes": self.passes,
        }


_SOFTWARE = "any of the same software"


def validate(results: Sequence[PublishedResult], left_out: Sequence[LeftOut] = ()) -> Validation:
    """Predict each result from the others. Raises ValueError for none."""
    if not results:
        raise ValueError("there is no published result to predict")
    without = _without_software(results)
    checks = []
    for result in results:
        known = fit([other for other in results if other is not result])
        efficiency = _efficiency(known, result)
        checks.append(Check(result, _value(result, efficiency), without(result), efficiency))
    return Validation(tuple(checks), tuple(left_out))


@lru_cache(maxsize=1)
def shipped_validation() -> Validation:
    """Of the results that come with the package."""
    return validate(*shipped_results())


def shipped_error_band(batch: int = 1) -> ErrorBand:
    """For a projection of so many sequences at a time: from results of one at a time, or of several, which have been
    promised much more than they held. Each predicted without any result of its software."""
    return _shipped_bands()[batch > 1]


@lru_cache(maxsize=1)
def _shipped_bands() -> dict[bool, ErrorBand]:
    results, _ = shipped_results()
    without = _without_software(results)
    errors = [(result, without(result) / result.value - 1) for result in results]
    words = {False: "of one sequence at a time", True: "of several sequences at a time"}
    return {
        several: _band([e for e in errors if (e[0].batch > 1) is several], of, _SOFTWARE)
        for several, of in words.items()
    }


def _without_software(results: Sequence[PublishedResult]) -> Callable[[PublishedResult], float]:
    """A predictor that has not seen the software of what it predicts; one fit an origin."""
    fits = {r.origin: fit([other for other in results if other.origin != r.origin]) for r in results}
    return lambda result: _value(result, _efficiency(fits[result.origin], result))


def _efficiency(known: Fit, result: PublishedResult) -> Efficiency:
    return known.efficiency(result.gpu, result.shape, result.precision, result.software)


def _value(result: PublishedResult, efficiency: Efficiency) -> float:
    """The prediction in the measure that was published. The published value itself is never looked at."""
    times = predict(result, efficiency)
    if result.measure == "speedup":
        return times.plain.seconds / times.speculative.seconds
    arm = times.speculative if result.speculative else times.plain
    return arm.tokens_per_second * result.replicas


def _band(errors: Sequence[tuple[PublishedResult, float]], of: str, unseen: str) -> ErrorBand:
    signed = [error for _, error in errors]
    low, high = percentile(signed, 0.1), percentile(signed, 0.9)
    assert low is not None
    assert high is not None
    engines = len({result.origin for result, _ in errors})
    return ErrorBand(median(map(abs, signed)), low, high, len(signed), engines, of, unseen)
