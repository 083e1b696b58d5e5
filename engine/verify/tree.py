"""Verification of a drafted tree: which branch stands, by the target's own law.

At each token that stands its children are tried in their order, each against what the ones before it left of the
target's law; where none is taken, the target's own token is drawn from what they all left (SpecInfer, Miao et al. 2024,
Alg. 2: multi-step speculative sampling). For a deterministic drafter (q one-hot, as in EAGLE's trees) a child x is
taken with p(x), divided by what its earlier siblings have left, and a rejection takes it out of p. For children that
were drawn, it is taken with min(1, p/q) and a rejection leaves norm(max(0, p - q)), q being the law that it was drawn
from. Either way the output follows p exactly, and to hold one shared sample against every branch, which would not, is
not done (fms-extras #12).
"""

from collections.abc import Sequence
from functools import lru_cache
from operator import index
from typing import NamedTuple

import torch
from torch import Tensor

from engine.errors import EngineError
from engine.transfer import download
from engine.tree import Parents
from engine.verify.chain import checked_draft, judge, residual, row_at
from engine.verify.sampling import pick, uniforms
from engine.verify.verdict import Verdict


class Shape(NamedTuple):
    """A tree's, as tensors. at: [n], the position in [n+1] that each token is tested at. older: [n, n], 1 where j is an
    earlier sibling of i. line: [n, n], 1 where j is i or stands before it. children: [n+1, n], 1 where token i is
    tested at that position. ranks: the tokens with 0, 1, ... earlier siblings."""

    at: Tensor
    older: Tensor
    line: Tensor
    children: Tensor
    ranks: tuple[tuple[int, ...], ...]


@lru_cache(maxsize=32)
def shape_of(parents: Parents) -> Shape:
    """Raises EngineError for what is no tree."""
    n = len(parents)
    if any(not -1 <= parent < i for i, parent in enumerate(parents)):
        raise EngineError("parents must name, for each token, the index of an earlier one, or -1 for the context")
    older, line, children = (torch.zeros(n, n), torch.zeros(n, n), torch.zeros(n + 1, n))
    ranks: list[list[int]] = []
    for i, parent in enumerate(parents):
        siblings = [j for j in range(i) if parents[j] == parent]
        older[i, siblings] = 1.0
        line[i] = line[parent] if parent >= 0 else 0.0
        line[i, i] = 1.0
        children[parent + 1, i] = 1.0
        ranks += [[]] * (len(siblings) + 1 - len(ranks))
        ranks[len(siblings)] = [*ranks[len(siblings)], i]
    at = torch.tensor([parent + 1 for parent in parents], dtype=torch.long)
    return Shape(at, older.double(), line.double(), children.double(), tuple(map(tuple, ranks)))


def shape_on(parents: Parents, device: torch.device) -> Shape:
    found = shape_of(parents)
    if device.type == "cpu":
        return found
    at, older, line, children = (t.to(device, non_blocking=True) for t in found[:4])
    return Shape(at, older, line, children, found.ranks)


def verify_tree(
    target_probs: Tensor,
    draft_tokens: Sequence[int] | Tensor,
    parents: Sequence[int],
    draft_probs: Tensor | None = None,
    generator: torch.Generator | None = None,
) -> Verdict:
    """Judge a drafted tree of n tokens.

    target_probs: [n+1, V], rows sum to 1: the target's law behind the context, then behind each token. draft_tokens:
    [n]. parents: [n], the index of the token before each, -1 for the context. draft_probs: [n, V], the law each was
    drawn from (given the siblings before it), or None when the drafter is deterministic; siblings then differ.
    Raises EngineError for wrong shapes, what is no tree, rows that are no distribution, or a token with q = 0.
    """
    p, x, q = checked_draft(target_probs, draft_tokens, draft_probs)
    if len(parents) != x.shape[0]:
        raise EngineError(f"parents must name one for each of the {x.shape[0]} draft_tokens, got {len(parents)}")
    if not x.shape[0]:
        return judge(p, x, q, "rejection", generator)
    try:
        tree = tuple(index(i) for i in parents)
    except TypeError:
        raise EngineError("parents must be whole numbers: indexes of tokens, or -1 for the context") from None
    shape_of(tree)
    if q is None:
        check_siblings(x.tolist(), tree)
    return Verdict.of(download(decide_tree(p[None], x[None], None if q is None else q[None], tree, [generator])), tree)


def check_siblings(tokens: Sequence[int], parents: Parents) -> None:
    """Raises EngineError where a token is offered twice at one place: it would be tested twice."""
    if len({*zip(parents, tokens, strict=True)}) < len(tokens):
        raise EngineError("two children of one token are the same: a deterministic tree must offer each token once")


def decide_tree(
    p: Tensor, x: Tensor, q: Tensor | None, parents: Parents, generators: Sequence[torch.Generator | None]
) -> Tensor:
    """`verify_tree` for R sequences that drafted trees of one shape, on the device: see `chain.decide`.

    p: [R, n+1, V]. x: [R, n], n >= 1. q: [R, n, V] or None. Returns [R, 3 + 4n] float64; see `Verdict.of`.
    """
    n, vocab = x.shape[1], p.shape[2]
    shape = shape_on(parents, p.device)
    chance = uniforms(n + 1, generators, p.device)
    u, last = chance[:, :n], chance[:, n:]  # [R, n], [R, 1]
    p_x = p.flatten(1).gather(1, shape.at * vocab + x).double()  # [R, n]
    if q is None:
        q_x = torch.ones_like(p_x)
        left = 1.0 - p_x @ shape.older.T
        accept = (p_x / left).masked_fill(~(left > 0), 0.0).clamp(max=1.0)
        laws = None
    else:
        accept, q_x, laws = _rounds(p, x, q, shape, parents)
    taken = u < accept
    first = taken & ((taken.double() @ shape.older.T) == 0)
    stands = ((~first).double() @ shape.line.T) == 0  # it and all before it
    end = (stands * torch.arange(1, n + 1, device=p.device)).amax(1, keepdim=True)  # [R, 1]: tokens come behind parents
    target = row_at(p, end)
    if laws is None:
        offered = shape.children[end[:, 0]].to(p.dtype)  # [R, n]
        gone = torch.zeros_like(target).scatter_add_(1, x, offered) > 0
        rest = target.masked_fill(gone, 0.0)
        total = rest.sum(-1, keepdim=True)
        law = torch.where((total > 0) & (total < float("inf")), rest / total, target)
    else:
        law = row_at(laws, end)
    token = pick(law, last)
    return torch.cat([end, token, target.gather(1, token), accept, u, p_x, q_x], 1)


def _rounds(p: Tensor, x: Tensor, q: Tensor, shape: Shape, parents: Parents) -> tuple[Tensor, Tensor, Tensor]:
    """Children that were drawn: accept and q_x [R, n], and [R, n+1, V], what all children of each position left."""
    laws, accept = p.clone(), torch.zeros(x.shape, dtype=torch.float64, device=p.device)
    q_x = q.gather(2, x[:, :, None])[:, :, 0].double()
    for tokens in shape.ranks:
        at = [parents[i] + 1 for i in tokens]
        here, drawn, ids = laws[:, at], q[:, list(tokens)], x[:, list(tokens), None]
        p_here = here.gather(2, ids)[:, :, 0].double()
        accept[:, list(tokens)] = (p_here / q_x[:, list(tokens)]).clamp(max=1.0)
        laws[:, at] = residual(here, drawn, ids)
    return accept, q_x, laws
