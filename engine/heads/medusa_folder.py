"""Medusa folders: as published (medusa_lm_head.pt), and as vLLM takes them (blocks, lm_heads or lm_head, token_map).

Sources: FasterDecoding/Medusa medusa/model/medusa_model.py; vLLM's medusa.py and its MedusaConfig. As published, a head
is a sequence: "{head}.{block}.linear.weight" and ".bias", then its own rows "{head}.{blocks}.weight". Their config says
medusa_num_heads and medusa_num_layers and no more. vLLM's has num_heads, num_hidden_layers, truncated_vocab_size, and
original_lm_head where all heads read one set of rows.
"""

import re
from typing import Any

import torch
from torch import Tensor

from engine.heads.eagle_folder import target_rows
from engine.heads.formats import (
    HeadError,
    HeadFolder,
    check_target,
    check_tensors,
    id_map,
    need_map,
    target_sizes,
    whole_number,
)
from engine.heads.medusa import MedusaHeads, MedusaShape

# Heads, and blocks of each, that a config may speak of.
MOST = 64
_PUBLISHED = re.compile(r"(?:medusa_heads?\.)?(\d+)\.(\d+)\.(linear\.)?(weight|bias)")
# The buffer of heads that read one set of rows which is the checkpoint's own.
ONE_SET = "one_set"
_VLLM = re.compile(r"blocks\.(\d+)\.layers\.(\d+)\.(weight|bias)")


def load_medusa(folder: HeadFolder, runner: Any, tokenizer: Any) -> MedusaHeads:
    """Raises HeadError."""
    name, config = folder.name, folder.config
    published = any(_PUBLISHED.fullmatch(n) for n in folder.tensors)
    tensors = {_own_name(n): t for n, t in folder.tensors.items()}
    layers = _either(folder, "num_hidden_layers", "medusa_num_layers", 1)
    found = _blocks(tensors)
    if found and max(found.values()) != layers:
        raise HeadError(f"{name}: a head has {max(found.values())} blocks, and its config.json says {layers}")
    count = _either(folder, "num_heads", "medusa_num_heads", len(found) or 1)
    if published:
        # The published configs say 2 where the files hold 5: the file counts.
        count = max(count, len(found))
    if not 1 <= count <= MOST or not 0 <= layers <= MOST:
        raise HeadError(f"{name}: {count} heads of {layers} blocks are not what a Medusa head is; copy it again")
    probe = tensors.get("blocks.0.0.linear.weight")
    width = folder.whole("hidden_size", target_sizes(runner)[0] if probe is None else int(probe.shape[-1]))
    shared, rows = _rows(tensors, config, count)
    token_map = tensors.pop("token_map", None)
    vocab = _vocab(folder, runner, rows if token_map is None else None)
    draft = whole_number(name, config, "truncated_vocab_size", vocab)
    check_target(folder, runner, tokenizer, width, vocab)
    if draft != vocab and token_map is None:
        raise need_map(name, draft, vocab, "token_map")
    ids = None if token_map is None else id_map(name, token_map, draft, vocab)
    if draft == vocab:
        ids = None  # rows in whatever order a map of all ids says, and back again
    for n in [n for n in tensors if n.startswith("lm_heads.")]:
        if ids is not None and tensors[n].shape[0] == vocab:  # whole rows under a map: vLLM takes its own out of them
            tensors[n] = tensors[n][ids]
    for i in range(count):  # vLLM's blocks add no bias unless medusa_fc_bias says so
        for j in range(layers):
            if not published and not config.get("medusa_fc_bias", False):
                tensors.setdefault(f"blocks.{i}.{j}.linear.bias", torch.zeros(width))
    check_tensors(name, tensors, _needed(count, layers, width, shared, rows is None, draft))
    shape = MedusaShape(
        num_heads=count,
        num_layers=layers,
        hidden_size=width,
        vocab_size=vocab,
        draft_vocab_size=draft,
        shared_head=shared,
        accuracy=_accuracy(folder, count),
    )
    head: Any = None
    if shared:
        own = tensors.pop("lm_heads.0.weight", None)
        head = target_rows(runner, ids, vocab) if own is None else own.to(device=runner.device, dtype=runner.dtype)
    heads = MedusaHeads(shape, head, None if ids is None else ids.to(runner.device))
    heads.load_state_dict(tensors, strict=True)
    if shared and rows is not None:
        heads.register_buffer(ONE_SET, head, persistent=False)
    return heads.to(device=runner.device, dtype=runner.dtype).eval().requires_grad_(False)


def _own_name(name: str) -> str:
    """As `MedusaHeads` names it; what is none of the known names stays."""
    if match := _PUBLISHED.fullmatch(name):
        head, block, linear, kind = match.groups()
        return f"blocks.{head}.{block}.linear.{kind}" if linear else f"lm_heads.{head}.{kind}"
    name = name.removeprefix("medusa_heads.")
    if match := _VLLM.fullmatch(name):
        return "blocks.{}.{}.linear.{}".format(*match.groups())
    return "lm_heads.0.weight" if name == "lm_head.weight" else name


def _either(folder: HeadFolder, one: str, other: str, default: int) -> int:
    key = one if folder.config.get(one) is not None else other
    return folder.whole(key, default)


def _blocks(tensors: dict[str, Tensor]) -> dict[int, int]:
    """Of each head in the file, how many blocks it has."""
    found: dict[int, int] = {}
    for name in tensors:
        if match := re.fullmatch(r"blocks\.(\d+)\.(\d+)\.linear\.weight", name):
            head, block = int(match[1]), int(match[2])
            found[head] = max(found.get(head, 0), block + 1)
    return found


def _rows(tensors: dict[str, Tensor], config: dict[str, Any], count: int) -> tuple[bool, int | None]:
    """Do all heads read one set of rows? And how many rows the checkpoint has of its own; None: it has the target's."""
    own = tensors.get("lm_heads.0.weight")
    shared = bool(config.get("original_lm_head", False)) or own is None
    if shared:  # one set is enough, and of several the first counts, as in vLLM
        for i in range(1, count):
            tensors.pop(f"lm_heads.{i}.weight", None)
    return shared, None if own is None else int(own.shape[0])


def _vocab(folder: HeadFolder, runner: Any, rows: int | None) -> int:
    """What the config says, else the rows that the heads have, else the target's."""
    return folder.whole("vocab_size", runner.vocab_size if rows is None else rows)


def _needed(
    count: int, layers: int, width: int, shared: bool, targets_rows: bool, draft: int
) -> dict[str, tuple[int, ...]]:
    needed: dict[str, tuple[int, ...]] = {}
    for i in range(count):
        for j in range(layers):
            needed |= {f"blocks.{i}.{j}.linear.weight": (width, width), f"blocks.{i}.{j}.linear.bias": (width,)}
        if not shared or (i == 0 and not targets_rows):
            needed[f"lm_heads.{i}.weight"] = (draft, width)
    return needed


def _accuracy(folder: HeadFolder, count: int) -> Any:
    """Measured top-k accuracies, where a card of ours holds them."""
    ours = folder.config.get("specscope")
    given = ours.get("accuracy") if isinstance(ours, dict) else None
    if given is None:
        return None
    good = isinstance(given, list) and len(given) == count and all(isinstance(row, list) for row in given)
    if not good or not all(isinstance(a, int | float) and 0 <= a <= 1 for row in given for a in row):
        raise HeadError(f"{folder.name}: its measured accuracy must be a list of shares from 0 to 1 for each head")
    return tuple(tuple(map(float, row)) for row in given)
