"""Composite: the text's own repetitions where they match, trained or recycled guesses where they do not: one draft.

Each part is asked in turn, the surest first, and their trees are laid over each other: a token that two of them guess
at one place is drafted once, with the better of their chances. A part that costs a model's time is asked only where
those before it are unsure. Every token remembers the part that it came from.
"""

import threading
from collections.abc import Sequence

from torch import Tensor

from engine.drafters.base import Draft, Drafter, Outcome

# The chance of the first token from which on a dear part is not asked.
SURE = 0.5


class CompositeDrafter:
    """parts: drafters that draft without sampling, the surest first. dear: names of those that cost a model's time.
    nodes: tokens of the tree, 0 for a chain, which is then the likeliest part's own."""

    name = "composite"

    def __init__(self, parts: Sequence[Drafter], nodes: int, dear: frozenset[str] = frozenset()) -> None:
        self.parts, self.nodes, self.dear = tuple(parts), nodes, dear
        self.taps: tuple[int, ...] = tuple(sorted({t for p in parts for t in getattr(p, "taps", ())}))

    def begin(self, prompt: Sequence[int], cancel: threading.Event) -> None:
        for part in self.parts:
            part.begin(prompt, cancel)

    def read(self, context: Sequence[int], start: int, hidden: dict[int, Tensor]) -> None:
        for part in self.parts:
            if getattr(part, "taps", ()):
                part.read(context, start, hidden)  # type: ignore[attr-defined]

    def observe(self, outcome: Outcome) -> None:
        for part in self.parts:
            part.observe(outcome)

    def propose(self, context: Sequence[int], k: int) -> Draft:
        drafts: list[tuple[str, Draft]] = []
        for part in self.parts:
            if part.name in self.dear and any(_first(draft) >= SURE for _, draft in drafts):
                continue
            drafts.append((part.name, part.propose(context, k)))
        found = [(name, draft) for name, draft in drafts if draft.tokens]
        if not found:
            return Draft(note="; ".join(f"{name}: {draft.note}" for name, draft in drafts if draft.note) or None)
        if not self.nodes:
            name, best = max(found, key=lambda item: _first(item[1]))
            return _line(name, best)
        return _merged(found, self.nodes)


def _first(draft: Draft) -> float:
    """The best chance of a token right behind the context."""
    if not draft.tokens:
        return 0.0
    chances = draft.confidence or (1.0,) * len(draft.tokens)
    return max(c for i, c in enumerate(chances) if draft.parent(i) < 0)


def _line(name: str, draft: Draft) -> Draft:
    """The likeliest branch alone."""
    kept: list[int] = []
    chances = draft.confidence or (1.0,) * len(draft.tokens)
    while behind := [i for i in range(len(draft.tokens)) if draft.parent(i) == (kept[-1] if kept else -1)]:
        kept.append(max(behind, key=lambda i: chances[i]))
    return Draft(
        [draft.tokens[i] for i in kept], confidence=tuple(chances[i] for i in kept), sources=(name,) * len(kept)
    )


def _merged(drafts: Sequence[tuple[str, Draft]], nodes: int) -> Draft:
    """One tree of all, cut to the `nodes` tokens with the likeliest paths."""
    index: dict[tuple[int, int], int] = {}
    tokens: list[int] = []
    parents: list[int] = []
    chances: list[float] = []
    sources: list[str] = []
    for name, draft in drafts:
        own: list[int] = []  # of each of the draft's tokens, its place in the tree
        given = draft.confidence or (1.0,) * len(draft.tokens)
        for i, (token, chance) in enumerate(zip(draft.tokens, given, strict=True)):
            parent = draft.parent(i)
            key = (own[parent] if parent >= 0 else -1, token)
            if key not in index:
                index[key] = len(tokens)
                tokens.append(token)
                parents.append(key[0])
                chances.append(chance)
                sources.append(name)
            elif chance > chances[index[key]]:
                chances[index[key]], sources[index[key]] = chance, name
            own.append(index[key])
    reach: list[float] = []
    for parent, chance in zip(parents, chances, strict=True):
        reach.append(chance * (reach[parent] if parent >= 0 else 1.0))
    whole = Draft(tokens, parents=tuple(parents), confidence=tuple(chances), sources=tuple(sources))
    return whole.part(sorted(sorted(range(len(tokens)), key=lambda i: (-reach[i], i))[:nodes]))
