"""Every verifier emits the target's own law, exactly: by enumeration of all outcomes, and by sampling with a check
that catches each rule that is known to be wrong."""

import itertools

import numpy as np
import pytest
import torch
from helpers import laws
from helpers.laws import ALPHA, chi_square, distance, emitted_counts, exact_law, first_token, target_law
from hypothesis import given, settings
from hypothesis import strategies as st

import engine
from engine import DecodeSettings, EngineError, verify_chain
from engine.verify import chain
from engine.verify.sampling import probabilities

METHODS = engine.EXACT
TRIALS = 15_000
pytestmark = pytest.mark.usefixtures("one_thread")


def always(*row):
    """The same law behind every prefix."""
    law = np.array(row, dtype=float)
    return lambda prefix: law


def rows(*laws, dtype=torch.float32):
    return torch.tensor(np.array(laws), dtype=dtype)


def drafts_from(law, k=1, trials=TRIALS, seed=1):
    return np.random.default_rng(seed).choice(len(law), size=(trials, k), p=law)


# --- exact enumeration ---


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("vocab", "k"), [(2, 1), (2, 3), (3, 2), (3, 3), (4, 2)])
def test_the_law_of_the_output_is_the_targets_whatever_the_draft_thinks(method, vocab, k):
    rng = np.random.default_rng(vocab * 10 + k)
    p, q = laws.random_laws(rng, vocab, k), laws.random_laws(rng, vocab, k)
    law, _ = exact_law(p, q, vocab, k, method)
    assert sum(law.values()) == pytest.approx(1, abs=1e-9)
    assert distance(law, target_law(p, vocab, k + 1)) < 1e-9


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("vocab", [2, 3, 4])
def test_the_law_is_the_targets_when_the_draft_is_deterministic(method, vocab):
    rng = np.random.default_rng(vocab)
    p = laws.random_laws(rng, vocab, 3)
    law, _ = exact_law(p, None, vocab, 3, method, deterministic=lambda prefix: sum(prefix) % vocab)
    assert distance(law, target_law(p, vocab, 4)) < 1e-9


@pytest.mark.parametrize("method", METHODS)
def test_a_one_hot_law_and_no_law_at_all_mean_the_same_draft(method):
    p = laws.random_laws(np.random.default_rng(5), 3, 2)
    hot = always(0, 1, 0)
    with_law, mean_with = exact_law(p, hot, 3, 2, method)
    without, mean_without = exact_law(p, None, 3, 2, method, deterministic=lambda prefix: 1)
    assert distance(with_law, without) < 1e-12
    assert mean_with == pytest.approx(mean_without, abs=1e-12)


@st.composite
def cases(draw):
    vocab, k = draw(st.integers(1, 3)), draw(st.integers(0, 2))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    zeros = draw(st.sampled_from([0.0, 0.4, 0.8, 1.0]))  # 1.0: every law one-hot
    p = laws.random_laws(rng, vocab, k, zeros)
    q = p if draw(st.booleans()) else laws.random_laws(rng, vocab, k, zeros)
    return p, q, vocab, k


@pytest.mark.parametrize("method", METHODS)
@given(case=cases())
@settings(max_examples=120, deadline=None)
def test_the_law_holds_for_zeros_equal_laws_certain_laws_and_no_draft(method, case):
    p, q, vocab, k = case
    law, mean = exact_law(p, q, vocab, k, method)
    assert distance(law, target_law(p, vocab, k + 1)) < 1e-9
    assert mean == pytest.approx(laws.expected_accepted(p, q, vocab, k, method), abs=1e-9)


@given(seed=st.integers(0, 2**32), method=st.sampled_from(METHODS))
@settings(max_examples=60, deadline=None)
def test_the_law_holds_in_the_single_precision_that_the_engine_runs_in(seed, method):
    rng = np.random.default_rng(seed)
    p, q = laws.random_laws(rng, 3, 2), laws.random_laws(rng, 3, 2)
    law, _ = exact_law(p, q, 3, 2, method, dtype=torch.float32)
    assert distance(law, target_law(p, 3, 3)) < 1e-5


