"""Typical acceptance: its rule by hand, exact at temperature 0, lossy above, and labelled so wherever it is used."""

import math

import numpy as np
import pytest
import torch
from helpers.laws import distance, scripted_chance, target_law
from helpers.models import greedy_continuation, pair_of, table, wanders

import engine
from engine import DecodeSettings
from engine.verify import EXACT, LOSSY, METHODS, Case, judge_case, typical

HOT = DecodeSettings(temperature=1.0)
pytestmark = pytest.mark.usefixtures("one_thread")


def judge(rows, tokens, parents=None, settings=HOT, seed=0, probs=None):
    logits = torch.tensor(np.array(rows), dtype=torch.float64).log().float()
    g = torch.Generator().manual_seed(seed)
    return judge_case(Case(logits, tokens, probs, [0], settings, "typical", g, parents=parents)).verdict


def flat(count, of=None):
    """[of] with the first `count` equally likely."""
    return [1 / count] * count + [0.0] * ((of or count) - count)


def test_the_rules_are_told_apart_by_whether_they_keep_the_law():
    assert METHODS == engine.VERIFIERS == (*EXACT, *LOSSY)
    assert LOSSY == ("typical",)
    assert "typical" not in EXACT


@pytest.mark.parametrize(
    ("law", "threshold"),
    [
        # min(.09, .3 * exp(-H)); exp(-H) is 1 / 20 for twenty equal tokens, 1 / 4 for four, 1 for a certain one.
        (flat(20), 0.015),
        (flat(4, 20), 0.075),
        ([1.0] + [0.0] * 19, 0.09),
        # H = -(.92 ln .92 + .08 ln .08) = .2788, exp(-H) = .757, .3 of it .227: the cap holds.
        ([0.92, 0.08] + [0.0] * 18, 0.09),
        # H = -(.5 ln .5 + .5 ln .05) = 1.8444, exp(-H) = .1581, .3 of it .04743.
        ([0.5] + [0.05] * 10 + [0.0] * 9, 0.0474342),
    ],
)
def test_a_token_passes_above_the_lower_of_a_floor_and_a_share_of_the_laws_certainty(law, threshold):
    for token in range(20):
        v = judge([law, law], [token])
        assert v.tests[0].p == pytest.approx(law[token], abs=1e-6)
        assert v.num_accepted == (law[token] > threshold)
    assert threshold == pytest.approx(
        min(typical.EPSILON, typical.DELTA * math.exp(sum(x * math.log(x) for x in law if x))), abs=1e-6
    )


def test_nothing_is_left_to_chance_but_the_token_behind():
    law, other = [0.5, 0.3, 0.2], [0.1, 0.2, 0.7]
    assert {judge([law, other], [2], seed=s).num_accepted for s in range(20)} == {1}
    seen = np.bincount([judge([law, other], [2], seed=s).next_token for s in range(900)], minlength=3) / 900
    np.testing.assert_allclose(seen, other, atol=0.06)
    v = judge([law, other], [])
    assert (v.num_accepted, v.kind, v.path) == (0, "bonus", ())


def test_a_chain_ends_at_the_first_token_that_does_not_pass():
    sure = [0.95, 0.03, 0.02]
    v = judge([sure] * 5, [0, 1, 0, 0])
    assert (v.path, v.kind) == ((0,), "recovered")
    assert [t.accept for t in v.tests] == [1.0, 0.0, 1.0, 1.0]


def test_of_a_tree_the_longest_branch_stands_and_of_equals_the_likeliest():
    law = [0.4, 0.35, 0.25]
    assert judge([law] * 4, [0, 2, 1], (-1, -1, 1)).path == (1, 2)  # longer, if less likely: .25 * .35 below .4
    assert judge([law] * 4, [2, 0, 1], (-1, -1, -1)).path == (1,)
    assert judge([law] * 5, [2, 0, 0, 1], (-1, -1, 0, 1)).path == (1, 3)  # .4 * .35 above .25 * .4
    unsure, sure = law, [0.98, 0.01, 0.01]
    # 1 passes, and behind it nothing; 0 passes, and behind it 0.
    v = judge([unsure, sure, sure, sure, sure], [1, 0, 2, 0], (-1, -1, 0, 1))
    assert (v.path, v.num_accepted) == ((1, 3), 2)
    assert judge([sure] * 3, [1, 2], (-1, -1)).path == ()


