"""A drafted tree emits the target's own law, exactly: by enumeration of every outcome, against the rule by hand, and
with a check that each rule that is known to be wrong fails. Typical acceptance does not, and says so."""

import itertools
import math

import numpy as np
import pytest
import torch
from helpers import laws
from helpers.laws import ALPHA, chi_square, distance, first_token, target_law
from helpers.trees import by_hand, drawn_law, drawn_trees, height, law_of, line, outcomes, prefix, rows_of, tree_law
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import DecodeSettings, EngineError, verify_chain, verify_tree
from engine.verify import Case, judge_case, judge_cases, tree
from engine.verify.sampling import probabilities

# tokens and parents of trees over four tokens: siblings; a chain beside a branch; two levels; every token offered.
TREES = [
    ((0, 1), (-1, -1)),
    ((2, 0, 3), (-1, -1, -1)),
    ((1, 2, 3), (-1, 0, -1)),
    ((0, 1, 3, 2, 0), (-1, -1, 0, 0, 1)),
    ((3, 3, 1, 3), (-1, 0, 0, 1)),
    ((0, 1, 2, 3), (-1, -1, -1, -1)),
]
pytestmark = pytest.mark.usefixtures("one_thread")


def random_p(seed, vocab=4, depth=3, zeros=0.3):
    return laws.random_laws(np.random.default_rng(seed), vocab, depth, zeros)


def same_outcomes(found, expected):
    """Two lists of (probability, path, law) are one distribution."""

    def joint(given):
        out = {}
        for chance, path, last in given:
            for token, share in enumerate(last):
                out[path, token] = out.get((path, token), 0.0) + chance * share
        return out

    return distance(joint(found), joint(expected)) < 1e-9


# --- exact enumeration ---


@pytest.mark.parametrize(("tokens", "parents"), TREES)
@pytest.mark.parametrize("zeros", [0.0, 0.5])
def test_the_law_of_the_output_is_the_targets_for_every_shape_of_tree(tokens, parents, zeros):
    p, length = random_p(len(tokens), zeros=zeros), height(parents) + 1
    law, expected = tree_law(p, tokens, parents, 4), target_law(p, 4, length)
    assert sum(law.values()) == pytest.approx(1, abs=1e-9)
    assert distance(law, expected) < 1e-9
    np.testing.assert_allclose(first_token(law, 4), p(()), atol=1e-9)


@pytest.mark.parametrize(("tokens", "parents"), TREES)
def test_every_outcome_has_the_probability_that_the_rule_gives_it_by_hand(tokens, parents):
    rows = rows_of(random_p(7), tokens, parents)
    assert same_outcomes(outcomes(rows, tokens, parents), by_hand(rows, tokens, parents))


@st.composite
def trees(draw):
    vocab = draw(st.integers(2, 4))
    parents, tokens = [], []
    for _ in range(draw(st.integers(1, 4))):
        parent = draw(st.integers(-1, len(tokens) - 1))
        offered = {t for t, q in zip(tokens, parents, strict=True) if q == parent}
        if len(offered) < vocab:
            tokens.append(draw(st.sampled_from(sorted({*range(vocab)} - offered))))
            parents.append(parent)
    zeros = draw(st.sampled_from([0.0, 0.4, 0.8, 1.0]))  # 1.0: every law one-hot
    return random_p(draw(st.integers(0, 2**32)), vocab, 4, zeros), tuple(tokens), tuple(parents), vocab


@given(case=trees())
@settings(max_examples=40, deadline=None)
def test_the_law_holds_for_any_tree_with_zeros_and_certain_laws(case):
    p, tokens, parents, vocab = case
    law = tree_law(p, tokens, parents, vocab)
    assert distance(law, target_law(p, vocab, height(parents) + 1)) < 1e-9
    single = tree_law(p, tokens, parents, vocab, dtype=torch.float32)  # what the engine runs in
    assert distance(single, law) < 1e-5


