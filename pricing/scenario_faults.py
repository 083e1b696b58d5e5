"""What is wrong with a scenario, one sentence a fault, in words of ours: a form's reader has not read pydantic's."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from typing import Any

from pydantic import ValidationError


def faults(error: ValidationError) -> list[tuple[str, str]]:
    """(path, sentence) of each, entries that there are not first; what only follows from another fault is left out."""
    found = [(".".join(str(step) for step in e["loc"]), e) for e in error.errors()]
    # A list with a faulty entry is also said to be too short.
    first = [
        (path, e)
        for path, e in found
        if not (e["type"] == "too_short" and any(other.startswith(f"{path}.") for other, _ in found))
    ]
    meant = _meant(first)
    told = []
    for path, e in sorted(first, key=lambda one: one[1]["type"] != "extra_forbidden"):
        near = meant.get(path, "").rpartition(".")[2]
        if path not in meant.values():
            told.append((path, f"there is no such entry; the nearest is {near}" if near else sentence(e)))
    return told


def _meant(found: list[tuple[str, Any]]) -> dict[str, str]:
    """Misspelt entries and the missing one beside each that it was meant for."""
    meant: dict[str, str] = {}
    for path in (path for path, e in found if e["type"] == "extra_forbidden"):
        beside = path.rpartition(".")[0]
        missing = [
            other
            for other, e in found
            if e["type"] == "missing" and other.rpartition(".")[0] == beside and other not in meant.values()
        ]
        near = difflib.get_close_matches(path, missing, 1, cutoff=0.8)
        if near:
            meant[path] = near[0]
    return meant


def sentence(error: Any) -> str:
    """Of one of pydantic's errors; what a validator of ours raised is a sentence already."""
    context = error.get("ctx") or {}
    cause = context.get("error")
    if cause is not None:
        return str(cause)
    kind, given = error["type"], _given(error.get("input"))
    match kind:
        case "missing":
            return "it is missing"
        case "extra_forbidden":
            return "there is no such entry; check its spelling"
        case "literal_error":
            return f"{given} is none that there is; write {context['expected']}"
        case "greater_than_equal" | "less_than_equal":
            limit = f"at least {context['ge']:g}" if kind == "greater_than_equal" else f"at most {context['le']:g}"
            return f"{given} must be {limit}"
        case "string_too_short":
            return "it is blank; write something"
        case "string_too_long":
            return f"it is longer than {context['max_length']} characters; shorten it"
        case "too_short":
            return f"it is empty; give at least {context['min_length']}"
        case "finite_number":
            return f"{given} is not a finite number"
    for part, wanted in _WANTED.items():
        if kind.startswith(part):
            return f"{given} is not {wanted}"
    return str(error["msg"])


# Beginnings of pydantic's type names.
_WANTED = {
    "int_": "a whole number",
    "float_": "a number",
    "string_": "a text; put it in quotes",
    "tuple_": "a list; write [ ] around it, or [[ ]] around its name",
    "dict_": "a table of entries",
    "model_": "a table of entries",
    "date_": "a day; write it as 2026-11-30",
}


def no_such_number(path: str, known: Collection[str]) -> str:
    """With the nearest of those that there are."""
    near = difflib.get_close_matches(path, known, 1)
    return f"there is no number called {path}; " + (
        f"the nearest is {near[0]}" if near else "write its path, as workload.requests_per_day"
    )


def _given(value: Any) -> str:
    if isinstance(value, bool):
        return f"{str(value).lower()} (yes or no)"
    if isinstance(value, str | int | float):
        text = repr(value) if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)
        return text if len(text) <= 60 else f"{text[:57]}..."
    return "what stands there"
