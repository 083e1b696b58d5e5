"""The sizes of a model that decide how fast it decodes: parameters, active parameters, KV cache, experts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

# Models whose layers are not the gated (three-matrix) kind; their parameters cannot be counted with the
# rule below.
_NOT_LLAMA_LIKE = frozenset(
    [
        "bloom",
        "falcon",
        "gpt2",
        "gpt_bigcode",
        "gpt_neo",
        "gpt_neox",
        "gptj",
        "mpt",
        "opt",
        "phi",
        "starcoder2",
    ]
)
_RECURRENT_LAYERS = frozenset({"linear_attention", "mamba", "mamba2", "recurrent", "conv"})


@dataclass(frozen=True)
class ModelShape:
    """`n_active_params` is what one token uses, embeddings included (the published "A3B" sense).

    `lookup_params` is an input embedding of its own, of which only single rows are read (0 when it is tied
    to the output). `expert_params` is one routed expert, summed over all layers that have experts. `query_heads` 0: not
    known, and the arithmetic of attention is left out.
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
        layers that the formula does not know. Raises ValueError that names what is missing or not covered
        (compressed KV, recurrent layers).
        """
        get = _Reader(config)
        get.refuse_what_is_not_covered(counted=n_params is None)
        layers, hidden, vocab = get.need("num_hidden_layers"), get.need("hidden_size"), get.need("vocab_size")
        heads = get.need("num_attention_heads")
        kv_heads = get.first("num_key_value_heads", default=heads)
        head_dim = get.first("head_dim", default=hidden // heads)
        embedding = vocab * hidden
        tied = bool(get.value("tie_word_embeddings", False))
        experts = get.first("num_experts", "num_local_experts", "n_routed_experts")
        expert_layers = get.expert_layers(layers) if experts else 0
        per_token = get.need("num_experts_per_tok") if expert_layers else 0
        expert_width = get.first("moe_intermediate_size", "intermediate_size")
        expert_params = 3 * hidden * expert_width * expert_layers

        dense = get.attention_params(heads, kv_heads, head_dim, hidden) * layers
        dense += 2 * hidden * layers + hidden  # norms
        if layers > expert_layers and (n_params is None or expert_layers):
            dense += 3 * hidden * get.need("intermediate_size") * (layers - expert_layers)
        if expert_layers:
            shared = get.first("n_shared_experts") * expert_width
            shared += get.first("shared_expert_intermediate_size")
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


def at_precision(shape: ModelShape, bytes_per_param: float) -> ModelShape:
    """The same model with its weights held in so many bytes a parameter."""
    return replace(shape, bytes_per_param=bytes_per_param)


class _Reader:
    """Fields of a config, be it an object or a dict; a multimodal config is read through its text part."""

    def __init__(self, config: Any) -> None:
        self._config = config
        self._config = self.value("text_config") or config

    def value(self, name: str, default: Any = None) -> Any:
        if isinstance(self._config, Mapping):
            return self._config.get(name, default)
        return getattr(self._config, name, default)

    def first(self, *names: str, default: int = 0) -> int:
        """The first of `names` that is set: families use different words for one thing."""
        return next((int(value) for name in names if (value := self.value(name)) is not None), default)

    def need(self, name: str) -> int:
        value = self.value(name)
        if value is None:
            raise ValueError(f"the model config has no {name}")
        return int(value)

    def refuse_what_is_not_covered(self, counted: bool) -> None:
        kind = self.value("model_type", "")
        if self.value("kv_lora_rank") is not None:
            raise ValueError(f"{kind or 'this model'} compresses its KV (MLA), which is not covered")
        strange = _RECURRENT_LAYERS.intersection(self.value("layer_types") or ())
        if strange or self.value("state_size") is not None:
            found = ", ".join(sorted(strange)) or "a recurrent state"
            raise ValueError(f"{kind or 'this model'} has {found}, which is not covered")
        if counted and kind in _NOT_LLAMA_LIKE:
            raise ValueError(f"{kind} is not built like llama, so its parameters must be given with n_params")

    def expert_layers(self, layers: int) -> int:
        """How many layers have routed experts; the others are dense."""
        dense_first = self.first("first_k_dense_replace")
        every = self.first("decoder_sparse_step", default=1)
        dense_named = set(self.value("mlp_only_layers") or ())
        return sum(i >= dense_first and (i + 1) % every == 0 and i not in dense_named for i in range(layers))

    def attention_params(self, heads: int, kv_heads: int, head_dim: int, hidden: int) -> int:
        kind = self.value("model_type", "")
        queries, keys = heads * head_dim, kv_heads * head_dim
        params = 2 * hidden * queries + 2 * hidden * keys
        if kind in ("qwen2", "qwen2_moe"):  # biases on q, k, v that the config does not mention
            params += queries + 2 * keys
        elif self.value("attention_bias", False):
            params += queries + 2 * keys + hidden
        if kind in ("qwen3", "qwen3_moe"):  # a norm on each query and key head
            params += 2 * head_dim
        return params