@pytest.mark.parametrize("parents", [(-1,), (-1, -1), (-1, -1, 0), (-1, 0, 0)])
@pytest.mark.parametrize("zeros", [0.0, 0.5])
def test_the_law_is_the_targets_when_children_are_drawn_without_replacement(parents, zeros):
    p, q = random_p(1, 3, 2, zeros), random_p(2, 3, 2, zeros)
    law = drawn_law(p, q, parents, 3)
    if zeros:  # where q has fewer tokens than there are children, no such tree is drawn
        total = sum(law.values())
        assert 0 < total <= 1 + 1e-9
        if total < 1 - 1e-9:
            return
    assert distance(law, target_law(p, 3, height(parents) + 1)) < 1e-9


def test_drawn_children_stand_at_least_as_often_as_one_drawn_token():
    """Its first child alone is Leviathan's rule, which accepts the common mass: sum of min(p, q)."""
    p, q = np.array([0.6, 0.3, 0.1]), np.array([0.1, 0.3, 0.6])

    def accepted(parents):
        total = 0.0
        for chance, tokens, drawn in drawn_trees(lambda _: q, parents, 3):
            found = outcomes([p] * (len(tokens) + 1), tokens, parents, drawn)
            total += chance * sum(share for share, path, _ in found if path)
        return total

    assert accepted((-1,)) == pytest.approx(0.5)  # .1 + .3 + .1
    assert accepted((-1, -1)) > 0.6


def test_two_first_tokens_of_one_half_each_come_out_half_the_time_each():
    """Known fault A12: a and e with p = .5, both drafted. One of them stands always."""
    p = lambda history: np.array([0.5, 0.0, 0.0, 0.0, 0.5])  # noqa: E731
    law = tree_law(p, (0, 4), (-1, -1), 5)
    np.testing.assert_allclose(first_token(law, 5), p(()), atol=1e-12)
    rows = torch.tensor(rows_of(p, (0, 4), (-1, -1)), dtype=torch.float32)
    g = torch.Generator().manual_seed(0)
    verdicts = [verify_tree(rows, [0, 4], [-1, -1], None, g) for _ in range(4000)]
    assert {v.num_accepted for v in verdicts} == {1}
    assert verdicts[0].accept_probs.tolist() == [0.5, 1.0]
    counts = np.bincount([v.path[0] for v in verdicts], minlength=2)
    assert chi_square(counts, [0.5, 0.5]) > ALPHA


# --- the check has power ---


@pytest.mark.parametrize("fault", ["unreduced", "shared", "kept"])
def test_the_enumeration_fails_a_tree_rule_with_one_line_wrong(fault):
    p = lambda history: np.array([0.3, 0.4, 0.2, 0.1])  # noqa: E731
    tokens, parents = (0, 1, 2), (-1, -1, 0)
    rows = rows_of(p, tokens, parents)
    right = law_of(by_hand(rows, tokens, parents), tokens, p, 4, 3)
    wrong = law_of(by_hand(rows, tokens, parents, fault), tokens, p, 4, 3)
    assert sum(wrong.values()) == pytest.approx(1)
    assert distance(right, target_law(p, 4, 3)) < 1e-12
    assert distance(wrong, target_law(p, 4, 3)) > 1e-2


def softmaxed(p, q, token, scale=1.0):
    return torch.softmax((p - q).clamp(min=0), dim=-1)


@pytest.mark.parametrize("fault", [softmaxed, lambda p, q, token, scale=1.0: p], ids=["softmax", "not reduced"])
def test_the_enumeration_fails_drawn_children_with_a_wrong_residual(fault):
    p, q = random_p(3, 3, 2, 0.0), random_p(4, 3, 2, 0.0)
    assert distance(drawn_law(p, q, (-1, -1), 3, residual=fault), target_law(p, 3, 2)) > 1e-2


