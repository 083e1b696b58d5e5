"""THE loop: draft -> verify -> emit. One `Stream` is one run; each `next` is one step."""

import secrets
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import torch

from engine.drafters import Draft, make_drafter
from engine.ending import Ending
from engine.environment import environment
from engine.errors import EngineError
from engine.pair import Pair
from engine.record import record_step
from engine.runner import PREFILL_CHUNK
from engine.settings import DecodeSettings
from engine.stats import Stats, compute_stats
from engine.text import Detokenizer, Prompt
from engine.trace import FinishReason, Step, Trace
from engine.verify import METHODS, judge
from engine.verify.sampling import probabilities

UNLIMITED = 2**62
MAX_ALTERNATIVES = 1000


@dataclass(frozen=True, slots=True)
class Generation:
    """token_ids: the emitted ids, an end-of-sequence id included. text: what they read as, cut before a stop."""

    token_ids: list[int]
    text: str
    finish_reason: FinishReason | None
    trace: Trace
    stats: Stats


class Stream(Iterator[Step]):
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
    ) -> None:
        settings = DecodeSettings() if settings is None else settings
        _check_arguments(settings, verifier, cancel, alternatives)
        self.pair, self.target = pair, pair.target
        self.settings = replace(settings, seed=secrets.randbits(32) if settings.seed is None else settings.seed)
        self.generator = torch.Generator(self.target.device).manual_seed(self.settings.seed or 0)
        self.drafter_name, self.verifier = drafter, verifier
        self.drafter = make_drafter(drafter, pair, self.settings, self.generator)
        self.prompt = pair.encode(prompt, chat)
        self.context = list(self.prompt.ids)
        self.ending = Ending(
            Detokenizer(pair.tokenizer),
            settings.stop,
            frozenset() if settings.ignore_eos else pair.eos_ids,
            min(settings.max_new_tokens, _room(pair, len(self.context))),
        )
        if settings.stop and pair.tokenizer is None:
            raise EngineError("stop strings need a tokenizer, and this pair has none")
        self.cache = self.target.new_cache()
        self.cancel = threading.Event() if cancel is None else cancel
        self.alternatives = alternatives
        self._reading = threading.Lock()
        self.steps: list[Step] = []
        self.finish_reason: FinishReason | None = None if self.ending.left > 0 else "length"
        self.started_at = datetime.now(UTC).isoformat(timespec="seconds")

    def __next__(self) -> Step:
        if not self._reading.acquire(blocking=False):
            raise EngineError("this stream is being read by another thread; give each thread a stream of its own")
        try:
            if self.finish_reason is None and self.cancel.is_set():
                self._cancelled()
            step = self._step() if self.finish_reason is None else None
            if step is None:
                raise StopIteration
            self.steps.append(step)
            return step
        except StopIteration:
            raise
        except BaseException:
            # Half a step may be in the caches: nothing true can follow. What was done stays readable.
            self._end()
            raise
        finally:
            self._reading.release()

    @torch.inference_mode()
    def _step(self) -> Step | None:
        before, prefill = len(self.context), 0
        start = time.perf_counter()

        draft = self._draft()
        drafted = self._now()

        if not self.steps:
            prefill = self._prefill()
            if self.cancel.is_set():
                self.finish_reason = "cancelled"
                return None
        unread = self.context[self.cache.length :]
        logits = self.target.forward([*unread, *draft.tokens], self.cache, keep=len(draft.tokens) + 1)  # [k+1, V]
        verified = self._now()

        p = probabilities(logits, self.settings, self.context, draft.tokens)  # [k+1, V]
        drafted_ids = torch.tensor(draft.tokens, dtype=torch.long, device=p.device)  # [k]
        verdict = judge(p, drafted_ids, draft.probs, self.verifier, self.generator)
        cut = self.ending.take([*draft.tokens[: verdict.num_accepted], verdict.next_token])
        self.finish_reason = cut.finish_reason
        self.context += cut.ids
        self.cache.rollback(len(self.context) - 1)  # the last token is read by the next step
        if self.drafter:
            self.drafter.observe(before, min(verdict.num_accepted, len(cut.ids)))
        done = time.perf_counter()

        # The clock has stopped: showing a step costs nothing that the step is charged for.
        return record_step(
            len(self.steps), draft, p, logits, verdict, cut, self.pair.read_token, self.settings, self.verifier,
            self.alternatives, prefill, (drafted - start, verified - drafted, done - verified),
        )  # fmt: skip

    def close(self) -> None:
        """End the run where it is and let go of its cache; what it did stays readable."""
        with self._reading:
            self._end()

    def _end(self) -> None:
        if self.finish_reason is None:
            self._cancelled()
        self.cache, self.drafter = self.target.new_cache(), None

    def _cancelled(self) -> None:
        self.finish_reason = "cancelled"
        rest = self.ending.rest()
        if rest and self.steps:  # no later step can show it
            last = self.steps[-1]
            self.steps[-1] = replace(last, texts=(*last.texts[:-1], last.texts[-1] + rest))

    def _draft(self) -> Draft:
        if self.drafter is None:
            return Draft()
        # A step emits up to k + 1 tokens, so the last one needs no draft.
        k = min(self.settings.k, self.ending.left - 1)
        if k < 1:
            return Draft(note="nothing left to draft for" if self.steps else None)
        if not self.steps:
            self.drafter.begin(self.context, self.cancel)
            return Draft()
        return self.drafter.propose(self.context, k)

    def _prefill(self) -> int:
        """Reads all of the prompt but its last chunk; a Stop waits for one chunk at most. Returns the prompt's share
        of this step's reading: all but the last token."""
        while len(self.context) - self.cache.length > PREFILL_CHUNK and not self.cancel.is_set():
            at = self.cache.length
            self.target.forward(self.context[at : at + PREFILL_CHUNK], self.cache, keep=1)
        return len(self.context) - 1

    def _now(self) -> float:
        self.target.synchronize()
        return time.perf_counter()

    @property
    def stats(self) -> Stats:
        """The numbers so far."""
        return compute_stats(self.steps, len(self.prompt.ids))

    @property
    def generation(self) -> Generation:
        """The result so far: complete once the iteration has ended, and true at any point before."""
        trace = Trace(
            steps=tuple(self.steps),
            prompt_token_ids=self.prompt.ids,
            prompt_text=self.prompt.text,
            settings=self.settings.as_dict(),
            drafter=self.drafter_name,
            verifier=self.verifier,
            pair=self.pair.describe(),
            finish_reason=self.finish_reason,
            started_at=self.started_at,
            notices=(*self.pair.notices, *self.prompt.notices),
            environment=environment(self.pair.device),
        )
        return Generation(trace.token_ids, trace.text, self.finish_reason, trace, self.stats)


