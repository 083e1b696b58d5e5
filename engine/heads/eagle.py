"""The EAGLE head: one decoder layer that reads the target's hidden states and the tokens that followed them.

EAGLE (Li et al. 2024, arXiv 2401.15077): `fc` joins the embedding of token t+1 with the target's last hidden state of
token t, and what the layer puts out is its guess of the next such state. EAGLE-3 (Li et al. 2025, arXiv 2503.01840):
`fc` fuses a low, a middle and a high hidden state; attention reads embedding and fused state side by side; the output
is bound to nothing but the tokens it should lead to. At position t a head of either form reads (embedding of token
t+1, state of token t) and guesses token t+2.

Parameters are named as the `speculators` format names them: fc, layers.0, norm, lm_head, embed_tokens.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.errors import EngineError

Lookup = Callable[[Tensor], Tensor]
KeysValues = tuple[Tensor, Tensor]  # each [B, kv_heads, S, head_dim], keys already rotated


@dataclass(frozen=True, slots=True)
class EagleShape:
    """What a head is, without its weights. Raises EngineError where the numbers contradict each other.

    vocab_size: the target's. draft_vocab_size: ids that the head can guess; equal to vocab_size without a map. taps:
    hidden states it reads: i >= 0 is the input of the target's layer i, -1 the last one behind the final norm.
    fc_bias, attention_bias: whether those layers add one. input_norm: whether the layer norms what it reads (EAGLE-1's
    does not). norm_before_residual: the residual is the normed state (EAGLE-3 in `speculators`). target_hidden_size:
    the width of one tap; None: hidden_size.
    """

    form: Literal["eagle", "eagle3"]
    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    draft_vocab_size: int
    taps: tuple[int, ...] = (-1,)
    rms_norm_eps: float = 1e-5
    rope_theta: float = 10000.0
    fc_bias: bool = False
    attention_bias: bool = False
    input_norm: bool = True
    norm_before_residual: bool = False
    target_hidden_size: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "taps", tuple(self.taps))
        if self.form not in ("eagle", "eagle3"):
            raise EngineError(f"unknown form {self.form!r} of a head: it is eagle or eagle3")
        sizes = (self.hidden_size, self.intermediate_size, self.num_heads, self.num_kv_heads, self.head_dim)
        if min(*sizes, self.vocab_size, self.draft_vocab_size, len(self.taps)) < 1:
            raise EngineError("every size of an EAGLE head must be at least 1, and it reads at least one hidden state")
        if self.num_heads % self.num_kv_heads or self.head_dim % 2:
            raise EngineError(
                f"{self.num_heads} attention heads of {self.head_dim} numbers cannot share {self.num_kv_heads} keys"
            )
        if self.draft_vocab_size > self.vocab_size:
            raise EngineError(
                f"the head guesses {self.draft_vocab_size} ids, and the target has no more than {self.vocab_size}"
            )
        if self.form == "eagle" and (len(self.taps) != 1 or self.feature_size != self.hidden_size):
            raise EngineError("an EAGLE-1 head reads one hidden state as wide as itself; give form eagle3 for others")

    @property
    def feature_size(self) -> int:
        """The width of one tap."""
        return self.target_hidden_size or self.hidden_size

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "taps": list(self.taps)}


class RmsNorm(nn.Module):
    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        # In float32 under autocast too, where a sum of squares would lose its small parts.
        return torch.rms_norm(x.float(), self.weight.shape, self.weight.float(), self.eps).to(x.dtype)


class Attention(nn.Module):
    """Grouped-query attention with rotary positions over `width` inputs."""

    def __init__(self, shape: EagleShape, width: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.dim = shape.num_heads, shape.num_kv_heads, shape.head_dim
        bias = shape.attention_bias
        self.q_proj = nn.Linear(width, self.heads * self.dim, bias=bias)
        self.k_proj = nn.Linear(width, self.kv_heads * self.dim, bias=bias)
        self.v_proj = nn.Linear(width, self.kv_heads * self.dim, bias=bias)
        self.o_proj = nn.Linear(self.heads * self.dim, shape.hidden_size, bias=False)

    def project(self, x: Tensor, rotation: KeysValues) -> tuple[Tensor, Tensor, Tensor]:
        """x [B, T, width]; rotation: cos and sin, [B, 1, T, dim]. Returns q [B, heads, T, dim], rotated, and k, v [B,
        kv_heads, T, dim], k rotated."""
        q, k, v = (p(x).unflatten(-1, (-1, self.dim)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        return rotate(q, *rotation), rotate(k, *rotation), v

    def merge(self, attended: Tensor) -> Tensor:
        """[B, heads, T, dim] -> [B, T, hidden]"""
        merged: Tensor = self.o_proj(attended.transpose(1, 2).flatten(2))
        return merged


class Mlp(nn.Module):
    def __init__(self, hidden: int, intermediate: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden, intermediate, bias=False)
        self.up_proj = nn.Linear(hidden, intermediate, bias=False)
        self.down_proj = nn.Linear(intermediate, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Layer(nn.Module):
    """The head's one layer, in two halves with the attention between them: training puts its own there."""

    def __init__(self, shape: EagleShape) -> None:
        super().__init__()
        hidden, eps = shape.hidden_size, shape.rms_norm_eps
        self.wide = shape.form == "eagle3"  # reads embedding and state side by side
        self.norm_first = shape.norm_before_residual
        self.self_attn = Attention(shape, 2 * hidden if self.wide else hidden)
        self.mlp = Mlp(hidden, shape.intermediate_size)
        self.input_layernorm = RmsNorm(hidden, eps) if shape.input_norm or self.wide else nn.Identity()
        self.post_attention_layernorm = RmsNorm(hidden, eps)
        if self.wide:
            self.hidden_norm = RmsNorm(hidden, eps)

    def enter(self, embedded: Tensor, hidden: Tensor, rotation: KeysValues) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns residual, q, k, v."""
        if self.wide:
            normed = self.hidden_norm(hidden)
            x = torch.cat([self.input_layernorm(embedded), normed], -1)
            residual = normed if self.norm_first else hidden
        else:
            x, residual = self.input_layernorm(hidden), hidden
        return residual, *self.self_attn.project(x, rotation)

    def leave(self, residual: Tensor, attended: Tensor) -> Tensor:
        """attended [B, heads, T, dim] -> [B, T, hidden]"""
        x = residual + self.self_attn.merge(attended)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class EagleHead(nn.Module):
    """embed: the target's embedding lookup, ids [...] -> [..., hidden], shared and never copied; None: the checkpoint
    has its own, `embed_tokens`. head: the target's rows for the ids that the head can guess [draft_vocab, hidden], or
    what multiplies by them; None: its own, `lm_head`. draft_to_target: [draft_vocab], the target's id of each id of
    the head; None: they are the same."""

    def __init__(
        self,
        shape: EagleShape,
        embed: Lookup | None = None,
        head: Tensor | Lookup | None = None,
        draft_to_target: Tensor | None = None,
    ) -> None:
        super().__init__()
        check_map(draft_to_target, shape.draft_vocab_size, shape.vocab_size)
        self.shape = shape
        inputs = 2 * shape.hidden_size if shape.form == "eagle" else len(shape.taps) * shape.feature_size
        self.fc = nn.Linear(inputs, shape.hidden_size, bias=shape.fc_bias)
        self.layers = nn.ModuleList([Layer(shape)])
        self.norm = RmsNorm(shape.hidden_size, shape.rms_norm_eps) if shape.form == "eagle3" else nn.Identity()
        self.embed_tokens = nn.Embedding(shape.vocab_size, shape.hidden_size) if embed is None else None
        self.lm_head = nn.Linear(shape.hidden_size, shape.draft_vocab_size, bias=False) if head is None else None
        self._embed, self._head = embed, head
        self.draft_to_target = draft_to_target

    @property
    def taps(self) -> tuple[int, ...]:
        return self.shape.taps

    @property
    def layer(self) -> Layer:
        layer = self.layers[0]
        assert isinstance(layer, Layer)
        return layer

    def embed(self, ids: Tensor) -> Tensor:
        """ids [...] of the target -> [..., hidden]: the checkpoint's own embeddings, else the target's."""
        if self.embed_tokens is not None:
            own: Tensor = self.embed_tokens(ids)
            return own
        assert self._embed is not None
        return self._embed(ids)

    def fuse(self, features: Tensor) -> Tensor:
        """[..., len(taps) * feature_size], the taps side by side in order -> [..., hidden], the first state."""
        if self.shape.form == "eagle":
            return features
        fused: Tensor = self.fc(features)
        return fused

    def forward(
        self,
        embedded: Tensor,
        hidden: Tensor,
        positions: Tensor,
        past: KeysValues | None = None,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, KeysValues]:
        """embedded, hidden: [B, T, hidden], the embedding of the token after each position and the state of the
        position: fused from the target, or what this returned for the position before. positions: [B or 1, T]. past:
        what an earlier call returned, cut to the positions that stand. mask: [B or 1, 1, T, S], added to the scores of
        all S = past + T positions; None: each sees those before it and itself. Returns the states to go on from, [B, T,
        hidden], and keys and values of all S positions."""
        residual, q, k, v = self.enter(embedded, hidden, positions)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        if mask is None and q.shape[2] > 1:
            mask = causal(q.shape[2], k.shape[2], q)
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        return self.layer.leave(residual, attended), (k, v)

    def enter(self, embedded: Tensor, hidden: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The first half of `forward`: residual [B, T, hidden]; q, k, v [B, heads or kv_heads, T, dim]."""
        if self.shape.form == "eagle":
            hidden = self.fc(torch.cat([embedded, hidden], -1))
        return self.layer.enter(embedded, hidden, self.rotation(positions))

    def logits(self, hidden: Tensor) -> Tensor:
        """States [..., hidden] -> [..., draft_vocab]. Ids are the head's; see `targets`."""
        return self.read_out(self.norm(hidden))

    def read_out(self, x: Tensor) -> Tensor:
        """States behind the norm [..., hidden] -> [..., draft_vocab]."""
        if self.lm_head is not None:
            own: Tensor = self.lm_head(x)
            return own
        assert self._head is not None
        return F.linear(x, self._head) if isinstance(self._head, Tensor) else self._head(x)

    @property
    def rows(self) -> Tensor | None:
        """[draft_vocab, hidden], its own or the target's; None where only what they make of a state is known."""
        if self.lm_head is not None:
            return self.lm_head.weight
        return self._head if isinstance(self._head, Tensor) else None

    def targets(self, ids: Tensor) -> Tensor:
        """The target's ids of the head's."""
        return ids if self.draft_to_target is None else self.draft_to_target[ids]

    def rotation(self, positions: Tensor) -> KeysValues:
        """cos and sin, each [B or 1, 1, T, head_dim], of positions [B or 1, T]."""
        half = self.shape.head_dim // 2
        powers = torch.arange(half, device=positions.device, dtype=torch.float32) / half
        angles = (positions.float()[..., None] / self.shape.rope_theta**powers)[:, None]  # [B or 1, 1, T, half]
        return torch.cat([angles.cos()] * 2, -1), torch.cat([angles.sin()] * 2, -1)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x [B, heads, T, dim] turned by its position, halves paired as transformers pairs them."""
    a, b = x.chunk(2, -1)
    return (x * cos + torch.cat([-b, a], -1) * sin).to(x.dtype)


def causal(width: int, end: int, like: Tensor) -> Tensor:
    """[1, 1, width, end] for the last `width` of `end` positions, added to scores."""
    hidden = torch.ones(width, end, dtype=torch.bool, device=like.device).triu_(end - width + 1)
    return torch.zeros(1, 1, width, end, dtype=like.dtype, device=like.device).masked_fill_(hidden, float("-inf"))


def check_map(draft_to_target: Tensor | None, draft_vocab: int, vocab: int) -> None:
    """Raises EngineError unless the map has one id of the target for each id of the head, none of them twice."""
    if draft_to_target is None:
        if draft_vocab != vocab:
            raise EngineError(f"a head that guesses {draft_vocab} of {vocab} ids needs the map of which they are")
        return
    ids = draft_to_target
    if tuple(ids.shape) != (draft_vocab,) or int(ids.min()) < 0 or int(ids.max()) >= vocab:
        raise EngineError(f"the head's id map must hold {draft_vocab} ids of the target, each below {vocab}")
    if len(set(ids.tolist())) != draft_vocab:
        raise EngineError("the head's id map names a token of the target twice")
