"""What a decision's one page says, as finished words: the web page and the PDF only set them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pricing.break_even import MOST_TIMES, break_evens
from pricing.demand import service_levels
from pricing.export.drawing import Drawing, cumulative, waterfall
from pricing.export.provenance import counted, told_matches, told_rates
from pricing.export.told import Conditions, Told, conditions, told
from pricing.export.words import Language, Words
from pricing.scenario import Case, Scenario
from pricing.scenario_file import fingerprint
from pricing.sensitivity import Chances
from pricing.tables import PriceTable
from pricing.tco import Choice, Option, Tco, tco

# More would not go on the page; how many more there are is said.
MOST_ASSUMED, MOST_EXCLUDED, MOST_OPTIONS = 14, 8, 9
_LONGEST = 110  # characters of a source or an exclusion


@dataclass(frozen=True)
class Table:
    """right: columns from this one on are numbers."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: int = 1


@dataclass(frozen=True)
class Report:
    """headline: sentences, the first one the answer. loss: speculation costs more than it saves there."""

    language: Language
    title: str
    subtitle: str
    about: str
    headline: tuple[str, ...]
    loss: bool
    options: Table
    speculation: Table | None
    break_even: Table | None
    conditions: Table
    assumed: Table
    excluded_title: str
    excluded: tuple[str, ...]
    drawings: tuple[Drawing, ...]
    footer: tuple[str, ...]


def make_report(
    scenario: Scenario,
    *,
    case: Case = "base",
    prices: PriceTable | None = None,
    chances: Sequence[Chances] = (),
    exported_at: datetime | None = None,
    language: Language = "en",
) -> Report:
    """prices: the table behind the quoted ones. chances: of a Monte Carlo, where one was made. Raises ValueError where
    the scenario cannot be served."""
    words = Words(language)
    used = scenario.in_case(case)
    found = tco(used)
    ends = (scenario.in_case("best"), scenario.in_case("worst"))
    totals = [tco(end) for end in ends] if any(end is not scenario for end in ends) else []
    at = exported_at or datetime.now().astimezone()
    best = min((o for o in found.options if o.arm == "speculative"), key=lambda o: o.npv_of_cost, default=None)
    choice = next((c for c in found.speculation if best is not None and c.option == best.title), None)
    shown = found.options[:MOST_OPTIONS]
    drawings = [cumulative(shown, [_title(option, words) for option in shown], used.currency, words)]
    if best is not None:
        drawings.append(waterfall(found.option(best.name, "plain"), best, used.currency, words))
    term = words.term(scenario.years)
    telling = best or found.options[0]
    hangs = conditions(used, telling.name, telling.arm, words)
    names, day = words(f"case.{case}"), words.day(at.date())
    return Report(
        language=language,
        title=scenario.name,
        subtitle=words("report.subtitle", term=term, currency=scenario.currency, case=names, date=day),
        about=cut(scenario.about, 400),
        headline=_headline(found, best, choice, totals, chances, words),
        loss=choice is not None and choice.verdict in ("loss", "late"),
        options=_options(found, words),
        speculation=_speculation(found, words),
        break_even=_break_even(found, words),
        conditions=_conditions(used, hangs, told_matches(used, prices, at.date(), words), words),
        assumed=_assumed(used, hangs, words),
        excluded_title=words("assumptions.excluded"),
        excluded=_excluded(used, words),
        drawings=tuple(drawings),
        footer=_footer(scenario, used, prices, words, at),
    )  # fmt: skip


def _title(option: Option, words: Words) -> str:
    return option.name if option.kind == "api" else words("title", name=option.name, arm=words(f"arm.{option.arm}"))


def _headline(
    found: Tco,
    best: Option | None,
    choice: Choice | None,
    cases: Sequence[Tco],
    chances: Sequence[Chances],
    words: Words,
) -> tuple[str, ...]:
    """cases: the best and the worst, in this order; none where the scenario names neither."""
    currency, cheapest = found.scenario.currency, found.options[0]

    def money(value: float) -> str:
        return words.money(value, currency, 0 if abs(value) >= 1000 else 2)

    said = [
        words(
            "report.cheapest", option=_title(cheapest, words), total=money(cheapest.total),
            term=words.term(found.scenario.years), present=money(cheapest.npv_of_cost),
        )
    ]  # fmt: skip
    if best is not None and choice is not None:
        key = f"report.{choice.verdict}"
        share = words.share(abs(choice.saving_share) if choice.saving_share is not None else None)
        said.append(words(key, option=best.name, saving=money(abs(choice.saving)), share=share, npv=money(choice.npv)))
        if choice.verdict == "gain":
            weeks = choice.payback_weeks
            key = "report.never" if weeks is None else "report.no_advance" if weeks == 0 else "report.payback"
            if weeks is not None and 0 < weeks < 1:
                key = "report.payback_soon"
            said.append(words(key, weeks=words.weeks(weeks), irr=words.rate(choice.irr)))
        drawn = next((c for c in chances if c.option == best.title), None)
        if drawn is not None:
            held = {"low": money(drawn.p05), "high": money(drawn.p95)}
            said.append(words("report.chances", option=_title(best, words), draws=len(drawn.totals), **held))
        if cases:
            first, last = (money(case.option(best.name, best.arm).total) for case in cases)
            said.append(words("report.range", option=_title(best, words), best=first, worst=last))
    if not cases and not chances:
        said.append(words("report.no_range"))
    owed = [f"{_title(o, words)}: {money(o.beyond_term)}" for o in found.options if o.beyond_term > 0]
    if owed:
        said.append(words("report.beyond_term", owed="; ".join(owed)))
    for level in service_levels(found.scenario):
        if not level.kept:
            seconds, target = (words.number(s, 3) for s in (level.p95_s, level.target_s))
            said.append(words("report.p95_missed", arm=words(f"arm.{level.arm}"), seconds=seconds, target=target))
    return tuple(said)


