"""How the command line shows a total cost: the answer, tables, ranges, and where the numbers come from."""

import re
from collections.abc import Sequence
from typing import Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from app import terminal
from app.tco_report import UNIT_PRICES, Drawn, Found, shown
from pricing import Exchange, PriceTable
from pricing.export.provenance import told_rate
from pricing.export.report import Table as Told
from pricing.export.report import make_report
from pricing.export.told import told
from pricing.export.words import Words

_LETTER = re.compile(r"[^\W\d_]")
WIDE = 200  # characters, where no terminal says how wide it is


def show(found: Found, drawn: Drawn | None, prices: PriceTable, to: Exchange | None = None) -> None:
    words = Words(found.asked.language)
    report = make_report(
        found.scenario, case=found.asked.case, prices=prices, chances=drawn.chances if drawn else (),
        language=found.asked.language,
    )  # fmt: skip
    terminal.out.print(printable(report.title), style="bold")
    terminal.note(report.subtitle)
    for i, said in enumerate(report.headline):
        bad = report.loss and i == 1
        terminal.out.print(printable(said), style="red bold" if bad else "bold" if i == 0 else "")
    _options(report.options, words)
    if report.speculation is not None:
        _table(report.speculation)
    if report.break_even is not None:
        _table(report.break_even)
    if to is not None and to.currency != found.used.currency:
        _converted(found, to, words)
    _years(found, words)
    if found.drivers:
        _tornado(found, words)
    if drawn is not None:
        _chances(drawn, found, words)
    if found.against is not None:
        _moved(found, words)
    _table(report.conditions)
    terminal.out.print(printable(f"{report.excluded_title}: {'; '.join(report.excluded)}"))
    for line in report.footer:
        terminal.note(line)


def printable(text: str) -> Text:
    """Names are people's own and may hold what would drive the terminal."""
    return Text("".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text))


def _rows(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], right: int = 1) -> None:
    """In as many tables as it takes to fit, the first column in each."""
    # A pipe has no width to keep to.
    out = terminal.out if terminal.out.is_terminal else Console(file=terminal.out.file, width=WIDE, highlight=False)
    texts = [[head, *(row[i] for row in rows)] for i, head in enumerate(heads)]
    least = [_least(column, i >= right) for i, column in enumerate(texts)]
    most = [max(map(len, column)) for column in texts]
    for n, columns in enumerate(_fitting(least, out.width)):
        table = Table(title=Text(title if n == 0 else f"{title} …"), title_style="dim", title_justify="left")
        widths = _widths([least[i] for i in columns], [most[i] for i in columns], out.width)
        for i, wide in zip(columns, widths, strict=True):
            side: Literal["right", "left"] = "right" if i >= right else "left"
            table.add_column(Text(heads[i]), justify=side, overflow="fold", width=wide)
        for row in rows:
            table.add_row(*(printable(row[i]) for i in columns))
        out.print(table)


def _least(texts: Sequence[str], number: bool) -> int:
    """A column's least width: a text is folded between words, a number never, for half of one reads as another."""
    words = [word for text in texts for word in ([text] if number and not _LETTER.search(text) else text.split())]
    longest = max(map(len, words), default=1)
    return longest if number else min(longest, 20)


def _widths(least: Sequence[int], most: Sequence[int], width: int) -> list[int]:
    """Of the columns of one table: what room there is goes to the one that is folded most."""
    widths, room = list(least), width - sum(least) - 3 * len(least) - 1
    for _ in range(max(0, min(room, sum(most) - sum(least)))):
        tightest = max((i for i in range(len(most)) if widths[i] < most[i]), key=lambda i: most[i] / max(1, widths[i]))
        widths[tightest] += 1
    return widths


def _fitting(least: Sequence[int], width: int) -> list[list[int]]:
    """The columns of each table: as many as the width holds, beside the first."""
    tables = [[0]]
    for i in range(1, len(least)):
        if len(tables[-1]) > 1 and sum(least[j] + 3 for j in [*tables[-1], i]) + 1 > width:
            tables.append([0])
        tables[-1].append(i)
    return tables


