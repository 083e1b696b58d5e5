"""The tables of a decision's one page: options, what speculation is worth, break-even, and what it all rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pricing.break_even import MOST_TIMES, break_evens
from pricing.demand import service_levels
from pricing.export.second import Money
from pricing.export.told import Conditions, Told, told
from pricing.export.words import Words
from pricing.scenario import Scenario
from pricing.tco import Option, Tco

# More would not go on the page; how many more there are is said.
MOST_ASSUMED, MOST_OPTIONS = 14, 9
_LONGEST = 110  # characters of a source or an exclusion


@dataclass(frozen=True)
class Table:
    """right: columns from this one on are numbers; one in two currencies is a line of each."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: int = 1


def option_title(option: Option, words: Words) -> str:
    return option.name if option.kind == "api" else words("title", name=option.name, arm=words(f"arm.{option.arm}"))


def options_table(found: Tco, money: Money) -> Table:
    words, rows = money.words, []
    for option in found.options[:MOST_OPTIONS]:
        cost, months = option.tokens, option.monthly
        gpus = NO_GPUS if option.kind == "api" else f"{months['gpus'].iloc[0]:.0f} → {months['gpus'].iloc[-1]:.0f}"
        busy = words.share(None if option.kind == "api" else float(months["busy_share"].mean()))
        prices = (cost.per_million_input, cost.per_million_output, cost.blended_per_million, cost.per_request)
        whole = (money.whole(option.total), money.whole(option.npv_of_cost))
        parts = (money.price(price) for price in prices)
        rows.append((option_title(option, words), *whole, *parts, gpus, busy))
    keys = ("total_head", "present_head", "input", "output", "blended", "request", "gpus", "busy")
    heads = (words("summary.option"), *(words(f"report.{key}") for key in keys))
    left_out = len(found.options) - len(rows)
    title = words("summary.options") + (words("report.more", count=left_out) if left_out else "")
    return Table(title, heads, tuple(rows))


NO_GPUS = "–"


def speculation_table(found: Tco, money: Money) -> Table | None:
    if not found.speculation:
        return None
    words, rows = money.words, []
    for choice in found.speculation[:MOST_OPTIONS]:
        option = next(o for o in found.options if o.title == choice.option and o.arm == "speculative")
        verdict = words(f"summary.{choice.verdict}")
        rows.append(
            (option.name, money.whole(choice.saving), words.share(choice.saving_share), money.whole(choice.npv),
             words.rate(choice.irr), words.weeks(choice.payback_weeks),
             words.weeks(choice.discounted_payback_weeks), verdict)
        )  # fmt: skip
    keys = ("saving", "share", "npv", "irr", "payback_head", "discounted_head", "verdict")
    heads = (words("summary.option"), *(words(f"summary.{key}") for key in keys))
    return Table(words("summary.speculation"), heads, tuple(rows))


def break_even_table(found: Tco, words: Words) -> Table | None:
    """Of what is rented or owned, in place of each API; None where there is none."""
    evens = break_evens(found.scenario)
    if not evens:
        return None
    rows = []
    for even in evens[:MOST_OPTIONS]:
        pair = words("sensitivity.instead", own=even.option, other=even.instead_of)
        if even.requests_per_day:
            requests, tokens = words.number(even.requests_per_day, 0), words.number(even.tokens_per_month, 0)
            rows.append((pair, requests, tokens, words.share(even.busy_share)))
        else:
            key = "sensitivity.never" if even.requests_per_day is None else "break_even.always"
            rows.append((pair, words(key, times=words.number(MOST_TIMES)), "–", "–"))
    heads = tuple(words(f"break_even.{key}") for key in ("pair", "requests", "tokens", "busy"))
    left_out = len(evens) - len(rows)
    title = words("break_even.title") + (words("report.more", count=left_out) if left_out else "")
    return Table(title, heads, tuple(rows))


def shown_value(number: Told, words: Words) -> str:
    """With its unit."""
    value = number.figure.value
    text = words.share(value) if number.kind == "share" else words.number(value, 4)
    return f"{text} {number.unit}"


def conditions_table(scenario: Scenario, hangs: Conditions, matches: Mapping[str, str], words: Words) -> Table:
    """What the answer hangs on most, with labels and sources; of a rented price also whether it is in the table."""
    serving = scenario.serving
    rows: list[tuple[str, ...]] = [(words("report.model"), f"{serving.model}, {serving.gpu}", "", "")]
    levels = service_levels(scenario)
    if levels:
        value = "; ".join(f"{words(f'arm.{level.arm}')} {words.number(level.p95_s, 3)} s" for level in levels)
        measured = levels[0].origin == "load curve"
        origin = words("report.p95_curve" if measured else "report.p95_queue")
        of_curve = scenario.load_curve[levels[0].arm][0].p95_s.label if measured else "projected"
        rows.append((words("report.p95"), value, words(f"label.{of_curve}"), origin))
    for number in hangs.numbers:
        name, value, label, source = _row(number, words)
        match = matches.get(number.path)
        rows.append((name, value, label, f"{match}; {source}" if match and source else match or source))
    key = "summary.conditions" if hangs.moved else "summary.rests"
    return Table(_with_more(key, hangs.left_out, words), _heads(words), tuple(rows), 9)


def assumed_table(scenario: Scenario, hangs: Conditions, words: Words) -> Table:
    """Those that somebody has put in; specscope's own defaults are counted."""
    assumed = [number for number in told(scenario, words) if number.figure.label == "assumed"]
    given = [number for number in assumed if number.figure.source != "specscope's default"]
    elsewhere = {number.path for number in hangs.numbers}
    given = [number for number in given if number.path not in elsewhere]
    rows = [_row(number, words) for number in given[:MOST_ASSUMED]]
    shown = len(rows) + sum(number.path in elsewhere for number in assumed)
    title, heads = _with_more("assumptions.numbers", len(assumed) - shown, words), _heads(words)
    if not any(row[-1] for row in rows):
        rows, heads = [row[:-1] for row in rows], heads[:-1]
    return Table(title, heads, tuple(rows), 9)


def _with_more(key: str, more: int, words: Words) -> str:
    return words(key) + (words("report.more", count=more) if more > 0 else "")


def _heads(words: Words) -> tuple[str, ...]:
    return tuple(words(f"inputs.{head}") for head in ("name", "base", "label", "source"))


def _row(number: Told, words: Words) -> tuple[str, ...]:
    label = words(f"label.{number.figure.label}")
    return f"{number.section}: {number.name}", shown_value(number, words), label, cut(number.figure.source)


def cut(text: str, longest: int = _LONGEST) -> str:
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"
