"""A chain drawn token by token from a model's own law: what every drafter with a law does, whatever its model."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from engine.drafters.base import UNSURE, Draft, Gate
from engine.settings import DecodeSettings
from engine.transfer import download
from engine.verify.sampling import Law, law, one_hot, pick, refuse, seen_ids, uniforms

if TYPE_CHECKING:
    from engine.heads.ready import Rows


class Chain:
    """q is the model's law after the run's temperature, top-k, top-p, min-p and penalty; one-hot at temperature 0.

    gate: asked before each token is drawn, with q's largest probability (at temperature 0, where that is always 1, the
    largest of the model's own softmax). whose: the model, in a sentence. rows: a head's, which numbers its tokens its
    own way; None: as the target does."""

    def __init__(
        self,
        settings: DecodeSettings,
        generator: torch.Generator,
        vocab_size: int,
        context: Sequence[int],
        gate: Gate,
        whose: str = "the draft model",
        rows: "Rows | None" = None,
    ) -> None:
        self.settings, self.generator, self.vocab_size, self.context, self.gate = (
            settings, generator, vocab_size, context, gate,
        )  # fmt: skip
        self.whose, self.rows = whose, rows

    @torch.inference_mode()
    def draw(self, read: Callable[[list[int] | Tensor], Tensor], fresh: list[int] | Tensor, k: int) -> Draft:
        """At most k tokens. read: ids (the first time `fresh`, then the token just drawn, [1]) -> logits [1, n]."""
        drawn: list[Tensor] = []  # each [1], on the device: without a gate nothing is read back before the last
        checks: list[Tensor] = []
        laws: list[Tensor] = []
        raw: list[Tensor] = []
        sure: list[float] = []
        note: str | None = None
        before: Tensor | None = None
        for depth in range(k):
            logits = read(fresh)  # [1, n]
            if before is None and self.settings.repetition_penalty != 1.0:
                before = self._seen(logits.device)
            q = self._law(logits, None if before is None else torch.cat([before, *drawn]))
            if self.gate.asks:
                sure.append(self._sure(logits, q))
                if not self.gate.goes_on(sure[-1], depth):
                    note = UNSURE
                    break
            if q is None:
                best, fresh = logits.max(-1)  # the lowest id of a tie
                checks.append((best - best)[:, None])
            else:
                fresh = pick(q.p, uniforms(1, [self.generator], q.p.device))[0]
                checks.append(q.checks)
                laws.append(q.p)
            drawn.append(fresh)
            raw.append(logits)
        if not drawn:
            return Draft(note=note)
        n = len(drawn)
        ids = self._target_ids(torch.cat(drawn))  # [n]
        read_back = download(torch.cat([ids[None].double(), torch.cat(checks).T]))  # checks: [n, 1 or 2]
        refuse(read_back[n:], n, self.settings, self.whose)
        shown = self._spread(torch.cat(raw), float("-inf"))  # [n, V]
        probs = self._spread(torch.cat(laws), 0.0) if laws else one_hot(ids, shown.shape[-1])
        confidence = tuple(sure[:n]) if sure else None
        return Draft([int(t) for t in read_back[:n]], probs, shown, note, ids, confidence=confidence)

    def _law(self, logits: Tensor, seen: Tensor | None) -> Law | None:
        """None where it is one-hot on the largest of the logits as they are, which is what most runs ask for."""
        if self.settings.greedy and seen is None:
            return None
        return law(logits, self.settings, () if seen is None else seen)

    def _sure(self, logits: Tensor, q: Law | None) -> float:
        """What the gate is asked with. Numbers that are none would pass for a draft that is not sure."""
        if self.settings.greedy:
            logits = logits.float()
            likeliest = (logits.amax(-1) - logits.logsumexp(-1)).exp()
            checks = likeliest - likeliest
        else:
            assert q is not None
            likeliest, checks = q.p.amax(-1), q.checks.flatten()
        found = download(torch.cat([likeliest, checks]))
        refuse(found[1:], 1, self.settings, self.whose)
        return found[0]

    def _seen(self, device: torch.device) -> Tensor:
        ids = seen_ids(self.context, self.vocab_size, device)
        return ids if self.rows is None else self.rows.indexes_of(ids, self.vocab_size)

    def _target_ids(self, ids: Tensor) -> Tensor:
        return ids if self.rows is None else self.rows.target_ids(ids)

    def _spread(self, rows: Tensor, fill: float) -> Tensor:
        return rows if self.rows is None else self.rows.spread(rows, self.vocab_size, fill)
