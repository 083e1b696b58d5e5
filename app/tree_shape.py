"""A step's proposals as branches: who follows whom, and which of them to show where the accepted path ends."""

from collections.abc import Iterator
from typing import Any

Branch = tuple[str, list[int | None]]
"""Connecting lines, and what stands behind them: indexes of proposals that follow each other; None is the step's
replacement."""


def children_of(step: Any) -> dict[int, list[int]]:
    """Of each proposal (-1: the context), the indexes of those that follow it, in the order of their tests."""
    found: dict[int, list[int]] = {}
    for i, parent in enumerate(step.parents):
        found.setdefault(parent, []).append(i)
    return found


def fallen(step: Any) -> list[int]:
    """What was proposed where the accepted path ends and fell: the rest of a chain, the siblings in a tree."""
    if not step.is_tree:
        return [i for i, p in enumerate(step.proposals) if not p.accepted]
    return children_of(step).get(step.path[-1] if step.path else -1, [])


def branches(step: Any) -> Iterator[Branch]:
    """The step's tree from top to bottom, each branch before those that leave it, what stands before what does not."""
    stands, end = {*step.path}, step.path[-1] if step.path else -1
    children: dict[int, list[int | None]] = {
        parent: sorted(found, key=lambda i: i not in stands) for parent, found in children_of(step).items()
    }
    if step.replacement is not None:
        children[end] = [None, *children.get(end, [])]

    def leaving(parent: int, indent: str) -> Iterator[Branch]:
        here = children.get(parent, [])
        for n, first in enumerate(here):
            last = n == len(here) - 1
            branch = [first]
            while (tip := branch[-1]) is not None and len(children.get(tip, [])) == 1:
                branch += children[tip]
            yield indent + ("└ " if last else "├ "), branch
            if tip is not None:
                yield from leaving(tip, indent + ("  " if last else "│ "))

    return leaving(-1, "")
