"""Time of a part of a step without waiting for the part to be done: on a GPU the device writes down when it passes.

A host that waits after each part, to read a clock, gives up what it gains by queueing ahead. The device's own marks are
read when the step's one host read is over, and then cost nothing.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


class Stopwatch:
    """Sums intervals. laps: their two ends, seconds on a CPU and CUDA events on a GPU; another stopwatch may take them.

    A part in which the host alone works counts too: its marks are queued when the host passes them, and a GPU that has
    nothing else to do writes them down at once.
    """

    def __init__(self, device: torch.device) -> None:
        self.device, self.on_gpu = device, device.type == "cuda"
        self.laps: list[tuple[Any, Any]] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        start = self._mark()
        yield
        self.laps.append((start, self._mark()))

    def _mark(self) -> Any:
        if not self.on_gpu:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self.device))
        return event

    def take(self) -> float:
        """Seconds since it was last asked, by when a GPU must have done what was timed, or the host waits for it."""
        laps, self.laps = self.laps, []
        if not self.on_gpu:
            return float(sum(end - start for start, end in laps))
        for _, end in laps:
            end.synchronize()
        return float(sum(start.elapsed_time(end) for start, end in laps)) / 1e3
