"""How far real kernels and engines stay behind a data sheet: shares of its peaks, and seconds that it does not know."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from engine.labels import Assumption, Label

# All assumed, and shown as such where nothing could be fitted. The share of bandwidth and of arithmetic that decoding
# kernels reach ...
DEFAULT_EFFICIENCY = 0.6
# ... the fixed seconds of one forward outside the kernels, with CUDA graphs (eager Python costs milliseconds) ...
DEFAULT_FORWARD_OVERHEAD_S = 30e-6
# ... and of one small all-reduce among GPUs of one server: launch, flags and waiting for the slowest.
DEFAULT_ALL_REDUCE_S = 10e-6

_NAMES = {
    "memory": "share of memory bandwidth",
    "compute": "share of tensor arithmetic",
    "layer_overhead_s": "overhead a layer, s",
    "row_overhead_s": "host work a row and step, s",
    "round_overhead_s": "overhead of a step that runs a draft network, s",
    "all_reduce_s": "latency of an all-reduce, s",
}


@dataclass(frozen=True)
class Efficiency:
    """Shares in (0, 1]; seconds of at least 0.

    layer_overhead_s: what each layer of a forward takes beyond reading and multiplying (kernels that start and drain).
    row_overhead_s: host work for each row of a step that the device waits for. round_overhead_s: accept test, tree and
    sampling in a step that runs a draft network. origins: label and basis by field name; what is absent is assumed.
    Raises ValueError for numbers out of range.
    """

    memory: float
    compute: float
    layer_overhead_s: float = 0.0
    row_overhead_s: float = 0.0
    round_overhead_s: float = 0.0
    all_reduce_s: float = DEFAULT_ALL_REDUCE_S
    origins: Mapping[str, tuple[Label, str]] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        for name in ("memory", "compute"):
            if not 0 < getattr(self, name) <= 1:  # NaN fails too
                raise ValueError(f"efficiency must be above 0 and at most 1, not {getattr(self, name)!r}")
        for name in ("layer_overhead_s", "row_overhead_s", "round_overhead_s", "all_reduce_s"):
            seconds = getattr(self, name)
            if not (math.isfinite(seconds) and seconds >= 0):
                raise ValueError(f"{name} must be a finite number of at least 0, not {seconds!r}")

    @classmethod
    def of(cls, given: float | Efficiency) -> Efficiency:
        """One number stands for both shares, with no overheads but the all-reduce's."""
        return given if isinstance(given, Efficiency) else cls(given, given)

    def assumptions(self) -> tuple[Assumption, ...]:
        """Each number with its label and what it was fitted from."""
        return tuple(
            Assumption(words, getattr(self, name), *self.origins.get(name, ("assumed", "")))
            for name, words in _NAMES.items()
        )
