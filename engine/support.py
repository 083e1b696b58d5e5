"""Which models can be decoded here, and how long their context is. Read from the config, never from the name."""

from typing import Any

from engine.errors import UnsupportedModelError

# Layer kinds whose state is a key and a value for each token, which a shorter length forgets.
ROLLS_BACK = {"full_attention", "sliding_attention", "chunked_attention"}


# Words in the names of layer kinds that fold all tokens into one state.
RECURRENT = ("linear", "mamba", "recurrent", "conv", "ssm", "rwkv", "hybrid")


def text_config(model: Any) -> Any:
    """The decoder's own config (a multimodal config holds it inside)."""
    return model.config.get_text_config(decoder=True)


def check_supported(model: Any) -> None:
    """Refuses, by name and with the reason, a model that is no causal LM or whose state cannot be rolled back."""
    config = text_config(model)
    kind = f"{type(model).__name__} ({config.model_type})"
    if model.config.is_encoder_decoder:
        raise UnsupportedModelError(
            f"{kind} is an encoder-decoder model; specscope decodes decoder-only models such as Llama, Qwen or Gemma"
        )
    if not callable(getattr(model, "get_output_embeddings", None)) or model.get_output_embeddings() is None:
        raise UnsupportedModelError(f"{kind} has no language-model head; load it with AutoModelForCausalLM")
    if getattr(config, "is_decoder", None) is False and "CausalLM" not in type(model).__name__ and _encoder_like(model):
        raise UnsupportedModelError(
            f"{kind} is an encoder-only model: it fills blanks and cannot continue a text; use a decoder-only model"
        )
    layers = getattr(config, "layer_types", None) or ()
    foreign = sorted({*layers} - ROLLS_BACK)
    recurrent = [name for name in foreign if any(word in name for word in RECURRENT)]
    if getattr(model, "_is_stateful", False) or recurrent:
        what = f"its {', '.join(recurrent)} layers keep" if recurrent else "it keeps"
        raise UnsupportedModelError(
            f"{kind} cannot be decoded speculatively here: {what} a running state that rejected tokens have already "
            "changed and that no shorter length can undo; use a model with full, sliding or chunked attention"
        )
    if foreign:
        raise UnsupportedModelError(
            f"{kind} has {', '.join(foreign)} layers, and whether a shorter length undoes their state has not been "
            "shown; use a model with full, sliding or chunked attention"
        )


def _encoder_like(model: Any) -> bool:
    return any(word in type(model).__name__ for word in ("MaskedLM", "LMHead", "PreTraining", "Bert"))


def context_length(model: Any) -> int | None:
    """Positions that the model was made for, or None when its config states none (ALiBi and the like).

    longrope switches its rotation when the length passes the original context, which would turn every cached key
    stale, so the original context is the limit. Dynamic NTK does the same past max_position_embeddings.
    """
    config = text_config(model)
    limits = [
        n
        for name in ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
        if isinstance(n := getattr(config, name, None), int) and n > 0
    ][:1]
    for rope in _rope_parameters(config):
        if rope.get("rope_type", rope.get("type")) == "longrope":
            original = rope.get("original_max_position_embeddings") or getattr(
                config, "original_max_position_embeddings", None
            )
            if original:
                limits.append(int(original))
    return min(limits) if limits else None


def _rope_parameters(config: Any) -> list[dict[str, Any]]:
    """The rope dictionaries of a config: one, or one a layer kind (Gemma 3)."""
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    if not isinstance(rope, dict):
        return []
    nested = [v for v in rope.values() if isinstance(v, dict)]
    return nested or [rope]