def _check_arguments(settings: object, verifier: str, cancel: object, alternatives: object) -> None:
    if not isinstance(settings, DecodeSettings):
        raise EngineError(f"settings must be an engine.DecodeSettings, not {type(settings).__name__}")
    if verifier not in METHODS:
        raise EngineError(f"unknown verifier {verifier!r}: choose one of {', '.join(METHODS)}")
    if cancel is not None and not callable(getattr(cancel, "is_set", None)):
        raise EngineError("cancel must be a threading.Event")
    if not isinstance(alternatives, int) or isinstance(alternatives, bool) or not 0 <= alternatives <= MAX_ALTERNATIVES:
        raise EngineError(f"alternatives must be a whole number from 0 to {MAX_ALTERNATIVES}, not {alternatives!r}")


def _room(pair: Pair, prompt_tokens: int) -> int:
    """Tokens that fit behind the prompt. Raises EngineError for a prompt that does not fit itself."""
    if pair.context_length is None:
        return UNLIMITED
    if prompt_tokens > pair.context_length:
        raise EngineError(
            f"the prompt has {prompt_tokens} tokens and {pair.target.name} reads {pair.context_length} at most; "
            "shorten the prompt"
        )
    return pair.context_length - prompt_tokens


def stream(
    pair: Pair,
    prompt: Prompt,
    settings: DecodeSettings | None = None,
    drafter: str = "none",
    verifier: str = "rejection",
    cancel: threading.Event | None = None,
    alternatives: int = 0,
    chat: bool = True,
) -> Stream:
    """Decode step by step; see `Stream`. cancel: set it and the run ends within one step, with all it had done.
    alternatives: how many of the likeliest tokens to record at each position. chat False: text prompts go as they are.
    """
    return Stream(pair, prompt, settings, drafter, verifier, cancel, alternatives, chat)


def generate(
    pair: Pair,
    prompt: Prompt,
    settings: DecodeSettings | None = None,
    drafter: str = "none",
    verifier: str = "rejection",
    cancel: threading.Event | None = None,
    alternatives: int = 0,
    chat: bool = True,
) -> Generation:
    """Decode to the end. prompt: a text (one user turn), messages, or token ids. drafter: "none" is plain decoding.
    verifier: "rejection" | "block" | "match"; all three emit the target's own law."""
    run = Stream(pair, prompt, settings, drafter, verifier, cancel, alternatives, chat)
    for _ in run:
        pass
    return run.generation
