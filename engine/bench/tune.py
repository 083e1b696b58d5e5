"""Which K? Measured speed-up for each K beside what theory says it should be."""

import statistics
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from engine.bench.compare import Comparison, compare
from engine.bench.predict import predicted_speedup
from engine.bench.suites import BenchPrompt
from engine.pair import Pair
from engine.settings import DecodeSettings
from engine.text import Prompt


@dataclass(frozen=True, slots=True)
class TunePoint:
    """One K. ratio, interval, mean_acceptance_length: measured. decode_ratio: measured, behind the first token, which
    no draft speeds up; the one that `predicted` speaks of. alpha: accepted / tested, measured at this K.
    verify_cost: median verify time of k+1 tokens / of one token, measured. drafted_share: steps that drafted.
    predicted: the speed-up that theory gives for `alpha` of the whole sweep and the costs measured at this K."""

    k: int
    ratio: float | None
    decode_ratio: float | None
    interval: tuple[float, float] | None
    mean_acceptance_length: float | None
    alpha: float | None
    verify_cost: float | None
    drafted_share: float
    predicted: float | None
    comparison: Comparison


def tune_k(
    pair: Pair,
    prompts: Sequence[Prompt | BenchPrompt],
    settings: DecodeSettings | None = None,
    drafter: str = "prompt_lookup",
    verifier: str = "rejection",
    ks: Sequence[int] = range(1, 9),
    repeats: int = 1,
    progress: Callable[[int, int], None] | None = None,
    cancel: threading.Event | None = None,
) -> list[TunePoint]:
    """Compare plain and speculative decoding at each K (see `compare`); each K has its own interleaved baseline.

    The prediction is Leviathan's (2023, Thm 3.8) with measured costs in place of c, and with the steps that found
    nothing to draft at their plain cost. alpha is pooled over all K: accepted over tested of the sweep.
    """
    settings = settings or DecodeSettings()
    cancel = cancel or threading.Event()
    found: list[tuple[int, Comparison]] = []
    for done, k in enumerate(ks):
        result = compare(pair, prompts, replace(settings, k=k), drafter, verifier, repeats, None, cancel)
        if not result.samples:
            break
        found.append((k, result))
        if progress:
            progress(done + 1, len(ks))
    alpha = _pooled_alpha([c for _, c in found])
    return [_point(k, c, alpha) for k, c in found]


def best_point(points: Sequence[TunePoint]) -> TunePoint | None:
    """The fastest measured K, or None when every K was slower than plain decoding (K = 0 is then the best)."""
    faster = [p for p in points if p.ratio is not None and p.ratio > 1]
    return max(faster, key=lambda p: p.ratio or 0.0, default=None)


def _point(k: int, comparison: Comparison, alpha: float | None) -> TunePoint:
    arm, plain_stats = comparison.speculative, comparison.plain.stats
    stats = arm.stats
    steps = [s for sample in comparison.samples for s in sample.speculative.trace.steps[1:]]
    single = [s for sample in comparison.samples for s in sample.plain.trace.steps[1:]]
    wide = [s for s in steps if len(s.proposals) == k]
    share = stats.drafted_steps / len(steps) if steps else 0.0
    cost = predicted = None
    if wide and single:
        cost = statistics.median(s.verify_ms for s in wide) / statistics.median(s.verify_ms for s in single)
    if alpha is not None and wide and single:
        plain, drafted = statistics.median(s.total_ms for s in single), statistics.median(s.total_ms for s in wide)
        predicted = predicted_speedup(alpha, k, share, plain, drafted)
    return TunePoint(
        k=k,
        ratio=arm.ratio,
        decode_ratio=plain_stats.tpot_s / stats.tpot_s if plain_stats.tpot_s and stats.tpot_s else None,
        interval=arm.interval,
        mean_acceptance_length=stats.mean_acceptance_length,
        alpha=stats.alpha,
        verify_cost=cost,
        drafted_share=share,
        predicted=predicted,
        comparison=comparison,
    )


def _pooled_alpha(comparisons: Sequence[Comparison]) -> float | None:
    arms = [c.speculative.stats for c in comparisons]
    tested = sum(s.tested for s in arms)
    return sum(s.accepted for s in arms) / tested if tested else None
