"""Medusa heads made ready for drafting: their blocks, and the rows that they guess by, in the form that their kernels
read fastest. Heads that share rows go through them together, so that the rows are read once."""

import weakref
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.heads.medusa import MedusaHeads
from engine.heads.ready import Rows, head_maker, ready


class FastMedusa:
    """Holds weights and no sequence. rows: what the first head guesses by; the others number their ids alike."""

    def __init__(self, heads: MedusaHeads, runner: Any, vocab_size: int) -> None:
        make = head_maker(runner)
        self.device, self.dtype = runner.device, runner.dtype
        self.blocks = [[ready(m, make) for m in block.modules() if isinstance(m, nn.Linear)] for block in heads.blocks]
        like = torch.empty(0, dtype=self.dtype, device=self.device)
        own = [m.weight.detach() for m in heads.lm_heads.modules() if isinstance(m, nn.Linear)]
        weights: list[Tensor | None] = [*own] or [None]
        rows = [Rows(w, heads._head, heads.draft_to_target, vocab_size, make, like) for w in weights]
        self.rows, self._own = rows[0], rows[1:] and rows

    def logits(self, hidden: Tensor, count: int) -> Tensor:
        """hidden [1, hidden], the target's last -> [count, len(rows)] float32, of the first `count` heads."""
        states = []
        for block in self.blocks[:count]:
            x = hidden
            for linear in block:
                x = x + F.silu(linear(x))
            states.append(x)
        if self._own:
            return torch.cat([rows(x) for rows, x in zip(self._own, states, strict=False)])
        return self.rows(torch.cat(states))


_FAST: "weakref.WeakKeyDictionary[MedusaHeads, tuple[object, FastMedusa]]" = weakref.WeakKeyDictionary()


@torch.inference_mode()
def fast_medusa(heads: MedusaHeads, runner: Any, vocab_size: int) -> FastMedusa:
    """The heads made ready beside this target, once; anew when their weights have changed since, as in training."""
    weights = ((p.data_ptr(), 0 if p.is_inference() else p._version) for p in heads.parameters())
    made_from = (id(runner), vocab_size, *weights)
    found = _FAST.get(heads)
    if found is None or found[0] != made_from:
        _FAST[heads] = found = (made_from, FastMedusa(heads, runner, vocab_size))
    return found[1]
