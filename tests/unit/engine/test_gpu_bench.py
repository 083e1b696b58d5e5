"""The speed checks of tests/gpu, run on a CPU with a toy shape: that they run, what they count, and how they stop."""

import random

import pytest
import torch
from helpers import gpu_bench
from helpers.gpu_bench import (
    Budget,
    Point,
    Rows,
    accepted,
    bytes_read,
    extrapolated,
    kv_bytes,
    measure,
    measure_grid,
    most_important_first,
    sliced,
    spec_of,
    tables,
)
from helpers.host_reads import HostReads
from helpers.synthetic import SHAPES, config_of, layer_bytes, random_decoder
from helpers.tape import TapeBackend

from engine.gpu import GraphedDecoder
from engine.linear import PlainLinear
from engine.linear_cuda import make_fp8
from engine.shape import ModelShape

TOY = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4}
CPU = torch.device("cpu")
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def fused():
    config = config_of(TOY, vocab_size=512, num_key_value_heads=2, max_position_embeddings=2048)
    return random_decoder(config, PlainLinear, CPU, torch.float32)


@pytest.mark.parametrize(("name", "billions"), [("1B", 1.24), ("8B", 7.5), ("70B", 69.5)])
def test_the_shapes_are_those_of_the_models_that_they_are_named_after(name, billions):
    config = config_of(name)
    shape = ModelShape.from_config(config)
    assert shape.matmul_params == pytest.approx(billions * 1e9, rel=0.02)
    layers = config.num_hidden_layers * layer_bytes(config, 1)
    assert layers + config.vocab_size * config.hidden_size == pytest.approx(shape.matmul_params, rel=1e-3)
    assert SHAPES[name]["num_hidden_layers"] == config.num_hidden_layers


def test_a_random_decoder_is_a_working_one_and_fp8_fits_its_layers(fused):
    config = config_of(TOY, vocab_size=512, num_key_value_heads=2)
    half = random_decoder(config, make_fp8, CPU, torch.bfloat16)
    rows = Rows(half, half, 2, 5, 8)
    _, logits = rows.forward([[1, 2], [3, 4]])
    assert torch.isfinite(logits).all()
    assert bytes_read(half, 1, 0) < bytes_read(fused, 1, 0) / 3


def test_bytes_are_the_weights_and_the_live_keys(fused):
    weights = 3 * layer_bytes(config_of(TOY, num_key_value_heads=2), 4) + 512 * 64 * 4
    assert bytes_read(fused, 1, 0) == weights
    assert kv_bytes(fused) == 2 * 3 * 2 * 16 * 4
    assert bytes_read(fused, 4, 10) == weights + 40 * kv_bytes(fused)


@pytest.mark.parametrize("graphs", [False, True])
def test_a_point_is_measured_and_its_rows_end_where_they_began(fused, graphs):
    decoder = GraphedDecoder(fused, TapeBackend()) if graphs else fused
    rows = Rows(decoder, fused, 2, 20, 400)
    for k in (0, 3):
        point = measure(rows, k, rate=0.8, seconds=0.01)
        assert (point.k, point.batch) == (k, 2)
        assert 2 <= point.tokens_per_step <= 2 * (k + 1)
        assert point.forward_s > 0 < point.step_s
        assert rows.cache.lengths == [20, 20]
    if graphs:  # ragged rows stay within their graph
        assert sorted(key[:3] for key in decoder._graphs) == [(2, 1, 128), (2, 4, 128)]


@torch.inference_mode()
def test_a_measured_step_reads_the_device_once(fused):
    rows = Rows(fused, fused, 3, 20, 400)
    with HostReads() as reads:
        rows.step(4, 0.8)
    assert reads.count == 1


def test_the_script_accepts_at_its_rate_each_given_those_before_it():
    chance = random.Random(1)
    counts = [accepted(0.8, 4, chance) for _ in range(20_000)]
    assert sum(counts) / len(counts) == pytest.approx(0.8 + 0.8**2 + 0.8**3 + 0.8**4, rel=0.02)
    assert {accepted(1.0, 4, chance), accepted(0.0, 4, chance), accepted(0.5, 0, chance)} == {4, 0}


