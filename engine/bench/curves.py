"""What a step costs, measured: t_verify(B, w) of a target forward over w tokens in each of B rows, and t_draft(B)."""

import itertools
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from engine.bench.suites import BenchPrompt
from engine.costs import begun, nothing_stood
from engine.drafters import Draft, make_drafter
from engine.errors import EngineError
from engine.pair import Pair
from engine.runner import PREFILL_CHUNK, Runner
from engine.settings import DecodeSettings


class Stopped(Exception):  # noqa: N818  # no error: the user asked for it
    """The user asked for an end: what was half measured is dropped."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds: the median of n, the lowest and the highest."""

    median_s: float
    low_s: float
    high_s: float
    n: int

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Timing":
        return cls(statistics.median(seconds), min(seconds), max(seconds), len(seconds))


@dataclass(frozen=True, slots=True)
class VerifyCurve:
    """times[i]: one target forward over widths[i] tokens in each of `batch` rows, behind `context` tokens a row."""

    batch: int
    context: int
    widths: tuple[int, ...]
    times: tuple[Timing, ...]

    def seconds(self, width: int) -> float | None:
        """The median; None for a width that was not measured."""
        return next((t.median_s for w, t in zip(self.widths, self.times, strict=True) if w == width), None)

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "widths": list(self.widths), "times": [asdict(t) for t in self.times]}

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> "VerifyCurve":
        return cls(d["batch"], d["context"], tuple(d["widths"]), tuple(Timing(**t) for t in d["times"]))


@dataclass(frozen=True, slots=True)
class DraftCurve:
    """step: the draft phase of one step, k tokens for each of `batch` rows, behind `context` tokens a row."""

    drafter: str
    batch: int
    context: int
    k: int
    step: Timing

    @property
    def per_token_s(self) -> float:
        """Seconds for each of the k drafted positions, all rows together."""
        return self.step.median_s / self.k

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "per_token_s": self.per_token_s}

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> "DraftCurve":
        return cls(d["drafter"], d["batch"], d["context"], d["k"], Timing(**d["step"]))


def curve_context(pair: Pair, prompts: Sequence[BenchPrompt], max_new_tokens: int, widest: int) -> list[int]:
    """Token ids as long as what the suite's steps read on average: the mean prompt and half of the output. The
    prompts' own tokens one after another, and again from the start, so that look-ups find what they look for."""
    encoded = [pair.encode(p.prompt).ids for p in prompts]
    length = round(statistics.mean(map(len, encoded)) + max_new_tokens / 2)
    if pair.context_length is not None:
        length = min(length, pair.context_length - widest)
    if length < 1:
        raise EngineError(f"the context of {pair.target.name} has no room for a step of {widest} tokens")
    tokens = [t for ids in encoded for t in ids]
    cycle = tokens[: max(1, length // 2)]
    return list(itertools.islice(itertools.cycle(cycle), length))


@torch.inference_mode()
def verify_curve(
    pair: Pair, batch: int, widest: int, context: Sequence[int], rounds: int, cancel: threading.Event | None = None
) -> VerifyCurve:
    """Widths 1 to `widest` take turns, `rounds` times, after one round that is dropped. Raises Stopped."""
    target, cache = pair.target, pair.target.new_cache(batch)
    tokens = [context[i % len(context)] for i in range(widest)]
    read_prompt(target, cache.rows(0, 1), context)
    for row in range(1, batch):
        cache.copy_row(0, row)

    def forward(width: int) -> None:
        ids = tokens[:width]
        if batch == 1:
            target.forward(ids, cache, keep=width)
        else:
            target.forward_rows([ids] * batch, cache, [width] * batch)

    def undo(_: int) -> None:
        for row in range(batch):
            cache.rollback(len(context), row)

    widths = tuple(range(1, widest + 1))
    times = take_turns(widths, forward, undo, target.synchronize, rounds, cancel)
    return VerifyCurve(batch, len(context), widths, tuple(map(Timing.of, times)))


def draft_curve(
    pair: Pair,
    drafter: str,
    batch: int,
    settings: DecodeSettings,
    context: Sequence[int],
    rounds: int,
    cancel: threading.Event | None = None,
) -> DraftCurve:
    """`settings.k` tokens for each of `batch` rows. Raises Stopped."""
    generator = torch.Generator().manual_seed(settings.seed or 0)
    drafters = [one for _ in range(batch) if (one := make_drafter(drafter, pair, settings, generator)[0]) is not None]
    logits = [begun(pair.target, one, context) for one in drafters]
    proposed: list[Draft] = []

    def propose(k: int) -> None:
        proposed[:] = [one.propose(context, k) for one in drafters]

    def undo(_: int) -> None:
        for one, draft, behind in zip(drafters, proposed, logits, strict=True):
            nothing_stood(one, context, draft, behind)

    times = take_turns((settings.k,), propose, undo, pair.target.synchronize, rounds, cancel)
    return DraftCurve(drafter, batch, len(context), settings.k, Timing.of(times[0]))


def take_turns(
    cases: Sequence[int],
    work: Callable[[int], None],
    undo: Callable[[int], None],
    synchronize: Callable[[], None],
    rounds: int,
    cancel: threading.Event | None = None,
) -> list[list[float]]:
    """seconds[case][round] of `work(case)`. All cases in each round, each round from another case on and every other
    one backwards, so that what else the machine does meets all of them; one round before them is dropped."""
    seconds: list[list[float]] = [[] for _ in cases]
    for turn in range(rounds + 1):
        order = [(i + turn) % len(cases) for i in range(len(cases))]
        for case in reversed(order) if turn % 2 else order:
            if cancel is not None and cancel.is_set():
                raise Stopped
            synchronize()
            start = time.perf_counter()
            work(cases[case])
            synchronize()
            if turn:
                seconds[case].append(time.perf_counter() - start)
            undo(cases[case])
    return seconds


def read_prompt(runner: Runner, cache: Any, ids: Sequence[int]) -> None:
    """Into the cache, in chunks that bound memory."""
    for at in range(0, len(ids), PREFILL_CHUNK):
        runner.forward(list(ids[at : at + PREFILL_CHUNK]), cache, keep=1)
