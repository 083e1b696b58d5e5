"""Folders of the `speculators` library, versions up to 0.9, which vLLM serves as they are: eagle3 and eagle.

The config's `transformer_layer_config` describes the layer. eagle3 names its tensors as `EagleHead` does; eagle has
fusion_fc and transformer in the place of fc and layers.0.
"""

from typing import Any

from engine.heads.eagle import EagleHead
from engine.heads.eagle_folder import Parts, build
from engine.heads.formats import HeadError, HeadFolder

KINDS = ("eagle3", "eagle")


def load_speculators(folder: HeadFolder, runner: Any, tokenizer: Any) -> EagleHead:
    """Raises HeadError."""
    kind, layer = folder.config.get("speculators_model_type"), folder.config.get("transformer_layer_config")
    if kind not in KINDS:
        raise HeadError(f"{folder.name}: speculators of the type {kind!r} are not run here; {' and '.join(KINDS)} are")
    if not isinstance(layer, dict):
        raise HeadError(f"{folder.name}: its config.json lacks transformer_layer_config; copy the head again")
    if layer.get("model_type", "llama") not in ("llama", "qwen3"):
        raise HeadError(f"{folder.name}: layers of the kind {layer['model_type']!r} are not run here; llama's are")
    tensors = {_own_name(name): t for name, t in folder.tensors.items()}
    residual = bool(folder.config.get("norm_before_residual", False))
    if kind == "eagle3":
        return build(Parts(folder, "eagle3", layer, tensors, residual), runner, tokenizer)
    return build(Parts(folder, "eagle", layer, tensors), runner, tokenizer)


def _own_name(name: str) -> str:
    for theirs, ours in (("fusion_fc.", "fc."), ("transformer.", "layers.0."), ("midlayer.", "layers.0.")):
        if name.startswith(theirs):
            return ours + name.removeprefix(theirs)
    return name
