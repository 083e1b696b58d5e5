"""Published models by name: their counts, their keys, the heads that draft for them."""

import csv
import json
import os

import pytest

from engine.errors import EngineError
from engine.model_shapes import (
    DEFAULT_SHAPES,
    _config_of,
    eagle3_head,
    eagle_head,
    find_shape,
    medusa_heads,
    model_names,
)
from engine.shape import ModelShape

with DEFAULT_SHAPES.open(encoding="utf-8", newline="") as stream:
    ROWS = list(csv.DictReader(stream))


@pytest.mark.parametrize("row", [r for r in ROWS if r["model_type"] != "gpt2"], ids=lambda r: r["model"])
def test_the_sizes_give_the_published_parameter_count(row):
    assert ModelShape.from_config(_config_of(row)).n_params == int(row["n_params"])


def test_every_shape_says_where_it_is_from():
    assert all(row["source"] for row in ROWS)
    assert len(model_names()) == len(ROWS)


@pytest.mark.parametrize(
    ("name", "kv_bytes"),
    [  # 2 x layers x KV heads x head_dim x 2 bytes
        ("Llama-2-70B", 2 * 80 * 8 * 128 * 2),
        ("Llama-2-7B", 2 * 32 * 32 * 128 * 2),
        ("Llama-3.2-1B", 2 * 16 * 8 * 64 * 2),
        ("Qwen2.5-7B", 2 * 28 * 4 * 128 * 2),
        ("GPT-2", 2 * 12 * 12 * 64 * 2),
    ],
)
def test_grouped_keys_are_counted_by_their_own_heads(name, kv_bytes):
    assert find_shape(name).shape.kv_bytes_per_token() == kv_bytes


def test_mixtral_8x22b_has_141_billion_parameters_and_uses_39():
    shape = find_shape("Mixtral-8x22B").shape
    assert shape.n_params / 1e9 == pytest.approx(140.6, abs=0.1)
    assert shape.n_active_params / 1e9 == pytest.approx(39.1, abs=0.2)


@pytest.mark.parametrize(
    "name",
    ["meta-llama/Llama-3.1-8B-Instruct", "llama-3-8b", "Meta-Llama-3-8B-Instruct", "LLAMA_3.1_8B", "Llama 3.1 8B"],
)
def test_a_model_is_known_by_the_names_that_people_write(name):
    assert find_shape(name).name == "Llama-3.1-8B"


@pytest.mark.parametrize(
    ("name", "longest"),
    [("Llama-3.1-8B-Instruct", 131072), ("Llama-3-8B", 8192), ("Llama-2-7b-chat", 4096), ("vicuna-7b-v1.5", 4096),
     ("CodeLlama-7b", 16384), ("GPT-2", 1024)],
)  # fmt: skip
def test_the_longest_context_is_the_names_own(name, longest):
    assert find_shape(name).shape.max_context == longest


def test_an_unknown_name_gets_the_near_ones():
    with pytest.raises(EngineError, match=r"no model 'Llama-3.1-9B' in the table.*Llama-3\.1-8B"):
        find_shape("Llama-3.1-9B")


def test_a_config_is_read_from_a_file_or_the_folder_that_has_it(tmp_path):
    row = next(r for r in ROWS if r["model"] == "Llama-3.1-8B")
    (tmp_path / "config.json").write_text(json.dumps(_config_of(row)))
    for source in (tmp_path, tmp_path / "config.json"):
        assert find_shape(str(source)).shape == find_shape("Llama-3.1-8B").shape


@pytest.mark.parametrize(
    ("text", "says"),
    [("{", "could not be read as JSON"), ("[]", "holds no JSON object"), ('{"model_type": "llama"}', "has no ")],
)
def test_a_config_that_cannot_be_used_is_refused_in_one_sentence(tmp_path, text, says):
    file = tmp_path / "config.json"
    file.write_text(text)
    with pytest.raises(EngineError, match=says) as caught:
        find_shape(str(file))
    assert "\n" not in str(caught.value)
    with pytest.raises(EngineError, match="does not exist"):
        find_shape(str(tmp_path / "absent.json"))