@given(seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_block_verification_never_accepts_less_than_token_by_token(seed):
    rng = np.random.default_rng(seed)
    p, q = laws.random_laws(rng, 3, 2), laws.random_laws(rng, 3, 2)
    means = {m: exact_law(p, q, 3, 2, m)[1] for m in METHODS}
    assert means["block"] >= means["rejection"] - 1e-9
    assert means["rejection"] >= means["match"] - 1e-9


@pytest.mark.parametrize(("method", "accepted"), [("rejection", 10 / 9), ("block", 11 / 9)])
def test_the_example_of_sun_et_al_accepts_ten_ninths_and_eleven_ninths(method, accepted):
    p, q = always(1 / 3, 2 / 3), always(2 / 3, 1 / 3)
    law, mean = exact_law(p, q, 2, 2, method)
    assert mean == pytest.approx(accepted, abs=1e-12)
    assert distance(law, target_law(p, 2, 3)) < 1e-12


def test_rejection_accepts_the_common_mass_and_match_the_chance_of_agreeing():
    p, q = always(0.5, 0.3, 0.15, 0.05), always(0.4, 0.4, 0.1, 0.1)
    assert exact_law(p, q, 4, 1, "rejection")[1] == pytest.approx(0.85)  # sum of min(p, q)
    assert exact_law(p, q, 4, 1, "match")[1] == pytest.approx(0.34)  # sum of p * q


# --- the verdict itself ---


@pytest.mark.parametrize("method", ["rejection", "match"])
def test_acceptance_is_the_leading_run_and_what_stands_behind_a_rejection_is_not_counted(method):
    p = rows([0.5, 0.5], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5])
    with laws.scripted_chance() as control:
        control.uniforms = [0.1, 0.9, 0.1, 0.9]  # against one half: stands, falls, stands, falls
        v = verify_chain(p, [0, 0, 0, 0], None, method)
    assert v.num_accepted == 1
    assert v.kind == "recovered"
    assert v.next_token == 1  # p without the rejected token


def test_block_verification_looks_past_a_failed_prefix_for_a_longer_one_that_passes():
    # P1 = min(1, .3/.6) = .5; R1 = sum max(0, .5*(.6,.4) - (.3,.7)) = 0; h1 = 0/(0+1-.5) = 0.  P2 = .5*(.6/.3) = 1.
    p, q = rows([0.3, 0.7], [0.6, 0.4], [0.5, 0.5]), rows([0.6, 0.4], [0.3, 0.7])
    with laws.scripted_chance() as control:
        control.uniforms = [0.999, 0.999]
        v = verify_chain(p, [0, 0], q, "block")
    np.testing.assert_allclose(v.accept_probs.numpy(), [0.0, 1.0], atol=1e-6)
    assert (v.num_accepted, v.kind) == (2, "bonus")


@pytest.mark.parametrize("method", ["rejection", "block"])
def test_a_draft_that_is_the_target_is_held_against_certainty_at_every_position(method):
    p = rows(*[SAMPLED_P] * 4)
    v = verify_chain(p, [0, 3, 1], p[:3], method)
    assert v.accept_probs.tolist() == pytest.approx([1.0] * 3)
    assert (v.num_accepted, v.kind) == (3, "bonus")


def test_the_accept_test_is_strict_so_a_token_of_no_probability_never_passes():
    with laws.scripted_chance() as control:
        for method in METHODS:
            control.uniforms = [0.0]
            v = verify_chain(rows([0, 1], [1, 0]), [0], rows([0.5, 0.5]), method)
            assert (v.num_accepted, v.next_token) == (0, 1)


@pytest.mark.parametrize("method", METHODS)
def test_with_nothing_drafted_the_token_is_a_bonus_from_the_target(method):
    v = verify_chain(rows([0.0, 0.0, 1.0]), [], None, method)
    assert (v.num_accepted, v.next_token, v.kind) == (0, 2, "bonus")
    assert v.accept_probs.numel() == v.uniforms.numel() == 0
    v = verify_chain(rows([0.0, 0.0, 1.0]), torch.tensor([], dtype=torch.long), torch.zeros(0, 3), method)
    assert v.next_token == 2


