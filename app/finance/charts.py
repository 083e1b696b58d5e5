"""What all charts of the finance tabs share, and the Cost tab's own. Data never stand on an axis as categories."""

from collections.abc import Sequence
from datetime import date
from typing import Any

import plotly.graph_objects as go

from app.catalogue import Words
from app.cost_chart import GRID, INK
from app.finance import shown
from app.finance.cost_sheets import arms_of
from app.finance.desk import Now
from app.finance.load_curve import LoadLine
from pricing import Exchange
from pricing.bill import LINES
from pricing.rows import PriceRow
from pricing.tco import BEHIND

PLAIN, FAST, GAIN, LOSS, AMBER = "#8794a5", "#14a085", "#14a085", "#e0526a", "#d08a1d"
COLOURS = ("#14a085", "#4f8ff0", "#d08a1d", "#a779e9", "#e0526a", "#8794a5")
SYMBOLS = {
    "on_demand": "circle", "spot": "triangle-up", "reserved_1yr": "square", "reserved_3yr": "diamond",
    "reserved_unstated": "hexagon", "capacity_block": "pentagon", "marketplace": "star",
}  # fmt: skip


def bare(words: Words, height: int, legend: bool = True) -> go.Figure:
    """An empty figure, readable on both page backgrounds."""
    figure = go.Figure()
    figure.update_layout(
        height=height,
        margin={"l": 8, "r": 14, "t": 34 if legend else 12, "b": 40},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, sans-serif", "size": 12, "color": INK},
        legend={"orientation": "h", "x": 0, "xanchor": "left", "y": 1.0, "yanchor": "bottom"},
        showlegend=legend,
        hoverlabel={"font": {"family": "system-ui, sans-serif"}},
        separators=",." if words.language == "tr" else ".,",
        dragmode=False,
        bargap=0.35,
    )
    return figure


def numbers(figure: go.Figure, axis: str, title: str, **more: Any) -> None:
    """A numeric axis with its unit in its title."""
    plain: dict[str, Any] = {
        "title": {"text": title, "font": {"size": 12}}, "type": "linear", "gridcolor": GRID, "zeroline": False,
        "automargin": True, "fixedrange": True,
    }  # fmt: skip
    figure.update_layout({f"{axis}axis": {**plain, **more}})


def money(figure: go.Figure, axis: str, title: str, **more: Any) -> None:
    """Amounts written out: what an M or a k stands for differs from language to language."""
    numbers(figure, axis, title, **{"tickformat": ",.0f", "tickangle": 0, "nticks": 5, **more})


def named(figure: go.Figure, axis: str, names: Sequence[str], first: int = 0) -> None:
    """An axis of names: numbers underneath, so that a name that looks like one stays where it is."""
    figure.update_layout(
        {
            f"{axis}axis": {
                "type": "linear", "tickmode": "array", "tickvals": list(range(first, first + len(names))),
                "ticktext": list(names), "range": [first - 0.6, first + max(1, len(names)) - 0.4],
                "gridcolor": "rgba(0,0,0,0)", "zeroline": False, "automargin": True, "fixedrange": True,
            }
        }
    )  # fmt: skip


def waterfall(now: Now, name: str, words: Words) -> go.Figure:
    """From the plain bill to the speculative one: which lines fall away, which come on top."""
    steps = fall(now, name)
    arms = arms_of(now.made, name)
    names = [words("arm_plain"), *(words(f"line_{line}") for line, _ in steps), words("arm_speculative")]
    values = [arms["plain"].total, *(delta for _, delta in steps), arms["speculative"].total]
    currency = now.scenario.currency
    # Lying down, so that the lines' names can be read on a narrow screen too.
    figure = bare(words, 80 + 34 * len(names), legend=False)
    figure.add_waterfall(
        y=list(range(len(names), 0, -1)),
        x=values,
        orientation="h",
        measure=["absolute", *["relative"] * len(steps), "total"],
        text=[shown.money(v, currency, words) for v in values],
        customdata=[f"{n}<br>{shown.cents(v, currency, words)}" for n, v in zip(names, values, strict=True)],
        textposition="outside",
        constraintext="none",
        textfont={"size": 11},
        cliponaxis=False,
        hovertemplate="%{customdata}<extra></extra>",
        decreasing={"marker": {"color": GAIN}},
        increasing={"marker": {"color": LOSS}},
        totals={"marker": {"color": PLAIN}},
        connector={"line": {"color": GRID, "width": 1}},
    )
    named(figure, "y", [wrapped(n, 18) for n in reversed(names)], first=1)
    money(
        figure,
        "x",
        words("axis_total", m=currency, span=shown.span(now.scenario.years, words)),
        range=[0, _top(values) * 1.3],
        nticks=3,
    )
    return figure


def _top(values: Sequence[float]) -> float:
    """How high a waterfall rises."""
    level, top = 0.0, 0.0
    for value in values[:-1]:
        level += value
        top = max(top, level)
    return max(top, values[-1])


def fall(now: Now, name: str) -> list[tuple[str, float]]:
    """(line of the bill, speculative less plain) over the term, for lines that differ."""
    arms = arms_of(now.made, name)
    found = []
    for line in (*LINES, *BEHIND):
        delta = float(arms["speculative"].monthly[line].sum() - arms["plain"].monthly[line].sum())
        if abs(delta) >= 0.005:
            found.append((line, delta))
    return found


