"""A derivation as the panel shows it: what was asked for, the steps to it, and the inputs with their labels."""

import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.catalogue import Words
from app.finance import fields, shown
from app.finance.edits import to_shown
from app.shown_in import told_rate
from pricing import Exchange, Rate
from pricing.figure import Figure
from pricing.scenario import Scenario
from pricing.why import Step

# Units of `pricing.why.Step`, by the catalogues' names.
UNITS = {
    "s": "seconds", "s of one replica": "seconds", "1/s": "per_second", "replicas": "replicas",
    "a month": "per_month", "servers": "servers", "tokens": "tokens", "GPUs": "gpus",
}  # fmt: skip
SIGNS = (("*", "×"), ("/", "÷"), (" - ", " − "))


@dataclass
class Record:
    """Filled by who knows the number, shown by `value`. amount: the money in it, which `write` wrote; None of what is
    none. rate: at which it is shown in another currency."""

    title: str
    value: str
    told: list[str] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)
    inputs: dict[str, Figure] = field(default_factory=dict)
    amount: float | None = None
    write: shown.Write = shown.cents
    rate: Rate | None = None

    def line(self, label: str, value: str, depth: int = 0, formula: str = "", note: str = "") -> None:
        self.steps.append({"label": label, "value": value, "depth": min(depth, 6), "formula": formula, "note": note})


def also_in(record: Record, own: str, to: Exchange | None, words: Words) -> None:
    """The amount in the reader's other currency, in front of all that it rests on; where a rate reaches it."""
    told = shown.converted(record.amount, own, to, words, record.write)
    rate = to.rate(own) if told is not None and to is not None else None
    if told is None or to is None or rate is None:
        return
    formula = f"{record.value} {'×' if rate.base == own else '÷'} {shown.number(rate.rate, words, 10)}"
    how = words("why_rate_how", rate=told_rate(rate, words))
    record.line(words("why_rate", currency=to.currency), told, 0, formula, how)
    record.steps.insert(0, record.steps.pop())
    record.rate = rate


def panel(record: Record, scenario: Scenario, words: Words) -> dict[str, Any]:
    """The panel's value; a new `n` each time, so that the same number can be asked for again."""
    return {
        "n": uuid.uuid4().hex,
        "title": record.title,
        "value": record.value,
        "told": record.told,
        "steps": record.steps,
        "inputs": [_input(path, figure, scenario, words) for path, figure in record.inputs.items()]
        + ([_rate(record.rate, words)] if record.rate is not None else []),
        "says": {"close": words("close"), "steps": words("why_steps"), "inputs": words("why_inputs")},
    }


def _input(path: str, figure: Figure, scenario: Scenario, words: Words) -> dict[str, Any]:
    def text(value: float) -> str:
        return shown.exact(to_shown(path, value), words)

    unit = fields.unit(path, scenario, words)
    span = ""
    if figure.is_a_range and figure.low is not None and figure.high is not None:
        span = words("why_range", low=text(figure.low), high=text(figure.high))
    return {
        "label": fields.full_label(scenario, path, words),
        "path": path,
        "value": f"{text(figure.value)} {unit}".strip(),
        "kind": figure.label,
        "kind_text": words(f"label_{figure.label}"),
        "source": figure.source,
        "range": span,
    }


def _rate(rate: Rate, words: Words) -> dict[str, Any]:
    """As an input: quoted, by whom and when. It has no path: it is the page's and no number of the scenario."""
    return {
        "label": words("why_rate_input"),
        "path": "",
        "value": f"{shown.number(rate.rate, words, 10)} {rate.quote}/{rate.base}",
        "kind": "quoted",
        "kind_text": words("label_quoted"),
        "source": ", ".join((words(f"rates_{rate.kind}"), rate.day.isoformat(), rate.source)),
        "range": "",
    }


def tree(
    record: Record,
    name: str,
    steps: Mapping[str, Step],
    figures: Mapping[str, Figure],
    scenario: Scenario,
    words: Words,
    more: Mapping[str, Iterable[str]] | None = None,
    depth: int = 0,
    seen: set[str] | None = None,
) -> None:
    """`name` and all that it rests on, in front of what it rests on; an input goes to the inputs. more: what a step
    rests on beside what its formula names."""
    seen = set() if seen is None else seen
    if name not in steps:
        if name in figures:
            record.inputs[name] = figures[name]
        return
    step = steps[name]
    formula = f"{name} = {formula_of(step.formula, words)}" if step.formula else ""
    if name in seen:
        return
    seen.add(name)
    record.line(
        step_name(name, words), step_value(step, scenario, words), depth, formula, step_note(step, scenario, words)
    )
    for used in (*step.uses, *((more or {}).get(name, ()))):
        tree(record, used, steps, figures, scenario, words, more, depth + 1, seen)


def formula_of(formula: str, words: Words) -> str:
    """For people: signs in place of a computer's, and "round up" in their language."""
    text = formula.replace("ceil(", words("round_up") + "(").replace("floor(", words("round_down") + "(")
    text = text.replace("max(", words("largest_of") + "(").replace("min(", words("smallest_of") + "(")
    for plain, sign in SIGNS:
        text = text.replace(plain, sign)
    return text


def step_name(name: str, words: Words) -> str:
    bill = name.removesuffix("_of_term")
    part = re.fullmatch(r"part_(\d+)_extra", name)
    if part is not None:
        return words("step_part_extra", n=part[1])
    if words.has(f"step_{name}"):
        return words(f"step_{name}")
    if words.has(f"measure_{name}"):
        return words(f"measure_{name}")
    if words.has(f"line_{bill}"):
        return words("step_of_term", line=words(f"line_{bill}")) if bill != name else words(f"line_{bill}")
    return name


def step_value(step: Step, scenario: Scenario, words: Words) -> str:
    if step.unit == "money":
        price = abs(step.value) < 1 or words.has(f"measure_{step.name}")
        return (shown.unit_price if price else shown.cents)(step.value, scenario.currency, words)
    if step.unit == "share":
        return shown.percent(step.value, words, 2)
    unit = UNITS.get(step.unit)
    return f"{shown.number(step.value, words, 6)} {words(f'unit_{unit}') if unit else step.unit}".strip()


def step_note(step: Step, scenario: Scenario, words: Words) -> str:
    key = f"stepnote_{step.name}"
    if not words.has(key):
        return ""
    p95 = scenario.serving.p95_target_s
    return words(
        key,
        span=shown.span(scenario.years, words),
        rate=shown.percent(scenario.cost_of_capital.value, words),
        seconds=shown.number(p95.value, words) if p95 is not None else shown.NOTHING,
    )
