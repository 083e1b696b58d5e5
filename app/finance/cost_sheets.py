"""The Cost tab's tables: what a token, a request and a thousand words cost, plain and speculative side by side."""

from collections.abc import Iterator
from typing import Any

from app.catalogue import Words
from app.components.finance_views import blocks
from app.finance import shown
from app.finance.desk import Desk, Now
from app.finance.form_view import fault_lines
from app.finance.load_curve import LoadLine
from pricing import Exchange
from pricing.demand import service_levels
from pricing.scenario import Scenario
from pricing.scenario_options import Api, Cloud, Owned
from pricing.tco import Option, Tco
from pricing.tokens import TokenCosts

# Of `TokenCosts`, in the order in which they are read.
MEASURES = (
    "per_million_output", "per_million_input", "per_million_cached_input", "blended_per_million",
    "per_million_output_alone", "per_request", "per_conversation", "per_1000_words_english", "per_1000_words_turkish",
)  # fmt: skip
# Parts of the same bill by the time that each takes: that reading has a larger part of a smaller bill is no loss.
SPLIT = ("per_million_input", "per_million_cached_input")
LABELS = ("measured", "projected", "quoted", "assumed")


def head(desk: Desk, words: Words) -> dict[str, Any]:
    """What is looked at, what it rests on, and what is wrong with what was typed."""
    now = desk.now
    if now is None:
        return blocks({"type": "text", "text": words("nothing_open")}, *_faults(desk, words))
    scenario = now.scenario
    title = words("head_title", name=scenario.name, span=shown.span(scenario.years, words), currency=scenario.currency)
    case = words("head_case", case=words(f"case_{desk.case}")) if desk.case != "base" else ""
    return blocks(
        {"type": "title", "text": f"{title} {case}".strip()},
        {"type": "text", "text": scenario.about} if scenario.about.strip() else None,
        {"type": "text", "text": rests_on(scenario, words), "tone": "small"},
        *_service(scenario, words),
        *_faults(desk, words),
    )


def _faults(desk: Desk, words: Words) -> Iterator[dict[str, Any]]:
    for line in fault_lines(desk, words):
        yield {"type": "text", "text": line, "tone": "fault"}
    if desk.faults and desk.now is not None:
        yield {"type": "text", "text": words("faults_stand"), "tone": "small"}


def _service(scenario: Scenario, words: Words) -> Iterator[dict[str, Any]]:
    """P95 in the busiest hour of both arms, and whether it keeps the target."""
    levels = service_levels(scenario)
    if not levels:
        return
    target = shown.number(levels[0].target_s, words, 3)
    arms = ", ".join(f"{words(f'arm_{level.arm}')} {shown.number(level.p95_s, words, 3)}" for level in levels)
    yield {"type": "text", "text": words("service_level", arms=arms, target=target), "tone": "small"}
    for level in levels:
        if not level.kept:
            arm, seconds = words(f"arm_{level.arm}"), shown.number(level.p95_s, words, 3)
            yield {
                "type": "text",
                "text": words("service_missed", arm=arm, seconds=seconds, target=target),
                "tone": "loss",
            }


def rests_on(scenario: Scenario, words: Words) -> str:
    """How many of its numbers are measured, and how many are taken for granted."""
    labels = [figure.label for figure in scenario.figures().values()]
    counts = [words(f"count_{name}", n=labels.count(name)) for name in LABELS if name in labels]
    return words("rests_on", counts=", ".join(counts))


def excluded(scenario: Scenario, words: Words) -> dict[str, Any]:
    """What the scenario leaves out, in its own words."""
    if not scenario.excluded:
        return blocks()
    items = [{"t": text} for text in scenario.excluded]
    return blocks({"type": "title", "text": words("excluded")}, {"type": "list", "items": items})


def costs(now: Now, words: Words, to: Exchange | None = None) -> dict[str, Any]:
    """A card an option, the cheapest first. to: another currency, whose amounts stand under their own."""
    cards = []
    for name in names(now.made):
        arms = arms_of(now.made, name)
        option = next(o for o in now.scenario.options if o.name == name)
        cards.append(
            {
                "title": name,
                "kind": words(f"kind_{next(iter(arms.values())).kind}"),
                "sub": _bought(option, now.scenario, words),
                "blocks": [_api_table(option, arms["plain"], now, to, words)]
                if isinstance(option, Api)
                else [_table(name, arms, now, to, words)],
            }
        )
    own = now.scenario.currency
    missing = None
    if to is not None and not to.reaches(own):
        missing = {"type": "text", "text": words("rates_unreached", own=own, currency=to.currency), "tone": "small"}
    return blocks(missing, {"type": "cards", "cards": cards})


def names(made: Tco) -> list[str]:
    """The options' names, the cheapest first, once each."""
    return list(dict.fromkeys(option.name for option in made.options))


def arms_of(made: Tco, name: str) -> dict[str, Option]:
    return {option.arm: option for option in made.options if option.name == name}


def with_arms(made: Tco) -> list[str]:
    """Names of the options that are decoded in both ways: all but APIs."""
    return [name for name in names(made) if len(arms_of(made, name)) > 1]


