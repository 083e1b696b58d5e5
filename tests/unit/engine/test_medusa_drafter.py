"""The Medusa drafter: what each head guesses, and the sparse tree that is built of it."""

import itertools
import math
import threading

import pytest
import torch
import torch.nn.functional as F
from helpers.heads import Steps, Target

from engine.drafters.base import Draft, Outcome
from engine.drafters.medusa import MedusaDrafter, plan
from engine.errors import EngineError
from engine.heads import MedusaHeads, MedusaShape
from engine.settings import DecodeSettings

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def target():
    return Target()


def text(n, seed=0):
    return torch.randint(0, 64, (n,), generator=torch.Generator().manual_seed(seed)).tolist()


def medusa(target, count=3, draft_vocab=None, own=False, accuracy=None, layers=1, seed=2):
    torch.manual_seed(seed)
    vocab = target.embedding_rows
    ids = None if draft_vocab is None else torch.randperm(vocab)[:draft_vocab].sort().values
    shape = MedusaShape(count, 32, vocab, draft_vocab or vocab, layers, not own, accuracy)
    heads = MedusaHeads(shape, None if own else target.head_rows(ids), ids)
    with torch.no_grad():
        for p in heads.parameters():
            p.normal_(0, 0.3)
    return heads.eval()


def drafter(heads, target, nodes=0, gate=None, **settings):
    chance = torch.Generator().manual_seed(0)
    return MedusaDrafter(heads, target, DecodeSettings(**settings), chance, target.vocab_size, nodes, gate)


@torch.no_grad()
def guesses(heads, target, context):
    """For each head, the logits of all it can guess, written out: [num_heads, draft_vocab]."""
    state, w = target.states(context[:-1], (-1,))[-1][-1], heads.state_dict()
    found = []
    for i in range(heads.shape.num_heads):
        x = state
        for j in range(heads.shape.num_layers):
            x = x + F.silu(w[f"blocks.{i}.{j}.linear.weight"] @ x + w[f"blocks.{i}.{j}.linear.bias"])
        own = w.get(f"lm_heads.{i}.weight")
        found.append((target.head_rows(heads.draft_to_target) if own is None else own) @ x)
    return torch.stack(found)


def ids_of(heads, indexes):
    return [int(i) if heads.draft_to_target is None else int(heads.draft_to_target[i]) for i in indexes]


@pytest.mark.parametrize(
    "form", [{}, {"draft_vocab": 40}, {"own": True, "layers": 2}, {"own": True, "draft_vocab": 40}]
)
def test_the_chain_is_each_heads_likeliest_guess_from_the_state_in_front_of_the_last_token(target, form):
    heads, context = medusa(target, **form), text(12)
    d = drafter(heads, target)
    d.begin(context, threading.Event())
    d.read(context, 0, target.states(context[:-1], (-1,)))
    draft = d.propose(context, 3)
    logits = guesses(heads, target, context)
    assert draft.tokens == ids_of(heads, logits.argmax(-1))
    assert draft.parents is None
    assert draft.probs is None
    assert draft.confidence == pytest.approx(torch.softmax(logits, -1).amax(-1).tolist(), rel=1e-4)
    # Of the neighbouring states, each says something else: the pairing is part of what is tested.
    assert draft.tokens != ids_of(heads, guesses(heads, target, context[:-1]).argmax(-1))


def test_it_follows_the_target_through_accepted_tokens_and_steps_without_a_draft(target):
    heads, context = medusa(target), text(12)
    d = drafter(heads, target)
    d.read(context, 0, target.states(context[:-1], (-1,)))
    for accepted, own in ((2, 7), (0, 9), (1, 30)):
        draft = d.propose(context, 3)
        assert draft.tokens == ids_of(heads, guesses(heads, target, context).argmax(-1))
        grown = [*context, *draft.tokens[:accepted], own]
        start = len(context) - 1
        d.read(grown, start, {-1: target.states(grown[:-1], (-1,))[-1][start:]})
        d.observe(Outcome(len(context), tuple(range(accepted)), draft, own, torch.zeros(4, 64)))
        context = grown
    context.append(5)
    d.read(context, len(context) - 2, {-1: target.states(context[:-1], (-1,))[-1][-1:]})
    d.observe(Outcome(len(context) - 1, (), Draft(), 5, torch.zeros(1, 64)))
    assert d.propose(context, 3).tokens == ids_of(heads, guesses(heads, target, context).argmax(-1))


def test_without_the_newest_state_nothing_is_drafted(target):
    heads, context = medusa(target), text(5)
    d = drafter(heads, target)
    assert "has not been read" in d.propose(context, 3).note
    d.read(context, 0, target.states(context[:3], (-1,)))
    assert d.propose(context, 3).tokens == []
    d.read(context, 0, target.states(context[:-1], (-1,)))
    assert d.propose(context, 3).tokens
    assert drafter(heads, target).propose([4], 3).tokens == []


def test_deeper_than_there_are_heads_it_says_so(target):
    heads, context = medusa(target, count=2), text(5)
    for nodes in (0, 9):
        d = drafter(heads, target, nodes)
        d.read(context, 0, target.states(context[:-1], (-1,)))
        draft = d.propose(context, 6)
        assert "2 heads" in draft.note
        assert draft.tokens


