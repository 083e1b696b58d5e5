"""SlotCache: one preallocated key/value buffer a layer, a length per row. A rejection lowers a length.

Nothing is concatenated and nothing is copied on the way: new keys are written in place, attention reads a view of
the live part. It implements transformers' cache interface, so a model with standard attention runs unmodified.
Sliding-window layers keep every key; the window is the mask's business, so a rollback can never miss a key that
a window had already dropped.

Rows are independent sequences. `rows(start, count)` is a cache of some of them on the same buffers, so one row can be
read alone while its neighbours stay as they are.
"""

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

# Buffers grow in steps of this many positions.
BUCKET = 128


class SlotLayer(CacheLayerMixin):
    """One layer's keys and values, [rows, kv_heads, capacity, head_dim] each, written at the cache's lengths.

    of: the layer that holds the buffers, when this is a layer of a view."""

    is_sliding = False
    is_croppable = True
    is_compileable = False
    supports_early_init = False

    def __init__(self, slots: "SlotCache", of: "SlotLayer | None" = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._slots, self._of = weakref.ref(slots), of

    @property
    def slots(self) -> "SlotCache":
        """The cache that this is a layer of. It holds the layer, and not the other way round: buffers are then free as
        soon as the last holder lets go of a cache, and a GPU's memory does not wait for a collection of cycles."""
        slots = self._slots()
        assert slots is not None
        return slots

    @property
    def of(self) -> "SlotLayer":
        return self if self._of is None else self._of

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self.keys, self.values = self._buffer(key_states), self._buffer(value_states)
        self.is_initialized = True

    def _buffer(self, like: Tensor) -> Tensor:
        _, heads, _, dim = like.shape
        shape = (self.slots.row_capacity, heads, self.slots.capacity, dim)
        return torch.zeros(shape, dtype=like.dtype, device=like.device)

    def buffers(self, like: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """This cache's rows of the keys and the values, with room for all that was reserved."""
        of = self.of
        if not of.is_initialized and like is not None:
            of.lazy_initialization(*like)
        assert of.keys is not None
        assert of.values is not None
        if of.keys.shape[2] < of.slots.capacity or of.keys.shape[0] < of.slots.row_capacity:
            of.keys, of.values = (_grown(old, of._buffer(old), of.slots.length) for old in (of.keys, of.values))
        return of.keys[self.slots.span], of.values[self.slots.span]

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Writes [rows, kv_heads, width, head_dim] behind each row's length; returns views of the live part."""
        keys, values = self.buffers((key_states, value_states))
        lengths, width = self.slots.lengths, key_states.shape[2]
        if len(set(lengths)) == 1:
            at = lengths[0]
            keys[:, :, at : at + width] = key_states
            values[:, :, at : at + width] = value_states
        else:
            for row, at in enumerate(lengths):
                keys[row, :, at : at + width] = key_states[row]
                values[row, :, at : at + width] = value_states[row]
        live = max(lengths) + width
        keys, values = keys[:, :, :live], values[:, :, :live]
        return self.slots.aligned(keys), self.slots.aligned(values)

    def get_seq_length(self) -> int:
        return self.slots.length

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        # Older transformers hand over the tensor of positions in place of its length.
        width = query_length if isinstance(query_length, int) else int(query_length.shape[0])
        return self.slots.length + width, 0

    def get_max_length(self) -> int:
        return -1

    get_max_cache_shape = get_max_length  # its name before transformers 5.20


@dataclass(frozen=True, slots=True)
class Segment:
    """Keys and values of consecutive positions of one row, copied out. parts: one [num_layers, heads, n, head_dim]
    where a forward keeps one buffer for all, else keys and values of each layer, [heads, n, head_dim]."""

    parts: tuple[Tensor, ...]

    def __len__(self) -> int:
        return self.parts[0].shape[-2]

    @property
    def nbytes(self) -> int:
        return sum(p.numel() * p.element_size() for p in self.parts)

    def cut(self, start: int, end: int) -> "Segment":
        """Positions start to end, on memory of their own."""
        return Segment(tuple(p[..., start:end, :].clone() for p in self.parts))


class SlotCache(Cache):
    """Keys and values of `rows` sequences in `num_layers` layers.

    The runner calls `reserve` before a forward and `advance` after it; the decoder calls `rollback`. `lengths[r]`
    counts the tokens of row r whose keys are valid: what lies behind them is stale and is overwritten. Ragged attention
    reads on to the longest row's end, so stale keys are the row's own: another row's, which may be NaN, are cleared.
    """

    def __init__(self, num_layers: int, rows: int = 1, zeros: Callable[..., Tensor] = torch.zeros) -> None:
        """zeros: makes the one buffer for all layers; see `engine.buffers`."""
        self._of: SlotCache | None = None
        self.span = slice(0, rows)
        self._lengths = [0] * rows
        self._written = [0] * rows  # positions that may hold something other than zeros
        self._capacity = 0
        self._row_capacity = rows
        self._zeros = zeros
        self._stack: Tensor | None = None
        self.slot_layers = [SlotLayer(self) for _ in range(num_layers)]
        super().__init__(layers=[*self.slot_layers])

    @property
    def of(self) -> "SlotCache":
        """The cache with the buffers: this one, but for a view of rows."""
        return self if self._of is None else self._of

    @property
    def lengths(self) -> list[int]:
        return self.of._lengths[self.span]

    @property
    def length(self) -> int:
        return max(self.lengths, default=0)

    @property
    def capacity(self) -> int:
        """Positions that each row has room for."""
        return self.of._capacity

    @property
    def row_capacity(self) -> int:
        return self.of._row_capacity

    def rows(self, start: int, count: int) -> "SlotCache":
        """Rows [start, start + count) as a cache of their own, on the same buffers and lengths."""
        return _Rows(self.of, slice(start, start + count))

    def first_layers(self, count: int) -> "SlotCache":
        """The first `count` layers as a cache of their own, on the same buffers and lengths."""
        return _Rows(self.of, self.span, count)

    def aligned(self, live: Tensor) -> Tensor:
        """Hook for `right_aligned`: [rows, heads, live, head_dim] as attention is to read it."""
        return live

    def right_aligned(self) -> "SlotCache":
        """The same rows for one forward whose attention reads them shifted to end at one position, as left-padded
        prompts do: what every transformers model knows to mask, windows, chunks and ALiBi included. It copies."""
        return _RightAligned(self.of, self.span)

    def reserve(self, width: int) -> None:
        """Make room for `width` more tokens in every row, which may then be written."""
        self.expect(self.length + width)
        written = self.of._written[self.span]
        self.of._written[self.span] = [max(w, n + width) for w, n in zip(written, self.lengths, strict=True)]

    def expect(self, positions: int, rows: int = 0) -> None:
        """Make room for so many positions in every row, and for so many rows; grows by whole buckets, half as much
        again at least."""
        if positions > self.capacity:
            target = positions if self.capacity == 0 else max(positions, self.capacity * 3 // 2)
            self.of._capacity = -(-target // BUCKET) * BUCKET
        self.of._row_capacity = max(self.of._row_capacity, rows)

    def stack(self, heads: int, head_dim: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        """All layers' keys and values in one buffer, [num_layers, rows, heads, capacity, head_dim], for a forward that
        writes them itself; heads counts the key heads and, behind them, the value heads."""
        of, old = self.of, self.of._stack
        if old is None or old.shape[3] < self.capacity or old.shape[1] < self.row_capacity:
            shape = (len(self.layers), self.row_capacity, heads, self.capacity, head_dim)
            new = of._zeros(shape, dtype=dtype, device=device)
            of._stack = new if old is None else _grown(old, new, of.length)
        assert of._stack is not None
        return of._stack[:, self.span]

    def advance(self, width: int) -> None:
        self.of._lengths[self.span] = [n + width for n in self.lengths]

    def rollback(self, length: int, row: int = 0) -> None:
        """Forget row `row`'s tokens from `length` on. Raises ValueError when it holds fewer than that."""
        if not 0 <= length <= self.lengths[row]:
            raise ValueError(f"cannot roll back to {length}: row {row} holds {self.lengths[row]} tokens")
        self.of._lengths[(self.span.start or 0) + row] = length

    @torch.inference_mode()
    def keep(self, length: int, path: Sequence[int], row: int = 0) -> None:
        """Of what row `row` holds from `length` on, only the tokens at `path`, counted from there and rising, stay:
        they move up behind `length`. What a verified tree leaves of its branches; a chain's moves nothing."""
        if [*path] != [*range(len(path))]:
            for keys in self._row_buffers():
                live = keys[row][..., length:, :]
                live[..., : len(path), :] = live[..., [*path], :]
        self.rollback(length + len(path), row)

    def crop(self, tokens_to_remove: int) -> None:
        """transformers' name for a rollback of every row."""
        for row, length in enumerate(self.lengths):
            self.rollback(length - tokens_to_remove, row)

    # Rows that come and go. Of a whole cache, not of a view of one.

    def add_row(self) -> int:
        """One more row, empty, behind the others; returns its number. Buffers grow by half as many rows at least."""
        self._lengths.append(0)
        self._written.append(0)
        self.span = slice(0, len(self._lengths))
        if len(self._lengths) > self._row_capacity:
            self._row_capacity = max(len(self._lengths), self._row_capacity * 3 // 2)
        return len(self._lengths) - 1

    def drop_last_row(self) -> None:
        """Nothing of it is left for the next row in its place."""
        self.rollback(0, len(self._lengths) - 1)
        self.clear_behind(len(self._lengths) - 1)
        self._lengths.pop()
        self._written.pop()
        self.span = slice(0, len(self._lengths))

    @torch.inference_mode()
    def copy_row(self, source: int, to: int) -> None:
        """Row `to` becomes what row `source` is: one copy of its live part."""
        self._lengths[to] = n = self._lengths[source]
        for keys in self._row_buffers():
            if n:
                keys[to][..., :n, :] = keys[source][..., :n, :]
        self._written[to] = max(self._written[to], n)
        self.clear_behind(to)

    @torch.inference_mode()
    def swap_rows(self, one: int, other: int) -> None:
        a, b = self._lengths[one], self._lengths[other]
        self._lengths[one], self._lengths[other] = b, a
        for keys in self._row_buffers():
            held = keys[one][..., :a, :].clone()
            keys[one][..., :b, :] = keys[other][..., :b, :]
            keys[other][..., :a, :] = held
        for row, n in ((one, b), (other, a)):
            self._written[row] = max(self._written[row], n)
            self.clear_behind(row)

    @torch.inference_mode()
    def clear_behind(self, row: int) -> None:
        """Zeros behind what row `row` holds. The weight of what a mask hides is 0, and 0 * NaN is NaN."""
        n, end = self._lengths[row], self._written[row]
        if n < end:
            for keys in self._row_buffers():
                keys[row][..., n:end, :] = 0
        self._written[row] = n

    def _row_buffers(self) -> list[Tensor]:
        """Each buffer with its rows in front: [rows, ..., capacity, head_dim]."""
        if self.of._stack is not None:
            heads, _, dim = self.of._stack.shape[2:]
            return [self.stack(heads, dim, self.of._stack.dtype, self.of._stack.device).transpose(0, 1)]
        return [b for layer in self.slot_layers if layer.of.is_initialized for b in layer.buffers()]

    # Prefixes that are copied out of one run and into another.

    @torch.inference_mode()
    def segment(self, start: int, end: int) -> Segment:
        """A copy of positions start to end of the first row."""
        return Segment(tuple(b[0][..., start:end, :].clone() for b in self._row_buffers()))

    @torch.inference_mode()
    def append(self, segment: Segment, start: int, end: int) -> None:
        """Positions start to end of a segment, as if the first row had just read them. The segment is of the very
        same model and layout; nothing here can tell."""
        n, at = end - start, self.lengths[0]
        self.reserve(n)
        if len(segment.parts) == 1 and segment.parts[0].ndim == 4:
            like = segment.parts[0]  # [num_layers, heads, n, head_dim]
            targets = [self.stack(like.shape[1], like.shape[3], like.dtype, like.device)[:, 0]]
        else:
            pairs = zip(segment.parts[::2], segment.parts[1::2], strict=True)
            layers = zip(self.slot_layers, pairs, strict=True)
            targets = [b[0] for layer, (k, v) in layers for b in layer.buffers((k[None], v[None]))]
        for target, part in zip(targets, segment.parts, strict=True):
            target[..., at : at + n, :] = part[..., start:end, :]
        self.of._lengths[self.span.start or 0] = at + n


class _Rows(SlotCache):
    def __init__(self, of: SlotCache, span: slice, layers: int | None = None) -> None:
        self._of, self.span = of, span
        self.slot_layers = [SlotLayer(self, layer) for layer in of.slot_layers[:layers]]
        Cache.__init__(self, layers=[*self.slot_layers])


class _RightAligned(_Rows):
    """For one forward: it knows the lengths that its rows have now."""

    def __init__(self, of: SlotCache, span: slice) -> None:
        super().__init__(of, span)
        lengths = self.lengths
        self.shifts = [max(lengths) - n for n in lengths]
        self._from: Tensor | None = None

    def aligned(self, live: Tensor) -> Tensor:
        if not any(self.shifts):
            return live
        if self._from is None:  # [rows, live]: what stands left of a row's beginning is masked, whatever it is
            shifts = torch.tensor(self.shifts, device=live.device)
            self._from = (torch.arange(live.shape[2], device=live.device) - shifts[:, None]).clamp_(min=0)
            self._row = torch.arange(live.shape[0], device=live.device)[:, None]
        return live[self._row, :, self._from].transpose(1, 2)


def _grown(old: Tensor, new: Tensor, live: int) -> Tensor:
    """The larger buffer with what the smaller one held: [..., rows, heads, capacity, head_dim], `live` positions."""
    rows = old.shape[-4]
    new[..., :rows, :, :live, :] = old[..., :live, :]
    return new
