"""Pair: a target, perhaps a draft, and their tokenizers. Made by `load_pair` or from loaded models."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from engine.cpu import choose_threads
from engine.errors import EngineError
from engine.linear import QUANTIZATIONS
from engine.runner import Runner
from engine.text import Encoded, Prompt, TokenReader, encode_prompt
from engine.vocabulary import ForeignMethod, VocabularyReport, compare, vocabulary_size
from engine.weights import PRESETS, Progress, resolve

HEADS = ("eagle", "medusa", "recycling")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class Pair:
    """Weights and words; holds no sequence, so any number of runs may share it.

    target, draft: runners; draft is None where only draftless methods are meant. tokenizer: the target's, None when
    prompts will be token ids only. eos_ids: every id that ends the output. notices: what a user should know.
    draft_tokenizer: the draft's own, None where it uses the target's. vocabulary: how the two compare, None where both
    mean the same by the same ids. heads: folders of what was trained for this target, by drafter ("eagle", "medusa",
    "recycling"), in place of what comes with specscope.
    """

    name: str
    target: Runner
    draft: Runner | None
    tokenizer: Any
    read_token: TokenReader
    eos_ids: frozenset[int]
    unknown_id: int
    notices: tuple[str, ...] = ()
    draft_tokenizer: Any = None
    vocabulary: VocabularyReport | None = None
    heads: Mapping[str, str] = field(default_factory=dict, hash=False)

    @classmethod
    def from_models(
        cls,
        target: Any,
        tokenizer: Any,
        draft: Any = None,
        draft_tokenizer: Any = None,
        name: str | None = None,
        target_name: str | None = None,
        draft_name: str | None = None,
        quantization: str | None = None,
        foreign_method: ForeignMethod | None = None,
        heads: Mapping[str, str] | None = None,
    ) -> "Pair":
        """From loaded transformers causal LMs. tokenizer None: prompts are token ids. draft_tokenizer None: the
        draft shares the target's. quantization None runs the models as they are; "none", "int8", "int4" or "fp8" makes
        their layers fast for their device and uses the models up. foreign_method: how a draft with another vocabulary
        drafts, "intersection" or "reencoding"; None takes what suits the two (`engine.check_vocabularies`). Raises
        UnsupportedModelError, VocabularyError or EngineError with one sentence."""
        target_name = target_name or _name_of(target)
        draft_name = draft_name or (_name_of(draft) if draft is not None else None)
        size = vocabulary_size(tokenizer) if tokenizer is not None else 2**62
        places = {str(m.get_input_embeddings().weight.device) for m in (target, draft) if m is not None}
        if len(places) > 1:
            raise EngineError(f"target and draft are on {' and '.join(sorted(places))}; move both to one device first")
        if quantization is not None and draft is not None and draft is not target and _share_weights(target, draft):
            raise EngineError(
                "target and draft share weights, and making one fast takes them from the other; leave quantization out"
            )
        runner = Runner(target, target_name, size, quantization)
        drafter: Runner | None = None
        notices: tuple[str, ...] = ()
        vocabulary: VocabularyReport | None = None
        if draft is not None:
            if tokenizer is not None and draft_tokenizer is not None:
                vocabulary, notices = compare(tokenizer, draft_tokenizer, target_name, str(draft_name), foreign_method)
            own = vocabulary_size(draft_tokenizer) if draft_tokenizer is not None else size
            drafter = runner if draft is target else Runner(draft, str(draft_name), own, quantization)
        named = (getattr(tokenizer, name, None) for name in ("unk_token_id", "pad_token_id"))
        unknown = next((i for i in named if i is not None), 0)
        return cls(
            name=name or (f"{target_name} + {draft_name}" if draft is not None else target_name),
            target=runner,
            draft=drafter,
            tokenizer=tokenizer,
            read_token=TokenReader(tokenizer),
            eos_ids=_eos_ids(target, tokenizer),
            unknown_id=int(unknown),
            notices=(*notices, *_default_notices(target)),
            draft_tokenizer=draft_tokenizer if draft is not None else None,
            vocabulary=vocabulary,
            heads=_checked_heads(heads),
        )

    @property
    def context_length(self) -> int | None:
        return self.target.context_length

    @property
    def device(self) -> str:
        return str(self.target.device)

    @property
    def dtype(self) -> str:
        return str(self.target.dtype).removeprefix("torch.")

    def encode(self, prompt: Prompt, chat: bool = True) -> Encoded:
        """The prompt as it is sent: see `engine.text.encode_prompt`. Raises EngineError for ids out of range."""
        if isinstance(prompt, str) and (not prompt.strip() if chat else not prompt):
            raise EngineError("the prompt is empty; type something to continue from")
        encoded = encode_prompt(self.tokenizer, prompt, self.target.name, chat, self.target.embedding_rows)
        if not encoded.ids:
            raise EngineError("the prompt is empty; type something to continue from")
        return encoded

    @property
    def quantization(self) -> str:
        """ "none", "int8", "int4" or "fp8": how the weights of the target, and of its draft, are held."""
        return self.target.quantization or "none"

    @property
    def precision(self) -> str:
        """What the weights are, in one word: the quantization, or the dtype where there is none."""
        return self.dtype if self.quantization == "none" else self.quantization

    def describe(self) -> dict[str, Any]:
        """JSON-ready: names, dtype, device, context lengths, and how a foreign vocabulary compares."""
        draft = self.draft
        return {
            "name": self.name,
            "target": self.target.name,
            "draft": draft.name if draft else None,
            "dtype": self.dtype,
            "device": self.device,
            "quantization": self.quantization,
            "context_length": self.context_length,
            "draft_context_length": draft.context_length if draft else None,
            "vocab_size": self.target.vocab_size,
            "vocabulary": self.vocabulary and self.vocabulary.as_dict(),
        }


def load_pair(
    name: str | None = None,
    *,
    target: str | None = None,
    draft: str | None = None,
    device: str = "auto",
    dtype: str = "auto",
    quantization: str | None = None,
    trust_remote_code: bool = False,
    progress: Progress | None = None,
    foreign_method: ForeignMethod | None = None,
    heads: Mapping[str, str] | None = None,
) -> Pair:
    """A preset by name (`load_pair("embedded")`), or target and draft each as a hub id, a folder or a .gguf file.

    device: "auto" (CUDA when there is one, else CPU) or a torch device. dtype: "auto" (float32 on CPU, the
    checkpoint's own on CUDA) or float32 | bfloat16 | float16. quantization: None or "none" keeps the weights' numbers;
    "int8" and "int4" (CPU) and "fp8" (GPU) round them. foreign_method, heads: see `Pair`. On a CPU torch's thread
    count is set to the quickest. Raises WeightsError or EngineError with one sentence.
    """
    quantization = "none" if quantization is None else quantization
    if quantization not in QUANTIZATIONS:
        raise EngineError(f"unknown quantization {quantization!r}: choose one of {', '.join(QUANTIZATIONS)}")
    if name is not None and target is not None:
        raise EngineError("give a preset name or a target, not both")
    if "" in (name, target, draft):
        raise EngineError("a model's name is empty; give a preset, a hub id, a folder or a .gguf file")
    source = name or target
    if source is None:
        raise EngineError("give a preset name, for example load_pair('embedded'), or target=")
    preset = PRESETS.get(source)
    if preset is not None:
        source, draft = preset.target, draft or preset.draft
    where = find_device(device)
    kind = find_dtype(dtype, where)
    model, tokenizer = load_model(source, where, kind, trust_remote_code, progress)
    # The same weights twice are held once.
    same = draft is not None and _same_source(draft, source)
    draft_model, draft_tokenizer = (
        (model, tokenizer)
        if same
        else load_model(draft, where, kind, trust_remote_code, progress)
        if draft
        else (None, None)
    )
    pair = Pair.from_models(
        model,
        tokenizer,
        draft_model,
        draft_tokenizer,
        name=preset.name if preset else None,
        target_name=short_name(source),
        draft_name=short_name(draft) if draft else None,
        quantization=quantization,
        foreign_method=foreign_method,
        heads=heads,
    )
    choose_threads(pair.target)
    return pair


def load_tokenizer(source: str, progress: Progress | None = None, trust_remote_code: bool = False) -> Any:
    """The tokenizer of a preset's target, a hub id, a folder or a .gguf file. Raises WeightsError or EngineError."""
    from transformers import AutoTokenizer

    preset = PRESETS.get(source)
    folder = resolve(preset.target if preset else source, progress=progress, trust_remote_code=trust_remote_code)
    try:
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=trust_remote_code)
    except Exception as error:
        raise EngineError(f"{source} has no tokenizer that can be read: {type(error).__name__}") from error


