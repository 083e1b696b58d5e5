"""The EAGLE drafter against a head written out plainly and run anew over the whole context each time."""

import gc
import threading
import weakref

import pytest
import torch
from helpers.heads import Plain, Steps, Target, random_head
from scipy.stats import chi2

import engine
from engine import Pair
from engine.control import Confidence
from engine.drafters.base import Draft, Outcome
from engine.drafters.eagle import EagleDrafter
from engine.drafters.eagle_tree import MOST_CHILDREN, beam
from engine.errors import EngineError
from engine.heads.fast_eagle import fast_eagle
from engine.settings import DecodeSettings
from engine.verify.sampling import probabilities

pytestmark = pytest.mark.usefixtures("one_thread")

FORMS = [
    {"form": "eagle3"},
    {"form": "eagle3", "draft_vocab": 40, "norm_before_residual": True},
    {"form": "eagle3", "draft_vocab": 40, "own_rows": True, "own_embeddings": True},
    {"form": "eagle"},
    {"form": "eagle", "fc_bias": True, "own_rows": True},
]


@pytest.fixture(scope="module")
def target():
    return Target()


def text(n, seed=0, vocab=64):
    return torch.randint(0, vocab, (n,), generator=torch.Generator().manual_seed(seed)).tolist()


def drafter(head, target, nodes=0, gate=None, seed=0, **settings):
    chance = torch.Generator().manual_seed(seed)
    return EagleDrafter(head, target, DecodeSettings(**settings), chance, target.vocab_size, nodes, gate)


def read(d, target, context, start, end):
    """The target reads positions start to end, having read all before them."""
    states = target.states(context[:end], d.taps)
    d.read(context, start, {tap: h[start:] for tap, h in states.items()})


def settle(d, context, draft, path, own):
    logits = torch.zeros(len(draft.tokens) + 1, 64)
    d.observe(Outcome(len(context), path, draft, own, logits))
    return [*context, *(draft.tokens[i] for i in path), own]


@pytest.mark.parametrize("form", FORMS)
def test_a_chain_is_what_the_head_says_when_run_from_scratch_after_every_partial_acceptance(target, form):
    head = random_head(target, **form)
    d, context = drafter(head, target), text(9)
    d.begin(context, threading.Event())
    read(d, target, context, 0, 9)
    context.append(5)
    for accepted, own in ((2, 7), (0, 11), (4, 3), (1, 60)):
        draft = d.propose(context, 4)
        assert draft.tokens == Plain(head, target, context).chain(4)
        assert draft.parents is None
        assert draft.ids.tolist() == draft.tokens
        before = len(context)
        grown = [*context, *draft.tokens[:accepted], own]
        read(d, target, grown, before - 1, len(grown) - 1)
        context = settle(d, context, draft, tuple(range(accepted)), own)


def test_a_head_that_pairs_each_token_with_its_neighbours_state_says_something_else(target):
    """The wrong rule fails the test above: that is what makes it one."""
    head = random_head(target)
    context = text(12)
    d = drafter(head, target)
    read(d, target, context, 0, 11)
    drafted = d.propose(context, 4).tokens
    assert drafted == Plain(head, target, context).chain(4)
    assert drafted != Plain(head, target, context, shift=1).chain(4)
    assert drafted != Plain(head, target, context, shift=-1).chain(4)


def test_a_prompt_read_in_pieces_is_the_prompt_read_at_once(target):
    head, context = random_head(target, draft_vocab=40), text(60)
    whole, pieces = drafter(head, target), drafter(head, target)
    read(whole, target, context, 0, 59)
    for start, end in ((0, 1), (1, 30), (30, 47), (47, 59)):
        read(pieces, target, context[: end + 1], start, end)  # it may know no more of the prompt than was read
    assert pieces.propose(context, 5).tokens == whole.propose(context, 5).tokens
    assert torch.allclose(pieces.propose(context, 5).logits, whole.propose(context, 5).logits, atol=1e-4)


