"""Published EAGLE folders: EAGLE-1 and 2 (fc, layers.0), and EAGLE-3 (fc, midlayer, norm, lm_head, d2t, t2d).

Sources: SafeAILab/EAGLE eagle/model/cnets1.py and cnets.py; vLLM's llama_eagle.py and llama_eagle3.py. On file d2t
holds offsets: the target's id of the head's id i is i + d2t[i]; t2d marks the target's ids that the head has.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from engine.heads.eagle import EagleHead, EagleShape
from engine.heads.formats import (
    HeadError,
    HeadFolder,
    check_target,
    check_tensors,
    id_map,
    need_map,
    target_sizes,
    whole_number,
    whole_numbers,
)

# Tensors that some checkpoints hold and no head needs: tables, and the target's own parts kept for training.
KNOWN_SURPLUS = (
    "layers.0.self_attn.rotary_emb.inv_freq",
    "verifier_lm_head.weight",
    "verifier_norm.weight",
)
# What some heads do besides; a head that does it would guess wrong here.
NOT_RUN = ("norm_before_fc", "fc_norm", "norm_output", "layernorms")


@dataclass(frozen=True, slots=True)
class Parts:
    """A folder brought to one form. config: of the head's layer. tensors: named as `EagleHead` names its own."""

    folder: HeadFolder
    form: Literal["eagle", "eagle3"]
    config: dict[str, Any]
    tensors: dict[str, Tensor]
    norm_before_residual: bool = False


def load_eagle(folder: HeadFolder, runner: Any, tokenizer: Any) -> EagleHead:
    """A folder with an EAGLE layer of any published form. Raises HeadError."""
    tensors = {_own_name(name): t for name, t in folder.tensors.items()}
    hidden = folder.whole("hidden_size")
    fc = tensors.get("fc.weight")
    wide = "layers.0.hidden_norm.weight" in tensors or (fc is not None and fc.ndim == 2 and fc.shape[1] > 2 * hidden)
    residual = bool(folder.config.get("norm_before_residual", False))
    return build(Parts(folder, "eagle3" if wide else "eagle", folder.config, tensors, residual), runner, tokenizer)


def _own_name(name: str) -> str:
    name = name.removeprefix("model.")
    return name.replace("midlayer.", "layers.0.", 1) if name.startswith("midlayer.") else name


def build(parts: Parts, runner: Any, tokenizer: Any) -> EagleHead:
    """The head, on the target's device. What the checkpoint has of its own it keeps; the rest is the target's."""
    folder, tensors, name = parts.folder, dict(parts.tensors), parts.folder.name
    t2d, offsets = tensors.pop("t2d", None), tensors.pop("d2t", tensors.pop("draft_id_to_target_id", None))
    shape = _shape(parts, tensors, runner)
    check_target(folder, runner, tokenizer, shape.feature_size, shape.vocab_size)
    check_tensors(name, tensors, _needed(shape, tensors), KNOWN_SURPLUS)
    if "embed_tokens.weight" not in tensors and shape.hidden_size != shape.feature_size:
        raise HeadError(f"{name}: embed_tokens.weight is missing, and the target's embeddings have another width")
    ids = _ids(name, shape, offsets, t2d)
    own_rows = "lm_head.weight" in tensors
    if not own_rows and shape.hidden_size != shape.feature_size:
        raise HeadError(f"{name}: lm_head.weight is missing, and the target's own has another width")
    head = EagleHead(
        shape,
        embed=None if "embed_tokens.weight" in tensors else shared_embedding(runner),
        head=None if own_rows else target_rows(runner, ids, shape.vocab_size),
        draft_to_target=None if ids is None else ids.to(runner.device),
    )
    held = {n: t for n, t in tensors.items() if n not in KNOWN_SURPLUS}
    head.load_state_dict(held, strict=True)
    return head.to(device=runner.device, dtype=runner.dtype).eval().requires_grad_(False)


def target_rows(runner: Any, ids: Tensor | None, vocab: int) -> Any:
    """The target's rows for these ids; for all of them what multiplies by them, which copies nothing."""
    if ids is not None:
        return runner.head_rows(ids.to(runner.device)).to(runner.dtype)
    fused = getattr(runner, "fused", None)
    multiply = fused.head if fused is not None else runner.model.get_output_embeddings()

    def rows(states: Tensor) -> Tensor:
        out: Tensor = multiply(states.reshape(-1, states.shape[-1]))
        return out[:, :vocab].view(*states.shape[:-1], -1)

    return rows