def load_model(
    source: str, device: torch.device, dtype: Any, trust: bool, progress: Progress | None
) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    model: Any
    loading: Any
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # the caller's `progress` is the one that was asked for
    folder = resolve(source, progress=progress, trust_remote_code=trust)
    if progress:
        progress(f"loading {short_name(source)}", 0, None)
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, trust_remote_code=trust, use_safetensors=True, output_loading_info=True
        )
        model, loading = loaded
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=trust)
    except Exception as error:  # a damaged config can raise anything inside transformers
        first = next(iter(str(error).strip().splitlines()), "")
        raise EngineError(f"{source} could not be loaded: {type(error).__name__}: {first}") from error
    if missing := sorted(loading["missing_keys"]):
        # transformers would fill them with random numbers and go on.
        raise EngineError(
            f"{source} lacks {len(missing)} of the tensors that its config asks for, the first being {missing[0]}; "
            "the checkpoint is incomplete or belongs to another model"
        )
    return model.to(device), tokenizer


def _same_source(a: str, b: str) -> bool:
    resolved = [PRESETS[s].target if s in PRESETS else s for s in (a, b)]
    return resolved[0] == resolved[1]


def short_name(source: str) -> str:
    if source == "embedded":
        return "SmolLM2-135M-Instruct"
    return Path(source).name or source


