"""The decision's one page as a PDF. Its fonts come with specscope: those that every PDF reader has know no ğ, ş, ı
and İ."""

import io
from functools import cache
from pathlib import Path
from xml.sax.saxutils import escape

from reportlab.graphics import shapes
from reportlab.lib.colors import HexColor
from reportlab.lib.enums import TA_RIGHT
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import Frame, KeepInFrame, Paragraph, Spacer
from reportlab.platypus import Table as Grid

from pricing.export.drawing import HEIGHT, LINE_COLOURS, WIDTH, Drawing
from pricing.export.report import Report, Table, cut

_FONTS = Path(__file__).parent / "fonts"
_PLAIN, _BOLD = "DejaVuSansCondensed", "DejaVuSansCondensed-Bold"
_MARGIN = 26.0
_SOURCE = 70  # characters: the whole of it is in the workbook
_INK, _DIM, _HEAD, _RULE, _CARD = (HexColor(c) for c in ("#1f2933", "#55606e", "#0b3a75", "#d5dbe3", "#f3f6fa"))
_GOOD, _BAD = HexColor("#1b7f4b"), HexColor("#b42318")
_BARS = {"whole": _HEAD, "saves": _GOOD, "costs": _BAD}
_WIDTHS = {9: (0.24, 0.11, 0.12, 0.08, 0.08, 0.09, 0.1, 0.1, 0.08), 8: (0.22, 0.13, 0.11, 0.14, 0.1, 0.1, 0.12, 0.08)}


def to_pdf(report: Report) -> bytes:
    """One A4 page, whatever the report holds: what is too much for it is set smaller."""
    _register()
    out = io.BytesIO()
    canvas = Canvas(out, pagesize=A4, invariant=True)
    canvas.setTitle(_shown(report.title))
    canvas.setCreator("specscope")
    width, height = A4[0] - 2 * _MARGIN, A4[1] - 2 * _MARGIN
    story = [KeepInFrame(width, height, _story(report, width), mode="shrink")]
    Frame(_MARGIN, _MARGIN, width, height, 0, 0, 0, 0).addFromList(story, canvas)
    canvas.showPage()
    canvas.save()
    return out.getvalue()


@cache
def _register() -> None:
    for name in (_PLAIN, _BOLD):
        pdfmetrics.registerFont(TTFont(name, _FONTS / f"{name}.ttf"))
    pdfmetrics.registerFontFamily(_PLAIN, normal=_PLAIN, bold=_BOLD, italic=_PLAIN, boldItalic=_BOLD)


def _style(size: float, colour: HexColor = _INK, font: str = _PLAIN, **more: object) -> ParagraphStyle:
    # At any letter a long word may end: names are people's own.
    settings = {"fontName": font, "fontSize": size, "leading": size * 1.25, "textColor": colour, "splitLongWords": 1}
    return ParagraphStyle("", **{**settings, **more})


def _text(text: str, style: ParagraphStyle) -> Paragraph:
    return Paragraph(escape(_shown(text)), style)


def _lined(number: str, style: ParagraphStyle) -> Paragraph:
    """One in two currencies: its own, and the other under it."""
    own, *others = (escape(_shown(line)) for line in number.split("\n"))
    small = f'<font size="{style.fontSize - 0.6:g}" color="{_DIM.hexval().replace("0x", "#")}">'
    return Paragraph(own + "".join(f"<br/>{small}{other}</font>" for other in others), style)


def _shown(text: str) -> str:
    """With a mark for each letter that the font does not have."""
    known = pdfmetrics.getFont(_PLAIN).face.charToGlyph
    return "".join(c if ord(c) in known else " " if c.isspace() else "\ufffd" for c in text)


def _story(report: Report, width: float) -> list[object]:
    story: list[object] = [
        _text(report.title, _style(15, _HEAD, _BOLD)),
        _text(report.subtitle, _style(8, _DIM)),
        *([_text(report.rate, _style(8, _DIM))] if report.rate else []),
        *([_text(report.about, _style(8))] if report.about else []),
        Spacer(1, 4),
        _headline(report, width),
        Spacer(1, 5),
        _side_by_side([_figure(drawing, width / 2 - 8) for drawing in report.drawings], width),
        *_table(report.options, width),
        *(_table(report.speculation, width) if report.speculation is not None else []),
        *(_table(report.break_even, width) if report.break_even is not None else []),
    ]
    half = width / 2 - 5
    excluded = [_text(f"• {text}", _style(6.8)) for text in report.excluded]
    right = [*_table(report.assumed, half), _text(report.excluded_title, _heading()), *excluded]
    story += [Spacer(1, 4), _side_by_side([_table(report.conditions, half), right], width)]
    story += [Spacer(1, 6), *(_text(line, _style(6.2, _DIM)) for line in report.footer)]
    return story


