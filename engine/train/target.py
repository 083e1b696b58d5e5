"""The target of a training, loaded as it is."""

from typing import Any

import torch

from engine.pair import Pair, find_device, find_dtype, load_model, short_name
from engine.weights import PRESETS


def load_target(
    source: str,
    device: str = "auto",
    dtype: str = "auto",
    trust: bool = False,
    progress: Any = None,
    fast: bool = False,
) -> Pair:
    """A preset, a hub id, a folder or a .gguf file. dtype "auto": bfloat16 where the device multiplies it quickly (most
    GPUs; CPUs with AMX), else float32. fast: make its layers fast, for writing dialogues; without it they stay as they
    are, so that a head can begin as one of them."""
    preset = PRESETS.get(source)
    where = find_device(device)
    if dtype == "auto" and where.type == "cpu":
        dtype = "bfloat16" if torch.cpu._is_amx_tile_supported() else "float32"
    model, tokenizer = load_model(preset.target if preset else source, where, find_dtype(dtype, where), trust, progress)
    name, quantization = preset.name if preset else None, "none" if fast else None
    return Pair.from_models(model, tokenizer, name=name, target_name=short_name(source), quantization=quantization)
