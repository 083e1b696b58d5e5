"""Linear layers, made ready once: as they are, packed for oneDNN, or quantised to int8 or int4 (fp8: `linear_cuda`).

Each one is a callable x [rows, in] -> [rows, out] that holds its weights in the form its kernel reads fastest. On a
CPU, `F.linear` with 2 to 16 rows repacks its weights on every call, which eats what verifying K + 1 tokens at once
should save; packed once, six rows cost little more than one.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.errors import EngineError

QUANTIZATIONS = ("none", "int8", "int4", "fp8")

# Up to this many weights a layer keeps its plain form beside the packed one: oneDNN's fixed cost a call exceeds what
# it saves on one row of a small layer. Above it the plain form would only double the memory.
KEEP_PLAIN = 4 * 2**20
# The row count that oneDNN lays packed weights out for: a verify of a few tokens.
PACKED_ROWS = 6
# The largest block that int8 turns: as good as 32 on the embedded model (KL 0.006 against 0.040 without), and one
# small product.
HADAMARD = 64
# Weights that share a scale and a zero point in int4; the group of GGUF's Q4_0 and Q4_1.
INT4_GROUP = 32
INT4_TILES = 1


class Linear(Protocol):
    """x [rows, in_features], the model's dtype -> [rows, out_features]. nbytes: what one call reads of weights."""

    nbytes: int

    def __call__(self, x: Tensor) -> Tensor: ...

    def normed(self, x: Tensor, norm: "RmsNorm") -> Tensor:
        """The product of `norm(x)`."""
        ...

    def add_to(self, x: Tensor, y: Tensor) -> Tensor:
        """x [rows, out_features] plus the product of y, in place."""
        ...

    def traceable(self, one_row: bool) -> bool:
        """Can torch's tracer write down what this does to one row, or to several? See `engine.recorded`."""
        ...


class RmsNorm:
    """x / sqrt(mean(x^2) + eps) * weight, in the fewest operations: most of a small model's step on a CPU goes into
    starting operations, not into their arithmetic."""

    def __init__(self, weight: Tensor, eps: float) -> None:
        width = weight.shape[-1]
        # sqrt(sum(x^2) / width + eps) = hypot(|x|, sqrt(eps * width)) / sqrt(width): the weight takes the last factor.
        self.weight = (weight.float() * width**0.5).to(weight.dtype) if weight.dtype == torch.float32 else weight
        self.floor = torch.tensor((eps * width) ** 0.5, dtype=weight.dtype, device=weight.device)
        self.shape, self.eps = weight.shape[-1:], eps

    def length(self, x: Tensor) -> Tensor:
        """[rows, 1]: what a row times the weight is divided by."""
        return torch.hypot(torch.linalg.vector_norm(x, dim=-1, keepdim=True), self.floor)

    def __call__(self, x: Tensor) -> Tensor:
        if x.dtype != torch.float32:  # half precision sums in float32, which torch's own knows how to do
            return torch.rms_norm(x, self.shape, self.weight, self.eps)
        return (x / self.length(x)).mul_(self.weight)


class SimpleLinear(ABC):
    """What a layer does whose kernel needs no more than x."""

    nbytes: int

    @abstractmethod
    def __call__(self, x: Tensor) -> Tensor: ...

    def traceable(self, one_row: bool) -> bool:
        return True

    def normed(self, x: Tensor, norm: RmsNorm) -> Tensor:
        return self(norm(x))

    def add_to(self, x: Tensor, y: Tensor) -> Tensor:
        return x.add_(self(y))


class PlainLinear(SimpleLinear):
    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight, self.bias = weight, bias
        self.nbytes = weight.numel() * weight.element_size()

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


class PackedLinear(SimpleLinear):
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

    def traceable(self, one_row: bool) -> bool:
        return one_row and self.plain is not None  # the tracer knows no list of optional scalars


