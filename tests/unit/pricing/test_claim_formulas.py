"""The formulas that claims are recomputed with: the engine's own, and block verification by enumeration."""

from fractions import Fraction

import pytest

from engine import theory
from pricing.claims import formulas as f


def test_accepted_over_proposed_is_not_taken_for_the_chance_of_a_token():
    # known trap: alpha 0.8 at K 5 is accepted / proposed 0.538; that share used as alpha gives 2.1 tokens, not 3.69
    rate = (f.expected_tokens(0.8, 5) - 1) / 5
    assert rate == pytest.approx(0.538, abs=5e-4)
    assert f.alpha_from_rate(rate, 5) == pytest.approx(0.8)
    assert f.expected_tokens(rate, 5) == pytest.approx(2.11, abs=0.01)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.8, 0.99, 1.0])
@pytest.mark.parametrize("k", [1, 5, 20])
def test_the_formulas_are_those_of_the_engine(alpha, k):
    assert f.expected_tokens(alpha, k) == pytest.approx(theory.expected_tokens_per_step(alpha, k))
    for cost in (0.0, 0.05, 0.3):
        assert f.formula_speedup(alpha, k, cost) == pytest.approx(theory.leviathan_speedup(alpha, k, cost))
        assert f.best_k(alpha, cost) == theory.best_k(alpha, cost).k
    if 0 < alpha < 1:
        rate = (f.expected_tokens(alpha, k) - 1) / k
        assert f.alpha_from_rate(rate, k) == pytest.approx(theory.alpha_from_accepted_share(rate, k), abs=1e-9)


@pytest.mark.parametrize(("speedup", "share"), [(1.0, 0.0), (2.0, 0.5), (4.0, 0.75), (0.8, -0.25)])
def test_a_saving_needs_the_speedup_that_saves_it(speedup, share):
    assert f.saving(speedup) == pytest.approx(share)
    assert f.needed_speedup(share) == pytest.approx(speedup)


def test_a_block_accepts_no_fewer_tokens_than_one_by_one_and_no_more_than_any_test_can():
    p, q = (Fraction(1, 3), Fraction(2, 3)), (Fraction(2, 3), Fraction(1, 3))
    found = [rule(p, q, 2) for rule in (f.accepted_token_by_token, f.accepted_by_block, f.accepted_at_most)]
    assert found == [Fraction(10, 9), Fraction(11, 9), Fraction(12, 9)]
    assert f.accepted_by_block(p, p, 3) == 3  # a draft that is the target stands as a whole
    assert f.accepted_by_block(p, q, 1) == f.accepted_token_by_token(p, q, 1)  # one token is a block of one
