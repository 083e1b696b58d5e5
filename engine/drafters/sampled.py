"""A chain drawn token by token from a model's own law: what every drafter with a law does, whatever its model."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from engine.drafters.base import UNSURE, Draft, Gate
from engine.settings import DecodeSettings
from engine.transfer import download
from engine.verify.sampling import Law, law, pick, refuse, seen_ids, uniforms


class Chain:
    """q is the model's law after the run's temperature, top-k, top-p, min-p and penalty; one-hot at temperature 0.

    gate: asked before each token is drawn, with q's largest probability (at temperature 0, where that is always 1, the
    largest of the model's own softmax)."""

    def __init__(
        self,
        settings: DecodeSettings,
        generator: torch.Generator,
        vocab_size: int,
        context: Sequence[int],
        gate: Gate,
    ) -> None:
        self.settings, self.generator, self.vocab_size, self.context, self.gate = (
            settings, generator, vocab_size, context, gate,
        )  # fmt: skip

    @torch.inference_mode()
    def draw(self, read: Callable[[list[int] | Tensor], Tensor], fresh: list[int] | Tensor, k: int) -> Draft:
        """At most k tokens. read: ids (the first time `fresh`, then the token just drawn, [1]) -> logits [1, V]."""
        drawn: list[Tensor] = []  # each [1], on the device: without a gate nothing is read back before the last
        laws: list[Law] = []
        raw: list[Tensor] = []
        sure: list[float] = []
        note: str | None = None
        penalised = self.settings.repetition_penalty != 1.0
        before: Tensor | None = None
        for depth in range(k):
            logits = read(fresh)  # [1, V]
            if penalised and before is None:
                before = seen_ids(self.context, self.vocab_size, logits.device)
            q = law(logits, self.settings, () if before is None else torch.cat([before, *drawn]))
            if self.gate.asks:
                shown = torch.softmax(logits.float(), -1) if self.settings.greedy else q.p
                sure.append(float(shown.amax()))
                if not self.gate.goes_on(sure[-1], depth):
                    note = UNSURE
                    break
            fresh = pick(q.p, uniforms(1, [self.generator], q.p.device))[0]
            drawn.append(fresh)
            laws.append(q)
            raw.append(logits[0])
        if not drawn:
            return Draft(note=note)
        ids = torch.cat(drawn)  # [k]
        checks = torch.cat([q.checks for q in laws])  # [k, 1 or 2]
        numbers = download(torch.cat([ids[None].double(), checks.T]))
        refuse(numbers[len(laws) :], len(laws), self.settings)
        tokens = [int(t) for t in numbers[: len(laws)]]
        confidence = tuple(sure[: len(tokens)]) if sure else None
        return Draft(tokens, torch.cat([q.p for q in laws]), torch.stack(raw), note, ids, confidence=confidence)
