"""A run's counted steps at the roofline's times: against arithmetic in the head."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.efficiency import Efficiency
from engine.gpu_specs import GpuSpec
from engine.hardware import ModelShape, load_gpu_specs
from engine.model_shapes import find_shape
from engine.precision import BF16, PRECISIONS
from engine.projection import Draft, StepCounts, project
from engine.stats import pool_stats
from engine.trace import Proposal, Replacement, Step, TokenText
from engine.validation import ErrorBand, shipped_error_band, shipped_speedup_band

H100 = load_gpu_specs()["H100 SXM"]
# 1e9 parameters of 2 bytes; KV 2*10*2*100*2 = 8000 bytes a token. 1 TB/s at half: 4 ms a forward, 0.016 ms the keys of
# 1000 tokens.
ROUND = ModelShape(10**9, 10**9, layers=10, hidden=1000, kv_heads=2, head_dim=100, vocab=1000)
ROUND_GPU = GpuSpec("round", 10, 1.0, 100, None, None, 100, "", "a test")
KNOWN = {"context_tokens": 1000, "efficiency": 0.5, "overhead_s": 0}
A = TokenText(1, "a")


def counts(decode_steps, drafted, proposed, output=None, prompt=1):
    return StepCounts(prompt, 1 + decode_steps if output is None else output, decode_steps, drafted, proposed)


def test_a_projection_is_the_runs_own_steps_at_the_rooflines_times():
    # 7 tokens: the first with the prompt (4 ms), then two steps with 3 proposals each and one without.
    got = project(ROUND, ROUND_GPU, counts(3, 2, 6, output=7), **KNOWN)
    plain_ms, fast_ms = 4 + 6 * 4.016, 4 + 3 * 4.016
    assert got.plain_tokens_per_second == pytest.approx(7e3 / plain_ms)
    assert got.speculative_tokens_per_second == pytest.approx(7e3 / fast_ms)
    assert got.speedup == pytest.approx(plain_ms / fast_ms)
    assert (got.provenance, got.bound_by) == ("projected", "memory")


def test_every_input_carries_its_label_and_the_formula_its_numbers():
    got = project(ROUND, ROUND_GPU, counts(3, 2, 6, output=7), **KNOWN)
    labels = {a.name: a.label for a in got.assumptions}
    assert labels["share of memory bandwidth"] == labels["bytes a parameter"] == "assumed"
    assert labels["of them with a draft"] == labels["output tokens"] == "measured"
    assert labels["gpu figures"] == "quoted"
    assert "2 GB (1e+09 parameters x 2 bytes)" in got.formula
    assert "4.016 ms" in got.formula
    assert "28.1 ms" in got.formula  # 4 + 6 x 4.016 = 28.096


def test_a_draft_model_costs_a_forward_of_its_own_for_each_proposal_and_reads_the_prompt():
    # draft: 1e8 parameters: 0.4 ms, 0.416 ms with the keys. 3 proposals: 1.248 ms a drafted step.
    draft = replace(ROUND, n_params=10**8, n_active_params=10**8)
    got = project(ROUND, ROUND_GPU, counts(2, 2, 6, output=7), draft, **KNOWN)
    assert got.draft_s == pytest.approx(1.248e-3)
    assert got.speedup == pytest.approx((4 + 6 * 4.016) / (4 + 0.4 + 2 * (4.016 + 1.248)))


def test_a_draft_that_is_hardly_ever_asked_costs_hardly_anything():
    """One drafted step of a hundred, with a draft as large as its target and nothing accepted."""
    got = project(ROUND, ROUND_GPU, counts(100, 1, 5), ROUND, **KNOWN)
    assert got.speedup == pytest.approx((4 + 100 * 4.016) / (4 + 4 + 100 * 4.016 + 5 * 4.016))
    assert 0.9 < got.speedup < 1


def test_a_mixture_of_experts_can_lose_although_most_drafts_are_accepted():
    # F11. 64 experts, 2 a token: two tokens wake 64 * (1 - (62/64)^2) = 3.9375. Reads 1e8 dense + 2e8 plain = 3e8;
    # 4.9375e8 to verify one proposal. 60 of 100 accepted: 160 tokens behind the first in 100 steps.
    shape = ModelShape(
        65 * 10**8, 3 * 10**8, 10, 1000, 2, 100, 1000, experts=64, experts_per_token=2, expert_params=10**8
    )
    zero = {"context_tokens": 0, "overhead_s": 0, "efficiency": 0.5}
    got = project(shape, ROUND_GPU, counts(100, 100, 100, output=161), **zero)
    assert got.speedup == pytest.approx((3 + 160 * 3) / (3 + 100 * 4.9375))
    assert got.speedup < 1
    dense = project(ROUND, ROUND_GPU, counts(100, 100, 100, output=161), **zero)
    assert dense.speedup == pytest.approx(161 / 101)


def test_a_large_batch_takes_the_gain_away():
    run = counts(50, 50, 250, output=101)
    small, large = (project(ROUND, ROUND_GPU, run, batch=b) for b in (1, 256))
    assert small.speedup > 1.5
    assert large.speedup < 1
    assert large.bound_by == "compute"


def test_without_drafts_the_projection_is_plain_decoding():
    assert project(ROUND, H100, counts(40, 0, 0)).speedup == pytest.approx(1.0)


@given(st.integers(1, 200), st.data())
def test_drafts_that_accept_nothing_never_gain(steps, data):
    drafted = data.draw(st.integers(1, steps))
    proposed = data.draw(st.integers(drafted, 8 * drafted))
    assert project(ROUND, H100, counts(steps, drafted, proposed)).speedup <= 1 + 1e-12


@pytest.mark.parametrize(
    "numbers",
    [
        (0, 5, 4, 0, 0),  # no prompt
        (1, 0, 0, 0, 0),  # no output
        (1, 5, 5, 0, 0),  # more steps than tokens behind the first
        (1, 5, 3, 4, 9),  # more drafted steps than steps
        (1, 5, 3, 2, 1),  # a drafted step that proposes nothing
        (1, 5, 3, 0, 2),  # proposals of no step
        (1, math.nan, 3, 1, 2),
    ],
)
def test_counts_that_no_run_can_have_are_refused(numbers):
    with pytest.raises(ValueError):
        StepCounts(*numbers)


def test_counts_of_pooled_runs_are_the_average_request():
    def step(emitted, proposed=0):
        chips = tuple(Proposal(A, 1.0, 1.0, None, 1.0, "accepted") for _ in range(proposed))
        return Step(1, (1,) * emitted, ("a",) * emitted, (A,) * emitted, chips, Replacement("bonus", A, 1.0), None, 0,
                    0.0, 1.0, 0.0)  # fmt: skip

    runs = [([step(1), step(4, 3), step(1)], 10), ([step(1), step(3, 2), step(3, 2), step(1)], 20)]
    assert StepCounts.of(pool_stats(runs)) == StepCounts(15, 7, 2.5, 1.5, 3.5)
    with pytest.raises(ValueError, match="nothing was decoded"):
        StepCounts.of(pool_stats([]))


def test_acceptance_of_a_published_figure_becomes_steps():
    # 101 tokens: one with the prompt, 100 in steps of 2.5 each: 40 steps, 3 proposals in each
    got = StepCounts.from_acceptance(2.5, 3, prompt_tokens=10, output_tokens=101)
    assert got == StepCounts(10, 101, 40, 40, 120, "quoted")
    tree = StepCounts.from_acceptance(5.0, 63, prompt_tokens=10, output_tokens=101, depth=4)
    assert (tree.decode_steps, tree.width) == (20, 63)
    assert project(ROUND, ROUND_GPU, got).assumptions[2].label == "quoted"


@pytest.mark.parametrize(
    ("length", "k", "depth"), [(0.9, 3, None), (4.1, 3, None), (math.nan, 3, None), (5.5, 63, 4), (2.0, 3, 5)]
)
def test_an_acceptance_that_no_draft_can_have_is_refused(length, k, depth):
    with pytest.raises(ValueError, match="deep"):
        StepCounts.from_acceptance(length, k, prompt_tokens=1, output_tokens=100, depth=depth)


def test_prefill_and_decode_add_up_to_the_time_that_a_bill_pays_for():
    got = project(ROUND, ROUND_GPU, counts(3, 2, 6, output=7, prompt=100), batch=4, **KNOWN)
    for arm in (got.plain, got.speculative):
        assert 4 * (arm.prefill_s_per_request + arm.decode_s_per_request) == pytest.approx(arm.seconds)
        assert arm.tokens_per_second == pytest.approx(4 * 7 / arm.seconds)
    # 400 tokens of 2e9 multiplications at 50 TFLOPS, without the logits (1e6 x 2) of all but each row's last: 16 ms
    assert got.plain.prompts_s == pytest.approx((400 * 2e9 - 2 * 4 * 99 * 1e6) / 5e13)
    # one prompt alone is read at the weights' speed: 4 ms against 4 ms of arithmetic less its logits
    assert got.time_to_first_token_s == pytest.approx(4e-3)


def test_a_head_runs_as_often_as_its_tree_is_deep_and_not_once_a_node():
    head = replace(ROUND, n_params=10**8, n_active_params=10**8, layers=1)
    run = StepCounts.from_acceptance(3, 63, prompt_tokens=1, output_tokens=31, depth=5)
    forward_s = (2e8 + 800 * 1000) / 5e11  # its weights, and the keys of one layer: 2 x 2 heads x 100 x 2 bytes
    got = project(ROUND, ROUND_GPU, run, Draft.head(head, forwards=5), **KNOWN)
    assert got.draft_s == pytest.approx(5 * forward_s)
    assert got.draft_s != pytest.approx(63 * forward_s)


def test_what_a_draft_network_costs_besides_its_forwards_is_paid_once_a_drafted_step():
    share = Efficiency(0.5, 0.5, round_overhead_s=2e-3)
    one = replace(ROUND, n_params=10**8, n_active_params=10**8)
    known = {"context_tokens": 0, "overhead_s": 0, "efficiency": share}
    assert project(ROUND, ROUND_GPU, counts(2, 2, 6, output=7), one, **known).draft_s == pytest.approx(3.2e-3)
    assert project(ROUND, ROUND_GPU, counts(2, 2, 6, output=7), **known).draft_s == 0  # a lookup runs no network


def test_host_work_for_rows_is_a_steps_and_not_a_draft_forwards():
    share = Efficiency(0.5, 0.5, row_overhead_s=1e-3)
    one = replace(ROUND, n_params=10**8, n_active_params=10**8)
    known = {"context_tokens": 0, "overhead_s": 0, "efficiency": share, "batch": 4}
    got = project(ROUND, ROUND_GPU, counts(2, 2, 6, output=7), one, **known)
    assert got.draft_s == pytest.approx(3 * 0.4e-3)
    assert got.verify_step.overhead_s == pytest.approx(4e-3)


def test_a_lookup_takes_the_seconds_that_were_measured():
    got = project(ROUND, ROUND_GPU, counts(2, 2, 6, output=7), Draft.lookup(1e-4, "measured"), **KNOWN)
    assert got.draft_s == pytest.approx(1e-4)
    assert next(a for a in got.assumptions if a.name == "host seconds of a drafted step").label == "measured"


def test_a_draft_known_by_its_share_reads_that_share():
    run = counts(2, 2, 6, output=7)
    known = {"context_tokens": 0, "overhead_s": 0, "efficiency": 0.5}
    got = project(ROUND, ROUND_GPU, run, Draft.share(ROUND, 0.1), **known)
    assert got.draft_s == pytest.approx(3 * 0.4e-3)
    with pytest.raises(ValueError, match="share"):
        Draft.share(ROUND, 0)


def test_weights_of_half_the_bytes_are_read_in_half_the_time():
    known = {"context_tokens": 0, "overhead_s": 0, "efficiency": 0.5}
    bf16, fp8 = (project(ROUND, H100, counts(40, 0, 0), precision=p, **known) for p in (BF16, PRECISIONS["fp8"]))
    assert fp8.plain_step.memory_s == pytest.approx(bf16.plain_step.memory_s / 2)


def test_keys_of_one_byte_halve_what_is_read_of_them():
    wide, narrow = (
        project(ROUND, H100, counts(40, 0, 0), kv_bytes_per_element=size, efficiency=0.5) for size in (2.0, 1.0)
    )
    assert narrow.plain_step.kv_s == pytest.approx(wide.plain_step.kv_s / 2)


def test_an_efficiency_is_fitted_where_a_gpu_was_measured_and_assumed_where_not():
    shape = find_shape("Llama-3.1-8B").shape

    def memory(gpu):
        found = project(shape, load_gpu_specs()[gpu], counts(40, 0, 0)).assumptions
        return next(a for a in found if a.name == "share of memory bandwidth")

    assert memory("H100 SXM").label == "fitted"
    assert "on H100 SXM" in memory("H100 SXM").basis
    assert memory("B200 SXM (HGX)").label == "assumed"
    assert "published results on A100" in memory("B200 SXM (HGX)").basis


def test_the_error_that_projections_have_had_stands_beside_each():
    one, many = (project(ROUND, H100, counts(40, 0, 0), batch=b) for b in (1, 64))
    assert one.error_band == shipped_error_band(1)
    assert many.error_band == shipped_error_band(64)
    assert one.error_band.of != many.error_band.of
    assert one.as_dict()["error_band"]["results"] == one.error_band.results


def test_an_error_band_becomes_a_range_around_each_speed():
    # promised from 20 % too little to 60 % too much: 160 tok/s projected are 100 to 200
    band = ErrorBand(0.1, -0.2, 0.6, 9, 3, "of a kind", "anything")
    assert band.around(160) == (pytest.approx(100), pytest.approx(200))
    got = project(ROUND, H100, counts(50, 50, 250, output=101))
    for arm, value in ((got.plain_range, got.plain_tokens_per_second),
                       (got.speculative_range, got.speculative_tokens_per_second)):  # fmt: skip
        assert arm == (
            pytest.approx(value / (1 + got.error_band.high)),
            pytest.approx(value / (1 + got.error_band.low)),
        )
    printed = got.as_dict()
    assert printed["plain"]["output_tokens_per_second_range"] == list(got.plain_range)
    assert printed["speculative"]["output_tokens_per_second_range"] == list(got.speculative_range)
    assert "(1 + highest error)" in printed["range_rule"]


def test_a_speedup_has_the_errors_of_speedups_and_none_where_too_few_were_published():
    run = counts(50, 50, 250, output=101)
    one, many = (project(ROUND, H100, run, batch=b) for b in (1, 8))
    assert one.speedup_band == shipped_speedup_band(1) != one.error_band
    assert one.speedup_range == shipped_speedup_band(1).around(one.speedup)
    assert many.speedup_range is None
    assert many.as_dict()["speedup_range"] is None


def test_a_request_has_to_fit_at_its_end_and_not_at_its_average():
    # 80 x (512 + 8000 + 1) tokens x 131,072 bytes = 89.27 GB beside 16.06 GB of weights and 0.04 GB of logits; at the
    # average of 4512 tokens it would be 63.4 GB of the 72 usable
    shape = find_shape("Llama-3.1-8B").shape
    run = StepCounts.plain(prompt_tokens=512, output_tokens=8000)
    got = project(shape, H100, run, context_tokens=4512, batch=80)
    assert not got.fits
    assert got.memory.startswith("Will not fit: 105.37 GB needed (target kv 89.27, target weights 16.06")
    assert project(shape, H100, run, context_tokens=4512, batch=40).fits  # 60.7 GB
    two = project(shape, H100, run, context_tokens=4512, batch=80, gpus=2)
    assert two.fits  # 44.6 + 8.0 GB on each
    assert "52.70 GB needed on the fullest GPU" in two.memory


def test_drafted_tokens_are_cached_before_they_are_tested():
    run = counts(2, 2, 6, output=7, prompt=93)  # 100 tokens at the end, 3 drafted, one of the target's
    got = project(ROUND, ROUND_GPU, run, batch=1000, **KNOWN | {"context_tokens": 0})
    assert "target kv 0.83" in got.memory  # 1000 x 104 x 8000 bytes
    # an average of 1000 tokens that is said is 3.5 more at the end: 1004 + 4 tokens
    longer = project(ROUND, ROUND_GPU, run, batch=1000, **KNOWN)
    assert "target kv 8.06" in longer.memory


def test_heads_that_gpus_cannot_share_evenly_are_told():
    shape = find_shape("Llama-3.1-8B").shape  # 32 heads, 8 of them for keys
    assert project(shape, H100, counts(40, 0, 0), gpus=8).notes == ()
    three = project(shape, H100, counts(40, 0, 0), gpus=3).notes
    assert any("32 attention heads cannot be split evenly over 3 GPUs" in note for note in three)
    assert any("holds 3 of 8 key heads" in note and "37.5%" in note for note in three)
    (sixteen,) = project(shape, H100, counts(40, 0, 0), gpus=16).notes
    assert "holds 1 of 8 key heads" in sixteen


def test_a_request_longer_than_the_model_takes_is_told():
    run = StepCounts.plain(prompt_tokens=3000, output_tokens=1200)
    (note,) = project(find_shape("Llama-2-7B").shape, H100, run, context_tokens=3600).notes
    assert "4,200 tokens" in note
    assert "takes 4,096 at most" in note
    assert project(find_shape("Llama-3.1-8B").shape, H100, run, context_tokens=3600).notes == ()


def test_a_gpu_without_fp8_arithmetic_is_told_and_multiplies_in_bf16():
    a100, shape = load_gpu_specs()["A100 80GB SXM"], find_shape("Llama-2-7B").shape
    bf16, fp8 = (project(shape, a100, counts(40, 0, 0), precision=p, efficiency=0.5) for p in (BF16, PRECISIONS["fp8"]))
    assert any("no FP8 arithmetic" in note and "multiplied in BF16" in note for note in fp8.notes)
    assert fp8.plain_step.compute_s == bf16.plain_step.compute_s
    assert fp8.plain_step.weights_s == pytest.approx(bf16.plain_step.weights_s / 2)
    assert project(shape, H100, counts(40, 0, 0), precision=PRECISIONS["fp8"]).notes == ()


def test_what_is_assumed_of_experts_is_told():
    (note,) = project(find_shape("Mixtral-8x7B").shape, H100, counts(40, 0, 0), gpus=4).notes
    assert "8 experts, 2 a token" in note
    assert "each cut over all GPUs" in note


def test_a_draft_on_more_gpus_than_its_target_and_a_batch_of_none_are_refused():
    draft = Draft.model(ROUND, gpus=2)
    with pytest.raises(ValueError, match="2 of 1 cannot be"):
        project(ROUND, H100, counts(2, 2, 6, output=7), draft)
    with pytest.raises(ValueError, match="batch must be at least 1, not 0"):
        project(ROUND, H100, counts(40, 0, 0), batch=0)
