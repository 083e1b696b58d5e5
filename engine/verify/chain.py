"""Verification of one drafted chain: which proposals stand, and the target's token that ends the step.

p = target, q = draft, u = a uniform per position, x_i = the i-th drafted token. All three rules emit exactly the
target's law:
- rejection (Leviathan 2023, Alg. 1; Chen 2023, Alg. 2): accept x_i while u_i < p_i(x_i) / q_i(x_i); at the first
  rejection draw from norm(max(0, p_i - q_i)).
- block (Sun et al. 2024, arXiv 2403.10444): judge prefixes as wholes; keep the longest that passes its own test.
- match: draw from the target at each position and keep what agrees. Drawn here in the equivalent form "accept x_i
  with probability p_i(x_i), else draw from p_i without x_i", so that u reads the same in every rule. It ignores q.
A deterministic drafter (draft_probs None) has q one-hot: accept with p(x), residual = p without x.

`decide` does all of it where p is, for any number of sequences at once, and no value is read back on the way; what
comes of it is one row of numbers a sequence, which `Verdict.of` reads.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.errors import EngineError
from engine.transfer import download
from engine.verify.sampling import pick, uniforms
from engine.verify.verdict import EXACT, Verdict


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
    if method not in EXACT:
        raise EngineError(f"unknown verifier {method!r}: choose one of {', '.join(EXACT)}")
    return judge(*checked_draft(target_probs, draft_tokens, draft_probs), method, generator)


def checked_draft(
    target_probs: Tensor, draft_tokens: Sequence[int] | Tensor, draft_probs: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """p [K+1, V], x [K] and q [K, V] or None, on p's device. Raises EngineError for what they cannot be."""
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
    return p, x, q


def judge(p: Tensor, x: Tensor, q: Tensor | None, method: str, generator: torch.Generator | None) -> Verdict:
    """`verify_chain` for laws that were made here and need no check: p [K+1, V], x [K], q [K, V] or None."""
    return Verdict.of(download(decide(p[None], x[None], None if q is None else q[None], method, [generator])))


def decide(p: Tensor, x: Tensor, q: Tensor | None, method: str, generators: Sequence[torch.Generator | None]) -> Tensor:
    """`judge` for R sequences, each with its own generator, still on the device.

    p: [R, K+1, V]. x: [R, K]. q: [R, K, V] or None. Returns [R, 3 + 4K] float64; see `Verdict.of`.
    """
    k = x.shape[1]
    chance = uniforms(k + 1, generators, p.device)
    u, last = chance[:, :k], chance[:, k:]  # [R, K], [R, 1]
    if k:
        accept, accepted, law, p_x, q_x = _test(p, x, q, method, u)
    else:
        accept = p_x = q_x = u
        accepted, law = x.new_zeros(x.shape[0], 1), p[:, 0]
    token = pick(law, last)  # [R, 1]
    token_p = p.flatten(1).gather(1, accepted * p.shape[2] + token)
    return torch.cat([accepted, token, token_p, accept, u, p_x, q_x], 1)


def _test(
    p: Tensor, x: Tensor, q: Tensor | None, method: str, u: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """K >= 1. accept [R, K]; accepted [R, 1]; the law [R, V] that the last token is drawn from; p_x, q_x [R, K]."""
    k = x.shape[1]
    p_x = p[:, :k].gather(2, x[:, :, None])[:, :, 0].double()
    q_x = torch.ones_like(p_x) if q is None else q.gather(2, x[:, :, None])[:, :, 0].double()
    scale: float | Tensor = 1.0
    if method == "block":
        accept, weights = _block(p, x, q, p_x, q_x)
        # The longest prefix that passes, however many shorter ones fail.
        accepted = ((u < accept) * torch.arange(1, k + 1, device=p.device)).amax(1, keepdim=True)
        scale = weights.gather(1, accepted).to(p.dtype)
    else:
        accept = p_x.clamp(max=1.0) if method == "match" else (p_x / q_x).clamp(max=1.0)
        accepted = (u < accept).cumprod(1).sum(1, keepdim=True)
    target = row_at(p, accepted)
    rejected = accepted.clamp(max=k - 1)  # any, where all stand
    q_row = None if q is None or method == "match" else row_at(q, rejected)
    left = residual(target, q_row, x.gather(1, rejected), scale)
    return accept, accepted, torch.where(accepted == k, target, left), p_x, q_x


def row_at(rows: Tensor, index: Tensor) -> Tensor:
    """rows [R, n, V], index [R, 1] -> [R, V]"""
    if rows.shape[0] == 1:
        return rows[0].index_select(0, index[0])
    return rows.gather(1, index[:, :, None].expand(-1, 1, rows.shape[2]))[:, 0]


def _block(p: Tensor, x: Tensor, q: Tensor | None, p_x: Tensor, q_x: Tensor) -> tuple[Tensor, Tensor]:
    """Sun et al. 2024: h_i [R, K] for each prefix, and the weights P_i [R, K+1] of the residual behind it."""
    k = x.shape[1]
    weights = [torch.ones_like(p_x[:, :1])]  # P_i: the capped likelihood ratio of the prefix
    for ratio in torch.split(p_x / q_x, 1, 1):
        weights.append((weights[-1] * ratio).clamp(max=1.0))
    weight = torch.cat(weights, 1)
    inner = weight[:, 1:k]
    q_rows = None if q is None else q[:, 1:]
    excess = _excess(p[:, 1:k], q_rows, x[:, 1:, None], inner[:, :, None].to(p.dtype))
    left = excess.sum(-1, dtype=torch.float64)  # R_i
    room = left + 1.0 - inner
    # weight = 1 and nothing in excess: p equals q from here on, so the prefix stands.
    h = (left / room).masked_fill(room <= 0.0, 1.0)
    return torch.cat([h, weight[:, k:]], 1), weight


def _excess(p: Tensor, q: Tensor | None, token: Tensor, scale: float | Tensor) -> Tensor:
    """max(0, scale * p - q), laws [..., V]; token [..., 1]: q None is one-hot there; scale [..., 1], or 1.0."""
    scaled = scale * p if isinstance(scale, Tensor) else p
    if q is not None:
        return (scaled - q).clamp_(min=0)
    out = scaled.clone() if scaled is p else scaled
    return out.scatter_(-1, token, (out.gather(-1, token) - 1.0).clamp_(min=0))


def residual(p: Tensor, q: Tensor | None, token: Tensor, scale: float | Tensor = 1.0) -> Tensor:
    """norm(max(0, scale * p - q)) [..., V], or p itself when nothing is left (p equals q up to rounding).
    Divided by its sum, never put through a softmax."""
    excess = _excess(p, q, token, scale)
    total = excess.sum(-1, keepdim=True)
    # NaN > 0 is False: ask for what is wanted, not for what is not.
    return torch.where((total > 0.0) & (total < float("inf")), excess.div_(total), p)


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
