"""The decoder-only transformer of the Llama family in one function, with everything done once that can be.

transformers' own forward runs any model; this one runs the plain Llama shape (Llama, Mistral without a window, Qwen2,
Qwen3) with fused projections, keys and values written straight into the cache, and attention over the live length
only. Whether it may stand in for a model is not guessed from names: `fuse` compares logits with the original's.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.cache import SlotCache
from engine.linear import Linear, MakeLinear, RmsNorm
from engine.place import Place, StaticPlace
from engine.support import text_config
from engine.tree import Block

FAMILIES = ("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
# Rotations that are the same at every length.
STATIC_ROPE = ("default", "linear", "llama3", "yarn")


class Asked(NamedTuple):
    """What a forward is to say. keep: of how many last positions the logits. blocks: for each row how its tokens follow
    each other, where any is a tree. taps: which hidden states; layer i's input for i >= 0, and -1 for what the head
    reads. layers: how many layers to run, None for all."""

    keep: int
    blocks: Sequence[Block] | None = None
    taps: tuple[int, ...] = ()
    layers: int | None = None


class Read(NamedTuple):
    """logits: [rows, keep, V]. hidden: for each tap [rows, width, hidden]."""

    logits: Tensor
    hidden: dict[int, Tensor]


# Runs the layers: see `FusedDecoder.body`.
Body = Callable[
    [Tensor, Tensor, Sequence[Tensor], Sequence[Tensor], Sequence[Tensor], Place, tuple[int, ...]], tuple[Tensor, ...]
]


@dataclass(frozen=True, slots=True)
class Layer:
    """qk_norm: weights of the norms of queries and keys, where the family has them; the four fused projections."""

    attention_norm: RmsNorm
    qkv: Linear  # [hidden] -> [(heads + 2 * kv_heads) * head_dim]
    qk_norm: Tensor | None  # [heads + kv_heads, head_dim]
    out: Linear
    mlp_norm: RmsNorm
    gate_up: Linear  # [hidden] -> [2 * intermediate]
    down: Linear

    @property
    def projections(self) -> tuple[Linear, ...]:
        return self.qkv, self.out, self.gate_up, self.down


class FusedDecoder:
    """Weights and shapes; holds no sequence. See `fuse` for how one is made."""

    def __init__(self, model: Any, make: MakeLinear, release: bool) -> None:
        config, body = text_config(model), model.model
        self.heads, self.kv_heads = int(config.num_attention_heads), int(config.num_key_value_heads)
        self.head_dim = int(getattr(config, "head_dim", None) or config.hidden_size // self.heads)
        self.eps = float(config.rms_norm_eps)
        self.num_layers = len(body.layers)
        # One view of a mapped checkpoint keeps the whole file in memory; copies let go of it.
        self.own = torch.clone if release else torch.Tensor.detach
        self.embedding: Tensor = self.own(body.embed_tokens.weight.detach())  # [V, hidden]
        self.rotary = body.rotary_emb
        self.rotations = self._rotations(256)
        self.norm = RmsNorm(body.norm.weight.detach(), self.eps)
        self.layers = [self._layer(layer, make, release) for layer in body.layers]
        self.vocab_size = int(model.lm_head.weight.shape[0])
        tied = model.lm_head.weight is body.embed_tokens.weight
        self.head = make(self.embedding if tied else model.lm_head.weight.detach(), _bias(model.lm_head))
        if release:
            model.forward = _spent
            body.layers, body.norm = torch.nn.ModuleList(), torch.nn.Identity()
            body.embed_tokens.weight.data = self.embedding
            if not tied:
                model.lm_head.weight = None

    def _layer(self, layer: Any, make: MakeLinear, release: bool) -> Layer:
        attention, mlp = layer.self_attn, layer.mlp
        q, k, v = attention.q_proj, attention.k_proj, attention.v_proj
        made = Layer(
            attention_norm=RmsNorm(layer.input_layernorm.weight.detach(), self.eps),
            qkv=make(
                torch.cat([self._pairs(q.weight), self._pairs(k.weight), v.weight]).detach(),
                _joined([self._pairs(_bias(q)), self._pairs(_bias(k)), _bias(v)]),
            ),
            qk_norm=self._qk_norm(attention),
            out=make(self.own(attention.o_proj.weight.detach()), _bias(attention.o_proj)),
            mlp_norm=RmsNorm(layer.post_attention_layernorm.weight.detach(), self.eps),
            gate_up=make(
                torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]).detach(),
                _joined([_bias(mlp.gate_proj), _bias(mlp.up_proj)]),
            ),
            down=make(self.own(mlp.down_proj.weight.detach()), _bias(mlp.down_proj)),
        )
        if release:  # one layer at a time, so that the model is never held twice
            for linear in (q, k, v, attention.o_proj, mlp.gate_proj, mlp.up_proj, mlp.down_proj):
                linear.weight = None
        return made

    def _pairs(self, rows: Any) -> Any:
        """Rotary halves (i, i + d/2) brought side by side, so that a rotation is one complex product. Attention
        scores do not change when queries and keys are reordered alike."""
        if rows is None:
            return None
        heads = rows.shape[0] // self.head_dim
        return rows.view(heads, 2, self.head_dim // 2, *rows.shape[1:]).transpose(1, 2).reshape(rows.shape)

    def _qk_norm(self, attention: Any) -> Tensor | None:
        if getattr(attention, "q_norm", None) is None:
            return None
        q, k = (self._pairs(n.weight.detach()) for n in (attention.q_norm, attention.k_norm))
        return torch.cat([q.expand(self.heads, -1), k.expand(self.kv_heads, -1)])

    def _rotations(self, length: int) -> Tensor:
        """[length, 1, head_dim / 2] complex: position p turns pair i by its angle."""
        positions = torch.arange(length, device=self.embedding.device)[None]
        cos, sin = self.rotary(self.embedding[:1].float(), positions)  # [1, length, head_dim]
        half = self.head_dim // 2
        return torch.complex(cos[0, :, :half].float(), sin[0, :, :half].float())[:, None]

    def forward(self, ids: Tensor, cache: SlotCache, keep: int) -> Tensor:
        """ids [rows, width] are read behind what each row of the cache holds. Returns [rows, keep, V], the logits of
        the last `keep` positions. The caller reserves and advances the cache."""
        return self.read(ids, cache, Asked(keep), self.body).logits

    def read(self, ids: Tensor, cache: SlotCache, asked: Asked, body: Body | None = None) -> Read:
        """`forward` with more to ask for, and perhaps another way to run the layers."""
        place = Place(cache.lengths, ids.shape[1], self.heads // self.kv_heads, self.embedding, asked.blocks)
        return self._read(ids, self.stack(cache), place, self.rotations_to(place.end), asked, body or self.body)

    def forward_static(self, ids: Tensor, lengths: Tensor, stack: Tensor, end: int, rotations: Tensor) -> Tensor:
        """`forward` with every number that changes from step to step in a tensor, for a CUDA graph: ids [rows, width]
        are read behind lengths [rows], with keys and values in `stack`, of which `end` positions are read, and at
        least as many `rotations`. Returns [rows, width, V]."""
        place = StaticPlace(lengths, ids.shape[1], end, self.heads // self.kv_heads, self.embedding)
        return self._read(ids, stack, place, rotations, Asked(ids.shape[1]), self.body).logits

    def stack(self, cache: SlotCache) -> Tensor:
        """[layers, rows, 2 * kv_heads, capacity, head_dim]: where this decoder keeps the keys and values of a cache."""
        return cache.stack(2 * self.kv_heads, self.head_dim, self.embedding.dtype, self.embedding.device)

    def rotations_to(self, end: int) -> Tensor:
        """At least the first `end` rotations."""
        table = self.rotations
        if end > table.shape[0]:
            self.rotations = table = self._rotations(2 * end)
        return table

    def _read(self, ids: Tensor, stack: Tensor, place: Place, rotations: Tensor, asked: Asked, body: Body) -> Read:
        """ids [rows, width]. body: what runs the layers, `self.body` or a recording of it."""
        (rows, width), keep, hidden = ids.shape, asked.keep, self.embedding.shape[1]
        rotation = place.rotation(rotations)  # [rows or 1, width, 1, head_dim / 2]
        live = stack[: asked.layers, :, :, : place.end]  # [layers, rows, 2 * kv, end, head_dim]
        keys, values = live[:, :, : self.kv_heads].unbind(0), live[:, :, self.kv_heads :].unbind(0)
        targets = place.targets(stack[: asked.layers])
        x = F.embedding(ids, self.embedding)  # [rows, width, hidden]
        inner = tuple(tap for tap in asked.taps if tap >= 0)
        x, *tapped = body(x, rotation, keys, values, targets, place, inner)  # [rows * width, hidden] each
        seen = {tap: t.view(rows, width, hidden) for tap, t in zip(inner, tapped, strict=True)}
        if len(inner) < len(asked.taps):
            seen[-1] = self.norm(x).view(rows, width, hidden)
        x = x.view(rows, width, -1)[:, width - keep :].reshape(rows * keep, -1)  # what the head is asked for
        return Read(self.head.normed(x, self.norm).view(rows, keep, -1), seen)

    def body(
        self,
        x: Tensor,
        rotation: Tensor,
        keys: Sequence[Tensor],
        values: Sequence[Tensor],
        targets: Sequence[Tensor],
        place: Place,
        taps: tuple[int, ...] = (),
    ) -> tuple[Tensor, ...]:
        """The first layers, as many as there are keys: x [rows, width, hidden] -> [rows * width, hidden], and the same
        of what went into each layer of `taps`. keys, values, targets: one a layer. Everything that changes from step to
        step is a tensor here, so that this may be recorded once; see `engine.recorded`."""
        rows, width = x.shape[:2]
        tapped: dict[int, Tensor] = {}
        heads, kv, dim = self.heads, self.kv_heads, self.head_dim
        x = x.view(-1, self.embedding.shape[1])
        layers = self.layers[: len(keys)]
        for i, (layer, k, v, target) in enumerate(zip(layers, keys, values, targets, strict=True)):
            if i in taps:
                tapped[i] = x.clone()  # x is added to in place
            y = layer.qkv.normed(x, layer.attention_norm).view(rows, width, heads + 2 * kv, dim)
            q, qk, fresh = y[:, :, :heads], y[:, :, : heads + kv], y[:, :, heads:]
            if layer.qk_norm is not None:
                qk.copy_(torch.rms_norm(qk, (dim,), None, self.eps) * layer.qk_norm)
            self._turn(qk, rotation)
            place.write(target, fresh)
            x = layer.out.add_to(x, self._attend(q, k, v, rows, place))
            gate, up = layer.gate_up.normed(x, layer.mlp_norm).chunk(2, -1)
            x = layer.down.add_to(x, F.silu(gate).mul_(up))
        return x, *(tapped[i] for i in taps)

    def _turn(self, qk: Tensor, rotation: Tensor) -> None:
        """Rotates [rows, width, heads, head_dim] in place, pair by pair, in float32 whatever its dtype."""
        pairs = torch.unflatten(qk, -1, (self.head_dim // 2, 2))
        if qk.dtype == torch.float32:
            torch.view_as_complex(pairs).mul_(rotation)
        else:
            pairs.copy_(torch.view_as_real(torch.view_as_complex(pairs.float()) * rotation))

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, rows: int, place: Place) -> Tensor:
        """q [rows, width, heads, head_dim]; k, v [rows, kv_heads, end, head_dim] -> [rows * width, heads * head_dim].
        The heads that share a key stand as further queries of it, so no key is ever repeated in memory."""
        heads, kv, dim = self.heads, self.kv_heads, self.head_dim
        group = heads // kv
        if place.single:
            a = F.scaled_dot_product_attention(q.view(rows, kv, group, dim), k, v, attn_mask=place.mask)
            return a.reshape(-1, heads * dim)
        q = q.view(rows, -1, kv, group, dim).permute(0, 2, 3, 1, 4).reshape(rows, kv, -1, dim)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=place.mask)
        return a.view(rows, kv, group, -1, dim).permute(0, 3, 1, 2, 4).reshape(-1, heads * dim)


def _spent(*_: Any, **__: Any) -> Any:
    raise RuntimeError("the fused form has taken this model's weights over; load the model again to run it by itself")


def can_fuse(model: Any) -> bool:
    """Is this the plain Llama shape, to the letter? A yes is still checked against the model's own logits."""
    config = text_config(model)
    rope = getattr(config, "rope_parameters", None) or {}
    layers = getattr(config, "layer_types", None) or ()
    return (
        type(model).__name__ in FAMILIES
        and type(model).__module__.startswith("transformers.")
        and config.hidden_act == "silu"
        and set(layers) <= {"full_attention"}
        and (bool(layers) or not getattr(config, "sliding_window", None))
        and rope.get("rope_type", "default") in STATIC_ROPE
        and float(rope.get("partial_rotary_factor", None) or 1.0) == 1.0
        and all(type(m) is torch.nn.Linear for m in _linears(model))
        and _layers_are_alike(model, config)
    )


