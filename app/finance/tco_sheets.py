"""The TCO tab's tables: what each option comes to, what speculation is worth in it, and the bill year by year."""

from typing import Any

from app.catalogue import Words
from app.components.finance_views import blocks
from app.finance import shown
from app.finance.cost_sheets import arms_of, names, with_arms
from app.finance.desk import Now
from pricing.bill import LINES
from pricing.break_even import BreakEven, break_even
from pricing.scenario import Arm, Scenario
from pricing.tco import BEHIND, Choice, Option

_HIGHEST_IRR = 100.0
QUANTITIES = ("requests", "replicas", "gpus", "busy_share")


def verdict(now: Now, words: Words) -> dict[str, Any]:
    """In sentences: what costs least, and whether speculation is worth it there."""
    money = now.scenario.currency
    first, *others = now.made.options
    told = [
        words(
            "verdict_best", title=title(first, words), span=shown.span(now.scenario.years, words),
            total=shown.money(first.total, money, words), npv=shown.money(first.npv_of_cost, money, words),
        )
    ]  # fmt: skip
    other = next((o for o in others if o.name != first.name), None)
    if other is not None:
        gap = shown.money(other.npv_of_cost - first.npv_of_cost, money, words)
        told.append(words("verdict_next", title=title(other, words), gap=gap))
    text: list[dict[str, Any]] = [{"type": "text", "text": " ".join(told), "tone": "lead"}]
    for name in with_arms(now.made):
        choice = of_speculation(now, name)
        tone = "gain" if choice.npv > 0 else "loss"
        text.append({"type": "text", "text": worth(name, choice, now.scenario, words), "tone": tone})
    return blocks(*text)


def worth(name: str, choice: Choice, scenario: Scenario, words: Words) -> str:
    """What speculation is worth in an option, a loss as a loss."""
    money = scenario.currency
    amount, npv = (shown.money(abs(value), money, words) for value in (choice.saving, choice.npv))
    share = shown.percent(abs(choice.saving_share), words) if choice.saving_share is not None else shown.NOTHING
    known: dict[str, Any] = {"name": name, "amount": amount, "share": share, "npv": npv}
    if choice.verdict != "gain":
        return words({"even": "worth_nothing", "loss": "worth_loss", "late": "worth_late"}[choice.verdict], **known)
    if choice.payback_weeks is None:
        return words("worth_unsettled", **known)
    if choice.payback_weeks == 0:
        return words("worth_at_once", **known)
    if choice.payback_weeks < 1:
        return words("worth_within_week", **known)
    return words("worth_gain", **known, weeks=shown.number(choice.payback_weeks, words, 3))


def options(now: Now, words: Words) -> dict[str, Any]:
    """A row an option, the cheapest first."""
    money = now.scenario.currency
    rows = []
    for name in names(now.made):
        arms = arms_of(now.made, name)
        plain, fast = arms["plain"], arms.get("speculative")
        best = fast or plain
        cells: list[Any] = [
            {"t": name, "sub": words(f"kind_{plain.kind}")},
            _figure(shown.money(plain.total, money, words), ["option", name, "plain", "total"]),
            _figure(shown.money(fast.total, money, words), ["option", name, "speculative", "total"]) if fast else None,
            _figure(shown.money(best.npv_of_cost, money, words), ["option", name, best.arm, "npv_of_cost"]),
        ]
        cells += _speculation(name, of_speculation(now, name), now, words) if fast else [None] * 4
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
        table, {"type": "text", "text": words("options_told"), "tone": "small"}, *_beyond_term(now, words)
    )  # fmt: skip


def _beyond_term(now: Now, words: Words) -> list[dict[str, Any]]:
    """What is owed for reservations when the term is over: in no total, so it is said."""
    owed = [
        f"{title(option, words)}: {shown.money(option.beyond_term, now.scenario.currency, words)}"
        for option in now.made.options
        if option.beyond_term > 0
    ]
    return [{"type": "text", "text": words("beyond_term", owed="; ".join(owed))}] if owed else []


def _speculation(name: str, choice: Choice, now: Now, words: Words) -> list[Any]:
    money = now.scenario.currency
    tone = "gain" if choice.saving > 0.005 else "loss" if choice.saving < -0.005 else "quiet"
    saving = _figure(shown.money(choice.saving, money, words), ["speculation", name, "saving"], tone)
    if choice.saving_share is not None:
        saving["sub"] = shown.percent(choice.saving_share, words, signed=True)
    return [
        saving,
        _figure(weeks_of(choice.payback_weeks, words), ["speculation", name, "payback_weeks"]),
        _figure(weeks_of(choice.discounted_payback_weeks, words), ["speculation", name, "discounted_payback_weeks"]),
        _figure(irr_of(choice, words), ["speculation", name, "irr"]),
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


def _figure(text: str, why: list[str], tone: str = "") -> dict[str, Any]:
    return {"t": text, "why": why} | ({"tone": tone} if tone else {})


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
            cell = _figure(break_even_text(found, words), ["break_even", name, api])
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


def in_place_of(now: Now, words: Words) -> dict[str, Any]:
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
        cells += [_figure(text, ["choice", str(i), name]) for name, text in texts.items()]
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


def years(now: Now, name: str, arm: Arm, words: Words) -> dict[str, Any]:
    """The bill by year, a row a line of it."""
    option = now.made.option(name, arm)
    table, money = option.yearly, now.scenario.currency
    rows: list[dict[str, Any]] = []
    for quantity in QUANTITIES:
        values = [float(v) for v in table[quantity]]
        if all(v == v for v in values):  # an API has no replicas
            texts = [_quantity(quantity, v, words) for v in values]
            cells: list[Any] = [words(f"year_{quantity}")]
            cells += [_figure(t, ["year", name, option.arm, quantity, str(y + 1)]) for y, t in enumerate(texts)]
            rows.append({"cells": [*cells, None], "tone": "quiet"})
    for line in (*LINES, *BEHIND, "total"):
        values = [float(v) for v in table[line]]
        if line != "total" and not any(values):
            continue
        cells = [words(f"line_{line}")]
        cells += [
            _figure(shown.money(v, money, words), ["year", name, option.arm, line, str(y + 1)])
            for y, v in enumerate(values)
        ]
        whole = ["year", name, option.arm, line, "0"] if line != "total" else ["option", name, option.arm, "total"]
        rows.append(
            {
                "cells": [*cells, _figure(shown.money(sum(values), money, words), whole)],
                "tone": "total" if line == "total" else "",
            }
        )
    columns = [
        {"text": words("col_line"), "unit": shown.symbol(money), "text_left": True},
        *({"text": words("col_year", n=int(y))} for y in table["year"]),
        {"text": words("col_all_years")},
    ]
    return blocks({"type": "table", "name": "years", "columns": columns, "rows": rows, "dense": True})


def _quantity(name: str, value: float, words: Words) -> str:
    if name == "busy_share":
        return shown.percent(value, words, 0)
    return shown.number(value, words, 6) if name == "requests" else shown.number(round(value, 1), words, 12)