def test_states_of_a_piece_that_are_overwritten_afterwards_were_read_before(target):
    """A CUDA graph writes every forward's states to the same memory."""
    for form in ("eagle", "eagle3"):
        head, context = random_head(target, form), text(8)
        d = drafter(head, target)
        states = {t: h.clone() for t, h in target.states(context[:7], d.taps).items()}
        d.read(context, 0, states)
        for h in states.values():
            h.fill_(9.0)
        assert d.propose(context, 3).tokens == Plain(head, target, context).chain(3)


def test_steps_without_a_draft_change_nothing(target):
    """C3: adaptive K that goes 3, 0, 0, 3."""
    head, context = random_head(target), text(10)
    d = drafter(head, target)
    read(d, target, context, 0, 9)
    draft = d.propose(context, 3)
    for own in (8, 1, 33, 8):
        read(d, target, [*context, own], len(context) - 1, len(context))
        context = settle(d, context, Draft() if own != 8 else draft, (), own)
    assert d.propose(context, 3).tokens == Plain(head, target, context).chain(3)


def test_many_steps_without_a_draft_do_not_pile_states_up(target):
    d, context = drafter(random_head(target), target), text(4)
    read(d, target, context, 0, 3)
    for own in text(60, 3):
        context.append(own)
        d.read(context, len(context) - 2, {t: torch.zeros(1, 32) for t in d.taps})
        assert d.unused.end - d.unused.start <= 17


def test_behind_a_reused_prefix_the_head_reads_what_it_is_shown_and_starts_anew(target):
    head, context = random_head(target), text(30)
    d = drafter(head, target)
    d.read(context, 0, {t: torch.ones(6, 32) for t in d.taps})  # of another run: a read that does not follow on
    read(d, target, context, 20, 29)
    assert d.propose(context, 3).tokens == Plain(head, target, context, start=20).chain(3)


def test_a_prompt_of_one_token_drafts_nothing_and_the_next_step_does(target):
    head, context = random_head(target), text(1)
    d = drafter(head, target)
    draft = d.propose(context, 4)
    assert draft.tokens == []
    assert "no token" in draft.note
    context.append(9)
    read(d, target, context, 0, 1)
    assert d.propose(context, 4).tokens == Plain(head, target, context).chain(4)


def test_without_the_states_up_to_the_last_token_nothing_is_drafted(target):
    d, context = drafter(random_head(target), target), text(9)
    read(d, target, context, 0, 6)
    draft = d.propose(context, 4)
    assert draft.tokens == []
    assert "have not been read" in draft.note


def test_positions_past_the_first_table_of_rotations_are_turned_right(target):
    """C9: a context longer than the head was made ready for. Far positions alone, so that the reference is quick."""
    head, context = random_head(target), text(6)
    d = drafter(head, target)
    states = target.states(context[:5], d.taps)
    d.read([0] * 2000 + context, 2000, states)
    plain = Plain(head, target, context)
    plain.start = 2000
    assert d.propose([0] * 2000 + context, 3).tokens == plain.chain(3)
    assert d.fast.rotations.shape[0] > 2000


@pytest.mark.parametrize("form", [FORMS[1], FORMS[3]])
@pytest.mark.parametrize(
    "law", [{"temperature": 0.8, "top_p": 0.9}, {"temperature": 1.3, "top_k": 7, "repetition_penalty": 1.4}]
)
def test_a_sampled_chain_comes_with_the_very_law_it_was_drawn_from(target, form, law):
    """A1, A2, A7: after temperature, cuts and a penalty that sees the context and what was drafted before."""
    head, context = random_head(target, **form), text(14)
    d = drafter(head, target, gate=Steps(4), **law)
    read(d, target, context, 0, 13)
    draft, plain = d.propose(context, 4), Plain(head, target, context)
    for i, row in enumerate(draft.probs):
        logits = torch.full((64,), float("-inf"))
        ids = head.draft_to_target if head.draft_to_target is not None else torch.arange(64)
        logits[ids] = plain.logits(draft.tokens[:i])
        right = probabilities(logits[None], d.settings, [*context, *draft.tokens[:i]])[0]
        assert torch.allclose(row, right, atol=1e-4)
        assert row[draft.tokens[i]] > 0
        assert draft.confidence[i] == pytest.approx(float(row.max()), abs=1e-6)


