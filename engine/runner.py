"""One model behind one call: ids in, logits out, keys and values in a SlotCache.

A runner holds weights and no sequence, so any number of runs may share it; each run brings its own cache.
Only this file knows what transformers calls things in which version.
"""

import inspect
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import GPT2Model

from engine.cache import BUCKET, SlotCache
from engine.errors import EngineError, UnsupportedModelError
from engine.fast import make_fast, read_bytes
from engine.fused import Asked, Read, is_spent
from engine.gpu import graphed
from engine.recorded import RecordedDecoder
from engine.shallow import first_layers
from engine.support import check_supported, context_length, text_config
from engine.transfer import upload
from engine.tree import Block, Parents, block_of

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


class Reading(NamedTuple):
    """logits: [keep, vocab_size]. hidden: of each tap asked for, [len(ids), hidden_size]."""

    logits: Tensor
    hidden: dict[int, Tensor]


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
        self._tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
        accepts = inspect.signature(model.forward).parameters
        self._cache_name = next((n for n in CACHE_NAMES if n in accepts), CACHE_NAMES[0])
        self._keeps_last = "logits_to_keep" in accepts
        self.quantization = quantization
        self.fused = make_fast(model, quantization) if quantization is not None else None
        self.graphs = graphed(self.fused, self.device)
        self.recorded = RecordedDecoder(self.fused) if self.fused and self.device.type == "cpu" else None
        self.read_bytes = read_bytes(model, self.fused)
        self.threads: int | None = None  # what `engine.cpu.choose_threads` found quickest
        self._shallows: dict[int, Any] = {}
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

    def forward(self, ids: Sequence[int] | Tensor, cache: SlotCache, keep: int) -> Tensor:
        """Reads `ids`, on the host or [width] on the device, behind what the cache holds and remembers them.

        Returns the logits of the last `keep` positions, [keep, vocab_size] (padded vocabulary cut off), in the
        model's dtype.
        """
        return self.read(ids, cache, keep).logits

    @torch.inference_mode()
    def read(
        self,
        ids: Sequence[int] | Tensor,
        cache: SlotCache,
        keep: int,
        parents: Parents | None = None,
        taps: tuple[int, ...] = (),
        layers: int | None = None,
    ) -> Reading:
        """`forward` with more to ask for. parents: the last ids are a tree, which follows the ids before it; the cache
        then holds all its branches, and `SlotCache.keep` says which stays. taps: which hidden states to give back:
        i >= 0 is what goes into layer i, -1 what the head reads. layers: run so many of the first alone, with the
        model's own last norm and head behind them."""
        cache.reserve(len(ids))
        batch = ids if isinstance(ids, Tensor) else upload(ids, self.device)
        blocks = None if parents is None else [block_of(len(ids) - len(parents), parents, len(ids))]
        read = self._read(batch[None], cache, Asked(keep, blocks, taps, layers))
        cache.advance(len(ids))
        return Reading(read.logits[0, -keep:, : self.vocab_size], {tap: h[0] for tap, h in read.hidden.items()})

    def forward_rows(self, ids: Sequence[Sequence[int]], cache: SlotCache, keep: Sequence[int]) -> list[Tensor]:
        """Reads ids[r] behind what row r of the cache holds, for all rows in one forward; each at least one id.

        Returns for each row the logits of its last keep[r] positions, [keep[r], vocab_size]. Shorter rows are padded
        on the right, where causal masking keeps what they read out of everybody's sight. Where `reads_rows_together`
        is False, and where padding would stand past the model's context, the rows are read one by one.
        """
        return [reading.logits for reading in self.read_rows(ids, cache, keep)]

    @torch.inference_mode()
    def read_rows(
        self,
        ids: Sequence[Sequence[int]],
        cache: SlotCache,
        keep: Sequence[int],
        parents: Sequence[Parents | None] | None = None,
        taps: tuple[int, ...] = (),
    ) -> list[Reading]:
        """`forward_rows` with more to ask for: see `read`. Trees in a batch need a fused model, else rows are read one
        by one."""
        end = cache.length + max(map(len, ids))
        trees = parents if parents is not None and any(p is not None for p in parents) else None
        together = self.reads_rows_together and (trees is None or self.fused is not None)
        if len(ids) == 1 or not together or end > (self.context_length or end):
            rows = enumerate(zip(ids, keep, parents or [None] * len(ids), strict=True))
            return [self.read(row, cache.rows(r, 1), k, tree, taps) for r, (row, k, tree) in rows]
        return self._read_together(ids, cache, keep, trees, taps)

    def _read_together(
        self,
        ids: Sequence[Sequence[int]],
        cache: SlotCache,
        keep: Sequence[int],
        trees: Sequence[Parents | None] | None = None,
        taps: tuple[int, ...] = (),
    ) -> list[Reading]:
        width, starts = max(map(len, ids)), cache.lengths
        cache.reserve(width)
        padded = [t for row in ids for t in (*row, *[row[-1]] * (width - len(row)))]
        batch = upload(padded, self.device).view(len(ids), width)
        blocks = None
        if trees is not None:
            shapes = [(len(row), tree or ()) for row, tree in zip(ids, trees, strict=True)]
            blocks = [block_of(n - len(tree), tree, width) for n, tree in shapes]
        extra: dict[str, Any] = {}
        if self.fused is None:
            # Rows are shown as left-padded prompts, mask and positions always said. [rows, longest + width]
            pairs = [(n, len(row)) for n, row in zip(starts, ids, strict=True)]
            seen = [[0] * (max(starts) - n) + [1] * (n + w) + [0] * (width - w) for n, w in pairs]
            extra["attention_mask"] = torch.tensor(seen, dtype=torch.long, device=self.device)
            if self._takes_positions:
                at = [[n + min(i, w - 1) for i in range(width)] for n, w in pairs]
                extra["position_ids"] = torch.tensor(at, dtype=torch.long, device=self.device)
        shown = cache if self.fused is not None else cache.right_aligned()
        read = self._read(batch, shown, Asked(width, blocks, taps), extra)
        cache.advance(width)
        for r, row in enumerate(ids):
            cache.rollback(starts[r] + len(row), r)
        logits, rows = read.logits, enumerate(zip(ids, keep, strict=True))
        return [
            Reading(
                logits[r, len(row) - k : len(row), : self.vocab_size],
                {t: h[r, : len(row)] for t, h in read.hidden.items()},
            )
            for r, (row, k) in rows
        ]

    def _read(self, ids: Tensor, cache: SlotCache, asked: Asked, extra: dict[str, Any] | None = None) -> Read:
        """ids [rows, width] -> [rows, keep or width, V]; the cache has room for them and is advanced by the caller."""
        if self.fused is not None:
            return (self.graphs or self.recorded or self.fused).read(ids, cache, asked)
        model = self.model if asked.layers is None else self._shallow(asked.layers)
        seen = cache if asked.layers is None else cache.first_layers(asked.layers)
        extra = {**(extra or {}), self._cache_name: seen, "use_cache": True}
        if self._keeps_last:
            extra["logits_to_keep"] = asked.keep
        if asked.taps:
            extra["output_hidden_states"] = True
        if asked.blocks is not None:
            extra |= self._tree_arguments(cache, ids.shape[1], asked.blocks)
        out = model(input_ids=ids, **extra)
        return Read(out.logits, {tap: out.hidden_states[tap] for tap in asked.taps})

    def _tree_arguments(self, cache: SlotCache, width: int, blocks: Sequence[Block]) -> dict[str, Any]:
        """One row's mask, [1, 1, width, live], and positions, as transformers' models take them."""
        start, (block,) = cache.length, blocks
        hidden = torch.zeros(width, start + width, dtype=torch.bool, device=self.device)
        hidden[:, start:] = block.hidden.to(self.device)
        mask = torch.zeros(hidden.shape, dtype=self.dtype, device=self.device)
        mask.masked_fill_(hidden, torch.finfo(self.dtype).min)
        positions = upload([start + n for n in block.offsets], self.device)
        return {"attention_mask": mask[None, None], "position_ids": positions[None]}

    def _shallow(self, layers: int) -> Any:
        """The model with its first layers alone: the same weights under a config of its own."""
        if layers not in self._shallows:
            self._shallows[layers] = first_layers(self.model, layers)
        return self._shallows[layers]

    def check_layers(self, layers: int) -> None:
        """Raises UnsupportedModelError where the first layers alone cannot be run."""
        if self.fused is None:
            self._shallow(layers)

    def embed(self, ids: Tensor) -> Tensor:
        """[...] ids -> [..., hidden]: the model's own input embeddings."""
        rows: Tensor = self.model.get_input_embeddings()(ids)
        return rows

    @torch.inference_mode()
    def head_rows(self, ids: Tensor | None = None) -> Tensor:
        """[n, hidden] float32: the head's weights for these ids, or for the whole vocabulary. Where the head's own form
        is all that is left of them, they are asked of it."""
        head, embedding = self.model.get_output_embeddings(), self.model.get_input_embeddings().weight
        at = slice(0, self.vocab_size) if ids is None else ids
        weight = embedding if self._tied else getattr(head, "weight", None)
        if isinstance(weight, Tensor) and weight.device.type != "meta":
            return weight.detach()[at].float()
        ask = head if self.fused is None else self.fused.head
        zero = ask(embedding.new_zeros(1, embedding.shape[1]))  # the bias
        eye = torch.eye(embedding.shape[1], dtype=embedding.dtype, device=embedding.device)
        return (ask(eye) - zero).T[at].float().contiguous()

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
            together = [r.logits for r in self._read_together([long[-2:], short[-2:-1]], cache, [2, 1])]
            alone = [self.forward(row, self.new_cache(), keep=2)[:k] for row, k in ((long, 2), (short, 1))]
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, TypeError, IndexError, AttributeError, ValueError, AssertionError):
            return False
        one, other = torch.cat(together).float(), torch.cat(alone).float()
        return bool((one - other).abs().max() <= self._rounding * other.std().clamp(min=1e-6))

    @cached_property
    @torch.inference_mode()
    def reads_trees(self) -> bool:
        """Does a tree, read in one forward, say what each of its branches says alone? A model with windows takes one
        mask for all layers and is not asked; of the others the answer is their own arithmetic."""
        if self.fused is not None:
            return True
        config = text_config(self.model)
        kinds = {*(getattr(config, "layer_types", None) or ())} - {"full_attention"}
        small = self.vocab_size < 6 or (self.context_length or 9) < 9
        if small or kinds or getattr(config, "sliding_window", None) or not self._takes_positions:
            return False
        a, b, c, d, e = (self.vocab_size * n // 6 for n in range(1, 6))
        parents = (-1, 0, -1, 2)  # a then b, or c then d
        try:
            cache = self.new_cache()
            self.forward([e, d], cache, keep=1)
            tree = self.read([a, a, b, c, d], cache, 5, parents).logits
            cache.keep(3, (2, 3))
            behind = self.forward([e], cache, keep=1)
            branches = [
                self.forward([e, d, a, *branch], self.new_cache(), keep=4)[:3] for branch in ([a, b, e], [c, d, e])
            ]
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, TypeError, IndexError, AttributeError, ValueError, AssertionError):
            return False
        alone = self.forward([e, d, a, c, d, e], self.new_cache(), keep=1)
        one = torch.cat([tree, behind]).float()
        other = torch.cat([branches[0], branches[1][1:], alone]).float()
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
