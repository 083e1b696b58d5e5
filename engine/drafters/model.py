"""A second, smaller model drafts, one token at a time, from its own law under the same settings as the target."""

import threading
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from engine.drafters.base import Draft, Gate, Open, Outcome
from engine.drafters.sampled import Chain
from engine.runner import PREFILL_CHUNK, Runner
from engine.settings import DecodeSettings


class ModelDrafter:
    """q is the draft's law after the same temperature, top-k, top-p, min-p and penalty; at temperature 0 it is one-hot.

    Its cache holds exactly the tokens that it has read; whatever the run emitted and it has not read (a recovered or
    bonus token, steps without a draft) is read first. That makes a stale cache impossible.
    """

    name = "model"
    begins_in_pieces = True

    def __init__(
        self,
        runner: Runner,
        settings: DecodeSettings,
        generator: torch.Generator,
        vocab_size: int,
        unknown_id: int = 0,
        gate: Gate | None = None,
    ) -> None:
        self.runner = runner
        self.settings = settings
        self.generator = generator
        self.vocab_size = vocab_size
        self.unknown_id = unknown_id if unknown_id < runner.embedding_rows else 0
        self.gate: Gate = gate or Open()
        self.cache = runner.new_cache()

    def begin(self, prompt: Sequence[int], cancel: threading.Event) -> None:
        limit = self.runner.context_length
        if limit is not None and len(prompt) >= limit:
            return  # it will never propose
        self.runner.expect(self.cache, len(prompt) + self.settings.max_new_tokens + self.settings.k + 1)
        for at in range(self.cache.length, len(prompt), PREFILL_CHUNK):
            if cancel.is_set():
                return
            self._read(list(prompt[at : at + PREFILL_CHUNK]))

    def propose(self, context: Sequence[int], k: int) -> Draft:
        room = k if self.runner.context_length is None else self.runner.context_length - len(context) + 1
        if room < 1:
            return Draft(note="the draft's context is full")
        chain = Chain(self.settings, self.generator, self.vocab_size, context, self.gate)
        draft = chain.draw(self._read, list(context[self.cache.length :]), min(k, room))
        return replace(draft, note="the draft's context is full") if room < k and draft.note is None else draft

    def observe(self, outcome: Outcome) -> None:
        # The last drafted token was never read, so an accepted one may still be unread.
        self.cache.rollback(min(self.cache.length, outcome.context_length + outcome.accepted))

    def _read(self, ids: list[int] | Tensor) -> Tensor:
        # A target with a few more added tokens may emit ids that the draft has no embedding for; itself it draws none.
        rows = self.runner.embedding_rows
        known = ids if isinstance(ids, Tensor) else [t if t < rows else self.unknown_id for t in ids]
        logits = self.runner.forward(known, self.cache, keep=1)[:, : self.vocab_size]
        missing = self.vocab_size - logits.shape[-1]
        return torch.nn.functional.pad(logits, (0, missing), value=float("-inf")) if missing > 0 else logits
