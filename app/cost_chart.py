"""$/1M tokens as a picture: one line a GPU and way of decoding, one mark a price. A spread, never one number."""

import math
from typing import Any

import plotly.graph_objects as go

from app.catalogue import Words
from app.cost_money import amount, axis, currency_of
from pricing.currencies import SYMBOLS

# Readable on both page backgrounds: the figure does not know the reader's mode.
INK, GRID = "#7b8a9c", "rgba(128,140,155,0.22)"
ARMS = (
    ("plain", "plain_per_million_tokens", "#8794a5", "circle-open", -0.17),
    ("speculative", "speculative_per_million_tokens", "#14a085", "diamond", 0.17),
)


def draw(records: list[dict[str, Any]], words: Words) -> go.Figure:
    """Marks for every projected price. This machine is in the table only: a CPU would flatten the scale."""
    projected = [r for r in records if r["provenance"] == "projected"]
    currency = axis(projected)
    shown = [r for r in projected if currency_of(r) == currency]
    sign = SYMBOLS[currency]  # type: ignore[index]
    names = sorted({r["gpu_label"] for r in shown}, reverse=True)
    figure = go.Figure()
    for arm, key, colour, symbol, shift in ARMS:
        points = [(r, x) for r in shown if (x := amount(r, key)) is not None and math.isfinite(x)]
        for i, name in enumerate(names):
            values = [v for r, v in points if r["gpu_label"] == name]
            if len(values) > 1:
                figure.add_scatter(
                    x=[min(values), max(values)], y=[i + shift] * 2, mode="lines", hoverinfo="skip", showlegend=False,
                    line={"color": colour, "width": 2}, opacity=0.45,
                )  # fmt: skip
        figure.add_scatter(
            x=[v for _, v in points],
            y=[names.index(r["gpu_label"]) + shift for r, _ in points],
            mode="markers",
            name=words(f"arm_{arm}"),
            marker={"color": colour, "symbol": symbol, "size": 9, "line": {"width": 1.5, "color": colour}},
            text=[_hover(r, words) for r, _ in points],
            hovertemplate="%{text}<br>" + sign + "%{x:.4g}<extra></extra>",
        )
    figure.update_layout(
        height=70 + 46 * max(3, len(names)),
        margin={"l": 8, "r": 12, "t": 34, "b": 44},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, sans-serif", "size": 12, "color": INK},
        legend={"orientation": "h", "x": 0, "xanchor": "left", "y": 1.0, "yanchor": "bottom"},
        hoverlabel={"font": {"family": "system-ui, sans-serif"}},
        separators=",." if words.language == "tr" else ".,",
        dragmode=False,
    )  # fmt: skip
    # Types stated: one odd value must not turn an axis into categories sorted as text.
    figure.update_xaxes(
        title={"text": f"{words('chart_axis_in', m=currency)} · {words('label_projected')}", "font": {"size": 12}},
        type="linear", rangemode="tozero", tickprefix=sign, gridcolor=GRID, zeroline=False, automargin=True,
    )  # fmt: skip
    figure.update_yaxes(
        type="linear",
        tickmode="array", tickvals=list(range(len(names))), ticktext=names, range=[-0.6, max(1, len(names)) - 0.4],
        gridcolor="rgba(0,0,0,0)", zeroline=False, automargin=True, fixedrange=True,
    )  # fmt: skip
    return figure


def _hover(record: dict[str, Any], words: Words) -> str:
    commitment = record["commitment"] and words.name("commitment", record["commitment"])
    offer = " · ".join(filter(None, (record["provider"], record["instance"], commitment)))
    return f"{offer}<br>{price_label(record, words)}"


def price_label(record: dict[str, Any], words: Words) -> str:
    """As in "quoted, 2026-01-05, stale": a price without its day is not to be had here."""
    parts = [words(f"label_{record['price_label']}")]
    if record["price_label"] == "quoted":
        parts.append(str(record["as_of"]))
    if record["stale"]:
        parts.append(words("label_stale"))
    return ", ".join(parts)
