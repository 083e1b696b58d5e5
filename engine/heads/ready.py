"""What EAGLE and Medusa heads share in being made ready for drafting: projections, norms, the rows they guess by."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from engine.linear import Linear, MakeLinear, RmsNorm, linear_maker


def head_maker(runner: Any) -> MakeLinear:
    """How a head's layers are made fast beside a target: int8 beside one in int8 or int4, else exact."""
    quantization = "int8" if runner.quantization in ("int8", "int4") else "none"
    return linear_maker(quantization, runner.device, runner.dtype)


def ready(linear: nn.Linear, make: MakeLinear) -> Linear:
    return make(linear.weight.detach(), None if linear.bias is None else linear.bias.detach())


def ready_norm(norm: nn.Module) -> RmsNorm | None:
    """None for a norm that does nothing."""
    weight = getattr(norm, "weight", None)
    return None if weight is None else RmsNorm(weight.detach(), float(norm.eps))  # type: ignore[arg-type]


class Rows:
    """The rows that a head guesses by: states [n, hidden] -> logits [n, len(self)] in float32.

    own: the checkpoint's [draft_vocab, hidden]; None: shared, the target's rows, or what multiplies by them. targets:
    the target's id of each logit, or None where it is its index. Ids from vocab_size on, which no tokenizer knows, have
    no logit: an embedding padded past the vocabulary never proposes its padding.
    """

    def __init__(
        self,
        own: Tensor | None,
        shared: Tensor | Callable[[Tensor], Tensor] | None,
        draft_to_target: Tensor | None,
        vocab_size: int,
        make: MakeLinear,
        like: Tensor,
    ) -> None:
        """like: a tensor of the dtype and on the device that states come in."""
        weight = own if own is not None else shared
        self.targets = draft_to_target if draft_to_target is None else draft_to_target.to(like.device)
        self._kept: Tensor | slice = slice(0, vocab_size)
        if self.targets is not None and bool((self.targets >= vocab_size).any()):
            kept = (self.targets < vocab_size).nonzero()[:, 0]
            self.targets, self._kept = self.targets[kept], kept
        elif self.targets is not None:
            self._kept = slice(0, len(self.targets))
        self._multiply: Callable[[Tensor], Tensor]
        self._linear: Linear | None = None
        if isinstance(weight, Tensor):
            self._linear = make(weight[self._kept].to(like), None)
            self.count = len(weight[self._kept])
        else:
            assert weight is not None
            self._multiply = weight
            self.count = vocab_size if self.targets is None else len(self.targets)

    def __len__(self) -> int:
        return self.count

    def __call__(self, states: Tensor, norm: RmsNorm | None = None) -> Tensor:
        if self._linear is None:
            out = self._multiply(states if norm is None else norm(states))[..., self._kept]
        else:
            out = self._linear(states) if norm is None else self._linear.normed(states, norm)
        return out.float()

    def target_ids(self, ids: Tensor) -> Tensor:
        """Indexes of logits -> the target's ids."""
        return ids if self.targets is None else self.targets[ids]

    def spread(self, rows: Tensor, vocab: int, fill: float) -> Tensor:
        """[n, len(self)] -> [n, vocab], with `fill` where the head has no logit."""
        if self.targets is None and rows.shape[-1] == vocab:
            return rows
        out = rows.new_full((rows.shape[0], vocab), fill)
        if self.targets is None:
            out[:, : rows.shape[-1]] = rows
        else:
            out.scatter_(1, self.targets.expand(len(rows), -1), rows)
        return out

    def indexes_of(self, ids: Tensor, vocab: int) -> Tensor:
        """Those of the target's ids [n], each below vocab, that have a logit, as the indexes of these."""
        if self.targets is None:
            return ids[ids < self.count]
        back = torch.full((vocab,), -1, device=self.targets.device)
        back[self.targets] = torch.arange(self.count, device=back.device)
        found = back[ids]
        return found[found >= 0]
