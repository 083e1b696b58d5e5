"""Token recycling (Luo et al. 2024, arXiv 2408.08696): what did the target itself rank behind this token last time?

An adjacency table holds, for each token, the likeliest followers and their probabilities, as the target gave them when
it last read that token. Every verify pass fills it, at no cost but a look at its logits; a draft is the part of the
table that can be walked from the last token, the likeliest paths first. No training, and no text need repeat.
"""

import heapq
import itertools
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save_file
from torch import Tensor

from engine.drafters.base import Draft, Outcome
from engine.errors import EngineError

WIDTH = 8  # followers of a token, as in the paper
FILE = "recycling.safetensors"
# Of what a run sees of a token and what the seed knows of it: weight of the newest sight against all before.
NEWEST = 0.5

# Logits that are looked at together for the largest.
GROUP = 64

Followers = list[tuple[int, float]]


class AdjacencyTable:
    """followers: [V, WIDTH] ids, chances: [V, WIDTH] their probabilities, likeliest first, 0 where none is known.
    Read-only: what a run sees is its own."""

    def __init__(self, followers: NDArray[np.integer], chances: NDArray[np.floating]) -> None:
        self.followers, self.chances = followers, chances

    def of(self, token: int) -> Followers:
        if token >= len(self.followers):
            return []
        ids, chances = self.followers[token].tolist(), self.chances[token].tolist()
        return [(i, c) for i, c in zip(ids, chances, strict=True) if c > 0]

    @property
    def nbytes(self) -> int:
        return self.followers.nbytes + self.chances.nbytes

    def save(self, folder: Path, metadata: dict[str, str]) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        kind = np.uint16 if len(self.followers) <= 2**16 else np.int32
        tensors = {"followers": self.followers.astype(kind), "chances": self.chances.astype(np.float16)}
        save_file(tensors, folder / FILE, metadata)
        return folder / FILE

    @classmethod
    def load(cls, folder: Path, vocab_size: int) -> "AdjacencyTable":
        """Raises EngineError for what is no table of this vocabulary."""
        path = folder / FILE
        if not path.is_file():
            raise EngineError(f"{folder} holds no {FILE}; make one with `specscope train-head --method recycling`")
        try:
            with safe_open(path, "np") as f:
                followers, chances = f.get_tensor("followers"), f.get_tensor("chances").astype(np.float32)
        except Exception as error:
            raise EngineError(f"{path} is no adjacency table ({type(error).__name__}); make it again") from error
        if followers.shape != chances.shape or followers.ndim != 2 or len(followers) != vocab_size:
            raise EngineError(
                f"{path} is a table of {len(followers)} tokens and the target has {vocab_size}; it was made for another"
            )
        whole = np.issubdtype(followers.dtype, np.integer)
        within = whole and bool(((followers >= 0) & (followers < vocab_size)).all())
        known = np.where(chances > 0, followers.astype(np.int64), -1 - np.arange(followers.shape[1]))
        twice = bool((np.diff(np.sort(known, axis=1), axis=1) == 0).any())
        if not within or twice or not bool(((chances >= 0) & (chances <= 1)).all()):
            raise EngineError(f"{path} names tokens or probabilities that cannot be; make it again")
        return cls(followers.astype(np.int32), chances)


def largest(rows: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """torch.topk of [n, V], in a third of its time on a CPU: the k largest are all in the k groups of the largest
    maxima."""
    n, vocab = rows.shape
    if rows.device.type != "cpu" or vocab % GROUP or vocab < 4 * k * GROUP:
        found = torch.topk(rows, k, dim=-1)
        return found.values, found.indices
    groups = rows.view(n, vocab // GROUP, GROUP)
    which = torch.topk(groups.amax(-1), k, dim=-1).indices  # [n, k]
    inside = groups.gather(1, which[:, :, None].expand(-1, -1, GROUP)).flatten(1)  # [n, k * GROUP]
    found = torch.topk(inside, k, dim=-1)
    return found.values, which.gather(1, found.indices // GROUP) * GROUP + found.indices % GROUP


class RecyclingDrafter:
    """Deterministic: q is one-hot. nodes: tokens of a tree, 0 for a chain. seed: what is known before the run."""

    name = "recycling"

    def __init__(self, nodes: int = 16, seed: AdjacencyTable | None = None, width: int = WIDTH) -> None:
        self.nodes, self.seed, self.width = nodes, seed, width
        self._seen: dict[int, Followers] = {}
        self._last: int | None = None  # the token that the target reads first in the next step

    def begin(self, prompt: Sequence[int], cancel: threading.Event) -> None:
        """The target has ranked nothing yet; it will read the last token first."""
        self._last = prompt[-1]

    def propose(self, context: Sequence[int], k: int) -> Draft:
        most = self.nodes or k
        tokens: list[int] = []
        parents: list[int] = []
        confidence: list[float] = []
        order = itertools.count()
        # (-chance of the path, order, parent, depth, followers of the parent, which of them)
        heap: list[tuple[float, int, int, int, Followers, int, float]] = []

        def offer(parent: int, depth: int, reach: float, followers: Followers, which: int) -> None:
            if depth < k and which < len(followers):
                heapq.heappush(
                    heap, (-reach * followers[which][1], next(order), parent, depth, followers, which, reach)
                )

        offer(-1, 0, 1.0, self._followers(context[-1]), 0)
        while heap and len(tokens) < most:
            path, _, parent, depth, followers, which, reach = heapq.heappop(heap)
            token, chance = followers[which]
            tokens.append(token)
            parents.append(parent)
            confidence.append(chance)
            if self.nodes:
                offer(parent, depth, reach, followers, which + 1)
            offer(len(tokens) - 1, depth + 1, -path, self._followers(token), 0)
        tree = tuple(parents) if self.nodes else None
        return Draft(tokens, parents=tree, confidence=tuple(confidence), note=None if tokens else "this token is new")

    def observe(self, outcome: Outcome) -> None:
        """What the target ranked behind every token that it has just read, those of rejected branches too."""
        draft, logits = outcome.draft, outcome.logits
        read = [self._last, *draft.tokens] if self._last is not None else draft.tokens
        self._fill(read, logits[len(logits) - len(read) :])
        self._last = outcome.next_token

    def _fill(self, read: Sequence[int], logits: Tensor) -> None:
        if not read:
            return
        values, indices = largest(logits.float(), min(self.width, logits.shape[-1]))
        chances = torch.exp(values - torch.logsumexp(logits.float(), -1, keepdim=True))
        for token, ids, found in zip(read, indices.tolist(), chances.tolist(), strict=True):
            self._seen[token] = self._mixed(token, ids, found)

    def _mixed(self, token: int, ids: list[int], chances: list[float]) -> Followers:
        mixed = {i: (1 - NEWEST) * c for i, c in self._followers(token)}
        if not mixed:
            return list(zip(ids, chances, strict=True))
        for i, c in zip(ids, chances, strict=True):
            mixed[i] = mixed.get(i, 0.0) + NEWEST * c
        return sorted(mixed.items(), key=lambda item: -item[1])[: self.width]

    def _followers(self, token: int) -> Followers:
        seen = self._seen.get(token)
        if seen is None:
            return self.seed.of(token) if self.seed is not None else []
        return seen