def test_a_grid_is_measured_most_telling_points_first_and_stops_when_its_time_is_spent(fused):
    order = most_important_first(range(9), (1, 2, 64))
    assert len(set(order)) == 27
    assert order[:4] == [(1, 0), (1, 4), (64, 0), (64, 4)]
    assert order[4] == (2, 0)
    assert [p.batch for p in measure_grid(fused, fused, Budget(0), (0, 1), (1, 2), 5)] == []
    found = list(measure_grid(fused, fused, Budget(60), (0, 2), (1, 2), 5))
    assert sorted((p.batch, p.k) for p in found) == [(1, 0), (1, 2), (2, 0), (2, 2)]


def test_a_budget_asks_for_as_long_as_the_slowest_point_took():
    now = [0.0]
    budget = Budget(10, lambda: now[0])
    assert not budget.over()
    now[0] = 4.0
    assert not budget.over()
    now[0] = 6.5  # another four would end at 10.5
    assert budget.over()


def test_a_batch_that_does_not_fit_is_left_out_with_all_larger_ones(fused, monkeypatch):
    class Small(Rows):
        def __init__(self, decoder, fused, batch, *rest):
            if batch > 2:
                raise torch.OutOfMemoryError("full")
            super().__init__(decoder, fused, batch, *rest)

    monkeypatch.setattr(gpu_bench, "Rows", Small)
    found = list(measure_grid(fused, fused, Budget(60), (0,), (1, 2, 4, 8), 5))
    assert sorted(p.batch for p in found) == [1, 2]


def test_what_a_forward_without_layers_takes_is_not_multiplied(fused):
    empty = sliced(fused, 0)
    none = measure(Rows(empty, empty, 1, 5, 100), 1, seconds=0.01)
    full = measure(Rows(fused, fused, 1, 5, 100), 1, seconds=0.01)
    assert none.bytes_read == fused.head.nbytes
    grown = extrapolated(Point(1, 1, 3.0, 5.0, 1.5, full.bytes_read), Point(1, 1, 1.0, 2.0, 1.5, none.bytes_read), 3, 6)
    assert (grown.forward_s, grown.step_s) == (5.0, 8.0)
    assert grown.bytes_read == none.bytes_read + 2 * (full.bytes_read - none.bytes_read)


def test_the_share_of_the_roofline_by_hand_and_the_tables_that_show_it():
    points = [
        Point(0, 1, 0.010, 0.012, 1.0, 10**9),
        Point(2, 1, 0.011, 0.013, 2.6, 10**9),
        Point(0, 4, 0.02, 0.02, 4.0, 10**9),
    ]
    assert points[0].roofline_share(2e11) == pytest.approx(0.5)
    assert points[1].tokens_per_second == pytest.approx(200)
    text = tables("8B bf16", points, 2e11, "data sheet", {1: 0.001})
    lines = text.splitlines()
    assert "% of the memory roofline (0.20 TB/s, data sheet)" in lines[0]
    assert lines[1].split() == ["batch", "K=0", "K=2"]
    assert lines[2].split() == ["1", "50", "45"]
    assert lines[3].split() == ["4", "25", "-"]
    assert "scripted acceptance 0.8" in text
    assert "2.40" in text  # 200 against 83.3 tokens/s
    assert f"{2.6 / (0.013 + 2 * 0.001):.0f}" in text.split("1B shape as draft")[1]


@pytest.mark.parametrize(
    ("driver", "gb", "name"),
    [
        ("NVIDIA H100 80GB HBM3", 85, "H100 SXM"),
        ("NVIDIA H100 PCIe", 85, "H100 PCIe"),
        ("NVIDIA H200", 150, "H200 SXM"),
        ("NVIDIA A100-SXM4-80GB", 85, "A100 80GB SXM"),
        ("NVIDIA A100-SXM4-40GB", 42, "A100 40GB SXM"),
        ("NVIDIA A100 80GB PCIe", 85, "A100 80GB PCIe"),
        ("NVIDIA B200", 190, "B200 SXM (HGX)"),
        ("NVIDIA L40S", 48, "L40S"),
    ],
)
def test_a_driver_name_finds_its_data_sheet(driver, gb, name):
    assert spec_of(driver, gb * 1e9).name == name


def test_a_device_that_no_data_sheet_is_known_for_has_none():
    assert spec_of("Tesla T4", 16e9) is None
