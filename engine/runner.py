"""One model behind one call: ids in, logits out, keys and values in a SlotCache.

A runner holds weights and no sequence, so any number of runs may share it; each run brings its own cache.
Only this file knows what transformers calls things in which version.
"""

import inspect
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from transformers import GPT2Model

from engine.cache import BUCKET, SlotCache
from engine.errors import EngineError, UnsupportedModelError
from engine.fast import make_fast, read_bytes
from engine.fused import is_spent
from engine.gpu import graphed
from engine.recorded import RecordedDecoder
from engine.support import check_supported, context_length, text_config
from engine.transfer import upload

# Largest difference that rounding may make, in standard deviations of the logits: float32; half precision or int8.
ROUNDING, HALF_ROUNDING = 1e-2, 0.5
# transformers renamed the cache argument in 5.20. The name of this version first: a wrapper's forward shows neither.
CACHE_NAMES = ("cache", "past_key_values")
if "cache" not in inspect.signature(GPT2Model.forward).parameters:
    CACHE_NAMES = ("past_key_values", "cache")
# Prompt tokens a forward: bounds the memory of a long prompt, and how long a Stop waits.
PREFILL_CHUNK = 256
# Positions that are set aside before they are needed: for one run, and for all rows of a batch together.
MOST_EXPECTED, MOST_EXPECTED_TOGETHER = 8192, 32768