def test_sampled_tokens_appear_as_often_as_their_law_says(target):
    head, context = random_head(target, draft_vocab=40), text(10)
    d = drafter(head, target, temperature=1.0)
    read(d, target, context, 0, 9)
    first = [d.propose(context, 1) for _ in range(3000)]
    counts = torch.bincount(torch.tensor([f.tokens[0] for f in first]), minlength=64)
    p = first[0].probs[0]
    assert counts[p == 0].sum() == 0
    often = p * 3000 >= 5  # the rest counts as one
    cells = [*zip(counts[often].tolist(), (p[often] * 3000).tolist(), strict=True)]
    cells.append((int(counts[~often].sum()), float(p[~often].sum()) * 3000))
    apart = sum((seen - due) ** 2 / due for seen, due in cells if due > 0)
    assert apart < chi2.isf(1e-4, len(cells) - 1)


def plain_tree(plain, nodes, k):
    """EAGLE-2 by its definition: paths with their value, expanded level by level, then the best of all."""
    found, level = [], [((), 1.0)]
    for depth in range(k):
        fresh = []
        for path, value in level:
            p = torch.softmax(plain.logits([plain.target_id(i) for i in path]), -1)
            best = torch.topk(p, min(MOST_CHILDREN if depth else nodes, len(p)))
            fresh += [((*path, int(i)), value * float(v)) for v, i in zip(best.values, best.indices, strict=True)]
        found += fresh
        level = sorted(fresh, key=lambda c: -c[1])[: beam(nodes)]
    kept = sorted(found, key=lambda c: -c[1])[:nodes]
    return {tuple(plain.target_id(i) for i in path): value for path, value in kept}


def paths(draft):
    found = []
    for i, token in enumerate(draft.tokens):
        parent = draft.parents[i]
        assert parent < i
        found.append((*(found[parent] if parent >= 0 else ()), token))
    return found


@pytest.mark.parametrize(("form", "nodes", "k"), [(FORMS[0], 16, 4), (FORMS[1], 24, 3), (FORMS[3], 7, 5)])
def test_a_tree_holds_the_most_valuable_branches_round_after_round(target, form, nodes, k):
    head = random_head(target, **form)
    d, context = drafter(head, target, nodes), text(9)
    read(d, target, context, 0, 9)
    context.append(5)
    for own in (7, 60):
        draft = d.propose(context, k)
        right = plain_tree(Plain(head, target, context), nodes, k)
        found = paths(draft)
        assert len(found) == len({*found}) == nodes
        assert {*found} == {*right}
        assert draft.probs is None
        for i, path in enumerate(found):
            value, parent = 1.0, i
            while parent >= 0:
                value *= draft.confidence[parent]
                parent = draft.parents[parent]
            assert value == pytest.approx(right[path], rel=1e-3)
        deepest = max(range(nodes), key=lambda i: len(found[i]))  # its branch is taken, the last token of it aside
        taken = [i for i in range(nodes) if found[i] == found[deepest][: len(found[i])]][:-1]
        grown = [*context, *(draft.tokens[i] for i in taken), own]
        read(d, target, grown, len(context) - 1, len(grown) - 1)
        context = settle(d, context, draft, tuple(taken), own)


