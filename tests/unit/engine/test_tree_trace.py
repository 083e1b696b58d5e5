"""The record of a drafted tree: parents, paths and sources; and the numbers made of it, by hand and by brute force."""

import itertools
import json

import numpy as np
import pytest
from helpers.models import table, tree_pair, wanders
from hypothesis import given, settings
from hypothesis import strategies as st

import engine
from engine import DecodeSettings, Trace, compute_stats
from engine.trace import Proposal, Replacement, Step, TokenText

V = 6
PROMPT = [1, 2, 3, 1, 2, 3, 4, 1, 2]
pytestmark = pytest.mark.usefixtures("one_thread")


def step(parents, accepted=(), cut=False, statuses=None):
    """A step whose proposals at `accepted` stand. cut: the output ended with the last of them."""
    proposals = []
    for i, parent in enumerate(parents):
        status = "accepted" if i in accepted else "ignored" if cut else "rejected"
        status = statuses[i] if statuses else status
        follows = None if parent == i - 1 else parent
        proposals.append(Proposal(TokenText(i, f"t{i}"), 0.5, 1.0, 0.3, 0.5, status, parent=follows, source="s"))
    kind = "recovered" if (accepted[-1] if accepted else -1) in parents else "bonus"
    last = None if cut else Replacement(kind, TokenText(99, "r"), 0.5)
    emitted = (*accepted, *(() if cut else (99,)))
    tokens = tuple(TokenText(t, "") for t in emitted)
    return Step(0, emitted, ("",) * len(emitted), tokens, tuple(proposals), last, None, 0, 1.0, 2.0, 3.0)


# --- by hand ---


def test_a_trees_step_counts_its_path_and_nothing_beside_it():
    """Two first tokens; the second stands, and of its two children the last."""
    s = step((-1, -1, 0, 1, 1), accepted=(1, 4))
    assert (s.parents, s.depths, s.path, s.num_accepted) == ((-1, -1, 0, 1, 1), (0, 0, 1, 1, 1), (1, 4), 2)
    assert s.is_tree
    n = compute_stats([s])
    assert (n.proposed, n.accepted, n.rejected, n.ignored, n.tested) == (5, 2, 3, 0, 2)
    assert (n.draft_acceptance_rate, n.alpha, n.mean_acceptance_length) == (2 / 5, 1.0, 3.0)
    assert n.acceptance_rate_per_position == n.conditional_acceptance == (1.0, 1.0)
    assert n.acceptance_histogram == (0, 0, 1)


def test_steps_of_several_shapes_add_up_by_depth():
    steps = [
        step((-1, -1, 0, 1, 1), (1, 4)),  # both depths tested, both stand
        step((-1, -1, 0), (1,)),  # the one that stands has no child: nothing is tested at depth 1
        step((-1, -1, 0), (0,)),  # tested and fell at depth 1
        step((-1, -1), ()),  # fell at once
        step((-1, 0, 1), (0, 1, 2)),  # a chain, all of it
        step(()),  # no draft
    ]
    n = compute_stats(steps)
    assert [s.num_accepted for s in steps] == [2, 1, 1, 0, 3, 0]
    assert (n.drafted_steps, n.steps, n.proposed, n.accepted) == (5, 6, 16, 7)
    assert n.conditional_acceptance == (4 / 5, 2 / 3, 1.0)
    assert n.acceptance_rate_per_position == (4 / 5, 2 / 5, 1 / 5)
    assert n.acceptance_histogram == (1, 2, 1, 1)
    assert (n.tested, n.alpha) == (9, 7 / 9)
    assert n.mean_acceptance_length == pytest.approx(1 + 7 / 5)


def test_an_acceptance_behind_or_beside_a_rejection_is_not_counted():
    """Known fault I9, in a tree: 2 follows a fallen token, and 3 is a sibling's child."""
    s = step((-1, -1, 0, 1), statuses=("rejected", "accepted", "accepted", "rejected"))
    assert (s.path, s.num_accepted) == ((1,), 1)