class Runner:
    """A causal language model with one way in.

    name: what to call it. vocab_size: ids that the tokenizer knows; embeddings padded past it are never read.
    context_length: positions it may use, None when unlimited. quantization: None runs the model as it is; "none",
    "int8", "int4" and "fp8" make its layers fast for this device (see `engine.fast`), and the model is used up by it.
    Raises UnsupportedModelError for a model that is not decoder-only or whose state cannot be rolled back.
    """

    def __init__(self, model: Any, name: str, vocab_size: int, quantization: str | None = None) -> None:
        if is_spent(model):
            raise EngineError(
                f"{name} was made fast for another pair, which has taken its weights over; load the model again, or "
                "leave quantization out for models that are shared"
            )
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
        self.fused = make_fast(model, quantization) if quantization is not None else None
        self.graphs = graphed(self.fused, self.device)
        self.recorded = RecordedDecoder(self.fused) if self.fused and self.device.type == "cpu" else None
        self.read_bytes = read_bytes(model, self.fused)
        self.threads: int | None = None  # what `engine.cpu.choose_threads` found quickest
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
        apart = (whole - parts).abs().max() > self._rounding * whole.std().clamp(min=1e-6)
        if bool(apart & torch.isfinite(whole).all()):
            raise UnsupportedModelError(
                f"{type(self.model).__name__} gives other logits when it reads a text token by token than at once, so "
                "it looks ahead or keeps no cache that can be rolled back; use a decoder-only model"
            )

    def new_cache(self, rows: int = 1) -> SlotCache:
        return SlotCache(self.num_layers, rows, self.graphs.buffers.zeros if self.graphs else torch.zeros)

    def expect(self, cache: SlotCache, positions: int, rows: int = 1) -> None:
        """Says how long a run may become, and how many a batch may hold. Room is made for all of it at once where
        moving to a larger buffer costs more than memory: CUDA graphs know a buffer by its address."""
        if self.graphs:
            rows = min(rows, MOST_EXPECTED_TOGETHER // BUCKET)
            cache.expect(min(positions, MOST_EXPECTED, MOST_EXPECTED_TOGETHER // rows), rows)

    @torch.inference_mode()
    def forward(self, ids: Sequence[int] | Tensor, cache: SlotCache, keep: int) -> Tensor:
        """Reads `ids`, on the host or [width] on the device, behind what the cache holds and remembers them.

        Returns the logits of the last `keep` positions, [keep, vocab_size] (padded vocabulary cut off), in the
        model's dtype.
        """
        cache.reserve(len(ids))
        batch = ids if isinstance(ids, Tensor) else upload(ids, self.device)
        logits = self._logits(batch[None], cache, keep)
        cache.advance(len(ids))
        return logits[0, -keep:, : self.vocab_size]

    @torch.inference_mode()
    def forward_rows(self, ids: Sequence[Sequence[int]], cache: SlotCache, keep: Sequence[int]) -> list[Tensor]:
        """Reads ids[r] behind what row r of the cache holds, for all rows in one forward; each at least one id.

        Returns for each row the logits of its last keep[r] positions, [keep[r], vocab_size]. Shorter rows are padded
        on the right, where causal masking keeps what they read out of everybody's sight. Where `reads_rows_together`
        is False, and where padding would stand past the model's context, the rows are read one by one.
        """
        end = cache.length + max(map(len, ids))
        if len(ids) == 1 or not self.reads_rows_together or end > (self.context_length or end):
            return [self.forward(row, cache.rows(r, 1), k) for r, (row, k) in enumerate(zip(ids, keep, strict=True))]
        return self._forward_together(ids, cache, keep)

    def _forward_together(self, ids: Sequence[Sequence[int]], cache: SlotCache, keep: Sequence[int]) -> list[Tensor]:
        width, starts = max(map(len, ids)), cache.lengths
        cache.reserve(width)
        padded = [t for row in ids for t in (*row, *[row[-1]] * (width - len(row)))]
        batch = upload(padded, self.device).view(len(ids), width)
        extra: dict[str, Any] = {}
        if self.fused is None:
            # Rows are shown as left-padded prompts, mask and positions always said. [rows, longest + width]
            pairs = [(n, len(row)) for n, row in zip(starts, ids, strict=True)]
            seen = [[0] * (max(starts) - n) + [1] * (n + w) + [0] * (width - w) for n, w in pairs]
            extra["attention_mask"] = torch.tensor(seen, dtype=torch.long, device=self.device)
            if self._takes_positions:
                at = [[n + min(i, w - 1) for i in range(width)] for n, w in pairs]
                extra["position_ids"] = torch.tensor(at, dtype=torch.long, device=self.device)
        logits = self._logits(batch, cache if self.fused is not None else cache.right_aligned(), width, extra)
        cache.advance(width)
        for r, row in enumerate(ids):
            cache.rollback(starts[r] + len(row), r)
        rows = enumerate(zip(ids, keep, strict=True))
        return [logits[r, len(row) - k : len(row), : self.vocab_size] for r, (row, k) in rows]

    def _logits(self, ids: Tensor, cache: SlotCache, keep: int, extra: dict[str, Any] | None = None) -> Tensor:
        """ids [rows, width] -> [rows, keep or width, V]; the cache has room for them and is advanced by the caller."""
        if self.fused is not None:
            return (self.graphs or self.recorded or self.fused).forward(ids, cache, keep)
        extra = {**(extra or {}), self._cache_name: cache, "use_cache": True}
        if self._keeps_last:
            extra["logits_to_keep"] = keep
        logits: Tensor = self.model(input_ids=ids, **extra).logits
        return logits

    @cached_property
    def _takes_positions(self) -> bool:
        return "position_ids" in inspect.signature(self.model.forward).parameters

    @cached_property
    @torch.inference_mode()
    def reads_rows_together(self) -> bool:
        """Do rows of different lengths, read in one forward, say what each says alone? Asked once, of the model's own
        arithmetic: some take no positions or no mask, and would mix rows up without any error."""
        if self.vocab_size < 4 or (self.context_length or 9) < 9:
            return False
        long, short = ([self.vocab_size * (i * n % 11 + 1) // 13 for i in range(n)] for n in (9, 4))
        try:
            cache = self.new_cache(2)
            for r, row in enumerate((long, short)):
                self.forward(row[:-2], cache.rows(r, 1), keep=1)
            together = self._forward_together([long[-2:], short[-2:-1]], cache, [2, 1])
            alone = [self.forward(row, self.new_cache(), keep=2)[:k] for row, k in ((long, 2), (short, 1))]
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, TypeError, IndexError, AttributeError, ValueError, AssertionError):
            return False
        one, other = torch.cat(together).float(), torch.cat(alone).float()
        return bool((one - other).abs().max() <= self._rounding * other.std().clamp(min=1e-6))

    @property
    def _rounding(self) -> float:
        exact = self.quantization in (None, "none") and self.dtype in (torch.float32, torch.float64)
        return ROUNDING if exact else HALF_ROUNDING

    @property
    def notices(self) -> tuple[str, ...]:
        """What a user should know of how this model runs here."""
        return (self.graphs.notice,) if self.graphs and self.graphs.notice else ()

    def synchronize(self) -> None:
        """Waits for the device, so that a clock read next to it means something."""
        if self.device.type == "cuda":
            # Not the whole device, which is forbidden while another thread captures a graph.
            torch.cuda.current_stream(self.device).synchronize()
