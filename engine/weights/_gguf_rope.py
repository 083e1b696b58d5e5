"""Rotary scaling that a GGUF file carries and transformers' loader drops.

Without it every position comes out wrong, silently: so it is restored where the rule is known, and the file is
refused where it is not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.weights._common import WeightsError
from engine.weights._gguf_file import field

# Meta's constants for Llama 3.1 and 3.2; only the factor differs (8 and 32).
_LOW, _HIGH, _ORIGINAL = 1.0, 4.0, 8192


def restore_rope(config: Any, reader: Any, path: Path) -> None:
    """Set `config.rope_parameters` from the file's scaling metadata or its `rope_freqs.weight` tensor."""
    architecture = field(reader, "general.architecture")
    rope = dict(getattr(config, "rope_parameters", None) or {})
    kind = field(reader, f"{architecture}.rope.scaling.type")
    if kind == "linear":
        factor = float(field(reader, f"{architecture}.rope.scaling.factor") or 1.0)
        config.rope_parameters = {**rope, "rope_type": "linear", "factor": factor}
    elif kind not in (None, "none") and architecture != "gpt-oss":  # the loader restores gpt-oss's own
        raise _refusal(path)

    divisors = next((tensor.data for tensor in reader.tensors if tensor.name == "rope_freqs.weight"), None)
    if divisors is None or float(divisors.max()) == 1.0:
        return
    factor = float(divisors.max())
    if not _is_llama3(divisors, float(rope.get("rope_theta", 10_000.0)), factor):
        raise _refusal(path)
    config.rope_parameters = {
        **rope,
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": _LOW,
        "high_freq_factor": _HIGH,
        "original_max_position_embeddings": _ORIGINAL,
    }


def _is_llama3(divisors: Any, theta: float, factor: float) -> bool:
    """Whether these are the divisors that Llama 3.1's rule gives (llama-models, `apply_scaling`).

    A frequency f of wavelength w = 2 pi / f is divided by `factor` where w > 8192 / 1, kept where w < 8192 / 4,
    and blended between.
    """
    import numpy as np

    wavelength = 2 * np.pi * theta ** (np.arange(divisors.size) / divisors.size)
    blend = np.clip((_ORIGINAL / wavelength - _LOW) / (_HIGH - _LOW), 0.0, 1.0)
    return bool(np.allclose(divisors, 1.0 / ((1.0 - blend) / factor + blend), rtol=1e-3))


def _refusal(path: Path) -> WeightsError:
    return WeightsError(
        f"{path} scales its rotary positions by a rule that is not known here; "
        "give the model's safetensors folder instead."
    )
