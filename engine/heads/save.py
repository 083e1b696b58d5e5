"""`save_head`: a folder that `load_head` reads back: EAGLE-3 in the form of the `speculators` library, EAGLE-1 as
published, Medusa in vLLM's form.

What a head shares with its target is left out unless asked for, which keeps the file small; the config says what. vLLM
takes a folder without the embeddings; one without the rows of a reduced vocabulary it cannot serve, so such a folder is
for here until it is saved with complete=True.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.errors import EngineError
from engine.heads.card import model_card
from engine.heads.eagle import EagleHead
from engine.heads.medusa import MedusaHeads
from engine.heads.medusa_folder import ONE_SET

# The version of the `speculators` format that is written.
FORMAT = "0.9.0"
DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}


@torch.no_grad()
def save_head(
    head: EagleHead | MedusaHeads,
    folder: str | Path,
    card: Mapping[str, Any] | str,
    dtype: str = "bfloat16",
    complete: bool = False,
) -> Path:
    """Writes config.json, model.safetensors and README.md; returns the folder.

    card: the model card as it shall stand in README.md, or what is known of the head in plain JSON values, which goes
    into the config and the weights' metadata too, and of which a card is made where it holds none under "readme". Used
    besides: "target" (the target's name), "target_layers" and "vocabulary_sha256" (checked when loaded), "k" (tokens to
    draft), "max_positions". complete: save the target's embeddings and rows too, for other engines.
    Raises EngineError for an unknown dtype, a card that JSON cannot hold, or weights that the dtype cannot.
    """
    check_out(Path(folder))
    if dtype not in DTYPES:
        raise EngineError(f"unknown dtype {dtype!r} for a head: choose one of {', '.join(DTYPES)}")
    try:
        known = json.loads(json.dumps({"readme": card} if isinstance(card, str) else dict(card), allow_nan=False))
    except (TypeError, ValueError):
        raise EngineError("the model card of a head must hold plain JSON values: text, numbers, lists, null") from None
    if isinstance(head, EagleHead):
        tensors, config = _eagle(head, known, complete)
    else:
        tensors, config = _medusa(head, known, complete)
    readme = known.pop("readme", None) or model_card(config, known)
    saved = {name: _cast(name, t, DTYPES[dtype]) for name, t in tensors.items()}
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    # transformers' own loaders want format: pt; the rest says where the numbers come from.
    metadata = {"format": "pt", "specscope": json.dumps(known), "readme": readme}
    save_file(saved, path / "model.safetensors", metadata=metadata)
    (path / "config.json").write_text(json.dumps({**config, "dtype": dtype}, indent=2) + "\n", encoding="utf-8")
    (path / "README.md").write_text(readme, encoding="utf-8")
    return path


def check_out(folder: Path) -> None:
    """Raises EngineError for a folder that is none, or that holds weights which specscope did not put there: the target
    itself, say, which a head would write over."""
    if folder.exists() and not folder.is_dir():
        raise EngineError(f"{folder} is a file; give a folder for what is made")
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return
    except (OSError, ValueError):
        config = None
    if not isinstance(config, dict) or "specscope" not in config:
        raise EngineError(f"{folder} holds a model that would be written over; give another folder for what is made")


def _cast(name: str, tensor: Tensor, dtype: torch.dtype) -> Tensor:
    if not tensor.is_floating_point():
        return tensor.cpu().contiguous()
    out = tensor.detach().to(device="cpu", dtype=dtype).contiguous()
    if not bool(out.isfinite().all()):
        raise EngineError(f"the head's {name} does not fit into {dtype}; save it as bfloat16, or train it again")
    return out.clone() if out.data_ptr() == tensor.data_ptr() else out


def _eagle(head: EagleHead, card: dict[str, Any], complete: bool) -> tuple[dict[str, Tensor], dict[str, Any]]:
    shape = head.shape
    tensors = dict(head.state_dict())
    shared = []
    if head.embed_tokens is None:
        shared.append("embed_tokens.weight")
        if complete:
            ids = torch.arange(shape.vocab_size, device=head.fc.weight.device)
            tensors["embed_tokens.weight"] = head.embed(ids)
    if head.lm_head is None:
        shared.append("lm_head.weight")
        if complete:
            tensors["lm_head.weight"] = _rows_of(head._head, shape.hidden_size, head.fc.weight)
    if head.draft_to_target is not None:
        ids = head.draft_to_target.cpu()
        tensors["d2t"] = ids - torch.arange(len(ids))
        tensors["t2d"] = torch.zeros(shape.vocab_size, dtype=torch.bool).index_fill_(0, ids, True)
    layer = {
        "model_type": "llama",
        "vocab_size": shape.vocab_size,
        "hidden_size": shape.hidden_size,
        "intermediate_size": shape.intermediate_size,
        "num_hidden_layers": 1,
        "num_attention_heads": shape.num_heads,
        "num_key_value_heads": shape.num_kv_heads,
        "head_dim": shape.head_dim,
        "hidden_act": "silu",
        "max_position_embeddings": int(card.get("max_positions") or 8192),
        "rms_norm_eps": shape.rms_norm_eps,
        "rope_theta": shape.rope_theta,
        "rope_parameters": {"rope_type": "default", "rope_theta": shape.rope_theta},
        "attention_bias": shape.attention_bias,
        "mlp_bias": False,
        "tie_word_embeddings": False,
    }
    ours = _ours(card, [] if complete else shared)
    if shape.form == "eagle":
        plain = {"architectures": ["LlamaForCausalLM"], "draft_vocab_size": shape.draft_vocab_size, "specscope": ours}
        return tensors, {**layer, **plain}
    proposal = {"proposal_type": "greedy", "speculative_tokens": int(card.get("k") or 5)}
    verifier = {"name_or_path": card.get("target"), "architectures": card.get("target_architectures") or []}
    return tensors, {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "speculators_version": FORMAT,
        "speculators_config": {
            "algorithm": "eagle3",
            "proposal_methods": [proposal],
            "default_proposal_method": "greedy",
            "verifier": verifier,
        },
        "transformer_layer_config": layer,
        "draft_vocab_size": shape.draft_vocab_size,
        "norm_before_residual": shape.norm_before_residual,
        "norm_before_fc": False,
        "target_hidden_size": shape.feature_size,
        "eagle_aux_hidden_state_layer_ids": list(shape.taps),
        "specscope": ours,
    }


def _medusa(heads: MedusaHeads, card: dict[str, Any], complete: bool) -> tuple[dict[str, Tensor], dict[str, Any]]:
    shape = heads.shape
    tensors = {_vllm_name(n): t for n, t in heads.state_dict().items()}
    own = dict(heads.named_buffers()).get(ONE_SET)  # one set of rows for all heads, and not the target's
    shared = ["lm_head.weight"] if shape.shared_head and own is None else []
    if shape.shared_head and (complete or own is not None):
        tensors["lm_head.weight"] = _rows_of(heads._head, shape.hidden_size, next(heads.parameters()))
    if heads.draft_to_target is not None:
        tensors["token_map"] = heads.draft_to_target
    config = {
        "architectures": ["MedusaModel"],
        "model_type": "medusa",
        "num_heads": shape.num_heads,
        "num_hidden_layers": shape.num_layers,
        "hidden_size": shape.hidden_size,
        "vocab_size": shape.vocab_size,
        "truncated_vocab_size": shape.draft_vocab_size,
        "medusa_fc_bias": True,
        "original_lm_head": shape.shared_head,
        "specscope": {
            **_ours(card, [] if complete else shared),
            "accuracy": None if shape.accuracy is None else [list(row) for row in shape.accuracy],
        },
    }
    return tensors, config


def _ours(card: dict[str, Any], shared: list[str]) -> dict[str, Any]:
    return {**{k: v for k, v in card.items() if k != "readme"}, "shared_with_target": shared}


def _rows_of(head: Any, width: int, like: Tensor) -> Tensor:
    """[n, width], of what multiplies by them where that is all there is."""
    return head if isinstance(head, Tensor) else head(torch.eye(width, dtype=like.dtype, device=like.device)).T


def _vllm_name(name: str) -> str:
    """blocks.{head}.{block}.linear.weight -> blocks.{head}.layers.{block}.weight"""
    if not name.startswith("blocks."):
        return name
    _, head, block, _, kind = name.split(".")
    return f"blocks.{head}.layers.{block}.{kind}"
