"""Verification of one drafted chain: which proposals stand, and the target's token that ends the step.

p = target, q = draft, u = a uniform per position, x_i = the i-th drafted token. All three rules emit exactly the
target's law:
- rejection (Leviathan 2023, Alg. 1; Chen 2023, Alg. 2): accept x_i while u_i < p_i(x_i) / q_i(x_i); at the first
  rejection draw from norm(max(0, p_i - q_i)).
- block (Sun et al. 2024, arXiv 2403.10444): judge prefixes as wholes; keep the longest that passes its own test.
- match: draw from the target at each position and keep what agrees. Drawn here in the equivalent form "accept x_i
  with probability p_i(x_i), else draw from p_i without x_i", so that u reads the same in every rule. It ignores q.
A deterministic drafter (draft_probs None) has q one-hot: accept with p(x), residual = p without x.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from engine.errors import EngineError
from engine.verify.sampling import draw

METHODS = ("rejection", "block", "match")


@dataclass(frozen=True, slots=True)
class Verdict:
    """num_accepted: leading drafted tokens that stand. next_token: the target's own, drawn from the residual
    ("recovered") or, when every proposal stands, from p_{K+1} ("bonus"). accept_probs [K]: what each uniform was
    held against (float64). uniforms [K] float64."""

    num_accepted: int
    next_token: int
    kind: Literal["recovered", "bonus"]
    accept_probs: Tensor
    uniforms: Tensor


def verify_chain(
    target_probs: Tensor,
    draft_tokens: Sequence[int] | Tensor,
    draft_probs: Tensor | None,
    method: str = "rejection",
    generator: torch.Generator | None = None,
) -> Verdict:
    """Judge K drafted tokens.

    target_probs: [K+1, V], rows sum to 1. draft_tokens: [K]. draft_probs: [K, V], the very law each token was drawn
    from, or None when the drafter is deterministic (q is one-hot).
    Raises EngineError for an unknown method, wrong shapes, rows that are no distribution, or a token with q = 0.
    """
    if method not in METHODS:
        raise EngineError(f"unknown verifier {method!r}: choose one of {', '.join(METHODS)}")
    p = torch.as_tensor(target_probs)
    q = None if draft_probs is None else torch.as_tensor(draft_probs, device=p.device)
    try:
        x = torch.as_tensor(draft_tokens, device=p.device)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise EngineError("draft_tokens must be a list of token ids") from None
    if x.numel() and (x.is_floating_point() or x.dtype == torch.bool):
        raise EngineError("draft_tokens must be whole numbers: token ids")
    x = x.long()
    _check(p, x, q)
    return judge(p, x, q, method, generator)


def judge(p: Tensor, x: Tensor, q: Tensor | None, method: str, generator: torch.Generator | None) -> Verdict:
    """`verify_chain` for laws that were made here and need no check: p [K+1, V], x [K], q [K, V] or None."""
    k = x.shape[0]
    uniforms = torch.rand(k, dtype=torch.float64, generator=generator, device=p.device)
    p_x = p[:k].gather(1, x[:, None])[:, 0].double()  # [K]
    q_x = torch.ones_like(p_x) if q is None else q.gather(1, x[:, None])[:, 0].double()  # [K]
    if q is not None and k and not bool((q_x > 0).all()):
        raise EngineError("a drafted token has q = 0: draft_probs must be the law that the token was drawn from")
    if method == "block":
        accept, accepted, scale = _block(p, x, q, p_x, q_x, uniforms)
    else:
        accept = p_x.clamp(max=1.0) if method == "match" else (p_x / q_x).clamp(max=1.0)
        stands = (uniforms < accept).tolist()
        accepted = next((i for i, ok in enumerate(stands) if not ok), k)
        scale = 1.0
    if accepted == k:
        return Verdict(k, draw(p[k], generator), "bonus", accept, uniforms)
    q_row = None if q is None or method == "match" else q[accepted]
    residual = _residual(p[accepted], q_row, int(x[accepted]), scale)
    return Verdict(accepted, draw(residual, generator), "recovered", accept, uniforms)


def _block(
    p: Tensor, x: Tensor, q: Tensor | None, p_x: Tensor, q_x: Tensor, uniforms: Tensor
) -> tuple[Tensor, int, float]:
    """Sun et al. 2024: h_i for each prefix, the longest that passes, and its weight P_tau for the residual."""
    k = x.shape[0]
    weight = 1.0  # P_i: the capped likelihood ratio of the prefix
    weights, thresholds = [1.0], []
    for i in range(1, k + 1):
        weight = min(1.0, weight * float(p_x[i - 1] / q_x[i - 1]))
        weights.append(weight)
        if i == k:
            thresholds.append(weight)
            continue
        left = float(_excess(p[i], None if q is None else q[i], int(x[i]), weight).double().sum())  # R_i
        room = left + 1.0 - weight
        # weight = 1 and nothing in excess: p equals q from here on, so the prefix stands.
        thresholds.append(left / room if room > 0.0 else 1.0)
    accept = torch.tensor(thresholds, dtype=torch.float64, device=p.device)
    passed = (uniforms < accept).nonzero()
    accepted = int(passed[-1]) + 1 if passed.numel() else 0
    return accept, accepted, weights[accepted]


def _excess(p: Tensor, q: Tensor | None, token: int, scale: float) -> Tensor:
    """max(0, scale * p - q) [V]; q None is one-hot at token."""
    if q is not None:
        return (scale * p - q).clamp_(min=0)
    out = scale * p
    out[token] = max(0.0, float(out[token]) - 1.0)
    return out


def _residual(p: Tensor, q: Tensor | None, token: int, scale: float = 1.0) -> Tensor:
    """norm(max(0, scale * p - q)) [V], or p itself when nothing is left (p equals q up to rounding).
    Divided by its sum, never put through a softmax."""
    excess = _excess(p, q, token, scale)
    total = float(excess.sum())
    # NaN <= 0 is False: ask for what is wanted, not for what is not.
    return excess / total if total > 0.0 and total < float("inf") else p


def _check(p: Tensor, x: Tensor, q: Tensor | None) -> None:
    k = x.shape[0] if x.ndim == 1 else -1
    if p.ndim != 2 or k < 0 or not p.shape[1] or p.shape[0] != k + 1:
        raise EngineError(
            f"target_probs must be [K+1, V] for [K] draft_tokens, got {tuple(p.shape)} for {tuple(x.shape)}"
        )
    if q is not None and q.shape != (k, p.shape[1]):
        raise EngineError(f"draft_probs must be [K, V] = {(k, p.shape[1])}, got {tuple(q.shape)}")
    for name, rows in (("target_probs", p), ("draft_probs", q)):
        if rows is None or not rows.numel():
            continue
        total = rows.sum(-1)
        # One comparison catches NaN, inf and rows that do not sum to 1; the minimum catches negative mass.
        if not bool(((total - 1).abs() < 1e-3).all()) or not bool(rows.min() >= 0):
            raise EngineError(f"{name} must be rows of probabilities that sum to 1")
    if k and not bool(((x >= 0) & (x < p.shape[1])).all()):
        raise EngineError(f"draft_tokens must be ids from 0 to {p.shape[1] - 1}")