def _heading() -> ParagraphStyle:
    return _style(8.5, _HEAD, _BOLD, spaceBefore=6, spaceAfter=2)


def _headline(report: Report, width: float) -> Grid:
    first, *others = report.headline
    said = [_text(first, _style(10, _INK, _BOLD)), *(_text(line, _style(8.2)) for line in others)]
    look = [
        ("BACKGROUND", (0, 0), (-1, -1), _CARD), ("LINEBEFORE", (0, 0), (0, -1), 3, _BAD if report.loss else _GOOD),
        ("LEFTPADDING", (0, 0), (-1, -1), 9), ("TOPPADDING", (0, 0), (-1, -1), 4),
        ("BOTTOMPADDING", (0, 0), (-1, -1), 5),
    ]  # fmt: skip
    return Grid([[said]], colWidths=[width], style=look, hAlign="LEFT")


def _side_by_side(columns: list[object], width: float) -> Grid:
    look = [
        ("VALIGN", (0, 0), (-1, -1), "TOP"), ("LEFTPADDING", (0, 0), (-1, -1), 0),
        ("RIGHTPADDING", (0, 0), (-1, -1), 8), ("RIGHTPADDING", (-1, 0), (-1, -1), 0),
        ("TOPPADDING", (0, 0), (-1, -1), 0), ("BOTTOMPADDING", (0, 0), (-1, -1), 0),
    ]  # fmt: skip
    return Grid([columns], colWidths=[width / 2] * len(columns), style=look, hAlign="LEFT")


def _table(table: Table, width: float) -> list[object]:
    numbers = table.right < len(table.heads)
    size = 7.2 if numbers else 6.8

    def row(texts: tuple[str, ...], colour: HexColor, font: str) -> list[Paragraph]:
        return [
            _lined(text, _style(size, colour, font, alignment=TA_RIGHT))
            if i >= table.right
            else _text(text, _style(size, colour, font))
            for i, text in enumerate(texts)
        ]

    shares = _WIDTHS.get(len(table.heads)) if numbers else None
    if shares is None:
        shares = (0.36, 0.2, 0.13, 0.31) if len(table.heads) == 4 else (0.58, 0.27, 0.15)
    told = [cells if numbers else (*cells[:-1], cut(cells[-1], _SOURCE)) for cells in table.rows]
    rows = [row(table.heads, _DIM, _BOLD), *(row(cells, _INK, _PLAIN) for cells in told)]
    look = [
        ("LINEBELOW", (0, 0), (-1, -1), 0.4, _RULE), ("VALIGN", (0, 0), (-1, -1), "TOP"),
        ("LEFTPADDING", (0, 0), (-1, -1), 1), ("RIGHTPADDING", (0, 0), (-1, -1), 2),
        ("TOPPADDING", (0, 0), (-1, -1), 0.8), ("BOTTOMPADDING", (0, 0), (-1, -1), 1.2),
    ]  # fmt: skip
    grid = Grid(rows, colWidths=[width * share / sum(shares) for share in shares], style=look, hAlign="LEFT")
    return [_text(table.title, _heading()), grid]


def _figure(drawing: Drawing, width: float) -> list[object]:
    scale = width / WIDTH
    made = shapes.Drawing(width, HEIGHT * scale)

    def y(down: float) -> float:
        return (HEIGHT - down) * scale

    for line in drawing.lines:
        points = [number for x, down in line.points for number in (x * scale, y(down))]
        colour = _RULE if line.series is None else HexColor(LINE_COLOURS[line.series % len(LINE_COLOURS)])
        thick, dashes = (0.5 if line.series is None else 1.4), ([4, 2.5] if line.dashed else None)
        made.add(shapes.PolyLine(points, strokeColor=colour, strokeWidth=thick, strokeDashArray=dashes))
    for bar in drawing.bars:
        low = y(bar.y + bar.height)
        made.add(
            shapes.Rect(
                bar.x * scale, low, bar.width * scale, bar.height * scale, fillColor=_BARS.get(bar.role, _INK),
                strokeColor=None,
            )
        )  # fmt: skip
    for label in drawing.labels:
        made.add(
            shapes.String(
                label.x * scale, y(label.y), _shown(label.text), fontName=_PLAIN, fontSize=9 * scale, fillColor=_INK,
                textAnchor=label.anchor,
            )
        )  # fmt: skip
    return [_text(drawing.title, _heading()), made]
