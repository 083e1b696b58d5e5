"""A training that was stopped: everything that it needs to go on as if it had not been."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from engine.errors import EngineError

FOLDER = ".training"
VERSION = 1


@dataclass(slots=True)
class State:
    """step: optimiser steps done. epoch, at: the next batch. best: the best evaluation's mean acceptance length and
    weights. bad: evaluations since. seconds: spent so far. history: one entry an evaluation."""

    step: int = 0
    epoch: int = 0
    at: int = 0
    best_length: float = -1.0
    best: dict[str, torch.Tensor] | None = None
    bad: int = 0
    seconds: float = 0.0
    done: bool = False
    history: list[dict[str, Any]] = field(default_factory=list)


def save(out: Path, identity: dict[str, Any], state: State, head: dict[str, Any], optimizer: dict[str, Any]) -> None:
    """Whole or not at all."""
    folder = out / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / "state.new"
    record = {name: getattr(state, name) for name in State.__slots__}
    torch.save({"version": VERSION, "identity": identity, "state": record, "head": head, "optimizer": optimizer}, fresh)
    os.replace(fresh, folder / "state.pt")


def load(out: Path, identity: dict[str, Any]) -> tuple[State, dict[str, Any], dict[str, Any]] | None:
    """(state, head, optimizer), or None where there is none. Raises EngineError for one of another training."""
    file = out / FOLDER / "state.pt"
    if not file.is_file():
        return None
    try:
        kept = torch.load(file, map_location="cpu", weights_only=True)
        if kept["version"] != VERSION:
            raise KeyError("version")
        state, known = State(**kept["state"]), dict(kept["identity"])
    except Exception as error:  # a damaged file can raise anything inside torch
        raise EngineError(f"{file} cannot be read ({type(error).__name__}); give --fresh to begin anew") from None
    if differing := [name for name in identity if known.get(name) != identity[name]]:
        raise EngineError(
            f"{out} holds a training with another {differing[0]}; give --fresh to begin anew, or another --out"
        )
    return state, kept["head"], kept["optimizer"]