def find_device(device: str) -> torch.device:
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        where = torch.device(device)
    except RuntimeError:
        raise EngineError(f"unknown device {device!r}: use auto, cpu, cuda or cuda:N") from None
    if where.type not in ("cpu", "cuda"):
        raise EngineError(f"device {device!r} is not supported: use auto, cpu, cuda or cuda:N")
    if where.type == "cuda" and not torch.cuda.is_available():
        raise EngineError("no CUDA device can be used here; use device='cpu' or 'auto'")
    return where


def find_dtype(dtype: str, device: torch.device) -> Any:
    if dtype == "auto":
        return torch.float32 if device.type == "cpu" else "auto"
    if dtype not in DTYPES:
        raise EngineError(f"unknown dtype {dtype!r}: use auto, {', '.join(DTYPES)}")
    return DTYPES[dtype]


def _share_weights(one: Any, other: Any) -> bool:
    return bool({id(p) for p in one.parameters()} & {id(p) for p in other.parameters()})


def _checked_heads(heads: Mapping[str, str] | None) -> dict[str, str]:
    unknown = [name for name in heads or () if name not in HEADS]
    if unknown:
        raise EngineError(f"heads are given for {', '.join(HEADS)}, not for {unknown[0]!r}")
    return {name: str(folder) for name, folder in (heads or {}).items()}


def _name_of(model: Any) -> str:
    path = getattr(model.config, "_name_or_path", "") or ""
    return Path(path).name or type(model).__name__


def _eos_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """Every id that any of the model's own files calls an end: they may disagree, and each one ends the output."""
    found: set[int] = set()
    generation = getattr(model, "generation_config", None)
    for holder in (generation, model.config, model.config.get_text_config(decoder=True), tokenizer):
        ids = getattr(holder, "eos_token_id", None)
        found |= {i for i in (ids if isinstance(ids, list | tuple) else [ids]) if isinstance(i, int)}
    return frozenset(found)


def _default_notices(model: Any) -> tuple[str, ...]:
    """Sampling defaults in the model's own files are not applied; say so where they would change the output."""
    generation = getattr(model, "generation_config", None)
    penalty = getattr(generation, "repetition_penalty", None)
    if penalty not in (None, 1.0):
        return (f"the model's own files suggest repetition_penalty {penalty}; it is applied only when you set it",)
    return ()
