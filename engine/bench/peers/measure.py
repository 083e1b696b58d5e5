"""The race itself: every arm decodes every prompt, in turns, and what went wrong is told in sentences."""

import threading
import time
from collections.abc import Callable, Sequence

import torch

from engine.bench.limit import read_bandwidth
from engine.bench.peers.base import PeerArm, PeerRun
from engine.bench.peers.report import ArmLabel, PeerReport, Sample, Skipped
from engine.errors import EngineError, sentence

WARM_UP_TOKENS = 8
# Thread pools spin for a while after their work (Intel's OpenMP for 0.2 s), which would slow whoever comes next.
SETTLE_S = 0.25


def measure_peers(
    arms: Sequence[PeerArm],
    prompts: Sequence[tuple[str, Sequence[int]]],
    max_new_tokens: int,
    baseline: str,
    repeats: int = 1,
    progress: Callable[[int, int], None] | None = None,
    loading: Callable[[str], None] | None = None,
    cancel: threading.Event | None = None,
    settle_s: float = SETTLE_S,
    device: torch.device | None = None,
) -> PeerReport:
    """Decode every prompt `repeats` times with every arm that is there, after a warm-up that is dropped.

    prompts: (category, token ids) each. Arms take turns prompt by prompt, and who goes first rotates, so whatever
    slows the machine slows all. An arm that is absent, fails to load or crashes is dropped with a sentence and the
    others go on. cancel: the rounds (one prompt, all arms) that are whole by then are reported. loading(name) is
    called before an arm loads, progress(done, total) after each round. settle_s: seconds of rest before each run.
    device: where the arms' weights are; its memory is then measured, once before the rounds and once behind them, and
    the better of both is what the limits rest on.
    """
    if max_new_tokens < 1 or repeats < 1:
        raise EngineError("peers need at least one new token and one repeat")
    cancel = cancel or threading.Event()
    skipped: list[Skipped] = []
    samples: list[Sample] = []
    total = len(prompts) * repeats
    bandwidths: dict[int, float] = {}
    try:
        running = _ready(arms, prompts, max_new_tokens, skipped, loading, cancel)
        _measure_memory(bandwidths, running, device)
        for turn in range(total):
            repeat, at = divmod(turn, len(prompts))
            category, ids = prompts[at]
            runs: dict[str, PeerRun] = {}
            for arm in _rotated(running, at + repeat):
                if cancel.is_set():
                    break
                time.sleep(settle_s)
                try:
                    runs[arm.name] = arm.run(ids, max_new_tokens)
                except Exception as error:  # a peer may raise whatever its authors chose
                    running.remove(arm)
                    skipped.append(Skipped(arm.name, f"it failed at prompt {at + 1}: {sentence(error)}"))
            if cancel.is_set():
                break
            samples.append(Sample.of(category, at, runs, max_new_tokens))
            if progress:
                progress(len(samples), total)
        _measure_memory(bandwidths, running, device)
    finally:
        # Only now: arms share weights.
        for arm in arms:
            arm.close()
    labels = []
    for arm in running:
        if samples and all(arm.name in s.unequal for s in samples):
            got = samples[0].unequal[arm.name]
            skipped.append(
                Skipped(
                    arm.name,
                    f"asked for {max_new_tokens} ids it emitted {got}, and so on every prompt, as where prompt and "
                    "output together do not fit the model's context",
                )
            )
        else:
            labels.append(ArmLabel(arm.name, arm.weights, arm.threads, arm.step_bytes))
    whole = len(samples) == total
    return PeerReport(tuple(samples), tuple(labels), tuple(skipped), baseline, whole, max_new_tokens, bandwidths)


def _measure_memory(seen: dict[int, float], arms: Sequence[PeerArm], device: torch.device | None) -> None:
    """Bytes a second over as many bytes as a step of each arm reads: what fits a cache is read quicker. The better of
    what was seen so far."""
    if device is None:
        return
    for size in {arm.step_bytes for arm in arms if arm.step_bytes}:
        seen[size] = max(seen.get(size, 0.0), read_bandwidth(size, device))


def _ready(
    arms: Sequence[PeerArm],
    prompts: Sequence[tuple[str, Sequence[int]]],
    max_new_tokens: int,
    skipped: list[Skipped],
    loading: Callable[[str], None] | None,
    cancel: threading.Event,
) -> list[PeerArm]:
    """The arms that are there, loaded and warm."""
    ready: list[PeerArm] = []
    longest = max((len(ids) for _, ids in prompts), default=0)
    for arm in arms:
        if cancel.is_set():
            break
        if reason := arm.available():
            skipped.append(Skipped(arm.name, reason))
            continue
        if loading:
            loading(arm.name)
        try:
            arm.load(longest + max_new_tokens)
            if prompts:
                arm.run(prompts[0][1], min(WARM_UP_TOKENS, max_new_tokens))
        except Exception as error:  # see above
            skipped.append(Skipped(arm.name, sentence(error)))
        else:
            ready.append(arm)
    return ready


def _rotated(arms: Sequence[PeerArm], by: int) -> list[PeerArm]:
    first = by % len(arms) if arms else 0
    return [*arms[first:], *arms[:first]]
