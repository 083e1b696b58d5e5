"""How often the target takes what a head drafts, on texts that it was never trained on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from engine.errors import EngineError
from engine.heads.medusa import MedusaHeads
from engine.runner import Runner
from engine.train.methods import Head, depths_of, guesses
from engine.train.teacher import Teacher
from engine.train.texts import Text, batches

# Guesses of each Medusa head whose accuracy is kept: a tree has no use for more.
RANKS = 10


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Greedy chains, as drafted. tested[i]: drafts whose positions before i were all taken; accepted[i]: of those, the
    ones taken at i. mean_acceptance_length: tokens a step when the texts are decoded with such chains, the target's own
    included; 1 where nothing is ever taken. accuracy: for each Medusa head, the share of all positions at which its
    first, second, ... guess is the text's token."""

    tested: tuple[int, ...]
    accepted: tuple[int, ...]
    mean_acceptance_length: float
    texts: int
    accuracy: tuple[tuple[float, ...], ...] | None = None

    @property
    def conditional_acceptance(self) -> tuple[float | None, ...]:
        return tuple(a / t if t else None for a, t in zip(self.accepted, self.tested, strict=True))

    def as_dict(self) -> dict[str, Any]:
        return {
            "conditional_acceptance": list(self.conditional_acceptance),
            "tested": list(self.tested),
            "accepted": list(self.accepted),
            "mean_acceptance_length": self.mean_acceptance_length,
            "texts": self.texts,
            **({"accuracy": [list(row) for row in self.accuracy]} if self.accuracy is not None else {}),
        }


def evaluate(
    runner: Runner, head: Head, texts: Sequence[Text | Sequence[int]], depths: int = 5, batch_tokens: int = 4096
) -> HeldOut:
    """Drafts `depths` tokens (Medusa: one a head) from every position of the target's own words, and tests them
    against what the target likes best there.

    A position is tested only where the text agrees with all drafts before it, so that the target has read the very
    tokens that were drafted; greedy answers always agree with what it takes. A text without its own words (a bare
    sequence of ids too) is tested throughout. The same head on the same machine gives the same numbers.
    """
    known = [t if isinstance(t, Text) else Text(tuple(t), 0, False) for t in texts]
    known = [t for t in known if len(t.ids) > 2]
    if not known:
        raise EngineError("there is no text of at least 3 tokens to evaluate the head on")
    teacher = Teacher(runner, head.taps)
    lessons = ((b, teacher.read([known[i].ids for i in b])) for b in batches(known, batch_tokens, 0, 0))
    return score(head, (([known[i] for i in batch], lesson) for batch, lesson in lessons), depths)


def score(head: Head, lessons: Any, depths: int) -> HeldOut:
    """lessons: pairs of B texts and what the target says of them."""
    depths = depths_of(head, depths)
    ranks = min(RANKS, head.shape.draft_vocab_size) if isinstance(head, MedusaHeads) else 1
    tested, accepted = torch.zeros(depths, dtype=torch.long), torch.zeros(depths, dtype=torch.long)
    right, places = torch.zeros(depths, ranks, dtype=torch.long), torch.zeros(depths, dtype=torch.long)
    steps = tokens = count = 0
    was_training = head.training
    head.eval()
    for texts, lesson in lessons:
        found = guesses(head, lesson, depths, ranks).cpu()
        best, ids = lesson.best.cpu(), lesson.ids.cpu()
        for row, text in enumerate(texts):
            first = text.answer if text.answer < len(text.ids) else 0
            taken, asked, hit, there = _chains(found[row], best[row], ids[row], max(0, first - 1), len(text.ids))
            tested += asked.sum(0)
            accepted += taken.sum(0)
            right += hit.sum(0)
            places += there.sum(0)
            more, emitted = _walk(taken.sum(1).tolist())
            steps, tokens, count = steps + more, tokens + emitted, count + 1
    head.train(was_training)
    accuracy = None
    if isinstance(head, MedusaHeads):
        accuracy = tuple(tuple((r / max(1, int(n))).tolist()) for r, n in zip(right, places, strict=True))
    length = tokens / steps if steps else 1.0
    return HeldOut(tuple(tested.tolist()), tuple(accepted.tolist()), length, count, accuracy)


def _chains(found: Tensor, best: Tensor, ids: Tensor, start: int, end: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """One text's drafts from bases start..end - 2, found [S - 1, D, ranks]: which positions were taken, which were
    tested, [bases, D] bool; which guess is the text's own token [bases, D, ranks], and where there is one [bases, D].
    """
    base = torch.arange(start, max(start, end - 1))[:, None]
    at = base + torch.arange(found.shape[1]) + 1  # the token behind which position d is guessed
    exists = at < end
    at = at.clamp(max=end - 1)
    likes = best[at]
    text = torch.where(at + 1 < end, ids[(at + 1).clamp(max=end - 1)], -2)  # -2: nothing follows
    mine = found[base[:, 0]]  # [bases, D, ranks]
    match = (mine[..., 0] == likes) & exists
    goes_on = match & (text == likes)
    before = torch.cat([torch.ones_like(goes_on[:, :1]), goes_on[:, :-1].cummin(1).values], 1)
    asked = before & exists
    there = exists & (text >= 0)
    return match & asked, asked, (mine == text[..., None]) & there[..., None], there


def _walk(taken: list[int]) -> tuple[int, int]:
    """taken: accepted tokens from each base in order. Returns steps and tokens of a decoding that goes on behind what
    each step emitted."""
    at = steps = 0
    while at < len(taken):
        steps, at = steps + 1, at + taken[at] + 1
    return steps, min(at, len(taken)) if steps else 0
