"""The live figures beside the tokens: speed of both arms, acceptance and where the time goes."""

from collections.abc import Sequence
from typing import Any

import gradio as gr

from app.components.base import json_view
from engine.stats import Stats, speedup


def figures_view(value: Any = None, *, elem_id: str) -> gr.HTML:
    """value: `encode_figures(...)`, or None before the first run."""
    return json_view(("figures.js",), value, elem_id=elem_id)


def status_line(value: Any = None, *, elem_id: str) -> gr.HTML:
    """value: {"state", "message", "tokens", "steps", "reason"}: what the run is doing, in one line."""
    return json_view(("status.js",), value, elem_id=elem_id)


def encode_figures(
    state: str,
    k: int,
    speculative: Stats | None,
    plain: Stats | None,
    same_tokens: tuple[int, int] | None = None,
    where: str = "",
    notices: Sequence[str] = (),
) -> dict[str, Any]:
    """Numbers as numbers, absent as None: the browser writes them in the reader's own notation.

    same_tokens: (agreeing, compared) between the two arms, given only where they must agree (temperature 0).
    """
    return {
        "state": state,
        "k": k,
        "speedup": speedup(plain, speculative),
        "speculative": _arm(speculative),
        "plain": _arm(plain),
        "tau": speculative and speculative.mean_acceptance_length,
        "accept_rate": speculative and speculative.draft_acceptance_rate,
        "per_position": list(speculative.acceptance_rate_per_position) if speculative else [],
        "drafted_steps": speculative.drafted_steps if speculative else 0,
        "split": [speculative.draft_s, speculative.verify_s, speculative.other_s] if speculative else None,
        "steps": speculative.steps if speculative else 0,
        "same": list(same_tokens) if same_tokens else None,
        "where": where,
        "notices": list(notices),
    }


def _arm(stats: Stats | None) -> dict[str, Any] | None:
    return stats and {
        "tps": stats.output_tokens_per_second,
        "tokens": stats.output_tokens,
        "forwards": stats.target_forwards,
        "ttft_s": stats.ttft_s,
    }
