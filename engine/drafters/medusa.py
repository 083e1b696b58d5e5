"""Medusa (Cai et al. 2024, arXiv 2401.10774): heads over the target's last hidden state, each guessing a token further.

The newest state is that of the token before the last one, and head i guesses context[len + i] from it. No head sees
what another one guesses, so a tree is the heads' likeliest guesses combined: the sparse tree of the paper's section
2.3.3, which adds node by node the one that most likely stands whole, by the measured accuracy of each head's first,
second, ... guess, or by the heads' own probabilities where nothing was measured.
"""

import heapq
import threading
from collections.abc import Sequence

import torch
from torch import Tensor

from engine.drafters.base import UNSURE, Draft, Gate, Open, Outcome
from engine.errors import EngineError
from engine.heads.fast_medusa import fast_medusa
from engine.heads.medusa import MedusaHeads
from engine.runner import Runner
from engine.settings import DecodeSettings
from engine.transfer import download, upload
from engine.verify.sampling import punished

# Guesses of one head that a tree may hold behind one token.
MOST_RANKS = 16

# For each node: its parent's index, its depth, and which guess of that depth's head it is.
Plan = tuple[tuple[int, int, int], ...]


def plan(chances: Sequence[Sequence[float]], nodes: int) -> Plan:
    """The `nodes` nodes of the largest products of chances. chances[i][j]: of head i's guess j, whatever the other
    heads say; guesses of no chance are left out. Parents come first."""
    order = [[j for c, j in sorted((-c, j) for j, c in enumerate(row)) if c < 0] for row in chances]
    found: list[tuple[int, int, int]] = []
    if not nodes or not order or not order[0]:
        return ()
    # -product, then depth and number: of equals the shallower and earlier. rank: the place in the depth's order.
    waiting = [(-chances[0][order[0][0]], 0, 0, -1, 0, 1.0)]
    number = 1
    while waiting and len(found) < nodes:
        product, depth, _, parent, rank, above = heapq.heappop(waiting)
        found.append((parent, depth, order[depth][rank]))
        further = [(depth, parent, rank + 1, above), (depth + 1, len(found) - 1, 0, -product)]
        for d, p, r, base in further:
            if d < len(order) and r < len(order[d]):
                heapq.heappush(waiting, (-base * chances[d][order[d][r]], d, number, p, r, base))
                number += 1
    return tuple(found)


class MedusaDrafter:
    """nodes: tokens of the tree; 0 drafts the chain of each head's likeliest guess. Deterministic: q is one-hot."""

    name = "medusa"
    begins_in_pieces = True

    def __init__(
        self,
        head: MedusaHeads,
        runner: Runner,
        settings: DecodeSettings,
        generator: torch.Generator,
        vocab_size: int,
        nodes: int,
        gate: Gate | None = None,
    ) -> None:
        self.fast = fast_medusa(head, runner, vocab_size)
        self.taps, self.shape = head.taps, head.shape
        self.settings = settings
        self.gate: Gate = gate or Open()
        self.vocab_size, self.nodes = vocab_size, nodes
        self.end = 0  # positions that the target has read
        self._newest: Tensor | None = None  # [1, hidden], of the last one
        self._plans: dict[int, Plan] = {}  # by depth, where the accuracy was measured

    def begin(self, prompt: Sequence[int], cancel: threading.Event) -> None:
        """The prompt's last state comes through `read`."""

    def observe(self, outcome: Outcome) -> None:
        """Nothing of a draft is kept."""

    @torch.inference_mode()
    def read(self, context: Sequence[int], start: int, hidden: dict[int, Tensor]) -> None:
        """See `Reader.read`. Only the newest state matters, so nothing is lost where a prefix was reused."""
        states = hidden[self.taps[0]]
        if states.shape[0]:
            self.end, self._newest = start + states.shape[0], states[-1:].to(self.fast.dtype, copy=True)

    @torch.inference_mode()
    def propose(self, context: Sequence[int], k: int) -> Draft:
        if self._newest is None or self.end != len(context) - 1:
            return Draft(note="the target's hidden state in front of the last token has not been read")
        depth = min(k, self.shape.num_heads)
        chances = self._chances(self.fast.logits(self._newest, depth), context)  # [depth, n]
        top = torch.topk(chances, min(MOST_RANKS if self.nodes else 1, chances.shape[1]))
        read = download(torch.cat([top.values.double(), self.fast.rows.target_ids(top.indices).double()]))
        ranks = top.values.shape[1]
        rows = [read[at : at + ranks] for at in range(0, len(read), ranks)]
        values, ids = rows[:depth], rows[depth:]
        if any(v != v for row in values for v in row):
            raise EngineError("the Medusa heads returned NaN; load them again, or use another drafter")
        shape = self._plan(values) if self.nodes else tuple((i - 1, i, 0) for i in range(depth))
        sure, note = self._sure(values, shape)
        note = note or (f"there are {depth} heads" if depth < k else None)
        parents = tuple(p for p, _, _ in sure) if self.nodes and sure else None
        confidence = tuple(self._chance(values, d, j) for _, d, j in sure)
        return Draft([int(ids[d][j]) for _, d, j in sure], note=note, parents=parents, confidence=confidence)

    def _plan(self, values: list[list[float]]) -> Plan:
        if self.shape.accuracy is None:
            return plan(values, self.nodes)
        depth = len(values)
        if depth not in self._plans:
            measured = [row[: len(values[0])] for row in self.shape.accuracy[:depth]]
            self._plans[depth] = plan(measured, self.nodes)
        return self._plans[depth]

    def _chance(self, values: list[list[float]], depth: int, rank: int) -> float:
        """That the target takes this guess, given that it took the one before."""
        measured = None if self.shape.accuracy is None else self.shape.accuracy[depth]
        return measured[rank] if measured is not None and rank < len(measured) else values[depth][rank]

    def _sure(self, values: list[list[float]], shape: Plan) -> tuple[Plan, str | None]:
        """The plan down to the depth that the gate wants. It goes by the heads' probabilities here and now."""
        if self.gate.asks:
            for depth, row in enumerate(values):
                if not self.gate.goes_on(min(sum(row), 1.0), depth):
                    return _cut(shape, depth), UNSURE
        return shape, None

    def _chances(self, logits: Tensor, context: Sequence[int]) -> Tensor:
        """[depth, n] at the run's temperature and penalty, as the target has them."""
        settings = self.settings
        if settings.repetition_penalty != 1.0:
            ids = upload([t for t in set(context) if t < self.vocab_size], logits.device)
            seen = self.fast.rows.indexes_of(ids, self.vocab_size)
            logits = punished(logits, seen.expand(len(logits), -1), settings.repetition_penalty)
        if not settings.greedy:
            logits = (logits - logits.amax(-1, keepdim=True)) / settings.temperature
        return torch.softmax(logits, -1)


def _cut(shape: Plan, depth: int) -> Plan:
    """The nodes above `depth`, their parents numbered anew."""
    place = {-1: -1}
    kept: list[tuple[int, int, int]] = []
    for i, (parent, at, rank) in enumerate(shape):
        if at < depth:
            place[i] = len(kept)
            kept.append((place[parent], at, rank))
    return tuple(kept)
