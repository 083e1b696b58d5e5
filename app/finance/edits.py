"""What was typed into the form, put into a scenario: what can be is, what cannot be has a sentence, nothing is lost.

Edits come from the browser as {path: {field: text or number}} and are the whole of what differs from the scenario that
the form was drawn from, so the last message says everything, however many before it were skipped.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import ValidationError

from app.catalogue import Words
from app.finance.faults import told
from app.finance.fields import YEARS, is_share, unit
from app.finance.shown import clean, exact
from app.finance.typed import read_number
from pricing.figure import Figure, Label
from pricing.scenario import Case, Scenario
from pricing.scenario_faults import faults as faults_of

LABELS: tuple[str, ...] = get_args(Label)
_ENDS: tuple[Case, ...] = ("best", "worst")
NUMBERS = ("value", "low", "high")
_LONGEST_SOURCE = 400
Edits = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Applied:
    """faults: sentences by "path|field"; by "" for the scenario as a whole. Their edits are not in `scenario`."""

    scenario: Scenario
    faults: dict[str, str]


def apply(base: Scenario, given: Any, words: Words) -> Applied:
    """`base` with the edits that can be made. Never raises for what a browser may send."""
    figures = base.figures()
    edits = {
        path: fields for path, fields in (given.items() if isinstance(given, Mapping) else ())
        if isinstance(fields, Mapping) and (path in figures or path == YEARS)
    }  # fmt: skip
    faults: dict[str, str] = {}
    changes: dict[str, Any] = {}
    for path, fields in edits.items():
        if path == YEARS:
            years = _years(fields, words, faults)
            changes |= {} if years is None else {path: years}
        else:
            changes[path] = _figure(figures[path], path, fields, base, words, faults)
    cases = {case: _case(base, case, edits, words, faults) for case in _ENDS}
    return _fitted(base, changes, cases, words, faults)


def _fitted(
    base: Scenario, changes: dict[str, Any], cases: dict[str, dict[str, float]], words: Words, faults: dict[str, str]
) -> Applied:
    """All changes together; else without those that are themselves refused; else as many as go, one after another."""
    kept = dict(changes)
    for _ in range(2):
        made = _with(base, kept, cases)
        if isinstance(made, Scenario):
            return Applied(made, faults)
        refused = {
            name: (path, sentence) for path, sentence in faults_of(made)
            for name in kept if path == name or path.startswith(f"{name}.")
        }  # fmt: skip
        for name, (path, sentence) in refused.items():
            faults.setdefault(f"{name}|{_field(sentence)}", told(sentence, path, words))
            del kept[name]
        if not refused:
            break
    going: dict[str, Any] = {}
    for name, change in kept.items():
        made = _with(base, {**going, name: change}, cases)
        if isinstance(made, Scenario):
            going[name] = change
        else:
            sentence = faults_of(made)[0][1]
            faults.setdefault(f"{name}|value", told(sentence, name, words))
    for tried in (cases, {}):
        made = _with(base, going, tried)
        if isinstance(made, Scenario):
            return Applied(made, faults)
    return Applied(base, faults)


def _with(base: Scenario, changes: Mapping[str, Any], cases: Mapping[str, Any]) -> Scenario | ValidationError:
    whole = base.model_dump() | {case: dict(values) for case, values in cases.items()}
    for path, change in changes.items():
        *way, last = path.split(".")
        at: Any = whole
        for step in way:
            at = at[int(step)] if isinstance(at, list | tuple) else at[step]
        at[last] = change
    try:
        return Scenario.model_validate(whole)
    except ValidationError as error:
        return error


def _figure(
    figure: Figure, path: str, fields: Mapping[str, Any], base: Scenario, words: Words, faults: dict[str, str]
) -> dict[str, Any]:
    made = figure.model_dump()
    for name in NUMBERS:
        if name not in fields:
            continue
        if name != "value" and not str(fields[name] or "").strip():
            made[name] = None
            continue
        try:
            made[name] = from_shown(path, read_number(fields[name], words, unit(path, base, words)))
        except ValueError as error:
            faults[f"{path}|{name}"] = str(error)
    if fields.get("label") in LABELS:
        made["label"] = fields["label"]
    if isinstance(fields.get("source"), str):
        made["source"] = clean(fields["source"]).strip()[:_LONGEST_SOURCE]
    if made["value"] != figure.value:
        _by_hand(made, figure, path, fields, words)
    return made


def _by_hand(made: dict[str, Any], figure: Figure, path: str, fields: Mapping[str, Any], words: Words) -> None:
    """Another number than the source spoke of: an assumed one, which says what it was. Its range grows to hold it."""
    told = words("by_hand", value=exact(to_shown(path, figure.value), words), was="{was}")
    try:
        changed = figure.changed(made["value"], told, words(f"label_{figure.label}"))
    except ValidationError:
        return  # no number that a scenario holds: it is refused by itself
    if "label" not in fields:
        made["label"] = changed.label
    if "source" not in fields:
        made["source"] = changed.source[:_LONGEST_SOURCE]
    if made["low"] is not None and made["high"] is not None and not {"low", "high"} & set(fields):
        made["low"], made["high"] = min(made["low"], made["value"]), max(made["high"], made["value"])


def _years(fields: Mapping[str, Any], words: Words, faults: dict[str, str]) -> int | None:
    try:
        years = read_number(fields.get("value"), words)
        if years not in (1, 2, 3, 4, 5):
            raise ValueError(words("fault_years", value=exact(years, words)))
    except ValueError as error:
        faults[f"{YEARS}|value"] = str(error)
        return None
    return int(years)


def _case(base: Scenario, case: str, edits: Edits, words: Words, faults: dict[str, str]) -> dict[str, float]:
    """The values of a best or worst case; one that cannot be stays as it was."""
    values = dict(getattr(base, case))
    for path, fields in edits.items():
        if case not in fields or path == YEARS:
            continue
        if not str(fields[case] or "").strip():
            values.pop(path, None)
            continue
        try:
            value = from_shown(path, read_number(fields[case], words, unit(path, base, words)))
            base.with_values({path: value})
            values[path] = value
        except ValidationError as error:
            where, sentence = faults_of(error)[0]
            faults[f"{path}|{case}"] = told(sentence, where, words)
        except ValueError as error:
            faults[f"{path}|{case}"] = str(error)
    return values


def _field(sentence: str) -> str:
    """The field that a refusal of a whole number is about."""
    return "source" if "needs a source" in sentence else "low" if re.search(r"\blow\b", sentence) else "value"


def to_shown(path: str, value: float) -> float:
    """As the form shows it: shares in percent."""
    return value * 100 if is_share(path) else value


def from_shown(path: str, value: float) -> float:
    return value / 100 if is_share(path) else value
