"""The loss: how far a head's law is from the target's own, over the ids that the head can guess."""

from typing import Any

import torch
from torch import Tensor

# Rows whose laws over the draft vocabulary are worked on at once: what a core's cache holds.
CHUNK = 256


class _Distil(torch.autograd.Function):
    """Cross entropy against soft labels through frozen rows. The gradient is known in closed form, so it is worked out
    chunk by chunk with the loss, and no law stands in memory for a backward pass."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, rows: Tensor, labels: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        grad = torch.empty_like(states)
        loss = torch.zeros((), dtype=torch.float64, device=states.device)
        first = torch.empty(states.shape[0], dtype=torch.long, device=states.device)
        for at in range(0, states.shape[0], CHUNK):
            part = slice(at, at + CHUNK)
            logits = (states[part].to(rows.dtype) @ rows.T).float()
            p, w = labels[part].float(), weights[part, None]
            best, first[part] = logits.max(-1)
            logits -= best[:, None]
            inner = (p * logits).sum(-1)
            q = logits.exp_()
            total = q.sum(-1, keepdim=True)
            loss += ((total.log()[:, 0] * p.sum(-1) - inner) * w[:, 0]).sum().double()
            q.mul_(p.sum(-1, keepdim=True) / total).sub_(p).mul_(w)
            grad[part] = (q.to(rows.dtype) @ rows).to(grad.dtype)
        ctx.save_for_backward(grad)
        ctx.mark_non_differentiable(first)
        return loss.float(), first

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = ctx.saved_tensors
        return grad * grads[0], None, None, None


def distil(states: Tensor, rows: Tensor, labels: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """states [N, H], behind the head's norm; rows [V, H], frozen; labels [N, V], the law to learn; weights [N].
    Returns the weighted sum of the cross entropies, and each row's likeliest id [N]."""
    loss, first = _Distil.apply(states, rows, labels, weights)  # type: ignore[no-untyped-call]
    return loss, first


@torch.no_grad()
def labels_of(last: Tensor, rows: Tensor) -> Tensor:
    """The target's law over the draft vocabulary: its last states [N, H] through rows [V, H] -> [N, V], rows' dtype."""
    found = torch.empty(last.shape[0], rows.shape[0], dtype=rows.dtype, device=last.device)
    for at in range(0, last.shape[0], CHUNK):
        part = slice(at, at + CHUNK)
        found[part] = torch.softmax((last[part].to(rows.dtype) @ rows.T).float(), -1).to(rows.dtype)
    return found
