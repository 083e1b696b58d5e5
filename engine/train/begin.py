"""A head's first weights: those of the target's last layer, where that is of the same make.

The head then begins as something that reads hidden states the way the target does, and little data goes a long way.
"""

from typing import Any

import torch
from torch import nn

from engine.heads.eagle import EagleHead
from engine.runner import Runner

# What is left of random weights beside the target's own.
SMALL = 0.3
QKV, MLP = ("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj", "down_proj")


@torch.no_grad()
def begin_as_target(head: EagleHead, runner: Runner) -> bool:
    """Copies what fits. False, and nothing is changed, where the target's last layer is of another make."""
    source, final = _last_layer(runner), getattr(runner.model.base_model, "norm", None)
    if source is None or final is None:
        return False
    layer, hidden = head.layer, head.shape.hidden_size
    whole = [(getattr(layer.mlp, n).weight, getattr(source.mlp, n).weight) for n in MLP]
    whole.append((layer.self_attn.o_proj.weight, source.self_attn.o_proj.weight))
    whole.append((layer.post_attention_layernorm.weight, source.post_attention_layernorm.weight))
    halves = [(getattr(layer.self_attn, n).weight, getattr(source.self_attn, n).weight) for n in QKV]
    if head.shape.form == "eagle":
        whole, halves = whole + halves, []
    else:
        whole += [(head.norm.weight, final.weight), (layer.hidden_norm.weight, source.input_layernorm.weight)]
    if any(a.shape != b.shape for a, b in whole) or any(a[:, hidden:].shape != b.shape for a, b in halves):
        return False
    for mine, theirs in whole:
        mine.copy_(theirs)
    for mine, theirs in halves:
        mine.mul_(SMALL)
        mine[:, hidden:] = theirs  # the half that reads the state
    # The last of what `fc` reads goes through as it is: the highest hidden state.
    head.fc.weight.mul_(SMALL)
    head.fc.weight[:, -hidden:] += torch.eye(hidden, device=head.fc.weight.device)
    return True


def _last_layer(runner: Runner) -> Any:
    layers = getattr(runner.model.base_model, "layers", None)
    if not isinstance(layers, nn.ModuleList) or not len(layers):
        return None
    found: Any = layers[-1]
    named = ("self_attn", "mlp", "input_layernorm", "post_attention_layernorm")
    plain = all(hasattr(found, n) for n in named) and all(hasattr(found.mlp, n) for n in MLP)
    return found if plain and all(hasattr(found.self_attn, n) for n in (*QKV, "o_proj")) else None
