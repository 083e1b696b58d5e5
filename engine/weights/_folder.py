"""Is a local folder a model this engine may load? Safe, whole, and a decoder-only language model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from engine.weights._common import WeightsError, shown
from engine.weights._safetensors import check_safetensors

PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "spiece.model", "tekken.json")


def check_folder(folder: Path, name: str, *, trust_remote_code: bool = False) -> None:
    """Raise WeightsError unless `folder` can be loaded. `name` is what the user calls it."""
    if not (folder / "config.json").is_file():
        gguf = next(iter(sorted(folder.glob("*.gguf"))), None)
        hint = f"give the file {gguf} itself" if gguf else "give the folder of a transformers model"
        raise WeightsError(f"{name} holds no config.json; {hint}.")
    check_config(read_config(folder, name), name, trust_remote_code=trust_remote_code)
    check_files(folder, name)


def read_config(folder: Path, name: str) -> dict[str, Any]:
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # RecursionError: nested deeper than Python reads
        raise WeightsError(f"The config.json of {name} is not valid JSON; download or copy it again.") from error
    if not isinstance(config, dict):
        raise WeightsError(f"The config.json of {name} is not a JSON object; download or copy it again.")
    return config


def check_files(folder: Path, name: str) -> None:
    """Weights in safetensors, each file whole, and a tokenizer beside them."""
    files = {path.name for path in folder.iterdir()}
    safe = any(file.endswith((".safetensors", ".safetensors.index.json")) for file in files)
    if not safe:
        pickled = any(file.endswith(PICKLES) for file in files)
        what = "pickle weights, which can run code when they are opened" if pickled else "no safetensors weights"
        raise WeightsError(f"{name} holds {what}; give a model with safetensors, or a GGUF file.")
    check_safetensors(folder)
    if not any((folder / file).is_file() for file in _TOKENIZERS):
        raise WeightsError(f"{name} holds no tokenizer (tokenizer.json); copy the model's tokenizer files into it.")


def check_config(config: dict[str, Any], name: str, *, trust_remote_code: bool = False) -> None:
    """Refuse by the config alone, so that a hub model is refused before its weights are fetched."""
    if "auto_map" in config:
        if not trust_remote_code:
            raise WeightsError(
                f"{name} wants to run code of its own (auto_map in its config.json); read that code and pass "
                "trust_remote_code, or choose a model that transformers knows."
            )
        return  # its own classes decide what it is
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES  # type: ignore[attr-defined]
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    )

    heads = config.get("architectures") or []
    if not isinstance(heads, list) or not all(isinstance(head, str) for head in heads):
        raise WeightsError(
            f'"architectures" in the config.json of {name} is not a list of names; download or copy it again.'
        )
    kind = str(config.get("model_type"))
    if kind not in CONFIG_MAPPING_NAMES:
        raise WeightsError(
            f"{name} has the architecture '{shown(kind)}', which transformers {transformers.__version__} does not "
            "know; upgrade transformers, or choose another model."
        )
    if config.get("is_encoder_decoder") or _encoder_decoder_by_default(kind):
        raise WeightsError(
            f"{name} is an encoder-decoder model ({kind}), not a decoder-only language model; choose a causal one."
        )
    causal = any(head.endswith(("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")) for head in heads)
    encoder = kind in MODEL_FOR_MASKED_LM_MAPPING_NAMES and not config.get("is_decoder")
    if kind not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES or encoder or (heads and not causal and _headless(heads)):
        what = heads[0] if heads else kind
        raise WeightsError(
            f"{name} is {what}, not a decoder-only language model; choose one with a causal head (...ForCausalLM)."
        )


def _headless(heads: list[str]) -> bool:
    """A bare trunk or a classifier: loaded as a language model it would get a random head."""
    return all(head.endswith("Model") or "For" in head for head in heads)


def _encoder_decoder_by_default(kind: str) -> bool:
    from transformers import CONFIG_MAPPING

    try:
        default = CONFIG_MAPPING[kind]()
    except Exception:  # a few kinds have no default (KeyError, ValueError, a missing package): then it says nothing
        return False
    return bool(getattr(default, "is_encoder_decoder", False))
