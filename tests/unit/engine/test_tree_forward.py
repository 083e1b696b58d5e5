"""A tree read in one forward says what each of its branches says alone; what stays of it is what a fresh run has."""

import copy

import pytest
import torch
import transformers as tf
from helpers.models import pair_of, tiny_gpt2, tiny_llama, wanders
from helpers.trees import line, prefix
from hypothesis import given, settings
from hypothesis import strategies as st

import engine
from engine import DecodeSettings, Pair
from engine.cache import BUCKET, SlotCache
from engine.fused import Asked
from engine.runner import Runner
from engine.tree import block_of, depths

V = 64
MODES = ("llama", "gpt2", "fused", "int8")
TOKENS, PARENTS = (7, 8, 9, 7, 30, 31, 9), (-1, -1, 0, 0, 1, 4, 1)  # two roots, each with two children, one grandchild
pytestmark = pytest.mark.usefixtures("one_thread")


def make(mode, **extra):
    model = tiny_gpt2(V, **extra) if mode == "gpt2" else tiny_llama(V, layers=3, **extra)
    return Runner(model, mode, V, {"fused": "none", "int8": "int8"}.get(mode))


@pytest.fixture(scope="module", params=MODES)
def runner(request):
    return make(request.param)


def ids_of(count, seed=0):
    return torch.randint(0, V, (count,), generator=torch.Generator().manual_seed(seed)).tolist()


def alone(runner, ids, keep=1):
    return runner.forward(ids, runner.new_cache(), keep).float()


def assert_same(runner, one, other):
    """Up to rounding, which differs with the width of a forward. int8 rounds the activations, and says more of it."""
    exact = runner.quantization != "int8"
    torch.testing.assert_close(one.float(), other.float(), rtol=0, atol=2e-3 if exact else 0.15)


def read_to(runner, cache, ids):
    if ids:
        runner.forward(ids, cache, keep=1)


# --- the shape ---


def test_tokens_of_one_depth_stand_at_one_position_and_see_their_own_line_alone():
    block = block_of(2, (-1, -1, 0, 1), 7)
    assert block.offsets == (0, 1, 2, 2, 3, 3, 6)
    seen = {i: [j for j in range(7) if not block.hidden[i, j]] for i in range(6)}
    assert seen == {0: [0], 1: [0, 1], 2: [0, 1, 2], 3: [0, 1, 3], 4: [0, 1, 2, 4], 5: [0, 1, 3, 5]}


