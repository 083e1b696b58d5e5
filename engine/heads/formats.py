"""Draft-head folders: which format one is in, and what every format must hold to.

A folder is a `config.json` and one file of weights (or a safetensors index of several). Pickled weights (.bin, .pt) are
read as tensors only: nothing in them is run. A folder that does not fit its target is refused with one sentence.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from engine.errors import EngineError

INDEX = "model.safetensors.index.json"
# What weights are numbers in; others are a quantised head's, whose scales nobody here would apply, or none at all.
WEIGHT_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
# In the order in which they are looked for.
WEIGHTS = ("model.safetensors", "medusa_lm_head.safetensors", "pytorch_model.bin", "medusa_lm_head.pt")


class HeadError(EngineError):
    """A draft head that cannot be loaded for this target, and why."""


@dataclass(frozen=True, slots=True)
class HeadFolder:
    """A folder's contents. tensors are as the file names them, on the host. name: what to call it in a sentence."""

    name: str
    config: dict[str, Any]
    tensors: dict[str, Tensor]

    def whole(self, key: str, default: int | None = None) -> int:
        """A whole number of the config."""
        return whole_number(self.name, self.config, key, default)


def whole_number(name: str, config: Mapping[str, Any], key: str, default: int | None = None) -> int:
    value = config.get(key)
    value = default if value is None else value
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        told = "lacks" if value is None else f"has {value!r} for"
        raise HeadError(f"{name}: its config.json {told} {key}, which must be a whole number of at least 1")
    return value


def read_folder(folder: str | Path) -> HeadFolder:
    """Raises HeadError where there is no such folder, no config, or no weights that can be read."""
    path = Path(folder)
    if not path.is_dir():
        raise HeadError(f"{folder} is no folder; give the folder of a draft head, with its config.json")
    try:
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise HeadError(f"{path}: its config.json cannot be read; copy the head's folder again") from error
    if not isinstance(config, dict):
        raise HeadError(f"{path}: its config.json is no JSON object; copy the head's folder again")
    return HeadFolder(str(path), config, _tensors(path))


def _tensors(path: Path) -> dict[str, Tensor]:
    if (path / INDEX).is_file():
        try:
            names = sorted(set(json.loads((path / INDEX).read_text(encoding="utf-8"))["weight_map"].values()))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise HeadError(f"{path}: its {INDEX} cannot be read; copy the head's folder again") from error
        if any(not isinstance(n, str) or Path(n).name != n for n in names):
            raise HeadError(f"{path}: its {INDEX} names a file outside the folder; copy the head's folder again")
    else:
        names = [name for name in WEIGHTS if (path / name).is_file()][:1]
    if not names:
        raise HeadError(f"{path} holds no weights of a head: none of {', '.join(WEIGHTS)}")
    tensors: dict[str, Tensor] = {}
    for name in names:
        tensors |= _safetensors(path / name) if name.endswith(".safetensors") else _pickled(path / name)
    return tensors


def _safetensors(file: Path) -> dict[str, Tensor]:
    try:
        with safe_open(file, framework="pt") as held:
            return {name: held.get_tensor(name) for name in held.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, ValueError, RuntimeError) as error:
        raise HeadError(f"{file} is no whole safetensors file; copy it again") from error


def _pickled(file: Path) -> dict[str, Tensor]:
    try:
        held = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # unpickling raises whatever the file provokes
        raise HeadError(f"{file} is no file of tensors alone, and nothing else is read from a pickle") from error
    if not isinstance(held, dict) or not all(isinstance(t, Tensor) for t in held.values()):
        raise HeadError(f"{file} must hold a dictionary of tensors by name")
    return {str(name): t for name, t in held.items()}


