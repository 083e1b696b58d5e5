"""What a verifier says of a draft, and the names of the rules."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from engine.errors import EngineError
from engine.tree import Parents

EXACT = ("rejection", "block", "match")
LOSSY = ("typical",)
METHODS = (*EXACT, *LOSSY)


class AcceptTest(NamedTuple):
    """One drafted token's: p and q are its probabilities, u the uniform, and accept what u was held against."""

    accept: float
    u: float
    p: float
    q: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """num_accepted: drafted tokens that stand. next_token: the target's own, drawn from the residual ("recovered") or,
    when nothing drafted was left to test, from the target's law there ("bonus"); next_p: its probability in that law.
    tests: one for each drafted token. parents: a tree's, None for a chain."""

    num_accepted: int
    next_token: int
    next_p: float
    tests: tuple[AcceptTest, ...]
    parents: Parents | None = None
    path: tuple[int, ...] = ()
    """Indexes of the drafted tokens that stand, in order."""

    @property
    def kind(self) -> Literal["recovered", "bonus"]:
        if self.parents is None:
            return "bonus" if self.num_accepted == len(self.tests) else "recovered"
        end = self.path[-1] if self.path else -1
        return "recovered" if end in self.parents else "bonus"

    @property
    def accept_probs(self) -> Tensor:
        """[K] float64: what each uniform was held against."""
        return torch.tensor([t.accept for t in self.tests], dtype=torch.float64)

    @property
    def uniforms(self) -> Tensor:
        """[K] float64"""
        return torch.tensor([t.u for t in self.tests], dtype=torch.float64)

    @classmethod
    def of(cls, numbers: Sequence[float], parents: Parents | None = None) -> "Verdict":
        """From a row of a `decide`: one past the index of the last token that stands, next_token, next_p, and accept,
        u, p and q of each drafted token. Raises EngineError for a drafted token with q = 0."""
        k = (len(numbers) - 3) // 4
        fields = (numbers[3 + i * k : 3 + (i + 1) * k] for i in range(4))
        tests = tuple(map(AcceptTest, *fields))
        if any(not t.q > 0 for t in tests):
            raise EngineError("a drafted token has q = 0: draft_probs must be the law that the token was drawn from")
        path = _path(int(numbers[0]) - 1, parents)
        return cls(len(path), int(numbers[1]), numbers[2], tests, parents, path)


def _path(end: int, parents: Parents | None) -> tuple[int, ...]:
    """From the first token to the one with index `end`; -1 is the context itself."""
    if parents is None:
        return tuple(range(end + 1))
    found = []
    while end >= 0:
        found.append(end)
        end = parents[end]
    return tuple(reversed(found))
