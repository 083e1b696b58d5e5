"""A run's counted steps at the roofline's times: against arithmetic in the head."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.gpu_specs import GpuSpec
from engine.hardware import ModelShape, load_gpu_specs
from engine.projection import StepCounts, project
from engine.stats import pool_stats
from engine.trace import Proposal, Replacement, Step, TokenText

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
    assert labels["efficiency"] == labels["bytes a parameter"] == "assumed"
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
    zero = {"context_tokens": 0, "overhead_s": 0}
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