def _shape(parts: Parts, tensors: dict[str, Tensor], runner: Any) -> EagleShape:
    name, config = parts.folder.name, parts.config

    def whole(key: str, default: int | None = None) -> int:
        return whole_number(name, config, key, default)

    for flag in NOT_RUN:
        if parts.folder.config.get(flag) or config.get(flag):
            raise HeadError(f"{name}: heads with {flag} are not run here; use a checkpoint without it")
    if whole("num_hidden_layers", 1) != 1:
        raise HeadError(f"{name}: it has {config['num_hidden_layers']} layers, and heads of one are run here")
    if config.get("hidden_act", "silu") != "silu":
        raise HeadError(f"{name}: its activation is {config['hidden_act']!r}, and only silu is run here")
    hidden, heads = whole("hidden_size"), whole("num_attention_heads")
    vocab = whole("vocab_size")
    draft_vocab = whole_number(
        name, {**config, **_of(parts.folder.config, "draft_vocab_size")}, "draft_vocab_size", vocab
    )
    wide = parts.form == "eagle3"
    target_hidden = whole_number(
        name, {**config, **_of(parts.folder.config, "target_hidden_size")}, "target_hidden_size", hidden
    )
    return EagleShape(
        form=parts.form,
        hidden_size=hidden,
        intermediate_size=whole("intermediate_size"),
        num_heads=heads,
        num_kv_heads=whole("num_key_value_heads", heads),
        head_dim=whole("head_dim", hidden // heads),
        rms_norm_eps=float(config.get("rms_norm_eps", 1e-6)),
        rope_theta=_theta(name, config),
        vocab_size=vocab,
        draft_vocab_size=draft_vocab,
        taps=_taps(parts, runner) if wide else (-1,),
        fc_bias="fc.bias" in tensors,
        attention_bias="layers.0.self_attn.q_proj.bias" in tensors,
        input_norm=wide,
        norm_before_residual=parts.norm_before_residual,
        target_hidden_size=target_hidden,
    )


def _of(config: dict[str, Any], key: str) -> dict[str, Any]:
    return {key: config[key]} if config.get(key) is not None else {}


def _theta(name: str, config: dict[str, Any]) -> float:
    """Rotations that are stretched are not made here."""
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind != "default":
        raise HeadError(f"{name}: its rotary positions are of the kind {kind!r}, and only plain ones are run here")
    return float(rope.get("rope_theta") or config.get("rope_theta") or 10000.0)


def _taps(parts: Parts, runner: Any) -> tuple[int, ...]:
    """Which layers' inputs: as the config says, else EAGLE-3's own low, middle and high one; in the layers' order, as
    vLLM reads them."""
    config, layers = parts.folder.config, target_sizes(runner)[1]
    inner = config.get("eagle_config") or {}
    key = "eagle_aux_hidden_state_layer_ids"
    given = config.get(key) or inner.get(key) or parts.config.get(key) or [2, layers // 2, layers - 3]
    fits = isinstance(given, list) and all(isinstance(i, int) and 0 <= i < layers for i in given)
    if not fits or len({*given}) != len(given):
        raise HeadError(
            f"{parts.folder.name}: it reads the inputs of the layers {given}, and {runner.name} has the layers 0 to "
            f"{layers - 1}; use the head that was trained for it"
        )
    return tuple(sorted(given))


def shared_embedding(runner: Any) -> Callable[[Tensor], Tensor]:
    """The target's own table. A head outlives no target: it holds the table, not the runner that it is kept under, and
    not as a module of its own."""
    table = runner.model.get_input_embeddings()
    return lambda ids: table(ids)


def _needed(shape: EagleShape, tensors: dict[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """Every tensor that such a head has, with those that it may have of its own."""
    hidden, inner = shape.hidden_size, shape.intermediate_size
    wide = shape.form == "eagle3"
    width = 2 * hidden if wide else hidden
    queries, keys = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
    fc = len(shape.taps) * shape.feature_size if wide else 2 * hidden
    needed: dict[str, tuple[int, ...]] = {"fc.weight": (hidden, fc)}
    if shape.fc_bias:
        needed["fc.bias"] = (hidden,)
    layer: dict[str, tuple[int, ...]] = {
        "self_attn.q_proj.weight": (queries, width),
        "self_attn.k_proj.weight": (keys, width),
        "self_attn.v_proj.weight": (keys, width),
        "self_attn.o_proj.weight": (hidden, queries),
        "mlp.gate_proj.weight": (inner, hidden),
        "mlp.up_proj.weight": (inner, hidden),
        "mlp.down_proj.weight": (hidden, inner),
        "post_attention_layernorm.weight": (hidden,),
    }
    if shape.attention_bias:
        layer |= {f"self_attn.{n}_proj.bias": (size,) for n, size in (("q", queries), ("k", keys), ("v", keys))}
    if wide:
        layer |= {"input_layernorm.weight": (hidden,), "hidden_norm.weight": (hidden,)}
        needed["norm.weight"] = (hidden,)
    elif shape.input_norm:
        layer["input_layernorm.weight"] = (hidden,)
    own = {"embed_tokens.weight": (shape.vocab_size, hidden), "lm_head.weight": (shape.draft_vocab_size, hidden)}
    named = {f"layers.0.{n}": s for n, s in layer.items()}
    return {**needed, **named, **{n: s for n, s in own.items() if n in tensors}}


def _ids(name: str, shape: EagleShape, offsets: Tensor | None, t2d: Tensor | None) -> Tensor | None:
    draft, vocab = shape.draft_vocab_size, shape.vocab_size
    if t2d is not None and not _marks(t2d):
        raise HeadError(f"{name}: its id map t2d must say of each of the target's ids true or false, or 1 or 0")
    if offsets is None:
        if draft != vocab:
            raise need_map(name, draft, vocab, "d2t")
        return None
    if not whole_numbers(offsets) or offsets.ndim != 1:
        raise HeadError(f"{name}: its id map d2t must be a row of whole numbers")
    ids = id_map(name, offsets.long() + torch.arange(len(offsets)), draft, vocab)
    if t2d is not None:
        marked = torch.zeros(vocab, dtype=torch.bool)
        marked[ids] = True
        if tuple(t2d.shape) != (vocab,) or not torch.equal(t2d.bool(), marked):
            raise HeadError(f"{name}: its two id maps, d2t and t2d, do not agree; copy the head again")
    return None if draft == vocab and torch.equal(ids, torch.arange(vocab)) else ids


def _marks(t2d: Tensor) -> bool:
    return t2d.dtype == torch.bool or (whole_numbers(t2d) and bool(((t2d == 0) | (t2d == 1)).all()))