def check_target(folder: HeadFolder, runner: Any, tokenizer: Any, hidden_size: int, vocab_size: int | None) -> None:
    """Raises HeadError unless the head is for such a target. vocab_size: the target's, as the head knows it, padded or
    not; None: it does not say."""
    hidden, layers = target_sizes(runner)
    if hidden_size != hidden:
        raise HeadError(
            f"{folder.name} is for a target whose hidden states hold {hidden_size} numbers, and those of {runner.name} "
            f"hold {hidden}; use the head that was trained for it"
        )
    if vocab_size is not None and not runner.vocab_size <= vocab_size <= max(runner.embedding_rows, runner.vocab_size):
        raise HeadError(
            f"{folder.name} is for a vocabulary of {vocab_size} tokens, and {runner.name} has {runner.vocab_size}; "
            "use the head that was trained for it"
        )
    made_for = folder.config.get("specscope")
    made_for = made_for if isinstance(made_for, dict) else {}
    if made_for.get("target_layers", layers) != layers:
        raise HeadError(
            f"{folder.name} is for a target of {made_for['target_layers']} layers, and {runner.name} has {layers}; "
            "use the head that was trained for it"
        )
    digest = made_for.get("vocabulary_sha256")
    if tokenizer is not None and digest is not None and digest != vocabulary_digest(tokenizer):
        raise HeadError(
            f"{folder.name} was trained with another tokenizer than that of {runner.name}; train the head anew for it"
        )


def target_sizes(runner: Any) -> tuple[int, int]:
    """The width of a target's hidden states, and its layers."""
    config = runner.config
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    return int(text.hidden_size), int(runner.num_layers)


def vocabulary_digest(tokenizer: Any) -> str:
    """The SHA-256 of a tokenizer's tokens in the order of their ids."""
    import hashlib

    ordered = sorted((int(i), str(t)) for t, i in tokenizer.get_vocab().items())
    return hashlib.sha256(json.dumps(ordered, ensure_ascii=True).encode()).hexdigest()


def check_tensors(
    name: str, tensors: Mapping[str, Tensor], needed: Mapping[str, tuple[int, ...]], may: Iterable[str] = ()
) -> None:
    """Raises HeadError unless there are exactly the needed tensors, of these shapes and a weight's dtype, and none
    besides but those in `may`; it names the first that is wrong."""
    for tensor, shape in needed.items():
        if tensor not in tensors:
            raise HeadError(f"{name}: the tensor {tensor} is missing; copy the head again, or use another checkpoint")
        if tuple(tensors[tensor].shape) != shape:
            raise HeadError(
                f"{name}: the tensor {tensor} has the shape {list(tensors[tensor].shape)} where {list(shape)} belongs"
            )
        if tensors[tensor].dtype not in WEIGHT_DTYPES:
            raise HeadError(
                f"{name}: the tensor {tensor} holds {_kind(tensors[tensor])} numbers where float16, bfloat16 or float32"
                " belong; use a checkpoint that is not quantised"
            )
        if not bool(tensors[tensor].isfinite().all()):
            raise HeadError(f"{name}: the tensor {tensor} holds NaN or infinity; copy the head again")
    allowed = {*needed, *may}
    surplus = next((tensor for tensor in tensors if tensor not in allowed), None)
    if surplus is not None:
        raise HeadError(f"{name}: nothing is known of its tensor {surplus}; this kind of head is not run here")


def whole_numbers(tensor: Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)


def _kind(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def id_map(name: str, ids: Tensor, draft_vocab: int, vocab: int) -> Tensor:
    """The target's id of each of the head's, checked: [draft_vocab] int64."""
    if tuple(ids.shape) != (draft_vocab,):
        raise HeadError(f"{name}: its id map has the shape {list(ids.shape)}, and the head guesses {draft_vocab} ids")
    if not whole_numbers(ids):
        raise HeadError(f"{name}: its id map must hold whole numbers, not {_kind(ids)}")
    ids = ids.long()
    outside = ((ids < 0) | (ids >= vocab)).nonzero()
    if len(outside):
        at = int(outside[0])
        raise HeadError(f"{name}: its id map sends {at} to {int(ids[at])}, and the target's ids are below {vocab}")
    counts = torch.bincount(ids, minlength=vocab)
    if int(counts.max()) > 1:
        raise HeadError(
            f"{name}: its id map sends {int(counts.max())} ids to {int(counts.argmax())}; each needs its own"
        )
    return ids


def need_map(name: str, draft_vocab: int, vocab: int, key: str) -> HeadError:
    """Without the map such a head runs and is nearly always wrong, in silence."""
    return HeadError(
        f"{name}: it guesses {draft_vocab} of {vocab} ids and lacks the map {key} that says which; copy the head again"
    )
