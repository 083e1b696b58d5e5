"""A shared beginning of prompts is read once: copied where it is known, refused to strangers, bounded."""

import random
import threading

import pytest
import torch
import transformers as tf
from helpers.models import tiny_llama
from hypothesis import given, settings
from hypothesis import strategies as st
from test_architectures import CONFIGS, build

import engine
from engine import DecodeSettings, EngineError, Pair, PrefixCache, Trace
from engine.prefix import common_prefix
from engine.runner import PREFILL_CHUNK, Runner

V = 61
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module", params=["fused", "llama", "gpt2", "mistral-window", "gemma2-windows", "llama4-chunks"])
def pair(request):
    name, quantization = ("llama", "none") if request.param == "fused" else (request.param, None)
    return Pair.from_models(build(CONFIGS[name], 1), None, draft=build(CONFIGS[name], 2), quantization=quantization)


@pytest.fixture(scope="module")
def long_pair():
    return Pair.from_models(tiny_llama(V, context=4096), None, quantization="none")


@pytest.fixture
def runner():
    return Runner(tiny_llama(V), "tiny", V)


def tokens(seed, count):
    chance = random.Random(seed)
    return [chance.randrange(V) for _ in range(count)]


def read(runner, ids):
    cache = runner.new_cache()
    runner.forward(ids, cache, keep=1)
    return cache


# --- the same output ---


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("drafter", ["none", "prompt_lookup", "model"])
def test_a_run_that_reuses_a_prefix_emits_what_it_emits_without(pair, drafter, temperature):
    system, prefixes = tokens(1, 30), PrefixCache()
    values = DecodeSettings(k=3, max_new_tokens=16, temperature=temperature, seed=4)
    for question in ([5, 6], [5, 7, 8], [9], [5, 6]):
        prompt = [*system, *question]
        plain = engine.generate(pair, prompt, values, drafter)
        fast = engine.generate(pair, prompt, values, drafter, prefix_cache=prefixes)
        assert fast.token_ids == plain.token_ids
    assert fast.stats.reused_prompt_tokens == len(prompt) - 1


def test_the_trace_says_how_much_was_reused_and_how_much_was_read(pair):
    system, prefixes = tokens(2, 20), PrefixCache()
    runs = [
        engine.generate(pair, [*system, *tail], DecodeSettings(max_new_tokens=3), prefix_cache=prefixes)
        for tail in ([1, 2, 3], [4, 5], [4, 5], [1, 2, 3, 6])
    ]
    first = [(g.trace.steps[0].reused_prompt_tokens, g.trace.steps[0].prefill_tokens) for g in runs]
    assert first == [(0, 22), (20, 1), (21, 0), (23, 0)]  # the last prompt token is read by the step itself
    assert all((s.reused_prompt_tokens, s.prefill_tokens) == (0, 0) for g in runs for s in g.trace.steps[1:])
    assert [g.stats.reused_prompt_tokens for g in runs] == [0, 20, 21, 23]
    assert [g.stats.prompt_tokens for g in runs] == [23, 22, 22, 24]
    back = Trace.from_json(runs[1].trace.to_json())
    assert back == runs[1].trace
    assert back.as_dict()["steps"][0]["reused_prompt_tokens"] == 20


def test_a_reused_prefix_is_not_read_again(long_pair, monkeypatch):
    widths, read = [], long_pair.target.fused.read
    monkeypatch.setattr(long_pair.target.fused, "read", lambda ids, *a: widths.append(ids.shape[1]) or read(ids, *a))
    system, prefixes = tokens(3, 3 * PREFILL_CHUNK), PrefixCache()
    engine.generate(long_pair, [*system, 1, 2], DecodeSettings(max_new_tokens=1), prefix_cache=prefixes)
    assert sum(widths) == len(system) + 2
    widths.clear()
    engine.generate(long_pair, [*system, 3, 4, 5], DecodeSettings(max_new_tokens=1), prefix_cache=prefixes)
    assert widths == [3]


def test_nothing_is_reused_unless_a_cache_is_passed(pair):
    for _ in range(2):
        gen = engine.generate(pair, tokens(4, 20), DecodeSettings(max_new_tokens=2))
        assert gen.stats.reused_prompt_tokens == 0