def test_a_tree_of_one_node_is_the_first_token_of_the_chain(target):
    head, context = random_head(target), text(9)
    one, chain = drafter(head, target, 1), drafter(head, target)
    for d in (one, chain):
        read(d, target, context, 0, 8)
    draft = one.propose(context, 5)
    assert draft.tokens == chain.propose(context, 1).tokens
    assert draft.parents == (-1,)


def test_a_tree_under_a_penalty_thinks_less_of_what_was_said(target):
    head, context = random_head(target), text(9)
    plain, punished = drafter(head, target, 6), drafter(head, target, 6, repetition_penalty=50.0)
    for d in (plain, punished):
        read(d, target, context, 0, 8)
    first = plain.propose(context, 1)
    said = [t for t in first.tokens if Plain(head, target, context).logits([])[t] > 0]
    longer = [*said, *context[len(said) :]]
    read(punished, target, longer, 0, 8)
    assert not {*said} & {*punished.propose(longer, 1).tokens[:1]}


def test_ids_past_the_vocabulary_are_never_proposed():
    """F1: embeddings padded past what the tokenizer knows."""
    for draft_vocab in (None, 60):
        padded = Target(vocab=30, padded=34)
        head, context = random_head(padded, draft_vocab=draft_vocab), text(9, vocab=30)
        for nodes in (0, 20):
            d = drafter(head, padded, nodes, temperature=0.0 if nodes else 3.0)
            read(d, padded, context, 0, 8)
            draft = d.propose(context, 5)
            assert draft.tokens
            assert max(draft.tokens) < 30
            assert draft.probs is None or draft.probs.shape == (5, 30)


def test_a_gate_is_asked_before_each_token_and_ends_the_draft(target):
    head, context = random_head(target), text(9)
    for nodes in (0, 12):
        gate = Steps(2)
        d = drafter(head, target, nodes, gate)
        read(d, target, context, 0, 8)
        draft = d.propose(context, 5)
        assert [depth for _, depth in gate.asked] == [0, 1, 2]
        # Of a chain's next token the likeliest; of a tree, that one of the followers looked at is taken.
        chances = torch.softmax(Plain(head, target, context).logits([]), -1)
        assert gate.asked[0][0] == pytest.approx(float(torch.topk(chances, nodes or 1).values.sum()), rel=1e-3)
        assert max(map(len, paths(draft))) == 2 if nodes else len(draft.tokens) == 2
        assert "not sure" in draft.note
        none = drafter(head, target, nodes, Steps(0))
        read(none, target, context, 0, 8)
        assert none.propose(context, 5).tokens == []


def test_the_same_seed_draws_the_same_draft_and_another_one_another(target):
    head, context = random_head(target), text(9)
    drafts = []
    for seed in (1, 1, 2):
        d = drafter(head, target, seed=seed, temperature=2.0)
        read(d, target, context, 0, 8)
        drafts.append(d.propose(context, 6).tokens)
    assert drafts[0] == drafts[1] != drafts[2]


def test_a_head_beside_an_int8_target_runs_in_int8_and_says_nearly_the_same(target):
    head, context = random_head(target), text(9)
    exact, quick = drafter(head, target), drafter(head, Target(quantization="int8"))
    for d in (exact, quick):
        read(d, target, context, 0, 8)
    one, other = exact.propose(context, 1).logits, quick.propose(context, 1).logits
    assert float((one - other).abs().max()) < 0.1 * float(one.std())
    assert type(quick.fast.qkv).__name__ == "Int8Linear"


def test_a_head_is_made_ready_once_and_again_when_it_has_been_trained_on(target):
    head = random_head(target)
    first = fast_eagle(head, target, 64)
    assert fast_eagle(head, target, 64) is first
    with torch.no_grad():
        head.fc.weight.mul_(2)
    assert fast_eagle(head, target, 64) is not first


