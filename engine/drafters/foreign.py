"""A draft model of another family, with a vocabulary of its own (Timor et al. 2025, arXiv 2502.05202). Both ways are
lossless, because what is proposed is verified under the very law that it was drawn from:

- intersection (their Token-Level Intersection): the draft's law is confined to the tokens that both have, and each
  is proposed under the target's id for it;
- reencoding (Universal Assisted Generation): the draft writes on greedily, and its text, encoded for the target, is
  the proposal. It is a function of the context alone, so q is one-hot.
"""

import math
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from engine.drafters.base import Draft, Gate, Open, Outcome
from engine.drafters.foreign_text import DraftText, Speller, follow
from engine.drafters.sampled import Chain
from engine.errors import EngineError
from engine.runner import PREFILL_CHUNK, Runner
from engine.settings import DecodeSettings
from engine.token_bytes import joined
from engine.transfer import download, upload
from engine.verify.sampling import law, refuse, seen_ids
from engine.vocabulary import VocabularyMap, VocabularyReport

FULL = "the draft's context is full"
INSIDE = "the text ends inside a character that the draft cannot spell"
EMPTY = "the draft has nothing to read"
LONGER = 0.5, 4.0  # draft tokens for one of the target's: what is believed of a text


class Shared(NamedTuple):
    """On the device. targets, drafts: [n], the ids of the tokens that both have, side by side. to_draft: [V of the
    target], the draft's id for each of them."""

    targets: Tensor
    drafts: Tensor
    to_draft: Tensor


@lru_cache(maxsize=2)  # one pair's, for all its runs
def shared_tokens(words: VocabularyMap, vocab_size: int, draft_vocab_size: int, device: torch.device) -> Shared:
    """Of what both have, the tokens that both models have logits for."""
    pairs = sorted((t, d) for d, t in words.to_target.items() if t < vocab_size and d < draft_vocab_size)
    targets, drafts = (upload([pair[side] for pair in pairs], device) for side in (0, 1))
    to_draft = torch.zeros(vocab_size, dtype=torch.long, device=device)
    to_draft[targets] = drafts
    return Shared(targets, drafts, to_draft)