def test_an_eagle_head_is_one_layer_and_the_targets_output_head():
    # hidden 4096, 8 key heads of 128: 2 x 4096^2 in front; attention 2 x 4096^2 + 2 x 4096 x 1024;
    # MLP 3 x 4096 x 14336; output 128256 x 4096
    head = eagle_head(find_shape("Llama-3.1-8B"))
    expected = 2 * 4096**2 + 2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336 + 128256 * 4096
    assert (head.n_params, head.layers, head.kv_heads) == (expected, 1, 8)


def test_an_eagle_3_head_reads_token_and_state_and_drafts_from_a_small_vocabulary():
    head = eagle3_head(find_shape("Llama-3.1-8B"))
    attention = 2 * 4096 * (4096 + 2 * 1024) + 4096**2
    assert head.n_params == 3 * 4096**2 + attention + 3 * 4096 * 14336 + 32_000 * 4096
    assert eagle3_head(find_shape("GPT-2")).vocab == 32_000
    assert eagle3_head(find_shape("GPT-2"), draft_vocab=10**6).vocab == 50257


def test_medusa_heads_are_read_together():
    heads = medusa_heads(find_shape("Vicuna-7B"), heads=5)
    assert heads.n_params == 5 * (4096**2 + 32000 * 4096)


LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096,
         "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
         "vocab_size": 128256}  # fmt: skip


def from_config(folder, config):
    file = folder / "config.json"
    file.write_text(config if isinstance(config, str) else json.dumps(config))
    return find_shape(str(file))


def refusal(folder, config):
    with pytest.raises(EngineError) as caught:
        from_config(folder, config)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"model_type": "bert", "architectures": ["BertModel"]}, "BertModel is no decoder-only model"),
        ({"model_type": "bert", "architectures": None}, "bert is no decoder-only model"),
        ({"model_type": "t5", "architectures": ["T5ForConditionalGeneration"]}, "no decoder-only model"),
        ({"is_encoder_decoder": True}, "no decoder-only model"),
        ({"model_type": "mamba", "architectures": ["MambaForCausalLM"]}, "a recurrent state"),
        ({"model_type": "new", "mamba_d_state": 16}, "a recurrent state"),
        ({"model_type": "jamba", "attn_layer_period": 8}, "a recurrent state"),
        ({"block_configs": [{}]}, "layers of different sizes"),
        ({"vision_config": {}}, "more than a text model"),
        ({"architectures": "LlamaForCausalLM"}, "where a list belongs"),
    ],
)
def test_a_model_that_is_no_plain_decoder_is_refused_and_not_projected_as_one(tmp_path, change, says):
    assert says in refusal(tmp_path, LLAMA | change)


def test_a_model_with_eyes_is_sent_to_its_text_model(tmp_path):
    llava = {"model_type": "llava", "architectures": ["LlavaForConditionalGeneration"], "text_config": LLAMA}
    assert "give the config of its text model alone" in refusal(tmp_path, llava | {"vision_config": {}})


