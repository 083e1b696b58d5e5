"""Scenarios as TOML: read with one sentence a fault, written without losing anything."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from pricing.figure import Figure
from pricing.regular_file import read_regular
from pricing.scenario import Scenario
from pricing.scenario_faults import faults

SHIPPED = Path(__file__).parent / "data" / "scenarios"
# More is no scenario; reading would only make the machine busy.
MOST_BYTES = 1_000_000


class ScenarioError(ValueError):
    """The scenario cannot be used; the message names each place and what to write there."""


def shipped_scenarios() -> dict[str, Path]:
    """The scenarios that come with specscope, by the name that `load_scenario` takes."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.toml"))}


def load_scenario(path: str | Path) -> Scenario:
    """From a TOML file, or one that ships with specscope by its name. Raises ScenarioError: all faults, one a line."""
    known = shipped_scenarios()
    file = known.get(str(path), Path(path))
    try:
        data = read_regular(file, MOST_BYTES)
        if len(data) > MOST_BYTES:
            size = file.stat().st_size
            raise ScenarioError(f"{file.name} has {size:,} bytes; a scenario has fewer than {MOST_BYTES:,}")
        text = data.decode("utf-8-sig")
    except OSError as error:
        names = ", ".join(known)
        raise ScenarioError(
            f"{file.name or file} cannot be read ({error.strerror}); shipped scenarios are {names}"
        ) from error
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{file.name} is not UTF-8 text") from error
    return parse_scenario(text, file.name)


def parse_scenario(text: str, name: str = "the scenario") -> Scenario:
    """From TOML text. Raises ScenarioError."""
    try:
        given = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # an integer of 5,000 digits is a ValueError too
        told = "a number in it is too long" if "int_max_str_digits" in str(error) else str(error)
        told += _comma_at(text, str(error))
        raise ScenarioError(f"{name} is not TOML: {told}") from error
    return scenario_from(given, name)


def _comma_at(text: str, told: str) -> str:
    """A hint where the line that TOML stumbled over has a decimal comma; else nothing."""
    at = re.search(r"at line (\d+)", told)
    lines = text.splitlines()
    line = lines[int(at[1]) - 1] if at and int(at[1]) <= len(lines) else ""
    comma = re.search(r"=\s*[+-]?(\d+),(\d+)\b", line)
    return f"; write {comma[1]}.{comma[2]} with a point, not {comma[1]},{comma[2]}" if comma else ""


def scenario_from(given: Mapping[str, Any], name: str = "the scenario") -> Scenario:
    """From plain values, as a form gives them. Raises ScenarioError."""
    try:
        return Scenario.model_validate(given, context={"today": date.today()})
    except ValidationError as error:
        found = [f"{name}, {path or 'as a whole'}: {said}" for path, said in faults(error)]
        raise ScenarioError("\n".join(found)) from error


def dump_scenario(scenario: Scenario) -> str:
    """TOML text that `parse_scenario` turns into the same scenario."""
    return "\n".join(_table(_plain(scenario), ())).strip() + "\n"


def fingerprint(scenario: Scenario) -> str:
    """sha256 of the scenario as TOML."""
    return hashlib.sha256(dump_scenario(scenario).encode()).hexdigest()


def save_scenario(scenario: Scenario, path: str | Path) -> None:
    """Written whole or not at all."""
    file = Path(path)
    handle, partial = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as out:
            out.write(dump_scenario(scenario))
        os.replace(partial, file)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise


def _plain(value: Any) -> Any:
    """Dicts, lists, texts and numbers; what is absent or as it would be without being said is left out."""
    if isinstance(value, Figure):
        told = {name: v for name, v in value.model_dump().items() if v not in (None, "")}
        if told["label"] == "assumed":
            del told["label"]
        return told["value"] if set(told) == {"value"} else _Inline(told)
    if isinstance(value, BaseModel):
        said = {
            name: getattr(value, name)
            for name, field in type(value).model_fields.items()
            if getattr(value, name) != field.get_default(call_default_factory=True)
        }
        return {name: _plain(part) for name, part in said.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return value


class _Inline(dict[str, Any]):
    """A table on one line."""


def _table(table: Mapping[str, Any], at: tuple[str, ...]) -> Iterator[str]:
    """Plain entries first: TOML would take those behind a sub-table for its own."""
    nested = {name: part for name, part in table.items() if _is_nested(part)}
    for name, part in table.items():
        if name not in nested:
            yield f"{_key(name)} = {_value(part)}"
    for name, part in nested.items():
        where = (*at, name)
        for item in part if isinstance(part, list) else [part]:
            dotted = ".".join(_key(step) for step in where)
            yield ""
            yield f"[[{dotted}]]" if isinstance(part, list) else f"[{dotted}]"
            yield from _table(item, where)


def _is_nested(part: Any) -> bool:
    if isinstance(part, list):
        return bool(part) and isinstance(part[0], dict)
    return isinstance(part, dict) and not isinstance(part, _Inline)


def _key(name: str) -> str:
    plain = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if plain else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(name)} = {_value(part)}" for name, part in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_value(part) for part in value) + "]"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str):
        # JSON's escapes are TOML's; U+007F is the one that only TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
