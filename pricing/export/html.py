"""The decision on one page for a browser: one file, nothing from outside, no script; it prints on one A4 page."""

from __future__ import annotations

from html import escape

from pricing.export.drawing import HEIGHT, LINE_COLOURS, WIDTH, Drawing
from pricing.export.report import Report, Table

_STYLE = """
:root { color-scheme: light dark; --ink: #1f2933; --dim: #55606e; --paper: #fff; --card: #f3f6fa; --rule: #d5dbe3;
  --head: #0b3a75; --good: #1b7f4b; --bad: #b42318; font-size: 15px; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8edf3; --dim: #a9b4c2; --paper: #11161d; --card: #1a222d;
  --rule: #33404f; --head: #8fbaf5; --good: #5fce94; --bad: #ff8a7a; } .series { filter: brightness(1.6); } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem; max-width: 75rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.45 system-ui, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif; overflow-wrap: anywhere; }
h1 { margin: 0; font-size: 1.7rem; color: var(--head); }
h2 { margin: 1.2rem 0 .35rem; font-size: 1.05rem; color: var(--head); }
.dim, footer { color: var(--dim); } p { margin: .2rem 0; }
.headline { margin: 1rem 0; padding: .8rem 1rem; background: var(--card); border-left: 5px solid var(--good);
  border-radius: 4px; print-color-adjust: exact; }
.headline.loss { border-left-color: var(--bad); }
.headline p:first-child { font-size: 1.15rem; font-weight: 600; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(20rem, 100%), 1fr)); gap: 1rem; }
figure, section { margin: 0; min-width: 0; } figcaption { font-weight: 600; color: var(--head); }
svg { width: 100%; height: auto; print-color-adjust: exact; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .86rem; }
th, td { padding: .22rem .5rem; border-bottom: 1px solid var(--rule); text-align: left; vertical-align: top;
  white-space: nowrap; }
th { color: var(--dim); font-weight: 600; vertical-align: bottom; }
th.right, td:first-child, .told td:nth-child(4) { white-space: normal; }
.told td:nth-child(2) { white-space: normal; overflow-wrap: break-word; }
.right { text-align: right; font-variant-numeric: tabular-nums; }
th.right { overflow-wrap: normal; }
.two { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); gap: 0 1.5rem; }
ul { margin: .2rem 0; padding-left: 1.1rem; font-size: .86rem; }
footer { margin-top: 1rem; font-size: .78rem; border-top: 1px solid var(--rule); padding-top: .5rem; }
svg text { font: 9px system-ui, "DejaVu Sans", sans-serif; fill: currentColor; }
.axis { stroke: var(--rule); stroke-width: .75; } .whole { fill: var(--head); } .saves { fill: var(--good); }
.costs { fill: var(--bad); } .series { fill: none; stroke-width: 2; }
@page { size: A4; margin: 9mm; }
@media print {
  :root { color-scheme: light; --ink: #1f2933; --dim: #55606e; --paper: #fff; --card: #f3f6fa; --rule: #d5dbe3;
    --head: #0b3a75; --good: #1b7f4b; --bad: #b42318; font-size: 9px; }
  :root.full { font-size: 7.2px; }
  body { padding: 0; max-width: none; line-height: 1.25; }
  .headline { margin: .5rem 0; padding: .4rem .8rem; } h2 { margin: .6rem 0 .1rem; }
  .charts { grid-template-columns: 1fr 1fr; } .two { grid-template-columns: 1fr 1fr; gap: 0 1rem; }
  th, td { padding: .06rem .3rem; } .scroll { overflow: visible; } footer { margin-top: .5rem; padding-top: .2rem; }
}
"""
_ALSO = ".also { color: var(--dim); font-size: .92em; }\n"
# What fits on an A4 page in the usual size; more is set smaller.
_USUAL_LINES = 52


