"""Early exit (self-speculation; LayerSkip, Elhoushi et al. 2024): the target's own first layers draft.

Their last hidden state goes through the target's own norm and head. They share its weights and its cache: what they
write for drafted tokens lies behind what the target holds and is written again when it verifies. A model that was not
trained to be left early drafts poorly; what it costs and what it brings are both measured.
"""

import threading
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from engine.cache import SlotCache
from engine.drafters.base import Draft, Gate, Open, Outcome
from engine.drafters.sampled import Chain
from engine.errors import EngineError
from engine.runner import Runner
from engine.settings import DecodeSettings

# Of the layers, how many draft by default.
SHARE = 3


class EarlyExitDrafter:
    """layers: how many of the first draft; by default a third of all. q is their law under the run's settings."""

    name = "early_exit"
    begins_in_pieces = True

    def __init__(
        self,
        runner: Runner,
        settings: DecodeSettings,
        generator: torch.Generator,
        layers: int | None = None,
        gate: Gate | None = None,
    ) -> None:
        most = runner.num_layers - 1
        self.layers = max(1, runner.num_layers // SHARE) if layers is None else layers
        if not most:
            raise EngineError(f"early exit needs a second layer, and {runner.name} has 1 layer; use another drafter")
        if not 1 <= self.layers <= most:
            raise EngineError(f"early exit needs from 1 to {most} of this model's {runner.num_layers} layers")
        self.runner, self.settings, self.generator = runner, settings, generator
        runner.check_layers(self.layers)
        self.gate: Gate = gate or Open()
        self._cache: Callable[[], SlotCache] | None = None

    def share(self, cache: Callable[[], SlotCache]) -> None:
        """cache: the target's, as it is at the time of asking."""
        self._cache = cache

    def begin(self, prompt: Sequence[int], cancel: threading.Event) -> None:
        """The target reads the prompt, its first layers with it."""

    def propose(self, context: Sequence[int], k: int) -> Draft:
        assert self._cache is not None
        cache = self._cache()
        held = cache.length
        if held >= len(context):
            return Draft(note="the target has not left its last token to read")
        limit = self.runner.context_length
        room = k if limit is None else min(k, limit - len(context) + 1)
        if room < 1:
            return Draft(note="the context is full")
        try:
            chain = Chain(
                self.settings, self.generator, self.runner.vocab_size, context, self.gate, "the model, left early,"
            )
            return chain.draw(lambda ids: self._read(ids, cache), list(context[held:]), room)
        finally:
            cache.rollback(held)  # of the other layers' keys there are none

    def observe(self, outcome: Outcome) -> None:
        """Nothing to undo: nothing of its own is kept."""

    def _read(self, ids: list[int] | Tensor, cache: SlotCache) -> Tensor:
        return self.runner.read(ids, cache, 1, layers=self.layers).logits