class _ForeignDrafter:
    """What both ways share: a cache of the context in the draft's own ids.

    The cache holds `_read`, and before each proposal it is rolled back to what that has in common with the context as
    it now reads: rejected tokens go, and so does what a re-encoding has changed.
    """

    name = "model"
    begins_in_pieces = True

    def __init__(
        self,
        runner: Runner,
        vocabulary: VocabularyReport,
        draft_tokenizer: Any,
        settings: DecodeSettings,
        vocab_size: int,
        one_to_one: bool,
    ) -> None:
        self.runner, self.settings, self.vocab_size = runner, settings, vocab_size
        self.words = vocabulary.words
        self.speller = Speller(draft_tokenizer, self.words.draft, runner.vocab_size)
        self.text = DraftText(self.words, self.speller, one_to_one)
        self.cache = runner.new_cache()
        self._read: list[int] = []

    def begin(self, prompt: Sequence[int], cancel: threading.Event) -> None:
        unread = self._unread(prompt)
        if self._room() < 1:
            return  # it will never propose
        more = self.settings.max_new_tokens + self.settings.k + 1
        self.runner.expect(self.cache, len(self.text.ids) + math.ceil(more * self._longer(len(prompt))))
        for at in range(0, len(unread), PREFILL_CHUNK):
            if cancel.is_set():
                break
            self.runner.forward(unread[at : at + PREFILL_CHUNK], self.cache, keep=1)
        self._remember([])

    def observe(self, outcome: Outcome) -> None:
        """Nothing to do: the next context says what became of the proposal."""

    def _unread(self, context: Sequence[int]) -> list[int]:
        """The ids of the context that are to be read now; the cache is rolled back to the ones before them. At least
        one, unless there are none at all."""
        self.text.extend(context)
        ids = self.text.ids
        common = min(len(ids), len(self._read))
        if ids[:common] != self._read[:common]:
            common = next(i for i, (a, b) in enumerate(zip(ids, self._read, strict=False)) if a != b)
        self.cache.rollback(max(min(common, len(ids) - 1), 0))
        self._remember([])
        return ids[self.cache.length :]

    def _remember(self, drafted: list[int]) -> None:
        self._read = [*self.text.ids, *drafted][: self.cache.length]

    def _longer(self, context_length: int) -> float:
        """Draft tokens for one of the target's, in this very text."""
        low, high = LONGER
        return min(max(len(self.text.ids) / max(context_length, 1), low), high)

    def _room(self) -> int:
        """Tokens that it may draft: the last one is never read."""
        limit = self.runner.context_length
        return 2**31 if limit is None else limit - len(self.text.ids) + 1

    def _refusal(self) -> str | None:
        """Why it cannot draft behind this context."""
        if not self.text.ids:
            return EMPTY
        if self._room() < 1:
            return FULL
        return INSIDE if self.text.held else None

    def _next(self, ids: list[int] | Tensor) -> Tensor:
        """[1, V] of the draft behind ids, which are read."""
        for at in range(0, len(ids) - PREFILL_CHUNK, PREFILL_CHUNK):
            self.runner.forward(ids[at : at + PREFILL_CHUNK], self.cache, keep=1)
        done = max(-(-len(ids) // PREFILL_CHUNK) - 1, 0) * PREFILL_CHUNK
        return self.runner.forward(ids[done:], self.cache, keep=1)


class IntersectionDrafter(_ForeignDrafter):
    """q is the draft's law over the tokens that both have, under the run's settings, in the target's ids: [n, V] of the
    target. Temperature, top-k, top-p, min-p and penalty see the confined logits, as they see the target's."""

    def __init__(
        self,
        runner: Runner,
        vocabulary: VocabularyReport,
        draft_tokenizer: Any,
        settings: DecodeSettings,
        generator: torch.Generator,
        vocab_size: int,
        gate: Gate | None = None,
    ) -> None:
        super().__init__(runner, vocabulary, draft_tokenizer, settings, vocab_size, one_to_one=True)
        self.generator = generator
        self.gate: Gate = gate or Open()
        self.shared = shared_tokens(self.words, vocab_size, runner.vocab_size, runner.device)
        if not len(self.shared.targets):
            raise EngineError(
                f"{runner.name} has no token in common with the target; use the method 'reencoding' for this draft"
            )

    @torch.inference_mode()
    def propose(self, context: Sequence[int], k: int) -> Draft:
        unread = self._unread(context)
        if note := self._refusal():
            return Draft(note=note)
        room = self._room()
        chain = Chain(self.settings, self.generator, self.vocab_size, context, self.gate)
        draft = chain.draw(self._confined, unread, min(k, room))
        self._remember([self.words.to_draft[t] for t in draft.tokens])
        return replace(draft, note=FULL) if room < k and draft.note is None else draft

    def _confined(self, fresh: list[int] | Tensor) -> Tensor:
        """The draft's ids, or one of the target's that was just drawn -> [1, V of the target], -inf for what is not in
        both."""
        logits = self._next(self.shared.to_draft[fresh] if isinstance(fresh, Tensor) else fresh)
        out = logits.new_full((1, self.vocab_size), float("-inf"))
        out[:, self.shared.targets] = logits[:, self.shared.drafts]
        return out


class ReencodingDrafter(_ForeignDrafter):
    """Deterministic. Of the text that the draft writes, the last token in the target's ids is not proposed: the next
    letters might have been part of it."""

    def __init__(
        self,
        runner: Runner,
        vocabulary: VocabularyReport,
        tokenizer: Any,
        draft_tokenizer: Any,
        settings: DecodeSettings,
        vocab_size: int,
    ) -> None:
        super().__init__(runner, vocabulary, draft_tokenizer, settings, vocab_size, one_to_one=False)
        self.target = Speller(tokenizer, self.words.target, vocab_size)
        self.greedy = replace(settings, temperature=0.0)

    @torch.inference_mode()
    def propose(self, context: Sequence[int], k: int) -> Draft:
        unread = self._unread(context)
        if note := self._refusal():
            return Draft(note=note)
        room = self._room()
        # More than was asked for, because the last is not proposed, and in the draft's smaller or larger steps.
        count = math.ceil((k + 1) * self._longer(len(context))) + 1
        written = self._write(unread, min(count, room))
        whole = next((n for n, i in enumerate(written) if i not in self.words.draft), None)
        text = joined(self.words.draft, written[:whole])
        tokens = follow(self.words, self.target, context, text)
        if whole is None:
            tokens = tokens[:-1]
            note = FULL if room < count else None if tokens else "the draft wrote no whole token"
        else:
            # It has ended the text, so the last token is all there; where the target has the same end, it follows.
            end = self.words.to_target.get(written[whole], self.vocab_size)
            complete = joined(self.words.target, tokens) == text
            tokens += [end] if complete and end < self.vocab_size else []
            note = None if tokens else "the draft ends the text here"
        return Draft(tokens[:k], note=note)

    def _write(self, unread: list[int], count: int) -> list[int]:
        """`count` draft ids behind the context, each the likeliest."""
        width, device = self.runner.vocab_size, self.runner.device
        penalised = self.settings.repetition_penalty != 1.0
        before = seen_ids(self.text.ids, width, device) if penalised else ()
        fresh: list[int] | Tensor = unread
        drawn: list[Tensor] = []
        checks: list[Tensor] = []
        for _ in range(count):
            seen = torch.cat([before, *drawn]) if isinstance(before, Tensor) else ()
            q = law(self._next(fresh), self.greedy, seen)
            fresh = q.p.argmax(-1)
            drawn.append(fresh)
            checks.append(q.checks)
        read = download(torch.cat([torch.cat(drawn)[None].double(), torch.cat(checks).T]))
        refuse(read[count:], count, self.greedy, "the draft model")
        ids = [int(i) for i in read[:count]]
        self._remember(ids)
        return ids


def foreign_drafter(
    runner: Runner,
    vocabulary: VocabularyReport,
    tokenizer: Any,
    draft_tokenizer: Any,
    settings: DecodeSettings,
    generator: torch.Generator,
    vocab_size: int,
    gate: Gate | None = None,
) -> IntersectionDrafter | ReencodingDrafter:
    """The drafter 'model' where the draft's vocabulary is not the target's. runner: the draft's; tokenizer and
    vocab_size: the target's. `vocabulary.method` says which of the two."""
    if vocabulary.method == "intersection":
        return IntersectionDrafter(runner, vocabulary, draft_tokenizer, settings, generator, vocab_size, gate)
    return ReencodingDrafter(runner, vocabulary, tokenizer, draft_tokenizer, settings, vocab_size)
