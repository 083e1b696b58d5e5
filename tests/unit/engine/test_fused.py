"""The fused forward says what transformers' own forward says, for every family that it stands in for."""

import copy

import pytest
import torch
import transformers as tf
from helpers.models import tiny_gpt2, tiny_llama

from engine import DecodeSettings, EngineError, Pair, generate
from engine.cache import SlotCache
from engine.fast import _agrees, make_fast
from engine.fused import FusedDecoder, can_fuse
from engine.linear import LinearModule, PlainLinear

SIZES = {
    "vocab_size": 96, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 512, "initializer_range": 0.3, "bos_token_id": None,
    "eos_token_id": None, "pad_token_id": None, "tie_word_embeddings": False,
}  # fmt: skip


def rope(kind, **more):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10000.0, **more}}


MODELS = {
    "llama": (tf.LlamaForCausalLM, tf.LlamaConfig, {}),
    "llama, one head of keys": (tf.LlamaForCausalLM, tf.LlamaConfig, {"num_key_value_heads": 1}),
    "llama, as many heads of keys": (tf.LlamaForCausalLM, tf.LlamaConfig, {"num_key_value_heads": 4}),
    "llama, biases": (tf.LlamaForCausalLM, tf.LlamaConfig, {"attention_bias": True, "mlp_bias": True}),
    "llama, wide heads": (tf.LlamaForCausalLM, tf.LlamaConfig, {"head_dim": 16}),
    "llama, tied": (tf.LlamaForCausalLM, tf.LlamaConfig, {"tie_word_embeddings": True}),
    "llama 3.1": (
        tf.LlamaForCausalLM,
        tf.LlamaConfig,
        rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64),
    ),
    "llama, linear rope": (tf.LlamaForCausalLM, tf.LlamaConfig, rope("linear", factor=2.0)),
    "llama, yarn": (
        tf.LlamaForCausalLM,
        tf.LlamaConfig,
        rope("yarn", factor=4.0, original_max_position_embeddings=128),
    ),
    "mistral without a window": (tf.MistralForCausalLM, tf.MistralConfig, {"sliding_window": None}),
    "qwen2": (tf.Qwen2ForCausalLM, tf.Qwen2Config, {}),
    "qwen3": (tf.Qwen3ForCausalLM, tf.Qwen3Config, {"head_dim": 8}),
}


def model_of(name, seed=0):
    kind, config, extra = MODELS[name]
    torch.manual_seed(seed)
    model = kind(config(**{**SIZES, **extra})).eval()
    for parameter in model.parameters():  # norms and biases that are all ones or zeros would hide their own absence
        if parameter.ndim == 1:
            parameter.data.normal_(0.5, 0.5)
    return model


def ids_of(count, seed=0):
    return torch.randint(0, 96, (count,), generator=torch.Generator().manual_seed(seed)).tolist()


@torch.inference_mode()
def read(fused, cache, ids, keep):
    cache.reserve(len(ids))
    out = fused.forward(torch.tensor([ids]), cache, keep)[0]
    cache.advance(len(ids))
    return out


@pytest.mark.parametrize("name", MODELS)
def test_chunks_of_any_width_give_the_models_own_logits(name):
    model = model_of(name)
    assert can_fuse(model)
    ids = ids_of(300)  # past the first rotation table and past a growth of the cache
    with torch.inference_mode():
        own = model(input_ids=torch.tensor([ids])).logits[0]
    fused, cache, got = FusedDecoder(model, PlainLinear, release=False), SlotCache(3), []
    at = 0
    for width in (1, 5, 1, 130, 2, 161):
        got.append(read(fused, cache, ids[at : at + width], width))
        at += width
    assert at == len(ids)
    assert torch.allclose(torch.cat(got), own, atol=2e-4 * float(own.std()))


def test_a_rolled_back_token_leaves_no_trace():
    fused = FusedDecoder(model_of("llama"), PlainLinear, release=False)
    clean, dirty = SlotCache(3), SlotCache(3)
    read(fused, clean, [1, 2, 3], 1)
    read(fused, dirty, [1, 2, 3], 1)
    read(fused, dirty, [9, 8, 7, 6], 4)
    dirty.rollback(3)
    assert torch.equal(read(fused, clean, [4, 5], 2), read(fused, dirty, [4, 5], 2))


