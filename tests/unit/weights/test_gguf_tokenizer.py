"""A GGUF file becomes the same tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers.weights import MERGES, TEXTS, VOCABULARY, loaded, reference_bpe, refused, write_gguf

import engine.weights as weights


@pytest.mark.parametrize(("pre", "digits_alone"), [("smollm", True), ("gpt-2", False)])
def test_the_tokenizer_cuts_text_as_the_file_says(
    cache: Path, tmp_path: Path, model: Any, pre: str, digits_alone: bool
) -> None:
    tokenizer = loaded(weights.resolve(str(write_gguf(tmp_path / "t.gguf", model, pre=pre))))[1]
    for text in [*TEXTS, "123 2024 low slow"]:
        wanted = reference_bpe(text, VOCABULARY, MERGES, digits_alone=digits_alone)
        assert tokenizer(text)["input_ids"] == wanted
        assert tokenizer.decode(wanted) == text
    assert ("2024" in tokenizer.tokenize("2024")) is not digits_alone


def test_special_tokens_are_one_id_each_and_the_chat_template_is_the_files(folder: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    chat = [{"role": "user", "content": "low"}]
    text = "<|im_start|>user\nlow<|im_end|>\n"
    assert tokenizer.apply_chat_template(chat, tokenize=False) == text
    ids = tokenizer.apply_chat_template(chat, return_dict=False)
    assert (ids[0], ids.count(1), ids.count(2)) == (1, 1, 1)
    assert tokenizer.decode(ids) == text


@pytest.mark.parametrize(
    ("pre", "add_bos", "begins"),
    [("smollm", False, False), ("smollm", True, True), ("smollm", None, False), ("llama-bpe", None, True)],
)
def test_bos_goes_in_front_only_where_the_file_or_its_rule_says_so(
    cache: Path, tmp_path: Path, model: Any, pre: str, add_bos: bool | None, begins: bool
) -> None:
    file = write_gguf(tmp_path / "b.gguf", model, pre=pre, add_bos=add_bos)
    ids = loaded(weights.resolve(str(file)))[1]("low")["input_ids"]
    low = VOCABULARY.index("low")
    assert ids == ([1, low] if begins else [low])


def test_an_unknown_way_to_cut_text_is_refused_not_guessed(cache: Path, tmp_path: Path, model: Any) -> None:
    assert "poro-chat" in refused(write_gguf(tmp_path / "p.gguf", model, pre="poro-chat"))
    assert "unnamed" in refused(write_gguf(tmp_path / "n.gguf", model, pre=None))