@pytest.mark.parametrize("parents", [None, (-1, 0, 1), (-1, -1, 0), (-1, 0, 0)])
def test_at_temperature_zero_it_is_the_exact_rule(parents):
    rng = np.random.default_rng(0)
    for seed in range(60):
        rows, tokens = rng.dirichlet(np.ones(3), 4), [0, 1, 2] if seed % 2 else [1, 0, 2]
        lossy = judge(rows, tokens, parents, DecodeSettings(), seed)
        logits = torch.tensor(rows).log()
        exact = judge_case(
            Case(logits, tokens, None, [0], DecodeSettings(), "rejection", None, parents=parents)
        ).verdict
        assert (lossy.path, lossy.next_token) == (exact.path, exact.next_token)


def test_above_it_the_output_does_not_have_the_targets_law():
    """Token 0 is always drafted, and .3 is plausible: it is emitted always, in place of three times in ten."""
    p = lambda prefix: np.array([0.3, 0.7])  # noqa: E731
    law = {}
    with scripted_chance(typical) as control:
        control.uniforms = []
        v = judge([[0.3, 0.7]] * 2, [0])
    assert v.num_accepted == 1
    for token, share in enumerate(control.law):
        law[0, token] = share
    assert distance(law, target_law(p, 2, 2)) > 0.3
    np.testing.assert_allclose(control.law, [0.3, 0.7], atol=1e-6)


@pytest.mark.parametrize("verifier", METHODS)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_run_whose_law_it_changes_says_so_in_its_trace_and_no_other_run_does(verifier, temperature):
    """At temperature 0 it is the exact rule."""
    pair = pair_of(wanders(8), 8)
    gen = engine.generate(
        pair, [1, 2], DecodeSettings(max_new_tokens=5, temperature=temperature, seed=0), "prompt_lookup", verifier
    )
    lossy = [n for n in gen.trace.notices if "lossy" in n]
    assert len(lossy) == (verifier == "typical" and temperature > 0)
    assert gen.trace.verifier == verifier


def test_a_greedy_run_with_it_is_plain_decoding_and_a_sampled_one_takes_more_than_the_exact_rule():
    rule = wanders(8)
    pair = pair_of(rule, 8, draft=wanders(8, share=0.6))
    gen = engine.generate(pair, [1, 2], DecodeSettings(k=3, max_new_tokens=40), "model", "typical")
    assert gen.token_ids == greedy_continuation(rule, [1, 2], 40)
    soft = pair_of(table(lambda h: [0.4, 0.3, 0.3], 3), 3, draft=table(lambda h: [0.1, 0.1, 0.8], 3))
    values = DecodeSettings(k=3, max_new_tokens=200, temperature=1.0, seed=0)
    found = {v: engine.generate(soft, [0], values, "model", v).stats.alpha for v in ("typical", "rejection")}
    assert found["typical"] == 1.0
    assert found["rejection"] == pytest.approx(0.5, abs=0.15)  # sum of min(p, q)


def test_no_uniform_is_shown_for_a_test_that_drew_none():
    pair = pair_of(table(lambda h: [0.4, 0.3, 0.3], 3), 3, draft=table(lambda h: [0.1, 0.1, 0.8], 3))
    gen = engine.generate(pair, [0], DecodeSettings(max_new_tokens=20, temperature=1.0, seed=0), "model", "typical")
    assert {p.u for s in gen.trace.steps for p in s.proposals} == {None}
