"""Every drafter that needs no trained weights, with chains and trees and every way to choose K: the text is the
target's own, wherever it ends."""

import itertools

import pytest
import torch
from helpers.models import greedy_continuation, one, recites, table, tiny_gpt2, tiny_llama, tree_pair, wanders
from helpers.tokenizers import byte_tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st

import engine
from engine import DecodeSettings, Pair
from engine.batch import Batch, generate_batch
from engine.control import Control
from engine.settings import K_CONTROLS

TREES = ("suffix", "recycling", "composite")
# (drafter, tree_nodes)
WAYS = [
    *((drafter, None) for drafter in ("prompt_lookup", "early_exit", "model")),
    *itertools.product(TREES, (0, 7, 16)),
]
BYTES = byte_tokenizer()
V = 6
PROMPT = [1, 2, 3, 1, 2, 3, 4, 1, 2]
every_way = pytest.mark.parametrize(("drafter", "nodes"), WAYS)
pytestmark = pytest.mark.usefixtures("one_thread")


def whole(step):
    """The depth of a step's draft."""
    return max(step.depths, default=-1) + 1


def agree(gen):
    """Ids, text, trace rows and counts are four views of one output, and what stands is one branch."""
    steps = gen.trace.steps
    assert gen.token_ids == [t for s in steps for t in s.emitted]
    assert gen.text == "".join(t for s in steps for t in s.texts)
    assert gen.stats.output_tokens == len(gen.token_ids)
    for s in steps:
        stood = [s.proposals[i].token.token_id for i in s.path]
        assert [*stood, *([s.replacement.token.token_id] if s.replacement else [])] == list(s.emitted)
        assert sum(p.accepted for p in s.proposals) == len(s.path) == s.num_accepted


# --- greedy decoding is the target's own ---


@pytest.fixture(scope="module")
def llamas():
    return [
        Pair.from_models(tiny_llama(16, layers=3), None, draft=tiny_llama(16, seed=1), quantization=quantization)
        for quantization in (None, "none")
    ]


@every_way
@pytest.mark.parametrize("control", K_CONTROLS)
def test_the_greedy_text_is_plain_decodings_for_every_k(llamas, drafter, nodes, control):
    prompt, trees = [*PROMPT, 9, 8, 1, 2], 0
    for pair, k in itertools.product(llamas, (1, 3, 6)):
        values = DecodeSettings(k=k, max_new_tokens=28, tree_nodes=nodes, k_control=control)
        gen = engine.generate(pair, prompt, values, drafter)
        assert gen.token_ids == engine.generate(pair, prompt, values).token_ids
        assert max(map(whole, gen.trace.steps)) <= k
        assert all(len(s.proposals) <= (nodes or k) for s in gen.trace.steps)
        agree(gen)
        trees += sum(s.is_tree for s in gen.trace.steps)
    if control == "fixed" and nodes:
        assert trees > 0


@given(
    way=st.sampled_from(WAYS),
    control=st.sampled_from(K_CONTROLS[:3]),  # to measure costs takes longer than a run
    verifier=st.sampled_from(engine.VERIFIERS),
    seed=st.integers(0, 10**6),
    share=st.sampled_from([0.0, 0.5, 1.0]),
    k=st.integers(0, 7),
    most=st.integers(0, 25),
    penalty=st.sampled_from([1.0, 1.4]),
    prompt=st.lists(st.integers(0, 5), min_size=1, max_size=12),
)
@settings(max_examples=80, deadline=None)
def test_greedy_output_is_the_targets_whatever_is_drafted_from(
    way, control, verifier, seed, share, k, most, penalty, prompt
):
    drafter, nodes = way
    if verifier == "block":
        nodes = 0 if nodes else nodes
    rule = wanders(V, seed)
    pair = tree_pair(rule, V, draft=wanders(V, seed, share))
    values = DecodeSettings(k=k, max_new_tokens=most, tree_nodes=nodes, k_control=control, repetition_penalty=penalty)
    gen = engine.generate(pair, prompt, values, drafter, verifier)
    plain = engine.generate(pair, prompt, values)
    assert gen.token_ids == plain.token_ids
    if penalty == 1.0:
        assert gen.token_ids == greedy_continuation(rule, prompt, most)
    agree(gen)


@every_way
def test_a_penalty_inside_a_drafted_branch_gives_what_token_by_token_decoding_gives(drafter, nodes):
    """The target always prefers 5 a little; once it is said the penalty turns it down, in a branch as in the text."""

    def prefers(history):
        return torch.tensor([0.0, 0.1, 0.2, 1.9, 1.7, 2.0, 1.6, 1.5])

    pair = tree_pair(prefers, 8, draft=lambda history: one(5, 8))
    values = DecodeSettings(k=3, max_new_tokens=16, repetition_penalty=1.3, tree_nodes=nodes)
    assert engine.generate(pair, [1, 5, 3, 1, 5], values, drafter).token_ids == (
        engine.generate(pair, [1, 5, 3, 1, 5], values).token_ids
    )


