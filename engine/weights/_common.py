"""What every room of `engine.weights` shares: the error, the progress protocol, the named presets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from engine.errors import EngineError


class WeightsError(EngineError):
    """Weights that cannot be found, trusted or read. One sentence: what is wrong, and what to do."""


def shown(name: str) -> str:
    """What the user called a thing, fit for one line: cut when it is long, and unprintable characters spelt out."""
    text = name if name.isprintable() else repr(name)[1:-1]
    return text if len(text) <= 200 else f"{text[:80]}... ({len(name):,} characters)"


class Progress(Protocol):
    """How a caller watches. `total` is None when it is not known; the engine itself prints nothing.

    `phase` is one of "download", "unpack", "convert", "save" (bytes), or "wait" (seconds spent waiting for
    another process that is preparing the same weights).
    """

    def __call__(self, phase: str, done: int, total: int | None) -> None: ...


def silent(phase: str, done: int, total: int | None) -> None:
    """The progress of a caller that does not watch."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A target and the draft that goes with it. `draft` None: the target's own trained heads draft for it."""

    name: str
    target: str
    draft: str | None
    licence: str
    about: str


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One line of `specscope models list`. `path` and `size_bytes` (on disk) are None until it is cached."""

    name: str
    source: str
    cached: bool
    path: Path | None
    size_bytes: int | None
    about: str


_PRESETS = (
    Preset(
        "embedded",
        "embedded",
        None,
        "Apache-2.0",
        "SmolLM2-135M-Instruct from a Python package: needs no model hub and runs on a laptop CPU.",
    ),
    Preset(
        "smollm2-1.7b",
        "HuggingFaceTB/SmolLM2-1.7B-Instruct",
        "HuggingFaceTB/SmolLM2-135M-Instruct",
        "Apache-2.0",
        "SmolLM2 1.7B with the 135M as its draft: a small real pair.",
    ),
    Preset(
        "qwen2.5-7b",
        "Qwen/Qwen2.5-7B-Instruct",
        "Qwen/Qwen2.5-0.5B-Instruct",
        "Apache-2.0",
        "Qwen2.5 7B with the 0.5B as its draft: one 24 GB GPU in bf16.",
    ),
    Preset(
        "llama3.1-70b",
        "meta-llama/Llama-3.1-70B-Instruct",
        "meta-llama/Llama-3.2-1B-Instruct",
        "Llama 3.1 / 3.2 Community License (accept it on the hub first)",
        "Llama 3.1 70B with Llama 3.2 1B as its draft: two or more 80 GB GPUs in bf16.",
    ),
)
PRESETS: dict[str, Preset] = {preset.name: preset for preset in _PRESETS}
