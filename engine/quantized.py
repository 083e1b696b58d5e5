"""What a config says of the precision that its weights are stored in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

_INTEGER = {4: "int4", 8: "int8"}
_FLOAT = {4: "fp4", 8: "fp8"}
# Methods that state the bits of integer weights, and those that are one precision.
_WITH_BITS = frozenset({"gptq", "awq", "auto-round", "intel/auto-round", "hqq", "eetq"})
_ALWAYS = {"fp8": "fp8", "fbgemm_fp8": "fp8", "eetq": "int8"}

_UNNAMED = "by no method that it names"


class Stored(NamedTuple):
    """told: the method in words. precision: one of `engine.precision`'s names, "" where none of them is meant."""

    told: str
    precision: str


def stored_as(config: Any) -> Stored | None:
    """From a config's quantization_config; None where it has none, so that the weights are as trained."""
    said = config.get("quantization_config") if isinstance(config, Mapping) else None
    if said is None:
        return None
    if not isinstance(said, Mapping):
        return Stored(_UNNAMED, "")
    method = str(said.get("quant_method") or _UNNAMED)[:40]
    bits = next((said[name] for name in ("bits", "w_bit", "num_bits") if said.get(name) is not None), None)
    precision = _ALWAYS.get(method, "")
    if method == "bitsandbytes":
        precision = "int4" if said.get("load_in_4bit") is True else "int8" if said.get("load_in_8bit") is True else ""
    elif method == "compressed-tensors":
        precision = _of_groups(said.get("config_groups"))
    elif method == "modelopt":
        precision = {"FP8": "fp8", "NVFP4": "fp4"}.get(str(said.get("quant_algo")), "")
    elif method in _WITH_BITS or method == _UNNAMED:
        precision = _bits(bits, _INTEGER) or precision
    return Stored(f"{method}, {bits} bits" if isinstance(bits, int) else method, precision)


def _of_groups(groups: Any) -> str:
    """Of the weights of all groups of layers; "" where they differ or one says nothing of its weights."""
    held = list(groups.values()) if isinstance(groups, Mapping) else []
    weights = [group.get("weights") if isinstance(group, Mapping) else None for group in held]
    found = {
        _bits(one.get("num_bits"), _FLOAT if one.get("type") == "float" else _INTEGER)
        if isinstance(one, Mapping)
        else ""
        for one in weights
    }
    return found.pop() if len(found) == 1 else ""


def _bits(bits: Any, names: Mapping[int, str]) -> str:
    return names.get(bits, "") if isinstance(bits, int) and not isinstance(bits, bool) else ""