@pytest.mark.parametrize("method", METHODS)
def test_the_verdict_reports_every_uniform_and_threshold_and_repeats_with_its_seed(method):
    p, q = rows([0.4, 0.6], [0.5, 0.5], [0.2, 0.8], [0.7, 0.3]), rows([0.5, 0.5], [0.9, 0.1], [0.5, 0.5])
    first, second = (verify_chain(p, [0, 0, 1], q, method, torch.Generator().manual_seed(3)) for _ in range(2))
    assert first.accept_probs.shape == first.uniforms.shape == (3,)
    assert first.uniforms.dtype == first.accept_probs.dtype == torch.float64
    assert bool(((first.uniforms >= 0) & (first.uniforms < 1)).all())
    assert first.uniforms.tolist() == second.uniforms.tolist()
    assert (first.num_accepted, first.next_token) == (second.num_accepted, second.next_token)


def test_the_uniforms_of_a_step_are_independent_of_each_other():
    g = torch.Generator().manual_seed(0)
    p = rows([0.5, 0.5], [0.5, 0.5], [0.5, 0.5])
    u = np.array([verify_chain(p, [0, 0], None, "rejection", g).uniforms.tolist() for _ in range(4000)])
    cells, _, _ = np.histogram2d(u[:, 0], u[:, 1], bins=4, range=[[0, 1], [0, 1]])
    assert chi_square(cells.ravel(), np.full(16, 1 / 16)) > ALPHA


# --- known faults, with their numbers ---

# A1: vocabulary of 4, top_k = 2 on both sides.
A1_P, A1_Q = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.1, 0.2, 0.3, 0.4])
A1_RIGHT, A1_WRONG = [0.5714, 0.4286, 0, 0], [0.6735, 0.3265, 0, 0]


def filtered(law, **kwargs):
    settings = DecodeSettings(temperature=1.0, **kwargs)
    return probabilities(torch.tensor(np.array([law])).log(), settings)[0].double().numpy()


def test_q_is_the_law_after_top_k_that_the_token_was_drawn_from():
    p, q = filtered(A1_P, top_k=2), filtered(A1_Q, top_k=2)
    np.testing.assert_allclose(p, [4 / 7, 3 / 7, 0, 0], atol=1e-6)
    np.testing.assert_allclose(q, [0, 0, 3 / 7, 4 / 7], atol=1e-6)
    for method in METHODS:
        law, _ = exact_law(always(*p), always(*q), 4, 1, method)
        np.testing.assert_allclose(first_token(law, 4), A1_RIGHT, atol=5e-5)
    # The fault: drawn from the filtered law, tested with the raw one.
    law, _ = exact_law(always(*p), always(*q), 4, 1, "rejection", used_q=always(*A1_Q))
    np.testing.assert_allclose(first_token(law, 4), A1_WRONG, atol=5e-5)


def test_fifty_thousand_runs_of_the_top_k_example_have_the_targets_law():
    p, q = filtered(A1_P, top_k=2), filtered(A1_Q, top_k=2)
    counts = emitted_counts(rows(p, p), rows(q), drafts_from(q / q.sum(), trials=50_000), 4, 50_000)
    assert counts.sum() == 50_000
    assert chi_square(counts, [*A1_RIGHT[:2], 0, 0]) > ALPHA
    assert chi_square(counts, A1_WRONG) < 1e-12


@pytest.mark.parametrize("method", METHODS)
def test_a_deterministic_draft_has_a_one_hot_q(method):
    law, _ = exact_law(always(0.5, 0.5), None, 2, 1, method, deterministic=lambda prefix: 0)
    np.testing.assert_allclose(first_token(law, 2), [0.5, 0.5], atol=1e-12)


