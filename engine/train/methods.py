"""What the two kinds of head learn from a lesson, and what they would draft from every position of it."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.heads.eagle import EagleHead
from engine.heads.medusa import MedusaHeads
from engine.train.distil import distil, labels_of
from engine.train.settings import TrainSettings
from engine.train.teacher import Lesson
from engine.train.unroll import unroll

Head = EagleHead | MedusaHeads
# Of entries that no draft of the head would reach, one in so many is trained on.
SPARE = 6


@dataclass(frozen=True, slots=True)
class Step:
    """loss: to go down. hits: per position, entries where head and target like the same token best; counts: entries."""

    loss: Tensor
    hits: list[float]
    counts: list[int]


def depths_of(head: Head, depths: int) -> int:
    return head.shape.num_heads if isinstance(head, MedusaHeads) else depths


def mixed(like: Tensor) -> AbstractContextManager[Any]:
    """Half precision arithmetic over float32 weights, where the target runs in half precision itself."""
    half = like.dtype in (torch.bfloat16, torch.float16)
    return torch.autocast(like.device.type, like.dtype if half else torch.bfloat16, enabled=half)


def states(head: Head, lesson: Lesson, depths: int) -> list[Tensor]:
    """For each depth [B, S - 1, hidden], what the rows of the draft vocabulary read. Entry t guesses token t + 2 from
    base t - depth."""
    if isinstance(head, EagleHead):
        return [head.norm(x) for x in unroll(head, lesson.ids, lesson.features, depths)]
    found = head.states(lesson.last[:, :-1]).unbind(-2)
    return [F.pad(x, (0, 0, d, 0))[:, : x.shape[1]] for d, x in enumerate(found)]


def entries(lesson: Lesson, depth: int = 0) -> Tensor:
    """[B, S - 1] bool: entries that stand in their text and whose base does."""
    at = torch.arange(lesson.ids.shape[1] - 1, device=lesson.ids.device)
    ends = torch.tensor(lesson.lengths, device=lesson.ids.device) - 1
    return (at >= depth) & (at < ends[:, None])


def learn(
    head: Head, rows: Tensor, index: Tensor, lesson: Lesson, settings: TrainSettings, depths: int, step: int = 0
) -> Step:
    """One lesson's loss: cross entropy to the target's law over the draft vocabulary, a mean over `depths` depths.

    rows: [draft_vocab, hidden], the target's. index: [V], the head's id of each of the target's, -1 where it has none.
    Entries whose likeliest token the head cannot guess are left out. An EAGLE head's deeper entries count where its own
    draft has led to the text so far, as only those are ever reached, and one in `SPARE` of the others, by turns.
    """
    first = entries(lesson)
    labels = labels_of(lesson.last[:, 1:][first], rows)  # [N, draft_vocab]
    wanted = index[lesson.best[:, 1:][first]]
    weights = (wanted >= 0).float()
    total = torch.zeros((), device=rows.device)
    hits, counts, shares = [], [], 0.0
    spare = (torch.arange(first.numel(), device=first.device).view(first.shape) + step) % SPARE == 0
    reached = torch.ones_like(first)
    with mixed(lesson.last):
        for depth, state in enumerate(states(head, lesson, depths)[:depths]):
            here = entries(lesson, depth) & (reached | spare)
            among = here[first]
            share = settings.depth_decay**depth
            shares += share
            loss, guess = distil(state[here], rows, labels[among], weights[among])
            total = total + share * loss / weights[among].sum().clamp(min=1)
            if settings.regress:
                near = F.smooth_l1_loss(state[here].float(), lesson.last[:, 1:][here].float())
                total = total + share * settings.regress * near
            hits.append(float((guess == wanted[among]).sum()))
            counts.append(int(among.sum()))
            if isinstance(head, EagleHead):
                reached = _reached(lesson, here & reached, here, guess, index)
    return Step(total / shares, hits, counts)


def _reached(lesson: Lesson, drafted: Tensor, here: Tensor, guess: Tensor, index: Tensor) -> Tensor:
    """Entries [B, S - 1] whose draft has led to the text so far: the entry before was such a one, and guessed it.
    drafted, here: [B, S - 1], entries that were reached, and those that have a guess [N]."""
    text = F.pad(index[lesson.ids[:, 2:]], (0, 1), value=-2)  # what each entry should say
    right = torch.zeros_like(here)
    right[here] = guess == text[here]
    return F.pad((right & drafted)[:, :-1], (1, 0))


@torch.no_grad()
def guesses(head: Head, lesson: Lesson, depths: int, width: int = 1) -> Tensor:
    """[B, S - 1, depths, width], the target's ids: what the head drafts from each base, likeliest first; with the text
    itself between, so position d is the head's own only where positions before it were the text's. -1 past the end."""
    batch, long = lesson.ids.shape
    found = torch.full((batch, long - 1, depths, width), -1, dtype=torch.long, device=lesson.ids.device)
    with mixed(lesson.last):
        made = states(head, lesson, depths)
    for depth, state in enumerate(made):
        here = entries(lesson, depth)
        picked = torch.cat([_first(head, depth, x, width) for x in torch.split(state[here], 512)])
        placed = torch.full((batch, long - 1, width), -1, dtype=torch.long, device=lesson.ids.device)
        placed[here] = head.targets(picked)
        found[:, : long - 1 - depth, depth] = placed[:, depth:]
    return found


def _first(head: Head, depth: int, x: Tensor, width: int) -> Tensor:
    """States behind the head's norm [n, hidden] -> its likeliest ids [n, width]."""
    if head.rows is not None:  # in float32 always: half precision rounds close logits to the same number
        logits = F.linear(x.float(), head.rows.float())
    elif isinstance(head, MedusaHeads) and len(head.lm_heads):
        logits = head.lm_heads[depth](x.to(next(head.parameters()).dtype))
    else:
        logits = head.read_out(x.to(next(head.parameters()).dtype))
    return logits.max(-1, keepdim=True).indices if width == 1 else logits.topk(width, -1).indices
