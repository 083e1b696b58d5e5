"""Parameters counted from a config alone, held to the models that transformers itself builds from it (without memory:
on torch's meta device)."""

import pytest
import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

from engine.model_config import COUNTED, ConfigReader
from engine.shape import ModelShape

SIZES = {
    "num_hidden_layers": 5, "hidden_size": 768, "intermediate_size": 2000, "num_attention_heads": 12,
    "num_key_value_heads": 4, "head_dim": 64, "vocab_size": 50_000, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2,
}  # fmt: skip
# What a config may say beyond sizes, of families that say it in their own words.
SAID = [
    ("llama4_text", {"interleave_moe_layer_step": 2, "intermediate_size_mlp": 3000, "moe_layers": None}),
    ("llama4_text", {"moe_layers": [1, 3], "intermediate_size_mlp": 3000}),
    ("ernie4_5_moe", {"moe_layer_interval": 2, "moe_layer_end_index": -1}),
    ("ernie4_5_moe", {"moe_layer_start_index": 2, "moe_layer_end_index": 3}),
    ("granitemoeshared", {"shared_intermediate_size": 500}),
    ("qwen2_moe", {"decoder_sparse_step": 2}),
    ("qwen2_moe", {"mlp_only_layers": [0, 3]}),
    ("glm4_moe", {"first_k_dense_replace": 2}),
    ("llama", {"attention_bias": True, "mlp_bias": True}),
]


def built(kind, **said):
    """(the config as a file would have it, parameters of the model that transformers builds from it)"""
    config = CONFIG_MAPPING[kind](**SIZES, **said)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    return config.to_dict(), sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "apart"])
@pytest.mark.parametrize("kind", sorted(COUNTED))
def test_a_family_is_counted_as_transformers_builds_it(kind, tied):
    config, real = built(kind, tie_word_embeddings=tied)
    # Norms and biases that a config does not mention are within this; a matrix or an expert more is far beyond.
    assert ModelShape.from_config(config).n_params == pytest.approx(real, rel=5e-3)


@pytest.mark.parametrize(("kind", "said"), SAID, ids=[f"{kind}-{'-'.join(said)}" for kind, said in SAID])
def test_what_a_config_says_of_its_layers_is_counted(kind, said):
    config, real = built(kind, **said)
    assert ModelShape.from_config(config).n_params == pytest.approx(real, rel=5e-3)


@pytest.mark.parametrize("kind", sorted(COUNTED))
def test_an_embedding_is_shared_where_the_family_shares_it_and_its_config_does_not_say(kind):
    assert ConfigReader({"model_type": kind}).tied() == CONFIG_MAPPING[kind]().tie_word_embeddings


@pytest.mark.parametrize("kind", ["nemotron", "arcee", "aria_text", "gemma4_text", "deepseek_v4", "gpt2"])
def test_a_family_that_is_known_to_be_counted_wrong_is_refused_by_name(kind):
    with pytest.raises(ValueError, match=rf"the parameters of {kind} cannot be counted from its config"):
        ModelShape.from_config({"model_type": kind, **SIZES})
    assert ModelShape.from_config({"model_type": kind, **SIZES}, n_params=10**9).n_params == 10**9


@pytest.mark.parametrize("field", ["moe_expert_count", "num_routed_expert", "moe_topk"])
def test_a_new_family_with_experts_in_words_of_its_own_is_refused_by_the_field(field):
    new = {"model_type": "of-tomorrow", **SIZES}
    assert ModelShape.from_config(new) == ModelShape.from_config(new | {"model_type": "llama"})
    with pytest.raises(ValueError, match=rf"of of-tomorrow cannot be counted from its config \({field} is not read\)"):
        ModelShape.from_config(new | {field: 8})


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"model_type": ["llama"]}, "model_type in the model config is \\['llama'\\], where a text belongs"),
        ({"model_type": 0}, "model_type in the model config is 0, where a text belongs"),
        ({"moe_layers": ["1", "3"]}, "moe_layers in the model config holds '1', where a layer's number belongs"),
        ({"moe_layers": [True, False]}, "moe_layers in the model config holds true, where a layer's number belongs"),
        ({"mlp_only_layers": [None]}, "mlp_only_layers in the model config holds None, where a layer's number"),
    ],
)
def test_what_is_no_family_or_no_layer_is_refused_by_its_name(said, sentence):
    experts = {"num_local_experts": 8, "num_experts_per_tok": 2}
    with pytest.raises(ValueError, match=sentence):
        ModelShape.from_config({"model_type": "llama4_text", **SIZES, **experts, **said})


def test_a_token_of_llama_4_uses_one_routed_expert_the_shared_one_and_the_dense_layers():
    # Every second of 48 layers has 128 experts: 17 B of 400 B, as published for Maverick's text part.
    maverick = ModelShape.from_config({
        "model_type": "llama4_text", "num_hidden_layers": 48, "hidden_size": 5120, "intermediate_size": 8192,
        "intermediate_size_mlp": 16384, "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128,
        "vocab_size": 202_048, "num_local_experts": 128, "num_experts_per_tok": 1, "interleave_moe_layer_step": 2,
        "tie_word_embeddings": False,
    })  # fmt: skip
    assert maverick.n_params == pytest.approx(400e9, rel=0.01)
    assert maverick.n_active_params == pytest.approx(17e9, rel=0.02)
