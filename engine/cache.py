"""SlotCache: one preallocated key/value buffer a layer, a length per row. A rejection lowers a length.

Nothing is concatenated and nothing is copied on the way: new keys are written in place, attention reads a view of
the live part. It implements transformers' cache interface, so a model with standard attention runs unmodified.
Sliding-window layers keep every key; the window is the mask's business, so a rollback can never miss a key that
a window had already dropped.
"""

from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

# Buffers grow in steps of this many positions.
BUCKET = 128


class SlotLayer(CacheLayerMixin):
    """One layer's keys and values, [rows, kv_heads, capacity, head_dim] each, written at the cache's lengths."""

    is_sliding = False
    is_croppable = True
    is_compileable = False
    supports_early_init = False

    def __init__(self, slots: "SlotCache") -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.slots = slots

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.keys = self._buffer(key_states)
        self.values = self._buffer(value_states)
        self.is_initialized = True

    def _buffer(self, like: torch.Tensor) -> torch.Tensor:
        rows, heads, _, dim = like.shape
        return torch.zeros(rows, heads, self.slots.capacity, dim, dtype=like.dtype, device=like.device)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Writes [rows, kv_heads, width, head_dim] behind each row's length; returns views of the live part."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        assert self.keys is not None
        assert self.values is not None
        if self.keys.shape[2] < self.slots.capacity:
            self._grow()
        lengths, width = self.slots.lengths, key_states.shape[2]
        if len(set(lengths)) == 1:
            at = lengths[0]
            self.keys[:, :, at : at + width] = key_states
            self.values[:, :, at : at + width] = value_states
        else:
            for row, at in enumerate(lengths):
                self.keys[row, :, at : at + width] = key_states[row]
                self.values[row, :, at : at + width] = value_states[row]
        live = max(lengths) + width
        return self.keys[:, :, :live], self.values[:, :, :live]

    def _grow(self) -> None:
        live = max(self.slots.lengths)
        for name in ("keys", "values"):
            old = getattr(self, name)
            new = self._buffer(old)
            new[:, :, :live] = old[:, :, :live]
            setattr(self, name, new)

    def get_seq_length(self) -> int:
        return max(self.slots.lengths)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        # Older transformers hand over the tensor of positions in place of its length.
        width = query_length if isinstance(query_length, int) else int(query_length.shape[0])
        return max(self.slots.lengths) + width, 0

    def get_max_length(self) -> int:
        return -1

    get_max_cache_shape = get_max_length  # its name before transformers 5.20


class SlotCache(Cache):
    """Keys and values of `rows` sequences in `num_layers` layers.

    The runner calls `reserve` before a forward and `advance` after it; the decoder calls `rollback`. `lengths[r]`
    counts the tokens of row r whose keys are valid: what lies behind them is stale and is overwritten.
    """

    def __init__(self, num_layers: int, rows: int = 1) -> None:
        self.lengths = [0] * rows
        self.capacity = 0
        self._stack: torch.Tensor | None = None
        super().__init__(layers=[SlotLayer(self) for _ in range(num_layers)])

    @property
    def length(self) -> int:
        return max(self.lengths)

    def reserve(self, width: int) -> None:
        """Make room for `width` more tokens in every row; grows by whole buckets, half as much again at least."""
        need = max(self.lengths) + width
        if need > self.capacity:
            target = need if self.capacity == 0 else max(need, self.capacity * 3 // 2)
            self.capacity = -(-target // BUCKET) * BUCKET

    def stack(self, heads: int, head_dim: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """All layers' keys and values in one buffer, [num_layers, rows, heads, capacity, head_dim], for a forward that
        writes them itself; heads counts the key heads and, behind them, the value heads."""
        if self._stack is None or self._stack.shape[3] < self.capacity:
            old, live = self._stack, max(self.lengths)
            shape = (len(self.layers), len(self.lengths), heads, self.capacity, head_dim)
            self._stack = torch.zeros(shape, dtype=dtype, device=device)
            if old is not None:
                self._stack[:, :, :, :live] = old[:, :, :, :live]
        return self._stack

    def advance(self, width: int) -> None:
        self.lengths = [n + width for n in self.lengths]

    def rollback(self, length: int, row: int = 0) -> None:
        """Forget row `row`'s tokens from `length` on. Raises ValueError when it holds fewer than that."""
        if not 0 <= length <= self.lengths[row]:
            raise ValueError(f"cannot roll back to {length}: row {row} holds {self.lengths[row]} tokens")
        self.lengths[row] = length

    def crop(self, tokens_to_remove: int) -> None:
        """transformers' name for a rollback of every row."""
        for row, length in enumerate(self.lengths):
            self.rollback(length - tokens_to_remove, row)
