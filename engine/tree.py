"""How drafted tokens follow each other, as a forward needs it: offsets in the text, and who sees whom."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

Parents = tuple[int, ...]
"""Of each token of a tree the index of the one before it, -1 for what is read right before the tree."""


class Block(NamedTuple):
    """The tokens of one row's forward. offsets: [width], of each, how far behind the first it stands in the text.
    hidden: [width, width] bool, whether token i must not see token j."""

    offsets: tuple[int, ...]
    hidden: Tensor


def depths(parents: Sequence[int]) -> list[int]:
    """Of each token, how many of the tree stand before it."""
    found: list[int] = []
    for parent in parents:
        found.append(0 if parent < 0 else found[parent] + 1)
    return found


@lru_cache(maxsize=32)
def block_of(chain: int, parents: Parents, width: int) -> Block:
    """`chain` tokens that follow each other, then a tree behind the last of them, then padding up to `width`."""
    tree = range(chain, chain + len(parents))
    offsets = [*range(chain), *(chain + d for d in depths(parents)), *range(tree.stop, width)]
    seen = torch.ones(width, width, dtype=torch.bool).tril_()
    for i, parent in zip(tree, parents, strict=True):
        seen[i, chain:] = seen[chain + parent, chain:] if parent >= 0 else False
        seen[i, i] = True
    return Block(tuple(offsets), ~seen)
