"""The token stream: what was proposed, accepted, rejected and put in its place, step by step."""

import json
from typing import Any

import gradio as gr

from app.components.base import json_view
from engine.trace import Alternative, Proposal, Step, TokenText


def token_view(value: Any = None, *, elem_id: str) -> gr.HTML:
    """value: {"run": id, "state": "idle"|"running"|"done"|"stopped"|"failed", "greedy": bool,
    "verifier": name, "lossy": bool, "steps": [`encode_step` records]}.

    The list may be sent whole each time: of the steps already shown only the last is looked at again, for a Stop may
    rewrite it. A new run id starts afresh.
    """
    return json_view(("token_card.js", "tree_view.js", "step_row.js", "token_view.js"), value, elem_id=elem_id)


def encode_step(step: Step) -> str:
    """One step as one JSON string.

    A string, not an object: each step is serialised once however often the list is sent again, Gradio's diff
    and its own deep comparisons see a flat list of strings, and ASCII escapes carry NUL and lone surrogates safely.
    """
    path = step.path
    emitted = []
    for i, (text, token) in enumerate(zip(step.texts, step.tokens, strict=True)):
        if i < len(path):
            emitted.append({"shown": text, "kind": "accepted", "proposal": path[i]})
        else:
            kind = step.replacement.kind if step.proposals and step.replacement else "plain"
            emitted.append({"shown": text, "kind": kind, **_token(token)})
    record = {
        "index": step.index,
        "emitted": emitted,
        "proposals": [_proposal(p, parent) for p, parent in zip(step.proposals, step.parents, strict=True)],
        # What the target held likeliest behind each token (-1: the context), once for all that were proposed there.
        "tops": {
            parent: [_alternative(a) for a in p.target_top]
            for p, parent in zip(step.proposals, step.parents, strict=True)
        },
        "tree": step.is_tree,
        "replacement": step.replacement
        and {
            "kind": step.replacement.kind if step.proposals else "plain",
            "p": _short(step.replacement.p),
            "target": [_alternative(a) for a in step.replacement.target_top],
            **_token(step.replacement.token),
        },
        "note": step.draft_note,
        "prefill": step.prefill_tokens,
        "ms": [_short(step.draft_ms), _short(step.verify_ms), _short(step.other_ms)],
    }
    return json.dumps(record, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def _proposal(p: Proposal, parent: int) -> dict[str, Any]:
    proposal = {
        **_token(p.token),
        "p": _short(p.p),
        "q": _short(p.q),
        "u": _short(p.u),
        "accept": _short(p.accept_probability),
        # Decided here: after rounding, u and what it was held against may look equal.
        "passed": None if p.u is None else p.u < p.accept_probability,
        "status": p.status,
        "parent": parent,
        "draft": [_alternative(a) for a in p.draft_top],
    }
    if p.source:
        proposal["source"] = p.source
    return proposal


def _token(t: TokenText) -> dict[str, Any]:
    token: dict[str, Any] = {"id": t.token_id, "text": t.text}
    if t.bytes:
        token["bytes"] = t.bytes
    if t.special:
        token["special"] = True
    return token


def _alternative(a: Alternative) -> dict[str, Any]:
    return {**_token(a.token), "p": _short(a.probability)}


def _short(x: float | None) -> float | None:
    """Five significant digits: more than the card shows, at half the bytes. JSON has no NaN: absent."""
    return None if x is None or x != x or x in (float("inf"), float("-inf")) else float(f"{x:.5g}")
