"""Published models by name: their counts, their keys, the heads that draft for them."""

import csv
import json

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