class Int8Linear(SimpleLinear):
    """Weights int8 with a scale an output channel; activations int8 with a scale a row.

    Two things that a text's outliers would spoil. One channel far above its neighbours would leave them a few steps
    of the scale: inputs and weights are both turned by a Hadamard matrix in blocks of 64, which changes no product and
    spreads the outlier (QuaRot, Ashkboos et al. 2024). And the kernel knows one scale for all rows: each row is
    divided by its own largest magnitude first and multiplied back behind, and a row of +1 and -1 that goes along pins
    the kernel's scale, so that what a row gives never depends on the rows beside it.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.bias = bias
        self.width, self.turn = weight.shape[1], hadamard(weight.shape[1])
        weight = self._turned(weight.float().contiguous())
        scale = weight.abs().amax(1).clamp(min=torch.finfo(torch.float32).tiny) / 127
        with warnings.catch_warnings():
            # torch has announced another way to make these tensors; the packed kernel itself stays.
            warnings.simplefilter("ignore")
            zero = torch.zeros(weight.shape[0], dtype=torch.long)
            rounded = torch.quantize_per_channel(weight.contiguous(), scale.double(), zero, 0, torch.qint8)
            self.packed = torch.ops.quantized.linear_prepack(rounded, None)
        self.nbytes = weight.numel()
        self.anchor = torch.zeros(1, weight.shape[1])
        self.anchor[0, 0] = 1
        self.anchor[0, -1] = -1
        self._linear = torch.ops.quantized.linear_dynamic.default
        # Without VNNI the kernel adds pairs of products in 16 bits, which eight-bit inputs would overflow.
        self.narrow = not torch.cpu._is_vnni_supported()

    def __call__(self, x: Tensor) -> Tensor:
        out, scale = self._product(x)
        out *= scale
        return out if self.bias is None else out.add_(self.bias)

    def normed(self, x: Tensor, norm: RmsNorm) -> Tensor:
        # A row's length is one more factor of the row: it never meets the quantised numbers.
        out, scale = self._product(x * norm.weight)
        out *= scale.div_(norm.length(x))
        return out if self.bias is None else out.add_(self.bias)

    def add_to(self, x: Tensor, y: Tensor) -> Tensor:
        out, scale = self._product(y)
        x.addcmul_(out, scale)
        return x if self.bias is None else x.add_(self.bias)

    def _product(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """[rows, out] and [rows, 1]: their product is the layer's, without its bias."""
        x = self._turned(x)
        scale = x.abs().amax(-1, keepdim=True).clamp_(min=1e-30)
        out: Tensor = self._linear(torch.cat((x / scale, self.anchor)), self.packed, self.narrow)
        return out[:-1], scale

    def _turned(self, x: Tensor) -> Tensor:
        turned: Tensor = torch.mm(x.view(-1, self.turn.shape[0]), self.turn).view(-1, self.width)
        return turned


def hadamard(width: int) -> Tensor:
    """[n, n], the orthogonal Hadamard matrix of the largest power of two n <= 64 that divides `width`."""
    size = min(width & -width, HADAMARD)
    turn: Tensor = torch.ones(1, 1)
    while turn.shape[0] < size:
        turn = torch.cat([torch.cat([turn, turn], 1), torch.cat([turn, -turn], 1)])
    return turn.div(size**0.5)


class Int4Linear(SimpleLinear):
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
    if quantization == "fp8":
        from engine.linear_cuda import fp8_maker

        return fp8_maker(device)
    on_cpu = device.type == "cpu"
    if quantization == "none":
        return _packed if on_cpu and dtype == torch.float32 and _onednn() else PlainLinear
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


def _onednn() -> bool:
    return bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]


def can_quantize(device: str, dtype: str) -> bool:
    """Would `load_pair` take int8 and int4 for this device and dtype, as it names them?"""
    on_cpu = device == "cpu" or (device == "auto" and not torch.cuda.is_available())
    return on_cpu and dtype in ("auto", "float32") and "fbgemm" in torch.backends.quantized.supported_engines


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