def test_a_soft_q_for_a_deterministic_draft_is_the_known_bias():
    law, _ = exact_law(
        always(0.5, 0.5), None, 2, 1, "rejection", deterministic=lambda prefix: 0, used_q=always(0.9, 0.1)
    )
    np.testing.assert_allclose(first_token(law, 2), [0.556, 0.444], atol=5e-4)


def softmaxed(p, q, token, scale=1.0):
    return torch.softmax((scale * p - q).clamp(min=0), dim=-1)


@pytest.mark.parametrize("method", METHODS)
def test_the_residual_is_divided_by_its_sum_and_never_softmaxed(method):
    p, q = always(0.6, 0.4, 0.0), always(0.2, 0.8, 0.0)
    law, _ = exact_law(p, q, 3, 1, method)
    np.testing.assert_allclose(first_token(law, 3), [0.6, 0.4, 0], atol=1e-12)
    assert first_token(law, 3)[2] == 0


def test_a_softmaxed_residual_is_the_known_bias():
    p, q = always(0.6, 0.4, 0.0), always(0.2, 0.8, 0.0)
    law, _ = exact_law(p, q, 3, 1, "rejection", residual=softmaxed)
    np.testing.assert_allclose(first_token(law, 3), [0.371, 0.515, 0.115], atol=6e-4)


@pytest.mark.parametrize("method", METHODS)
def test_a_forced_rejection_of_equal_laws_falls_back_to_the_target(method):
    p = rows([1.0, 0, 0], [1.0, 0, 0])
    with laws.scripted_chance() as control:
        control.uniforms = [float("inf")]  # no threshold stands against this
        v = verify_chain(p, [0], rows([1.0, 0, 0]), method)
        assert control.law.tolist() == [1.0, 0, 0]
    assert (v.num_accepted, v.next_token, v.kind) == (0, 0, "recovered")


@given(seed=st.integers(0, 2**32), method=st.sampled_from(METHODS))
@settings(max_examples=60, deadline=None)
def test_no_law_that_a_token_is_drawn_from_is_ever_nan_or_unnormalised(seed, method):
    """p and q equal up to rounding, in single precision, with every test failed: the residual is almost nothing."""
    rng = np.random.default_rng(seed)
    p = torch.tensor(rng.dirichlet(np.ones(5), size=3), dtype=torch.float32)
    q = torch.softmax(p[:2].log() + 1e-7, dim=-1)
    with laws.scripted_chance() as control:
        control.uniforms = [float("inf")] * 2
        verify_chain(p, [0, 1], q, method)
        assert np.isfinite(control.law).all()
        assert control.law.sum() == pytest.approx(1, abs=1e-5)
        assert (control.law >= 0).all()


A5 = [0.5, 0.3, 0.2]


@pytest.mark.parametrize("method", METHODS)
def test_min_p_holds_at_verified_positions_too(method):
    logits = torch.tensor([A5, A5]).log()
    p = probabilities(logits, DecodeSettings(temperature=1.0, min_p=0.5), [], [2]).double().numpy()
    law, mean = exact_law(lambda prefix: p[len(prefix)], None, 3, 1, method, deterministic=lambda prefix: 2)
    np.testing.assert_allclose(first_token(law, 3), [0.625, 0.375, 0], atol=1e-6)
    assert mean == 0


# --- the sampled law, and the power of its check ---


SAMPLED_P, SAMPLED_Q = [0.45, 0.30, 0.20, 0.05], [0.15, 0.35, 0.10, 0.40]


@pytest.mark.parametrize("method", METHODS)
def test_sampled_output_passes_a_chi_square_at_the_first_and_the_second_token(method):
    p, q = [SAMPLED_P, [0.1, 0.2, 0.3, 0.4], [0.25] * 4], [SAMPLED_Q, [0.4, 0.3, 0.2, 0.1]]
    rng = np.random.default_rng(2)
    drafts = np.stack([rng.choice(4, TRIALS, p=row) for row in q], axis=1).tolist()
    g = torch.Generator().manual_seed(4)
    first, second = np.zeros(4), np.zeros(4)
    p_rows, q_rows = rows(*p), rows(*q)
    for draft in drafts:
        v = verify_chain(p_rows, draft, q_rows, method, g)
        out = [*draft[: v.num_accepted], v.next_token]
        first[out[0]] += 1
        # Where the step ended after one token, the next step draws the second from the target.
        second[out[1] if len(out) > 1 else rng.choice(4, p=p[1])] += 1
    assert chi_square(first, p[0]) > ALPHA
    assert chi_square(second, p[1]) > ALPHA