def _table(shown: Told) -> None:
    _rows(shown.title, shown.heads, shown.rows, min(shown.right, len(shown.heads)))


def _options(shown: Told, words: Words) -> None:
    """In two tables: what it costs and with how many machines, and what a token and a request cost."""
    for title, columns in ((shown.title, (0, 1, 2, 7, 8)), (words("tco.units"), (0, 3, 4, 5, 6))):
        rows = [[row[i] for i in columns] for row in shown.rows]
        _rows(title, [shown.heads[i] for i in columns], rows)


def _converted(found: Found, to: Exchange, words: Words) -> None:
    """The options again in the other currency, at the rate that the title names."""
    made = shown(found.tco, to)
    rate = to.rate(found.used.currency)
    title = words("rates.shown", currency=to.currency, rate=told_rate(rate, words) if rate is not None else "")
    rows = [
        (_title(option.title, option.arm, option.name, option.kind, words),
         words.money(also["total"], to.currency, 0), words.money(also["npv_of_cost"], to.currency, 0),
         *(words.price(also[name], to.currency) for name in UNIT_PRICES))
        for option, also in zip(found.tco.options, made["options"], strict=True)
    ]  # fmt: skip
    keys = ("total_head", "present_head", "input", "output", "blended", "request")
    _rows(title, [words("summary.option"), *(words(f"report.{key}") for key in keys)], rows)


def _years(found: Found, words: Words) -> None:
    currency, options = found.used.currency, found.tco.options
    heads = [words("calc.year"), *map(str, range(1, found.used.years + 1))]
    rows = [
        (_title(option.title, option.arm, option.name, option.kind, words),
         *(words.money(total, currency, 0) for total in option.yearly["total"]))
        for option in options
    ]  # fmt: skip
    _rows(words("tco.yearly"), heads, rows)


def _title(title: str, arm: str, name: str, kind: str, words: Words) -> str:
    return title if kind == "api" else words("title", name=name, arm=words(f"arm.{arm}"))


def _tornado(found: Found, words: Words) -> None:
    currency = found.used.currency
    by_path = {number.path: number for number in told(found.used, words)}

    def row(driver: object) -> tuple[str, ...]:
        number = by_path[driver.path]
        show = words.share if number.kind == "share" else words.number
        ends = (show(driver.low), show(driver.high))
        changes = (driver.low_cost - driver.base_cost, driver.high_cost - driver.base_cost)
        moves = (words.money(change, currency, 0) for change in changes)
        return (f"{number.section}: {number.name}", number.unit, *ends, *moves)

    keys = ("driver", "unit", "low", "high", "low_change", "high_change")
    heads = [words(f"sensitivity.{key}") for key in keys]
    _rows(words("sensitivity.of", option=found.asked.tornado), heads, [row(d) for d in found.drivers], 2)


def _chances(drawn: Drawn, found: Found, words: Words) -> None:
    currency = found.used.currency
    targeted = any(chance.missed_share is not None for chance in drawn.chances)
    rows = [
        (chance.option, *(words.money(v, currency, 0) for v in (chance.p05, chance.p50, chance.p95, chance.mean)),
         words.share(chance.loss_share), *([words.share(chance.missed_share)] if targeted else []))
        for chance in drawn.chances
    ]  # fmt: skip
    keys = ("option", "p05", "p50", "p95", "mean", "loss", *(["missed"] if targeted else []))
    heads = [words(f"chances.{key}") for key in keys]
    _rows(words("sensitivity.chances", draws=f"{drawn.made:,}"), heads, rows)


def _moved(found: Found, words: Words) -> None:
    before = printable(words("tco.moved", before=found.against.scenario.name, after=found.used.name))
    terminal.out.print(before, style="dim")
    for sentence in found.moved_told:
        terminal.out.print(printable(f"- {sentence}"))
    terminal.note(words("moved.alone" if found.moved else "tco.same"))
