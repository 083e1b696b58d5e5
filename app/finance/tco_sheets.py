"""The TCO tab's tables: what each option comes to, what speculation is worth in it, and when it pays."""

from typing import Any

from app.catalogue import Words
from app.components.finance_views import blocks
from app.finance import shown
from app.finance.cost_sheets import arms_of, names, with_arms
from app.finance.desk import Now
from app.shown_in import now_told, told_rate
from pricing import Exchange
from pricing.break_even import BreakEven, break_even
from pricing.scenario import Scenario
from pricing.tco import Choice, Option

_HIGHEST_IRR = 100.0


def verdict(now: Now, words: Words, to: Exchange | None = None) -> dict[str, Any]:
    """In sentences: what costs least, and whether speculation is worth it there. to: another currency, whose amounts
    stand beside their own, at the rate that a line names."""
    money = now.scenario.currency
    first, *others = now.made.options
    told = [
        words(
            "verdict_best", title=title(first, words), span=shown.span(now.scenario.years, words),
            total=shown.both(first.total, money, to, words), npv=shown.both(first.npv_of_cost, money, to, words),
        )
    ]  # fmt: skip
    other = next((o for o in others if o.name != first.name), None)
    if other is not None:
        gap = shown.both(other.npv_of_cost - first.npv_of_cost, money, to, words)
        told.append(words("verdict_next", title=title(other, words), gap=gap))
    text: list[dict[str, Any]] = [{"type": "text", "text": " ".join(told), "tone": "lead"}]
    for name in with_arms(now.made):
        choice = of_speculation(now, name)
        tone = _TONES[choice.verdict]
        text.append({"type": "text", "text": worth(name, choice, now.scenario, words, to), "tone": tone})
    return blocks(*text, rate_told(money, to, words))


# As the sentence says it: "late" is a saving that comes too late to be one at today's value.
_TONES = {"gain": "gain", "even": "small", "late": "loss", "loss": "loss"}


def rate_told(own: str, to: Exchange | None, words: Words) -> dict[str, Any] | None:
    """The line that names the rate with its day, source and side, where the form of rates does not say the same: of a
    bulletin it names them all. What is missing where none reaches `own`."""
    if to is None or to.currency == own:
        return None
    text = words("rates_unreached", own=own, currency=to.currency)
    if to.reaches(own) and (rate := to.rate(own)) is not None:
        text = words("rates_now", currency=to.currency, rates=told_rate(rate, words))
        if text == now_told(to, words):
            return None
    return {"type": "text", "text": text, "tone": "small"}


def worth(name: str, choice: Choice, scenario: Scenario, words: Words, to: Exchange | None = None) -> str:
    """What speculation is worth in an option, a loss as a loss."""
    money = scenario.currency
    amount, npv = shown.money(abs(choice.saving), money, words), shown.both(abs(choice.npv), money, to, words)
    share = shown.percent(abs(choice.saving_share), words) if choice.saving_share is not None else shown.NOTHING
    other = shown.converted(abs(choice.saving), money, to, words)
    share = f"{other}; {share}" if other is not None else share  # one pair of brackets for both
    known: dict[str, Any] = {"name": name, "amount": amount, "share": share, "npv": npv}
    if choice.verdict == "loss" and round(choice.npv, 2) > 0:
        return words("worth_loss_late", **known)
    if choice.verdict != "gain":
        return words({"even": "worth_nothing", "loss": "worth_loss", "late": "worth_late"}[choice.verdict], **known)
    if choice.payback_weeks is None:
        return words("worth_unsettled", **known)
    if choice.payback_weeks == 0:
        return words("worth_at_once", **known)
    if choice.payback_weeks < 1:
        return words("worth_within_week", **known)
    return words("worth_gain", **known, weeks=shown.number(choice.payback_weeks, words, 3))