def test_only_the_last_positions_are_given_back():
    fused = FusedDecoder(model_of("llama"), PlainLinear, release=False)
    every = read(fused, SlotCache(3), ids_of(9), 9)
    last = read(fused, SlotCache(3), ids_of(9), 2)
    assert last.shape == (2, 96)
    assert torch.allclose(last, every[-2:], atol=1e-4)


@pytest.mark.parametrize("name", ["llama", "qwen3"])
@torch.inference_mode()
def test_rows_of_different_lengths_each_see_only_their_own_tokens(name):
    fused = FusedDecoder(model_of(name), PlainLinear, release=False)
    texts = [ids_of(3, 1), ids_of(40, 2), ids_of(11, 3)]
    cache = SlotCache(3, rows=3)
    cache.reserve(40)
    padded = torch.tensor([[*t, *[0] * (40 - len(t))] for t in texts])
    fused.forward(padded, cache, 40)
    cache.advance(40)
    for row, text in enumerate(texts):
        cache.rollback(len(text), row)
    cache.reserve(4)
    block = torch.tensor([[5, 6, 7, 8]] * 3)
    together = fused.forward(block, cache, 4)  # [3, 4, V]
    for row, text in enumerate(texts):
        alone = read(fused, SlotCache(3), [*text, 5, 6, 7, 8], 4)
        assert torch.allclose(together[row], alone, atol=1e-3)


WINDOWED = {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 0}


@pytest.mark.parametrize(
    ("kind", "config", "extra"),
    [
        (tf.MistralForCausalLM, tf.MistralConfig, {"sliding_window": 8}),
        (tf.Qwen2ForCausalLM, tf.Qwen2Config, WINDOWED),
        (tf.LlamaForCausalLM, tf.LlamaConfig, {"hidden_act": "gelu"}),
        (tf.LlamaForCausalLM, tf.LlamaConfig, rope("dynamic", factor=2.0)),
        (tf.GemmaForCausalLM, tf.GemmaConfig, {"head_dim": 8}),
    ],
)
def test_what_is_not_the_plain_shape_is_not_fused(kind, config, extra):
    assert not can_fuse(kind(config(**{**SIZES, **extra})))


def test_a_model_that_only_looks_the_same_is_found_out_by_its_own_logits():
    class LlamaForCausalLM(tf.LlamaForCausalLM):
        def forward(self, *args, **kwargs):
            out = super().forward(*args, **kwargs)
            out.logits = out.logits * 0.5
            return out

    model = LlamaForCausalLM(tf.LlamaConfig(**SIZES)).eval()
    assert not _agrees(model)
    assert len(model.model.layers) == 3, "the check leaves the model as it was"


def test_a_fused_model_lets_go_of_its_own_weights():
    model = tiny_llama()
    assert make_fast(model, "none") is not None
    assert sum(p.numel() for p in model.parameters()) == 64 * 32, "the embedding alone, shared with the fused form"


@pytest.mark.parametrize("quantization", ["none", "int8", "int4"])
@pytest.mark.parametrize("make", [tiny_llama, tiny_gpt2], ids=["fused", "as it is"])
@pytest.mark.parametrize("drafter", ["prompt_lookup", "model"])
def test_fast_weights_keep_greedy_decoding_equal_to_plain(make, quantization, drafter):
    target, draft = make(seed=1), make(seed=2)
    pair = Pair.from_models(target, None, draft, quantization=quantization)
    prompt = [7, 8, 9, 10] * 3
    settings = DecodeSettings(k=4, max_new_tokens=40)
    plain = generate(pair, prompt, settings, drafter="none")
    assert generate(pair, prompt, settings, drafter=drafter).token_ids == plain.token_ids


def test_packing_keeps_the_numbers_and_int8_nearly():
    original = tiny_llama(seed=4, vocab=96)
    ids = torch.tensor([ids_of(24)])
    with torch.inference_mode():
        own = original(input_ids=ids).logits[0]
    for quantization, allowed in (("none", 1e-5), ("int8", 0.05), ("int4", 0.4)):
        pair = Pair.from_models(copy.deepcopy(original), None, quantization=quantization)
        got = pair.target.forward(ids[0].tolist(), pair.target.new_cache(), keep=24)
        assert (got - own).abs().mean() <= allowed * own.std(), quantization


