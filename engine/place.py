"""Where the tokens of a forward go and what each of them sees: worked out once, used by every layer.

Two of a kind. `Place` knows the lengths as numbers, and reads no more than the live part. `StaticPlace` knows them as a
tensor and nothing in it depends on their values, so that a CUDA graph captured with it holds for all lengths within its
bucket. The layers run unchanged with either.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.transfer import upload
from engine.tree import Block


class Place:
    """end: positions that attention reads. mask: [rows or 1, 1, group * width, end] added to the scores, the heads that
    share a key stacked; None where one token sees everything. positions: [rows, width], where each token's key goes,
    and rows: [rows, 1], where the rows have different lengths; else None. turns: [rows or 1, width], how far each token
    is turned, where that is not where it goes: in a tree, siblings stand at one position of the text. single: whether
    each row reads one token."""

    def __init__(
        self, lengths: list[int], width: int, group: int, like: Tensor, blocks: Sequence[Block] | None = None
    ) -> None:
        """blocks: for each row how its tokens follow each other, where any is a tree."""
        self.start, self.end = max(lengths), max(lengths) + width
        level = len(set(lengths)) == 1
        self.single = width == 1
        self.positions: Tensor | None = None
        self.rows: Tensor | None = None
        self.mask: Tensor | None = None
        self.turns: Tensor | None = None
        if level and width == 1:
            return
        starts = upload([self.start] if level and blocks is None else lengths, like.device)
        positions = _positions(starts, width)
        hidden = _hidden(positions, self.end)
        if blocks is not None:
            self.turns = starts[:, None] + upload([n for b in blocks for n in b.offsets], like.device).view(-1, width)
            for row, (start, block) in enumerate(zip(lengths, blocks, strict=True)):
                hidden[row, :, start : start + width] |= block.hidden.to(like.device)
        self.mask = _mask(hidden, group, like.dtype)
        if not level:
            self.positions, self.rows = positions, _rows(len(lengths), like.device)
            self.turns = positions if self.turns is None else self.turns

    @classmethod
    def of(cls, single: bool, mask: Tensor | None, positions: Tensor | None, rows: Tensor | None) -> "Place":
        """One made of the tensors of another, for a recording of what the layers do with it."""
        place = object.__new__(cls)
        place.single, place.mask, place.positions, place.rows = single, mask, positions, rows
        return place

    def rotation(self, table: Tensor) -> Tensor:
        """[rows or 1, width, 1, head_dim / 2]"""
        return table[None, self.start : self.end] if self.turns is None else table[self.turns]

    def targets(self, stack: Tensor) -> tuple[Tensor, ...]:
        """For each layer: [rows, width, 2 * kv_heads, head_dim] where all rows are level, else its whole buffer."""
        if self.positions is None:
            stack = stack[:, :, :, self.start : self.end].transpose(2, 3)
        return stack.unbind(0)

    def write(self, target: Tensor, kv: Tensor) -> None:
        """kv [rows, width, 2 * kv_heads, head_dim]"""
        if self.positions is None:
            target.copy_(kv)
        else:
            target[self.rows, :, self.positions] = kv


class StaticPlace(Place):
    """lengths: [rows] int64 on the device, each at most `end` - width. Attention reads `end` positions whatever the
    lengths: what lies behind a row's own must be finite, for the mask takes its weight and 0 * NaN is NaN."""

    def __init__(self, lengths: Tensor, width: int, end: int, group: int, like: Tensor) -> None:
        self.end, self.single = end, width == 1
        self.positions = self.turns = _positions(lengths, width)
        self.mask = _mask(_hidden(self.positions, end), group, like.dtype)
        self.rows = _rows(lengths.shape[0], like.device)


def _positions(starts: Tensor, width: int) -> Tensor:
    """[rows, width]"""
    return starts[:, None] + torch.arange(width, device=starts.device)


def _rows(count: int, device: torch.device) -> Tensor:
    return torch.arange(count, device=device)[:, None]


def _hidden(positions: Tensor, end: int) -> Tensor:
    """[rows, width, end]"""
    return torch.arange(end, device=positions.device) > positions[:, :, None]


def _mask(hidden: Tensor, group: int, dtype: torch.dtype) -> Tensor:
    mask = torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(hidden, float("-inf"))
    return mask.repeat(1, group, 1)[:, None]
