"""GPUs as the engine sees them: specifications, model shapes, the time of a forward, and what fits in memory.

Every time here is projected. The roofline says that a forward takes the longer of reading the weights and
keys, and multiplying; real kernels reach a share of both, so the shares are explicit inputs: assumed here, fitted to
published results in `engine.calibration`. `engine.projection` carries a measured run to them, `engine.validation` says
how far off that has been, `engine.model_shapes` knows published models by name.
"""

from __future__ import annotations

import math

from engine.gpu_specs import GpuSpec, SpecError, load_gpu_specs, match_price_gpu
from engine.roofline import StepTime, check_count, decode_step
from engine.shape import ModelShape

__all__ = [
    "GpuSpec",
    "ModelShape",
    "SpecError",
    "StepTime",
    "decode_step",
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
    *,
    gpus: int = 1,
    draft_gpus: int = 1,
) -> dict[str, int]:
    """Bytes that the fullest GPU holds when each row has `context` tokens: its part of both models and of their KV for
    context + k + 1 tokens a row, verify logits, draft probs.

    `gpus` share the target, `draft_gpus` of them the draft: weights evenly, keys by whole heads, so that a head is on
    several GPUs where there are more of them than heads. Logits are fp32 [batch, k + 1, vocab], gathered on one GPU; a
    draft model also leaves its probabilities [batch, k, vocab] for the accept test. context: of the longest moment,
    the whole prompt and output, since that is when it has to fit. Raises ValueError when a count is out of range.
    """
    for name, count in (("batch", batch), ("gpus", gpus), ("draft_gpus", draft_gpus)):
        check_count(name, count)
    slots = batch * (context + k + 1)

    def kv(model: ModelShape, over: int) -> int:
        return math.ceil(slots * model.kv_bytes_per_token(kv_bytes_per_element) * model.kv_share(over))

    plan = {
        "target_weights": math.ceil(shape.weight_bytes / gpus),
        "target_kv": kv(shape, gpus),
        "draft_weights": 0,
        "draft_kv": 0,
        "verify_logits": batch * (k + 1) * shape.vocab * 4,
        "draft_probs": 0,
    }
    if draft_shape is not None:
        plan["draft_weights"] = math.ceil(draft_shape.weight_bytes / draft_gpus)
        plan["draft_kv"] = kv(draft_shape, draft_gpus)
        plan["draft_probs"] = batch * k * draft_shape.vocab * 4
    plan["total"] = sum(plan.values())
    return plan


def fits(plan: dict[str, int], gpu: GpuSpec, usable_share: float = DEFAULT_USABLE_SHARE) -> bool:
    """Whether the plan of the fullest GPU is within the usable share of its memory."""
    return plan["total"] <= gpu.mem_gb * 1e9 * usable_share


def explain_fit(plan: dict[str, int], gpu: GpuSpec, gpus: int = 1, usable_share: float = DEFAULT_USABLE_SHARE) -> str:
    """One sentence: fits or will not fit, with the parts in GB, largest first. gpus: as the plan was made for."""
    parts = sorted(((n, b) for n, b in plan.items() if n != "total" and b), key=lambda part: -part[1])
    listed = ", ".join(f"{name.replace('_', ' ')} {size / 1e9:.2f}" for name, size in parts)
    verdict = "Fits" if fits(plan, gpu, usable_share) else "Will not fit"
    needed, usable = plan["total"] / 1e9, gpu.mem_gb * usable_share
    where = f"1 x {gpu.name}" if gpus == 1 else f"each of {gpus} x {gpu.name}"
    fullest = "" if gpus == 1 else " on the fullest GPU"
    return f"{verdict}: {needed:.2f} GB needed{fullest} ({listed}), {usable:.2f} GB usable on {where}."
