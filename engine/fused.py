"""The decoder-only transformer of the Llama family in one function, with everything done once that can be.

transformers' own forward runs any model; this one runs the plain Llama shape (Llama, Mistral without a window, Qwen2,
Qwen3) with fused projections, keys and values written straight into the cache, and attention over the live length
only. Whether it may stand in for a model is not guessed from names: `fuse` compares logits with the original's.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.cache import SlotCache
from engine.linear import Linear, MakeLinear
from engine.support import text_config

FAMILIES = ("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
# Rotations that are the same at every length.
STATIC_ROPE = ("default", "linear", "llama3", "yarn")


@dataclass(frozen=True, slots=True)
class Layer:
    """norms: weights [hidden]; q_norm, k_norm: [head_dim] or None; the four fused projections."""

    attention_norm: Tensor
    qkv: Linear  # [hidden] -> [(heads + 2 * kv_heads) * head_dim]
    qk_norm: Tensor | None  # [heads + kv_heads, head_dim]
    out: Linear
    mlp_norm: Tensor
    gate_up: Linear  # [hidden] -> [2 * intermediate]
    down: Linear


class FusedDecoder:
    """Weights and shapes; holds no sequence. See `fuse` for how one is made."""

    def __init__(self, model: Any, make: MakeLinear, release: bool) -> None:
        config, body = text_config(model), model.model
        self.heads, self.kv_heads = int(config.num_attention_heads), int(config.num_key_value_heads)
        self.head_dim = int(getattr(config, "head_dim", None) or config.hidden_size // self.heads)
        self.intermediate = int(config.intermediate_size)
        self.eps = float(config.rms_norm_eps)
        self.num_layers = len(body.layers)
        self.embedding: Tensor = body.embed_tokens.weight.detach()  # [V, hidden]
        self.rotary = body.rotary_emb
        self.rotations = self._rotations(256)
        self.norm: Tensor = body.norm.weight.detach()
        self.layers = [self._layer(layer, make, release) for layer in body.layers]
        self.head = make(model.lm_head.weight.detach(), _bias(model.lm_head))

    def _layer(self, layer: Any, make: MakeLinear, release: bool) -> Layer:
        attention, mlp = layer.self_attn, layer.mlp
        q, k, v = attention.q_proj, attention.k_proj, attention.v_proj
        made = Layer(
            attention_norm=layer.input_layernorm.weight.detach(),
            qkv=make(
                torch.cat([self._pairs(q.weight), self._pairs(k.weight), v.weight]).detach(),
                _joined([self._pairs(_bias(q)), self._pairs(_bias(k)), _bias(v)]),
            ),
            qk_norm=self._qk_norm(attention),
            out=make(attention.o_proj.weight.detach(), _bias(attention.o_proj)),
            mlp_norm=layer.post_attention_layernorm.weight.detach(),
            gate_up=make(
                torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]).detach(),
                _joined([_bias(mlp.gate_proj), _bias(mlp.up_proj)]),
            ),
            down=make(mlp.down_proj.weight.detach(), _bias(mlp.down_proj)),
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
        rows, width = ids.shape
        heads, kv, dim = self.heads, self.kv_heads, self.head_dim
        group, hidden = heads // kv, self.embedding.shape[1:]
        stack = cache.stack(2 * kv, dim, self.embedding.dtype, self.embedding.device)
        place = _Place(cache.lengths, width, group, self.embedding)
        if place.end > self.rotations.shape[0]:
            self.rotations = self._rotations(2 * place.end)
        rotation = place.rotation(self.rotations)  # [rows * width or width, 1, head_dim / 2]
        live = stack[:, :, :, : place.end].unbind(0)
        targets = place.targets(stack)
        x = F.embedding(ids, self.embedding).view(rows * width, -1)  # [rows * width, hidden]
        for layer, seen, target in zip(self.layers, live, targets, strict=True):
            y = layer.qkv(torch.rms_norm(x, hidden, layer.attention_norm, self.eps)).view(
                rows * width, heads + 2 * kv, dim
            )
            qk = y[:, : heads + kv]
            if layer.qk_norm is not None:
                qk.copy_(torch.rms_norm(qk, (dim,), None, self.eps) * layer.qk_norm)
            _turn(y.view(rows, width, heads + 2 * kv, dim)[:, :, : heads + kv], rotation)
            place.write(target, y.view(rows, width, heads + 2 * kv, dim)[:, :, heads:])
            q = y.view(rows, width, heads + 2 * kv, dim)[:, :, :heads]
            q = q.unflatten(2, (kv, group)).permute(0, 2, 3, 1, 4).reshape(rows, kv, group * width, dim)
            a = F.scaled_dot_product_attention(q, seen[:, :kv], seen[:, kv:], attn_mask=place.mask)
            a = a.view(rows, kv, group, width, dim).permute(0, 3, 1, 2, 4).reshape(rows * width, heads * dim)
            x = x.add_(layer.out(a))
            y = layer.gate_up(torch.rms_norm(x, hidden, layer.mlp_norm, self.eps))
            x.add_(layer.down(F.silu(y[:, : self.intermediate]).mul_(y[:, self.intermediate :])))
        x = x.view(rows, width, -1)[:, width - keep :].reshape(rows * keep, -1)  # what the head is asked for
        return self.head(torch.rms_norm(x, hidden, self.norm, self.eps)).view(rows, keep, -1)


def _turn(qk: Tensor, rotation: Tensor) -> None:
    """Rotates [rows, width, heads, head_dim] in place, pair by pair, in float32 whatever its dtype."""
    pairs = qk.unflatten(-1, (-1, 2))
    if qk.dtype == torch.float32:
        torch.view_as_complex(pairs).mul_(rotation)
    else:
        pairs.copy_(torch.view_as_real(torch.view_as_complex(pairs.float()) * rotation))


class _Place:
    """Where a forward's tokens go: worked out once, used by every layer."""

    def __init__(self, lengths: list[int], width: int, group: int, like: Tensor) -> None:
        self.lengths, self.width = lengths, width
        self.level = len(set(lengths)) == 1
        self.start, self.end = max(lengths), max(lengths) + width
        self.positions: Tensor | None = None
        self.mask: Tensor | None = None
        if self.level and width == 1:
            return  # one token sees everything
        offsets = torch.arange(width, device=like.device)
        starts = torch.tensor([self.start] if self.level else lengths, device=like.device)
        positions = starts[:, None] + offsets  # [rows or 1, width]
        hidden = torch.arange(self.end, device=like.device) > positions[:, :, None]  # [rows or 1, width, end]
        mask = torch.zeros(hidden.shape, dtype=like.dtype, device=like.device).masked_fill_(hidden, float("-inf"))
        self.mask = mask.repeat(1, group, 1)[:, None]  # [rows or 1, 1, group * width, end]: heads of a group, stacked
        if not self.level:
            self.positions = positions
            self.rows = torch.arange(len(lengths), device=like.device)[:, None]

    def rotation(self, table: Tensor) -> Tensor:
        """[rows or 1, width, 1, head_dim / 2]"""
        return table[None, self.start : self.end] if self.positions is None else table[self.positions]

    def targets(self, stack: Tensor) -> tuple[Tensor, ...]:
        """For each layer: [rows, width, 2 * kv_heads, head_dim] where all rows are level, else its whole buffer."""
        if self.positions is None:
            stack = stack[:, :, :, self.start : self.end].transpose(2, 3)
        return stack.unbind(0)

    def write(self, target: Tensor, kv: Tensor) -> None:
        """kv [rows, width, 2 * kv_heads, head_dim]"""
        if self.positions is None:
            target.copy_(kv)
        else:
            target[self.rows, :, self.positions] = kv


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
    )


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
