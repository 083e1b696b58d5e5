"""One point of a sweep: plain and speculative decoding of the same prompts, interleaved, as JSON for the run store."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.batch import generate_batch
from engine.bench.compare import WARM_UP_TOKENS, ArmResult, Comparison, compare, ratio_interval
from engine.bench.curves import Stopped
from engine.bench.suites import ALL, BenchPrompt
from engine.bench.sweep_plan import SweepPlan, Task
from engine.decode import Generation
from engine.errors import EngineError
from engine.pair import Pair
from engine.settings import DecodeSettings
from engine.stats import Stats, percentile, pool_stats

# Of one batch alone there would be nothing to make an interval from.
FEWEST_BATCHES = 3


@dataclass(frozen=True, slots=True)
class BatchSample:
    """One batch of prompts, decoded both ways one after the other. rows: the prompts' numbers. plain_s, speculative_s:
    whole calls by one stopwatch, prompts read included."""

    rows: tuple[int, ...]
    plain: list[Generation]
    speculative: list[Generation]
    plain_s: float
    speculative_s: float


def measure_point(
    pair: Pair, prompts: Sequence[BenchPrompt], plan: SweepPlan, task: Task, cancel: threading.Event
) -> dict[str, Any]:
    """Batch 1 decodes in lock-step (`engine.compare`); larger batches take turns, batch by batch. Raises Stopped when
    cancelled on the way, EngineError for what cannot be decoded."""
    assert task.k is not None
    assert task.temperature is not None
    assert task.drafter is not None
    assert task.batch is not None
    settings = plan.settings(task.k, task.temperature, task.tree_nodes)
    if task.batch == 1:
        result = compare(pair, prompts, settings, task.drafter, plan.verifier, plan.repeats, cancel=cancel)
        if not result.complete:
            raise Stopped
        return _of_comparison(result, len(prompts))
    samples = _measure_batches(pair, prompts, settings, task.drafter, plan, task.batch, cancel)
    return _of_batches(samples, task.drafter, len(prompts))


def groups_of(count: int, batch: int) -> list[list[int]]:
    """Numbers of `count` prompts in whole batches: every prompt at least once, the last batch filled from the start."""
    return [[(at + i) % count for i in range(batch)] for at in range(0, count, batch)]


def _of_comparison(result: Comparison, count: int) -> dict[str, Any]:
    runs: list[list[Generation]] = [[] for _ in range(count)]
    for sample in result.samples:
        runs[sample.prompt].append(sample.speculative)
    plain, fast = result.plain.stats, result.speculative.stats
    units = len({s.prompt for s in result.samples})
    return {"arms": [_arm(a) for a in result.arms], "verdict": result.verdict, **_shared(plain, fast, runs, 1, units)}


def _measure_batches(
    pair: Pair, prompts: Sequence[BenchPrompt], settings: DecodeSettings, drafter: str, plan: SweepPlan, batch: int,
    cancel: threading.Event,
) -> list[BatchSample]:  # fmt: skip
    groups = groups_of(len(prompts), batch)
    warm_up = replace(settings, max_new_tokens=min(WARM_UP_TOKENS, settings.max_new_tokens))
    _decode_both(pair, prompts, groups[0], warm_up, drafter, plan.verifier, False, cancel)
    samples = []
    for repeat in range(max(plan.repeats, -(-FEWEST_BATCHES // len(groups)))):
        seeded = replace(settings, seed=((settings.seed or 0) + repeat) % 2**63)
        for at, rows in enumerate(groups):
            # Who goes first meets colder caches, so the arms take turns at it.
            first = (at + repeat) % 2 == 1
            samples.append(_decode_both(pair, prompts, rows, seeded, drafter, plan.verifier, first, cancel))
    return samples


def _decode_both(
    pair: Pair, prompts: Sequence[BenchPrompt], rows: Sequence[int], settings: DecodeSettings, drafter: str,
    verifier: str, plain_leads: bool, cancel: threading.Event,
) -> BatchSample:  # fmt: skip
    found: dict[str, tuple[list[Generation], float]] = {}
    for arm in ("none", drafter) if plain_leads else (drafter, "none"):
        found[arm] = _timed(pair, [prompts[r].prompt for r in rows], settings, arm, verifier, cancel)
    (plain, plain_s), (fast, fast_s) = found["none"], found[drafter]
    if [len(g.token_ids) for g in plain] != [len(g.token_ids) for g in fast]:
        raise EngineError("the arms of a batch emitted unequal numbers of tokens, so their times cannot be compared")
    return BatchSample(tuple(rows), plain, fast, plain_s, fast_s)


def _timed(
    pair: Pair, prompts: list[str], settings: DecodeSettings, drafter: str, verifier: str, cancel: threading.Event
) -> tuple[list[Generation], float]:
    pair.target.synchronize()
    start = time.perf_counter()
    found = generate_batch(pair, prompts, settings, drafter, verifier, len(prompts), cancel)
    pair.target.synchronize()
    seconds = time.perf_counter() - start
    if cancel.is_set():
        raise Stopped
    return found, seconds


def _of_batches(samples: Sequence[BatchSample], drafter: str, count: int) -> dict[str, Any]:
    """The ratio is of totals; its interval resamples whole batches. A batch mixes categories, so "all" is the only
    one; a row's steps are those that it lived through, and the arm's seconds are of whole batches."""
    rounds: dict[tuple[int, ...], list[tuple[float, float]]] = {}
    runs: list[list[Generation]] = [[] for _ in range(count)]
    for s in samples:
        rounds.setdefault(s.rows, []).append((s.plain_s, s.speculative_s))
        for row, generation in zip(s.rows, s.speculative, strict=True):
            runs[row].append(generation)
    plain, fast = (
        pool_stats([(g.trace.steps, len(g.trace.prompt_token_ids)) for g in arm])
        for arm in ([g for s in samples for g in s.plain], [g for s in samples for g in s.speculative])
    )
    ratios = [s.plain_s / s.speculative_s for s in samples]
    totals = sum(s.plain_s for s in samples), sum(s.speculative_s for s in samples)
    interval = ratio_interval([*rounds.values()])
    arms = [
        ArmResult(
            name=name,
            category=ALL,
            n=len(samples),
            output_tokens=stats.output_tokens,
            seconds=seconds,
            output_tokens_per_second=stats.output_tokens / seconds if seconds > 0 else None,
            ratio=ratio,
            interval=span,
            spread=spread,
            stats=stats,
        )
        for name, stats, seconds, ratio, span, spread in (
            ("plain", plain, totals[0], 1.0, (1.0, 1.0), (1.0, 1.0)),
            (drafter, fast, totals[1], totals[0] / totals[1], interval, (min(ratios), max(ratios))),
        )
    ]
    shared = _shared(plain, fast, runs, len(samples[0].rows), len(rounds))
    return {"arms": [_arm(a) for a in arms], "verdict": None, **shared}


def _shared(plain: Stats, fast: Stats, runs: Sequence[Sequence[Generation]], batch: int, units: int) -> dict[str, Any]:
    """What the report needs of a point beside its arms. units: the prompts, or batches of prompts, that its
    interval resamples.

    decode_ratio: behind the first token. overhead_s: of a step, what is neither draft nor verify of any row. tests[i]:
    of prompt i, [tested, accepted, steps that drafted], for intervals that resample prompts."""
    later = fast.steps - fast.runs
    counts = [pool_stats([(g.trace.steps, 0) for g in of]) for of in runs]
    return {
        "decode_ratio": plain.tpot_s / fast.tpot_s if plain.tpot_s and fast.tpot_s else None,
        "drafted_share": fast.drafted_steps / later if later else 0.0,
        "overhead_s": {"plain": _other(plain, batch), "speculative": _other(fast, batch)},
        "tests": [[s.tested, s.accepted, s.drafted_steps] for s in counts],
        "units": units,
    }


def _other(stats: Stats, batch: int) -> float:
    """A row of a batch waits while the others draft, and counts that as its other time; a curve has it already."""
    later = stats.steps - stats.runs
    return max(0.0, stats.other_s - (batch - 1) * stats.draft_s) / later if later else 0.0


def _arm(arm: ArmResult) -> dict[str, Any]:
    """Without the list of a thousand inter-token times: its median and 95th percentile."""
    found = arm.as_dict()
    times = found["stats"].pop("itl_s")
    found["stats"] |= {"itl_p50_s": percentile(times, 0.5), "itl_p95_s": percentile(times, 0.95)}
    return found
