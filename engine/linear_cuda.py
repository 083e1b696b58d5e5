"""Linear layers in fp8 (e4m3) on an NVIDIA GPU that multiplies it: half of what bf16 reads from memory, and the
weights are what decoding reads.

Weights have a scale for each output channel, activations one for each row, found as they come, so that what a row
gives does not depend on the rows beside it. torch._scaled_mm (called "rowwise" there) multiplies both back in float32.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.errors import EngineError
from engine.linear import MakeLinear, PlainLinear, SimpleLinear

FP8 = torch.float8_e4m3fn
FP8_MAX = 448.0
# The kernel's alignment, of both sizes of the weight; rows are padded to it.
TILE = 16
# Output channels that are rounded at a time: float32 copies of a whole layer might not fit beside a large model.
AT_ONCE = 4096
# Ada, Hopper, Blackwell.
CAPABILITY = (8, 9)


def fp8_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """[rows, n] -> the same in fp8, and the float32 scale [rows, 1] that it is to be multiplied by. The largest
    magnitude of each row becomes 448, the largest that fp8 holds; casting a larger one would give NaN on some devices.
    """
    x = x.float()
    scale = x.abs().amax(-1, keepdim=True).clamp(min=1e-12) / FP8_MAX
    return (x / scale).clamp(-FP8_MAX, FP8_MAX).to(FP8), scale


class Fp8Linear(SimpleLinear):
    """See the module. Both sizes of the weight must be multiples of 16."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.bias = bias
        parts = [fp8_rows(part) for part in torch.split(weight, AT_ONCE)]
        self.weight = torch.cat([q for q, _ in parts]).t()  # [in, out], column-major, as the kernel wants it
        self.scale = torch.cat([scale for _, scale in parts]).t().contiguous()  # [1, out]
        self.nbytes = self.weight.numel() + 4 * self.scale.numel()

    def __call__(self, x: Tensor) -> Tensor:
        count = x.shape[0]
        q, scale = fp8_rows(F.pad(x, (0, 0, 0, -count % TILE)))
        out = torch._scaled_mm(q, self.weight, scale_a=scale, scale_b=self.scale, out_dtype=torch.bfloat16)
        out = out[:count].to(x.dtype)
        return out if self.bias is None else out + self.bias


def fp8_maker(device: torch.device) -> MakeLinear:
    """Raises EngineError where the device does not multiply fp8."""
    nvidia = device.type == "cuda" and torch.version.hip is None
    if not nvidia or torch.cuda.get_device_capability(device) < CAPABILITY:
        raise EngineError(
            "quantization 'fp8' needs an NVIDIA GPU of compute capability 8.9 or newer (Ada, Hopper, Blackwell); "
            f"leave it out on this {torch.cuda.get_device_name(device) if nvidia else device.type}"
        )
    return make_fp8


def make_fp8(weight: Tensor, bias: Tensor | None) -> Fp8Linear | PlainLinear:
    """A layer that the kernel's tiles do not fit stays as it is."""
    if weight.shape[0] % TILE or weight.shape[1] % TILE:
        return PlainLinear(weight, bias)
    return Fp8Linear(weight, bias)