# --- where it ends ---


@pytest.mark.parametrize("drafter", ["prompt_lookup", "model", "early_exit", *TREES])
def test_an_end_of_sequence_in_an_accepted_branch_ends_the_output_there(drafter):
    """Known fault D1. EOS is always the target's second choice, and said at one place."""
    eos, inside = 7, 0
    for at in range(2, 12):

        def rule(history, at=at):
            row = one(eos if len(history) - 5 == at else (3, 4, 5)[len(history) % 3], 8, 6.0)
            row[eos] += 4.0
            return row

        pair = tree_pair(rule, 8, eos=eos)
        for nodes in (0, 7, 16) if drafter in TREES else (None,):
            values = DecodeSettings(k=4, max_new_tokens=30, tree_nodes=nodes)
            gen = engine.generate(pair, [3, 4, 5, eos, 3], values, drafter)
            assert gen.token_ids == greedy_continuation(rule, [3, 4, 5, eos, 3], at + 1)
            assert (gen.token_ids[-1], gen.finish_reason) == (eos, "eos")
            agree(gen)
            last = gen.trace.steps[-1]
            if last.replacement is None:
                inside += 1
                assert last.proposals[last.path[-1]].token.token_id == eos
                assert {p.status for p in last.proposals} <= {"accepted", "ignored"}
                assert gen.stats.bonus + gen.stats.recovered <= gen.stats.drafted_steps - 1
    if drafter not in ("prompt_lookup",):
        assert inside > 0


@every_way
@pytest.mark.parametrize("most", [0, 1, 2, 4, 5, 6, 9])
def test_never_more_than_max_new_tokens_are_emitted_or_drafted_for(drafter, nodes, most):
    rule = wanders(V)
    pair = tree_pair(rule, V)
    gen = engine.generate(pair, PROMPT, DecodeSettings(k=4, max_new_tokens=most, tree_nodes=nodes), drafter)
    assert gen.token_ids == greedy_continuation(rule, PROMPT, most)
    assert gen.finish_reason == "length"
    left = most
    for step in gen.trace.steps:
        assert whole(step) <= max(left - 1, 0)
        left -= len(step.emitted)
    assert bool(pair.target.model.widths) == bool(most)


@pytest.mark.parametrize("control", K_CONTROLS)
def test_nothing_asked_for_means_no_forward_at_all_not_even_to_measure_costs(control):
    pair = tree_pair(wanders(V), V)
    gen = engine.generate(pair, PROMPT, DecodeSettings(max_new_tokens=0, k_control=control), "model")
    assert (gen.token_ids, gen.finish_reason) == ([], "length")
    assert pair.target.model.widths == pair.draft.model.widths == []


@every_way
@pytest.mark.parametrize("k", [1, 5])
def test_every_drafter_stops_at_the_same_string(drafter, nodes, k):
    text = "one two one two one two STOP three one two STOP"
    rule = recites(list(text.encode()), 8, 320)
    pair = tree_pair(rule, 320, tokenizer=BYTES)
    values = DecodeSettings(k=k, max_new_tokens=60, stop=("STOP", "never"), tree_nodes=nodes)
    gen = engine.generate(pair, list(b"two STOP"), values, drafter)
    assert gen.text == "one two one two one two "
    assert bytes(gen.token_ids) == b"one two one two one two STOP"
    assert gen.finish_reason == "stop"
    agree(gen)


@every_way
@pytest.mark.parametrize(("prompt", "new"), [(32, 0), (31, 1), (30, 2), (12, 20)])
def test_the_output_ends_where_the_context_does(drafter, nodes, prompt, new):
    rule, ids = wanders(V), [i % 4 for i in range(prompt)]
    pair = tree_pair(rule, V, context=32)  # the model refuses a position past it
    gen = engine.generate(pair, ids, DecodeSettings(k=5, max_new_tokens=100, tree_nodes=nodes), drafter)
    assert gen.token_ids == greedy_continuation(rule, ids, new)
    assert gen.finish_reason == "length"


@pytest.mark.parametrize("quantization", [None, "none"])
def test_a_tree_with_more_tokens_than_the_context_has_left_is_read_by_real_models_too(quantization):
    for make in (tiny_gpt2, tiny_llama):
        pair = Pair.from_models(make(16, context=40), None, quantization=quantization)
        values = DecodeSettings(k=6, max_new_tokens=100, tree_nodes=32)
        for drafter in TREES:
            gen = engine.generate(pair, PROMPT, values, drafter)
            assert len(gen.token_ids) == 40 - len(PROMPT)
            assert gen.token_ids == engine.generate(pair, PROMPT, values).token_ids
            assert gen.stats.proposed > 0


