"""Greedy output is token-identical to transformers' own `generate`, for every architecture, drafter and K."""

import copy

import pytest
import torch
import transformers as tf

import engine

VOCAB = 61
CONTEXT = 96
TOKENS = 24
PROMPTS = ([10], [5, 6, 7, 5, 6], list(range(3, 23)) + list(range(3, 15)))  # one token; short; past every window of 8


def tiny(config_class, **extra):
    """A random model of two or three layers whose greedy output neither ends early nor falls into one token."""
    common = {
        "vocab_size": VOCAB,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": CONTEXT,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
        "tie_word_embeddings": False,
        "initializer_range": 0.3,
    }
    return config_class(**{**common, **extra})


CONFIGS = {
    "llama": tiny(tf.LlamaConfig),
    "qwen2": tiny(tf.Qwen2Config),
    "qwen2-windows": tiny(
        tf.Qwen2Config, use_sliding_window=True, sliding_window=8, max_window_layers=1, num_hidden_layers=3
    ),
    "qwen3": tiny(tf.Qwen3Config, head_dim=8),
    "mistral-window": tiny(tf.MistralConfig, sliding_window=8, head_dim=8),
    "gemma": tiny(tf.GemmaConfig, head_dim=8),
    "gemma2-windows": tiny(
        tf.Gemma2Config,
        head_dim=8,
        sliding_window=8,
        query_pre_attn_scalar=8,
        num_hidden_layers=4,
        initializer_range=0.6,
    ),
    "gemma3-windows": tiny(
        tf.Gemma3TextConfig, head_dim=8, sliding_window=8, query_pre_attn_scalar=8, num_hidden_layers=6
    ),
    "llama4-chunks": tiny(
        tf.Llama4TextConfig,
        intermediate_size_mlp=48,
        num_hidden_layers=4,
        head_dim=8,
        num_local_experts=2,
        num_experts_per_tok=1,
        attention_chunk_size=8,
    ),
    "gpt2": tf.GPT2Config(
        vocab_size=VOCAB,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=CONTEXT,
        bos_token_id=None,
        eos_token_id=None,
        initializer_range=0.3,
    ),
    "phi": tiny(tf.PhiConfig, num_key_value_heads=4),
    "phi3": tiny(tf.Phi3Config),
    "mixtral-moe": tiny(tf.MixtralConfig, num_local_experts=4, num_experts_per_tok=2, sliding_window=None),
    "qwen2-moe": tiny(
        tf.Qwen2MoeConfig,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=24,
        shared_expert_intermediate_size=24,
    ),
    "qwen3-moe": tiny(tf.Qwen3MoeConfig, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, head_dim=8),
}


def build(config, seed=0, attention=None):
    torch.manual_seed(seed)
    config = copy.deepcopy(config)
    return tf.AutoModelForCausalLM.from_config(config, attn_implementation=attention).eval()


def reference(model, prompt, count):
    """transformers' own greedy decoding."""
    ids = torch.tensor([prompt])
    out = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, do_sample=False, pad_token_id=0
    )
    return out[0, len(prompt) :].tolist()


def decode(pair, prompt, drafter, k=5, count=TOKENS, **settings):
    settings = engine.DecodeSettings(k=k, max_new_tokens=count, **settings)
    return engine.generate(pair, prompt, settings, drafter=drafter)