def wrapped(name: str, width: int) -> str:
    lines: list[str] = []
    for word in name.split():
        if lines and len(lines[-1]) + len(word) < width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return "<br>".join(lines)


def plain_text(text: str) -> str:
    """Plotly reads a little markup in its texts; what a file or a table says is not markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def load(lines: list[LoadLine], now: Now, words: Words) -> go.Figure:
    """$/1M output tokens against offered load, both axes by powers of ten: half the load costs twice as much."""
    figure = bare(words, 330)
    currency = now.scenario.currency
    for line in lines:
        colour = FAST if line.arm == "speculative" else PLAIN
        known = [p for p in line.points if p.per_million_output_tokens is not None]
        figure.add_scatter(
            x=[p.requests_per_second for p in known],
            y=[p.per_million_output_tokens for p in known],
            mode="lines",
            name=words(f"arm_{line.arm}"),
            line={"color": colour, "width": 2, "dash": "solid" if line.arm == "speculative" else "dot"},
            customdata=[
                f"{shown.unit_price(p.per_million_output_tokens, currency, words)}<br>"
                f"{words('col_busy')} {shown.percent(p.busy_share, words, 0)}"
                for p in known
            ],
            hovertemplate="%{customdata}<extra></extra>",
        )
        own = line.points[line.own]
        figure.add_scatter(
            x=[own.requests_per_second],
            y=[own.per_million_output_tokens],
            mode="markers",
            showlegend=False,
            marker={"color": colour, "size": 11, "symbol": "diamond" if line.arm == "speculative" else "circle"},
            hovertemplate=f"{words('load_own', arm=words(f'arm_{line.arm}'))}<br>"
            f"{shown.unit_price(own.per_million_output_tokens, currency, words)}<extra></extra>",
        )
    numbers(figure, "x", words("axis_offered"), type="log", dtick="D2")  # 1, 2, 5, 10: under two tenfolds
    numbers(figure, "y", words("axis_output", m=currency), type="log", dtick="D2")
    return figure


def on_axis(rows: Sequence[PriceRow], to: Exchange | None) -> tuple[str, list[tuple[PriceRow, float]]]:
    """(currency, prices per GPU-hour in it): what the reader asked for where its rates reach no fewer prices than stand
    there without, else USD, else the one that most are in. A price of another currency stands there at a rate that was
    given, or not at all."""
    known = [row.currency for row in rows]
    currency = "USD" if "USD" in known else max(sorted({*known}), key=known.count, default="USD")
    if to is not None:
        reached = sum(to.reaches(one) for one in known)
        currency = to.currency if reached >= known.count(currency) else currency
    at = to if to is not None and to.currency == currency else None
    found = []
    for row in rows:
        if row.currency == currency:
            found.append((row, row.per_gpu_hour))
        elif at is not None and at.reaches(row.currency):
            found.append((row, at.price(row.per_gpu_hour, row.currency).amount))
    return currency, found


def prices(
    rows: Sequence[PriceRow], now: Now, words: Words, today: date, to: Exchange | None = None
) -> go.Figure | None:
    """Price per GPU-hour, a line a GPU, a mark a price: shape says how it is bought, an empty one that it is stale.
    None where no price can stand on the axis."""
    currency, points = on_axis(rows, to)
    if not points:
        return None
    names = sorted({row.gpu_key for row, _ in points}, reverse=True)
    figure = bare(words, 110 + 30 * max(3, len(names)))
    for i, commitment in enumerate(SYMBOLS):
        colour = COLOURS[i % len(COLOURS)]
        for stale in (False, True):
            mine = [(r, x) for r, x in points if r.commitment == commitment and r.is_stale(today) == stale]
            if not mine:
                continue
            name = words.name("commitment", commitment)
            symbol = SYMBOLS[commitment] + ("-open" if stale else "")
            figure.add_scatter(
                x=[amount for _, amount in mine],
                y=[names.index(row.gpu_key) for row, _ in mine],
                mode="markers",
                name=name,
                legendgroup=commitment,
                showlegend=not any(r.commitment == commitment and not r.is_stale(today) for r, _ in points)
                or not stale,
                marker={"color": colour, "symbol": symbol, "size": 9, "line": {"width": 1.5, "color": colour}},
                text=[_offer(row, amount, currency, words) for row, amount in mine],
                hovertemplate="%{text}<extra></extra>",
            )
    own = now.scenario.currency
    at = to if to is not None and to.currency == currency else None
    if own == currency or (at is not None and at.reaches(own)):
        for option in now.scenario.cloud:
            for part in option.parts:
                paid = part.per_gpu_hour.value if at is None else at.price(part.per_gpu_hour.value, own).amount
                figure.add_vline(x=paid, line={"color": AMBER, "width": 1.5, "dash": "dash"})
    named(figure, "y", names)
    numbers(figure, "x", words("axis_price_in", m=currency), tickprefix=shown.symbol(currency), rangemode="tozero")
    return figure


def _offer(row: PriceRow, amount: float, currency: str, words: Words) -> str:
    offer = " · ".join(filter(None, (row.provider, row.instance, words.name("commitment", row.commitment), row.region)))
    price = shown.unit_price(row.per_gpu_hour, row.currency, words)
    if row.currency != currency:
        price += f" = {shown.unit_price(amount, currency, words)}"
    return f"{plain_text(offer)}<br>{price} · {words('label_quoted')}, {row.as_of}"