def test_a_decoder_of_a_family_nobody_knew_is_taken_by_its_fields(tmp_path):
    new = LLAMA | {"model_type": "tomorrow", "architectures": ["TomorrowForCausalLM"]}
    assert from_config(tmp_path, new).shape == from_config(tmp_path, LLAMA).shape
    bare = {name: value for name, value in LLAMA.items() if name not in ("architectures", "model_type")}
    assert from_config(tmp_path, bare).shape == from_config(tmp_path, LLAMA).shape


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"hidden_size": 4096.5}, "hidden_size in the model config is 4096.5, where a whole number belongs"),
        ({"hidden_size": float("nan")}, "hidden_size in the model config is nan"),
        ({"hidden_size": "4096"}, "hidden_size in the model config is '4096'"),
        ({"hidden_size": 10**30}, "a number of too many digits"),
        ({"hidden_size": 4095}, "hidden_size 4095 is not divisible by num_attention_heads 32"),
        ({"num_hidden_layers": True}, "num_hidden_layers in the model config is true"),
        ({"num_hidden_layers": 10**9}, "outside 1 to 10,000"),
        ({"num_attention_heads": 0}, "num_attention_heads in the model config is 0, outside 1"),
        ({"num_key_value_heads": 3}, "num_key_value_heads 3 does not divide num_attention_heads 32"),
        ({"layer_types": 5}, "layer_types in the model config is 5, where a list belongs"),
        ({"tie_word_embeddings": "no"}, "where true or false belongs"),
        ({"num_experts": 8, "num_experts_per_tok": 2, "mlp_only_layers": 5}, "mlp_only_layers"),
        ({"num_experts": 8, "num_experts_per_tok": 2, "decoder_sparse_step": 0}, "decoder_sparse_step"),
    ],
)
def test_a_size_that_is_none_is_told_by_its_name(tmp_path, change, says):
    assert says in refusal(tmp_path, LLAMA | change)


def test_a_gemma_config_that_leaves_its_tied_embedding_unsaid_has_the_published_count(tmp_path):
    gemma = {"model_type": "gemma", "architectures": ["GemmaForCausalLM"], "hidden_size": 3072, "head_dim": 256,
             "intermediate_size": 24576, "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 16,
             "vocab_size": 256000}  # fmt: skip
    assert from_config(tmp_path, gemma).shape.n_params == 8_537_680_896
    assert from_config(tmp_path, gemma | {"tie_word_embeddings": False}).shape.lookup_params > 0


def test_a_head_size_of_its_own_need_not_divide_the_hidden_size(tmp_path):
    assert from_config(tmp_path, LLAMA | {"hidden_size": 4100, "head_dim": 128}).shape.head_dim == 128


@pytest.mark.parametrize(
    ("text", "says"),
    [("[" * 200_000, "nested too deeply"), ('{"hidden_size": ' + "9" * 5000 + "}", "too many digits"),
     (" " * 5_000_001, "larger than 5 MB")],
)  # fmt: skip
def test_a_config_that_would_break_its_reader_is_refused_in_one_sentence(tmp_path, text, says):
    assert says in refusal(tmp_path, text)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(EngineError, match="is no file"):
        find_shape(str(tmp_path))


@pytest.mark.parametrize(
    ("quantization", "precision"),
    [
        (None, "bf16"),
        ({"quant_method": "gptq", "bits": 4}, "int4"),
        ({"quant_method": "gptq", "bits": 8}, "int8"),
        ({"quant_method": "awq", "w_bit": 4}, "int4"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "int4"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8"),
        ({"quant_method": "fp8"}, "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "fp4"),
        ({"quant_method": "compressed-tensors",
          "config_groups": {"g": {"weights": {"num_bits": 8, "type": "float"}}}}, "fp8"),
        ({"quant_method": "compressed-tensors",
          "config_groups": {"g": {"weights": {"num_bits": 4, "type": "int"}}}}, "int4"),
    ],
)  # fmt: skip
def test_weights_are_as_wide_as_the_config_states(tmp_path, quantization, precision):
    config = LLAMA if quantization is None else LLAMA | {"quantization_config": quantization}
    named = from_config(tmp_path, config)
    assert named.precision(None).name == precision
    assert named.precision("int8").name == "int8"  # what is asked for stands


@pytest.mark.parametrize(
    "quantization", ["x", {}, {"quant_method": "gptq", "bits": 3}, {"quant_method": "gptq", "bits": True},
                     {"quant_method": "spqr"}, {"quant_method": "compressed-tensors", "config_groups": {"g": 5}}],
)  # fmt: skip
def test_a_quantization_that_is_not_known_is_asked_for_and_not_taken_for_bf16(tmp_path, quantization):
    named = from_config(tmp_path, LLAMA | {"quantization_config": quantization})
    with pytest.raises(EngineError, match="say with --precision what comes nearest: bf16, fp8"):
        named.precision(None)
    assert named.precision("int4").name == "int4"
