"""One model behind one call: ids in, logits out, keys and values in a SlotCache.

A runner holds weights and no sequence, so any number of runs may share it; each run brings its own cache.
Only this file knows what transformers calls things in which version.
"""

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import GPT2Model

from engine.cache import SlotCache
from engine.errors import UnsupportedModelError
from engine.fast import make_fast
from engine.support import check_supported, context_length, text_config

# Largest difference that rounding may make, in standard deviations of the logits: float32, and half precision.
ROUNDING, HALF_ROUNDING = 1e-2, 0.5
# transformers renamed the cache argument in 5.20. The name of this version first: a wrapper's forward shows neither.
CACHE_NAMES = ("cache", "past_key_values")
if "cache" not in inspect.signature(GPT2Model.forward).parameters:
    CACHE_NAMES = ("past_key_values", "cache")
# Prompt tokens a forward: bounds the memory of a long prompt, and how long a Stop waits.
PREFILL_CHUNK = 256


class Runner:
    """A causal language model with one way in.

    name: what to call it. vocab_size: ids that the tokenizer knows; embeddings padded past it are never read.
    context_length: positions it may use, None when unlimited. quantization: None runs the model as it is; "none",
    "int8" and "int4" make its layers fast for this device (see `engine.fast`), and the model is used up by it. Raises
    UnsupportedModelError for a model that is not decoder-only or whose state cannot be rolled back.
    """

    def __init__(self, model: Any, name: str, vocab_size: int, quantization: str | None = None) -> None:
        check_supported(model)
        self.model = model.eval()
        self.name = name
        self.config = model.config
        # Tied weights are one storage under two names.
        self.n_params = sum({p.data_ptr(): p.numel() for p in model.parameters()}.values())
        self.context_length = context_length(model)
        self.embedding_rows = int(model.get_input_embeddings().weight.shape[0])
        logits_width = int(model.get_output_embeddings().weight.shape[0])
        self.vocab_size = min(vocab_size, self.embedding_rows, logits_width)
        self.num_layers = int(text_config(model).num_hidden_layers)
        self.device = model.get_input_embeddings().weight.device
        self.dtype = model.get_input_embeddings().weight.dtype
        accepts = inspect.signature(model.forward).parameters
        self._cache_name = next((n for n in CACHE_NAMES if n in accepts), CACHE_NAMES[0])
        self._keeps_last = "logits_to_keep" in accepts
        self.quantization = quantization
        self.fused = make_fast(model, quantization) if quantization else None
        self._check_rollback()

    @torch.inference_mode()
    def _check_rollback(self) -> None:
        """Three tokens read at once and read piecemeal, with one read and taken back, must say the same.

        Names and configs cannot tell every model that looks ahead, keeps no cache or folds tokens into a state; its
        own arithmetic can. Such a model would decode to the wrong text without any error.
        """
        if self.vocab_size < 4:
            return
        a, b, c = (self.vocab_size * n // 4 for n in (1, 2, 3))
        try:
            whole = self.forward([a, b, c], self.new_cache(), keep=3).float()
            cache = self.new_cache()
            first = self.forward([a], cache, keep=1)
            self.forward([c], cache, keep=1)
            cache.rollback(1)
            parts = torch.cat([first, *(self.forward([t], cache, keep=1) for t in (b, c))]).float()
        except torch.OutOfMemoryError:
            raise  # says nothing of the model's kind
        except (RuntimeError, TypeError, IndexError, AttributeError, ValueError) as error:
            raise UnsupportedModelError(
                f"{type(self.model).__name__} cannot be read token by token with a cache "
                f"({type(error).__name__}: {' '.join(str(error).split())[:120]}); use a decoder-only model"
            ) from error
        # Rounding differs with the width of a forward; a model that looks ahead or forgets differs by far more.
        allowed = ROUNDING if whole.dtype == self.dtype else HALF_ROUNDING
        if bool(((whole - parts).abs().max() > allowed * whole.std().clamp(min=1e-6)) & torch.isfinite(whole).all()):
            raise UnsupportedModelError(
                f"{type(self.model).__name__} gives other logits when it reads a text token by token than at once, so "
                "it looks ahead or keeps no cache that can be rolled back; use a decoder-only model"
            )

    def new_cache(self, rows: int = 1) -> SlotCache:
        return SlotCache(self.num_layers, rows)

    @torch.inference_mode()
    def forward(self, ids: Sequence[int], cache: SlotCache, keep: int) -> Tensor:
        """Reads `ids` behind what the cache holds and remembers them.

        Returns the logits of the last `keep` positions, [keep, vocab_size] (padded vocabulary cut off), in the
        model's dtype.
        """
        cache.reserve(len(ids))
        batch = torch.tensor([ids], dtype=torch.long, device=self.device)  # [1, width]
        if self.fused is not None:
            out: Tensor = self.fused.forward(batch, cache, keep)[0]
            cache.advance(len(ids))
            return out[:, : self.vocab_size]
        extra: dict[str, Any] = {self._cache_name: cache, "use_cache": True}
        if self._keeps_last:
            extra["logits_to_keep"] = keep
        logits: Tensor = self.model(input_ids=batch, **extra).logits  # [1, keep or width, V]
        cache.advance(len(ids))
        return logits[0, -keep:, : self.vocab_size]

    def synchronize(self) -> None:
        """Waits for the device, so that a clock read next to it means something."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
