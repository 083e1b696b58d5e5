"""One sequence being decoded: what it was asked, how far it has come, and its record. The loop is in `decode`."""

import secrets
import threading
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import cast

import torch
from torch import Tensor

from engine.cache import SlotCache
from engine.control import Control, make_control
from engine.costs import Costs, costs_of
from engine.drafters import Drafter, Reader, make_drafter
from engine.ending import Ending
from engine.environment import environment
from engine.errors import EngineError
from engine.memory import OutputMemory
from engine.pair import Pair
from engine.prefix import PrefixCache
from engine.settings import DecodeSettings
from engine.stats import Stats, compute_stats
from engine.text import Detokenizer, Prompt
from engine.trace import FinishReason, Step, Trace
from engine.verify import LOSSY, METHODS

UNLIMITED = 2**62
MAX_ALTERNATIVES = 1000
LOSSY_NOTICE = (
    "typical acceptance is lossy: the output no longer follows the target's own law; use 'rejection' for one that does"
)


@dataclass(frozen=True, slots=True)
class Generation:
    """token_ids: the emitted ids, an end-of-sequence id included. text: what they read as, cut before a stop."""

    token_ids: list[int]
    text: str
    finish_reason: FinishReason | None
    trace: Trace
    stats: Stats


class Run:
    """Its own drafter, generator, ending and place in a cache, so that no other run can change what it says.

    Ask `generation` for the result so far, at any time. Raises EngineError when made, before any forward.
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
        settings = DecodeSettings() if settings is None else settings
        _check_arguments(settings, verifier, cancel, alternatives)
        self.pair, self.target = pair, pair.target
        self.settings = replace(settings, seed=secrets.randbits(32) if settings.seed is None else settings.seed)
        self.generator = torch.Generator().manual_seed(self.settings.seed or 0)
        self.drafter_name, self.verifier = drafter, verifier
        self.control = Control() if drafter == "none" else make_control(self.settings, self._costs)
        if memory is not None and not isinstance(memory, OutputMemory):
            raise EngineError("memory must be an engine.OutputMemory")
        if not isinstance(tenant, str):
            raise EngineError(f"a tenant must be named by a string, not {tenant!r}")
        self.memory, self.tenant = memory, tenant
        self.drafter, draft_notice = make_drafter(
            drafter, pair, self.settings, self.generator, self.control, verifier, memory, tenant
        )
        self.taps: tuple[int, ...] = getattr(self.drafter, "taps", ())
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
        if prefix_cache is not None:
            if not isinstance(prefix_cache, PrefixCache):
                raise EngineError("prefix_cache must be an engine.PrefixCache")
            prefix_cache.check(self.target)
        self.prefix_cache = prefix_cache
        self.cache: SlotCache = self.target.new_cache()
        share = getattr(self.drafter, "share", None)
        if share is not None:
            share(lambda: self.cache)
        # positions that it may come to use
        self.longest = len(self.context) + self.ending.left + max(settings.k, self.nodes) + 1
        self.target.expect(self.cache, self.longest)
        self.cancel = threading.Event() if cancel is None else cancel
        self.alternatives = alternatives
        self.steps: list[Step] = []
        self.reused = 0  # prompt tokens whose keys came from the prefix cache
        self.queued_ms = 0.0
        self.notices: tuple[str, ...] = () if draft_notice is None else (draft_notice,)
        self.finish_reason: FinishReason | None = None if self.ending.left > 0 else "length"
        self.started_at = datetime.now(UTC).isoformat(timespec="seconds")

    def _costs(self, rows: int) -> Costs:
        plain = replace(self.settings, k_control="fixed", seed=0)
        make = partial(make_drafter, self.drafter_name, self.pair, plain, torch.Generator().manual_seed(0))
        key = (self.drafter_name, self.nodes, id(self.pair.draft), *sorted(self.pair.heads.items()))
        return costs_of(self.target, key, lambda: cast(Drafter, make()[0]), rows)

    @property
    def nodes(self) -> int:
        """Tokens that a drafted tree may hold; 0 where drafts are chains."""
        return getattr(self.drafter, "nodes", 0)

    def show(self, start: int, hidden: dict[int, Tensor]) -> None:
        """What the target has read of the context, from `start` on and for good, for a drafter that wants to know."""
        if self.taps and self.drafter is not None:
            cast(Reader, self.drafter).read(self.context, start, hidden)

    @property
    def unread(self) -> list[int]:
        """Tokens of the context that the target has not read."""
        return self.context[self.cache.length :]

    @property
    def draft_room(self) -> int:
        """Tokens to ask a drafter for. A step emits up to k + 1 tokens, so the last one needs no draft."""
        return min(self.settings.k, self.ending.left - 1)

    def reuse_prefix(self) -> None:
        """Take over what the prefix cache knows of the prompt behind what is read; its last token stays unread."""
        if self.prefix_cache is not None:
            self.reused += self.prefix_cache.reuse(self.target, self.prompt.ids, self.cache)

    def share_prefix(self) -> None:
        """Give what has been read of the prompt to the prefix cache."""
        if self.prefix_cache is not None:
            read = min(self.cache.length, len(self.prompt.ids))
            self.prefix_cache.insert(self.target, self.prompt.ids[:read], self.cache)

    def remember(self) -> None:
        """Leave what the run has said to its tenant's later runs, where they may look things up."""
        if self.memory is not None:
            self.memory.add(self.tenant, self.context[len(self.prompt.ids) :])

    def end(self) -> None:
        """End the run where it is and let go of what it holds; what it did stays readable."""
        if self.finish_reason is None:
            self.cancelled()
        self.cache, self.drafter = self.target.new_cache(), None

    def cancelled(self) -> None:
        self.finish_reason = "cancelled"
        rest = self.ending.rest()
        if rest and self.steps:  # no later step can show it
            last = self.steps[-1]
            self.steps[-1] = replace(last, texts=(*last.texts[:-1], last.texts[-1] + rest))

    @property
    def _own_notices(self) -> tuple[str, ...]:
        lossy = (LOSSY_NOTICE,) if self.verifier in LOSSY and not self.settings.greedy else ()
        # Asked last: the answer of cost-optimal K is measured.
        control = (self.control.notice,) if self.steps and self.control.notice else ()
        return (*self.notices, *lossy, *control)

    @property
    def stats(self) -> Stats:
        """The numbers so far."""
        return compute_stats(self.steps, len(self.prompt.ids))

    @property
    def generation(self) -> Generation:
        """The result so far: complete once the run has ended, and true at any point before."""
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
            notices=(*self.pair.notices, *self.prompt.notices, *self.target.notices, *self._own_notices),
            environment=environment(self.pair.device),
            queued_ms=self.queued_ms,
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
