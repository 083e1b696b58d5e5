"""Small charts as plain shapes, to be drawn into a web page or a PDF: money paid by month, and the way from plain to
speculative decoding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from pricing.bill import LINES
from pricing.export.words import Words
from pricing.scenario import Currency
from pricing.tco import BEHIND, Option

Role = Literal["axis", "whole", "saves", "costs", "ink"]
WIDTH, HEIGHT = 460.0, 230.0
_LEFT, _TOP, _BOTTOM = 62.0, 12.0, 40.0
_TEXT = 9.0
# Of options, in their order; each differs from its neighbours in lightness too.
LINE_COLOURS = ("#1D4ED8", "#EA8C00", "#0F766E", "#A21CAF", "#64748B", "#B42318", "#15803D", "#7C3AED")


@dataclass(frozen=True)
class Bar:
    x: float
    y: float
    width: float
    height: float
    role: Role


@dataclass(frozen=True)
class Line:
    """series: the number of its colour, None for an axis."""

    points: tuple[tuple[float, float], ...]
    series: int | None
    dashed: bool = False


@dataclass(frozen=True)
class Label:
    x: float
    y: float
    text: str
    anchor: Literal["start", "middle", "end"] = "start"
    series: int | None = None


@dataclass
class Drawing:
    """Of WIDTH x HEIGHT points, y downwards. told: what it shows, in words, for those who do not see it."""

    title: str
    told: str
    bars: list[Bar] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)


class _Scale:
    """Money on the vertical axis, with round marks."""

    def __init__(self, low: float, high: float, height: float) -> None:
        span = max(high - min(low, 0.0), 1e-9)
        step = 10.0 ** (len(str(int(span))) - 1) if span >= 1 else span / 4
        step = next((step * times for times in (0.1, 0.2, 0.5, 1, 2, 5) if span / (step * times) <= 5), step)
        self.marks = [step * i for i in range(int(min(low, 0.0) // step), int(high / step) + 2)]
        self.low, self.high, self.height = self.marks[0], self.marks[-1], height

    def y(self, value: float) -> float:
        return _TOP + self.height * (self.high - value) / (self.high - self.low)


def _axis(drawing: Drawing, scale: _Scale, words: Words, currency: Currency) -> None:
    for mark in scale.marks:
        drawing.lines.append(Line(((_LEFT, scale.y(mark)), (WIDTH, scale.y(mark))), None))
        drawing.labels.append(Label(_LEFT - 5, scale.y(mark) + 3, words.short_money(mark, currency), "end"))


def cumulative(options: Sequence[Option], names: Sequence[str], currency: Currency, words: Words) -> Drawing:
    """What has been paid by the end of each month. An option has one colour; plain decoding is dashed. names: as the
    reader is to see them."""
    sums: list[list[float]] = []
    for option in options:
        paid, so_far = 0.0, []
        for flow in option.flows:
            paid += flow
            so_far.append(paid)
        sums.append(so_far)
    drawing = Drawing(words("chart.cumulative"), "")
    own = list(dict.fromkeys(option.name for option in options))
    rows = -(-len(options) // 2)
    scale = _Scale(min(map(min, sums)), max(map(max, sums)), HEIGHT - _TOP - _BOTTOM - 11 * max(0, rows - 1))
    _axis(drawing, scale, words, currency)
    months = len(sums[0]) - 1
    across = (WIDTH - _LEFT) / months
    for month in range(0, months + 1, 12):
        anchor: Literal["start", "end"] = "end" if month == months else "start"
        drawing.labels.append(Label(_LEFT + across * month, scale.y(scale.low) + 12, str(month), anchor))
    drawing.labels.append(Label(_LEFT - 5, scale.y(scale.low) + 12, words("chart.month"), "end"))
    for i, (option, so_far) in enumerate(zip(options, sums, strict=True)):
        series, dashed = own.index(option.name), option.arm == "plain" and option.kind != "api"
        points = tuple((_LEFT + across * month, scale.y(value)) for month, value in enumerate(so_far))
        drawing.lines.append(Line(points, series, dashed))
        x, y = (0.0 if i % 2 == 0 else WIDTH / 2), scale.y(scale.low) + 27 + 11 * (i // 2)
        drawing.lines.append(Line(((x, y - 3), (x + 22, y - 3)), series, dashed))
        drawing.labels.append(Label(x + 26, y, _cut(names[i], 38)))
    drawing.told = "; ".join(
        f"{name}: {words.money(so_far[-1], currency, 0)}" for name, so_far in zip(names, sums, strict=True)
    )  # fmt: skip
    return drawing


def waterfall(before: Option, after: Option, currency: Currency, words: Words) -> Drawing:
    """From the one's total to the other's, a line of the bill a step; lines that do not differ are left out."""
    steps = [(line, float((after.monthly[line] - before.monthly[line]).sum())) for line in (*LINES, *BEHIND)]
    steps = [(line, change) for line, change in steps if abs(change) >= 0.005]
    levels = [before.total]
    for _, change in steps:
        levels.append(levels[-1] + change)
    drawing = Drawing(words("chart.waterfall"), "")
    scale = _Scale(min(0.0, *levels), max(*levels, after.total), HEIGHT - _TOP - _BOTTOM - 18)
    _axis(drawing, scale, words, currency)
    slot = (WIDTH - _LEFT) / (len(steps) + 2)
    bar = slot * 0.68

    start, moves, last = words.steps(levels, currency)

    def put(i: int, low: float, high: float, role: Role, name: str, shown: str) -> None:
        x = _LEFT + slot * i + (slot - bar) / 2
        drawing.bars.append(Bar(x, scale.y(high), bar, max(scale.y(low) - scale.y(high), 0.75), role))
        for part, text in enumerate(_two_lines(name, slot)):
            drawing.labels.append(Label(x + bar / 2, scale.y(scale.low) + 12 + 10 * part, text, "middle"))
        drawing.labels.append(Label(x + bar / 2, scale.y(high) - 3, shown, "middle"))

    put(0, 0.0, before.total, "whole", words("arm.plain"), start)
    for i, (line, change) in enumerate(steps, 1):
        low, high = sorted((levels[i - 1], levels[i]))
        put(i, low, high, "costs" if change > 0 else "saves", words(f"line.{line}"), moves[i - 1])
    put(len(steps) + 1, 0.0, after.total, "whole", words("arm.speculative"), last)
    y = HEIGHT - 4
    for x, role, key in ((0.0, "saves", "summary.saves"), (110.0, "costs", "summary.costs")):
        drawing.bars.append(Bar(x, y - 7, 9, 8, role))  # type: ignore[arg-type]
        drawing.labels.append(Label(x + 14, y, words(key)))
    drawing.told = "; ".join(f"{words(f'line.{line}')}: {words.money(change, currency, 0)}" for line, change in steps)
    return drawing


def _two_lines(name: str, width: float) -> list[str]:
    """At a space, where one line is too narrow; cut to what fits."""
    fits = max(4, int(width / (_TEXT * 0.5)))
    if len(name) <= fits or " " not in name:
        return [_cut(name, fits)]
    spaces = [i for i, character in enumerate(name) if character == " "]
    at = min(spaces, key=lambda i: abs(i - len(name) / 2))
    return [_cut(name[:at], fits), _cut(name[at + 1 :], fits)]


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