def options(now: Now, words: Words, to: Exchange | None = None) -> dict[str, Any]:
    """A row an option, the cheapest first."""
    money = now.scenario.currency
    rows = []
    for name in names(now.made):
        arms = arms_of(now.made, name)
        plain, fast = arms["plain"], arms.get("speculative")
        best = fast or plain
        cells: list[Any] = [
            {"t": name, "sub": words(f"kind_{plain.kind}")},
            amount_cell(plain.total, money, to, words, ["option", name, "plain", "total"]),
            amount_cell(fast.total, money, to, words, ["option", name, "speculative", "total"]) if fast else None,
            amount_cell(best.npv_of_cost, money, to, words, ["option", name, best.arm, "npv_of_cost"]),
        ]
        cells += _speculation(name, of_speculation(now, name), now, to, words) if fast else [None] * 4
        rows.append({"cells": cells, "tone": "first" if name == now.made.options[0].name else ""})
    symbol = shown.symbol(money)
    weeks = words("unit_weeks")
    columns = [
        {"text": words("col_option"), "text_left": True},
        {"text": words("col_total_plain"), "unit": symbol},
        {"text": words("col_total_fast"), "unit": symbol},
        {"text": words("col_npv_cost"), "unit": symbol},
        {"text": words("col_saving_of"), "unit": symbol},
        {"text": words("col_payback"), "unit": weeks},
        {"text": words("col_payback_discounted"), "unit": weeks},
        {"text": words("col_irr")},
    ]
    table = {"type": "table", "name": "options", "columns": columns, "rows": rows, "cards": True}
    return blocks(
        table, {"type": "text", "text": words("options_told"), "tone": "small"}, *_beyond_term(now, to, words)
    )  # fmt: skip


def _beyond_term(now: Now, to: Exchange | None, words: Words) -> list[dict[str, Any]]:
    """What is owed for reservations when the term is over: in no total, so it is said."""
    owed = [
        f"{title(option, words)}: {shown.both(option.beyond_term, now.scenario.currency, to, words)}"
        for option in now.made.options
        if option.beyond_term > 0
    ]
    return [{"type": "text", "text": words("beyond_term", owed="; ".join(owed))}] if owed else []


def _speculation(name: str, choice: Choice, now: Now, to: Exchange | None, words: Words) -> list[Any]:
    money = now.scenario.currency
    tone = "gain" if choice.saving > 0.005 else "loss" if choice.saving < -0.005 else "quiet"
    saving = figure(shown.money(choice.saving, money, words), ["speculation", name, "saving"], tone)
    if choice.saving_share is not None:
        saving["sub"] = shown.percent(choice.saving_share, words, signed=True)
    saving = shown.also(saving, choice.saving, money, to, words, shown.money)
    return [
        saving,
        figure(weeks_of(choice.payback_weeks, words), ["speculation", name, "payback_weeks"]),
        figure(weeks_of(choice.discounted_payback_weeks, words), ["speculation", name, "discounted_payback_weeks"]),
        figure(irr_of(choice, words), ["speculation", name, "irr"]),
    ]


def weeks_of(weeks: float | None, words: Words) -> str:
    if weeks is None:
        return words("payback_never")
    if weeks < 1:
        return words("payback_none" if weeks == 0 else "payback_under")
    return shown.number(weeks, words, 3)


def irr_of(choice: Choice, words: Words, decimals: int = 1) -> str:
    """Where next to nothing is paid first the rate has fifteen digits, and none of them says anything."""
    if choice.irr is None:
        return words("irr_none")
    return words("irr_high") if choice.irr > _HIGHEST_IRR else shown.percent(choice.irr, words, decimals)


def figure(text: str, why: list[str], tone: str = "") -> dict[str, Any]:
    return {"t": text, "why": why} | ({"tone": tone} if tone else {})


def amount_cell(value: float, currency: str, to: Exchange | None, words: Words, why: list[str]) -> dict[str, Any]:
    """A whole amount, in the other currency too."""
    return shown.also(figure(shown.money(value, currency, words), why), value, currency, to, words, shown.money)