def test_the_enumeration_fails_children_drawn_with_one_law_and_told_with_another():
    """The second sibling is drawn without the first, and its law said to be q itself."""
    p, q = random_p(3, 3, 2, 0.0), random_p(4, 3, 2, 0.0)
    total = {}
    for chance, tokens, _ in drawn_trees(q, (-1, -1), 3):
        found = outcomes(rows_of(p, tokens, (-1, -1)), tokens, (-1, -1), [q(()), q(())])
        for sequence, share in law_of(found, tokens, p, 3, 2).items():
            total[sequence] = total.get(sequence, 0.0) + chance * share
    assert distance(total, target_law(p, 3, 2)) > 1e-2


# --- the verdict itself ---


@pytest.mark.parametrize("with_q", [True, False])
@pytest.mark.parametrize("k", [0, 1, 4])
def test_a_tree_that_is_a_chain_gets_the_verdict_of_the_chain(with_q, k):
    rng = np.random.default_rng(k)
    p = torch.tensor(rng.dirichlet(np.ones(5), k + 1), dtype=torch.float32)
    q = torch.tensor(rng.dirichlet(np.ones(5), k), dtype=torch.float32).view(k, 5) if with_q else None
    tokens = rng.integers(0, 5, k).tolist()
    for seed in range(40):
        one = verify_chain(p, tokens, q, "rejection", torch.Generator().manual_seed(seed))
        two = verify_tree(p, tokens, range(-1, k - 1), q, torch.Generator().manual_seed(seed))
        assert (two.num_accepted, two.next_token, two.kind) == (one.num_accepted, one.next_token, one.kind)
        assert two.path == one.path == tuple(range(one.num_accepted))
        assert two.uniforms.tolist() == one.uniforms.tolist()
        assert two.accept_probs.tolist() == pytest.approx(one.accept_probs.tolist(), abs=1e-6)
        assert two.next_p == pytest.approx(one.next_p)


def test_the_path_is_the_first_branch_whose_tokens_stand_and_what_hangs_on_a_fallen_one_is_not_counted():
    """0 and 1 follow the context, 2 follows 0, 3 and 4 follow 1. The uniforms: 0 falls, all others stand."""
    p = torch.full((6, 8), 1 / 8)
    with laws.scripted_chance(tree) as control:
        control.uniforms = [0.99, 0.0, 0.0, 0.0, 0.0]
        v = verify_tree(p, [0, 1, 2, 3, 4], [-1, -1, 0, 1, 1])
    assert (v.path, v.num_accepted, v.kind) == ((1, 3), 2, "bonus")
    np.testing.assert_allclose(v.accept_probs, [1 / 8, 1 / 7, 1 / 8, 1 / 8, 1 / 7])
    np.testing.assert_allclose(control.law, [1 / 8] * 8)
    with laws.scripted_chance(tree) as control:
        control.uniforms = [0.99, 0.0, 0.0, 0.99, 0.99]
        v = verify_tree(p, [0, 1, 2, 3, 4], [-1, -1, 0, 1, 1])
    assert (v.path, v.kind) == ((1,), "recovered")
    np.testing.assert_allclose(control.law, [1 / 6] * 3 + [0, 0] + [1 / 6] * 3, atol=1e-7)


def test_children_that_take_all_of_the_mass_leave_nothing_to_chance():
    p = torch.tensor([[0.25, 0.75, 0.0]] * 3)
    for seed in range(50):
        v = verify_tree(p, [0, 1], [-1, -1], None, torch.Generator().manual_seed(seed))
        assert v.num_accepted == 1
    assert v.accept_probs.tolist() == [0.25, 1.0]
    with laws.scripted_chance(tree) as control:
        control.uniforms = [math.inf] * 2  # no threshold stands against this: the law is still one
        assert verify_tree(p, [0, 1], [-1, -1]).num_accepted == 0
    assert np.isfinite(control.law).all()
    assert control.law.sum() == pytest.approx(1)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_tie_at_temperature_zero_goes_to_the_lowest_id_whatever_stands_first_in_the_tree(order):
    logits = torch.tensor([[5.0, 5.0, 1.0]] * 4)
    case = Case(logits, order, None, [0], DecodeSettings(), "rejection", None, parents=(-1, -1, -1))
    v = judge_case(case).verdict
    assert [order[i] for i in v.path] == [0]
    assert v.next_token == 0


