"""Linear layers made ready: the same sums packed, rows that never see each other in int8, groups of 32 in int4."""

import numpy as np
import pytest
import torch

from engine import EngineError
from engine.linear import (
    INT4_GROUP,
    Int4Linear,
    Int8Linear,
    LinearModule,
    PackedLinear,
    PlainLinear,
    can_quantize,
    hadamard,
    linear_maker,
)

CPU = torch.device("cpu")


def weights(rows=48, width=64, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(rows, width, generator=g), torch.randn(rows, generator=g)


def inputs(rows, width=64, seed=1):
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed))


def by_hand(x, weight, bias):
    """float64, and no kernel of torch's."""
    out = np.einsum("ri,oi->ro", x.double().numpy(), weight.double().numpy())
    return out if bias is None else out + bias.double().numpy()


@pytest.mark.parametrize("keep_plain", [True, False])
@pytest.mark.parametrize("rows", [1, 2, 6, 17])
@pytest.mark.parametrize("with_bias", [True, False])
def test_packed_weights_give_the_same_product(rows, with_bias, keep_plain):
    weight, bias = weights()
    bias = bias if with_bias else None
    x = inputs(rows)
    assert PackedLinear(weight, bias, keep_plain)(x).numpy() == pytest.approx(by_hand(x, weight, bias), abs=1e-4)
    assert PlainLinear(weight, bias)(x).numpy() == pytest.approx(by_hand(x, weight, bias), abs=1e-4)


def int8_by_hand(x, weight):
    """Both turned by Hadamard blocks of 64; symmetric int8 weights a channel; activations on the 255 steps between
    minus and plus their row's largest."""
    turn = np.array([[(-1) ** (i & j).bit_count() for j in range(64)] for i in range(64)]) / 8
    x, weight = x.double().numpy() @ turn, weight.double().numpy() @ turn
    w_scale = np.abs(weight).max(1) / 127
    whole = np.clip(np.round(weight / w_scale[:, None]), -128, 127)
    top = np.abs(x).max(1, keepdims=True)
    step = 2 / 255
    zero = round(1 / step)
    levels = np.clip(np.round(x / top / step) + zero, 0, 255) - zero
    return (levels * step) @ (whole * w_scale[:, None]).T * top


@pytest.mark.parametrize("rows", [1, 3, 8])
def test_int8_is_the_product_of_the_rounded_numbers(rows):
    weight, bias = weights()
    x = inputs(rows)
    # A value midway between two steps may round either way in float32: one step of one input at most.
    allowed = float(weight.abs().max()) * 2 / 255 * float(x.abs().max())
    assert Int8Linear(weight, None)(x).numpy() == pytest.approx(int8_by_hand(x, weight), abs=allowed)
    assert Int8Linear(weight, bias)(x).numpy() == pytest.approx(int8_by_hand(x, weight) + bias.numpy(), abs=allowed)


def test_in_int8_a_row_gives_the_same_to_the_last_bit_whatever_stands_beside_it():
    weight, _ = weights()
    linear = Int8Linear(weight, None)
    x = inputs(7).mul(64).round()  # whole numbers, so that turning them rounds nothing
    x[3] *= 1e4  # an outlier token, as the first one of a text often is
    together = linear(x)
    for r in range(7):
        assert torch.equal(linear(x[r : r + 1])[0], together[r])


def test_one_scale_for_all_rows_would_lose_the_others_to_an_outlier():
    """The wrong rule: the kernel as torch ships it."""
    weight, _ = weights()
    x = inputs(7)
    x[3] *= 1e4
    linear = Int8Linear(weight, None)
    wrong = torch.ops.quantized.linear_dynamic(linear._turned(x), linear.packed)
    right = linear(x)
    reference = torch.from_numpy(by_hand(x, weight, None)).float()
    others = [r for r in range(7) if r != 3]
    assert (wrong - reference)[others].abs().max() > 20 * (right - reference)[others].abs().max()


def test_an_outlier_channel_costs_the_others_little_since_it_is_spread():
    weight, _ = weights()
    x = inputs(4)
    x[:, 9] *= 300

    class Unturned(Int8Linear):
        """The wrong rule: no Hadamard matrix."""

        def _turned(self, x):
            return x

    reference = torch.from_numpy(by_hand(x, weight, None)).float()
    errors = [(kind(weight, None)(x) - reference).abs().mean() for kind in (Int8Linear, Unturned)]
    assert errors[0] < 0.4 * errors[1]


