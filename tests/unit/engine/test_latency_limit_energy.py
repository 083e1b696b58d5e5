"""Percentiles of latencies, the memory's limit and the joules of a comparison: each by arithmetic."""

import sys

import pytest
import torch
from helpers.models import pair_of, tiny_llama, wanders
from helpers.records import generation, step

from engine import DecodeSettings, compare
from engine.bench.compare import Comparison, Sample
from engine.bench.latency import Latency, Percentiles
from engine.bench.limit import MemoryLimit, read_bandwidth
from engine.energy import Meter, find_meter
from engine.stats import compute_stats


def test_percentiles_are_values_that_were_seen_with_their_number():
    p = Percentiles.of([5.0, 1.0, 3.0, None, 2.0, 4.0])
    assert (p.p50, p.p95, p.p99, p.n) == (3.0, 5.0, 5.0, 5)
    hundred = Percentiles.of(float(i) for i in range(1, 101))
    assert (hundred.p50, hundred.p95, hundred.p99, hundred.n) == (50.0, 95.0, 99.0, 100)


def test_two_values_have_no_percentile_above_the_larger():
    assert Percentiles.of([1.0, 2.0]).p95 == 2.0  # interpolation would give 2.85 on [1, 2] with n - 1 steps beyond


def test_few_values_are_called_few_and_none_have_no_percentile():
    assert Percentiles.of([1.0] * 19).few
    assert not Percentiles.of([1.0] * 20).few
    assert Percentiles.of([None]).as_dict() == {"p50": None, "p95": None, "p99": None, "n": 0}


def test_latency_takes_one_ttft_and_tpot_a_run_and_one_gap_a_later_step():
    runs = [[step(1, 100.0), step(2, 30.0, 1, 1), step(1, 10.0)], [step(1, 50.0)], []]
    latency = Latency.of(runs)
    assert (latency.ttft_s.n, latency.ttft_s.p50, latency.ttft_s.p95) == (2, 0.05, 0.1)
    assert latency.tpot_s.n == 1, "a run of one token has no time per further token"
    assert latency.tpot_s.p50 == pytest.approx(0.040 / 3)
    assert (latency.itl_s.n, latency.itl_s.p50, latency.itl_s.p99) == (2, 0.01, 0.03)
    assert latency.e2e_s.p99 == pytest.approx(0.14)


def test_the_share_of_the_limit_is_the_seconds_the_weights_need_over_the_seconds_taken():
    limit = MemoryLimit(target_bytes=1000, draft_bytes=100, bytes_per_second=100_000)
    # Two steps behind the first, 40 ms in all, five drafted tokens: (2 * 1000 + 5 * 100) / 100000 = 25 ms.
    stats = compute_stats([step(1, 500.0), step(3, 30.0, 3, 2), step(1, 10.0, 2, 0)])
    assert limit.fraction(stats) == pytest.approx(25 / 40)
    assert limit.tokens_per_second == 100
    assert limit.fraction(compute_stats([step(1, 500.0)])) is None


def test_bandwidth_is_what_this_process_reads():
    assert 1e8 < read_bandwidth(2**20, torch.device("cpu")) < 1e13


def test_a_models_bytes_are_those_of_its_weights_without_the_lookup():
    from engine import Pair

    pair = Pair.from_models(tiny_llama(), None)
    assert pair.target.read_bytes == 4 * (pair.target.n_params - 64 * 32)
    fused = Pair.from_models(tiny_llama(), None, quantization="none")
    norms = 2 * 2 * 32 + 32
    assert fused.target.read_bytes == pair.target.read_bytes - 4 * norms
    int8 = Pair.from_models(tiny_llama(), None, quantization="int8")
    assert int8.target.read_bytes == fused.target.read_bytes // 4


def zone(root, name, energy, label="package-0", top=1_000_000):
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "name").write_text(label + "\n")
    (folder / "energy_uj").write_text(f"{energy}\n")
    (folder / "max_energy_range_uj").write_text(f"{top}\n")
    return folder


def test_rapl_adds_the_packages_up_and_not_their_parts(tmp_path):
    a = zone(tmp_path, "intel-rapl:0", 100)
    b = zone(tmp_path, "intel-rapl:1", 300, "package-1")
    zone(tmp_path, "intel-rapl:0:0", 50, "core")
    zone(tmp_path, "intel-rapl:2", 70, "psys")
    meter = find_meter(torch.device("cpu"), tmp_path)
    before = meter.read()
    (a / "energy_uj").write_text("2000100")
    (b / "energy_uj").write_text("1000300")
    assert meter.read() - before == pytest.approx(3.0)
    assert "whole machine" in meter.source


def test_a_counter_that_starts_again_loses_nothing(tmp_path):
    a = zone(tmp_path, "intel-rapl:0", 900_000)
    meter = find_meter(torch.device("cpu"), tmp_path)
    before = meter.read()
    (a / "energy_uj").write_text("100000")
    assert meter.read() - before == pytest.approx(0.2)
    (a / "energy_uj").write_text("50000")
    assert meter.read() - before == pytest.approx(1.15)


@pytest.mark.parametrize("breaks", ["absent", "no packages", "not a number"])
def test_without_a_readable_counter_there_is_no_meter(tmp_path, breaks):
    root = tmp_path / "powercap"
    if breaks == "no packages":
        zone(root, "intel-rapl:0:0", 1, "core")
    if breaks == "not a number":
        zone(root, "intel-rapl:0", "?")
    assert find_meter(torch.device("cpu"), root) is None


def test_joules_go_to_the_arm_whose_step_used_them(monkeypatch):
    """A meter that counts forwards: every step is one, so each arm's joules are its steps."""
    pair = pair_of(wanders(16), vocab=16)
    meter = Meter(lambda: float(len(pair.target.model.widths)), "forwards", 0.0)
    monkeypatch.setattr(sys.modules["engine.bench.compare"], "find_meter", lambda device: meter)
    result = compare(pair, [[1, 2, 3, 1, 2]], DecodeSettings(max_new_tokens=12, k=2), repeats=1)
    (sample,) = result.samples
    assert sample.joules == (len(sample.plain.trace.steps), len(sample.speculative.trace.steps))
    assert result.plain.tokens_per_joule == pytest.approx(1.0)
    assert result.energy == "forwards"


def test_a_meter_that_ticks_slower_than_steps_tells_no_arm_from_another(monkeypatch):
    pair = pair_of(wanders(16), vocab=16)
    meter = Meter(lambda: float(len(pair.target.model.widths)), "a slow one", 0.1)
    monkeypatch.setattr(sys.modules["engine.bench.compare"], "find_meter", lambda device: meter)
    result = compare(pair, [[1, 2, 3, 1, 2]], DecodeSettings(max_new_tokens=12, k=2), repeats=1)
    assert result.plain.tokens_per_joule is None


def test_only_a_draft_model_is_charged_for_its_weights():
    from engine import Pair

    pair = Pair.from_models(tiny_llama(), None, tiny_llama(seed=1))
    assert MemoryLimit.of(pair, "model").draft_bytes == pair.draft.read_bytes > 0
    assert MemoryLimit.of(pair, "prompt_lookup").draft_bytes == 0


def test_without_a_meter_there_are_no_joules():
    plain = generation(step(1, 10.0), step(1, 10.0))
    arm = Comparison((Sample.of("x", 0, plain, plain),), "prompt_lookup", True, DecodeSettings()).plain
    assert arm.tokens_per_joule is None
    assert arm.limit_fraction is None
