"""What a parameter takes in memory at each precision, and which tensor peak its multiplications can reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from engine.errors import EngineError
from engine.gpu_specs import GpuSpec


class Peak(NamedTuple):
    """Dense TFLOPS, in words which, and whether the weights are multiplied as they are stored."""

    tflops: float
    name: str
    native: bool


@dataclass(frozen=True)
class Precision:
    """How weights are stored. bytes_per_param counts the scales of quantised groups too."""

    name: str
    bytes_per_param: float

    def peak(self, gpu: GpuSpec) -> Peak:
        """The dense peak of this GPU for these weights: FP8's and FP4's own where it has them, else BF16's, the
        weights being turned into BF16 on the way. int8 and int4 are weight-only here, so always the latter."""
        if self.name == "bf16":
            return Peak(gpu.bf16_dense_tflops, "dense BF16", True)
        own = {"fp8": gpu.fp8_dense_tflops, "fp4": gpu.fp4_dense_tflops}.get(self.name)
        if own is not None:
            return Peak(own, f"dense {self.name.upper()}", True)
        return Peak(gpu.bf16_dense_tflops, f"dense BF16, {self.name} weights dequantised", False)


BF16 = Precision("bf16", 2.0)
# Scales are counted as the usual formats have them: int4 in groups of 128 with a 2-byte scale and zero each, FP4 in
# blocks of 16 with a 1-byte scale (NVFP4). int8 and FP8 keep a scale a row, which is nothing.
PRECISIONS = {
    p.name: p
    for p in (
        BF16,
        Precision("fp8", 1.0),
        Precision("int8", 1.0),
        Precision("int4", 0.5 + 4 / 128),
        Precision("fp4", 0.5 + 1 / 16),
    )
}
# Bytes of one key or value element in the cache.
KV_PRECISIONS = {"bf16": 2.0, "fp8": 1.0, "int8": 1.0}
_SAME = {"fp16": "bf16", "float16": "bf16", "bfloat16": "bf16"}


def find_precision(name: str) -> Precision:
    """By name; fp16 is as wide and as fast as bf16. Raises EngineError that lists the names."""
    wanted = name.strip().casefold()
    found = PRECISIONS.get(_SAME.get(wanted, wanted))
    if found is None:
        raise EngineError(f"unknown precision {name!r}: choose from {', '.join(PRECISIONS)}")
    return found


def kv_bytes(name: str) -> float:
    """Bytes an element of the cache by name. Raises EngineError that lists the names."""
    wanted = name.strip().casefold()
    found = KV_PRECISIONS.get(_SAME.get(wanted, wanted))
    if found is None:
        raise EngineError(f"unknown KV precision {name!r}: choose from {', '.join(KV_PRECISIONS)}")
    return found