@pytest.mark.parametrize(("width", "size"), [(576, 64), (1536, 64), (96, 32), (40, 8), (7, 1)])
def test_the_hadamard_matrix_is_orthogonal_and_divides_the_width(width, size):
    turn = hadamard(width)
    assert turn.shape == (size, size)
    assert torch.allclose(turn @ turn.T, torch.eye(size), atol=1e-6)


def test_a_row_of_zeros_gives_zeros_and_an_all_zero_channel_too():
    weight, _ = weights()
    weight[5] = 0
    for linear in (Int8Linear(weight, None), Int4Linear(weight, None)):
        out = linear(torch.cat([torch.zeros(1, 64), inputs(1)]))
        assert torch.equal(out[0], torch.zeros(48))
        assert out[1, 5] == 0
        assert torch.isfinite(out).all()


def test_int4_keeps_weights_that_already_stand_on_sixteen_levels_a_group():
    """Q4_1 by hand: a scale and a minimum for each 32 weights."""
    g = torch.Generator().manual_seed(3)
    levels = torch.randint(0, 16, (48, 2, INT4_GROUP), generator=g)
    levels[..., 0], levels[..., 1] = 0, 15  # every group uses its whole range, so its scale can be read off
    scale = 2.0 ** torch.randint(-6, -2, (48, 2, 1), generator=g)  # exact in bfloat16
    low = -8 * scale
    weight = (levels * scale + low).view(48, 64)
    x = torch.randint(-4, 5, (5, 64), generator=g).float()  # exact in bfloat16
    expected = by_hand(x, weight, None)
    assert Int4Linear(weight, None)(x).numpy() == pytest.approx(expected, rel=2**-8, abs=1e-6)


def test_int4_is_within_half_a_level_of_the_weights():
    weight, bias = weights()
    x = torch.eye(64)  # each output is one weight
    got = Int4Linear(weight, bias)(x) - bias
    groups = weight.view(48, 2, INT4_GROUP)
    level = ((groups.amax(-1) - groups.amin(-1)) / 15).max()
    assert (got.T - weight).abs().max() <= level * 0.5 + 0.05  # bfloat16 of the scale and of the sum


def test_a_layer_that_int4_cannot_tile_stays_exact():
    weight, _ = weights(rows=24, width=40)
    x = inputs(3, 40)
    linear = linear_maker("int4", CPU, torch.float32)(weight, None)
    assert linear(x).numpy() == pytest.approx(by_hand(x, weight, None), abs=1e-4)


def test_bytes_are_what_a_call_reads():
    weight, _ = weights(rows=64, width=64)
    assert PlainLinear(weight, None).nbytes == PackedLinear(weight, None, True).nbytes == 64 * 64 * 4
    assert Int8Linear(weight, None).nbytes == 64 * 64
    assert Int4Linear(weight, None).nbytes == 64 * 64 // 2 + 64 * 2 * 2 * 2  # a scale and a zero a group, bfloat16


def test_a_module_in_a_linears_place_takes_any_number_of_dimensions():
    weight, bias = weights()
    original = torch.nn.Linear(64, 48)
    original.weight.data, original.bias.data = weight, bias
    module = LinearModule(PlainLinear(weight, bias), original)
    x = inputs(6).view(2, 3, 64)
    assert torch.equal(module(x), original(x))
    assert module.weight.shape == original.weight.shape


@pytest.mark.parametrize(
    ("quantization", "device", "dtype", "says"),
    [
        ("int2", CPU, torch.float32, "choose one of none, int8, int4"),
        ("int8", CPU, torch.bfloat16, "starts from float32"),
        ("int4", CPU, torch.float16, "starts from float32"),
        ("int8", torch.device("cuda"), torch.float32, "runs on a CPU"),
    ],
)
def test_what_has_no_kernel_is_refused_with_a_sentence(quantization, device, dtype, says):
    with pytest.raises(EngineError, match=says):
        linear_maker(quantization, device, dtype)


def test_only_a_cpu_in_float32_quantises():
    assert can_quantize("cpu", "float32")
    assert can_quantize("cpu", "auto")
    assert not can_quantize("cpu", "bfloat16")
    assert not can_quantize("cuda", "auto")
