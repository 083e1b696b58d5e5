"""The law of whole runs: every drafter with every exact rule, chains and trees, emits the target's own law."""

import itertools

import numpy as np
import pytest
import torch
from helpers.laws import ALPHA, chi_square
from helpers.models import table, tree_pair
from scipy.stats import chi2

import engine
from engine import DecodeSettings
from engine.costs import Costs
from engine.drafters.base import Draft
from engine.verify import tree

V = 6
PROMPT = [0, 1, 2, 3, 4, 5, 0, 1, 2, 0, 1]
SAID, DRAFTED = np.array([0.3, 0.25, 0.2, 0.1, 0.1, 0.05]), np.array([0.15, 0.05, 0.3, 0.2, 0.2, 0.1])
# top_p = .9: .3 + .25 + .2 + .1 is below it and one .1 more above, so that the last falls out.
LAW = np.array([0.3, 0.25, 0.2, 0.1, 0.1, 0.0]) / 0.95
WAYS = [
    *itertools.product(("model", "early_exit"), (None,), ("rejection", "block", "match")),
    *itertools.product(("prompt_lookup",), (None,), ("rejection", "block")),
    *(
        (d, n, v)
        for d in ("suffix", "recycling", "composite")
        for n, v in ((0, "block"), (7, "rejection"), (16, "match"))
    ),
]
HOT = {"temperature": 1.0, "top_p": 0.9}
pytestmark = pytest.mark.usefixtures("one_thread")


def state(history):
    """The target's law is turned by what was said last: what the drafters guess and a wrong rule favours is then always
    the same part of it, and does not average out."""
    return (history[-1] + 1) % V


@pytest.fixture(scope="module")
def pair():
    target, draft = (table(lambda h, law=law: np.roll(law, state(h)), V) for law in (SAID, DRAFTED))
    return tree_pair(target, V, draft=draft)


def agreement(runs):
    """p-value of what followed each state in long runs, as the transition counts of a Markov chain (Billingsley 1961),
    and of all states together, for the law is one but for its turn."""
    counts = np.zeros((V, V))
    for ids in runs:
        for i in range(len(PROMPT), len(ids)):
            at = state(ids[:i])
            counts[at, (ids[i] - at) % V] += 1
    assert counts[:, LAW == 0].sum() == 0
    counts = counts[:, LAW > 0]
    expected = counts.sum(1, keepdims=True) * LAW[LAW > 0]
    apart = chi2.sf(((counts - expected) ** 2 / expected).sum(), V * (np.count_nonzero(LAW) - 1))
    return min(1.0, 2 * min(apart, chi_square(counts.sum(0), LAW[LAW > 0])))


def texts(pair, drafter, verifier="rejection", runs=8, k=3, wrap=lambda run: run, **values):
    for seed in range(runs):
        settings = DecodeSettings(k=k, max_new_tokens=120, seed=seed, **HOT, **values)
        run = wrap(engine.stream(pair, PROMPT, settings, drafter, verifier))
        ids = list(PROMPT)
        for step in run:
            ids += step.emitted
        yield ids


@pytest.mark.parametrize(("drafter", "nodes", "verifier"), WAYS)
def test_long_runs_have_the_targets_law_behind_every_state(pair, drafter, nodes, verifier):
    assert agreement(texts(pair, drafter, verifier, tree_nodes=nodes)) > ALPHA


@pytest.mark.parametrize("drafter", ["model", "early_exit", "composite"])
@pytest.mark.parametrize("control", ["heuristic", "confidence", "cost"])
def test_the_law_holds_whatever_chooses_k(pair, drafter, control, monkeypatch):
    steep = Costs(1, (1, 2, 4), (1.0, 1.2, 1.9), 0.1, 0.1)
    monkeypatch.setattr("engine.sequence.costs_of", lambda *args: steep)
    found = list(texts(pair, drafter, runs=6, k_control=control, confidence_threshold=0.28))
    assert agreement(found) > ALPHA


@pytest.mark.parametrize(("drafter", "nodes"), [("suffix", 7), ("composite", 16), ("model", None)])
def test_the_first_two_tokens_of_a_thousand_runs_have_the_law_of_two_plain_steps(pair, drafter, nodes):
    first, second, drafted = np.zeros(V), np.zeros((V, V)), 0
    for seed in range(1000):
        settings = DecodeSettings(k=3, max_new_tokens=3, seed=seed, tree_nodes=nodes, **HOT)
        run = engine.stream(pair, PROMPT, settings, drafter)
        one, two = next(run), next(run)
        first[one.emitted[0]] += 1
        second[one.emitted[0], two.emitted[0]] += 1
        drafted += bool(two.proposals)
    law = np.roll(LAW, state(PROMPT))
    assert chi_square(first, law) > ALPHA
    joint = [law[a] * np.roll(LAW, state([*PROMPT, a])) for a in range(V)]
    assert chi_square(second.ravel(), np.concatenate(joint)) > ALPHA
    assert drafted > 300


# --- the check has power ---


@pytest.mark.parametrize("drafter", ["suffix", "recycling"])
def test_the_check_fails_a_tree_whose_rejected_children_stay_in_the_law_behind_them(pair, drafter, monkeypatch):
    honest = tree.shape_on

    def faulty(*args):
        shape = honest(*args)
        return shape._replace(children=torch.zeros_like(shape.children))

    monkeypatch.setattr(tree, "shape_on", faulty)
    assert agreement(texts(pair, drafter, runs=32, tree_nodes=3)) < 1e-9


class Changed:
    """A drafter whose proposals are changed by hand after they were drawn."""

    name = "changed"

    def __init__(self, honest, change):
        self.honest, self.change, self.begin, self.observe = honest, change, honest.begin, honest.observe

    def propose(self, context, k):
        return self.change(self.honest.propose(context, k))


def unlikely_dropped(draft):
    """The first unlikely token, and all behind it, fall away after they were drawn."""
    kept = 0
    while kept < len(draft.tokens) and float(draft.probs[kept, draft.tokens[kept]]) >= 0.2:
        kept += 1
    return Draft(draft.tokens[:kept], draft.probs[:kept]) if kept else Draft()


def another_law(draft):
    return Draft(draft.tokens, torch.full_like(draft.probs, 1 / V))


@pytest.mark.parametrize("drafter", ["model", "early_exit"])
@pytest.mark.parametrize("change", [unlikely_dropped, another_law])
def test_the_check_fails_a_drafter_that_drops_what_it_drew_or_misreports_its_law(pair, drafter, change):
    def wrap(run):
        run.drafter = Changed(run.drafter, change)
        return run

    assert agreement(texts(pair, drafter, runs=16, wrap=wrap)) < 1e-9