def test_what_the_end_cut_off_is_ignored_and_not_tested():
    """Known fault I11: the end fell on the first of two that would have stood."""
    s = step((-1, -1, 0, 2), (0,), cut=True)
    n = compute_stats([s])
    assert (n.accepted, n.rejected, n.ignored, n.output_tokens) == (1, 0, 3, 1)
    assert n.conditional_acceptance == (1.0, None, None)
    assert n.tested == 1
    assert n.bonus + n.recovered == 0


def test_no_drafts_have_no_rate_and_a_full_branch_has_its_bonus_beside_it():
    """Known faults I10 and I12."""
    n = compute_stats([step(())])
    assert (n.draft_acceptance_rate, n.alpha, n.mean_acceptance_length) == (None, None, None)
    s = step((-1, 0, 0), (0, 2))
    n = compute_stats([s])
    assert (n.alpha, n.mean_acceptance_length, n.bonus) == (1.0, 3.0, 1)


# --- by brute force ---


@st.composite
def tree_steps(draw):
    parents = tuple(draw(st.integers(-1, i - 1)) for i in range(draw(st.integers(0, 7))))
    path, at = [], -1
    while children := [i for i, p in enumerate(parents) if p == at]:
        if not draw(st.booleans()):
            break
        path.append(at := draw(st.sampled_from(children)))
    return step(parents, tuple(path), cut=bool(path) and draw(st.booleans()))


@given(st.lists(tree_steps(), max_size=6))
@settings(max_examples=150, deadline=None)
def test_the_numbers_are_those_of_a_walk_down_each_tree(steps):
    tested, stood, counts, kinds = {}, {}, [], []
    for s in steps:
        if not s.proposals:
            continue
        at, depth = -1, 0
        while children := [p for p, parent in zip(s.proposals, s.parents, strict=True) if parent == at]:
            if all(p.status == "ignored" for p in children):
                break
            tested[depth] = tested.get(depth, 0) + 1
            taken = [p for p in children if p.status == "accepted"]
            if not taken:
                break
            stood[depth] = stood.get(depth, 0) + 1
            at, depth = taken[0].token.token_id, depth + 1
        counts.append(depth)
        kinds += [s.replacement.kind] if s.replacement else []
    n = compute_stats(steps)
    assert n.accepted == sum(counts)
    assert n.output_tokens == sum(len(s.emitted) for s in steps)
    assert n.tested == sum(tested.values())
    for depth, value in enumerate(n.conditional_acceptance):
        assert value == (stood.get(depth, 0) / tested[depth] if depth in tested else None)
    assert list(n.acceptance_histogram) == [counts.count(j) for j in range(len(n.acceptance_histogram))]
    assert n.proposed == n.accepted + n.rejected + n.ignored
    assert (n.bonus, n.recovered) == (kinds.count("bonus"), kinds.count("recovered"))


# --- real runs ---


def runs(verifiers=("rejection", "match"), **values):
    law = [0.4, 0.25, 0.15, 0.1, 0.06, 0.04]
    soft = tree_pair(table(lambda h: np.roll(law, h[-1]), V), V)
    hard = tree_pair(wanders(V), V, draft=wanders(V, share=0.7))
    for drafter, nodes in itertools.product(("suffix", "recycling", "composite"), (7, 16)):
        for (pair, temperature), verifier in itertools.product(((hard, 0.0), (soft, 1.0)), verifiers):
            asked = DecodeSettings(k=4, max_new_tokens=40, temperature=temperature, seed=3, tree_nodes=nodes, **values)
            yield drafter, engine.generate(pair, PROMPT, asked, drafter, verifier, alternatives=2)


