"""THE loop: draft -> verify -> emit. One `Stream` is one run; each `next` is one step. `batch` runs it for many."""

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from engine import spans
from engine.clock import Stopwatch
from engine.control import QUICKER
from engine.drafters import Draft, Outcome
from engine.ending import Cut
from engine.errors import EngineError
from engine.memory import OutputMemory
from engine.pair import Pair
from engine.prefix import PrefixCache
from engine.record import record_step
from engine.runner import PREFILL_CHUNK, Reading
from engine.sequence import Generation, Run
from engine.settings import DecodeSettings
from engine.spans import span
from engine.text import Prompt
from engine.trace import Step
from engine.verify import Case, Judgement, Verdict, judge_case
from engine.verify.tree import check_siblings

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
        memory: OutputMemory | None = None,
        tenant: str = "",
    ) -> None:
        super().__init__(
            pair, prompt, settings, drafter, verifier, cancel, alternatives, chat, prefix_cache, memory, tenant
        )
        self._reading = threading.Lock()
        if self.finish_reason is None:
            self.control.prepare(1)

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
        if not self.steps and not self._prefill(drafting, verifying):
            self.finish_reason = "cancelled"
            return None
        with verifying.running(), span(spans.verify):
            ids = [*self.unread, *draft.tokens]
            reading = self.target.read(ids, self.cache, len(draft.tokens) + 1, draft.parents, self.taps)  # [n+1, V]
        with span(spans.emit):
            emission = emit(self, draft, reading, drafting)
        total = time.perf_counter() - start

        # The clock has stopped: showing a step costs nothing that the step is charged for.
        draft_s, verify_s = drafting.take(), verifying.take()
        return record(self, emission, (draft_s, verify_s, max(total - draft_s - verify_s, 0.0)))

    def _prefill(self, drafting: Stopwatch, verifying: Stopwatch) -> bool:
        """Reads all of the prompt but its last chunk; a Stop waits for one chunk at most. False when it came."""
        with verifying.running():
            self.reuse_prefix()
        while len(self.unread) > PREFILL_CHUNK and not self.cancel.is_set():
            with verifying.running(), span(spans.verify):
                reading = self.target.read(self.unread[:PREFILL_CHUNK], self.cache, 1, None, self.taps)
            with drafting.running(), span(spans.draft):
                show(self, self.cache.length, 0, reading, ())
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
    depth = run.control.depth(run.draft_room)
    if depth < 1:
        return Draft(note=QUICKER)
    draft = run.control.trim(run.drafter.propose(run.context, depth))
    if draft.parents is None:
        return draft
    check_siblings(draft.tokens, draft.parents)
    chain = draft.parents == tuple(range(-1, len(draft.tokens) - 1))
    return replace(draft, parents=None) if chain else draft


def case_of(run: Run, draft: Draft, logits: Tensor) -> Case:
    """What the verifier is asked about a step."""
    return Case(
        logits, draft.tokens, draft.probs, run.context, run.settings, run.verifier, run.generator, draft.ids,
        draft.parents,
    )  # fmt: skip


def emit(run: Run, draft: Draft, reading: Reading, drafting: Stopwatch) -> Emission:
    """The other half, once the target has read the draft: logits [n+1, V] behind the context and each token."""
    with span(spans.sampling):
        judged = judge_case(case_of(run, draft, reading.logits))
    return settle(run, draft, reading, judged, drafting)


def settle(run: Run, draft: Draft, reading: Reading, judged: Judgement, drafting: Stopwatch) -> Emission:
    """What the verdict means for the run: its tokens, its end, its caches, its drafter."""
    before, (p, verdict) = len(run.context), judged
    cut = run.ending.take([*(draft.tokens[i] for i in verdict.path), verdict.next_token])
    run.context += cut.ids
    kept = verdict.path[: len(cut.ids) - 1]
    run.cache.keep(before, kept)  # the last token is read by the next step
    if run.drafter:
        with drafting.running(), span(spans.draft):
            show(run, before, len(draft.tokens), reading, kept)
            outcome = Outcome(before, verdict.path[: len(cut.ids)], draft, verdict.next_token, reading.logits)
            run.drafter.observe(outcome)
            run.control.observe(outcome)
    if not run.steps:
        run.share_prefix()
    run.finish_reason = cut.finish_reason
    if run.finish_reason is not None:
        run.remember()
    return Emission(draft, reading.logits, p, verdict, cut)


def show(run: Run, length: int, drafted: int, reading: Reading, kept: Sequence[int]) -> None:
    """To a drafter with taps: of what was read up to `length` tokens of context and, behind them, a draft, what stays.
    kept: indexes of the drafted tokens that do."""
    if run.taps:
        read = len(reading.hidden[run.taps[0]]) - drafted  # of the context
        rows = [*range(read), *(read + i for i in kept)]
        run.show(length - read, {tap: reading.hidden[tap][rows] for tap in run.taps})


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
    memory: OutputMemory | None = None,
    tenant: str = "",
) -> Stream:
    """Decode step by step; see `Stream`. cancel: set it and the run ends within one step, with all it had done.
    alternatives: how many of the likeliest tokens to record at each position. chat False: text prompts go as they are.
    prefix_cache: reads the beginning of the prompt from there where an earlier run has left it; see `PrefixCache`.
    memory: "suffix" and "composite" draft from the outputs that `tenant`'s earlier runs left there, and the run leaves
    its own; see `OutputMemory`.
    """
    return Stream(pair, prompt, settings, drafter, verifier, cancel, alternatives, chat, prefix_cache, memory, tenant)


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
    memory: OutputMemory | None = None,
    tenant: str = "",
) -> Generation:
    """Decode to the end. prompt: a text (one user turn), messages, or token ids. drafter: "none" is plain decoding.
    verifier: "rejection" | "block" | "match", which all emit the target's own law, or "typical", which does not.
    prefix_cache, memory, tenant: see `stream`."""
    run = Stream(pair, prompt, settings, drafter, verifier, cancel, alternatives, chat, prefix_cache, memory, tenant)
    for _ in run:
        pass
    return run.generation
