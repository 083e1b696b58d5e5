"""fp8's arithmetic against float64. torch multiplies fp8 on a CPU too, by the same call, but not by the same kernel:
tests/gpu holds that one against bf16."""

from unittest import mock

import pytest
import torch

from engine.errors import EngineError
from engine.linear import PlainLinear, RmsNorm, linear_maker
from engine.linear_cuda import FP8, FP8_MAX, Fp8Linear, fp8_rows, make_fp8

pytestmark = pytest.mark.usefixtures("one_thread")
# Half a step of three bits of mantissa, relative to the number; far below the row's largest, half its smallest step.
STEP = 2.0**-4


def random(rows, width, seed=0, scale=1.0):
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed)) * scale


@pytest.mark.parametrize("scale", [1e-20, 1e-3, 1.0, 1e6, 1e30])
def test_a_row_comes_back_within_half_a_step_of_fp8_whatever_its_size(scale):
    x = random(5, 64, scale=scale)
    q, s = fp8_rows(x)
    assert (q.dtype, s.dtype, s.shape) == (FP8, torch.float32, (5, 1))
    back = q.double() * s.double()
    allowed = (x.abs().double() * STEP).clamp(min=float(s.max()) * 2**-10)
    assert ((back - x.double()).abs() <= allowed * (1 + 1e-6)).all()


def test_the_largest_of_each_row_becomes_the_largest_of_fp8_and_nothing_overflows():
    x = random(6, 32) * torch.tensor([[1e-8], [1.0], [448.0], [500.0], [3e4], [1e38]])
    q, _ = fp8_rows(x)
    assert torch.isfinite(q.float()).all()
    assert q.float().abs().amax(1).tolist() == [FP8_MAX] * 6


def test_a_row_of_zeros_is_zeros():
    q, s = fp8_rows(torch.zeros(2, 16))
    assert (q.float() == 0).all()
    assert torch.isfinite(s).all()


def test_one_row_never_changes_what_another_gives():
    linear = Fp8Linear(random(32, 64), None)
    x = random(3, 64, seed=1).bfloat16()
    loud = torch.cat([x, 1e4 * x[:1]])
    assert torch.equal(linear(x), linear(loud)[:3])
    assert torch.equal(linear(x), torch.cat([linear(row[None]) for row in x]))


@pytest.mark.parametrize("rows", [1, 2, 15, 16, 17, 40])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_the_product_is_that_of_the_rounded_numbers_in_float64(rows, bias, dtype):
    weight, x = random(48, 64) * 0.1, random(rows, 64, seed=1).to(dtype)
    b = random(1, 48, seed=2)[0].to(dtype) if bias else None
    linear = Fp8Linear(weight, b)
    out = linear(x)
    assert (out.shape, out.dtype) == ((rows, 48), dtype)
    (qw, sw), (qx, sx) = fp8_rows(weight), fp8_rows(x)
    expected = (qx.double() * sx.double()) @ (qw.double() * sw.double()).T + (0 if b is None else b.double())
    assert (out.double() - expected).abs().max() <= 2.0**-7 * expected.abs().max()  # bfloat16 rounds what comes out
    exact = x.double() @ weight.double().T + (0 if b is None else b.double())
    assert (out.double() - exact).norm() / exact.norm() < 0.06
    assert linear.nbytes == 48 * 64 + 4 * 48


def test_the_weight_is_laid_out_as_the_kernel_wants_it():
    linear = Fp8Linear(random(48, 64), None)
    assert (linear.weight.shape, linear.weight.stride()) == ((64, 48), (1, 64))
    assert linear.scale.shape == (1, 48)
    assert linear.scale.is_contiguous()


def test_every_call_hands_the_kernel_rows_in_multiples_of_sixteen():
    linear, seen, kernel = Fp8Linear(random(32, 64), None), [], torch._scaled_mm
    with mock.patch.object(
        torch, "_scaled_mm", lambda a, *rest, **more: seen.append(a.shape) or kernel(a, *rest, **more)
    ):
        for rows in (1, 6, 16, 33):
            assert linear(random(rows, 64)).shape == (rows, 32)
    assert [s[0] for s in seen] == [16, 16, 16, 48]


def test_it_does_what_a_fused_layer_asks_of_a_linear():
    linear, norm = Fp8Linear(random(32, 64), None), RmsNorm(torch.ones(64), 1e-6)
    x = random(3, 64, seed=1)
    assert torch.equal(linear.normed(x, norm), linear(norm(x)))
    kept = random(3, 32, seed=2)
    assert torch.equal(linear.add_to(kept.clone(), x), kept + linear(x))


@pytest.mark.parametrize("shape", [(33, 64), (32, 40)])
def test_a_layer_that_does_not_fit_the_tiles_stays_as_it_is(shape):
    assert isinstance(make_fp8(random(*shape), None), PlainLinear)
    assert isinstance(make_fp8(random(32, 64), None), Fp8Linear)


def test_fp8_is_refused_with_a_sentence_where_nothing_multiplies_it():
    with pytest.raises(EngineError, match=r"'fp8' needs an NVIDIA GPU of compute capability 8\.9.*on this cpu"):
        linear_maker("fp8", torch.device("cpu"), torch.float32)
    cuda = torch.device("cuda")
    with mock.patch.object(torch.cuda, "get_device_name", return_value="A100"):
        with mock.patch.object(torch.cuda, "get_device_capability", return_value=(8, 0)):
            with pytest.raises(EngineError, match="on this A100"):
                linear_maker("fp8", cuda, torch.bfloat16)
        for capability in ((8, 9), (9, 0), (10, 0), (12, 0)):
            with mock.patch.object(torch.cuda, "get_device_capability", return_value=capability):
                assert linear_maker("fp8", cuda, torch.bfloat16) is make_fp8
