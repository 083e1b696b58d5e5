"""Published speed-ups: those printed, and ratios of two speeds of one source. They err otherwise than speeds do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.error_band import SOFTWARE, ErrorBand, band_of
from engine.published import PublishedResult

if TYPE_CHECKING:
    from engine.validation import Check

SPEEDUPS = "of speed-ups"
# Fewer speed-ups than these, or all of one engine, say nothing of how far another may be off.
ENOUGH_SPEEDUPS = 5
ENOUGH_ENGINES = 2


@dataclass(frozen=True, slots=True)
class SpeedupCheck:
    """A published speed-up: printed as such, or the ratio of two speeds of one source under the same conditions."""

    id: str
    source_url: str
    origin: str
    batch: int
    published: float
    predicted: float
    predicted_without_software: float

    @property
    def error(self) -> float:
        return self.predicted / self.published - 1

    @property
    def error_without_software(self) -> float:
        return self.predicted_without_software / self.published - 1


def speedup_band(found: Sequence[SpeedupCheck], of: str) -> ErrorBand | None:
    """Of these, predicted without their software; None where they are too few to judge by."""
    if len(found) < ENOUGH_SPEEDUPS or len({s.origin for s in found}) < ENOUGH_ENGINES:
        return None
    return band_of([(s.origin, s.error_without_software) for s in found], f"{SPEEDUPS} {of}", SOFTWARE)


def speedups_of(checks: Sequence[Check]) -> Iterator[SpeedupCheck]:
    plain = {_conditions(c.result): c for c in checks if is_speed(c.result) and not c.result.speculative}
    for check in checks:
        result = check.result
        printed = (result.id, result.source_url, result.origin, result.batch)
        if result.measure == "speedup":
            yield SpeedupCheck(*printed, result.value, check.predicted, check.predicted_without_software)
        elif result.speculative and (beside := plain.get(_conditions(result))) is not None:
            unseen = check.predicted_without_software / beside.predicted_without_software
            ratio = result.value / beside.result.value
            yield SpeedupCheck(*printed, ratio, check.predicted / beside.predicted, unseen)


def is_speed(result: PublishedResult) -> bool:
    return result.measure == "tokens_per_second"


def _conditions(result: PublishedResult) -> tuple[Any, ...]:
    """What two speeds must share so that their ratio is a speed-up."""
    return (
        result.source_url, result.software, result.gpu.name, result.gpus, result.replicas, result.model,
        result.precision, result.shape.bytes_per_param, result.kv_bytes_per_element, result.batch,
        result.counts.prompt_tokens, result.counts.output_tokens,
    )  # fmt: skip
