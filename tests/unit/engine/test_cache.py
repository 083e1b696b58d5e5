"""SlotCache: written in place, rolled back by length, grown without loss, ragged rows."""

import pytest
import torch
import transformers as tf

import engine
from engine.cache import BUCKET, SlotCache
from engine.runner import PREFILL_CHUNK, Runner

VOCAB = 61


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(3)
    config = tf.LlamaConfig(
        vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=4096, eos_token_id=None, bos_token_id=None,
        initializer_range=0.3,
    )  # fmt: skip
    return tf.LlamaForCausalLM(config).eval()


@pytest.fixture
def runner(model):
    return Runner(model, "tiny", VOCAB)


def whole(model, ids):
    """The reference: one forward without any cache. [len(ids), V]"""
    with torch.inference_mode():
        return model(input_ids=torch.tensor([ids])).logits[0]


def test_logits_after_a_rollback_are_those_of_a_fresh_read(runner, model):
    ids = torch.randint(0, VOCAB, (40,), generator=torch.Generator().manual_seed(0)).tolist()
    cache = runner.new_cache()
    runner.forward(ids[:20], cache, keep=1)
    runner.forward([1, 2, 3, 4, 5], cache, keep=5)  # a rejected proposal
    cache.rollback(20)
    logits = runner.forward(ids[20:], cache, keep=20)
    torch.testing.assert_close(logits, whole(model, ids)[20:], rtol=1e-4, atol=1e-4)


def test_forgetting_to_roll_back_would_be_seen(runner, model):
    """The check above has teeth: the same reads without the rollback differ."""
    ids = list(range(40))
    cache = runner.new_cache()
    runner.forward(ids[:20], cache, keep=1)
    runner.forward([1, 2, 3, 4, 5], cache, keep=5)
    logits = runner.forward(ids[20:], cache, keep=20)
    assert (logits - whole(model, ids)[20:]).abs().max() > 1e-2


def test_buffers_grow_by_whole_buckets_and_keep_what_they_held(runner, model):
    ids = torch.randint(0, VOCAB, (3 * BUCKET + 7,), generator=torch.Generator().manual_seed(1)).tolist()
    cache = runner.new_cache()
    seen = []
    for at in range(0, len(ids), 50):
        runner.forward(ids[at : at + 50], cache, keep=1)
        seen.append(cache.capacity)
        assert cache.capacity % BUCKET == 0
        assert cache.capacity >= cache.length
    assert len(set(seen)) > 1
    cache.rollback(len(ids) - 1)
    logits = runner.forward(ids[-1:], cache, keep=1)
    torch.testing.assert_close(logits, whole(model, ids)[-1:], rtol=1e-4, atol=1e-4)


def test_a_forward_reads_only_what_is_new(runner, monkeypatch):
    """Known fault C8: a cache that works on short prompts only makes every step read the whole sequence again."""
    widths = []
    forward = runner.model.forward

    def spy(*args, **kwargs):
        widths.append(kwargs["input_ids"].shape[1])
        return forward(*args, **kwargs)

    pair = engine.Pair.from_models(runner.model, None)
    monkeypatch.setattr(runner.model, "forward", spy)
    prompt = [(7 * i) % VOCAB for i in range(2 * PREFILL_CHUNK + 88)]
    engine.generate(pair, prompt, engine.DecodeSettings(k=4, max_new_tokens=20), drafter="prompt_lookup")
    assert widths[:3] == [PREFILL_CHUNK, PREFILL_CHUNK, 88]
    assert max(widths[3:]) <= 5


def test_a_row_can_be_rolled_back_alone_and_cannot_remember_more_than_it_has():
    cache = SlotCache(num_layers=1, rows=2)
    cache.reserve(4)
    keys = torch.arange(8.0).reshape(2, 1, 4, 1)
    cache.update(keys, keys, 0)
    cache.advance(4)
    cache.rollback(1, row=1)
    assert cache.lengths == [4, 1]
    with pytest.raises(ValueError, match="row 1 holds 1"):
        cache.rollback(3, row=1)


def test_crop_is_a_rollback_of_every_row():
    cache = SlotCache(num_layers=2, rows=2)
    cache.reserve(4)
    cache.advance(4)
    cache.rollback(3, row=1)
    cache.crop(2)
    assert cache.lengths == [2, 1]


def test_ragged_rows_are_written_behind_their_own_lengths():
    cache = SlotCache(num_layers=1, rows=2)
    cache.reserve(3)
    first = torch.tensor([[1.0, 2, 3], [4, 5, 6]]).reshape(2, 1, 3, 1)
    cache.update(first, first, 0)
    cache.advance(3)
    cache.rollback(1, row=1)
    cache.reserve(2)
    second = torch.tensor([[7.0, 8], [9, 10]]).reshape(2, 1, 2, 1)
    keys, values = cache.update(second, second, 0)
    assert keys[0, 0, :, 0].tolist() == [1, 2, 3, 7, 8]
    assert keys[1, 0, :3, 0].tolist() == [4, 9, 10]  # behind its live part lies what the mask must hide
    assert torch.equal(keys, values)


def test_two_runs_on_one_runner_do_not_see_each_other(runner):
    pair = engine.Pair.from_models(runner.model, None)
    settings = engine.DecodeSettings(k=3, max_new_tokens=24)
    prompts = [[5, 6, 7, 5, 6], list(range(30))]
    alone = [engine.generate(pair, p, settings, drafter="prompt_lookup").token_ids for p in prompts]
    streams = [engine.stream(pair, p, settings, drafter="prompt_lookup") for p in prompts]
    going = list(streams)
    while going:  # one step of each in turn
        going = [s for s in going if next(s, None) is not None]
    assert [s.generation.token_ids for s in streams] == alone


def test_a_longer_prompt_after_a_short_one_works():
    """Known fault E3: caches sized by the first run."""
    torch.manual_seed(0)
    config = tf.GPT2Config(vocab_size=VOCAB, n_embd=32, n_layer=2, n_head=4, n_positions=600, eos_token_id=None)
    pair = engine.Pair.from_models(tf.GPT2LMHeadModel(config).eval(), None)
    settings = engine.DecodeSettings(k=4, max_new_tokens=20)
    for length in (20, 300, 5):
        assert len(engine.generate(pair, [3] * length, settings, drafter="prompt_lookup").token_ids) == 20