def test_every_trace_of_a_tree_is_one_walk_and_says_where_each_token_came_from():
    parts = {"suffix": {"suffix"}, "recycling": {None}, "composite": {"suffix", "recycling"}}
    seen = {name: set() for name in parts}
    for drafter, gen in runs():
        for s in gen.trace.steps:
            assert all(-1 <= parent < i for i, parent in enumerate(s.parents))
            offered = [(parent, p.token.token_id) for parent, p in zip(s.parents, s.proposals, strict=True)]
            assert len({*offered}) == len(offered), "no token is offered twice at one place"
            at = -1
            for i in s.path:
                assert s.parents[i] == at
                at = i
            stood = [s.proposals[i].token.token_id for i in s.path]
            assert [*stood, *([s.replacement.token.token_id] if s.replacement else [])] == list(s.emitted)
            if s.replacement:
                assert (s.replacement.kind == "bonus") == (at not in s.parents)
            seen[drafter] |= {p.source for p in s.proposals}
        assert any(s.is_tree for s in gen.trace.steps)
        assert Trace.from_json(gen.trace.to_json()) == gen.trace
    assert seen == parts


def test_a_uniform_is_shown_for_each_test_that_was_made_and_decides_it():
    """Siblings in their order, until one is taken; what was not reached was not tested."""
    shown = 0
    for _, gen in runs():
        hot = gen.trace.settings["temperature"] > 0
        for s in gen.trace.steps:
            if s.replacement is None:
                continue
            taken = dict(zip((-1, *s.path), s.path, strict=False))
            left: dict[int, float] = {}
            for i, (p, parent) in enumerate(zip(s.proposals, s.parents, strict=True)):
                rest = left.get(parent, 1.0)
                assert p.q == 1.0
                assert p.accept_probability == pytest.approx(min(p.p / rest, 1.0) if rest > 1e-6 else 0.0, abs=1e-4)
                left[parent] = rest - p.p
                tested = parent in {-1, *s.path} and i <= taken.get(parent, i)
                assert (p.u is not None) == (tested and hot)
                if p.u is not None:
                    shown += 1
                    assert p.accepted == (p.u < p.accept_probability)
            end = s.path[-1] if s.path else -1
            assert s.replacement.p > 0
            gone = {p.token.token_id for p, parent in zip(s.proposals, s.parents, strict=True) if parent == end}
            assert s.replacement.token.token_id not in gone
    assert shown > 100


def test_typical_acceptance_in_a_tree_keeps_a_branch_and_shows_no_uniform():
    for _, gen in runs(("typical",)):
        for s in gen.trace.steps:
            assert {p.u for p in s.proposals} <= {None}
            assert all(p.accept_probability == 1.0 for p in s.proposals if p.accepted)
        assert sum(len(s.path) for s in gen.trace.steps) == gen.stats.accepted
        assert sum("lossy" in n for n in gen.trace.notices) == (gen.trace.settings["temperature"] > 0)


def test_a_trace_of_the_second_version_has_no_trees_and_still_reads():
    pair = tree_pair(wanders(V), V)
    gen = engine.generate(pair, PROMPT, DecodeSettings(k=3, max_new_tokens=12), "model")
    document = json.loads(gen.trace.to_json())
    assert {p["parent"] for s in document["steps"] for p in s["proposals"]} == {-1, 0, 1}
    document["version"] = 2
    for s in document["steps"]:
        for p in s["proposals"]:
            del p["parent"], p["source"]
    assert Trace.from_json(json.dumps(document)) == gen.trace


@pytest.mark.parametrize("parent", [0, 5, -2, 1.0, "x", True])
def test_a_document_whose_parents_are_no_tree_is_refused(parent):
    gen = next(g for _, g in runs() if any(s.is_tree for s in g.trace.steps))
    document = json.loads(gen.trace.to_json())
    drafted = next(s for s in document["steps"] if s["proposals"])
    drafted["proposals"][0]["parent"] = parent
    with pytest.raises(ValueError, match="not whole"):
        Trace.from_json(json.dumps(document))
