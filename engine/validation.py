"""Projections against published results: predicted, published, error, each predicted by a fit that never saw it.

Two ways of not seeing it. Leaving the one result out is what a reader with measurements in the same software faces.
Leaving out all results of its software is what everybody else faces, so the error band beside a projection is made of
those. Speeds of one sequence, speeds of several and speed-ups err differently, so each has its own band and verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from statistics import median
from typing import Any

from engine.calibration import Fit, fit, predict
from engine.efficiency import Efficiency
from engine.error_band import RANGE_RULE, SOFTWARE, ErrorBand, band_of
from engine.published import LeftOut, PublishedResult, shipped_results
from engine.speedups import SPEEDUPS, SpeedupCheck, is_speed, speedup_band, speedups_of

__all__ = [
    "BAR",
    "RANGE_RULE",
    "Check",
    "ErrorBand",
    "Regime",
    "SpeedupCheck",
    "Validation",
    "shipped_error_band",
    "shipped_speedup_band",
    "shipped_validation",
    "speedup_band",
    "validate",
]

# The largest median error at which projections are worth showing.
BAR = 0.20


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
class Regime:
    """One kind of result, judged on its own. band: the one result left out; unseen: all of its software left out, which
    the bar is held against. by_software: median size of the unseen error and how many, by origin."""

    of: str
    band: ErrorBand
    unseen: ErrorBand
    by_software: dict[str, tuple[float, int]]

    @property
    def passes(self) -> bool:
        return self.unseen.median_absolute <= BAR

    def as_dict(self) -> dict[str, Any]:
        return {
            "of": self.of, "band": asdict(self.band), "unseen": asdict(self.unseen), "passes": self.passes,
            "unseen_by_software": _by_software_dict(self.by_software),
        }  # fmt: skip


@dataclass(frozen=True)
class Validation:
    """All results that could be predicted, however badly, and those that could not, each with its missing condition."""

    checks: tuple[Check, ...]
    left_out: tuple[LeftOut, ...]

    @property
    def band(self) -> ErrorBand:
        return band_of([(c.result.origin, c.error) for c in self.checks], "of all kinds", "the one result")

    @property
    def band_without_software(self) -> ErrorBand:
        return band_of([(c.result.origin, c.error_without_software) for c in self.checks], "of all kinds", SOFTWARE)

    @property
    def median_by_software(self) -> dict[str, tuple[float, int]]:
        """Median size of the error and how many results, by origin: many results of one source do not speak louder."""
        return _by_software((check.result.origin, check.error) for check in self.checks)

    @property
    def speedups(self) -> tuple[SpeedupCheck, ...]:
        """Every published speed-up: those printed, and speculative over plain speed where one source has both."""
        return tuple(speedups_of(self.checks))

    @property
    def regimes(self) -> tuple[Regime, ...]:
        """Speeds of one sequence, speeds of several, and speed-ups; those of them that were published."""
        speeds = [c for c in self.checks if is_speed(c.result)]
        kinds: list[tuple[str, Sequence[Any]]] = [
            (words, [c for c in speeds if (c.result.batch > 1) is several]) for several, words in _SPEEDS.items()
        ]
        kinds.append((SPEEDUPS, self.speedups))
        return tuple(_regime(of, checks) for of, checks in kinds if checks)

    @property
    def bar(self) -> float:
        return BAR

    @property
    def passes(self) -> bool:
        """Over all results, each predicted without its software; a regime may fall short of it all the same."""
        return self.band_without_software.median_absolute <= BAR

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "checks": [check.as_dict() for check in self.checks],
            "left_out": [asdict(left) for left in self.left_out],
            "band": asdict(self.band),
            "band_without_software": asdict(self.band_without_software),
            "median_by_software": _by_software_dict(self.median_by_software),
            "bar": BAR,
            "passes": self.passes,
            "regimes": [regime.as_dict() for regime in self.regimes],
            "speedups": [
                asdict(s) | {"error": s.error, "error_without_software": s.error_without_software}
                for s in self.speedups
            ],
        }


_SPEEDS = {False: "of one sequence at a time", True: "of several sequences at a time"}


def validate(results: Sequence[PublishedResult], left_out: Sequence[LeftOut] = ()) -> Validation:
    """Predict each result from the others. Raises ValueError for none."""
    if not results:
        raise ValueError("there is no published result to predict")
    without = _without_software(results)
    checks = []
    for result in results:
        known = fit([other for other in results if other is not result])
        efficiency = _efficiency(known, result)
        checks.append(Check(result, _value(result, efficiency), without(result)[0], efficiency))
    return Validation(tuple(checks), tuple(left_out))


@lru_cache(maxsize=1)
def shipped_validation() -> Validation:
    """Of the results that come with the package."""
    return validate(*shipped_results())


def shipped_error_band(batch: int = 1) -> ErrorBand:
    """For tokens/s projected of so many sequences at a time: from speeds of one at a time, or of several. Each
    predicted without any result of its software."""
    return _shipped_bands()[batch > 1]


def shipped_speedup_band(batch: int = 1) -> ErrorBand | None:
    """For a projected speed-up, which errs otherwise than the two speeds that it is made of. None where too few were
    published of so many sequences at a time."""
    return _shipped_speedup_bands()[batch > 1]


@lru_cache(maxsize=1)
def _shipped_unseen() -> tuple[Check, ...]:
    """The shipped results predicted without their software, which takes a fit an origin and not one a result; so
    `predicted` and `efficiency` are of those fits too."""
    results, _ = shipped_results()
    without = _without_software(results)
    checks = []
    for result in results:
        value, efficiency = without(result)
        checks.append(Check(result, value, value, efficiency))
    return tuple(checks)


@lru_cache(maxsize=1)
def _shipped_bands() -> dict[bool, ErrorBand]:
    speeds = [c for c in _shipped_unseen() if is_speed(c.result)]
    return {
        several: band_of([(c.result.origin, c.error) for c in speeds if (c.result.batch > 1) is several], of, SOFTWARE)
        for several, of in _SPEEDS.items()
    }


@lru_cache(maxsize=1)
def _shipped_speedup_bands() -> dict[bool, ErrorBand | None]:
    found = list(speedups_of(_shipped_unseen()))
    return {
        several: speedup_band([s for s in found if (s.batch > 1) is several], of) for several, of in _SPEEDS.items()
    }


def _regime(of: str, checks: Sequence[Check] | Sequence[SpeedupCheck]) -> Regime:
    origins = [check.origin if isinstance(check, SpeedupCheck) else check.result.origin for check in checks]
    seen = list(zip(origins, (check.error for check in checks), strict=True))
    unseen = list(zip(origins, (check.error_without_software for check in checks), strict=True))
    return Regime(of, band_of(seen, of, "the one result"), band_of(unseen, of, SOFTWARE), _by_software(unseen))


def _by_software(errors: Iterable[tuple[str, float]]) -> dict[str, tuple[float, int]]:
    found: dict[str, list[float]] = {}
    for name, error in errors:
        found.setdefault(name, []).append(abs(error))
    return {name: (median(sizes), len(sizes)) for name, sizes in found.items()}


def _by_software_dict(found: dict[str, tuple[float, int]]) -> dict[str, dict[str, float]]:
    return {name: {"median_absolute": error, "results": n} for name, (error, n) in found.items()}


def _without_software(results: Sequence[PublishedResult]) -> Callable[[PublishedResult], tuple[float, Efficiency]]:
    """A predictor that has not seen the software of what it predicts, with what it used; one fit an origin."""
    fits = {
        origin: fit([other for other in results if other.origin != origin])
        for origin in dict.fromkeys(r.origin for r in results)
    }

    def predicted(result: PublishedResult) -> tuple[float, Efficiency]:
        efficiency = _efficiency(fits[result.origin], result)
        return _value(result, efficiency), efficiency

    return predicted


def _efficiency(known: Fit, result: PublishedResult) -> Efficiency:
    return known.efficiency(result.gpu, result.shape, result.precision, result.software)


def _value(result: PublishedResult, efficiency: Efficiency) -> float:
    """The prediction in the measure that was published. The published value itself is never looked at."""
    times = predict(result, efficiency)
    if result.measure == "speedup":
        return times.plain.seconds / times.speculative.seconds
    arm = times.speculative if result.speculative else times.plain
    return arm.tokens_per_second * result.replicas
