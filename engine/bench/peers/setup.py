"""What all arms are made from: the weights, the device, the prompts as ids."""

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from engine.bench.suites import BenchPrompt
from engine.drafters import DRAFTERS
from engine.errors import EngineError
from engine.linear import QUANTIZATIONS
from engine.pair import DTYPES, find_device
from engine.settings import K_CONTROLS
from engine.text import encode_prompt
from engine.weights import PRESETS, Progress, gguf_file, resolve

SHORT_DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


@dataclass(frozen=True, slots=True)
class PeerSetup:
    """What all arms are made from. source, draft: a preset's name, a hub id, a folder or a .gguf file.

    quantizations: for each, arms of our own ("none" is the weights as they are). drafters: our own drafting methods;
    empty is the pair's default and composite. k: draft tokens a step, for every arm that drafts. k_control: of our own
    arms; None is "cost" for composite, with K up to COMPOSITE_K, and "fixed" for the others. heads: see `load_pair`.
    vllm_url: of a running server. threads: CPU threads of every arm.
    """

    source: str = "embedded"
    draft: str | None = None
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    dtype: str = "float32"
    quantizations: tuple[str, ...] = ("none",)
    drafters: tuple[str, ...] = ()
    k: int = 5
    k_control: str | None = None
    heads: dict[str, str] = field(default_factory=dict, hash=False)
    trust_remote_code: bool = False
    vllm_url: str | None = None
    threads: int = field(default_factory=torch.get_num_threads)
    progress: Progress | None = None

    @property
    def target_source(self) -> str:
        return PRESETS[self.source].target if self.source in PRESETS else self.source

    @property
    def draft_source(self) -> str | None:
        return self.draft or (PRESETS[self.source].draft if self.source in PRESETS else None)

    @property
    def weights(self) -> str:
        return SHORT_DTYPES.get(self.dtype, self.dtype)


def make_setup(source: str, *, device: str = "auto", dtype: str = "auto", **rest: Any) -> PeerSetup:
    """device, dtype: as in `engine.load_pair`, but that "auto" is bfloat16 on CUDA, so that every arm is told the same.
    rest: the other fields of PeerSetup; threads None is torch's own number, and torch is set to it. Raises EngineError
    for what does not exist."""
    where = find_device(device)
    if dtype == "auto":
        dtype = "float32" if where.type == "cpu" else "bfloat16"
    _among("dtype", (dtype,), tuple(DTYPES))
    _among("quantization", rest.get("quantizations", ()), QUANTIZATIONS)
    _among("drafter", rest.get("drafters", ()), DRAFTERS)
    if rest.get("k_control") is not None:
        _among("K control", (rest["k_control"],), K_CONTROLS)
    if rest.get("threads") is None:
        rest.pop("threads", None)
    setup = PeerSetup(source, device=where, dtype=dtype, **rest)
    torch.set_num_threads(setup.threads)
    return setup


def _among(what: str, given: Sequence[str], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise EngineError(f"unknown {what} {name!r}: choose from {', '.join(known)}")


def encode_prompts(setup: PeerSetup, prompts: Sequence[BenchPrompt]) -> list[tuple[str, tuple[int, ...]]]:
    """(category, ids) each, through the target's own chat template: once, for all arms."""
    from transformers import AutoTokenizer

    trust = setup.trust_remote_code
    folder = resolve(setup.target_source, progress=setup.progress, trust_remote_code=trust)
    tokenizer: Any = AutoTokenizer.from_pretrained(folder, trust_remote_code=trust)
    return [(p.category, encode_prompt(tokenizer, p.prompt, setup.source).ids) for p in prompts]


def missing(module: str, package: str, extra: str) -> str | None:
    """One sentence when `module` cannot be imported; it is not imported to find out."""
    if importlib.util.find_spec(module) is not None:
        return None
    return f"{package} is not installed; get it with: pip install 'specscope[{extra}]'"


def not_on_this_device(engine_name: str, setup: PeerSetup) -> str | None:
    if setup.device.type == "cpu":
        return None
    return f"{engine_name} is set up for the CPU here and this run is on {setup.device}; add --device cpu to compare it"


def gguf_of(setup: PeerSetup) -> Path:
    """The GGUF file of the target. Raises EngineError with one sentence when there is none."""
    found = gguf_file(setup.target_source, progress=setup.progress)
    if found is None:
        raise EngineError("it reads GGUF and this target is none; give --target FILE.gguf, or use the embedded pair")
    return found


def gguf_quantization(file: Path) -> str:
    """What most of the weights of a GGUF file are held in, for example "Q4_1"."""
    from gguf import GGUFReader

    sizes: dict[str, int] = {}
    for tensor in GGUFReader(file).tensors:
        name = tensor.tensor_type.name
        sizes[name] = sizes.get(name, 0) + int(tensor.n_elements)
    return max(sizes, key=lambda name: sizes[name])
