"""Turns what a step computed into the frozen record of it."""

from collections.abc import Callable

import torch
from torch import Tensor

from engine.drafters.base import Draft
from engine.ending import Cut
from engine.settings import DecodeSettings
from engine.trace import Alternative, Proposal, Replacement, Status, Step, TokenText
from engine.verify import Verdict

ReadToken = Callable[[int], TokenText]


def record_step(
    index: int,
    draft: Draft,
    p: Tensor,
    logits: Tensor,
    verdict: Verdict,
    cut: Cut,
    read: ReadToken,
    settings: DecodeSettings,
    verifier: str,
    alternatives: int,
    prefill_tokens: int,
    seconds: tuple[float, float, float],
) -> Step:
    """p: [k+1, V] the target's law; logits: [k+1, V] what it was made from; seconds: draft, verify, other."""
    k = len(draft.tokens)
    stands = min(verdict.num_accepted, len(cut.ids))
    whole = len(cut.ids) == verdict.num_accepted + 1
    ids = torch.tensor(draft.tokens, dtype=torch.long, device=p.device)
    p_x = p[:k].gather(1, ids[:, None])[:, 0].tolist() if k else []
    q_x = draft.probs.gather(1, ids[:, None])[:, 0].tolist() if draft.probs is not None and k else [1.0] * k
    accept, uniforms = verdict.accept_probs.tolist(), verdict.uniforms.tolist()
    target_top = _tops(p, logits, settings, alternatives, read)
    draft_top = _tops(draft.probs, draft.logits, settings, alternatives, read)
    proposals = []
    for i, token in enumerate(draft.tokens):
        status: Status = "accepted" if i < stands else "rejected" if whole else "ignored"
        # Token by token, nothing is tested behind the first rejection; block verification tests every prefix.
        tested = not settings.greedy and (verifier == "block" or i <= verdict.num_accepted)
        proposals.append(
            Proposal(
                read(token),
                p_x[i],
                q_x[i],
                uniforms[i] if tested else None,
                accept[i],
                status,
                target_top[i],
                draft_top[i] if draft_top else (),
            )
        )
    last = verdict.num_accepted
    replacement = (
        Replacement(verdict.kind, read(verdict.next_token), float(p[last, verdict.next_token]), target_top[last])
        if whole
        else None
    )
    draft_s, verify_s, other_s = seconds
    return Step(
        index=index,
        emitted=cut.ids,
        texts=cut.texts,
        tokens=tuple(read(t) for t in cut.ids),
        proposals=tuple(proposals),
        replacement=replacement,
        draft_note=draft.note,
        prefill_tokens=prefill_tokens,
        draft_ms=draft_s * 1e3,
        verify_ms=verify_s * 1e3,
        other_ms=other_s * 1e3,
    )


def _tops(
    law: Tensor | None, logits: Tensor | None, settings: DecodeSettings, count: int, read: ReadToken
) -> list[tuple[Alternative, ...]]:
    """The `count` likeliest tokens of each row; at temperature 0 by the model's own softmax, which is not one-hot."""
    if law is None:
        return []
    if not count:
        return [() for _ in range(law.shape[0])]
    if settings.greedy and logits is not None:
        law = torch.softmax(logits.float(), dim=-1)
    top = torch.topk(law, min(count, law.shape[-1]), dim=-1)
    return [
        tuple(Alternative(read(i), v) for i, v in zip(ids, values, strict=True) if v > 0)
        for ids, values in zip(top.indices.tolist(), top.values.tolist(), strict=True)
    ]
