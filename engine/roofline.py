"""Seconds of one forward: the longer of reading (weights, keys, values) and multiplying, then talking, then overheads.

Williams, Waterman, Patterson, "Roofline" (CACM 2009). Every time here is projected.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from engine.communication import forward_communication_s
from engine.efficiency import DEFAULT_EFFICIENCY, DEFAULT_FORWARD_OVERHEAD_S, Efficiency
from engine.gpu_specs import GpuSpec
from engine.shape import ModelShape

__all__ = [
    "DEFAULT_EFFICIENCY",
    "DEFAULT_FORWARD_OVERHEAD_S",
    "Binding",
    "Bound",
    "StepTime",
    "check_count",
    "decode_step",
]

Bound = Literal["memory", "compute"]
Binding = Literal["weights", "keys and values", "compute", "communication", "overhead"]


class StepTime(NamedTuple):
    """Seconds of one forward: the longer of memory and compute, then communication and overhead on top.

    kv_s is a part of memory_s and attention_s one of compute_s.
    """

    memory_s: float
    compute_s: float
    overhead_s: float
    communication_s: float = 0.0
    kv_s: float = 0.0
    attention_s: float = 0.0

    @property
    def seconds(self) -> float:
        return max(self.memory_s, self.compute_s) + self.communication_s + self.overhead_s

    @property
    def weights_s(self) -> float:
        """Of memory_s, what the weights take."""
        return self.memory_s - self.kv_s

    @property
    def bound_by(self) -> Bound:
        """The higher side of the roofline itself, overheads aside."""
        return "memory" if self.memory_s >= self.compute_s else "compute"

    @property
    def binding(self) -> Binding:
        """What takes most of the time: improve that first."""
        roof = max(self.memory_s, self.compute_s)
        if roof < max(self.communication_s, self.overhead_s):
            return "communication" if self.communication_s >= self.overhead_s else "overhead"
        if self.bound_by == "compute":
            return "compute"
        return "weights" if self.weights_s >= self.kv_s else "keys and values"


def decode_step(
    shape: ModelShape,
    gpu: GpuSpec,
    width: float,
    context_tokens: float,
    batch: int = 1,
    *,
    gpus: int = 1,
    efficiency: float | Efficiency = DEFAULT_EFFICIENCY,
    overhead_s: float = DEFAULT_FORWARD_OVERHEAD_S,
    kv_bytes_per_element: float = 2.0,
    tensor_tflops: float | None = None,
    logits_per_row: float | None = None,
) -> StepTime:
    """One forward: `width` tokens in each of `batch` rows, with `context_tokens` cached in each, over `gpus` GPUs.

    memory: (parameters read * bytes + batch * context * KV bytes) / (bandwidth * efficiency); for a mixture of experts
    the parameters read grow with width * batch, so verification is not free. compute: 2 * multiplied parameters *
    width * batch / (dense TFLOPS * efficiency), and 4 * layers * query heads * head_dim for each token and each key
    it sees, in BF16. tensor_tflops: what the weights' precision reaches, the GPU's dense BF16 unless given.
    logits_per_row: positions whose logits are wanted, all unless given (a prompt wants one). `gpus` share weights and
    arithmetic evenly, and keys and values by whole heads, and add up twice a layer. Raises ValueError when a number
    is out of range.
    """
    check_count("width", width)
    check_count("context_tokens", context_tokens, at_least=0)
    check_count("batch", batch)
    check_count("gpus", gpus)
    share = Efficiency.of(efficiency)
    if not (math.isfinite(overhead_s) and overhead_s >= 0):
        raise ValueError(f"overhead_s must be a finite number of at least 0, not {overhead_s!r}")
    tokens = width * batch
    bandwidth = gpu.mem_bw_tb_s * 1e12 * share.memory
    kv_s = batch * context_tokens * shape.kv_bytes_per_token(kv_bytes_per_element) * shape.kv_share(gpus) / bandwidth
    weights_s = shape.params_read(tokens) * shape.bytes_per_param / (bandwidth * gpus)

    bf16_flops = gpu.bf16_dense_tflops * 1e12 * share.compute * gpus
    flops = bf16_flops if tensor_tflops is None else tensor_tflops * 1e12 * share.compute * gpus
    head = min(shape.vocab * shape.hidden, shape.matmul_params)
    unwanted = 0.0 if logits_per_row is None else head * max(0.0, width - logits_per_row) * batch
    keys_seen = context_tokens + (width + 1) / 2  # the cached ones, and of the new ones those up to itself
    attention_s = 4 * shape.layers * shape.query_heads * shape.head_dim * tokens * keys_seen / bf16_flops
    matmul_s = 2 * (shape.matmul_params * tokens - unwanted) / flops
    return StepTime(
        memory_s=weights_s + kv_s,
        compute_s=matmul_s + attention_s,
        overhead_s=overhead_s + shape.layers * share.layer_overhead_s + batch * share.row_overhead_s,
        communication_s=forward_communication_s(shape.layers, shape.hidden, tokens, gpu, gpus, share.all_reduce_s),
        kv_s=kv_s,
        attention_s=attention_s,
    )


def check_count(name: str, count: float, at_least: int = 1) -> None:
    """Raise ValueError that names the argument when `count` is too small or not finite."""
    if not (count >= at_least and math.isfinite(count)):  # NaN fails too
        raise ValueError(f"{name} must be at least {at_least}, not {count}")