def best_product(chances, nodes):
    """The best sum of products of any tree of so many nodes, by trying them all."""
    paths = [p for d in range(1, len(chances) + 1) for p in itertools.product(*(range(len(r)) for r in chances[:d]))]
    value = {p: math.prod(chances[i][j] for i, j in enumerate(p)) for p in paths}
    trees = (t for t in itertools.combinations(paths, nodes) if all(len(p) == 1 or p[:-1] in t for p in t))
    return max(sum(value[p] for p in t) for t in trees)


@pytest.mark.parametrize(
    ("chances", "nodes"),
    [(((0.6, 0.2), (0.5, 0.3)), 4), (((0.4, 0.3, 0.2), (0.9, 0.05)), 5), (((0.5,), (0.5,), (0.5,)), 3),
     (((0.1, 0.7), (0.2, 0.6)), 3)],
)  # fmt: skip
def test_no_tree_of_as_many_nodes_is_expected_to_stand_longer(chances, nodes):
    """Medusa, section 2.3.3: the expected length is the sum over the nodes of their chance to stand with all above."""
    found = plan(chances, nodes)
    values = []
    for parent, depth, rank in found:
        assert depth == (0 if parent < 0 else found[parent][1] + 1)
        values.append(chances[depth][rank] * (1.0 if parent < 0 else values[parent]))
    assert len(found) == nodes
    assert sum(values) == pytest.approx(best_product(chances, nodes))


def test_a_plan_holds_no_guess_twice_and_none_without_a_chance():
    found = plan(((0.5, 0.0), (0.5, 0.5)), 99)
    assert found == ((-1, 0, 0), (0, 1, 0), (0, 1, 1))
    assert plan(((0.0,),), 4) == plan((), 4) == plan(((0.5,),), 0) == ()


def test_the_tree_is_built_from_the_measured_accuracy(target):
    accuracy = ((0.5, 0.2, 0.1), (0.3, 0.1), (0.2,))
    heads, context = medusa(target, accuracy=accuracy), text(9)
    d = drafter(heads, target, 6)
    d.read(context, 0, target.states(context[:-1], (-1,)))
    draft = d.propose(context, 3)
    ranked = [ids_of(heads, row.argsort(descending=True)[:3]) for row in guesses(heads, target, context)]
    # .5; .2; .5*.3 = .15; .1; .2*.3 = .06; .5*.1 = .05 (.5*.3*.2 = .03 comes behind)
    wanted = [(0, 0, -1), (0, 1, -1), (1, 0, 0), (0, 2, -1), (1, 0, 1), (1, 1, 0)]
    assert draft.tokens == [ranked[depth][rank] for depth, rank, _ in wanted]
    assert draft.parents == tuple(parent for _, _, parent in wanted)
    assert draft.confidence == tuple(accuracy[depth][rank] for depth, rank, _ in wanted)
    assert d.propose(context, 1).tokens == ranked[0][:3]


def test_where_nothing_was_measured_it_goes_by_the_heads_own_probabilities(target):
    heads, context = medusa(target), text(9)
    d = drafter(heads, target, 8)
    d.read(context, 0, target.states(context[:-1], (-1,)))
    draft = d.propose(context, 3)
    p = torch.softmax(guesses(heads, target, context), -1)
    values, right = [], 0.0
    for i, token in enumerate(draft.tokens):
        depth, parent = 0, draft.parents[i]
        above = 1.0 if parent < 0 else values[parent]
        while parent >= 0:
            depth, parent = depth + 1, draft.parents[parent]
        assert draft.confidence[i] == pytest.approx(float(p[depth][token]), rel=1e-3)
        values.append(above * float(p[depth][token]))
    top = [torch.topk(row, 4).values.tolist() for row in p]
    paths = [math.prod(path) for n in (1, 2, 3) for path in itertools.product(*top[:n])]
    right = sum(sorted(paths, reverse=True)[:8])
    assert sum(values) == pytest.approx(right, rel=1e-3)


def test_a_gate_ends_the_tree_and_the_chain_at_a_depth(target):
    heads, context = medusa(target), text(9)
    for nodes in (0, 12):
        d = drafter(heads, target, nodes, Steps(1))
        d.read(context, 0, target.states(context[:-1], (-1,)))
        draft = d.propose(context, 3)
        assert draft.tokens
        assert draft.parents == (None if nodes == 0 else (-1,) * len(draft.tokens))
        assert "not sure" in draft.note


def test_a_penalty_moves_the_guess_off_what_was_said(target):
    heads, context = medusa(target), text(9)
    first = guesses(heads, target, context)[0]
    said = int(first.argmax())
    assert first[said] > 0
    longer = [said, *context[1:]]
    d = drafter(heads, target, repetition_penalty=99.0)
    d.read(longer, 0, target.states(context[:-1], (-1,)))
    assert d.propose(longer, 1).tokens != [said]


def test_ids_past_the_vocabulary_are_never_proposed():
    padded = Target(vocab=30, padded=34)
    context = [t % 30 for t in text(9)]
    for draft_vocab in (None, 60):
        heads = medusa(padded, draft_vocab=draft_vocab)
        d = drafter(heads, padded, 40)
        d.read(context, 0, padded.states(context[:-1], (-1,)))
        draft = d.propose(context, 3)
        assert len(draft.tokens) == 40
        assert max(draft.tokens) < 30


def test_heads_that_return_nan_are_refused_with_a_sentence(target):
    heads, context = medusa(target), text(9)
    d = drafter(heads, target)
    d.read(context, 0, {-1: torch.full((8, 32), float("nan"))})
    with pytest.raises(EngineError, match="NaN"):
        d.propose(context, 3)