def test_the_bonus_token_has_the_targets_law():
    p = rows([1.0, 0, 0, 0], SAMPLED_P)
    g = torch.Generator().manual_seed(5)
    counts = np.bincount([verify_chain(p, [0], None, "rejection", g).next_token for _ in range(TRIALS)], minlength=4)
    assert chi_square(counts, SAMPLED_P) > ALPHA


def test_the_check_passes_a_right_rule_that_is_not_ours():
    judge = laws.numpy_rule(np.random.default_rng(0))
    counts = emitted_counts(rows(SAMPLED_P, SAMPLED_P), rows(SAMPLED_Q), drafts_from(SAMPLED_Q), 4, TRIALS, judge=judge)
    assert chi_square(counts, SAMPLED_P) > ALPHA


@pytest.mark.parametrize("residual", ["softmax", "none"])
def test_the_check_fails_a_rule_with_a_wrong_residual(residual):
    judge = laws.numpy_rule(np.random.default_rng(0), residual=residual)
    counts = emitted_counts(rows(SAMPLED_P, SAMPLED_P), rows(SAMPLED_Q), drafts_from(SAMPLED_Q), 4, TRIALS, judge=judge)
    assert chi_square(counts, SAMPLED_P) < 1e-12


def test_the_check_fails_a_greedy_bonus():
    judge = laws.numpy_rule(np.random.default_rng(0), bonus="greedy")
    counts = np.zeros(4)
    for _ in range(3000):
        v = judge(np.array([[1.0, 0, 0, 0], SAMPLED_P]), [0], np.array([[1.0, 0, 0, 0]]))
        counts[v.next_token] += 1
    assert chi_square(counts, SAMPLED_P) < 1e-12


def test_the_check_fails_a_soft_q_for_a_deterministic_draft():
    always_zero = np.zeros((TRIALS, 1), dtype=int)
    soft = rows([0.9, 0.1])
    right = emitted_counts(rows([0.5, 0.5], [0.5, 0.5]), None, always_zero, 2, TRIALS, told_q=None)
    wrong = emitted_counts(rows([0.5, 0.5], [0.5, 0.5]), soft, always_zero, 2, TRIALS)
    assert chi_square(right, [0.5, 0.5]) > ALPHA
    assert chi_square(wrong, [0.5, 0.5]) < 1e-12


def test_the_check_fails_raw_target_probabilities_where_the_settings_filter():
    # A6: temperature .5 and top_p .8 on the draft, the raw law in the accept test.
    setting = DecodeSettings(temperature=0.5, top_p=0.8)
    p, q = (probabilities(torch.tensor([law]).log(), setting)[0].double().numpy() for law in (SAMPLED_P, SAMPLED_Q))
    # By hand: squares .2025 .09 .04 .0025 over .335; .2025 + .09 = .873 of it reaches .8.
    np.testing.assert_allclose(p, [0.2025 / 0.2925, 0.09 / 0.2925, 0, 0], atol=1e-6)
    drafts = drafts_from(q / q.sum())
    right = emitted_counts(rows(p, p), rows(q), drafts, 4, TRIALS)
    wrong = emitted_counts(rows(SAMPLED_P, SAMPLED_P), rows(q), drafts, 4, TRIALS)
    assert chi_square(right, p) > ALPHA
    assert chi_square(wrong, p) < 1e-12


