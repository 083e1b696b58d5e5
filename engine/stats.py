"""The numbers of a run, each defined once. Absent is None, never zero.

Names and definitions are vLLM's and AIPerf's where they have one. alpha and `draft_acceptance_rate` are different
numbers: alpha divides by the positions that were tested, the rate by everything that was proposed.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Any

from engine.trace import Step


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts are tokens or steps; times are seconds of the engine's own work, so a slow reader changes nothing."""

    runs: int
    prompt_tokens: int
    output_tokens: int
    steps: int
    drafted_steps: int
    target_forwards: int
    """One a step: a prompt counts as one forward, in however many chunks it is read."""
    proposed: int
    tested: int
    """positions at which a draft token was held against the target: those behind what stands, none that the end cut
    off. In a tree a position is a depth, whatever the number of its branches."""
    accepted: int
    rejected: int
    ignored: int
    recovered: int
    bonus: int

    mean_acceptance_length: float | None
    """1 + accepted / steps that drafted; counts the target's own token of each step. Range 1..K+1."""
    draft_acceptance_rate: float | None
    """accepted / proposed; no bonus. Low for trees by construction: one branch at most can stand."""
    alpha: float | None
    """accepted / tested: the chance that a tested draft token stands."""
    acceptance_rate_per_position: tuple[float, ...]
    """[i]: steps in which positions 0..i were all accepted / all steps that drafted (vLLM's)."""
    conditional_acceptance: tuple[float | None, ...]
    """[i]: accepted at i / tested at i; None where position i was never tested."""
    acceptance_histogram: tuple[int, ...]
    """[j]: steps that accepted exactly j."""
    tokens_per_target_forward: float | None
    """emitted / target forward passes, steps without a draft included."""

    ttft_s: float | None
    e2e_s: float
    tpot_s: float | None
    """(e2e - ttft) / (n - 1); None below two tokens. TTFT is never inside it."""
    itl_s: tuple[float, ...]
    """Seconds between one emission and the next. A step emits its tokens together, so these are per step."""
    output_tokens_per_second: float | None
    """output tokens / e2e."""
    decode_tokens_per_second: float | None
    """1 / tpot: the speed after the first token, the one to compare drafters by."""
    draft_s: float
    verify_s: float
    other_s: float
    prefill_s: float
    """The first step's draft and verify time: it reads the prompt. The three above cover the steps after."""
    reused_prompt_tokens: int = 0
    """Of `prompt_tokens`, those whose keys came from a prefix cache; the others were read."""

    def as_dict(self) -> dict[str, Any]:
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}


def compute_stats(steps: Sequence[Step], prompt_tokens: int = 0) -> Stats:
    """All numbers of one run from its steps alone: brute force over records, nothing counted along the way."""
    return pool_stats([(steps, prompt_tokens)])


def pool_stats(runs: Sequence[tuple[Sequence[Step], int]]) -> Stats:
    """The numbers of several runs taken together, each run given as (steps, prompt tokens). Counts and seconds add
    up; every rate is a ratio of totals; `ttft_s` is the mean over the runs."""
    steps = [s for run, _ in runs for s in run]
    drafted = [s for s in steps if s.proposals]
    widest = max((max(s.depths) + 1 for s in drafted), default=0)
    accepted_counts = [s.num_accepted for s in drafted]
    accepted = sum(accepted_counts)
    proposed = sum(len(s.proposals) for s in drafted)
    ignored = sum(p.status == "ignored" for s in drafted for p in s.proposals)
    tested, stood = _tests(drafted, widest)
    kinds = [s.replacement.kind for s in drafted if s.replacement]

    started = [run for run, _ in runs if run]
    first_s = [run[0].total_ms / 1e3 for run in started]
    later = [s for run in started for s in run[1:]]
    output = sum(len(s.emitted) for s in steps)
    e2e = sum(s.total_ms for s in steps) / 1e3
    after_first = output - sum(len(run[0].emitted) for run in started)
    tpot = (e2e - sum(first_s)) / after_first if after_first else None
    return Stats(
        runs=len(started),
        prompt_tokens=sum(n for _, n in runs),
        output_tokens=output,
        steps=len(steps),
        drafted_steps=len(drafted),
        target_forwards=len(steps),
        proposed=proposed,
        tested=sum(tested),
        accepted=accepted,
        rejected=proposed - accepted - ignored,
        ignored=ignored,
        recovered=kinds.count("recovered"),
        bonus=kinds.count("bonus"),
        mean_acceptance_length=1 + accepted / len(drafted) if drafted else None,
        draft_acceptance_rate=accepted / proposed if proposed else None,
        alpha=sum(stood) / sum(tested) if sum(tested) else None,
        acceptance_rate_per_position=tuple(sum(n > i for n in accepted_counts) / len(drafted) for i in range(widest)),
        conditional_acceptance=tuple(a / t if t else None for a, t in zip(stood, tested, strict=True)),
        acceptance_histogram=tuple(accepted_counts.count(j) for j in range(widest + 1)) if drafted else (),
        tokens_per_target_forward=output / len(steps) if steps else None,
        ttft_s=sum(first_s) / len(first_s) if first_s else None,
        e2e_s=e2e,
        tpot_s=tpot,
        itl_s=tuple(s.total_ms / 1e3 for s in later),
        output_tokens_per_second=output / e2e if output and e2e > 0 else None,
        decode_tokens_per_second=1 / tpot if tpot else None,
        draft_s=sum(s.draft_ms for s in later) / 1e3,
        verify_s=sum(s.verify_ms for s in later) / 1e3,
        other_s=sum(s.other_ms for s in later) / 1e3,
        prefill_s=sum(run[0].draft_ms + run[0].verify_ms for run in started) / 1e3,
        reused_prompt_tokens=sum(s.reused_prompt_tokens for s in steps),
    )


