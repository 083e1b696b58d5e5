"""The sizes of a model that decide how fast it decodes: parameters, active parameters, KV cache, experts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from engine.model_config import MOST_LAYERS, ConfigReader


@dataclass(frozen=True)
class ModelShape:
    """`n_active_params` is what one token uses, embeddings included (the published "A3B" sense).

    `lookup_params` is an input embedding of its own, of which only single rows are read (0 when it is tied
    to the output). `expert_params` is one routed expert, summed over all layers that have experts. `query_heads` 0: not
    known, and the arithmetic of attention is left out. `max_context`: tokens that the model takes, 0 where not known.
    """

    n_params: int
    n_active_params: int
    layers: int
    hidden: int
    kv_heads: int
    head_dim: int
    vocab: int
    bytes_per_param: float = 2.0
    lookup_params: int = 0
    experts: int = 0
    experts_per_token: int = 0
    expert_params: int = 0
    query_heads: int = 0
    max_context: int = 0

    def __post_init__(self) -> None:
        for name in ("n_params", "n_active_params", "layers", "hidden", "kv_heads", "head_dim", "vocab"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not 0 < self.bytes_per_param <= 8:
            raise ValueError(f"bytes_per_param must be above 0 and at most 8, not {self.bytes_per_param}")
        if self.n_active_params > self.n_params:
            raise ValueError(f"{self.n_active_params} active parameters out of {self.n_params} cannot be")
        if self.experts and not 1 <= self.experts_per_token <= self.experts:
            raise ValueError(f"{self.experts_per_token} experts per token out of {self.experts} cannot be")
        if self.n_active_params <= self.lookup_params + self.experts_per_token * self.expert_params:
            raise ValueError("the lookup and expert parameters leave no dense parameters")

    @classmethod
    def from_config(cls, config: Any, *, n_params: int | None = None, bytes_per_param: float = 2.0) -> ModelShape:
        """From a transformers config (object or dict) of a llama-like decoder, dense or with experts.

        `n_params`, when the real count is known, replaces the count from the formula and opens the way to
        layers that the formula does not know. Raises ValueError that names what is missing, no number or not covered
        (compressed KV, recurrent layers, models that are no decoders).
        """
        get = ConfigReader(config)
        get.refuse_what_is_not_covered(counted=n_params is None)
        layers = get.need("num_hidden_layers", most=MOST_LAYERS)
        hidden, vocab = get.need("hidden_size"), get.need("vocab_size")
        heads = get.need("num_attention_heads")
        kv_heads, head_dim = get.key_heads(heads), get.head_dim(hidden, heads)
        embedding = vocab * hidden
        tied = get.tied()
        experts = get.first("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
        expert_layers = get.expert_layers(layers) if experts else 0
        per_token = get.need("num_experts_per_tok", "moe_k") if expert_layers else 0
        expert_width = get.need("moe_intermediate_size", "intermediate_size") if expert_layers else 0
        expert_params = 3 * hidden * expert_width * expert_layers

        dense = get.attention_params(heads, kv_heads, head_dim, hidden) * layers
        dense += 2 * hidden * layers + hidden  # norms
        if layers > expert_layers and (n_params is None or expert_layers):
            dense += 3 * hidden * get.need("intermediate_size_mlp", "intermediate_size") * (layers - expert_layers)
        if expert_layers:
            shared = get.shared_experts() * expert_width
            shared += get.first("shared_expert_intermediate_size", "shared_intermediate_size")
            # the router has a row for each expert; a shared expert sized on its own has a gate row too
            gate_rows = experts + (1 if get.first("shared_expert_intermediate_size") else 0)
            dense += (3 * hidden * shared + gate_rows * hidden) * expert_layers
        dense += embedding if tied else 2 * embedding
        counted = cls(
            n_params=dense + experts * expert_params if expert_layers else dense,
            n_active_params=dense + per_token * expert_params,
            layers=layers,
            hidden=hidden,
            kv_heads=kv_heads,
            head_dim=head_dim,
            vocab=vocab,
            bytes_per_param=bytes_per_param,
            lookup_params=0 if tied else embedding,
            experts=experts if expert_layers else 0,
            experts_per_token=per_token,
            expert_params=expert_params,
            query_heads=heads,
            max_context=get.first("max_position_embeddings", "n_positions"),
        )
        if n_params is None:
            return counted
        inactive = counted.n_params - counted.n_active_params
        return replace(counted, n_params=n_params, n_active_params=n_params - inactive)

    @property
    def matmul_params(self) -> int:
        """Parameters multiplied for one token: the active ones without a lookup table."""
        return self.n_active_params - self.lookup_params

    @property
    def weight_bytes(self) -> float:
        return self.n_params * self.bytes_per_param

    def distinct_experts(self, tokens: float) -> float:
        """Expected number of experts a layer that `tokens` tokens wake: E * (1 - (1 - top_k / E)^tokens).

        Assumes that tokens choose independently and evenly; neighbours that agree wake fewer. 0 for a dense
        model.
        """
        if not self.experts:
            return 0.0
        return self.experts * (1 - math.pow(1 - self.experts_per_token / self.experts, tokens))

    def params_read(self, tokens: float) -> float:
        """Parameters that a forward over `tokens` tokens must read; it grows with width for MoE."""
        dense = self.matmul_params - self.experts_per_token * self.expert_params
        return dense + self.distinct_experts(tokens) * self.expert_params

    def kv_bytes_per_token(self, bytes_per_element: float = 2.0) -> float:
        """Bytes of keys and values that one token leaves in the cache, over all layers."""
        return 2 * self.layers * self.kv_heads * self.head_dim * bytes_per_element

    def kv_share(self, gpus: int) -> float:
        """Of all keys and values, what the GPU holds that holds most of them: heads are split whole."""
        return math.ceil(self.kv_heads / gpus) / self.kv_heads


def at_precision(shape: ModelShape, bytes_per_param: float) -> ModelShape:
    """The same model with its weights held in so many bytes a parameter."""
    return replace(shape, bytes_per_param=bytes_per_param)
