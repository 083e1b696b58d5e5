"""What a decision's one page says, as finished words: the web page and the PDF only set them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pricing.demand import service_levels
from pricing.exchange import Exchange
from pricing.export.drawing import Drawing, cumulative, waterfall
from pricing.export.provenance import counted, told_matches, told_rates
from pricing.export.report_tables import MOST_ASSUMED as MOST_ASSUMED
from pricing.export.report_tables import (
    MOST_OPTIONS,
    assumed_table,
    break_even_table,
    conditions_table,
    option_title,
    options_table,
    speculation_table,
)
from pricing.export.report_tables import Table as Table
from pricing.export.report_tables import cut as cut
from pricing.export.second import Money, second
from pricing.export.told import conditions
from pricing.export.words import Language, Words
from pricing.scenario import Case, Scenario
from pricing.scenario_file import fingerprint
from pricing.sensitivity import Chances
from pricing.tables import PriceTable
from pricing.tco import Choice, Option, Tco, tco

MOST_EXCLUDED = 8  # more would not go on the page; how many more there are is said


@dataclass(frozen=True)
class Report:
    """headline: sentences, the first one the answer. loss: speculation costs more than it saves there. rate: the line
    that names the rate of a second currency; "" without one."""

    language: Language
    title: str
    subtitle: str
    rate: str
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
    to: Exchange | None = None,
) -> Report:
    """prices: the table behind the quoted ones. chances: of a Monte Carlo, where one was made. to: another currency,
    shown beside the own one. Raises ValueError where the scenario cannot be served, RateError where no rate
    reaches that currency."""
    words = Words(language)
    used = scenario.in_case(case)
    money = Money(words, used.currency, second(to, used.currency))
    found = tco(used)
    ends = (scenario.in_case("best"), scenario.in_case("worst"))
    totals = [tco(end) for end in ends] if any(end is not scenario for end in ends) else []
    at = exported_at or datetime.now().astimezone()
    best = min((o for o in found.options if o.arm == "speculative"), key=lambda o: o.npv_of_cost, default=None)
    choice = next((c for c in found.speculation if best is not None and c.option == best.title), None)
    shown = found.options[:MOST_OPTIONS]
    drawings = [cumulative(shown, [option_title(option, words) for option in shown], used.currency, words)]
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
        rate=money.also.told(words) if money.also is not None else "",
        about=cut(scenario.about, 400),
        headline=_headline(found, best, choice, totals, chances, money),
        loss=choice is not None and choice.verdict in ("loss", "late"),
        options=options_table(found, money),
        speculation=speculation_table(found, money),
        break_even=break_even_table(found, words),
        conditions=conditions_table(used, hangs, told_matches(used, prices, at.date(), words), words),
        assumed=assumed_table(used, hangs, words),
        excluded_title=words("assumptions.excluded"),
        excluded=_excluded(used, words),
        drawings=tuple(drawings),
        footer=_footer(scenario, used, prices, words, at),
    )  # fmt: skip


def _headline(
    found: Tco,
    best: Option | None,
    choice: Choice | None,
    cases: Sequence[Tco],
    chances: Sequence[Chances],
    amounts: Money,
) -> tuple[str, ...]:
    """cases: the best and the worst, in this order; none where the scenario names neither."""
    cheapest, words, money = found.options[0], amounts.words, amounts.in_line
    said = [
        words(
            "report.cheapest", option=option_title(cheapest, words), total=money(cheapest.total),
            term=words.term(found.scenario.years), present=money(cheapest.npv_of_cost),
        )
    ]  # fmt: skip
    if best is not None and choice is not None:
        key = f"report.{choice.verdict}"
        share = words.share(abs(choice.saving_share) if choice.saving_share is not None else None)
        saving, second = amounts.own(abs(choice.saving)), amounts.second(abs(choice.saving))
        share = f"{second}; {share}" if second else share  # one pair of brackets for both
        said.append(words(key, option=best.name, saving=saving, share=share, npv=money(choice.npv)))
        if choice.verdict == "gain":
            weeks = choice.payback_weeks
            key = "report.never" if weeks is None else "report.no_advance" if weeks == 0 else "report.payback"
            if weeks is not None and 0 < weeks < 1:
                key = "report.payback_soon"
            said.append(words(key, weeks=words.weeks(weeks), irr=words.rate(choice.irr)))
        drawn = next((c for c in chances if c.option == best.title), None)
        if drawn is not None:
            held = {"low": money(drawn.p05), "high": money(drawn.p95)}
            said.append(words("report.chances", option=option_title(best, words), draws=len(drawn.totals), **held))
            if drawn.missed_share:
                said.append(words("report.chances_missed", share=words.share(drawn.missed_share)))
        if cases:
            first, last = (money(case.option(best.name, best.arm).total) for case in cases)
            said.append(words("report.range", option=option_title(best, words), best=first, worst=last))
    if not cases and not chances:
        said.append(words("report.no_range"))
    owed = [f"{option_title(o, words)}: {money(o.beyond_term)}" for o in found.options if o.beyond_term > 0]
    if owed:
        said.append(words("report.beyond_term", owed="; ".join(owed)))
    for level in service_levels(found.scenario):
        if not level.kept:
            seconds, target = (words.number(s, 3) for s in (level.p95_s, level.target_s))
            said.append(words("report.p95_missed", arm=words(f"arm.{level.arm}"), seconds=seconds, target=target))
    return tuple(said)


def _excluded(scenario: Scenario, words: Words) -> tuple[str, ...]:
    told_out = [cut(text) for text in scenario.excluded[:MOST_EXCLUDED]]
    if len(scenario.excluded) > MOST_EXCLUDED:
        told_out.append(words("report.more", count=len(scenario.excluded) - MOST_EXCLUDED).strip(" ()"))
    return tuple(told_out) or (words("assumptions.nothing_excluded"),)


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
