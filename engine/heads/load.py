"""`load_head`: any folder of a draft head, for one target."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from engine.heads.eagle import EagleHead
from engine.heads.eagle_folder import load_eagle
from engine.heads.formats import HeadError, HeadFolder, read_folder
from engine.heads.medusa import MedusaHeads
from engine.heads.medusa_folder import load_medusa
from engine.heads.speculators_folder import load_speculators

if TYPE_CHECKING:
    from engine.runner import Runner

# What published EAGLE folders call the kind of their layer.
EAGLE_KINDS = ("llama", "eagle", "eagle3", "qwen2", "qwen3", "mistral")

Load = Callable[[HeadFolder, Any, Any], EagleHead | MedusaHeads]


def load_head(folder: str | Path, runner: "Runner", tokenizer: Any = None) -> EagleHead | MedusaHeads:
    """A draft head from its folder, ready on the target's device.

    Read are EAGLE-1, 2 and 3 as published, Medusa as published and as vLLM takes it, and the `speculators` library's
    eagle and eagle3. Embeddings and rows that the checkpoint has are its own; the target's are shared where it has
    none. tokenizer: the target's, to hold against the one that the head was trained with, where its folder says which.
    Raises HeadError, an EngineError, with one sentence: for a missing or surplus tensor, a wrong shape or dtype,
    another target's width, layers or vocabulary, an id map that is missing or wrong, or a kind of head not run here.
    """
    found = read_folder(folder)
    try:
        with torch.inference_mode(False), torch.no_grad():
            return _loader(found)(found, runner, tokenizer)
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise HeadError(
            f"{found.name}: its config.json holds what no draft head has ({error}); copy it again"
        ) from error


def _loader(folder: HeadFolder) -> Load:
    config, names = folder.config, folder.tensors
    if "speculators_model_type" in config:
        return load_speculators
    kind = config.get("model_type")
    if kind == "medusa" or "medusa_num_heads" in config:
        return load_medusa
    eagle = any(n.removeprefix("model.").startswith(("midlayer.", "layers.0.", "fc.")) for n in names)
    if eagle and config.get("model_type", "llama") in EAGLE_KINDS:
        return load_eagle
    raise HeadError(
        f"{folder.name}: {kind or config.get('architectures')!r} is no kind of draft head that is run here; EAGLE and "
        "Medusa are"
    )