@pytest.fixture(autouse=True)
def one_thread():
    """Models this small run faster on one thread, and the same."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", params=CONFIGS, ids=str)
def models(request):
    config = CONFIGS[request.param]
    return build(config, seed=1), build(config, seed=2)


@pytest.mark.parametrize("prompt", PROMPTS, ids=["one-token", "short", "past-the-window"])
def test_every_drafter_at_every_k_equals_generate(models, prompt):
    target, other = models
    pair = engine.Pair.from_models(target, None, draft=other)
    expected = reference(target, prompt, TOKENS)
    assert len(set(expected)) > 3, "a constant output would hide a broken cache"
    assert decode(pair, prompt, "none").token_ids == expected
    for drafter in ("prompt_lookup", "model"):
        for k in range(1, 9):
            assert decode(pair, prompt, drafter, k).token_ids == expected, (drafter, k)


def test_a_draft_that_is_its_target_is_accepted_every_time(models):
    target, _ = models
    pair = engine.Pair.from_models(target, None, draft=copy.deepcopy(target))
    for k in range(1, 9):
        stats = decode(pair, PROMPTS[2], "model", k).stats
        assert stats.draft_acceptance_rate == 1.0, k
        assert stats.rejected == 0


@pytest.mark.parametrize("name", ["mistral-window", "gemma2-windows", "gemma3-windows", "llama"])
def test_eager_attention_equals_generate_past_the_window(name):
    target, other = build(CONFIGS[name], 1, "eager"), build(CONFIGS[name], 2, "eager")
    pair = engine.Pair.from_models(target, None, draft=other)
    expected = reference(target, PROMPTS[2], TOKENS)
    for drafter in ("none", "prompt_lookup", "model"):
        assert decode(pair, PROMPTS[2], drafter, 4).token_ids == expected


@pytest.mark.parametrize("verifier", engine.VERIFIERS)
def test_every_verifier_is_greedy_at_temperature_zero(verifier):
    target, other = build(CONFIGS["llama"], 1), build(CONFIGS["llama"], 2)
    pair = engine.Pair.from_models(target, None, draft=other)
    expected = reference(target, PROMPTS[1], TOKENS)
    settings = engine.DecodeSettings(k=4, max_new_tokens=TOKENS)
    for drafter in ("none", "prompt_lookup", "model"):
        assert engine.generate(pair, PROMPTS[1], settings, drafter, verifier).token_ids == expected


def test_a_repetition_penalty_sees_the_drafted_tokens_before_each_position():
    target, other = build(CONFIGS["llama"], 1), build(CONFIGS["llama"], 2)
    pair = engine.Pair.from_models(target, None, draft=other)
    ids = torch.tensor([PROMPTS[1]])
    expected = target.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=TOKENS,
        do_sample=False,
        repetition_penalty=1.3,
        pad_token_id=0,
    )[0, ids.shape[1] :].tolist()
    for drafter in ("none", "prompt_lookup", "model"):
        for k in (1, 3, 8):
            assert decode(pair, PROMPTS[1], drafter, k, repetition_penalty=1.3).token_ids == expected


def test_dynamic_rope_stops_at_the_context_where_its_cached_rotation_would_go_stale():
    config = tiny(
        tf.LlamaConfig,
        max_position_embeddings=64,
        rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0},
    )
    target = build(config, 1)
    pair = engine.Pair.from_models(target, None, draft=build(config, 2))
    prompt = list(range(3, 43))
    expected = reference(target, prompt, 64 - len(prompt))
    for drafter in ("none", "prompt_lookup", "model"):
        result = decode(pair, prompt, drafter, 5, count=60)
        assert result.finish_reason == "length"
        assert result.token_ids == expected


def test_longrope_is_held_to_its_original_context():
    config = tiny(
        tf.Phi3Config,
        max_position_embeddings=128,
        original_max_position_embeddings=32,
        rope_parameters={
            "rope_type": "longrope",
            "rope_theta": 10000.0,
            "short_factor": [1.0] * 4,
            "long_factor": [4.0] * 4,
            "original_max_position_embeddings": 32,
        },
    )
    pair = engine.Pair.from_models(build(config, 1), None)
    assert pair.context_length == 32
    assert len(decode(pair, [5] * 20, "prompt_lookup", count=100).token_ids) == 12


STATEFUL = {
    "mamba": tf.MambaConfig(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, state_size=4),
    "qwen3-next": tf.Qwen3NextConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=32,
        num_experts=2,
        num_experts_per_tok=1,
        moe_intermediate_size=16,
        shared_expert_intermediate_size=16,
        linear_num_key_heads=2,
        linear_num_value_heads=2,
        head_dim=8,
        layer_types=["linear_attention", "full_attention"],
    ),
    "recurrent-gemma": tf.RecurrentGemmaConfig(
        vocab_size=VOCAB, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=32
    ),
}


@pytest.mark.parametrize("name", STATEFUL)
def test_a_model_with_recurrent_state_is_refused_by_name_and_reason(name):
    model = tf.AutoModelForCausalLM.from_config(STATEFUL[name])
    with pytest.raises(engine.UnsupportedModelError, match="running state") as refusal:
        engine.Pair.from_models(model, None)
    assert type(model).__name__ in str(refusal.value)


def test_an_encoder_decoder_model_is_refused():
    t5 = tf.T5ForConditionalGeneration(
        tf.T5Config(vocab_size=VOCAB, d_model=16, d_ff=16, num_layers=1, num_heads=2, d_kv=8)
    )
    with pytest.raises(engine.UnsupportedModelError, match="encoder-decoder"):
        engine.Pair.from_models(t5, None)


LOOKS_AHEAD = {
    "roberta": (tf.RobertaForCausalLM, tf.RobertaConfig),
    "electra": (tf.ElectraForCausalLM, tf.ElectraConfig),
    "ernie": (tf.ErnieForCausalLM, tf.ErnieConfig),
}


@pytest.mark.parametrize("name", LOOKS_AHEAD)
def test_a_model_that_looks_ahead_is_refused_by_its_own_arithmetic(name):
    """Their class says CausalLM and their config does not make them so; decoding them would be silently wrong."""
    model_class, config_class = LOOKS_AHEAD[name]
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    torch.manual_seed(0)
    model = model_class(config_class(vocab_size=VOCAB, **shape)).eval()
    with pytest.raises(engine.UnsupportedModelError, match="decoder-only"):
        engine.Pair.from_models(model, None)
    causal = model_class(config_class(vocab_size=VOCAB, is_decoder=True, **shape)).eval()
    assert engine.Pair.from_models(causal, None).target.vocab_size == VOCAB


def test_a_model_that_keeps_no_cache_is_refused():
    model = tf.OpenAIGPTLMHeadModel(tf.OpenAIGPTConfig(vocab_size=VOCAB, n_embd=32, n_layer=2, n_head=4)).eval()
    with pytest.raises(engine.UnsupportedModelError, match="no cache"):
        engine.Pair.from_models(model, None)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_passes_the_check_that_allows_for_its_rounding(dtype):
    for name in ("llama", "gemma2-windows", "mixtral-moe", "gpt2"):
        assert engine.Pair.from_models(build(CONFIGS[name], 1).to(dtype), None).dtype == str(dtype)[6:]


def test_an_encoder_only_model_is_refused():
    bert = tf.BertConfig(
        vocab_size=VOCAB, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    for model in (tf.BertForMaskedLM(bert), tf.BertModel(bert), tf.BertLMHeadModel(bert)):
        with pytest.raises(engine.UnsupportedModelError):
            engine.Pair.from_models(model, None)