def test_the_check_fails_dropping_unlikely_tokens_after_they_were_drawn():
    """p = q = (.9, .1), tokens with q < .5 dropped after the draw: the output turns into (.99, .01)."""
    p, q, drafts = rows([0.9, 0.1], [0.9, 0.1]), rows([0.9, 0.1]), drafts_from([0.9, 0.1]).tolist()
    g = torch.Generator().manual_seed(0)
    kept, dropped = np.zeros(2), np.zeros(2)
    for (token,) in drafts:
        v = verify_chain(p, [token], q, "rejection", g)
        kept[token if v.num_accepted else v.next_token] += 1
        v = verify_chain(p, [token], q, "rejection", g) if token == 0 else verify_chain(p[:1], [], None, "rejection", g)
        dropped[token if v.num_accepted else v.next_token] += 1
    assert chi_square(kept, [0.9, 0.1]) > ALPHA
    assert chi_square(dropped, [0.9, 0.1]) < 1e-12
    assert chi_square(dropped, [0.99, 0.01]) > ALPHA


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("residual", softmaxed),
        ("residual", lambda p, q, token, scale=1.0: p),
        ("_excess", lambda p, q, token, scale: (p - (0 if q is None else q)).clamp(min=0)),
    ],
)
def test_the_enumeration_fails_a_block_rule_with_one_line_wrong(name, fault):
    rng = np.random.default_rng(1)
    p, q = laws.random_laws(rng, 3, 2, zeros=0), laws.random_laws(rng, 3, 2, zeros=0)
    assert hasattr(chain, name)
    law, _ = exact_law(p, q, 3, 2, "block", **{name: fault})
    assert distance(law, target_law(p, 3, 3)) > 1e-3


# --- bad input ---

GOOD = [[0.5, 0.5], [0.5, 0.5]]
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("p", "x", "q", "says"),
    [
        (GOOD, [0, 1], None, r"target_probs must be \[K\+1, V\]"),
        ([0.5, 0.5], [0], None, r"target_probs must be \[K\+1, V\]"),
        (GOOD, [[0]], None, r"target_probs must be \[K\+1, V\]"),
        (GOOD, [0], [[0.5, 0.5, 0.0]], r"draft_probs must be \[K, V\]"),
        (GOOD, [0], [[0.0, 1.0]], "q = 0"),
        (GOOD, [2], None, "ids from 0 to 1"),
        (GOOD, [-1], None, "ids from 0 to 1"),
        ([[NAN, NAN], [0.5, 0.5]], [0], None, "target_probs must be rows of probabilities"),
        ([[0.5, 0.5], [INF, 0.5]], [0], None, "target_probs must be rows of probabilities"),
        ([[2.0, -1.0], [0.5, 0.5]], [0], None, "target_probs must be rows of probabilities"),
        ([[0.0, 0.0], [0.5, 0.5]], [0], None, "target_probs must be rows of probabilities"),
        ([[3.0, 5.0], [0.5, 0.5]], [0], None, "target_probs must be rows of probabilities"),  # logits
        (GOOD, [0], [[NAN, 0.5]], "draft_probs must be rows of probabilities"),
    ],
)
def test_input_that_is_no_law_is_refused_with_a_sentence_and_never_sampled(method, p, x, q, says):
    with pytest.raises(EngineError, match=says) as raised:
        verify_chain(torch.tensor(p), x, None if q is None else torch.tensor(q), method)
    assert "\n" not in str(raised.value)


def test_an_unknown_rule_is_refused_naming_the_ones_there_are():
    with pytest.raises(EngineError, match=r"'greedy'.*rejection, block, match"):
        verify_chain(torch.tensor(GOOD), [0], None, "greedy")


@pytest.mark.parametrize("method", METHODS)
def test_inputs_are_left_as_they_were(method):
    p, q = rows(SAMPLED_P, SAMPLED_P), rows(SAMPLED_Q)
    before = p.clone(), q.clone()
    for token, law in itertools.product(range(4), (q, None)):
        verify_chain(p, [token], law, method, torch.Generator().manual_seed(token))
    assert torch.equal(p, before[0])
    assert torch.equal(q, before[1])
