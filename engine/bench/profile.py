"""Where a step's time goes: draft, verify (linear, attention, the rest of the forward), sampling, other.

The parts of a step are timed by the engine's own clocks, without a profiler. How a forward divides comes from a second
run under torch's profiler, as shares: it charges small operations more than they cost, so "rest" is an upper bound.
"""

import os

# Read when the profiler is first used: it would report its own starts and stops on stderr.
os.environ.setdefault("KINETO_LOG_LEVEL", "99")

import threading
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from torch.profiler import ProfilerActivity, profile

from engine.bench.suites import BenchPrompt
from engine.decode import Stream
from engine.errors import EngineError
from engine.pair import Pair
from engine.settings import DecodeSettings
from engine.spans import SPANS, emit, sampling, verify
from engine.text import Prompt
from engine.trace import Step

# Operations that multiply by weights, and those that attend; anything else in a forward is "rest".
LINEAR = (
    "aten::linear", "aten::mm", "aten::addmm", "aten::matmul", "aten::mv", "aten::addmv", "mkldnn::_linear_pointwise",
    "quantized::linear_dynamic", "aten::_weight_int4pack_mm_for_cpu", "aten::_scaled_mm",
)  # fmt: skip
ATTENTION = ("scaled_dot_product", "flash_attention", "efficient_attention", "cudnn_attention")
WARM_UP_TOKENS = 4
# Under the profiler: enough for shares, and few enough that its list of events stays short.
PROFILED_TOKENS = 24


@dataclass(frozen=True, slots=True)
class StepProfile:
    """Milliseconds a step, steps behind the first. verify is linear + attention + rest, and sampling + other is what
    lies outside the two models' forwards (with the part of draft that is no forward). steps: how many were timed."""

    arm: str
    steps: int
    draft_ms: float
    verify_ms: float
    linear_ms: float
    attention_ms: float
    rest_ms: float
    sampling_ms: float
    other_ms: float

    @property
    def step_ms(self) -> float:
        return self.draft_ms + self.verify_ms + self.sampling_ms + self.other_ms

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "step_ms": self.step_ms}


def profile_steps(
    pair: Pair,
    prompts: Iterable[Prompt | BenchPrompt],
    settings: DecodeSettings | None = None,
    drafter: str = "prompt_lookup",
    verifier: str = "rejection",
    progress: Callable[[int, int], None] | None = None,
    cancel: threading.Event | None = None,
) -> list[StepProfile]:
    """Plain and speculative decoding of the same prompts, each timed and then profiled; what was done when it was
    cancelled. Raises EngineError when no prompt has a step behind the first, and on a GPU, where a graph's operations
    are not the host's to see."""
    if pair.target.device.type != "cpu":
        raise EngineError("a step is profiled on a CPU; on a GPU use NVIDIA's own profiler over `specscope generate`")
    settings = replace(settings or DecodeSettings(), seed=0)
    cancel = cancel or threading.Event()
    texts = [p.prompt if isinstance(p, BenchPrompt) else p for p in prompts]
    arms = ("none",) if drafter == "none" else ("none", drafter)
    timed: dict[str, list[Step]] = {arm: [] for arm in arms}
    shares: dict[str, dict[str, float]] = {arm: {} for arm in arms}
    for done, text in enumerate(texts):
        for arm in arms:
            if done == 0:  # the first forwards of a process set up kernels
                _steps(Stream(pair, text, replace(settings, max_new_tokens=WARM_UP_TOKENS), arm, verifier, cancel))
            timed[arm] += _steps(Stream(pair, text, settings, arm, verifier, cancel))
            short = replace(settings, max_new_tokens=min(settings.max_new_tokens, PROFILED_TOKENS))
            for name, ms in _profiled(Stream(pair, text, short, arm, verifier, cancel)).items():
                shares[arm][name] = shares[arm].get(name, 0.0) + ms
        if cancel.is_set():
            break
        if progress:
            progress(done + 1, len(texts))
    found = [_step_profile(arm, timed[arm], shares[arm]) for arm in arms if timed[arm]]
    if not found and not cancel.is_set():
        raise EngineError("nothing was profiled: every run ended with its first token")
    return found


def _steps(run: Stream) -> list[Step]:
    """The steps behind the first, which reads the prompt."""
    return list(run)[1:]


def _profiled(run: Stream) -> dict[str, float]:
    """Milliseconds in each span, and in each kind of operation of the verify span, under the profiler."""
    next(run, None)
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for _ in run:
            pass
    found: dict[str, float] = {}

    def add(name: str, us: float) -> None:
        found[name] = found.get(name, 0.0) + us / 1e3

    for event in profiler.events() or ():
        if event.name in SPANS:
            add(event.name, event.cpu_time_total)
        elif _span_of(event) == verify:
            add(_kind(event), event.self_cpu_time_total)
    return found


def _span_of(event: Any) -> str | None:
    while event is not None and event.name not in SPANS:
        event = event.cpu_parent
    return None if event is None else str(event.name)


def _kind(event: Any) -> str:
    """Of the operation, or of the one that called it."""
    while event is not None and event.name not in SPANS:
        if event.name in LINEAR:
            return "linear"
        if any(word in event.name for word in ATTENTION):
            return "attention"
        event = event.cpu_parent
    return "rest"


def _step_profile(arm: str, steps: list[Step], shares: dict[str, float]) -> StepProfile:
    count = len(steps)
    verify_ms = sum(s.verify_ms for s in steps) / count
    other_ms = sum(s.other_ms for s in steps) / count
    whole = shares.get(verify, 0.0)
    linear, attention = (verify_ms * shares.get(k, 0.0) / whole if whole else 0.0 for k in ("linear", "attention"))
    outside = shares.get(emit, 0.0)
    sampled = other_ms * shares.get(sampling, 0.0) / outside if outside else 0.0
    return StepProfile(
        arm="plain" if arm == "none" else arm,
        steps=count,
        draft_ms=sum(s.draft_ms for s in steps) / count,
        verify_ms=verify_ms,
        linear_ms=linear,
        attention_ms=attention,
        rest_ms=verify_ms - linear - attention,
        sampling_ms=sampled,
        other_ms=other_ms - sampled,
    )
