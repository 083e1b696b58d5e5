"""Folders and files that are not fit are refused with a sentence."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
from helpers.weights import copied, refused

import engine.weights as weights
from engine.weights import WeightsError, _gguf


def test_a_sound_folder_is_used_where_it_lies(cache: Path, folder: Path) -> None:
    assert weights.resolve(str(folder)) == folder
    assert weights.is_cached(str(folder)) == folder


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"model_type": "bert", "architectures": ["BertForMaskedLM"]}, "not a decoder-only language model"),
        ({"model_type": "bert", "architectures": ["BertModel"]}, "not a decoder-only language model"),
        ({"model_type": "modernbert", "architectures": ["ModernBertForMaskedLM"]}, "not a decoder-only"),
        ({"model_type": "t5", "architectures": ["T5ForConditionalGeneration"]}, "encoder-decoder"),
        ({"is_encoder_decoder": True}, "encoder-decoder"),
        ({"architectures": ["LlamaForSequenceClassification"]}, "not a decoder-only language model"),
        ({"architectures": ["LlamaModel"]}, "not a decoder-only language model"),
        ({"model_type": "vit", "architectures": ["ViTForImageClassification"]}, "not a decoder-only"),
        ({"model_type": "newarch", "architectures": ["NewForCausalLM"]}, "'newarch', which transformers"),
        ({"auto_map": {"AutoModelForCausalLM": "modeling.Mine"}}, "trust_remote_code"),
    ],
)
def test_a_model_of_the_wrong_kind_is_refused_by_its_config(
    cache: Path, tmp_path: Path, folder: Path, config: dict[str, Any], says: str
) -> None:
    assert says in refused(copied(folder, tmp_path / "m", **config))


def test_remote_code_is_accepted_only_when_asked_for(cache: Path, tmp_path: Path, folder: Path) -> None:
    own = copied(folder, tmp_path / "m", auto_map={"AutoModelForCausalLM": "modeling.Mine"}, model_type="mine")
    assert weights.resolve(str(own), trust_remote_code=True) == own


def test_a_bert_that_was_trained_as_a_decoder_is_accepted(cache: Path, tmp_path: Path, folder: Path) -> None:
    made = copied(folder, tmp_path / "m", model_type="bert", architectures=["BertLMHeadModel"], is_decoder=True)
    assert weights.resolve(str(made)) == made


def test_a_folder_without_config_is_refused_and_a_gguf_in_it_is_pointed_out(
    cache: Path, tmp_path: Path, gguf_file: Path
) -> None:
    assert "no config.json" in refused(tmp_path)
    shutil.copy(gguf_file, tmp_path / "some.gguf")
    assert "some.gguf itself" in refused(tmp_path)


@pytest.mark.parametrize("pickle", ["pytorch_model.bin", "model.pt", "model.pth"])
def test_pickle_checkpoints_are_refused(cache: Path, tmp_path: Path, folder: Path, pickle: str) -> None:
    made = copied(folder, tmp_path / "m")
    (made / "model.safetensors").rename(made / pickle)
    assert "pickle" in refused(made)
    assert "pickle" in refused(made / pickle)


def test_a_truncated_or_garbled_safetensors_file_is_refused(cache: Path, tmp_path: Path, folder: Path) -> None:
    made = copied(folder, tmp_path / "m")
    file = made / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    assert f"{len(whole) - 1:,} bytes of {len(whole):,}" in refused(made)
    file.write_bytes(whole[:100])
    assert "truncated" in refused(made)
    file.write_bytes(struct.pack("<Q", 10) + b"not json!!")
    assert "not a safetensors file" in refused(made)
    file.write_bytes(b"")
    assert "truncated" in refused(made)
    file.write_bytes(whole)
    assert weights.resolve(str(made)) == made


def test_a_shard_that_the_index_names_and_nobody_copied_is_missed(cache: Path, tmp_path: Path, folder: Path) -> None:
    made = copied(folder, tmp_path / "m")
    (made / "model.safetensors").rename(made / "model-00001-of-00002.safetensors")
    shards = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (made / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    assert "model-00002-of-00002.safetensors is missing" in refused(made)


def test_a_folder_without_tokenizer_is_refused(cache: Path, tmp_path: Path, folder: Path) -> None:
    made = copied(folder, tmp_path / "m")
    (made / "tokenizer.json").unlink()
    assert "no tokenizer" in refused(made)


def test_a_config_that_is_not_json_is_refused(cache: Path, tmp_path: Path, folder: Path) -> None:
    made = copied(folder, tmp_path / "m")
    (made / "config.json").write_text("{")
    assert "not valid JSON" in refused(made)
    (made / "config.json").write_text("[]")
    assert "not a JSON object" in refused(made)


def test_a_config_that_is_json_and_still_nonsense_is_refused_in_one_sentence(
    cache: Path, tmp_path: Path, folder: Path
) -> None:
    made = copied(folder, tmp_path / "m", architectures=5)
    assert '"architectures" in the config.json' in refused(made)
    (made / "config.json").write_text("[" * 100_000 + "]" * 100_000)
    assert "config.json" in refused(made)


def test_a_kind_of_model_that_has_no_default_config_is_refused_and_does_not_break(
    cache: Path, tmp_path: Path, folder: Path
) -> None:
    made = copied(folder, tmp_path / "m", model_type="nougat", architectures=["NougatModel"])
    assert "nougat" in refused(made).lower()


@pytest.mark.parametrize(
    "index",
    [
        "[]",
        "{}",
        '{"weight_map": {"a": 1, "b": "x.safetensors"}}',
        '{"weight_map": {"a": {}}}',
        '{"weight_map": 3}',
        "[" * 100_000,
    ],
    ids=["list", "no map", "number", "object", "map is a number", "deep"],
)
def test_an_index_of_weight_files_with_any_other_json_in_it_is_refused(
    cache: Path, tmp_path: Path, folder: Path, index: str
) -> None:
    made = copied(folder, tmp_path / "m")
    (made / "model.safetensors.index.json").write_text(index)
    assert "not a valid index" in refused(made)
    assert weights.is_cached(str(made)) is None


def test_a_shard_whose_name_no_disk_can_hold_is_missing(cache: Path, tmp_path: Path, folder: Path) -> None:
    made = copied(folder, tmp_path / "m")
    (made / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "x" * 5000}}))
    assert "is missing though" in (message := refused(made))
    assert len(message) < 500


@pytest.mark.parametrize("offsets", ["zz", [0], [4, 0], [0, "4"], {}, None, 7])
def test_a_safetensors_header_whose_offsets_are_not_two_numbers_is_refused(
    cache: Path, tmp_path: Path, folder: Path, offsets: Any
) -> None:
    made = copied(folder, tmp_path / "m")
    header = json.dumps({"a": {"dtype": "F32", "shape": [1], "data_offsets": offsets}}).encode()
    (made / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    assert "not a safetensors file" in refused(made)


@pytest.mark.parametrize("keep", [0, 3, 30, 2000, -1000])
def test_a_truncated_gguf_is_refused_and_the_whole_one_works(
    cache: Path, tmp_path: Path, gguf_file: Path, keep: int
) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(gguf_file.read_bytes()[:keep])
    assert "GGUF" in (message := refused(cut)) or "truncated" in message
    shutil.copy(gguf_file, cut)
    assert weights.resolve(str(cut)).is_dir()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", "No model was named"),
        ("embeded", 'did you mean "embedded"'),
        ("Qwen2.5-7b ", 'did you mean "qwen2.5-7b"'),
        ("zzz", "use one of embedded"),
        ("./nowhere", "no file or folder"),
        ("nowhere/model.gguf", "no file or folder"),
    ],
)
def test_an_unknown_name_is_met_with_the_nearest_or_the_choices(cache: Path, name: str, says: str) -> None:
    assert says in refused(name)


@pytest.mark.parametrize(
    "name",
    ["x" * 5000, "a/" + "b" * 5000, "/" + "x" * 5000, "x\0y", "a\nb", "~no-such-user/x"],
    ids=["long", "long hub id", "long path", "NUL", "line break", "nobody"],
)
def test_a_name_that_no_disk_can_hold_is_met_with_one_short_sentence(cache: Path, name: str) -> None:
    assert len(refused(name)) < 400
    assert weights.is_cached(name) is None
    with pytest.raises(WeightsError):
        weights.path(name)


def test_a_model_is_named_by_text_or_a_path_and_by_nothing_else(cache: Path, folder: Path) -> None:
    assert weights.resolve(folder) == folder  # type: ignore[arg-type]
    for wrong in (None, 5, ["embedded"]):
        with pytest.raises(WeightsError, match="named by text, not by"):
            weights.resolve(wrong)  # type: ignore[arg-type]


def test_a_library_that_fails_with_one_bare_word_is_put_into_a_sentence(
    cache: Path, gguf_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def convert(*_: Any) -> dict[str, Any]:
        raise KeyError("rope_theta")

    monkeypatch.setattr(_gguf, "convert", convert)
    assert "cannot be converted (KeyError: 'rope_theta')" in refused(gguf_file)


def test_a_file_that_is_no_model_is_refused(cache: Path, tmp_path: Path, folder: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    assert "neither a folder nor a .gguf" in refused(tmp_path / "notes.txt")
    assert "give the folder" in refused(folder / "model.safetensors")