# --- bad input ---


@pytest.mark.parametrize(
    ("p", "x", "parents", "q", "says"),
    [
        (3, [0, 1], [1, 0], None, "parents must name"),
        (2, [0], [0], None, "parents must name"),
        (2, [0], [-2], None, "parents must name"),
        (2, [0], ["x"], None, "parents must"),
        (2, [0], [0.5], None, "parents must"),
        (3, [0, 1], [-1], None, "one for each of the 2"),
        (3, [1, 1], [-1, -1], None, "two children of one token are the same"),
        (2, [0, 1], [-1, -1], None, r"target_probs must be \[K\+1, V\]"),
        (3, [0, 2], [-1, -1], None, "ids from 0 to 1"),
        (3, [0, 1], [-1, -1], [[1.0, 0.0]], r"draft_probs must be \[K, V\]"),
        (3, [0, 1], [-1, -1], [[1.0, 0.0], [1.0, 0.0]], "q = 0"),
        (3, [0, 1], [-1, -1], [[math.nan, 0.0], [0.0, 1.0]], "draft_probs must be rows of probabilities"),
        (math.nan, [0, 1], [-1, -1], None, "target_probs must be rows of probabilities"),
    ],
)
def test_what_is_no_tree_or_no_law_is_refused_with_one_sentence(p, x, parents, q, says):
    rows = torch.full((3, 2), math.nan) if p != p else torch.full((p, 2), 0.5)
    with pytest.raises(EngineError, match=says) as raised:
        verify_tree(rows, x, parents, None if q is None else torch.tensor(q))
    assert "\n" not in str(raised.value)


def test_inputs_are_left_as_they_were():
    p, q = torch.tensor([[0.5, 0.3, 0.2]] * 3), torch.tensor([[0.5, 0.3, 0.2], [0.0, 0.6, 0.4]])
    before = p.clone(), q.clone()
    for law in (None, q):
        verify_tree(p, [0, 1], [-1, -1], law, torch.Generator().manual_seed(0))
    assert torch.equal(p, before[0])
    assert torch.equal(q, before[1])


# --- with a run's settings ---


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_a_penalty_sees_each_branch_by_itself(temperature):
    """Known fault A7 for trees: the law behind a token is what decoding token by token has there."""
    tokens, parents, context = (2, 3, 2, 5, 1), (-1, -1, 0, 1, 3), [4, 4, 1]
    logits = torch.randn(6, 7, generator=torch.Generator().manual_seed(1)) * 2
    values = DecodeSettings(temperature=temperature, repetition_penalty=1.3)
    judged = judge_case(Case(logits, tokens, None, context, values, "rejection", None, parents=parents))
    for i in range(-1, 5):
        alone = probabilities(logits[i + 1 : i + 2], values, [*context, *prefix(tokens, parents, i)])
        torch.testing.assert_close(judged.p[i + 1 : i + 2], alone)


def test_trees_judged_together_get_what_each_gets_alone():
    def make():
        shapes = [(-1, -1, 0), (-1, 0, 0), None, (-1, -1, 0), (-1, 0, 1)]
        for i, parents in enumerate(shapes):
            g = torch.Generator().manual_seed(i)
            logits = torch.randn(4, 9, generator=g)
            yield Case(logits, [1, 2, 3], None, [0], DecodeSettings(temperature=1.0), "rejection", g, parents=parents)

    for one, alone in zip(judge_cases(list(make())), make(), strict=True):
        assert one.verdict == judge_case(alone).verdict
        assert one.verdict.parents == alone.parents
        if alone.parents:
            end = one.verdict.path[-1] if one.verdict.path else -1
            assert list(one.verdict.path) == line(alone.parents, end)
