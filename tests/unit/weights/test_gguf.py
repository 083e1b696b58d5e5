"""A GGUF file becomes the same model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.weights import VOCABULARY, loaded, refused, tiny_llama, write_gguf

import engine.weights as weights


def test_an_unquantised_gguf_gives_back_the_weights_that_went_in(cache: Path, gguf_file: Path, model: Any) -> None:
    import torch

    back, _ = loaded(weights.resolve(str(gguf_file)))
    wanted = model.state_dict()
    assert back.state_dict().keys() == wanted.keys()
    assert {path.stat().st_mode for path in weights.path(str(gguf_file)).iterdir()} == {gguf_file.stat().st_mode}
    assert all(torch.equal(value, wanted[name]) for name, value in back.state_dict().items())
    ids = torch.tensor([[5, 9, 40, 7, 100]])
    with torch.no_grad():
        assert torch.equal(back(ids).logits, model(ids).logits)


@pytest.mark.parametrize("kind", ["Q4_1", "Q8_0"])
def test_a_quantised_gguf_gives_exactly_the_values_of_transformers_loader(
    cache: Path, tmp_path: Path, model: Any, kind: str
) -> None:
    import torch
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    file = write_gguf(tmp_path / "q.gguf", model, kind=kind)
    back, _ = loaded(weights.resolve(str(file)))
    reference = load_gguf_checkpoint(str(file), return_tensors=True, model_to_load=model, torch_dtype=torch.float32)
    assert set(back.state_dict()) == set(reference["tensors"]) | {"lm_head.weight"}
    assert all(torch.equal(back.state_dict()[name], value) for name, value in reference["tensors"].items())
    assert back.dtype == torch.float32


def test_a_q4_1_value_is_d_times_q_plus_m_and_neither_half_type_holds_it(cache: Path, tmp_path: Path) -> None:
    import gguf
    import torch

    model = tiny_llama(seed=1)
    back, _ = loaded(weights.resolve(str(write_gguf(tmp_path / "q.gguf", model, kind="Q4_1"))))
    original = model.model.layers[0].mlp.up_proj.weight.detach().numpy()
    blocks = gguf.quantize(original, gguf.GGMLQuantizationType.Q4_1).reshape(-1, 20)
    d = torch.from_numpy(blocks[:, :2].copy()).view(torch.float16).float()  # [blocks, 1]
    m = torch.from_numpy(blocks[:, 2:4].copy()).view(torch.float16).float()
    packed = torch.from_numpy(blocks[:, 4:].copy())
    q = torch.cat([packed & 15, packed >> 4], dim=1).float()
    by_hand = (d * q + m).reshape(original.shape)
    assert torch.equal(back.model.layers[0].mlp.up_proj.weight, by_hand)
    assert not torch.equal(by_hand.half().float(), by_hand)
    assert not torch.equal(by_hand.bfloat16().float(), by_hand)


def test_a_half_precision_gguf_stays_in_half_precision(cache: Path, tmp_path: Path, model: Any) -> None:
    import torch

    folder = weights.resolve(str(write_gguf(tmp_path / "h.gguf", model, kind="F16")))
    assert json.loads((folder / "config.json").read_text())["dtype"] == "float16"
    back, _ = loaded(folder)
    assert torch.equal(back.model.embed_tokens.weight, model.model.embed_tokens.weight.half().float())


def test_llama_3_rope_scaling_survives_though_it_is_stored_as_a_tensor(cache: Path, tmp_path: Path) -> None:
    import numpy as np
    import torch

    rope = {
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    scaled, plain = tiny_llama(rope_parameters=rope), tiny_llama()
    # what the file stores: how much slower each frequency turns than 1 / theta ** (i / 16)
    unscaled = 1.0 / 500000.0 ** (np.arange(16) / 16)
    divisors = (unscaled / scaled.model.rotary_emb.inv_freq.numpy()).astype(np.float32)
    assert divisors.max() == pytest.approx(8.0, rel=1e-5)
    file = write_gguf(tmp_path / "l3.gguf", scaled, extra={"rope_freqs.weight": divisors})
    back, _ = loaded(weights.resolve(str(file)))
    assert torch.allclose(back.model.rotary_emb.inv_freq, scaled.model.rotary_emb.inv_freq, rtol=1e-4)
    assert not torch.allclose(back.model.rotary_emb.inv_freq, plain.model.rotary_emb.inv_freq, rtol=1e-4)

    wrong = write_gguf(tmp_path / "w.gguf", scaled, extra={"rope_freqs.weight": divisors**2})
    assert "rotary" in refused(wrong)


def test_linear_rope_scaling_survives_and_an_unknown_kind_is_refused(cache: Path, tmp_path: Path, model: Any) -> None:
    file = write_gguf(tmp_path / "linear.gguf", model, scaling=("linear", 4.0))
    back, _ = loaded(weights.resolve(str(file)))
    assert (back.model.rotary_emb.inv_freq * 4).tolist() == pytest.approx(model.model.rotary_emb.inv_freq.tolist())
    assert "rotary" in refused(write_gguf(tmp_path / "yarn.gguf", model, scaling=("yarn", 4.0)))


def test_a_tensor_that_transformers_does_not_map_is_refused_not_dropped(
    cache: Path, tmp_path: Path, model: Any
) -> None:
    import numpy as np

    file = write_gguf(tmp_path / "odd.gguf", model, extra={"blk.0.attn_sinks.weight": np.ones(4, np.float32)})
    assert "blk.0.attn_sinks.weight" in refused(file)


def test_every_end_token_is_listed_when_metadata_and_tokenizer_differ(cache: Path, tmp_path: Path, model: Any) -> None:
    low, turn, message = (VOCABULARY.index(token) for token in ("low", "er", "hel"))
    ids = {"bos": 1, "eos": low, "eot": turn, "eom": message, "padding": 0}
    folder = weights.resolve(str(write_gguf(tmp_path / "e.gguf", model, ids=ids)))
    generation = json.loads((folder / "generation_config.json").read_text())
    wanted = sorted([0, 2, low, turn, message])  # <|endoftext|> and <|im_end|> by their texts
    assert generation["eos_token_id"] == wanted
    assert loaded(folder)[0].generation_config.eos_token_id == wanted
