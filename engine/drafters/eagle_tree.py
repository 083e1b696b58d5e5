"""EAGLE-2's dynamic tree (Li et al. 2024, arXiv 2406.16858): grow where the head is sure, then keep the likeliest.

A node's value is the product of the head's probabilities down to it: its guess that the target takes the whole branch.
Each level goes on from the few nodes of the highest value, in one forward of the head; of all nodes so found the best
`nodes` are kept. No child is worth more than its parent, so what is kept is a tree.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.drafters.base import Draft
from engine.errors import EngineError
from engine.transfer import download

# Followers that are looked at behind one token.
MOST_CHILDREN = 10

WHOSE = "the EAGLE head"

# states [w, hidden] and the ids down to each, [w, d] in the head's numbers -> log probabilities [w, n]
Guess = Callable[[Tensor, Tensor], Tensor]


def refuse_nan(numbers: Iterable[float]) -> None:
    if any(x != x for x in numbers):
        raise EngineError(f"{WHOSE} returned NaN; load it again, or use another drafter")


def beam(nodes: int) -> int:
    """Tokens that each level goes on from: a quarter of the tree's, from 4 to 10."""
    return min(nodes, max(4, min(10, nodes // 4)))


@dataclass(slots=True)
class Level:
    """The nodes that the next level goes on from, the most valuable first. numbers: which candidates they are [w].
    branch: the head's ids down to each [w, depth]. values: logs [w]. states: what the head puts out in front of them
    [w, hidden]. sees: [w, positions] bool, of the tree's positions in the cache, their own among them."""

    numbers: Tensor
    branch: Tensor
    values: Tensor
    states: Tensor
    sees: Tensor


class Tree:
    """Candidates level by level. guess: how the head guesses on from states."""

    def __init__(self, state: Tensor, guess: Guess, nodes: int) -> None:
        """state: [1, hidden], the head's behind the context."""
        self.guess, self.nodes = guess, nodes
        root = torch.empty(1, 0, dtype=torch.long, device=state.device)
        outside = torch.full((1,), -1, device=state.device)
        self._found: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []  # ids, log chances, log values, parents' numbers
        self._count = 0
        sees = torch.empty(1, 0, dtype=torch.bool, device=state.device)
        self.level = Level(outside, root, torch.zeros(1, device=state.device), state, sees)
        self._next: Level | None = None

    def look(self, states: Tensor) -> Tensor:
        """Finds followers of the level's nodes by their states [w, hidden]. Returns the chance that the target takes
        one behind the most valuable node."""
        level = self.level
        chances = self.guess(states, level.branch)  # [w, n]
        most = min(self.nodes if not self._found else MOST_CHILDREN, chances.shape[1])
        chance, ids = torch.topk(chances, most)  # [w, c]
        values = (level.values[:, None] + chance).flatten()
        value, best = torch.topk(values, min(beam(self.nodes), len(values)))
        rows = best // most
        self._new = (ids.flatten(), chance.flatten(), values, level.numbers.repeat_interleave(most))
        own = torch.eye(len(best), dtype=torch.bool, device=best.device)
        branch = torch.cat([level.branch[rows], ids.flatten()[best][:, None]], 1)
        sees = torch.cat([level.sees[rows], own], 1)
        self._next = Level(best + self._count, branch, value, states[rows], sees)
        return chance[0].exp().sum().clamp(max=1.0)

    def take(self) -> None:
        """The followers last found become candidates, and the best of them the level to go on from."""
        assert self._next is not None
        self._found.append(self._new)
        self._count += len(self._new[0])
        self.level, self._next = self._next, None

    def kept(self, target_ids: Callable[[Tensor], Tensor], note: str | None) -> Draft:
        """The best `nodes` of all candidates. target_ids: from the head's numbers to the target's."""
        if not self._found:
            return Draft(note=note)
        ids, chances, values, parents = (torch.cat(parts) for parts in zip(*self._found, strict=True))
        # Stable: of two that are worth the same, a parent stands before its child and is kept first.
        order = torch.sort(values, descending=True, stable=True).indices[: self.nodes].sort().values
        tokens, n = target_ids(ids[order]), len(order)
        numbers = [order, tokens, parents[order], chances[order].exp()]
        read = download(torch.cat([x.double() for x in numbers]))
        refuse_nan(read)
        place = {-1.0: -1} | {number: i for i, number in enumerate(read[:n])}
        above = tuple(place[p] for p in read[2 * n : 3 * n])
        sure = tuple(read[3 * n : 4 * n])
        return Draft([int(t) for t in read[n : 2 * n]], note=note, ids=tokens, parents=above, confidence=sure)
