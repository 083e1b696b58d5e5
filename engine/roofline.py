"""Seconds of one forward: the longer of reading (weights, keys, values) and multiplying, plus an overhead.

Williams, Waterman, Patterson, "Roofline" (CACM 2009). Every time here is projected.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal, NamedTuple

from engine.gpu_specs import GpuSpec
from engine.shape import ModelShape

Bound = Literal["memory", "compute"]
# Assumed, and shown as such. The share of the data sheet's bandwidth and arithmetic that decoding kernels
# reach:
DEFAULT_EFFICIENCY = 0.6
# ... and the fixed seconds of one forward outside the kernels, with CUDA graphs (eager Python costs
# milliseconds).
DEFAULT_FORWARD_OVERHEAD_S = 30e-6


class StepTime(NamedTuple):
    """Seconds of one forward: the longer of memory and compute, plus the fixed overhead."""

    memory_s: float
    compute_s: float
    overhead_s: float

    @property
    def seconds(self) -> float:
        return max(self.memory_s, self.compute_s) + self.overhead_s

    @property
    def bound_by(self) -> Bound:
        return "memory" if self.memory_s >= self.compute_s else "compute"


def decode_step(
    shape: ModelShape,
    gpu: GpuSpec,
    width: float,
    context_tokens: int,
    batch: int = 1,
    *,
    gpus: int = 1,
    efficiency: float = DEFAULT_EFFICIENCY,
    overhead_s: float = DEFAULT_FORWARD_OVERHEAD_S,
    kv_bytes_per_element: float = 2.0,
) -> StepTime:
    """Roofline of one forward: `width` tokens in each of `batch` rows, with `context_tokens` cached in each.

    memory: (parameters read * bytes + batch * context * KV bytes) / (bandwidth * efficiency); for a mixture
    of experts the parameters read grow with width * batch, so verification is not free. compute: 2 *
    multiplied parameters * width * batch / (dense BF16 FLOPS * efficiency); weights of fewer bits are read
    as such and multiplied in BF16. The arithmetic of attention is left out. `gpus` share the work evenly,
    talking at no cost.
    """
    check_count("width", width)
    check_count("context_tokens", context_tokens, at_least=0)
    check_count("batch", batch)
    check_count("gpus", gpus)
    if not 0 < efficiency <= 1:
        raise ValueError(f"efficiency must be above 0 and at most 1, not {efficiency!r}")
    if not (math.isfinite(overhead_s) and overhead_s >= 0):
        raise ValueError(f"overhead_s must be a finite number of at least 0, not {overhead_s!r}")
    tokens = width * batch
    weight_bytes = shape.params_read(tokens) * shape.bytes_per_param
    kv_bytes = batch * context_tokens * shape.kv_bytes_per_token(kv_bytes_per_element)
    memory_s = (weight_bytes + kv_bytes) / (gpu.mem_bw_tb_s * 1e12 * efficiency * gpus)
    compute_s = 2 * shape.matmul_params * tokens / (gpu.bf16_dense_tflops * 1e12 * efficiency * gpus)
    return StepTime(memory_s, compute_s, overhead_s)


def decode_step_seconds(
    shape: ModelShape,
    gpu: GpuSpec,
    width: float,
    context_tokens: int,
    batch: int = 1,
    bytes_per_param: float | None = None,
    *,
    efficiency: float = DEFAULT_EFFICIENCY,
    overhead_s: float = DEFAULT_FORWARD_OVERHEAD_S,
) -> float:
    """Seconds of `decode_step` on one GPU; `bytes_per_param` is the shape's own unless given."""
    if bytes_per_param is not None:
        shape = replace(shape, bytes_per_param=bytes_per_param)
    return decode_step(shape, gpu, width, context_tokens, batch, efficiency=efficiency, overhead_s=overhead_s).seconds


def check_count(name: str, count: float, at_least: int = 1) -> None:
    """Raise ValueError that names the argument when `count` is too small."""
    if not count >= at_least:  # NaN fails too
        raise ValueError(f"{name} must be at least {at_least}, not {count}")
