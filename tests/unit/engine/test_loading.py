"""load_pair on folders that tests write."""

import pytest
import torch
from helpers.models import tiny_llama
from helpers.tokenizers import byte_tokenizer
from safetensors.torch import load_file, save_file

import engine


@pytest.fixture
def folder(tmp_path):
    tokenizer = byte_tokenizer()
    tiny_llama(vocab=len(tokenizer), seed=1).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_a_folder_loads_and_decodes(folder):
    pair = engine.load_pair(target=str(folder))
    assert len(engine.generate(pair, "abc", engine.DecodeSettings(max_new_tokens=5, ignore_eos=True)).token_ids) == 5


def test_the_same_source_as_target_and_draft_is_loaded_once_and_always_accepted(folder):
    pair = engine.load_pair(target=str(folder), draft=str(folder))
    assert pair.draft.model is pair.target.model
    settings = engine.DecodeSettings(k=4, max_new_tokens=30, ignore_eos=True)
    assert engine.generate(pair, "abc", settings, drafter="model").stats.draft_acceptance_rate == 1.0


def test_a_checkpoint_with_missing_tensors_is_refused_and_not_filled_with_random_numbers(folder):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    gone = next(n for n in sorted(tensors) if "q_proj" in n)
    del tensors[gone]
    save_file(tensors, path, metadata={"format": "pt"})
    with pytest.raises(engine.EngineError, match=r"lacks 1 of the tensors.*q_proj"):
        engine.load_pair(target=str(folder))


def test_a_dtype_and_a_device_can_be_asked_for(folder):
    pair = engine.load_pair(target=str(folder), dtype="bfloat16", device="cpu")
    assert pair.target.dtype == torch.bfloat16
    with pytest.raises(engine.EngineError, match="unknown dtype"):
        engine.load_pair(target=str(folder), dtype="float8")
    with pytest.raises(engine.EngineError, match="unknown device"):
        engine.load_pair(target=str(folder), device="gpu0")


def test_no_source_or_two_sources_is_one_sentence(folder):
    with pytest.raises(engine.EngineError, match="preset name"):
        engine.load_pair()
    with pytest.raises(engine.EngineError, match="not both"):
        engine.load_pair("embedded", target=str(folder))
    with pytest.raises(engine.EngineError, match="name is empty"):
        engine.load_pair(target="")
    with pytest.raises(engine.EngineError, match="quantization"):
        engine.load_pair(target=str(folder), quantization="int3")