def of_speculation(now: Now, name: str) -> Choice:
    """Speculative decoding in place of plain, in this option."""
    wanted = arms_of(now.made, name)["speculative"].title
    return next(choice for choice in now.made.speculation if choice.option == wanted)


def title(option: Option, words: Words) -> str:
    return option.name if option.kind == "api" else f"{option.name}, {words(f'arm_{option.arm}')}"


def titled(now: Now, text: str, words: Words) -> str:
    """An option's title as `pricing` says it, in the reader's words."""
    return next((title(option, words) for option in now.made.options if option.title == text), text)


def break_evens(now: Now, words: Words) -> dict[str, Any]:
    """From what demand on an own fleet costs less than an API: requests a day, tokens a month, how busy it is there."""
    apis = [api.name for api in now.scenario.api]
    rows = []
    for name in with_arms(now.made):
        cells: list[Any] = [{"t": name}]
        for api in apis:
            found = break_even(now.scenario, name, api)
            cell = figure(break_even_text(found, words), ["break_even", name, api])
            cells.append(cell | ({"sub": at_break_even(found, words)} if found.requests_per_day else {}))
        rows.append({"cells": cells})
    if not (apis and rows):
        return blocks()
    own = shown.number(now.scenario.workload.requests_per_day.value, words, 6)
    columns = [
        {"text": words("col_option"), "text_left": True},
        *({"text": words("col_break_even", name=api), "unit": words("unit_per_day")} for api in apis),
    ]
    return blocks(
        {"type": "title", "text": words("break_even")},
        {"type": "text", "text": words("break_even_told", own=own), "tone": "small"},
        {"type": "table", "name": "break_even", "columns": columns, "rows": rows},
    )


def break_even_text(found: BreakEven, words: Words, significant: int = 4) -> str:
    if found.requests_per_day is None:
        return words("break_never")
    if found.requests_per_day == 0:
        return words("break_always")
    return shown.number(found.requests_per_day, words, significant)


def at_break_even(found: BreakEven, words: Words) -> str:
    tokens = shown.number(found.tokens_per_month / 1e6 if found.tokens_per_month else None, words, 3)
    return words("break_at", tokens=tokens, busy=shown.percent(found.busy_share, words, 0))


def in_place_of(now: Now, words: Words, to: Exchange | None = None) -> dict[str, Any]:
    """Each option's best way of decoding in place of each other's."""
    money = now.scenario.currency
    rows = []
    for i, choice in enumerate(now.made.choices):
        if choice.npv <= 0:  # the same pair the other way round says it
            continue
        other = words("instead", name=titled(now, choice.instead_of, words))
        texts = {
            "saving": shown.money(choice.saving, money, words),
            "npv": shown.money(choice.npv, money, words),
            "payback_weeks": weeks_of(choice.payback_weeks, words),
            "discounted_payback_weeks": weeks_of(choice.discounted_payback_weeks, words),
            "irr": irr_of(choice, words),
        }
        cells: list[Any] = [{"t": titled(now, choice.option, words), "sub": other}]
        cells += [figure(text, ["choice", str(i), name]) for name, text in texts.items()]
        for at, amount in ((1, choice.saving), (2, choice.npv)):
            cells[at] = shown.also(cells[at], amount, money, to, words, shown.money)
        cells[1]["tone"] = "gain" if choice.saving > 0 else "loss"
        rows.append({"cells": cells})
    if not rows:
        return blocks()
    symbol = shown.symbol(money)
    columns = [
        {"text": words("col_option"), "text_left": True},
        {"text": words("col_gain"), "unit": symbol},
        {"text": "NPV", "unit": symbol},
        {"text": words("col_payback"), "unit": words("unit_weeks")},
        {"text": words("col_payback_discounted"), "unit": words("unit_weeks")},
        {"text": words("col_irr")},
    ]
    table = {"type": "table", "name": "choices", "columns": columns, "rows": rows, "cards": True}
    return blocks({"type": "fold", "name": "choices", "title": words("choices"), "blocks": [table]})
