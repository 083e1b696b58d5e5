"""A model split over GPUs: what each reads, what they say to each other, against arithmetic."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.communication import all_reduce_s, forward_communication_s, link_gb_s
from engine.efficiency import Efficiency
from engine.hardware import ModelShape, decode_step, load_gpu_specs
from engine.model_shapes import find_shape

SPECS = load_gpu_specs()
H100, L40S = SPECS["H100 SXM"], SPECS["L40S"]
SILENT = Efficiency(1.0, 1.0, all_reduce_s=0.0)
ROUND = ModelShape(10**9, 10**9, layers=10, hidden=1000, kv_heads=8, head_dim=100, vocab=1000)


def test_an_all_reduce_sends_each_byte_almost_twice_over_half_of_what_the_data_sheet_prints():
    # 8 GPUs, 1 MB: 2 x 7/8 MB out of each, at 450 GB/s one way, behind 10 us: 3.889 + 10 us
    got = all_reduce_s(1e6, H100, 8, 10e-6)
    assert got == pytest.approx(1.75e6 / 450e9 + 10e-6)
    both_ways = 1.75e6 / 900e9 + 10e-6  # the printed 900 GB/s counts both directions
    sent_once = 0.875e6 / 450e9 + 10e-6  # a reduce alone, without handing the sum back
    assert got != pytest.approx(both_ways)
    assert got != pytest.approx(sent_once)


def test_llama_70b_on_eight_h100_adds_up_160_times_a_token():
    # 80 layers x 2 of 8192 x 2 bytes: 160 x (10 us + 28,672 bytes / 450 GB/s) = 1.610 ms
    shape = find_shape("Llama-3.3-70B").shape
    share = Efficiency(1.0, 1.0, all_reduce_s=10e-6)
    step = decode_step(shape, H100, 1, 0, gpus=8, efficiency=share, overhead_s=0)
    assert step.communication_s == pytest.approx(160 * (10e-6 + 28_672 / 450e9))
    assert step.communication_s == pytest.approx(1.6102e-3, rel=1e-4)
    # (70,553,706,496 - 128256 x 8192) x 2 bytes / 8 / 3.35 TB/s = 5.1868 ms
    assert step.weights_s == pytest.approx((70_553_706_496 - 128_256 * 8192) * 2 / 8 / 3.35e12)


def test_verifying_more_tokens_says_more():
    one, six = (forward_communication_s(10, 1000, tokens, H100, 2, 0.0) for tokens in (1, 6))
    assert six == pytest.approx(6 * one)


def test_one_gpu_has_nobody_to_talk_to():
    assert all_reduce_s(1e9, H100, 1, 1.0) == 0
    assert decode_step(ROUND, H100, 1, 0).communication_s == 0


def test_keys_are_split_by_whole_heads():
    alone, eight, sixteen, three = (
        decode_step(ROUND, H100, 1, 1000, gpus=n, efficiency=SILENT).kv_s for n in (1, 8, 16, 3)
    )
    assert eight == pytest.approx(alone / 8)
    assert sixteen == pytest.approx(alone / 8)  # a head cannot be cut: two GPUs each read the same one
    assert three == pytest.approx(alone * 3 / 8)  # one GPU holds three of the eight heads and the others wait for it


def test_a_slow_link_can_take_all_that_splitting_gives():
    wide = replace(ROUND, hidden=8000)  # 20 sums of 1024 x 8000 x 2 bytes, x 7/4, at 32 GB/s one way: 18 ms
    one, eight = (decode_step(wide, L40S, 64, 0, 16, gpus=n) for n in (1, 8))
    assert eight.communication_s == pytest.approx(20 * (1.75 * 1024 * 8000 * 2 / 32e9 + 10e-6))
    assert eight.compute_s < one.compute_s / 7
    assert eight.seconds > one.seconds
    assert eight.binding == "communication"


def test_a_gpu_without_a_known_link_is_given_pcie():
    unknown = replace(H100, link_gb_s=None)
    assert link_gb_s(unknown) == 64
    assert all(spec.link_gb_s and spec.link_source for spec in SPECS.values())


@given(st.integers(1, 64), st.integers(1, 64))
def test_experts_are_split_like_everything_else(tokens, gpus):
    shape = find_shape("Mixtral-8x7B").shape
    alone = decode_step(shape, H100, tokens, 0, efficiency=SILENT)
    split = decode_step(shape, H100, tokens, 0, gpus=gpus, efficiency=SILENT)
    assert split.weights_s == pytest.approx(alone.weights_s / gpus)
