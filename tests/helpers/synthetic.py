"""Random models in the shapes of real ones, built a layer at a time through the very code that fuses a loaded model.

They say nothing, and read from memory exactly what the real ones read.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
import transformers as tf
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from engine.fused import FusedDecoder

# From the config.json of meta-llama/Llama-3.2-1B, Llama-3.1-8B and Llama-3.1-70B.
SHAPES = {
    "1B": {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32},
    "8B": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32},
    "70B": {"hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64},
}
COMMON = {"vocab_size": 128256, "num_key_value_heads": 8, "max_position_embeddings": 131072, "rope_theta": 500000.0}
Make = Callable[[torch.Tensor, torch.Tensor | None], Any]


@dataclass(frozen=True)
class RandomLayers:
    """Makes a layer when it is asked for, and forgets it: `FusedDecoder` takes its weights and drops the rest."""

    config: Any
    random: Callable[..., torch.Tensor]

    def __len__(self) -> int:
        return int(self.config.num_hidden_layers)

    def __iter__(self) -> Iterator[Any]:
        c, random = self.config, self.random
        queries, keys = c.num_attention_heads * c.head_dim, c.num_key_value_heads * c.head_dim

        def linear(out: int, into: int) -> Any:
            return SimpleNamespace(weight=random(out, into), bias=None)

        def norm() -> Any:
            return SimpleNamespace(weight=1 + random(c.hidden_size))

        for _ in range(len(self)):
            yield SimpleNamespace(
                self_attn=SimpleNamespace(
                    q_proj=linear(queries, c.hidden_size), k_proj=linear(keys, c.hidden_size),
                    v_proj=linear(keys, c.hidden_size), o_proj=linear(c.hidden_size, queries),
                ),
                mlp=SimpleNamespace(
                    gate_proj=linear(c.intermediate_size, c.hidden_size),
                    up_proj=linear(c.intermediate_size, c.hidden_size),
                    down_proj=linear(c.hidden_size, c.intermediate_size),
                ),
                input_layernorm=norm(), post_attention_layernorm=norm(),
            )  # fmt: skip


def config_of(shape: str | dict[str, Any], **instead: Any) -> tf.LlamaConfig:
    given = SHAPES[shape] if isinstance(shape, str) else shape
    config = tf.LlamaConfig(**{**COMMON, **given, **instead})
    config.head_dim = config.hidden_size // config.num_attention_heads
    return config


@torch.inference_mode()
def random_decoder(config: Any, make: Make, device: torch.device, dtype: torch.dtype) -> FusedDecoder:
    """A fused decoder with random weights; never more than one layer is held twice. Embedding and head share one
    tensor: of an embedding only single rows are read, so a second one would take memory and no time."""
    generator = torch.Generator(device).manual_seed(0)

    def random(*shape: int) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device=device).normal_(std=0.02, generator=generator)

    embedding = SimpleNamespace(weight=random(config.vocab_size, config.hidden_size))
    model = SimpleNamespace(
        config=config,
        model=SimpleNamespace(
            layers=RandomLayers(config, random), embed_tokens=embedding,
            norm=SimpleNamespace(weight=1 + random(config.hidden_size)),
            rotary_emb=LlamaRotaryEmbedding(config).to(device),
        ),
        lm_head=SimpleNamespace(weight=embedding.weight, bias=None),
    )  # fmt: skip
    return FusedDecoder(model, make, release=True)


def layer_bytes(config: Any, bytes_per_weight: float) -> int:
    """Bytes of one layer's weights."""
    queries, keys = config.num_attention_heads * config.head_dim, config.num_key_value_heads * config.head_dim
    attention = config.hidden_size * (2 * queries + 2 * keys)
    return int((attention + 3 * config.hidden_size * config.intermediate_size) * bytes_per_weight)
