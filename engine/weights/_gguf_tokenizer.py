"""The tokenizer that a GGUF file describes, as llama.cpp would read it.

transformers builds the vocabulary, the merges and the special tokens from the metadata, but knows only some of
the pre-tokenizers that `tokenizer.ggml.pre` names and silently cuts text GPT-2's way for the rest. SmolLM2
("smollm") is among the rest: digits come apart first there, so that the indent of "    42" is one token; GPT-2's
way would give its last space to the number, as the model never saw it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from engine.weights._common import WeightsError
from engine.weights._gguf_file import field

# llama.cpp, src/llama-vocab.cpp: the names of `tokenizer.ggml.pre` that share a rule.
_DIGITS_THEN_GPT2 = {"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"}
_GPT2 = {
    "gpt-2",
    "phi-2",
    "mpt",
    "olmo",
    "jais",
    "trillion",
    "gigachat",
    "a.x-4.0",
    "mellum",
    "granite-docling",
}
_QWEN2 = {"stablelm2", "hunyuan"}
# These look a whole word up before merging, and begin with BOS unless the file says otherwise.
_LLAMA3 = {"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"}

# llama.cpp takes these texts for the end of a generation even where the metadata names only one of them.
_END_TEXTS = {
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<end_of_turn>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<EOT>",
}
_CONTROL = 3  # tokenizer.ggml.token_type
_PROBE = "Yıl 2024:  x = 3.14  # çöp 🙂\n\tif a != b:"


def save_tokenizer(path: Path, reader: Any, out: Path, max_length: int) -> Any:
    """Write the tokenizer files and the chat template into `out`; returns the tokenizer as loaded back."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    except Exception as error:
        raise WeightsError(
            f"{path} describes a tokenizer that the installed transformers cannot build; "
            "give the model's safetensors folder instead."
        ) from error
    _set_pre_tokenizer(tokenizer, reader, path)
    _set_bos(tokenizer, reader)
    tokenizer.model_max_length = max_length
    tokenizer.save_pretrained(out)
    _clean_config(out, reader)
    saved = AutoTokenizer.from_pretrained(out)
    if saved(_PROBE)["input_ids"] != tokenizer(_PROBE)["input_ids"]:
        raise WeightsError(
            f"{path} has a tokenizer that changes when it is saved; give the model's safetensors folder instead."
        )
    return saved


def _set_pre_tokenizer(tokenizer: Any, reader: Any, path: Path) -> None:
    from tokenizers import Regex, pre_tokenizers

    if field(reader, "tokenizer.ggml.model") != "gpt2":
        return  # sentencepiece: no pre-tokenizer
    name = field(reader, "tokenizer.ggml.pre")
    backend = tokenizer.backend_tokenizer
    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=True)
    if name in _DIGITS_THEN_GPT2:
        backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), gpt2])
    elif name in _GPT2 or (name is None and field(reader, "general.architecture") == "gpt2"):
        backend.pre_tokenizer = gpt2
    elif name in _QWEN2:
        from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX

        split = pre_tokenizers.Split(Regex(PRETOKENIZE_REGEX), behavior="isolated")
        plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        backend.pre_tokenizer = pre_tokenizers.Sequence([split, plain])
    elif name not in _known_to_transformers():
        raise WeightsError(
            f"{path} cuts text by a rule ({name or 'unnamed'}) that is not known here; "
            "give the model's safetensors folder with its tokenizer.json instead."
        )
    if name in _LLAMA3:
        backend.model.ignore_merges = True


def _set_bos(tokenizer: Any, reader: Any) -> None:
    """BOS goes in front exactly when the metadata says so (or, silent, when llama.cpp's default does)."""
    from tokenizers.processors import TemplateProcessing

    kind, pre = field(reader, "tokenizer.ggml.model"), field(reader, "tokenizer.ggml.pre")
    wanted = field(reader, "tokenizer.ggml.add_bos_token")
    if wanted is None:
        wanted = kind == "llama" or pre in _LLAMA3 or pre == "tekken"
    bos, bos_id = tokenizer.bos_token, tokenizer.bos_token_id
    if wanted and bos_id is not None:
        processor = TemplateProcessing(
            single=f"{bos}:0 $A:0", pair=f"{bos}:0 $A:0 $B:1", special_tokens=[(bos, bos_id)]
        )
    else:
        processor = TemplateProcessing(single="$A:0", pair="$A:0 $B:1", special_tokens=[])
    tokenizer.backend_tokenizer.post_processor = processor


def _known_to_transformers() -> set[str]:
    try:
        from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS
    except ImportError:  # older transformers chose by architecture
        return {"llama3", "llama-v3", "llama-bpe", "qwen2"}
    return set(GGUF_PRE_TOKENIZER_SPLITS)


def _clean_config(out: Path, reader: Any) -> None:
    """Name a class that every transformers release knows (5.x writes its own, which vLLM's pins cannot load),
    and drop what was only true of the folder that was read."""
    file = out / "tokenizer_config.json"
    config = json.loads(file.read_text(encoding="utf-8"))
    config["tokenizer_class"] = "PreTrainedTokenizerFast"
    for stray in (
        "is_local",
        "local_files_only",
        "backend",
        "gguf_file",
        "name_or_path",
        "add_bos_token",
        "add_eos_token",
    ):
        config.pop(stray, None)
    config["clean_up_tokenization_spaces"] = False
    file.write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    template = field(reader, "tokenizer.chat_template")
    if template and not (out / "chat_template.jinja").is_file() and "chat_template" not in config:
        (out / "chat_template.jinja").write_text(template, encoding="utf-8")


def end_token_ids(reader: Any, tokenizer: Any) -> list[int]:
    """Every id after which a generation is over, sorted.

    The metadata's end of text, of turn and of message, the tokenizer's own end token (the two can differ, and
    a decode that knows only one runs on past the answer), and control tokens with a known end text.
    """
    ids = {field(reader, f"tokenizer.ggml.{kind}_token_id") for kind in ("eos", "eot", "eom")}
    ids.add(tokenizer.eos_token_id)
    tokens = field(reader, "tokenizer.ggml.tokens") or []
    types = field(reader, "tokenizer.ggml.token_type") or []
    ids.update(
        i for i, (t, kind) in enumerate(zip(tokens, types, strict=False)) if kind == _CONTROL and t in _END_TEXTS
    )
    return sorted(int(i) for i in ids if i is not None and 0 <= int(i) < len(tokenizer))
