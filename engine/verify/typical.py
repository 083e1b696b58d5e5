"""Typical acceptance (Medusa, Cai et al. 2024, section 2.3.1): LOSSY, and labelled so wherever it is shown.

A drafted token stands when the target finds it plausible: p(x) > min(EPSILON, DELTA * exp(-H(p))), H the entropy of the
target's law there. The longest branch whose tokens all pass is kept, the likeliest of equals. More is accepted the less
sure the target is, and what is emitted is no longer drawn from its law. At temperature 0, whose law is one-hot, it is
the exact rule.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.tree import Parents
from engine.verify.chain import row_at
from engine.verify.sampling import pick, uniforms
from engine.verify.tree import shape_on

# Medusa's `posterior_threshold` and `posterior_alpha` in `medusa_generate`.
EPSILON, DELTA = 0.09, 0.3


def decide_typical(
    p: Tensor, x: Tensor, parents: Parents | None, generators: Sequence[torch.Generator | None]
) -> Tensor:
    """p: [R, n+1, V]; x: [R, n]. Returns [R, 3 + 4n] float64: see `Verdict.of`. accept is 1 where a token passes."""
    rows, n = x.shape
    shape = shape_on(tuple(range(-1, n - 1)) if parents is None else parents, p.device)
    entropy = torch.special.entr(p).sum(-1, dtype=torch.float64)  # [R, n+1]
    threshold = (DELTA * torch.exp(-entropy)).clamp(max=EPSILON)
    p_x = p.flatten(1).gather(1, shape.at * p.shape[2] + x).double()  # [R, n]
    passes = p_x > threshold[:, shape.at]
    stands = ((~passes).double() @ shape.line.T) == 0
    # Longest first; of equals the likeliest, which is worth less than one token more.
    likelihood = torch.log(p_x.clamp(min=1e-300)) @ shape.line.T
    worth = (shape.line.sum(1) + 1.0 / (1.0 - likelihood)).masked_fill(~stands, 0.0)
    end = x.new_zeros(rows, 1)
    if n:
        best = worth.max(1, keepdim=True)
        end = torch.where(best.values > 0, best.indices + 1, end)
    target = row_at(p, end)
    token = pick(target, uniforms(1, generators, p.device))
    none = torch.zeros_like(p_x)
    return torch.cat([end, token, target.gather(1, token), passes.double(), none, p_x, none + 1.0], 1)
