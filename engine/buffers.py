"""Key/value buffers that outlive the runs that fill them, so that CUDA graphs bound to their addresses do too.

A graph replays with the addresses that it was captured with. A buffer made anew for each run would ask for a new
capture each time; one buffer shared by all runs would have to be copied in and out whenever two of them take turns. So
a run borrows a buffer of one of a few sizes, and when it lets go of it the next run gets the same one, with its graphs.
Two runs at a time have two buffers, each with graphs of its own.
"""

import threading
import weakref
from collections import deque
from collections.abc import Callable

import torch
from torch import Tensor

from engine.cache import BUCKET

# Idle buffers that are kept for the next run.
MOST_IDLE = 8


def length_bucket(need: int) -> int:
    """The smallest of 1, 2, 3, 4, 6, 8, 12, 16, 24, ... times BUCKET positions that holds `need`: few sizes, and at
    most half of one is read or held for nothing."""
    steps = -(-max(need, 1) // BUCKET)
    power = 1 << (steps - 1).bit_length()
    return BUCKET * (power * 3 // 4 if power >= 4 and power * 3 // 4 >= steps else power)


class BufferPool:
    """Lends tensors; each comes back by itself when its borrower holds it no more. May be called from any thread.

    dropped: called with a buffer that is let go for good, for whoever keeps something that belongs to it.
    """

    def __init__(self, dropped: Callable[[Tensor], object] = lambda _: None, most_idle: int = MOST_IDLE) -> None:
        self.dropped, self.most_idle = dropped, most_idle
        self._idle: list[Tensor] = []
        # A borrower may be collected anywhere, this pool's own code included, so coming back takes no lock.
        self._back: deque[Tensor] = deque()
        self._lock = threading.RLock()

    def zeros(self, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
        """Zeros [layers, rows, heads, positions, head_dim], with the positions of `shape` rounded up to a bucket."""
        *outer, positions, dim = shape
        whole = (*outer, length_bucket(positions), dim)
        with self._lock:
            self._settle()
            found = next(
                (b for b in reversed(self._idle) if (b.shape, b.dtype, b.device) == (whole, dtype, device)), None
            )
            if found is not None:
                self._idle = [b for b in self._idle if b is not found]
                with torch.inference_mode():  # the first borrower may have asked inside it
                    found.zero_()  # nothing of an earlier run, a NaN least of all, may be seen
            else:
                found = self._new(whole, dtype, device)
        lent = found.view_as(found)
        weakref.finalize(lent, self._back.append, found).atexit = False
        return lent

    def _new(self, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
        try:
            return torch.zeros(shape, dtype=dtype, device=device)
        except torch.OutOfMemoryError:
            self.clear()
            return torch.zeros(shape, dtype=dtype, device=device)

    def clear(self) -> None:
        """Let go of all that is idle."""
        with self._lock:
            self._settle(0)

    @property
    def idle(self) -> list[Tensor]:
        """Least recently used first."""
        with self._lock:
            self._settle()
            return [*self._idle]

    def _settle(self, most: int | None = None) -> None:
        while self._back:
            self._idle.append(self._back.popleft())
        while len(self._idle) > (self.most_idle if most is None else most):
            self.dropped(self._idle.pop(0))


def same_memory(a: Tensor, b: Tensor) -> bool:
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
