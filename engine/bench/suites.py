"""Prompt suites: one {"category", "prompt"} a line."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from engine.errors import EngineError

ALL = "all"


@dataclass(frozen=True, slots=True)
class BenchPrompt:
    category: str
    prompt: str


def suite_names() -> list[str]:
    folder = resources.files("engine") / "data" / "suites"
    return sorted(p.name.removesuffix(".jsonl") for p in folder.iterdir() if p.name.endswith(".jsonl"))


def load_suite(name: str = "default") -> list[BenchPrompt]:
    """A shipped suite by name. Raises EngineError for an unknown one."""
    if name not in suite_names():
        raise EngineError(
            f"unknown suite {name!r}: choose one of {', '.join(suite_names())}, or pass --data FILE.jsonl"
        )
    text = (resources.files("engine") / "data" / "suites" / f"{name}.jsonl").read_text(encoding="utf-8")
    return _parse(text, f"suite {name}")


def load_prompts(path: str | Path) -> list[BenchPrompt]:
    """The user's own file. Raises EngineError with the line that is wrong."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise EngineError(
            f'{path} does not exist; give a file with one {{"category", "prompt"}} object a line'
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise EngineError(f"{path} cannot be read as UTF-8 text: {error}") from error
    return _parse(text, str(path))


def of_categories(prompts: list[BenchPrompt], names: Sequence[str] | None) -> list[BenchPrompt]:
    """Those of the named categories; all, when none is named. Raises EngineError for a category that is not there."""
    known = sorted({p.category for p in prompts})
    if unknown := [name for name in names or () if name not in known]:
        raise EngineError(f"no category {unknown[0]!r} here: choose from {', '.join(known)}")
    return [p for p in prompts if not names or p.category in names]


def _parse(text: str, where: str) -> list[BenchPrompt]:
    prompts = []
    # Only a line feed ends a line: JSON strings may hold the other separators that splitlines() knows.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            why = getattr(error, "msg", type(error).__name__)
            raise EngineError(f"{where}, line {number}: not a JSON object ({why})") from None
        prompt, category = (
            (row.get("prompt"), row.get("category", "prompts")) if isinstance(row, dict) else (None, None)
        )
        if not isinstance(prompt, str) or not prompt.strip() or not isinstance(category, str) or not category:
            raise EngineError(f'{where}, line {number}: needs a "prompt" and a "category", both text and not empty')
        if category == ALL:
            raise EngineError(f'{where}, line {number}: the category "{ALL}" is the whole file; choose another name')
        prompts.append(BenchPrompt(category, prompt))
    if not prompts:
        raise EngineError(f"{where} holds no prompts")
    return prompts
