"""Theory against hand-worked values, the published table of best K, and brute force."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.theory import (
    alpha_from_accepted_share,
    best_k,
    best_k_of,
    break_even_alpha,
    expected_tokens_from_conditional,
    expected_tokens_per_step,
    leviathan_speedup,
    speedup_from_curves,
)

alphas = st.floats(min_value=0, max_value=1)
ks = st.integers(min_value=1, max_value=20)
ratios = st.floats(min_value=0, max_value=2)


@pytest.mark.parametrize(
    ("alpha", "k", "tokens"),
    [
        (0.5, 4, 1.938),  # 1 + 1/2 + 1/4 + 1/8 + 1/16 = 1.9375
        (0.7, 4, 2.773),
        (0.8, 5, 3.689),
        (0.9, 10, 6.862),
        (0.0, 5, 1.0),
        (1.0, 5, 6.0),
        (0.3, 0, 1.0),
    ],
)
def test_expected_tokens_match_the_worked_values(alpha, k, tokens):
    assert expected_tokens_per_step(alpha, k) == pytest.approx(tokens, abs=6e-4)


@given(alphas, st.integers(min_value=0, max_value=30))
def test_expected_tokens_are_the_geometric_sum_and_stay_within_one_and_k_plus_one(alpha, k):
    expected = expected_tokens_per_step(alpha, k)
    assert expected == pytest.approx(math.fsum(alpha**i for i in range(k + 1)), rel=1e-9)
    assert 1 - 1e-9 <= expected <= k + 1 + 1e-9


def test_alpha_just_below_one_does_not_lose_its_digits():
    assert expected_tokens_per_step(1 - 1e-15, 7) == pytest.approx(8, rel=1e-12)


def test_expected_tokens_agree_with_a_simulation_of_the_accept_test():
    rng = random.Random(7)
    steps, tokens = 20_000, 0
    for _ in range(steps):
        accepted = 0
        while accepted < 4 and rng.random() < 0.7:
            accepted += 1
        tokens += accepted + 1
    assert tokens / steps == pytest.approx(expected_tokens_per_step(0.7, 4), abs=0.04)


def test_conditional_rates_that_are_all_alike_give_the_geometric_value_and_others_do_not():
    assert expected_tokens_from_conditional([0.7] * 4) == pytest.approx(expected_tokens_per_step(0.7, 4))
    # 1 + .9 + .9*.5 + .9*.5*.2 = 2.44
    assert expected_tokens_from_conditional([0.9, 0.5, 0.2]) == pytest.approx(2.44)
    assert expected_tokens_from_conditional([]) == 1.0


# engines.md 3.1: cost ratio -> (alpha, K*, S*)
BEST = [
    (0.02, 0.6, 6, 2.17), (0.02, 0.8, 11, 3.82), (0.02, 0.9, 19, 6.37),
    (0.05, 0.6, 4, 1.92), (0.05, 0.8, 8, 3.09), (0.05, 0.9, 13, 4.67),
    (0.1, 0.6, 3, 1.67), (0.1, 0.8, 6, 2.47), (0.1, 0.9, 10, 3.43),
    (0.2, 0.6, 2, 1.40), (0.2, 0.8, 4, 1.87), (0.2, 0.9, 7, 2.37),
    (0.3, 0.6, 1, 1.23), (0.3, 0.8, 3, 1.55), (0.3, 0.9, 5, 1.87),
    (0.5, 0.5, 0, 1.00), (0.5, 0.8, 2, 1.22),
]  # fmt: skip


@pytest.mark.parametrize(("ratio", "alpha", "k", "speedup"), BEST)
def test_the_best_k_matches_the_published_table(ratio, alpha, k, speedup):
    best = best_k(alpha, ratio)
    assert best.k == k
    assert best.speedup == pytest.approx(speedup, abs=0.0051)


@given(alphas, ratios)
def test_no_k_beats_the_best_k_and_zero_is_always_possible(alpha, ratio):
    best = best_k(alpha, ratio, max_k=16)
    brute = max([1.0] + [leviathan_speedup(alpha, k, ratio) for k in range(1, 17)])
    assert best.speedup == pytest.approx(brute, rel=1e-9)
    assert best.speedup >= 1.0


def test_a_measured_curve_with_two_hills_is_searched_to_the_end():
    curve = {1: 1.2, 2: 1.1, 3: 1.0, 4: 1.5, 5: 1.4}
    assert best_k_of(curve.__getitem__, max_k=5) == (4, 1.5)


def test_a_draft_that_always_loses_is_not_used():
    assert best_k(0.3, 0.5) == (0, 1.0)


@given(st.floats(min_value=0.05, max_value=0.99), st.floats(min_value=0.0, max_value=0.99))
def test_a_cheap_enough_draft_always_helps_by_corollary_3_9(alpha, part):
    ratio = alpha * part  # c < alpha
    assert best_k(alpha, ratio).speedup >= (1 + alpha) / (1 + ratio) - 1e-9


def test_verification_is_not_free_so_a_good_acceptance_can_still_lose():
    # F11: K = 1, alpha .85 -> 1.85 tokens; verifying 2 tokens takes 2.2 times as long: 1.85 / 2.2 = 0.841
    tokens = expected_tokens_per_step(0.85, 1)
    assert speedup_from_curves(tokens, 1.0, 2.2, 0.0) == pytest.approx(0.8409, abs=1e-4)
    assert leviathan_speedup(0.85, 1, 0.0) == pytest.approx(1.85)  # what a free verification would promise


@given(alphas, ks, st.floats(min_value=0, max_value=1), st.floats(min_value=1e-4, max_value=1))
def test_measured_curves_with_a_flat_verify_give_leviathan(alpha, k, ratio, target_s):
    tokens = expected_tokens_per_step(alpha, k)
    curves = speedup_from_curves(tokens, target_s, target_s, k * ratio * target_s)
    assert curves == pytest.approx(leviathan_speedup(alpha, k, ratio))


@pytest.mark.parametrize(("share", "k", "alpha"), [(0.538, 5, 0.8), (0.80, 5, 0.927), (0, 3, 0), (1, 3, 1)])
def test_an_accepted_share_is_turned_into_alpha_and_is_not_alpha(share, k, alpha):
    assert alpha_from_accepted_share(share, k) == pytest.approx(alpha, abs=5e-4)


@given(alphas, ks)
def test_alpha_from_accepted_share_undoes_the_forward_formula(alpha, k):
    share = min(1.0, max(0.0, (expected_tokens_per_step(alpha, k) - 1) / k))
    assert share <= alpha + 1e-9  # tokens behind a rejection are proposed and never tested
    back = alpha_from_accepted_share(share, k)
    assert (expected_tokens_per_step(back, k) - 1) / k == pytest.approx(share, abs=1e-9)
    assert back == pytest.approx(alpha, abs=1e-6)


@given(st.floats(min_value=0, max_value=1), ks)
def test_at_the_break_even_alpha_the_speedup_is_one(ratio, k):
    alpha = break_even_alpha(ratio, k)
    assert alpha is not None
    assert leviathan_speedup(alpha, k, ratio) == pytest.approx(1.0, abs=1e-9)


def test_a_draft_dearer_than_its_target_never_breaks_even():
    assert break_even_alpha(1.01, 3) is None
    assert break_even_alpha(0.0, 3) == 0.0
    assert break_even_alpha(0.4, 1) == pytest.approx(0.4)  # K = 1: 1 + alpha = 1 + c


@pytest.mark.parametrize(
    "call",
    [
        lambda: expected_tokens_per_step(1.01, 3),
        lambda: expected_tokens_per_step(-0.1, 3),
        lambda: expected_tokens_per_step(math.nan, 3),
        lambda: expected_tokens_per_step(0.5, -1),
        lambda: expected_tokens_per_step(0.5, 2.5),  # type: ignore[arg-type]
        lambda: expected_tokens_from_conditional([0.5, 1.2]),
        lambda: leviathan_speedup(0.5, 3, -0.1),
        lambda: leviathan_speedup(0.5, 3, math.inf),
        lambda: speedup_from_curves(0.5, 1, 1, 0),
        lambda: speedup_from_curves(2, 0, 1, 0),
        lambda: speedup_from_curves(2, 1, math.nan, 0),
        lambda: speedup_from_curves(2, 1, 1, -1),
        lambda: alpha_from_accepted_share(0.5, 0),
        lambda: alpha_from_accepted_share(1.5, 3),
        lambda: break_even_alpha(0.5, 0),
    ],
)
def test_numbers_out_of_range_are_refused(call):
    with pytest.raises(ValueError, match="must be"):
        call()
