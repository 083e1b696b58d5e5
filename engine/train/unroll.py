"""A whole text through an EAGLE head at once, as it would draft from every position: EAGLE-3's training-time test.

At depth 0 each position reads the target's state, at depth d what the head itself put out one position before at depth
d - 1. Entry t of depth d is thus the d-th token drafted from base t - d, and sees what that draft's cache would hold:
the target's states up to its base, and its own entries of depths 1 to d on the way.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.heads.eagle import EagleHead


def unroll(head: EagleHead, ids: Tensor, features: Tensor, depths: int) -> list[Tensor]:
    """ids [B, S]; features [B, S, taps * width], the target's. Returns for each depth the head's states [B, S - 1,
    hidden]: entry t guesses token t + 2. Entries t < d of depth d follow no base and mean nothing."""
    embedded = head.embed(ids[:, 1:])
    width = embedded.shape[1]
    positions = torch.arange(width, device=ids.device)[None]
    hidden = head.fuse(features[:, :-1])
    residual, q, k, v = head.enter(embedded, hidden, positions)
    attended = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    found = [head.layer.leave(residual, attended)]
    own: list[tuple[Tensor, Tensor]] = []
    for depth in range(1, depths):
        residual, q, fresh_k, fresh_v = head.enter(embedded, _later(found[-1], 1, 1), positions)
        own.append((fresh_k, fresh_v))
        shifted = [(_later(a, depth - 1 - j, 2), _later(b, depth - 1 - j, 2)) for j, (a, b) in enumerate(own)]
        found.append(head.layer.leave(residual, _attend(q, k, v, shifted, depth)))
    return found


def _attend(q: Tensor, k: Tensor, v: Tensor, own: list[tuple[Tensor, Tensor]], depth: int) -> Tensor:
    """q [B, heads, T, dim]: each sees k, v [B, kv_heads, T, dim] up to `depth` positions before it, and one key and
    value of each of `own` at its own position. Returns [B, heads, T, dim]."""
    width, dim, kv = q.shape[2], q.shape[3], k.shape[1]
    grouped = q.view(q.shape[0], kv, -1, width, dim) * dim**-0.5  # [B, kv, group, T, dim]
    scores = grouped @ k[:, :, None].transpose(-1, -2)  # [B, kv, group, T, T]
    hidden = torch.ones(width, width, dtype=torch.bool, device=q.device).triu_(1 - depth)
    scores = scores.masked_fill(hidden, float("-inf"))
    beside = torch.stack([(grouped * a[:, :, None]).sum(-1) for a, _ in own], -1)  # [B, kv, group, T, depth]
    weights = torch.softmax(torch.cat([scores, beside], -1).float(), -1).to(v.dtype)
    out = weights[..., :width] @ v[:, :, None]
    for j, (_, value) in enumerate(own):
        out = out + weights[..., width + j, None] * value[:, :, None]
    return out.flatten(1, 2)


def _later(x: Tensor, by: int, dim: int) -> Tensor:
    """x moved `by` positions towards the end, zeros in front."""
    if not by:
        return x
    width = x.shape[dim]
    return torch.cat([torch.zeros_like(x.narrow(dim, 0, min(by, width))), x.narrow(dim, 0, max(0, width - by))], dim)