@pytest.mark.parametrize("nodes", [0, 8])
@pytest.mark.parametrize("quantization", [None, "int8"])
def test_a_recorded_layer_says_the_same_to_the_last_bit_at_every_length(nodes, quantization):
    target = Target(quantization=quantization)
    context = text(40)
    for form in (FORMS[1], FORMS[4]):
        head = random_head(target, **form)
        recorded, plain = drafter(head, target, nodes), drafter(head, target, nodes)
        for end in (8, 9, 30):
            drafts = []
            for d, layer in ((recorded, recorded.fast._recorded), (plain, None)):
                kept, d.fast._recorded = d.fast._recorded, layer
                read(d, target, context[: end + 1], d.unused.end, end)
                drafts.append(d.propose(context[: end + 1], 3))
                d.fast._recorded = kept
            assert drafts[0].tokens == drafts[1].tokens
            assert drafts[0].confidence == drafts[1].confidence
        assert any(made is not None for (one_row, _), made in recorded.fast._recorded._recordings.items() if one_row)


def test_what_was_made_ready_of_a_head_goes_with_it(target):
    head = random_head(target)
    fast = weakref.ref(drafter(head, target).fast)
    del head
    gc.collect()
    assert fast() is None


@pytest.mark.parametrize("nodes", [0, 8])
@pytest.mark.parametrize("gate", [None, Steps(9), Confidence(0.4)], ids=["no gate", "steps", "confidence"])
@pytest.mark.parametrize("settings", [{}, {"temperature": 1.0, "top_p": 0.9}, {"repetition_penalty": 1.2}])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_head_that_diverges_is_refused_by_its_own_name(target, nodes, gate, settings, bad):
    """Under a gate too, to which NaN looks like a draft that is not sure."""
    head, context = random_head(target), text(9)
    with torch.no_grad():
        head.norm.weight[0] = bad
    d = drafter(head, target, nodes, gate, **settings)
    read(d, target, context, 0, 8)
    with pytest.raises(EngineError, match=r"^the EAGLE head returned NaN") as refused:
        d.propose(context, 3)
    assert "model" not in str(refused.value)


def test_a_head_that_diverges_in_a_run_says_so_and_not_that_the_model_did(target, monkeypatch):
    head = random_head(target)
    with torch.no_grad():
        head.layer.mlp.down_proj.weight.fill_(float("inf"))
    monkeypatch.setattr("engine.drafters.make.head_of", lambda pair, method: head)
    pair = Pair.from_models(target=target.model, tokenizer=None)
    for control in engine.K_CONTROLS:
        settings = DecodeSettings(k=3, max_new_tokens=12, tree_nodes=0, k_control=control)
        with pytest.raises(EngineError, match=r"^the EAGLE head returned NaN"):
            engine.generate(pair, text(9), settings, drafter="eagle")


@pytest.mark.parametrize("nodes", [0, 6])
def test_in_a_run_each_draft_is_what_the_head_says_of_the_context_then(target, monkeypatch, nodes):
    """The same comparison through the engine: what its reads hand over, and when, is part of the pairing."""
    head, prompt = random_head(target, draft_vocab=40), text(9)
    monkeypatch.setattr("engine.drafters.make.head_of", lambda pair, method: head)
    pair = Pair.from_models(target=target.model, tokenizer=None)
    settings = DecodeSettings(k=3, max_new_tokens=12, ignore_eos=True, tree_nodes=nodes)
    plain, run = (engine.generate(pair, prompt, settings, drafter=name) for name in ("none", "eagle"))
    assert run.token_ids == plain.token_ids
    context, drafted = [*prompt], 0
    for step in run.trace.steps:
        found = []
        for i, p in enumerate(step.proposals):
            parent = i - 1 if p.parent is None else p.parent
            found.append((*(found[parent] if parent >= 0 else ()), p.token.token_id))
        if found and nodes:
            assert {*found} == {*plain_tree(Plain(head, target, context), nodes, max(map(len, found)))}
        elif found:
            assert list(found[-1]) == Plain(head, target, context).chain(len(found))
        drafted += len(found)
        context += step.emitted
    assert drafted
