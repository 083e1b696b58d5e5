"""The live figures beside the tokens: speed of both arms, acceptance and where the time goes."""

from typing import TYPE_CHECKING, Any

import gradio as gr

from app.components.base import json_view
from engine.notice import Notice
from engine.stats import Stats

if TYPE_CHECKING:
    from app.session import Run


def figures_view(value: Any = None, *, elem_id: str) -> gr.HTML:
    """value: `encode_figures(...)`, or None before the first run."""
    return json_view(("figures.js",), value, elem_id=elem_id)


def status_line(value: Any = None, *, elem_id: str) -> gr.HTML:
    """value: {"state", "message", "tokens", "steps", "reason"}: what the run is doing, in one line."""
    return json_view(("status.js",), value, elem_id=elem_id)


def encode_figures(run: "Run") -> dict[str, Any]:
    """Numbers as numbers, absent as None: the browser writes them in the reader's own notation.

    Speeds are of both arms over the same tokens (`compared` of them); acceptance is of every speculative step.
    """
    done = run.speculative.stats()  # before `compared`: each arm's numbers are then computed once an update
    speculative, plain = run.compared()
    compared = speculative.output_tokens if speculative else 0
    return {
        "state": run.state,
        "k": run.k,
        "controlled": run.controlled,
        "drafts": run.drafts,
        "lossy": run.lossy,
        "trees": run.trees,
        "compared": compared,
        # One token is the prompt's reading alone: no speed of decoding yet.
        "speedup": run.speedup() if compared >= 2 else None,
        "speculative": _arm(speculative) if run.drafts else None,
        "plain": _arm(plain),
        "tau": done and done.mean_acceptance_length,
        "accept_rate": done and done.draft_acceptance_rate,
        "per_position": list(done.acceptance_rate_per_position) if done else [],
        "drafted_steps": done.drafted_steps if done else 0,
        "split": [done.draft_s, done.verify_s, done.other_s] if done else None,
        "steps": done.steps if done else 0,
        "tokens": done.output_tokens if done else 0,
        "forwards": done.target_forwards if done else 0,
        "same": run.agreement(),
        "temperature": run.temperature,
        "greedy": run.greedy,
        # As text: a seed may have more digits than a number of the browser's holds.
        "seed": None if run.seed is None else str(run.seed),
        "draft_model": run.drafter in ("model", "early_exit"),  # those that draw from a law of their own
        "where": run.where,
        "notices": [_notice(text) for text in run.notices],
    }


def _notice(text: str) -> Any:
    """What the catalogues have goes by its key, to be said in the reader's language; the rest as it is."""
    return {"key": text.key, "values": text.values, "text": str(text)} if isinstance(text, Notice) else text


def _arm(stats: Stats | None) -> dict[str, Any] | None:
    return stats and {"tps": stats.output_tokens_per_second, "ttft_s": stats.ttft_s}