# --- pauses ---


class Pauses(Control):
    """Depths by turns, among them none."""

    def __init__(self, pattern):
        self.turns = itertools.cycle(pattern)

    def depth(self, room):
        return min(next(self.turns), room)


@every_way
@pytest.mark.parametrize("pattern", [[3, 0, 0, 3], [0, 2], [1, 0, 4, 0, 0]])
def test_a_pause_leaves_nothing_stale_behind(drafter, nodes, pattern):
    """Known fault C3. The models write what they have read into their caches: a stale token would be another text."""
    rule = wanders(V)
    pair = tree_pair(rule, V, draft=wanders(V, share=0.7))
    run = engine.stream(pair, PROMPT, DecodeSettings(k=5, max_new_tokens=40, tree_nodes=nodes), drafter)
    run.control = Pauses(pattern)
    context, seen = list(PROMPT), []
    for step in run:
        seen.append(whole(step))
        if drafter in ("model", "early_exit"):
            drafted = [p.token.token_id for p in step.proposals]
            assert drafted == greedy_continuation(wanders(V, share=0.7), context, len(drafted))
        context += step.emitted
    assert context == [*PROMPT, *greedy_continuation(rule, PROMPT, 40)]
    assert 0 in seen
    assert max(seen) > 0


@pytest.mark.parametrize("drafter", ["model", "early_exit"])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_a_draft_that_is_the_target_is_always_right(drafter, k):
    """Known faults B3 and C2."""
    pair = tree_pair(wanders(V), V)
    gen = engine.generate(pair, PROMPT, DecodeSettings(k=k, max_new_tokens=41), drafter)
    assert gen.stats.draft_acceptance_rate == 1.0


# --- seeds and batches ---


def soft(history):
    return [0.1, 0.3, 0.05, 0.25, 0.1, 0.2][sum(history[-2:]) % V :] + [0.1, 0.3, 0.05, 0.25, 0.1, 0.2][
        : sum(history[-2:]) % V
    ]


@every_way
@pytest.mark.parametrize("control", K_CONTROLS)
def test_the_same_seed_gives_the_same_run_and_another_seed_another(drafter, nodes, control):
    pair = tree_pair(table(soft, V), V, draft=table(lambda h: soft(h[:-1] or h), V))

    def run(seed):
        values = DecodeSettings(
            k=3, max_new_tokens=20, temperature=1.0, top_p=0.9, seed=seed, tree_nodes=nodes, k_control=control
        )
        gen = engine.generate(pair, PROMPT, values, drafter)
        agree(gen)
        return gen.token_ids, [p.u for s in gen.trace.steps for p in s.proposals]

    assert run(7) == run(7)
    assert any(run(seed) != run(7) for seed in (8, 9))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("kind", ["together", "one by one"])
def test_rows_of_a_batch_with_drafters_and_trees_of_their_own_equal_their_single_runs(llamas, kind, temperature):
    pair = llamas[1] if kind == "together" else tree_pair(wanders(16), 16, draft=wanders(16, share=0.7))
    controls = [c for c in K_CONTROLS if c != "cost" or not temperature]  # other costs, other K, other uniforms
    ways = list(itertools.product(WAYS, controls))
    prompts = [[*PROMPT, i % 16, 5, 1, 2][i % 5 :] for i in range(len(ways))]
    values = [
        DecodeSettings(
            k=2 + i % 4, max_new_tokens=8 + i % 9, tree_nodes=nodes, k_control=control, temperature=temperature, seed=i
        )
        for i, ((_, nodes), control) in enumerate(ways)
    ]
    drafters = [drafter for (drafter, _), _ in ways]
    together = generate_batch(pair, prompts, values, drafters, max_batch=7)
    for i, gen in enumerate(together):
        alone = engine.generate(pair, prompts[i], values[i], drafters[i])
        assert gen.token_ids == alone.token_ids, ways[i]
        agree(gen)


@pytest.mark.parametrize("control", K_CONTROLS)
def test_a_plain_row_among_others_needs_no_drafter_and_no_costs(control):
    pair, values = tree_pair(wanders(V), V), DecodeSettings(max_new_tokens=6, k_control=control)
    batch = Batch(pair, 2)
    rows = [batch.submit([1, 2], values, drafter) for drafter in ("none", "suffix")]
    while batch.busy:
        batch.step()
    assert [row.generation.token_ids for row in rows] == [greedy_continuation(wanders(V), [1, 2], 6)] * 2
    assert not any("cost" in n for n in rows[0].generation.trace.notices)
