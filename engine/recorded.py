"""The fused layers recorded once and replayed without Python, as CUDA graphs do on a GPU.

On a CPU a small model's step is some two thousand short operations, and Python takes longer to ask for them than they
take to run. A trace asks for the same operations in the same order, so the numbers are the same to the last bit. A few
recordings hold for every number of rows, width and length: one token a row or more, one row or several, level or not.
torch.compile would fuse them too, but needs a C++ compiler and a minute on the first click; tracing takes a third of a
second. torch means to retire tracing, and without it everything still runs, only slower.
"""

import threading
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from engine.cache import SlotCache
from engine.fused import Asked, FusedDecoder, Read
from engine.place import Place

# Forwards of more tokens are long enough for Python's part not to matter, and prompts need no recording.
MOST_TOKENS = 64
# The tracer is one a process.
TRACER = threading.Lock()
# One token a row; rows of several lengths; one row; how many layers; which of them are tapped.
Key = tuple[bool, bool, bool, int, tuple[int, ...]]
unoptimised: Any = torch.jit.optimized_execution  # type: ignore[attr-defined]
trace: Any = torch.jit.trace


class RecordedDecoder:
    """A FusedDecoder's `forward` with the same arguments and the same answers. Any number of threads may call it.

    recordings: what has been recorded, None where the tracer cannot (oneDNN's packed product is one that it cannot
    write down); the layers then run as they do without.
    """

    def __init__(self, fused: FusedDecoder) -> None:
        self.fused = fused
        self.recordings: dict[Key, Any] = {}

    def forward(self, ids: Tensor, cache: SlotCache, keep: int) -> Tensor:
        """See `FusedDecoder.forward`."""
        return self.read(ids, cache, Asked(keep)).logits

    def read(self, ids: Tensor, cache: SlotCache, asked: Asked) -> Read:
        """See `FusedDecoder.read`."""
        short = ids.numel() <= MOST_TOKENS
        return self.fused.read(ids, cache, asked, self._replay if short else self.fused.body)

    def _replay(
        self,
        x: Tensor,
        rotation: Tensor,
        keys: Sequence[Tensor],
        values: Sequence[Tensor],
        targets: Sequence[Tensor],
        place: Place,
        taps: tuple[int, ...],
    ) -> tuple[Tensor, ...]:
        """See `FusedDecoder.body`."""
        extra = tuple(t for t in (place.mask, place.positions, place.rows) if t is not None)
        given = (x, rotation, tuple(keys), tuple(values), tuple(targets), *extra)
        # A kernel may be another for a single row of input.
        key = (place.single, place.positions is not None, x.shape[0] == 1, len(keys), taps)
        if key not in self.recordings:
            with TRACER:
                if key not in self.recordings:
                    self.recordings[key] = self._record(key, given)
        recording = self.recordings[key]
        if recording is None:
            return self.fused.body(x, rotation, keys, values, targets, place, taps)
        # The optimiser would specialise the trace for each new length, which takes a second every time.
        with unoptimised(False):
            out = recording(*given)
        return out if taps else (out,)

    def _record(self, key: Key, given: tuple[Any, ...]) -> Any:
        one_row = key[0] and key[2]
        if not all(p.traceable(one_row) for layer in self.fused.layers[: key[3]] for p in layer.projections):
            return None
        try:
            with warnings.catch_warnings(), unoptimised(False):
                # Those that the tracer has of every Python number it meets, and of its own retirement.
                warnings.simplefilter("ignore")
                # Tracing runs what it records. It writes keys behind the live part, as the replay then does again.
                found = trace(_Body(self.fused, key), _copied(given), check_trace=False)
        except RuntimeError:  # what the tracer cannot write down runs without it
            return None
        return found


class _Body(torch.nn.Module):
    """The layers as the tracer wants them: tensors in, tensor out, and every packed weight an attribute of a module,
    which is how the tracer knows it again."""

    def __init__(self, fused: FusedDecoder, key: Key) -> None:
        super().__init__()
        self.fused, (self.single, self.ragged, _, layers, self.taps) = fused, key
        for i, layer in enumerate(fused.layers[:layers]):
            for j, projection in enumerate(layer.projections):
                packed = getattr(projection, "packed", None)
                if packed is not None:
                    self._hold(f"packed_{i}_{j}", packed)

    def _hold(self, name: str, packed: Any) -> None:
        if isinstance(packed, Tensor):
            self.register_buffer(name, packed)
        else:
            setattr(self, name, packed)

    def forward(
        self,
        x: Tensor,
        rotation: Tensor,
        keys: tuple[Tensor, ...],
        values: tuple[Tensor, ...],
        targets: tuple[Tensor, ...],
        *extra: Tensor,
    ) -> Any:
        mask = extra[0] if extra else None
        positions, rows = (extra[1], extra[2]) if self.ragged else (None, None)
        place = Place.of(self.single, mask, positions, rows)
        out = self.fused.body(x, rotation, keys, values, targets, place, self.taps)
        return out if self.taps else out[0]


def _copied(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """x is added to in place, so the tracer gets one of its own."""
    return (given[0].clone(), *given[1:])
