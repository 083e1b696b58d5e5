"""What the notebooks show: a run's steps as a table and as text, K against theory as a chart. Escaped, offline."""

import html
from collections.abc import Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from IPython.display import HTML

from app.tree_shape import fallen
from engine import Trace, TunePoint

STYLES = {
    "accepted": "border-bottom:2px solid #14a085",
    "recovered": "border:1px solid #c98a1b;border-radius:3px;padding:0 2px",
    "bonus": "border-bottom:2px dotted #2f7fd6",
    "plain": "",
    "rejected": "text-decoration:line-through;opacity:.55;font-size:85%",
    "ignored": "text-decoration:line-through dotted;opacity:.4;font-size:85%",
}
MARKS = {"recovered": "↺", "bonus": "+"}


def steps_frame(trace: Trace) -> pd.DataFrame:
    """One row a step: what was proposed, how much stood, what the target put behind it, and its time."""
    return pd.DataFrame(
        {
            "step": step.index,
            "proposed": "|".join(p.token.bytes or p.token.text for p in step.proposals),
            "accepted": step.num_accepted if step.proposals else None,
            "of": len(step.proposals) or None,
            "then": step.replacement and step.replacement.kind if step.proposals else "plain",
            "token": step.replacement and (step.replacement.token.bytes or step.replacement.token.text),
            "draft_ms": round(step.draft_ms, 2),
            "verify_ms": round(step.verify_ms, 2),
            "other_ms": round(step.other_ms, 2),
        }
        for step in trace.steps
    )


def tokens_html(trace: Trace) -> HTML:
    """The text with every proposal at its place: accepted underlined, rejected struck out, recovered boxed."""
    parts = [_chip(kind, kind) + " " for kind in STYLES]
    parts.append("<hr>")
    for step in trace.steps:
        parts += [_chip(_read(step.proposals[i].token), "accepted") for i in step.path]
        parts += [_chip(_read(step.proposals[i].token), step.proposals[i].status) for i in fallen(step)]
        if step.replacement is not None:
            parts.append(_chip(_read(step.replacement.token), step.replacement.kind if step.proposals else "plain"))
    return HTML(f'<div style="line-height:2;white-space:pre-wrap;font-family:monospace">{"".join(parts)}</div>')


def tune_frame(points: Sequence[TunePoint]) -> pd.DataFrame:
    """One row a K: measured and predicted speed-up, and what they are made of."""
    columns = (
        "k",
        "ratio",
        "decode_ratio",
        "predicted",
        "mean_acceptance_length",
        "alpha",
        "verify_cost",
        "drafted_share",
    )
    return pd.DataFrame({c: [getattr(p, c) for p in points] for c in columns}).set_index("k")


def tune_chart(points: Sequence[TunePoint]) -> go.Figure:
    """Speed-up behind the first token: measured as points, the theory of the same as a dashed line; never mixed."""
    ks = [p.k for p in points]
    figure = go.Figure()
    figure.add_scatter(
        x=ks, y=[p.decode_ratio for p in points], name="measured here", mode="markers",
        marker={"size": 10, "color": "#14a085"},
    )  # fmt: skip
    figure.add_scatter(
        x=ks, y=[p.predicted for p in points], name="theory, with measured costs", mode="lines",
        line={"dash": "dash", "color": "#8794a5"},
    )  # fmt: skip
    figure.add_hline(y=1, line={"color": "#b34", "width": 1}, annotation_text="plain decoding")
    figure.update_layout(
        xaxis={"title": "K, draft tokens a step", "dtick": 1, "type": "linear"},
        yaxis={"title": "speed-up over plain decoding", "type": "linear", "rangemode": "tozero"},
        template="plotly_white", height=420, margin={"t": 30},
    )  # fmt: skip
    return figure


def _read(token: Any) -> str:
    return f"<{token.bytes}>" if token.bytes else str(token.text)


def _chip(text: str, kind: str) -> str:
    shown = html.escape(text, quote=True).replace("\n", "⏎\n").replace("\x00", "␀")
    return f'<span title="{kind}" style="{STYLES[kind]}">{MARKS.get(kind, "")}{shown}</span>'
