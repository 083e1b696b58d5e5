"""Which drafters a pair can run, and what stands in the way of the others."""

from typing import Any

from engine import DRAFTERS
from engine.shipped import shipped

NEED_A_HEAD = ("eagle", "medusa")


def runnable(pair: Any) -> list[str]:
    return [name for name in DRAFTERS if not lacking(pair, name)]


def lacking(pair: Any, name: str) -> bool:
    """Does the pair lack what this drafter needs: a draft model, a head trained for the target, a layer to leave
    early?"""
    if name == "model":
        return pair.draft is None
    if name == "early_exit":
        return bool(pair.target.num_layers < 2)
    if name in NEED_A_HEAD:
        return name not in (getattr(pair, "heads", None) or {}) and shipped(pair.target, name) is None
    return False
