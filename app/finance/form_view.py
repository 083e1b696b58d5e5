"""A scenario as the form draws it: sliders for what decides, a table for all the rest. The drawing is form.js's."""

from collections.abc import Iterator
from typing import Any

from app.catalogue import Words
from app.finance import fields
from app.finance.desk import Desk
from app.finance.edits import to_shown
from app.finance.fields import Driver
from app.finance.shown import exact, symbol
from pricing.figure import Figure
from pricing.scenario import CASES, Scenario
from pricing.scenario_options import Api, Cloud, Owned

SAYS = (
    "all_numbers", "all_numbers_info", "close", "col_value", "col_label", "col_source", "col_low", "col_high",
    "col_best", "col_worst", "reset", "reset_all", "in_case", "form_label", "form_open", "case",
    "options_listed",
)  # fmt: skip
LABELS = ("measured", "projected", "quoted", "assumed")


def drawn(desk: Desk, words: Words) -> dict[str, Any] | None:
    """All of the form, for a scenario that is new to it; None before there is one."""
    base = desk.base
    if base is None:
        return None
    return {
        "id": desk.drawn,
        "language": words.language,
        "says": {key: words(key) for key in SAYS},
        "labels": [{"value": name, "text": words(f"label_{name}")} for name in LABELS],
        "case": desk.case,
        "groups": list(_groups(base, words)),
        "options": [_option(option, base, words) for option in base.options],
        "table": list(_table(base, words)),
        "edits": desk.edits,
        **patch(desk, words),
    }


def patch(desk: Desk, words: Words) -> dict[str, Any]:
    """What changes in a drawn form: what the edits came to, and what is wrong with them."""
    current = desk.current
    figures = current.figures() if current is not None else {}
    touched = {path for path in desk.edits if path in figures}
    case = getattr(current, desk.case) if current is not None and desk.case != "base" else {}
    return {
        "id": desk.drawn,
        "seq": desk.seq,
        "faults": desk.faults,
        "echo": {path: _cells(path, figures[path], current, words) for path in touched if current is not None},
        "in_case": {path: exact(to_shown(path, value), words) for path, value in case.items()},
        "cases": [
            {"value": case, "text": words(f"case_{case}"), "why": _no_case(current, case, words)} for case in CASES
        ],
    }


def beside(desk: Desk) -> dict[str, Any]:
    """Which message of the form is known to figures that are no answer to it: where it has sent one since, it asks once
    more, as that one's answer may have come before these."""
    return {"id": desk.drawn, "beside": True, "seq": desk.now.seq if desk.now is not None else desk.seq}


def fault_lines(desk: Desk, words: Words) -> list[str]:
    """Every fault as one sentence with the number's name in front."""
    named = []
    for key, sentence in desk.faults.items():
        path = key.split("|")[0]
        name = fields.full_label(desk.base, path, words) if path and desk.base is not None else ""
        named.append(words("fault_of", name=name, fault=sentence) if name else sentence)
    return named


def _no_case(scenario: Scenario | None, case: str, words: Words) -> str:
    """Why a case cannot be chosen; "" where it can."""
    return "" if case == "base" or (scenario is not None and getattr(scenario, case)) else words("case_none")


def _groups(scenario: Scenario, words: Words) -> Iterator[dict[str, Any]]:
    figures = scenario.figures()
    by_group: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for driver in fields.drivers(scenario):
        by_group.setdefault((driver.group, driver.option), []).append(_row(driver, scenario, figures, words))
    kinds = {option.name: words(f"kind_{_kind(option)}") for option in scenario.options}
    for (group, option), rows in by_group.items():
        yield {"title": option or words(f"group_{group}"), "kind": kinds.get(option, ""), "rows": rows}


def _row(driver: Driver, scenario: Scenario, figures: dict[str, Figure], words: Words) -> dict[str, Any]:
    path = driver.path
    part = fields.part_of(scenario, path)
    name = fields.label(path, words)
    common = {
        "path": path,
        "label": f"{name}, {words.name('commitment', part.commitment)}" if part is not None else name,
        "unit": fields.unit(path, scenario, words),
    }
    if path == fields.YEARS:
        return common | {"cells": {"value": str(scenario.years)}, "num": scenario.years} | _span(1, 5, 1)
    figure = figures[path]
    return common | {"cells": _cells(path, figure, scenario, words), **_scale(driver, figure)}


def _scale(driver: Driver, figure: Figure) -> dict[str, Any]:
    """A slider's ends, in what the form shows. A range that is given lies within them."""
    path, value = driver.path, to_shown(driver.path, figure.value)
    known = [to_shown(path, v) for v in (figure.value, figure.low, figure.high) if v is not None]
    if driver.logarithmic and min(known) > 0:
        return {"num": value, "min": min(value / 10, *known), "max": max(value * 10, *known), "log": True, "step": 0}
    low, high = (to_shown(path, driver.low), to_shown(path, driver.high)) if not driver.logarithmic else (0.0, 10.0)
    low, high = min(low, *known), max(high, *known)
    step = 1 if fields.is_share(path) else 0.5 if path.endswith("life_years") else 0.1
    return {"num": value, **_span(low, high, step)}


def _span(low: float, high: float, step: float) -> dict[str, Any]:
    return {"min": low, "max": high, "log": False, "step": step}


def _cells(path: str, figure: Figure, scenario: Scenario | None, words: Words) -> dict[str, Any]:
    def number(value: float | None) -> str:
        return "" if value is None else exact(to_shown(path, value), words)

    best, worst = (getattr(scenario, case) if scenario is not None else {} for case in ("best", "worst"))
    return {
        "value": number(figure.value),
        "num": to_shown(path, figure.value),
        "label": figure.label,
        "source": figure.source,
        "low": number(figure.low),
        "high": number(figure.high),
        "best": number(best.get(path)),
        "worst": number(worst.get(path)),
    }


def _table(scenario: Scenario, words: Words) -> Iterator[dict[str, Any]]:
    by_group: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for path, figure in scenario.figures().items():
        option = fields.option_of(scenario, path)
        group = (option, option or words(f"part_{path.split('.')[0] if '.' in path else 'money'}"))
        part = fields.part_of(scenario, path)
        name = fields.label(path, words)
        by_group.setdefault(group, []).append(
            {
                "path": path,
                "label": f"{name}, {words.name('commitment', part.commitment)}" if part is not None else name,
                "unit": fields.unit(path, scenario, words),
                "cells": _cells(path, figure, scenario, words),
            }
        )
    for (_, title), rows in by_group.items():
        yield {"title": title, "rows": rows}


def _kind(option: Any) -> str:
    return "cloud" if isinstance(option, Cloud) else "owned" if isinstance(option, Owned) else "api"


def _option(option: Cloud | Owned | Api, scenario: Scenario, words: Words) -> dict[str, str]:
    money = symbol(scenario.currency)
    if isinstance(option, Cloud):
        detail = " · ".join(
            words(
                "option_cloud", how=words.name("commitment", part.commitment),
                price=exact(part.per_gpu_hour.value, words), share=exact(part.fleet_share.value * 100, words), m=money,
            )
            for part in option.parts
        )  # fmt: skip
    elif isinstance(option, Owned):
        detail = words(
            "option_owned",
            price=exact(option.price.value, words),
            gpus=exact(option.gpus_per_server.value, words),
            m=money,
        )
    else:
        detail = words(
            "option_api", input=exact(option.input_per_million.value, words),
            output=exact(option.output_per_million.value, words), m=money,
        )  # fmt: skip
    return {"name": option.name, "kind": words(f"kind_{_kind(option)}"), "detail": detail}