def test_the_one_token_prompt_is_always_read(pair):
    prefixes = PrefixCache()
    for _ in range(2):
        gen = engine.generate(pair, [7], DecodeSettings(max_new_tokens=3), prefix_cache=prefixes)
        assert gen.stats.reused_prompt_tokens == 0


def test_a_run_that_was_stopped_while_reading_leaves_nothing_false(long_pair):
    cancel, prefixes, prompt = threading.Event(), PrefixCache(), tokens(5, 1000)
    cancel.set()
    engine.generate(long_pair, prompt, DecodeSettings(max_new_tokens=3), cancel=cancel, prefix_cache=prefixes)
    values = DecodeSettings(max_new_tokens=8)
    gen = engine.generate(long_pair, prompt, values, prefix_cache=prefixes)
    assert gen.token_ids == engine.generate(long_pair, prompt, values).token_ids


def test_rows_of_a_batch_reuse_what_runs_left_and_leave_what_runs_reuse(pair):
    system, prefixes = tokens(6, 24), PrefixCache()
    values = DecodeSettings(max_new_tokens=8)
    engine.generate(pair, [*system, 1], values, prefix_cache=prefixes)
    prompts = [[*system, 2, i] for i in range(4)]
    gens = engine.generate_batch(pair, prompts, values, prefix_cache=prefixes)
    assert [g.token_ids for g in gens] == [engine.generate(pair, p, values).token_ids for p in prompts]
    assert all(g.stats.reused_prompt_tokens >= 24 for g in gens)
    again = engine.generate(pair, prompts[2], values, prefix_cache=prefixes)
    assert again.stats.reused_prompt_tokens == 25


# --- wrong rules fail ---


def test_a_match_that_reuses_one_token_too_many_would_be_seen_here(pair, monkeypatch):
    one_more = lambda edge, ids, at: min(common_prefix(edge, ids, at) + 1, len(edge))  # noqa: E731
    monkeypatch.setattr("engine.prefix.common_prefix", one_more)
    prefixes, values = PrefixCache(), DecodeSettings(max_new_tokens=12)
    system = tokens(7, 12)
    differ = 0
    for tail in ([1, 2, 3], [4, 5, 6], [7, 8, 9]):
        prompt = [*system, *tail]
        gen = engine.generate(pair, prompt, values, prefix_cache=prefixes)
        differ += gen.token_ids != engine.generate(pair, prompt, values).token_ids
    assert differ


def test_keys_at_other_positions_would_be_seen_here(pair, monkeypatch):
    honest = PrefixCache._match
    monkeypatch.setattr(PrefixCache, "_match", lambda self, ids, limit: honest(self, ids[1:], limit - 1))
    prefixes, values = PrefixCache(), DecodeSettings(max_new_tokens=12)
    engine.generate(pair, tokens(8, 20), values, prefix_cache=prefixes)
    prompt = [3, *tokens(8, 20)]
    gen = engine.generate(pair, prompt, values, prefix_cache=prefixes)
    assert gen.stats.reused_prompt_tokens
    assert gen.token_ids != engine.generate(pair, prompt, values).token_ids


# --- whose keys ---


def test_another_model_is_refused_with_a_sentence_before_any_forward():
    prefixes = PrefixCache()
    one, other = (Pair.from_models(tiny_llama(V, seed), None, target_name=f"m{seed}") for seed in (0, 1))
    engine.generate(one, [1, 2, 3], DecodeSettings(max_new_tokens=1), prefix_cache=prefixes)
    calls = (
        lambda: engine.stream(other, [1, 2], prefix_cache=prefixes),
        lambda: engine.generate(other, [1, 2], prefix_cache=prefixes),
        lambda: engine.generate_batch(other, [[1, 2]], prefix_cache=prefixes),
    )
    for call in calls:
        with pytest.raises(EngineError, match="holds keys of m0") as refused:
            call()
        assert "\n" not in str(refused.value)


def test_the_same_weights_loaded_again_are_another_model():
    """The layout or the precision may differ, and the cache cannot tell."""
    prefixes = PrefixCache()
    prefixes.check(Runner(tiny_llama(V), "a", V))
    with pytest.raises(EngineError, match="PrefixCache for each loaded target"):
        prefixes.check(Runner(tiny_llama(V), "a", V, "none"))


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "1G", None])
def test_a_bound_that_means_nothing_is_refused(bad):
    with pytest.raises(EngineError, match="max_bytes"):
        PrefixCache(bad)