@given(st.lists(st.integers(0, 9), min_size=1, max_size=10), st.integers(1, 3), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_who_sees_whom_is_the_line_of_each_token_for_any_tree(numbers, chain, padding):
    parents = tuple(n % (i + 1) - 1 for i, n in enumerate(numbers))
    block = block_of(chain, parents, chain + len(parents) + padding)
    assert depths(parents) == [len(line(parents, i)) - 1 for i in range(len(parents))]
    for i in range(len(parents)):
        shown = {*range(chain), *(chain + j for j in line(parents, i))}
        assert {j for j, hidden in enumerate(block.hidden[chain + i].tolist()) if not hidden} == shown
        assert block.offsets[chain + i] == chain + depths(parents)[i]


# --- one row ---


@pytest.mark.parametrize("context", [1, 2, 5, 40, BUCKET - 3, BUCKET])
def test_each_branch_says_what_it_says_alone_wherever_the_buffer_has_to_grow(runner, context):
    ids, cache = ids_of(context), runner.new_cache()
    read_to(runner, cache, ids[:-1])
    logits = runner.read([ids[-1], *TOKENS], cache, len(TOKENS) + 1, PARENTS).logits
    assert cache.lengths == [context + len(TOKENS)]
    for i in range(-1, len(TOKENS)):
        assert_same(runner, logits[i + 1 : i + 2], alone(runner, [*ids, *prefix(TOKENS, PARENTS, i)]))


def test_several_unread_tokens_before_a_tree_are_a_chain(runner):
    ids, cache = ids_of(9), runner.new_cache()
    read_to(runner, cache, ids[:4])
    logits = runner.read([*ids[4:], *TOKENS], cache, len(TOKENS) + 3, PARENTS).logits
    assert_same(runner, logits[:3], alone(runner, ids, 3))
    assert_same(runner, logits[-1:], alone(runner, [*ids, *prefix(TOKENS, PARENTS, 6)]))


def test_the_check_fails_a_tree_that_is_read_as_a_chain_or_kept_by_its_length_alone(runner):
    ids, cache = ids_of(5), runner.new_cache()
    chain = runner.forward([*ids, *TOKENS], cache, len(TOKENS)).float()
    wrong = [
        i for i in range(2, 7) if (chain[i] - alone(runner, [*ids, *prefix(TOKENS, PARENTS, i)])[0]).abs().max() > 0.2
    ]
    assert wrong == [2, 3, 4, 5, 6]
    cache = runner.new_cache()
    runner.read([*ids, *TOKENS], cache, 1, PARENTS)
    cache.rollback(5 + 2)  # a chain's way, where branch (1, 4) stands
    found = runner.forward([3], cache, 1)[0]
    assert (found - alone(runner, [*ids, TOKENS[1], TOKENS[4], 3])[0]).abs().max() > 0.2


@pytest.mark.parametrize("path", [(), (0,), (1,), (0, 3), (1, 6), (1, 4, 5)])
@pytest.mark.parametrize("context", [5, BUCKET - 4])
def test_after_one_branch_was_kept_the_next_forward_is_that_of_a_fresh_run(runner, path, context):
    ids, cache = ids_of(context), runner.new_cache()
    read_to(runner, cache, ids[:-1])
    runner.read([ids[-1], *TOKENS], cache, 1, PARENTS)
    cache.keep(context, path)
    assert cache.lengths == [context + len(path)]
    told = [*ids, *(TOKENS[i] for i in path)]
    for token in (3, 4):  # what was moved, and what is written behind it
        told.append(token)
        assert_same(runner, runner.forward([token], cache, 1), alone(runner, told))
    again = runner.read([told[-1], *TOKENS], *_rolled(cache, len(told) - 1), len(TOKENS) + 1, PARENTS).logits
    assert_same(runner, again[-1:], alone(runner, [*told, *prefix(TOKENS, PARENTS, 6)]))


def _rolled(cache, length):
    cache.rollback(length)
    return (cache,)


# --- several rows ---

ROWS = [  # unread tokens, drafted tokens, parents
    (1, TOKENS, PARENTS),
    (1, (5, 6), None),  # a chain
    (1, (), None),  # nothing drafted
    (2, (1, 2, 3), (-1, -1, 0)),
]


@pytest.mark.parametrize("lengths", [(6, 6, 6, 6), (3, 17, 9, 5), (BUCKET - 2, 1, 30, BUCKET - 1)])
def test_rows_with_trees_of_their_own_say_what_each_says_alone_and_go_on_from_what_each_keeps(runner, lengths):
    contexts = [ids_of(n + 1, seed=n + r) for r, n in enumerate(lengths)]
    cache = runner.new_cache(len(ROWS))
    for r, (context, (unread, *_)) in enumerate(zip(contexts, ROWS, strict=True)):
        read_to(runner, cache.rows(r, 1), context[: len(context) - unread])
    fed = [[*c[len(c) - unread :], *drafted] for c, (unread, drafted, _) in zip(contexts, ROWS, strict=True)]
    keep = [len(drafted) + 1 for _, drafted, _ in ROWS]
    readings = runner.read_rows(fed, cache, keep, [parents for *_, parents in ROWS], (0, -1))
    assert cache.lengths == [len(c) + len(drafted) for c, (_, drafted, _) in zip(contexts, ROWS, strict=True)]
    kept = [(1, 4), (0,), (), (1,)]
    for r, (context, (_, drafted, parents), path) in enumerate(zip(contexts, ROWS, kept, strict=True)):
        chain = tuple(range(-1, len(drafted) - 1)) if parents is None else parents
        for i in range(-1, len(drafted)):
            assert_same(
                runner, readings[r].logits[i + 1 : i + 2], alone(runner, [*context, *prefix(drafted, chain, i)])
            )
        assert {tap: len(h) for tap, h in readings[r].hidden.items()} == dict.fromkeys((0, -1), len(fed[r]))
        cache.rows(r, 1).keep(len(context), path)
        context += [drafted[i] for i in path]
    assert cache.lengths == [len(c) for c in contexts]
    behind = runner.forward_rows([[11], [12], [13], [14]], cache, [1] * 4)
    for r, context in enumerate(contexts):
        assert_same(runner, behind[r], alone(runner, [*context, 11 + r]))


def test_keeping_a_branch_of_one_row_leaves_its_neighbours_as_they_are():
    cache = SlotCache(2, rows=3)
    stack = cache.stack(2, 4, torch.float32, torch.device("cpu"))
    cache.reserve(9)
    stack = cache.stack(2, 4, torch.float32, torch.device("cpu"))
    stack.copy_(torch.randn(stack.shape))
    cache.advance(9)
    before = stack.clone()
    cache.rows(1, 2).keep(4, (1, 4), row=0)
    assert cache.lengths == [9, 6, 9]
    assert torch.equal(stack[:, [0, 2]], before[:, [0, 2]])
    assert torch.equal(stack[:, 1, :, :6], before[:, 1][:, :, [0, 1, 2, 3, 5, 8]])


# --- models that cannot ---

WINDOWS = {
    "mistral": lambda: tf.MistralForCausalLM(tf.MistralConfig(**SIZES, sliding_window=8)),
    "gemma2": lambda: tf.Gemma2ForCausalLM(
        tf.Gemma2Config(**SIZES, head_dim=8, sliding_window=8, query_pre_attn_scalar=8)
    ),
}
SIZES = {
    "vocab_size": V, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 128, "initializer_range": 0.3, "bos_token_id": None,
    "eos_token_id": None, "pad_token_id": None,
}  # fmt: skip


class Deaf(tf.LlamaForCausalLM):
    """It takes a mask and does not look at it."""

    def forward(self, input_ids=None, attention_mask=None, position_ids=None, logits_to_keep=0, **kwargs):
        return super().forward(input_ids, position_ids=position_ids, logits_to_keep=logits_to_keep, **kwargs)


def test_whether_a_model_reads_trees_is_asked_of_its_own_arithmetic(runner):
    assert runner.reads_trees
    assert not Runner(Deaf(tiny_llama(V).config).eval(), "deaf", V).reads_trees


@pytest.mark.parametrize("kind", [*WINDOWS, "scripted"])
def test_a_model_that_cannot_read_trees_drafts_chains_and_says_so(kind):
    torch.manual_seed(0)
    pair = pair_of(wanders(V), V) if kind == "scripted" else Pair.from_models(WINDOWS[kind]().eval(), None)
    assert not pair.target.reads_trees
    values = DecodeSettings(k=3, max_new_tokens=24, tree_nodes=7)
    gen = engine.generate(pair, [1, 2, 1, 2], values, "recycling")
    assert sum("cannot read a tree" in n for n in gen.trace.notices) == 1
    assert not any(s.is_tree for s in gen.trace.steps)
    assert gen.stats.proposed > 0
    assert gen.token_ids == engine.generate(pair, [1, 2, 1, 2], values).token_ids
    for quiet in (DecodeSettings(k=3, max_new_tokens=4, tree_nodes=0), DecodeSettings(k=3, max_new_tokens=4)):
        drafter = "recycling" if quiet.tree_nodes == 0 else "suffix"
        assert not any("tree" in n for n in engine.generate(pair, [1, 2], quiet, drafter).trace.notices)


# --- hidden states and first layers ---


def test_taps_are_transformers_own_hidden_states():
    for mode in MODES[:3]:
        runner, model = make(mode), make("gpt2" if mode == "gpt2" else "llama").model
        ids, last = ids_of(12), runner.num_layers - 1
        taps = (0, 1, last, -1)
        cache = runner.new_cache()
        first = runner.read(ids[:5], cache, 1, None, taps).hidden
        rest = runner.read([ids[5], *TOKENS], cache, 1, PARENTS, taps).hidden
        with torch.no_grad():
            told = [*ids[:6], *prefix(TOKENS, PARENTS, 5)]
            expected = model(torch.tensor([told]), output_hidden_states=True).hidden_states
        assert len(expected) == runner.num_layers + 1
        for tap in taps:
            assert first[tap].shape == (5, 32)
            assert rest[tap].shape == (1 + len(TOKENS), 32)
            found = torch.cat([first[tap], rest[tap][[0, *(i + 1 for i in line(PARENTS, 5))]]])
            torch.testing.assert_close(found, expected[tap][0], rtol=1e-3, atol=1e-3)


def shortened(model, layers):
    """The model with fewer layers, made anew."""
    config = copy.deepcopy(model.config)
    config.num_hidden_layers = layers
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:layers]
    short = type(model)(config).eval()
    short.load_state_dict(model.state_dict(), strict=False)
    return short


