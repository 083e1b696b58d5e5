"""An EAGLE head's one layer, made ready for drafting: fused projections in the form that their kernels read fastest,
keys and values written in place, rotations looked up. What `fused` is to a target, this is to its head.

A draft step of a small head on a CPU is mostly overhead, so all that can be done once is done when the head is first
used. The numbers are those of `EagleHead` up to rounding, and up to int8 beside a target in int8 or int4.
"""

import weakref
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.heads.eagle import EagleHead
from engine.heads.ready import Rows, head_maker, ready, ready_norm
from engine.heads.recorded_layer import RecordedLayer

# Positions that a head's cache grows by.
BUCKET = 256
# Forwards of more positions are long enough for Python's part not to matter.
MOST_RECORDED = 64


class HeadCache:
    """One run's keys and values, [2 * kv_heads, capacity, head_dim]; the drafter knows how many of them stand."""

    def __init__(self, fast: "FastEagle") -> None:
        self.buffer = torch.zeros(2 * fast.kv_heads, BUCKET, fast.dim, dtype=fast.dtype, device=fast.device)

    def reserve(self, positions: int) -> Tensor:
        """The buffer, with room for so many positions."""
        old = self.buffer
        if positions > old.shape[1]:
            capacity = -(-max(positions, old.shape[1] * 3 // 2) // BUCKET) * BUCKET
            self.buffer = old.new_zeros(old.shape[0], capacity, old.shape[2])
            self.buffer[:, : old.shape[1]] = old
        return self.buffer


class FastEagle:
    """Holds weights and no sequence. rows: what the head guesses by; see `Rows`."""

    def __init__(self, head: EagleHead, runner: Any, vocab_size: int) -> None:
        shape, layer, make = head.shape, head.layer, head_maker(runner)
        self.device, self.dtype = runner.device, runner.dtype
        self.heads, self.kv_heads, self.dim = shape.num_heads, shape.num_kv_heads, shape.head_dim
        self.wide, self.norm_first, self.theta = layer.wide, layer.norm_first, shape.rope_theta
        own = None if head.embed_tokens is None else head.embed_tokens.weight.detach()
        # No method of the head is kept: it would keep the head, and this belongs to it.
        self.embed: Any = head._embed if own is None else lambda ids: F.embedding(ids, own)
        self.fc = ready(head.fc, make)
        self.norm_input = ready_norm(layer.input_layernorm)
        self.norm_hidden = ready_norm(layer.hidden_norm) if self.wide else None
        self.norm_mlp, self.norm = ready_norm(layer.post_attention_layernorm), ready_norm(head.norm)
        a, m = layer.self_attn, layer.mlp
        q, k, v = a.q_proj, a.k_proj, a.v_proj
        bias = None if q.bias is None else torch.cat([self._pairs(q.bias), self._pairs(k.bias), v.bias]).detach()
        weight = torch.cat([self._pairs(q.weight), self._pairs(k.weight), v.weight]).detach()
        self.qkv, self.out = make(weight, bias), ready(a.o_proj, make)
        self.gate_up = make(torch.cat([m.gate_proj.weight, m.up_proj.weight]).detach(), None)
        self.down = ready(m.down_proj, make)
        lm_head = None if head.lm_head is None else head.lm_head.weight.detach()
        like = torch.empty(0, dtype=self.dtype, device=self.device)
        self.rows = Rows(lm_head, head._head, head.draft_to_target, vocab_size, make, like)
        self.rotations = self._rotations(512)
        projections = (self.qkv, self.out, self.gate_up, self.down, *(() if self.wide else (self.fc,)))
        self._recorded = RecordedLayer(self.layer, projections) if self.device.type == "cpu" else None

    def _pairs(self, rows: Tensor) -> Tensor:
        """Rotary halves (i, i + d/2) brought side by side: a rotation is then one complex product, and no score
        changes."""
        heads = rows.shape[0] // self.dim
        return rows.view(heads, 2, self.dim // 2, *rows.shape[1:]).transpose(1, 2).reshape(rows.shape)

    def _rotations(self, length: int) -> Tensor:
        """[length, 1, head_dim / 2] complex."""
        powers = torch.arange(self.dim // 2, device=self.device, dtype=torch.float32) * (2 / self.dim)
        angles = torch.arange(length, device=self.device)[:, None] / self.theta**powers
        return torch.polar(torch.ones_like(angles), angles)[:, None]

    def fuse(self, features: Tensor) -> Tensor:
        """[n, len(taps) * width], the taps side by side -> [n, hidden], memory of its own."""
        return self.fc(features) if self.wide else features.clone()

    def logits(self, states: Tensor) -> Tensor:
        """[n, hidden] -> [n, len(rows)] float32"""
        return self.rows(states, self.norm)

    def forward(
        self,
        ids: Tensor,
        states: Tensor,
        cache: HeadCache,
        at: int,
        position: int,
        mask: Tensor | None = None,
        level: bool = False,
    ) -> Tensor:
        """Reads n positions: the state of each, [n, hidden], beside the id of the target that follows it, [n].

        Keys and values go to the cache from `at` on. position: of the first; the others follow on, or stand at the same
        one where they are a level of a tree. mask: [n, at + n] bool, what each sees; None: all before it and itself.
        Returns [n, hidden], the states to go on from."""
        n, end = ids.shape[0], at + ids.shape[0]
        live = cache.reserve(end)[None, :, :end]
        if mask is None and n > 1:
            mask = torch.ones(n, end, dtype=torch.bool, device=self.device).tril_(at)
        given = [
            self.embed(ids).to(self.dtype),
            states,
            self._rotation(position, 1 if level else n),
            live[0, :, at:],
            live[:, : self.kv_heads],
            live[:, self.kv_heads :],
        ]
        run: Callable[..., Tensor] = self.layer if self._recorded is None or n > MOST_RECORDED else self._recorded
        return run(*given) if mask is None else run(*given, mask)

    def layer(
        self,
        embedded: Tensor,
        states: Tensor,
        rotation: Tensor,
        target: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None = None,
    ) -> Tensor:
        """embedded, states: [n, hidden]. rotation: [n or 1, 1, head_dim / 2] complex. target: [2 * kv_heads, n, dim],
        where keys and values go, which are read back in keys and values, [1, kv_heads, end, dim]. mask: [n, end], for
        more rows than one. Everything that changes from step to step is a tensor, so that this may be recorded."""
        if self.wide:
            assert self.norm_input is not None
            assert self.norm_hidden is not None
            normed = self.norm_hidden(states)
            y = self.qkv(torch.cat((self.norm_input(embedded), normed), -1))
            x = normed if self.norm_first else states.clone()  # added to in place below
        else:
            x = self.fc(torch.cat((embedded, states), -1))
            y = self.qkv(x) if self.norm_input is None else self.qkv.normed(x, self.norm_input)
        y = y.view(-1, self.heads + 2 * self.kv_heads, self.dim)
        self._turn(y[:, : self.heads + self.kv_heads], rotation)
        target.copy_(y[:, self.heads :].transpose(0, 1))
        x = self.out.add_to(x, self._attend(y[:, : self.heads], keys, values, mask))
        assert self.norm_mlp is not None
        gate, up = self.gate_up.normed(x, self.norm_mlp).chunk(2, -1)
        return self.down.add_to(x, F.silu(gate).mul_(up))

    def _rotation(self, position: int, n: int) -> Tensor:
        if position + n > self.rotations.shape[0]:
            self.rotations = self._rotations(2 * (position + n))
        return self.rotations[position : position + n]

    def _turn(self, qk: Tensor, rotation: Tensor) -> None:
        pairs = torch.unflatten(qk, -1, (self.dim // 2, 2))
        if qk.dtype == torch.float32:
            torch.view_as_complex(pairs).mul_(rotation)
        else:
            pairs.copy_(torch.view_as_real(torch.view_as_complex(pairs.float()) * rotation))

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        """q [n, heads, dim]; k, v [1, kv_heads, end, dim] -> [n, heads * dim]. Heads that share a key stand as further
        queries of it."""
        kv, group, dim = self.kv_heads, self.heads // self.kv_heads, self.dim
        if mask is None:
            return F.scaled_dot_product_attention(q.view(1, kv, group, dim), k, v).reshape(1, -1)
        q = q.view(-1, kv, group, dim).permute(1, 2, 0, 3).reshape(1, kv, -1, dim)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask.repeat(group, 1))
        return a.view(kv, group, -1, dim).permute(2, 0, 1, 3).reshape(-1, self.heads * dim)


_FAST: "weakref.WeakKeyDictionary[EagleHead, tuple[object, FastEagle]]" = weakref.WeakKeyDictionary()


@torch.inference_mode()
def fast_eagle(head: EagleHead, runner: Any, vocab_size: int) -> FastEagle:
    """The head made ready beside this target, once; anew when its weights have changed since, as in training."""
    weights = ((p.data_ptr(), 0 if p.is_inference() else p._version) for p in head.parameters())
    made_from = (id(runner), vocab_size, *weights)
    found = _FAST.get(head)
    if found is None or found[0] != made_from:
        _FAST[head] = found = (made_from, FastEagle(head, runner, vocab_size))
    return found[1]