# --- the tree ---


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=9), min_size=1, max_size=12), st.data())
@settings(max_examples=60, deadline=None)
def test_the_longest_known_beginning_is_found_and_its_keys_are_those_of_a_fresh_read(texts, data):
    runner = _RUNNER
    prefixes = PrefixCache()
    for ids in texts:
        prefixes.insert(runner, ids, read(runner, ids))
    assert prefixes.tokens == len({tuple(ids[: n + 1]) for ids in texts for n in range(len(ids))})
    prompt = data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=10))
    known = max(
        (n for ids in texts for n in range(len(ids) + 1) if ids[:n] == prompt[:n] and n <= len(prompt)), default=0
    )
    assert prefixes.known(prompt) == known
    cache = runner.new_cache()
    assert prefixes.reuse(runner, prompt, cache) == min(known, len(prompt) - 1)
    got = runner.forward(prompt[cache.length :], cache, keep=1)
    torch.testing.assert_close(got, runner.forward(prompt, runner.new_cache(), keep=1), rtol=1e-3, atol=1e-3)


_RUNNER = Runner(tiny_llama(V), "tiny", V)


def test_a_run_that_has_read_a_part_takes_over_from_there(runner):
    prefixes, ids = PrefixCache(), tokens(9, 40)
    prefixes.insert(runner, ids[:15], read(runner, ids[:15]))
    prefixes.insert(runner, ids, read(runner, ids))
    for have in (0, 3, 15, 20, 39):
        cache = runner.new_cache()
        if have:
            runner.forward(ids[:have], cache, keep=1)
        assert prefixes.reuse(runner, ids, cache) == 39 - have
        got = runner.forward(ids[39:], cache, keep=1)
        torch.testing.assert_close(got, runner.forward(ids, runner.new_cache(), keep=1), rtol=1e-3, atol=1e-3)


def test_what_a_run_writes_later_does_not_change_what_it_left(runner):
    prefixes, ids = PrefixCache(), tokens(10, 12)
    cache = read(runner, ids)
    prefixes.insert(runner, ids, cache)
    cache.rollback(0)
    runner.forward(tokens(11, 12), cache, keep=1)
    fresh = runner.new_cache()
    prefixes.reuse(runner, ids, fresh)
    runner.forward([60, 60], fresh, keep=1)  # and neither does what is read behind a reused prefix
    again = runner.new_cache()
    assert prefixes.reuse(runner, [*ids, 1], again) == 12
    got = runner.forward([1], again, keep=1)
    torch.testing.assert_close(got, runner.forward([*ids, 1], runner.new_cache(), keep=1), rtol=1e-3, atol=1e-3)


def position_bytes(runner):
    prefixes = PrefixCache()
    prefixes.insert(runner, [1], read(runner, [1]))
    return prefixes.nbytes


def test_a_positions_bytes_are_its_keys_and_values_in_every_layer(runner):
    assert position_bytes(runner) == 2 * 2 * 2 * 8 * 4  # layers, keys and values, kv heads, head_dim, float32


def test_the_bound_holds_always_and_the_least_recently_used_goes_first(runner):
    one = position_bytes(runner)
    prefixes = PrefixCache(max_bytes=30 * one)
    a, b, c = ([n] * 10 for n in (1, 2, 3))
    for ids in (a, b, c):
        prefixes.insert(runner, ids, read(runner, ids))
    prefixes.reuse(runner, [*a, 9], runner.new_cache())  # used again: b is now the oldest
    d = [4] * 10
    prefixes.insert(runner, d, read(runner, d))
    assert [prefixes.known(ids) for ids in (a, b, c, d)] == [10, 0, 10, 10]
    assert prefixes.nbytes == 30 * one


def test_a_prefix_in_use_by_another_branch_outlives_its_leaves(runner):
    one = position_bytes(runner)
    prefixes = PrefixCache(max_bytes=20 * one)
    system = [5] * 10
    for n in range(6, 30):
        prefixes.insert(runner, [*system, n, n, n], read(runner, [*system, n, n, n]))
        assert prefixes.known(system) == 10
        assert prefixes.nbytes <= 20 * one
    assert prefixes.known([*system, 29, 29, 29]) == 13
    assert prefixes.known([*system, 6]) == 10


