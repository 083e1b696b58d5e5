"""Linear layers, made ready once: as they are, packed for oneDNN, or quantised to int8 or int4.

Each one is a callable x [rows, in] -> [rows, out] that holds its weights in the form its kernel reads fastest. On a CPU,
`F.linear` with 2 to 16 rows repacks its weights on every call, which eats what verifying K + 1 tokens at once should
save; packed once, six rows cost little more than one.
"""

import warnings
from collections.abc import Callable
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.errors import EngineError

QUANTIZATIONS = ("none", "int8", "int4")

# Up to this many weights a layer keeps its plain form beside the packed one: oneDNN's fixed cost a call exceeds what
# it saves on one row of a small layer. Above it the plain form would only double the memory.
KEEP_PLAIN = 4 * 2**20
# The row count that oneDNN lays packed weights out for: a verify of a few tokens.
PACKED_ROWS = 6
# Weights that share a scale and a zero point in int4; the group of GGUF's Q4_0 and Q4_1.
INT4_GROUP = 32
INT4_TILES = 1


class Linear(Protocol):
    """x [rows, in_features], the model's dtype -> [rows, out_features]. nbytes: what one call reads of weights."""

    nbytes: int

    def __call__(self, x: Tensor) -> Tensor: ...


class PlainLinear:
    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight, self.bias = weight, bias
        self.nbytes = weight.numel() * weight.element_size()

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


class PackedLinear:
    """float32 in oneDNN's blocked layout; the same sums in another order, so logits differ by rounding alone."""

    def __init__(self, weight: Tensor, bias: Tensor | None, keep_plain: bool) -> None:
        self.bias = bias
        self.plain = weight if keep_plain else None
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), PACKED_ROWS)
        self.nbytes = weight.numel() * weight.element_size()
        self._linear = torch.ops.mkldnn._linear_pointwise.default

    def __call__(self, x: Tensor) -> Tensor:
        if self.plain is not None and x.shape[0] == 1:
            return F.linear(x, self.plain, self.bias)
        out: Tensor = self._linear(x, self.packed, self.bias, "none", [], "")
        return out


class Int8Linear:
    """Weights int8 with a scale an output channel; activations int8 with a scale a row.

    The kernel knows one scale for all rows, and one outlier token would take every other row's precision with it. So
    each row is divided by its own largest magnitude first and multiplied back behind; a row of +1 and -1 goes along,
    which pins the kernel's scale. What a row gives then never depends on the rows beside it, and since the sums
    inside are whole numbers, verifying a token gives exactly what decoding it alone would.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.bias = bias
        scale = weight.abs().amax(1).clamp(min=torch.finfo(torch.float32).tiny) / 127
        with warnings.catch_warnings():
            # torch has announced another way to make these tensors; the packed kernel itself stays.
            warnings.simplefilter("ignore")
            zero = torch.zeros(weight.shape[0], dtype=torch.long)
            rounded = torch.quantize_per_channel(weight.float().contiguous(), scale.double(), zero, 0, torch.qint8)
            self.packed = torch.ops.quantized.linear_prepack(rounded, None)
        self.nbytes = weight.numel()
        self.anchor = torch.zeros(1, weight.shape[1])
        self.anchor[0, 0] = 1
        self.anchor[0, -1] = -1
        self._linear = torch.ops.quantized.linear_dynamic.default

    def __call__(self, x: Tensor) -> Tensor:
        scale = x.abs().amax(-1, keepdim=True).clamp_(min=1e-30)  # [rows, 1]
        out: Tensor = self._linear(torch.cat((x / scale, self.anchor)), self.packed)[:-1]  # [rows, out]
        out *= scale
        return out if self.bias is None else out.add_(self.bias)


class Int4Linear:
    """Weights int4 with a scale and a minimum for each group of 32 along the input; activations bfloat16.

    A checkpoint that came as Q4_0 or Q4_1 has this very form, and its weights lose nothing.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.bias = bias
        rows, width = weight.shape
        groups = weight.float().view(rows, width // INT4_GROUP, INT4_GROUP)
        low, high = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
        scale = ((high - low) / 15).clamp(min=torch.finfo(torch.float32).tiny)
        whole = ((groups - low) / scale).round_().clamp_(0, 15).to(torch.int32).view(rows, width)
        # The kernel reads (q - 8) * scale + zero.
        zero = low + 8 * scale
        self.scales = torch.cat((scale, zero), -1).transpose(0, 1).contiguous().bfloat16()  # [groups, out, 2]
        self.packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(whole, INT4_TILES)
        self.nbytes = self.packed.numel() * self.packed.element_size() + self.scales.numel() * 2
        self._linear = torch.ops.aten._weight_int4pack_mm_for_cpu.default

    def __call__(self, x: Tensor) -> Tensor:
        out: Tensor = self._linear(x.bfloat16(), self.packed, INT4_GROUP, self.scales).float()
        return out if self.bias is None else out.add_(self.bias)


MakeLinear = Callable[[Tensor, Tensor | None], Linear]


def linear_maker(quantization: str, device: torch.device, dtype: torch.dtype) -> MakeLinear:
    """How to make a model's linear layers ready. Raises EngineError where this machine or dtype has no such kernel."""
    if quantization not in QUANTIZATIONS:
        raise EngineError(f"unknown quantization {quantization!r}: choose one of {', '.join(QUANTIZATIONS)}")
    on_cpu = device.type == "cpu"
    if quantization == "none":
        return _packed if on_cpu and dtype == torch.float32 and torch.backends.mkldnn.is_available() else PlainLinear
    if not on_cpu:
        raise EngineError(f"quantization {quantization!r} runs on a CPU here; leave it out on {device.type}")
    if dtype != torch.float32:
        raise EngineError(
            f"quantization {quantization!r} starts from float32 weights on a CPU; leave --dtype out or give float32"
        )
    if quantization == "int8":
        if "fbgemm" not in torch.backends.quantized.supported_engines:
            raise EngineError("this torch has no int8 kernels for this CPU; leave the quantization out")
        return Int8Linear
    return _int4


def _packed(weight: Tensor, bias: Tensor | None) -> Linear:
    return PackedLinear(weight, bias, weight.numel() <= KEEP_PLAIN)


def _int4(weight: Tensor, bias: Tensor | None) -> Linear:
    # The kernel works on whole tiles; an odd layer stays as it is.
    if weight.shape[0] % 16 or weight.shape[1] % INT4_GROUP:
        return _packed(weight, bias)
    return Int4Linear(weight, bias)


class LinearModule(torch.nn.Module):
    """A ready linear layer in the place of an `nn.Linear`, for models that transformers' own forward runs."""

    def __init__(self, linear: Linear, instead_of: torch.nn.Linear) -> None:
        super().__init__()
        self.linear, self.in_features, self.out_features = linear, instead_of.in_features, instead_of.out_features
        # Its shape and dtype for whoever asks; the numbers are in `linear`.
        self.weight = torch.empty_like(instead_of.weight, device="meta")
        self.bias = None

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x.reshape(-1, x.shape[-1])).view(*x.shape[:-1], self.out_features)
