"""A transformers model with its first layers alone, which shares the whole model's weights."""

import copy
from typing import Any

from engine.errors import UnsupportedModelError


def first_layers(model: Any, layers: int) -> Any:
    """`model` as if it had `layers` layers. Nothing of the model itself is touched, so both may run at once. Raises
    UnsupportedModelError for a model whose layers are not one list."""
    shallow = _copied(model)
    body_name = getattr(model, "base_model_prefix", "")
    body = getattr(model, body_name, None)
    name = next((n for n in ("layers", "h", "blocks") if hasattr(body, n)), None)
    if body is None or name is None:
        raise UnsupportedModelError(
            f"{type(model).__name__} keeps its layers where they cannot be found, so its first ones cannot draft; use "
            "another drafter"
        )
    config = copy.deepcopy(model.config)
    text = config.get_text_config(decoder=True)
    text.num_hidden_layers = layers
    if getattr(text, "layer_types", None):
        text.layer_types = text.layer_types[:layers]
    inner = _copied(body)
    inner._modules[name] = type(getattr(body, name))(list(getattr(body, name))[:layers])
    shallow._modules[body_name] = inner
    shallow.config = inner.config = config
    return shallow


def _copied(module: Any) -> Any:
    """A module of its own that holds the same parts."""
    copied = copy.copy(module)
    copied._modules = dict(module._modules)
    return copied