def test_a_sliding_window_model_is_packed_where_it_stands_and_says_the_same():
    torch.manual_seed(0)
    model = tf.MistralForCausalLM(tf.MistralConfig(**{**SIZES, "sliding_window": 8})).eval()
    ids = ids_of(30)
    with torch.inference_mode():
        own = model(input_ids=torch.tensor([ids])).logits[0]
    pair = Pair.from_models(model, None, quantization="none")
    assert pair.target.fused is None
    assert type(model.model.layers[0].mlp.up_proj) is not torch.nn.Linear
    got = pair.target.forward(ids, pair.target.new_cache(), keep=30)
    assert torch.allclose(got, own, atol=1e-3)


def test_a_model_whose_code_reads_its_weights_is_left_as_it_is():
    class Odd(tf.MistralForCausalLM):
        def forward(self, *args, **kwargs):
            assert self.lm_head.weight.sum().isfinite()
            return super().forward(*args, **kwargs)

    torch.manual_seed(0)
    model = Odd(tf.MistralConfig(**{**SIZES, "sliding_window": 8})).eval()
    assert make_fast(model, "int8") is None
    assert not any(isinstance(m, LinearModule) for m in model.modules())


def test_models_handed_in_are_left_as_they_are():
    model = tiny_llama()
    before = {n: p.clone() for n, p in model.named_parameters()}
    pair = Pair.from_models(model, None)
    generate(pair, [1, 2, 3], DecodeSettings(max_new_tokens=5))
    assert pair.target.fused is None
    assert before.keys() == dict(model.named_parameters()).keys()
    assert all(torch.equal(before[n], p) for n, p in model.named_parameters())
    assert pair.describe()["quantization"] == "none"


def test_tied_weights_are_counted_once():
    torch.manual_seed(0)
    model = tf.LlamaForCausalLM(tf.LlamaConfig(**{**SIZES, "tie_word_embeddings": True}))
    pair = Pair.from_models(model, None, quantization="none")
    attention = 32 * 32 * 2 + 32 * 16 * 2
    assert pair.target.n_params == 96 * 32 + 3 * (attention + 3 * 32 * 64 + 2 * 32) + 32


def hooked(model):
    model.model.layers[2].mlp.register_forward_hook(lambda module, given, out: out + 1.0)


def scaled(model):
    model.model.layers[2].self_attn.scaling = 3.0


def blunted(model):
    model.model.layers[2].input_layernorm.variance_epsilon = 5.0


def replaced(model):
    model.model.layers[2].mlp.forward = lambda x: x * 0.0


def tied(model):
    model.model.layers[2] = model.model.layers[1]


@pytest.mark.parametrize("change", [hooked, scaled, blunted, replaced, tied])
def test_a_change_to_a_later_layer_is_not_lost(change):
    """Only the first layers are compared by their logits."""
    model = model_of("llama")
    change(model)
    assert not can_fuse(model)


def test_a_model_whose_weights_were_taken_over_is_refused_with_a_sentence():
    model = tiny_llama()
    Pair.from_models(model, None, quantization="int8")
    for again in (None, "none"):
        with pytest.raises(EngineError, match="load the model again"):
            Pair.from_models(model, None, quantization=again)


def test_a_draft_that_shares_the_targets_weights_is_refused_with_a_sentence():
    target, draft = tiny_llama(layers=3), tiny_llama(layers=2)
    draft.model.layers = target.model.layers[:2]
    with pytest.raises(EngineError, match="share weights"):
        Pair.from_models(target, None, draft, quantization="none")
    assert Pair.from_models(target, None, draft).draft is not None


def test_weights_that_lie_across_memory_are_quantised_like_any_others():
    model = tiny_llama()
    projection = model.model.layers[0].self_attn.o_proj
    projection.weight.data = projection.weight.data.t().contiguous().t()
    plain = Pair.from_models(copy.deepcopy(model), None, quantization="int8")
    assert generate(plain, [1, 2, 3], DecodeSettings(max_new_tokens=4)).token_ids


def test_a_model_that_cannot_run_gets_the_same_sentence_as_without_packing():
    torch.manual_seed(0)
    model = tf.MistralForCausalLM(tf.MistralConfig(**{**SIZES, "sliding_window": 8})).eval()
    model.lm_head.to(torch.float64)
    with pytest.raises(EngineError, match="cannot be read token by token"):
        Pair.from_models(model, None, quantization="int8")
