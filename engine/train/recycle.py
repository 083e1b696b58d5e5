"""The seed of the drafter "recycling": for each token, the followers that the target finds likeliest on average."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from engine.drafters.recycling import WIDTH, AdjacencyTable
from engine.runner import PREFILL_CHUNK, Runner

# Followers of a position that are counted; those behind them seldom add up to a place in the table.
COUNTED = 16
# Positions between two rounds of adding up, which bounds memory.
ADD_UP = 200_000


@torch.inference_mode()
def adjacency_table(
    runner: Runner,
    texts: Iterable[tuple[Sequence[int], int]],
    width: int = WIDTH,
    progress: Callable[[int], None] | None = None,
) -> AdjacencyTable:
    """texts: token ids, and from which on they count. Each is read once, and a follower's chance is the mean of the
    target's own probability for it over all places where the token stood. progress: told the positions read so far."""
    sums = _Sums(runner.vocab_size)
    for ids, start in texts:
        cache = runner.new_cache()
        for at in range(0, len(ids), PREFILL_CHUNK):
            piece = list(ids[at : at + PREFILL_CHUNK])
            skipped = max(start - at, 0)
            if skipped >= len(piece):
                runner.forward(piece, cache, keep=1)
                continue
            p = torch.softmax(runner.forward(piece, cache, keep=len(piece) - skipped).float(), -1)
            best = torch.topk(p, min(COUNTED, p.shape[-1]), dim=-1)
            sums.add(piece[skipped:], best.indices.cpu().numpy(), best.values.cpu().numpy())
        if progress:
            progress(sums.positions)
    return sums.table(width)


class _Sums:
    def __init__(self, vocab: int) -> None:
        self.vocab, self.positions = vocab, 0
        self.counts = np.zeros(vocab, dtype=np.int64)
        self.keys = np.empty(0, dtype=np.int64)  # token * vocab + follower, unique
        self.values: NDArray[Any] = np.empty(0, dtype=np.float64)
        self._new: list[tuple[NDArray[Any], NDArray[Any]]] = []
        self._waiting = 0

    def add(self, tokens: Sequence[int], followers: NDArray[Any], chances: NDArray[Any]) -> None:
        read = np.asarray(tokens, dtype=np.int64)
        np.add.at(self.counts, read, 1)
        self._new.append(((read[:, None] * self.vocab + followers).ravel(), chances.ravel().astype(np.float64)))
        self.positions += len(read)
        self._waiting += len(read)
        if self._waiting >= ADD_UP:
            self._add_up()

    def _add_up(self) -> None:
        keys = np.concatenate([self.keys, *(k for k, _ in self._new)])
        values = np.concatenate([self.values, *(v for _, v in self._new)])
        self.keys, at = np.unique(keys, return_inverse=True)
        self.values = np.bincount(at, weights=values, minlength=len(self.keys))
        self._new, self._waiting = [], 0

    def table(self, width: int) -> AdjacencyTable:
        self._add_up()
        tokens = self.keys // self.vocab
        order = np.lexsort((-self.values, tokens))
        tokens, keys, values = tokens[order], self.keys[order], self.values[order]
        first = np.searchsorted(tokens, tokens)  # where each token's followers begin
        place = np.arange(len(tokens)) - first
        kept = place < width
        followers = np.zeros((self.vocab, width), dtype=np.int32)
        chances = np.zeros((self.vocab, width), dtype=np.float32)
        followers[tokens[kept], place[kept]] = keys[kept] % self.vocab
        chances[tokens[kept], place[kept]] = values[kept] / self.counts[tokens[kept]]
        return AdjacencyTable(followers, np.clip(chances, 0.0, 1.0))