def to_html(report: Report) -> str:
    """The whole file, UTF-8. Every text in it is escaped."""
    verdict = " loss" if report.loss else ""
    parts = [
        f"<h1>{escape(report.title)}</h1>",
        f'<p class="dim">{escape(report.subtitle)}</p>',
        f'<p class="dim">{escape(report.rate)}</p>' if report.rate else "",
        f"<p>{escape(report.about)}</p>" if report.about else "",
        f'<div class="headline{verdict}">' + "".join(f"<p>{escape(said)}</p>" for said in report.headline) + "</div>",
        '<div class="charts">' + "".join(map(_figure, report.drawings)) + "</div>",
        _table(report.options),
        *(_table(table) for table in (report.speculation, report.break_even) if table is not None),
        '<div class="two">',
        f"<section>{_table(report.conditions)}</section>",
        f"<section>{_table(report.assumed)}<h2>{escape(report.excluded_title)}</h2><ul>",
        "".join(f"<li>{escape(text)}</li>" for text in report.excluded),
        "</ul></section></div>",
        "<footer>" + "".join(f"<p>{escape(line)}</p>" for line in report.footer) + "</footer>",
    ]
    full = " class=full" if _lines(report) > _USUAL_LINES else ""
    # No script, style, picture or address from anywhere: what is not in the file is not fetched.
    style = _STYLE + _ALSO if report.rate else _STYLE
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        f'<!doctype html>\n<html lang="{report.language}"{full}>\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(report.title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        + "\n".join(part for part in parts if part)
        + "\n</body>\n</html>\n"
    )


def _lines(report: Report) -> float:
    """About how many lines the printed page has, long names and sources folded."""
    tables = [table for table in (report.options, report.speculation, report.break_even) if table is not None]
    wide = sum(1 + len(row[0]) // 45 for table in tables for row in table.rows)
    left = sum(max(1 + len(row[0]) // 36, 1 + len(row[-1]) // 24) for row in report.conditions.rows)
    right = sum(1 + len(row[0]) // 48 for row in report.assumed.rows) + sum(1 + len(t) // 80 for t in report.excluded)
    both = sum(any("\n" in text for text in row[1:]) for table in tables for row in table.rows)  # a line more each
    return wide + both + max(left, right) + len(report.about) / 160 + len(report.headline)


def _table(table: Table) -> str:
    def cells(tag: str, texts: tuple[str, ...]) -> str:
        return "".join(
            f"<{tag} class=right>{_lined(text)}</{tag}>" if i >= table.right else f"<{tag}>{escape(text)}</{tag}>"
            for i, text in enumerate(texts)
        )

    rows = "".join(f"<tr>{cells('td', row)}</tr>" for row in table.rows)
    head = f"<thead><tr>{cells('th', table.heads)}</tr></thead>"
    told = "" if table.right < len(table.heads) else " class=told"
    body = f'<div class="scroll"><table{told}>{head}<tbody>{rows}</tbody></table></div>'
    return f"<h2>{escape(table.title)}</h2>{body}"


def _lined(number: str) -> str:
    """One in two currencies: its own, and the other under it."""
    own, *others = number.split("\n")
    return escape(own) + "".join(f"<div class=also>{escape(other)}</div>" for other in others)


def _figure(drawing: Drawing) -> str:
    shapes = []
    for line in drawing.lines:
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in line.points)
        if line.series is None:
            shapes.append(f'<polyline class="axis" points="{points}"/>')
        else:
            colour = LINE_COLOURS[line.series % len(LINE_COLOURS)]
            dashes = ' stroke-dasharray="5 3"' if line.dashed else ""
            shapes.append(f'<polyline class="series" stroke="{colour}"{dashes} points="{points}"/>')
    for bar in drawing.bars:
        size = f'x="{bar.x:.1f}" y="{bar.y:.1f}" width="{bar.width:.1f}" height="{bar.height:.1f}"'
        shapes.append(f'<rect class="{bar.role}" {size}/>')
    for label in drawing.labels:
        shapes.append(
            f'<text x="{label.x:.1f}" y="{label.y:.1f}" text-anchor="{label.anchor}">{escape(label.text)}</text>'
        )
    said = escape(f"{drawing.title}: {drawing.told}")
    return (
        f"<figure><figcaption>{escape(drawing.title)}</figcaption>"
        f'<svg viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" aria-label="{said}">{"".join(shapes)}</svg></figure>'
    )
