"""One sequence being decoded: what it was asked, how far it has come, and its record. The loop is in `decode`."""

import secrets
import threading
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import torch

from engine.cache import SlotCache
from engine.drafters import make_drafter
from engine.ending import Ending
from engine.environment import environment
from engine.errors import EngineError
from engine.pair import Pair
from engine.prefix import PrefixCache
from engine.settings import DecodeSettings
from engine.stats import Stats, compute_stats
from engine.text import Detokenizer, Prompt
from engine.trace import FinishReason, Step, Trace
from engine.verify import METHODS

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
    ) -> None:
        settings = DecodeSettings() if settings is None else settings
        _check_arguments(settings, verifier, cancel, alternatives)
        self.pair, self.target = pair, pair.target
        self.settings = replace(settings, seed=secrets.randbits(32) if settings.seed is None else settings.seed)
        self.generator = torch.Generator().manual_seed(self.settings.seed or 0)
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
        if prefix_cache is not None:
            if not isinstance(prefix_cache, PrefixCache):
                raise EngineError("prefix_cache must be an engine.PrefixCache")
            prefix_cache.check(self.target)
        self.prefix_cache = prefix_cache
        self.cache: SlotCache = self.target.new_cache()
        self.longest = len(self.context) + self.ending.left + settings.k + 1  # positions that it may come to use
        self.target.expect(self.cache, self.longest)
        self.cancel = threading.Event() if cancel is None else cancel
        self.alternatives = alternatives
        self.steps: list[Step] = []
        self.reused = 0  # prompt tokens whose keys came from the prefix cache
        self.queued_ms = 0.0
        self.notices: tuple[str, ...] = ()
        self.finish_reason: FinishReason | None = None if self.ending.left > 0 else "length"
        self.started_at = datetime.now(UTC).isoformat(timespec="seconds")

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
            notices=(*self.pair.notices, *self.prompt.notices, *self.target.notices, *self.notices),
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