def _options(found: Tco, words: Words) -> Table:
    currency = found.scenario.currency
    rows = []
    for option in found.options[:MOST_OPTIONS]:
        cost, months = option.tokens, option.monthly
        gpus = NO_GPUS if option.kind == "api" else f"{months['gpus'].iloc[0]:.0f} → {months['gpus'].iloc[-1]:.0f}"
        busy = words.share(None if option.kind == "api" else float(months["busy_share"].mean()))
        prices = (cost.per_million_input, cost.per_million_output, cost.blended_per_million, cost.per_request)
        whole = (words.money(option.total, currency, 0), words.money(option.npv_of_cost, currency, 0))
        parts = (words.price(price, currency) for price in prices)
        rows.append((_title(option, words), *whole, *parts, gpus, busy))
    keys = ("total_head", "present_head", "input", "output", "blended", "request", "gpus", "busy")
    heads = (words("summary.option"), *(words(f"report.{key}") for key in keys))
    left_out = len(found.options) - len(rows)
    title = words("summary.options") + (words("report.more", count=left_out) if left_out else "")
    return Table(title, heads, tuple(rows))


NO_GPUS = "–"


def _speculation(found: Tco, words: Words) -> Table | None:
    if not found.speculation:
        return None
    currency = found.scenario.currency
    rows = []
    for choice in found.speculation[:MOST_OPTIONS]:
        option = next(o for o in found.options if o.title == choice.option and o.arm == "speculative")
        verdict = words(f"summary.{choice.verdict}")
        rows.append(
            (option.name, words.money(choice.saving, currency, 0), words.share(choice.saving_share),
             words.money(choice.npv, currency, 0), words.rate(choice.irr), words.weeks(choice.payback_weeks),
             words.weeks(choice.discounted_payback_weeks), verdict)
        )  # fmt: skip
    keys = ("saving", "share", "npv", "irr", "payback_head", "discounted_head", "verdict")
    heads = (words("summary.option"), *(words(f"summary.{key}") for key in keys))
    return Table(words("summary.speculation"), heads, tuple(rows))


def _break_even(found: Tco, words: Words) -> Table | None:
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


def _conditions(scenario: Scenario, hangs: Conditions, matches: Mapping[str, str], words: Words) -> Table:
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


def _assumed(scenario: Scenario, hangs: Conditions, words: Words) -> Table:
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


def _excluded(scenario: Scenario, words: Words) -> tuple[str, ...]:
    told_out = [cut(text) for text in scenario.excluded[:MOST_EXCLUDED]]
    if len(scenario.excluded) > MOST_EXCLUDED:
        told_out.append(words("report.more", count=len(scenario.excluded) - MOST_EXCLUDED).strip(" ()"))
    return tuple(told_out) or (words("assumptions.nothing_excluded"),)


def cut(text: str, longest: int = _LONGEST) -> str:
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def _footer(
    scenario: Scenario, used: Scenario, prices: PriceTable | None, words: Words, at: datetime
) -> tuple[str, ...]:
    lines = [
        words("report.made", when=f"{at:%Y-%m-%d %H:%M} {at.tzname() or ''}".strip(), sha256=fingerprint(scenario))
    ]
    if prices is not None:
        days = [row.as_of for row in prices]
        newest = words.day(max(days)) if days else "–"
        table = words("report.table", file=prices.file, sha256=prices.sha256, date=newest)
        lines.append(f"{table} {counted(used, prices, at.date(), words)}".strip())
    if scenario.rates:
        lines.append(f"{words('rates.title')}: {'; '.join(told_rates(scenario, words))}")
    lines.append(words("report.labels"))
    return tuple(lines)
