"""What a step costs here, measured once a model: the curve that cost-optimal K is chosen by.

A step is one forward of the target over the last token and the drafted ones, and the test behind it. Widths take turns,
so that whatever else the machine does meets all of them; `bench.curves` measures the same at length, for reports.
"""

import statistics
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast
from weakref import WeakKeyDictionary

import torch

from engine.drafters.base import Draft, Drafter, Outcome, Reader
from engine.notice import Notice
from engine.runner import PREFILL_CHUNK, Runner
from engine.settings import DecodeSettings
from engine.verify import Case, judge_cases

WIDTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 65)
CONTEXT = 128
ROUNDS = 5
LEVELS = (1, 4)  # depths at which a drafter's time is taken
# Rows that are measured together at most, and tokens of all rows: what a wider step costs lies on the same line.
MOST_ROWS, MOST_TOKENS = 8, 256


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds. step_s[i]: a step over widths[i] tokens in each of `rows` rows. draft_s: the first drafted level;
    level_s: each one behind it."""

    rows: int
    widths: tuple[int, ...]
    step_s: tuple[float, ...]
    draft_s: float
    level_s: float

    def step(self, width: int) -> float:
        """Seconds of a step over `width` tokens: on the line between the measured neighbours, and on the last two's
        beyond them."""
        at = min(max(bisect_left(self.widths, width), 1), len(self.widths) - 1)
        (a, b), (low, high) = self.widths[at - 1 : at + 1], self.step_s[at - 1 : at + 1]
        return low + (high - low) * (width - a) / (b - a)

    def draft(self, levels: int) -> float:
        return self.draft_s + self.level_s * (levels - 1) if levels > 0 else 0.0

    @property
    def summary(self) -> Notice:
        """One line for people."""
        steps = [(w, s * 1e3) for w, s in zip(self.widths, self.step_s, strict=True) if w in (1, 2, 4, 8, 16)]
        draft, level = self.draft_s * 1e3, self.level_s * 1e3
        shown = " · ".join(f"{w}: {ms:.1f}" for w, ms in steps)
        text = (
            f"cost-optimal K goes by what was measured here: ms of a step over so many tokens {shown}; of a draft "
            f"{draft:.2f}, and {level:.2f} for each further token of depth"
        )
        return Notice(text, "costs", steps=steps, draft=draft, level=level)


class _Found:
    """What has been measured of one target. lock: held while measuring, so that nobody waits for another target."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.steps: dict[int, tuple[tuple[int, ...], tuple[float, ...]]] = {}
        self.drafts: dict[object, tuple[float, float]] = {}


_FOUND: "WeakKeyDictionary[Runner, _Found]" = WeakKeyDictionary()
_LOCK = threading.Lock()


def costs_of(target: Runner, drafter: object, make: Callable[[], Drafter], rows: int = 1) -> Costs:
    """Measured on the first call for these rows (rounded up to a power of two, MOST_ROWS at most) and this drafter,
    then remembered as long as the target lives. drafter: what tells its kind of drafter from others; make: one of it.
    """
    together = min(1 << (rows - 1).bit_length(), MOST_ROWS) if target.reads_rows_together else 1
    with _LOCK:
        found = _FOUND.setdefault(target, _Found())
    if together not in found.steps or drafter not in found.drafts:
        with found.lock:
            if together not in found.steps:
                found.steps[together] = _measure_steps(target, together)
            if drafter not in found.drafts:
                found.drafts[drafter] = _measure_draft(target, make)
    return Costs(together, *found.steps[together], *found.drafts[drafter])


def _context(target: Runner, length: int) -> list[int]:
    room = length if target.context_length is None else min(length, target.context_length // 2)
    return [(i * 7919 + 13) % target.vocab_size for i in range(max(room, 2))]


@torch.inference_mode()
def _measure_steps(target: Runner, rows: int) -> tuple[tuple[int, ...], tuple[float, ...]]:
    context, settings = _context(target, CONTEXT), DecodeSettings()
    room = 2**30 if target.context_length is None else target.context_length - len(context)
    widths = tuple(w for w in WIDTHS if w <= max(min(room, MOST_TOKENS // rows), 2))
    cache = target.new_cache(rows)
    target.forward(context, cache.rows(0, 1), keep=1)
    for row in range(1, rows):
        cache.copy_row(0, row)
    seconds: dict[int, list[float]] = {w: [] for w in widths}
    for turn in range(ROUNDS + 1):
        for width in widths if turn % 2 else reversed(widths):
            ids = context[:width] if width <= len(context) else [*context, *context][:width]
            target.synchronize()
            start = time.perf_counter()
            found = target.forward_rows([ids] * rows, cache, [width] * rows)
            judge_cases([Case(logits, ids[1:], None, context, settings, "rejection", None) for logits in found])
            if turn:
                seconds[width].append(time.perf_counter() - start)
            for row in range(rows):
                cache.rollback(len(context), row)
    return widths, rising([statistics.median(seconds[width]) for width in widths])


def rising(seconds: Sequence[float]) -> tuple[float, ...]:
    """A wider step never costs less; where it seems so, that is noise, and neighbours share their mean (isotonic
    regression by pooling adjacent violators)."""
    pools: list[list[float]] = []
    for s in seconds:
        pools.append([s])
        while len(pools) > 1 and statistics.mean(pools[-2]) > statistics.mean(pools[-1]):
            last = pools.pop()
            pools[-1] += last
    return tuple(statistics.mean(pool) for pool in pools for _ in pool)


@torch.inference_mode()
def _measure_draft(target: Runner, make: Callable[[], Drafter]) -> tuple[float, float]:
    """(the first level, each further one)"""
    drafter, context = make(), _context(target, CONTEXT)
    logits = begun(target, drafter, context)
    seconds: dict[int, list[float]] = {levels: [] for levels in LEVELS}
    for turn in range(ROUNDS + 1):
        for levels in LEVELS:
            target.synchronize()
            start = time.perf_counter()
            draft = drafter.propose(context, levels)
            target.synchronize()
            if turn:
                seconds[levels].append(time.perf_counter() - start)
            nothing_stood(drafter, context, draft, logits)
    first, last = (statistics.median(seconds[levels]) for levels in LEVELS)
    return first, max(last - first, 0.0) / (LEVELS[1] - LEVELS[0])


@torch.inference_mode()
def begun(target: Runner, drafter: Drafter, context: Sequence[int]) -> torch.Tensor:
    """Brings a drafter to where it may propose behind `context`, whose last token nobody has read. Returns the target's
    logits there, [1, V]."""
    taps: tuple[int, ...] = getattr(drafter, "taps", ())
    cache, prompt = target.new_cache(), list(context[:-1])
    if hasattr(drafter, "share"):
        drafter.share(lambda: cache)
    drafter.begin(prompt, threading.Event())
    logits = torch.zeros(1, target.vocab_size, device=target.device)
    for at in range(0, len(prompt), PREFILL_CHUNK):
        reading = target.read(prompt[at : at + PREFILL_CHUNK], cache, 1, None, taps)
        if taps:
            cast(Reader, drafter).read(context, at, reading.hidden)
        logits = reading.logits
    return logits


def nothing_stood(drafter: Drafter, context: Sequence[int], draft: Draft, logits: torch.Tensor) -> None:
    """Takes a proposal back, and the last token of `context` with it, which the next proposal is to read again. logits:
    [1, V]."""
    behind = logits.expand(len(draft.tokens) + 1, -1)
    drafter.observe(Outcome(len(context) - 1, (), draft, context[-1], behind))