def _table(name: str, arms: dict[str, Option], now: Now, to: Exchange | None, words: Words) -> dict[str, Any]:
    plain, fast = arms["plain"].tokens, arms["speculative"].tokens
    rows = [
        {
            "cells": [
                measure_name(measure, words),
                _cell(name, "plain", measure, getattr(plain, measure), now, to, words),
                _cell(name, "speculative", measure, getattr(fast, measure), now, to, words),
                change(name, measure, getattr(plain, measure), getattr(fast, measure), words),
            ],
            "tone": "first" if measure == MEASURES[0] else "",
        }
        for measure in _known(plain, fast)
    ]
    money = shown.symbol(now.scenario.currency)
    columns = [
        {"text": "", "text_left": True},
        {"text": words("arm_plain"), "unit": money},
        {"text": words("arm_speculative"), "unit": money},
        {"text": words("col_change")},
    ]
    return {"type": "table", "name": name, "columns": columns, "rows": rows, "dense": True}


def _api_table(option: Api, made: Option, now: Now, to: Exchange | None, words: Words) -> dict[str, Any]:
    """An API has one way of decoding, its own."""
    rows: list[dict[str, Any]] = [
        {"cells": [measure_name(m, words), _cell(option.name, "plain", m, getattr(made.tokens, m), now, to, words)]}
        for m in _known(made.tokens, made.tokens)
    ]
    rows[0]["tone"] = "first"
    symbol = shown.symbol(now.scenario.currency)
    columns = [{"text": "", "text_left": True}, {"text": words("col_price"), "unit": symbol}]
    return {"type": "table", "name": option.name, "columns": columns, "rows": rows, "dense": True}


def measure_name(measure: str, words: Words) -> str:
    return words(f"measure_{measure}")


def _known(plain: TokenCosts, fast: TokenCosts) -> list[str]:
    return [m for m in MEASURES if getattr(plain, m) is not None or getattr(fast, m) is not None]


def _cell(name: str, arm: str, measure: str, value: float | None, now: Now, to: Exchange | None, words: Words) -> Any:
    if value is None:
        return None
    told = f"{name}, {words(f'arm_{arm}')}: {measure_name(measure, words)}"
    price = shown.unit_price(value, now.scenario.currency, words)
    cell = {"t": price, "why": ["token", name, arm, measure], "name": told}
    return shown.also(cell, value, now.scenario.currency, to, words)


def change(name: str, measure: str, plain: float | None, fast: float | None, words: Words) -> Any:
    """Down is a gain and up is a loss, but for parts of a bill."""
    if plain is None or fast is None or plain <= 0:
        return None
    share = fast / plain - 1
    tone = "quiet" if abs(share) < 0.0005 or measure in SPLIT else "gain" if share < 0 else "loss"
    return {"t": shown.percent(share, words, signed=True), "tone": tone, "why": ["change", name, measure]}


def _bought(option: Any, scenario: Scenario, words: Words) -> str:
    serving = scenario.serving
    gpus = words("sub_gpus", model=serving.model, n=shown.exact(serving.gpus_per_replica.value, words), gpu=serving.gpu)
    if isinstance(option, Cloud):
        how = " + ".join(
            words(
                "sub_part", how=words.name("commitment", part.commitment),
                price=shown.unit_price(part.per_gpu_hour.value, scenario.currency, words),
                label=words(f"label_{part.per_gpu_hour.label}"),
            )
            for part in option.parts
        )  # fmt: skip
        return f"{how} · {gpus}"
    if isinstance(option, Owned):
        price = shown.money(option.price.value, scenario.currency, words)
        return f"{words('sub_owned', price=price, label=words(f'label_{option.price.label}'))} · {gpus}"
    return words("sub_api", label=words(f"label_{option.output_per_million.label}"))


def load_table(lines: list[LoadLine], now: Now, words: Words) -> dict[str, Any]:
    """The points of the curve as a table, for who cannot see it and for who wants the figures."""
    money = shown.symbol(now.scenario.currency)
    rows = []
    for line in lines:
        for i, point in enumerate(line.points):
            texts = (
                shown.percent(point.busy_share, words, 0),
                shown.number(point.requests_per_second, words),
                shown.unit_price(point.per_million_output_tokens, now.scenario.currency, words),
                shown.number(point.p50_s, words, 3),
                shown.number(point.p95_s, words, 3),
            )
            cells: list[Any] = [words(f"arm_{line.arm}")]
            cells += [{"t": text, "why": ["load", line.option, line.arm, str(i)]} for text in texts]
            rows.append({"cells": cells, "tone": "own" if i == line.own else ""})
    columns = [
        {"text": words("col_arm"), "text_left": True},
        {"text": words("col_busy")},
        {"text": words("col_offered"), "unit": words("unit_per_second")},
        {"text": words("col_output_cost"), "unit": money},
        {"text": "P50", "unit": words("unit_seconds")},
        {"text": "P95", "unit": words("unit_seconds")},
    ]
    table = {"type": "table", "name": "load", "columns": columns, "rows": rows, "dense": True}
    told = {"type": "text", "text": _latency_told(lines, now, words), "tone": "small"}
    return blocks({"type": "fold", "name": "load", "title": words("load_points"), "blocks": [told, table]})


def _latency_told(lines: list[LoadLine], now: Now, words: Words) -> str:
    if now.scenario.load_curve:
        return words("load_told_measured")
    places = round(now.scenario.serving.requests_at_once.value)
    alone = " / ".join(shown.number(places * line.request_s, words, 3) for line in lines)
    return words("load_told", places=str(places), alone=f"{alone} {words('unit_seconds')}")