def _layers_are_alike(model: Any, config: Any) -> bool:
    """Logits are compared over the first layers, so the rest must be like them: each its own, nothing hooked into or
    put in the place of a forward, and the numbers that are no weights as the config has them."""
    touched = any(m._forward_hooks or m._forward_pre_hooks or "forward" in vars(m) for m in model.modules())
    layers = list(model.model.layers)
    dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    norms = [n for layer in layers for n in (layer.input_layernorm, layer.post_attention_layernorm)]
    return (
        not touched
        and len(layers) == len({id(layer) for layer in layers})
        and all(abs(layer.self_attn.scaling * dim**0.5 - 1) < 1e-6 for layer in layers)
        and all(n.variance_epsilon == config.rms_norm_eps for n in (*norms, model.model.norm))
    )


def is_spent(model: Any) -> bool:
    """Has a fused form taken its weights over?"""
    return vars(model).get("forward") is _spent


def _linears(model: Any) -> list[Any]:
    found = [model.lm_head]
    for layer in model.model.layers:
        attention, mlp = layer.self_attn, layer.mlp
        found += [attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj]
        found += [mlp.gate_proj, mlp.up_proj, mlp.down_proj]
    return found


def _bias(linear: Any) -> Tensor | None:
    return None if linear.bias is None else linear.bias.detach()


def _joined(biases: list[Any]) -> Tensor | None:
    return None if biases[0] is None else torch.cat(biases)
