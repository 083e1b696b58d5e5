"""Latencies as operators read them: P50, P95 and P99 with the number of values that they rest on."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from engine.stats import Stats, compute_stats, percentile
from engine.trace import Step

# Below this many values the upper percentiles are the largest value under another name.
FEW = 20


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Nearest rank, so each one is a value that was seen. None where there is no value."""

    p50: float | None
    p95: float | None
    p99: float | None
    n: int

    @classmethod
    def of(cls, values: Iterable[float | None]) -> "Percentiles":
        seen = [v for v in values if v is not None]
        return cls(percentile(seen, 0.50), percentile(seen, 0.95), percentile(seen, 0.99), len(seen))

    @property
    def few(self) -> bool:
        return self.n < FEW

    def as_dict(self) -> dict[str, Any]:
        return {"p50": self.p50, "p95": self.p95, "p99": self.p99, "n": self.n}


@dataclass(frozen=True, slots=True)
class Latency:
    """ttft_s, tpot_s: one value a run. itl_s: one value a step behind the first, since a step emits its tokens
    together. e2e_s: one value a run."""

    ttft_s: Percentiles
    tpot_s: Percentiles
    itl_s: Percentiles
    e2e_s: Percentiles

    @classmethod
    def of(cls, runs: Sequence[Sequence[Step]]) -> "Latency":
        """runs: the steps of each run; a run without a step counts nowhere."""
        each: list[Stats] = [compute_stats(steps) for steps in runs if steps]
        return cls(
            Percentiles.of(s.ttft_s for s in each),
            Percentiles.of(s.tpot_s for s in each),
            Percentiles.of(gap for s in each for gap in s.itl_s),
            Percentiles.of(s.e2e_s for s in each),
        )

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name).as_dict() for name in self.__slots__}