@pytest.mark.parametrize("mode", ["llama", "gpt2", "fused", "gemma2"])
def test_the_first_layers_alone_are_the_model_with_fewer_layers(mode):
    torch.manual_seed(0)
    model = WINDOWS["gemma2"]().eval() if mode == "gemma2" else make("gpt2" if mode == "gpt2" else "llama").model
    runner = Runner(copy.deepcopy(model), mode, V, "none" if mode == "fused" else None)
    ids = ids_of(20)
    whole = alone(runner, ids, 20)
    for layers in range(1, runner.num_layers):
        cache = runner.new_cache()
        read_to(runner, cache, ids[:15])  # by all layers, as the target does
        found = torch.cat(
            [runner.read(part, cache, len(part), layers=layers).logits for part in (ids[15:17], ids[17:])]
        )
        with torch.no_grad():
            expected = shortened(model, layers)(torch.tensor([ids])).logits[0, 15:]
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
        cache.rollback(15)
        assert_same(runner, runner.forward(ids[15:], cache, 5), whole[15:])  # and the model itself is as it was


# --- recorded ---


@torch.inference_mode()
@pytest.mark.parametrize("lengths", [[5], [9, 9], [3, 11, 40]])
def test_a_recording_reads_trees_taps_and_first_layers_to_the_last_bit_as_the_layers_do(lengths):
    runner = make("int8")
    fused, recorded = runner.fused, runner.recorded
    shapes = [block_of(1, p, 6) for p in ((-1, -1, 0, 1, 1), (-1, 0, 1, 2), (-1, -1, -1))][: len(lengths)]
    ids = torch.tensor([ids_of(6, seed=r) for r in range(len(lengths))])
    for asked in (Asked(6, shapes), Asked(2, shapes, (0, 2, -1)), Asked(1, None, (1,)), Asked(1, None, (), 1)) * 2:
        found = []
        for decoder in (fused, recorded):
            cache = runner.new_cache(len(lengths))
            for r, n in enumerate(lengths):
                fused_read = cache.rows(r, 1)
                fused_read.reserve(n)
                fused.forward(torch.tensor([ids_of(n, seed=n)]), fused_read, 1)
                fused_read.advance(n)
            cache.reserve(6)
            found.append(decoder.read(ids, cache, asked))
        one, other = found
        assert torch.equal(one.logits, other.logits)
        assert one.hidden.keys() == other.hidden.keys() == {*asked.taps}
        assert all(torch.equal(one.hidden[tap], other.hidden[tap]) for tap in asked.taps)
