"""Makes a loaded model fast on its device: fused where it is of the Llama shape, else with its linear layers packed."""

from typing import Any

import torch
from torch import Tensor

from engine.cache import SlotCache
from engine.fused import FusedDecoder, can_fuse
from engine.linear import Linear, LinearModule, MakeLinear, PlainLinear, linear_maker

# Tokens of the text on which a fused forward is held against the model's own, and the layers that are compared.
PROBE_TOKENS, PROBE_LAYERS = 12, 2
# Largest difference that rounding may make, in standard deviations of the logits.
ROUNDING, HALF_ROUNDING = 1e-3, 0.25
# Layers with fewer outputs stay as they are: a router or a gate costs nothing and is the first to suffer.
SMALLEST = 64


@torch.inference_mode()
def make_fast(model: Any, quantization: str) -> FusedDecoder | None:
    """The fused form of `model`, which then holds the model's weights in the model's stead; or None for a model of
    another shape, whose linear layers are made ready where they stand. Raises EngineError: see `linear_maker`."""
    embedding = model.get_input_embeddings().weight
    make = linear_maker(quantization, embedding.device, embedding.dtype)
    if can_fuse(model) and _agrees(model):
        return FusedDecoder(model, make, release=True)
    if make is not PlainLinear:
        _replace_linears(model, make)
    return None


def read_bytes(model: Any, fused: FusedDecoder | None) -> int:
    """Bytes of weights that one forward of one token reads. A mixture of experts counts whole, though it reads less."""
    if fused is not None:
        return int(sum(p.nbytes for layer in fused.layers for p in layer.projections) + fused.head.nbytes)
    ready: int = sum(m.linear.nbytes for m in model.modules() if isinstance(m, LinearModule))
    kept = {p.data_ptr(): p.numel() * p.element_size() for p in model.parameters() if p.device.type != "meta"}
    head, embedding = model.get_output_embeddings(), model.get_input_embeddings().weight
    if head.weight is not embedding:  # of an embedding of its own only single rows are read
        kept.pop(embedding.data_ptr(), None)
    return int(ready + sum(kept.values()))


def _agrees(model: Any) -> bool:
    """Do the first layers, fused and as they are, say the same? All layers of such a model are alike."""
    layers = model.model.layers
    model.model.layers = layers[:PROBE_LAYERS]
    try:
        ids = _probe(model)
        own = model(input_ids=ids, use_cache=False).logits[0]
        fused = FusedDecoder(model, PlainLinear, release=False)
        cache = SlotCache(fused.num_layers)
        cache.reserve(ids.shape[1])
        return _close(own, fused.forward(ids, cache, ids.shape[1])[0])
    except (RuntimeError, TypeError, AttributeError, IndexError, ValueError):
        return False  # of a shape that only looks the same: its own forward runs it
    finally:
        model.model.layers = layers


def _replace_linears(model: Any, make: MakeLinear) -> None:
    """Each `nn.Linear` by a ready one. A model whose code looks inside its layers is left as it is."""
    ids = _probe(model)
    try:
        own = model(input_ids=ids, use_cache=False).logits[0]
    except (RuntimeError, TypeError, AttributeError, IndexError, ValueError):
        return  # the runner's own check says what is wrong with it
    linears = {n: m for n, m in model.named_modules() if type(m) is torch.nn.Linear and m.out_features >= SMALLEST}
    for name, linear in linears.items():
        model.set_submodule(name, LinearModule(_ready(linear, PlainLinear), linear))
    try:
        same = _close(own, model(input_ids=ids, use_cache=False).logits[0])
    except (RuntimeError, TypeError, AttributeError):
        same = False
    for name in list(linears):  # one layer at a time, so that the model is never held twice
        linear = linears.pop(name)
        model.set_submodule(name, LinearModule(_ready(linear, make), linear) if same else linear)


def _ready(linear: torch.nn.Linear, make: MakeLinear) -> Linear:
    return make(linear.weight.detach(), None if linear.bias is None else linear.bias.detach())


def _probe(model: Any) -> Tensor:
    """[1, PROBE_TOKENS] ids spread over the vocabulary."""
    embedding = model.get_input_embeddings().weight
    count = embedding.shape[0]
    return torch.tensor([[count * (i + 1) // (PROBE_TOKENS + 1) for i in range(PROBE_TOKENS)]], device=embedding.device)


def _close(own: Tensor, other: Tensor) -> bool:
    allowed = ROUNDING if own.dtype == torch.float32 else HALF_ROUNDING
    own, other = own.float(), other.float()
    return bool(((own - other).abs().max() <= allowed * own.std().clamp(min=1e-6)) & torch.isfinite(other).all())
