"""What a reader must know of one very projection: a sentence for each condition that is odd or assumed."""

from __future__ import annotations

import math
from collections.abc import Iterator

from engine.draft_cost import Draft
from engine.gpu_specs import GpuSpec
from engine.precision import Precision
from engine.shape import ModelShape


def projection_notes(
    shape: ModelShape, gpu: GpuSpec, gpus: int, held: Precision, draft: Draft, longest: int
) -> Iterator[str]:  # fmt: skip
    """longest: tokens of a row at the end of its request."""
    for name, model in (("the model", shape), (f"the {draft.name}", draft.shape)):
        if model is not None and 0 < model.max_context < longest:
            yield f"Requests grow to {longest:,} tokens, and {name} takes {model.max_context:,} at most."
    if shape.query_heads % gpus:
        yield (
            f"{shape.query_heads} attention heads cannot be split evenly over {gpus} GPUs, which most engines refuse; "
            "weights and arithmetic are projected as if they could."
        )
    if gpus > 1 and shape.kv_heads % gpus:
        held_by = math.ceil(shape.kv_heads / gpus)
        yield (
            f"The fullest of {gpus} GPUs holds {held_by} of {shape.kv_heads} key heads, since a head is not cut: "
            f"{shape.kv_share(gpus) * 100:.3g}% of all keys and values in place of {100 / gpus:.3g}%."
        )
    if held.name in ("fp8", "fp4") and not held.peak(gpu).native:
        yield f"{gpu.name} has no {held.name.upper()} arithmetic: weights are stored in it and multiplied in BF16."
    if shape.experts:
        split = ", each cut over all GPUs like the other weights" if gpus > 1 else ""
        yield (
            f"{shape.experts} experts, {shape.experts_per_token} a token: all are held, and a forward reads those that "
            f"its tokens wake, assumed to be drawn independently and evenly{split}."
        )
