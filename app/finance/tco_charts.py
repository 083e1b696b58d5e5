"""The TCO tab's pictures: cash by month, what moves the total, what chance makes of it."""

from itertools import accumulate

import plotly.graph_objects as go

from app.catalogue import Words
from app.finance import fields, shown
from app.finance.charts import COLOURS, GAIN, LOSS, PLAIN, bare, money, named, numbers, plain_text
from app.finance.cost_sheets import arms_of, names, with_arms
from app.finance.desk import Now
from app.finance.tco_sheets import of_speculation, title, titled
from pricing import Exchange
from pricing.scenario import Scenario
from pricing.sensitivity import Chances, Driver

MOST_DRIVERS = 12


def cash(now: Now, words: Words, to: Exchange | None = None) -> go.Figure:
    """What has been paid by each month, a line an option; the same option decoded plainly is dotted. to: another
    currency, in which a point is told too."""
    figure = bare(words, 340)
    currency = now.scenario.currency
    for at, name in enumerate(names(now.made)):
        for arm, option in sorted(arms_of(now.made, name).items(), reverse=True):
            paid, told = list(accumulate(option.flows)), plain_text(title(option, words))
            figure.add_scatter(
                x=list(range(len(paid))),
                y=paid,
                mode="lines",
                name=plain_text(name),
                legendgroup=str(at),
                showlegend=arm == "speculative" or option.kind == "api",
                line={
                    "color": COLOURS[at % len(COLOURS)], "width": 2,
                    "dash": "dot" if arm == "plain" and option.kind != "api" else "solid",
                },
                customdata=[f"{told}<br>{shown.both(v, currency, to, words)}" for v in paid],
                hovertemplate="%{customdata}<extra></extra>",
            )  # fmt: skip
    numbers(figure, "x", words("axis_month"), dtick=12 if now.scenario.years > 1 else 3)
    money(figure, "y", words("axis_paid", m=currency), rangemode="tozero")
    return figure


def gain(now: Now, words: Words, to: Exchange | None = None) -> go.Figure:
    """What speculation has brought by each month: under the line it has cost more than it brought."""
    figure = bare(words, 340)
    currency = now.scenario.currency
    for at, name in enumerate(names(now.made)):
        if name not in with_arms(now.made):
            continue
        brought = list(accumulate(of_speculation(now, name).flows))
        figure.add_scatter(
            x=list(range(len(brought))),
            y=brought,
            mode="lines",
            name=plain_text(name),
            line={"color": COLOURS[at % len(COLOURS)], "width": 2},
            customdata=[f"{plain_text(name)}<br>{shown.both(v, currency, to, words)}" for v in brought],
            hovertemplate="%{customdata}<extra></extra>",
        )
    figure.add_hline(y=0, line={"color": PLAIN, "width": 1})
    numbers(figure, "x", words("axis_month"), dtick=12 if now.scenario.years > 1 else 3)
    money(figure, "y", words("axis_gained", m=currency))
    return figure


def tornado(drivers: list[Driver], scenario: Scenario, option: str, words: Words) -> go.Figure:
    """Bars from the total at a number's low to that at its high, the widest on top."""
    shown_ones = [d for d in drivers if d.swing > 0][:MOST_DRIVERS][::-1]
    figure = bare(words, 70 + 30 * max(3, len(shown_ones)))
    currency = scenario.currency
    base = drivers[0].base_cost if drivers else 0.0
    for end, colour in (("low", COLOURS[1]), ("high", COLOURS[2])):
        costs = [getattr(d, f"{end}_cost") for d in shown_ones]
        figure.add_bar(
            x=[cost - base for cost in costs],
            y=list(range(len(shown_ones))),
            base=base,
            orientation="h",
            name=words(f"tornado_{end}"),
            marker={"color": colour},
            customdata=[
                f"{plain_text(fields.full_label(scenario, d.path, words))} = {value(d.path, getattr(d, end), words)}"
                f"<br>{shown.money(cost, currency, words)}"
                for d, cost in zip(shown_ones, costs, strict=True)
            ],
            hovertemplate="%{customdata}<extra></extra>",
        )
    figure.add_vline(x=base, line={"color": PLAIN, "width": 1})
    figure.update_layout(barmode="overlay")
    named(figure, "y", [plain_text(short(_name(scenario, d.path, option, words))) for d in shown_ones])
    money(figure, "x", words("axis_total", m=currency, span=shown.span(scenario.years, words)), nticks=3)
    return figure


def _name(scenario: Scenario, path: str, option: str, words: Words) -> str:
    """Without the option in front, where it is the one that the chart is of."""
    name = fields.full_label(scenario, path, words)
    return name.removeprefix(f"{option} · ")


def value(path: str, number: float, words: Words) -> str:
    return shown.percent(number, words) if fields.is_share(path) else shown.number(number, words)


def short(text: str, longest: int = 34) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def chances(found: list[Chances], now: Now, words: Words) -> go.Figure:
    """From P5 to P95 of each option, P50 marked."""
    rows = sorted(found, key=lambda c: -c.p50)
    figure = bare(words, 70 + 34 * max(3, len(rows)), legend=False)
    currency = now.scenario.currency
    for at, one in enumerate(rows):
        colour = GAIN if one.loss_share is not None and one.loss_share < 0.5 else LOSS if one.loss_share else PLAIN
        figure.add_scatter(
            x=[one.p05, one.p95], y=[at, at], mode="lines", hoverinfo="skip",
            line={"color": colour, "width": 8}, opacity=0.45,
        )  # fmt: skip
        figure.add_scatter(
            x=[one.p05, one.p50, one.p95],
            y=[at] * 3,
            mode="markers",
            marker={"color": colour, "size": [7, 11, 7], "symbol": ["line-ns-open", "diamond", "line-ns-open"]},
            customdata=[
                f"{name} {shown.money(x, currency, words)}"
                for name, x in (("P5", one.p05), ("P50", one.p50), ("P95", one.p95))
            ],
            hovertemplate="%{customdata}<extra></extra>",
        )
    named(figure, "y", [plain_text(short(titled(now, one.option, words))) for one in rows])
    money(figure, "x", words("axis_total", m=currency, span=shown.span(now.scenario.years, words)), nticks=3)
    return figure
