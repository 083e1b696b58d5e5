"""Turns what a step computed into the frozen record of it. The verdict has all the numbers; only alternatives, where
they were asked for, are read from the device."""

from collections.abc import Callable

import torch
from torch import Tensor

from engine.drafters.base import Draft
from engine.ending import Cut
from engine.settings import DecodeSettings
from engine.trace import Alternative, Proposal, Replacement, Status, Step, TokenText
from engine.transfer import download
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
    reused_prompt_tokens: int = 0,
    rows: int = 1,
) -> Step:
    """p: [k+1, V] the target's law; logits: [k+1, V] what it was made from; seconds: draft, verify, other."""
    stands = {*verdict.path[: len(cut.ids)]}
    whole = len(cut.ids) == verdict.num_accepted + 1
    reached = {-1, *verdict.path}
    taken = {draft.parent(i): i for i in verdict.path}
    target_top, draft_top = _tops(p, logits, draft, settings, alternatives, read)
    proposals = []
    for i, (token, test) in enumerate(zip(draft.tokens, verdict.tests, strict=True)):
        parent = draft.parent(i)
        status: Status = "accepted" if i in stands else "rejected" if whole else "ignored"
        # A token is tested when the one before it stands and no sibling was taken first. Block verification tests every
        # prefix. Nothing is drawn at temperature 0, nor for typical acceptance.
        tested = verifier == "block" or (parent in reached and i <= taken.get(parent, i))
        u = test.u if tested and not settings.greedy and verifier != "typical" else None
        tops = target_top[parent + 1], draft_top[i]
        follows = None if parent == i - 1 else parent
        source = draft.sources[i] if draft.sources else None
        proposals.append(Proposal(read(token), test.p, test.q, u, test.accept, status, *tops, follows, source))
    last = target_top[verdict.path[-1] + 1 if verdict.path else 0]
    replacement = Replacement(verdict.kind, read(verdict.next_token), verdict.next_p, last) if whole else None
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
        reused_prompt_tokens=reused_prompt_tokens,
        rows=rows,
    )


def _tops(
    p: Tensor, logits: Tensor, draft: Draft, settings: DecodeSettings, count: int, read: ReadToken
) -> tuple[list[tuple[Alternative, ...]], list[tuple[Alternative, ...]]]:
    """The `count` likeliest tokens of each of the target's K+1 positions and of the draft's K; at temperature 0 by the
    model's own softmax, which is not one-hot. One more host read, when any were asked for."""
    k = len(draft.tokens)
    if not count:
        return [()] * (k + 1), [()] * k
    shown = [_shown(p, logits, settings)]
    if draft.probs is not None and k:
        shown.append(_shown(draft.probs, draft.logits, settings))
    count = min(count, p.shape[-1])
    top = torch.topk(torch.cat(shown), count, dim=-1)  # [K+1 or 2K+1, count]
    numbers = download(torch.stack([top.values.double(), top.indices.double()], 1))  # values, then ids, row by row
    rows = [numbers[at : at + 2 * count] for at in range(0, len(numbers), 2 * count)]
    tops = [
        tuple(Alternative(read(int(i)), v) for v, i in zip(row[:count], row[count:], strict=True) if v > 0)
        for row in rows
    ]
    return tops[: k + 1], tops[k + 1 :] or [()] * k


def _shown(law: Tensor, logits: Tensor | None, settings: DecodeSettings) -> Tensor:
    return torch.softmax(logits.float(), dim=-1) if settings.greedy and logits is not None else law
