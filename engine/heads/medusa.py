"""Medusa heads (Cai et al. 2024, arXiv 2401.10774): each guesses one token further ahead from one hidden state.

Head i reads the target's last hidden state of token t, behind the final norm, and guesses token t + 2 + i; token t + 1
is the target's own. No head sees what another one guesses, so all run at once.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.errors import EngineError
from engine.heads.eagle import check_map


@dataclass(frozen=True, slots=True)
class MedusaShape:
    """num_layers: residual blocks a head. vocab_size: the target's. draft_vocab_size: ids that the heads can guess.
    shared_head: all read the target's rows; False: each head has its own. accuracy: for each head the measured chance
    that its first, second, ... guess is the token; a tree is built from it. None: not measured."""

    num_heads: int
    hidden_size: int
    vocab_size: int
    draft_vocab_size: int
    num_layers: int = 1
    shared_head: bool = True
    accuracy: tuple[tuple[float, ...], ...] | None = None

    def __post_init__(self) -> None:
        if min(self.num_heads, self.hidden_size, self.vocab_size, self.draft_vocab_size) < 1 or self.num_layers < 0:
            raise EngineError("every size of a set of Medusa heads must be at least 1")
        if self.draft_vocab_size > self.vocab_size:
            raise EngineError(
                f"the heads guess {self.draft_vocab_size} ids, and the target has no more than {self.vocab_size}"
            )
        if self.accuracy is not None:
            object.__setattr__(self, "accuracy", tuple(tuple(float(a) for a in row) for row in self.accuracy))
            if len(self.accuracy) != self.num_heads or not all(0 <= a <= 1 for row in self.accuracy for a in row):
                raise EngineError("the measured accuracy must be a list of shares from 0 to 1 for each Medusa head")

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class ResBlock(nn.Module):
    """x + silu(linear(x)). Starts at the identity, so that an untrained head says what the target says."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + F.silu(self.linear(x))
        return out


class MedusaHeads(nn.Module):
    """blocks.i: head i's residual blocks. head: the target's rows for the ids that the heads can guess [draft_vocab,
    hidden], or what multiplies by them; lm_heads.i: head i's own rows, where shape.shared_head is False.
    draft_to_target: [draft_vocab], the target's id of each id of the heads; None: they are the same."""

    taps: tuple[int, ...] = (-1,)

    def __init__(
        self,
        shape: MedusaShape,
        head: Tensor | Callable[[Tensor], Tensor] | None = None,
        draft_to_target: Tensor | None = None,
    ) -> None:
        super().__init__()
        check_map(draft_to_target, shape.draft_vocab_size, shape.vocab_size)
        if shape.shared_head == (head is None):
            raise EngineError("give Medusa heads the target's rows where they share them, and none where they do not")
        self.shape = shape
        width, count = shape.hidden_size, shape.num_heads
        self.blocks = nn.ModuleList(
            nn.Sequential(*(ResBlock(width) for _ in range(shape.num_layers))) for _ in range(count)
        )
        own = 0 if shape.shared_head else count
        self.lm_heads = nn.ModuleList(nn.Linear(width, shape.draft_vocab_size, bias=False) for _ in range(own))
        self._head = head
        self.draft_to_target = draft_to_target

    def states(self, hidden: Tensor) -> Tensor:
        """The target's last hidden states [..., hidden] -> [..., num_heads, hidden], what each head's rows read."""
        return torch.stack([block(hidden) for block in self.blocks], -2)

    def forward(self, hidden: Tensor) -> Tensor:
        """[..., hidden] -> [..., num_heads, draft_vocab]. Ids are the heads' own; see `targets`."""
        states = self.states(hidden)
        if self.lm_heads:
            return torch.stack([own(s) for own, s in zip(self.lm_heads, states.unbind(-2), strict=True)], -2)
        return self.read_out(states)

    def read_out(self, states: Tensor) -> Tensor:
        """What the shared rows say of states [..., hidden] -> [..., draft_vocab]."""
        assert self._head is not None
        return F.linear(states, self._head) if isinstance(self._head, Tensor) else self._head(states)

    @property
    def rows(self) -> Tensor | None:
        """[draft_vocab, hidden] that all heads share; None where each has its own, or only what they make of a state is
        known."""
        return self._head if isinstance(self._head, Tensor) else None

    def targets(self, ids: Tensor) -> Tensor:
        """The target's ids of the heads' own."""
        return ids if self.draft_to_target is None else self.draft_to_target[ids]
