"""THE loop: draft -> verify -> emit. One `Stream` is one run; each `next` is one step. `batch` runs it for many."""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from engine import spans
from engine.clock import Stopwatch
from engine.drafters import Draft
from engine.ending import Cut
from engine.errors import EngineError
from engine.pair import Pair
from engine.prefix import PrefixCache
from engine.record import record_step
from engine.runner import PREFILL_CHUNK
from engine.sequence import Generation, Run
from engine.settings import DecodeSettings
from engine.spans import span
from engine.text import Prompt
from engine.trace import Step
from engine.verify import Case, Judgement, Verdict, judge_case

__all__ = ["Generation", "Run", "Stream", "generate", "stream"]


class Stream(Run, Iterator[Step]):
    """Iterate for steps; ask `generation` for the result so far, at any time.

    The first step reads the prompt and emits one token without a draft, as servers do; TTFT is its time. Clocks run
    only inside `next`, so a slow reader changes no measurement. Raises EngineError when made, before any forward.
    """

    def __init__(
        self,
        pair: Pair,
        prompt: Prompt,
        settings: DecodeSettings | None = None,
        drafter: str = "none",
        verifier: str = "rejection",
        cancel: threading.Event | None = None,
        alternatives: int = 0,
        chat: bool = True,
        prefix_cache: PrefixCache | None = None,
    ) -> None:
        super().__init__(pair, prompt, settings, drafter, verifier, cancel, alternatives, chat, prefix_cache)
        self._reading = threading.Lock()

    def __next__(self) -> Step:
        if not self._reading.acquire(blocking=False):
            raise EngineError("this stream is being read by another thread; give each thread a stream of its own")
        try:
            if self.finish_reason is None and self.cancel.is_set():
                self.cancelled()
            step = self._step() if self.finish_reason is None else None
            if step is None:
                raise StopIteration
            return step
        except StopIteration:
            raise
        except BaseException:
            # Half a step may be in the caches: nothing true can follow. What was done stays readable.
            self.end()
            raise
        finally:
            self._reading.release()

    @torch.inference_mode()
    def _step(self) -> Step | None:
        drafting, verifying = Stopwatch(self.target.device), Stopwatch(self.target.device)
        start = time.perf_counter()
        with drafting.running(), span(spans.draft):
            draft = propose(self)

        with verifying.running():
            if not self.steps and not self._prefill():
                self.finish_reason = "cancelled"
                return None
            with span(spans.verify):
                ids = [*self.unread, *draft.tokens]
                logits = self.target.forward(ids, self.cache, keep=len(draft.tokens) + 1)  # [k+1, V]

        with span(spans.emit):
            emission = emit(self, draft, logits)
        total = time.perf_counter() - start

        # The clock has stopped: showing a step costs nothing that the step is charged for.
        draft_s, verify_s = drafting.take(), verifying.take()
        return record(self, emission, (draft_s, verify_s, max(total - draft_s - verify_s, 0.0)))

    def _prefill(self) -> bool:
        """Reads all of the prompt but its last chunk; a Stop waits for one chunk at most. False when it came."""
        self.reuse_prefix()
        while len(self.unread) > PREFILL_CHUNK and not self.cancel.is_set():
            self.target.forward(self.unread[:PREFILL_CHUNK], self.cache, keep=1)
        return not self.cancel.is_set()

    def close(self) -> None:
        """End the run where it is and let go of its cache; what it did stays readable."""
        with self._reading:
            self.end()


@dataclass(frozen=True, slots=True)
class Emission:
    """What one verified step came to. p, logits: [k+1, V], the target's law and what it was made from."""

    draft: Draft
    logits: Tensor
    p: Tensor
    verdict: Verdict
    cut: Cut


def propose(run: Run) -> Draft:
    """The draft half of a step. In the first one the drafter reads the prompt and proposes nothing."""
    if run.drafter is None:
        return Draft()
    if run.draft_room < 1:
        return Draft(note="nothing left to draft for" if run.steps else None)
    if not run.steps:
        run.drafter.begin(run.context, run.cancel)
        return Draft()
    return run.drafter.propose(run.context, run.draft_room)


def case_of(run: Run, draft: Draft, logits: Tensor) -> Case:
    """What the verifier is asked about a step."""
    return Case(logits, draft.tokens, draft.probs, run.context, run.settings, run.verifier, run.generator, draft.ids)


def emit(run: Run, draft: Draft, logits: Tensor) -> Emission:
    """The other half, once the target has read the draft: logits [k+1, V] from the last token before it on."""
    with span(spans.sampling):
        judged = judge_case(case_of(run, draft, logits))
    return settle(run, draft, logits, judged)


def settle(run: Run, draft: Draft, logits: Tensor, judged: Judgement) -> Emission:
    """What the verdict means for the run: its tokens, its end, its caches."""
    before, (p, verdict) = len(run.context), judged
    cut = run.ending.take([*draft.tokens[: verdict.num_accepted], verdict.next_token])
    run.context += cut.ids
    run.cache.rollback(len(run.context) - 1)  # the last token is read by the next step
    if run.drafter:
        run.drafter.observe(before, min(verdict.num_accepted, len(cut.ids)))
    if not run.steps:
        run.share_prefix()
    run.finish_reason = cut.finish_reason
    return Emission(draft, logits, p, verdict, cut)


def record(run: Run, e: Emission, seconds: tuple[float, float, float], rows: int = 1) -> Step:
    """Puts the step into the run's record. seconds: draft, verify, other. rows: runs that shared the forward."""
    prefill = 0 if run.steps else len(run.prompt.ids) - 1 - run.reused
    step = record_step(
        len(run.steps), e.draft, e.p, e.logits, e.verdict, e.cut, run.pair.read_token, run.settings, run.verifier,
        run.alternatives, prefill, seconds, 0 if run.steps else run.reused, rows,
    )  # fmt: skip
    run.steps.append(step)
    return step


def stream(
    pair: Pair,
    prompt: Prompt,
    settings: DecodeSettings | None = None,
    drafter: str = "none",
    verifier: str = "rejection",
    cancel: threading.Event | None = None,
    alternatives: int = 0,
    chat: bool = True,
    prefix_cache: PrefixCache | None = None,
) -> Stream:
    """Decode step by step; see `Stream`. cancel: set it and the run ends within one step, with all it had done.
    alternatives: how many of the likeliest tokens to record at each position. chat False: text prompts go as they are.
    prefix_cache: reads the beginning of the prompt from there where an earlier run has left it; see `PrefixCache`.
    """
    return Stream(pair, prompt, settings, drafter, verifier, cancel, alternatives, chat, prefix_cache)


def generate(
    pair: Pair,
    prompt: Prompt,
    settings: DecodeSettings | None = None,
    drafter: str = "none",
    verifier: str = "rejection",
    cancel: threading.Event | None = None,
    alternatives: int = 0,
    chat: bool = True,
    prefix_cache: PrefixCache | None = None,
) -> Generation:
    """Decode to the end. prompt: a text (one user turn), messages, or token ids. drafter: "none" is plain decoding.
    verifier: "rejection" | "block" | "match"; all three emit the target's own law. prefix_cache: see `PrefixCache`."""
    run = Stream(pair, prompt, settings, drafter, verifier, cancel, alternatives, chat, prefix_cache)
    for _ in run:
        pass
    return run.generation