def test_of_a_prompt_larger_than_the_bound_the_beginning_is_kept(runner):
    prefixes = PrefixCache(max_bytes=7 * position_bytes(runner) + 1)
    ids = tokens(12, 20)
    prefixes.insert(runner, ids, read(runner, ids))
    assert prefixes.known(ids) == 7
    tiny = PrefixCache(max_bytes=1)
    tiny.insert(runner, ids, read(runner, ids))
    assert (tiny.nbytes, tiny.known(ids)) == (0, 0)


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=8), max_size=25), st.integers(1, 20))
@settings(max_examples=40, deadline=None)
def test_no_order_of_insertions_passes_the_bound_or_miscounts_it(texts, room):
    one = position_bytes(_RUNNER)
    prefixes = PrefixCache(max_bytes=room * one)
    for ids in texts:
        prefixes.insert(_RUNNER, ids, read(_RUNNER, ids))
        assert prefixes.nbytes == prefixes.tokens * one <= room * one
        assert prefixes.known(ids) == min(len(ids), room)


def test_clearing_forgets_everything(runner):
    prefixes = PrefixCache()
    prefixes.insert(runner, [1, 2], read(runner, [1, 2]))
    prefixes.clear()
    assert (prefixes.nbytes, prefixes.tokens, prefixes.known([1, 2])) == (0, 0, 0)


def test_a_frozen_cache_gives_what_it_has_and_keeps_nothing_of_later_prompts(pair):
    system, prefixes, values = tokens(15, 20), PrefixCache(), DecodeSettings(max_new_tokens=4)
    engine.generate(pair, system, values, prefix_cache=prefixes)
    prefixes.freeze()
    for _ in range(2):
        gen = engine.generate(pair, [*system, 1, 2, 3], values, prefix_cache=prefixes)
        assert gen.stats.reused_prompt_tokens == 20
    assert prefixes.tokens == 20


def test_threads_that_share_a_cache_get_what_they_get_alone(long_pair):
    system = tokens(13, 300)
    values = DecodeSettings(max_new_tokens=6)
    alone = [engine.generate(long_pair, [*system, i], values).token_ids for i in range(6)]
    # Room for the system prompt and little more, so that leaves come and go meanwhile.
    prefixes, got = PrefixCache(max_bytes=305 * position_bytes(long_pair.target)), {}

    def work(i):
        got[i] = [engine.generate(long_pair, [*system, i], values, prefix_cache=prefixes).token_ids for _ in range(3)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert got == {i: [ids] * 3 for i, ids in enumerate(alone)}


def test_half_precision_prefixes_are_kept_in_half_precision():
    runner = Runner(build(CONFIGS["gpt2"], 1).to(torch.bfloat16), "half", V)
    prefixes = PrefixCache()
    prefixes.insert(runner, [1, 2, 3], read(runner, [1, 2, 3]))
    assert prefixes.nbytes == 3 * 2 * 2 * 32 * 2
    cache = runner.new_cache()
    assert prefixes.reuse(runner, [1, 2, 3, 4], cache) == 3
    assert cache.layers[0].keys.dtype == torch.bfloat16


def test_a_model_whose_values_are_narrower_than_its_keys_is_kept_whole():
    config = tf.DeepseekV3Config(
        vocab_size=V, hidden_size=32, intermediate_size=48, moe_intermediate_size=16, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=4, n_routed_experts=4, num_experts_per_tok=2, n_group=1,
        topk_group=1, first_k_dense_replace=1, kv_lora_rank=8, q_lora_rank=8, qk_rope_head_dim=4, qk_nope_head_dim=8,
        v_head_dim=6, max_position_embeddings=96, initializer_range=0.3, eos_token_id=None, bos_token_id=None,
    )  # fmt: skip
    pair, prefixes = Pair.from_models(build(config, 1), None), PrefixCache()
    values = DecodeSettings(max_new_tokens=8)
    for i in range(3):
        prompt = [*tokens(14, 20), i]
        gen = engine.generate(pair, prompt, values, prefix_cache=prefixes)
        assert gen.token_ids == engine.generate(pair, prompt, values).token_ids
    assert gen.stats.reused_prompt_tokens == 20
