"""Drafting methods: one file each, one contract (base.py)."""

import torch

from engine.drafters.base import Draft, Drafter
from engine.drafters.model import ModelDrafter
from engine.drafters.prompt_lookup import PromptLookupDrafter
from engine.errors import EngineError
from engine.pair import Pair
from engine.settings import DecodeSettings

DRAFTERS = ("none", "prompt_lookup", "model")


def make_drafter(name: str, pair: Pair, settings: DecodeSettings, generator: torch.Generator) -> Drafter | None:
    """One run's drafter, or None for plain decoding. Raises EngineError for an unknown name or a missing draft."""
    if name == "none":
        return None
    if name == "prompt_lookup":
        return PromptLookupDrafter(pair.target.vocab_size)
    if name == "model":
        if pair.draft is None:
            raise EngineError(
                f"the drafter 'model' needs a draft model and {pair.name} has none; load the pair with draft=, "
                "or use 'prompt_lookup'"
            )
        return ModelDrafter(pair.draft, settings, generator, pair.target.vocab_size, pair.unknown_id)
    raise EngineError(f"unknown drafter {name!r}: choose one of {', '.join(DRAFTERS)}")


__all__ = ["DRAFTERS", "Draft", "Drafter", "make_drafter"]
