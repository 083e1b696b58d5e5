"""GPUs as the engine sees them: specifications, model shapes, the time of a forward, and what fits in memory.

Every time here is projected. The roofline says that a forward takes the longer of reading the weights and
keys, and multiplying; real kernels reach a share of both, so the shares are explicit inputs: assumed here, fitted to
published results in `engine.calibration`. `engine.projection` carries a measured run to them, `engine.validation` says
how far off that has been, `engine.model_shapes` knows published models by name.
"""

from __future__ import annotations

import math

from engine.gpu_specs import GpuSpec, SpecError, load_gpu_specs, match_price_gpu
from engine.roofline import (
    StepTime,
    decode_step,
    decode_step_seconds,
)
from engine.shape import ModelShape

__all__ = [
    "GpuSpec",
    "ModelShape",
    "SpecError",
    "StepTime",
    "decode_step",
    "decode_step_seconds",
    "explain_fit",
    "fits",
    "load_gpu_specs",
    "match_price_gpu",
    "memory_plan",
]

# Assumed: the share of a GPU's memory that a model may take; the rest is for activations and the allocator.
DEFAULT_USABLE_SHARE = 0.9


def memory_plan(
    shape: ModelShape,
    draft_shape: ModelShape | None,
    context: int,
    batch: int,
    k: int,
    kv_bytes_per_element: float = 2.0,
) -> dict[str, int]:
    """Bytes to hold: both models, their KV for context + k + 1 tokens a row, verify logits, draft probs.

    Logits are fp32 [batch, k + 1, vocab]; a draft model also leaves its probabilities [batch, k, vocab] for
    the accept test.
    """
    slots = batch * (context + k + 1)
    plan = {
        "target_weights": math.ceil(shape.weight_bytes),
        "target_kv": math.ceil(slots * shape.kv_bytes_per_token(kv_bytes_per_element)),
        "draft_weights": 0,
        "draft_kv": 0,
        "verify_logits": batch * (k + 1) * shape.vocab * 4,
        "draft_probs": 0,
    }
    if draft_shape is not None:
        plan["draft_weights"] = math.ceil(draft_shape.weight_bytes)
        plan["draft_kv"] = math.ceil(slots * draft_shape.kv_bytes_per_token(kv_bytes_per_element))
        plan["draft_probs"] = batch * k * draft_shape.vocab * 4
    plan["total"] = sum(plan.values())
    return plan


def fits(plan: dict[str, int], gpu: GpuSpec, gpus: int = 1, usable_share: float = DEFAULT_USABLE_SHARE) -> bool:
    """Whether the plan's total is within the usable share of the memory of `gpus` such GPUs."""
    return plan["total"] <= gpu.mem_gb * 1e9 * gpus * usable_share


def explain_fit(plan: dict[str, int], gpu: GpuSpec, gpus: int = 1, usable_share: float = DEFAULT_USABLE_SHARE) -> str:
    """One sentence: fits or will not fit, with the parts in GB, largest first."""
    parts = sorted(((n, b) for n, b in plan.items() if n != "total" and b), key=lambda part: -part[1])
    listed = ", ".join(f"{name.replace('_', ' ')} {size / 1e9:.2f}" for name, size in parts)
    verdict = "Fits" if fits(plan, gpu, gpus, usable_share) else "Will not fit"
    usable = gpu.mem_gb * gpus * usable_share
    needed = plan["total"] / 1e9
    return f"{verdict}: {needed:.2f} GB needed ({listed}), {usable:.2f} GB usable on {gpus} x {gpu.name}."