def _tests(drafted: Sequence[Step], widest: int) -> tuple[list[int], list[int]]:
    """At each position: how often it was tested, how often it stood."""
    tested, stood = [0] * widest, [0] * widest
    for step in drafted:
        behind: dict[int, list[int]] = {}  # the proposals that follow each
        for i, parent in enumerate(step.parents):
            behind.setdefault(parent, []).append(i)
        for depth, last in enumerate((-1, *step.path)):
            offered = behind.get(last, [])
            # Nothing is tested behind what does not stand, nor what the end of the output cut off.
            if not offered or all(step.proposals[i].status == "ignored" for i in offered):
                break
            tested[depth] += 1
            stood[depth] += any(step.proposals[i].accepted for i in offered)
    return tested, stood


def level(plain: Sequence[Step], speculative: Sequence[Step]) -> tuple[int, int]:
    """How many steps of each arm reach the latest point at which both have emitted equally many tokens.

    Two arms are only ever compared up to there: what one has done and the other not yet (or never, when a sampled
    answer ended earlier) would count for one side alone. (0, 0) when there is no such point.
    """
    reach = {n: i for i, n in enumerate(accumulate(len(s.emitted) for s in plain), 1)}
    best = (0, 0)
    for j, n in enumerate(accumulate(len(s.emitted) for s in speculative), 1):
        if n in reach:
            best = (reach[n], j)
    return best


def rounds(plain: Sequence[Step], speculative: Sequence[Step]) -> list[tuple[float, float]]:
    """(plain ms, speculative ms) from each point where both arms are level to the next; what lies behind the last
    such point is left out. Their sums are the times for the same number of tokens."""
    found, behind = [], iter(plain)
    tokens, plain_ms, fast_ms = 0, 0.0, 0.0  # tokens: how far speculation is ahead
    for step in speculative:
        tokens += len(step.emitted)
        fast_ms += step.total_ms
        while tokens > 0 and (other := next(behind, None)) is not None:
            tokens -= len(other.emitted)
            plain_ms += other.total_ms
        if tokens == 0:
            found.append((plain_ms, fast_ms))
            plain_ms = fast_ms = 0.0
    return found


def speedup(plain: Sequence[Step], speculative: Sequence[Step]) -> float | None:
    """Plain seconds / speculative seconds for the same number of tokens, prompts read included; below 1 is a
    slow-down. None before both arms have emitted a token."""
    both = rounds(plain, speculative)
    fast = sum(ms for _, ms in both)
    return sum(ms for ms, _ in both) / fast if fast > 0 else None


def percentile(values: Iterable[float], share: float) -> float | None:
    """The smallest observed value that at least `share` of the values do not exceed (nearest rank): always a value
    that was seen, so never outside [min, max]. None for no values."""
    ordered = sorted(values)
    if not ordered:
        return None
    rank = math.ceil(share * len(ordered) - 1e-9)  # 0.55 * 100 is a little above 55
    return ordered[min(len(ordered), max(1, rank)) - 1]
