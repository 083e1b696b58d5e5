"""How many threads a CPU should use: measured, since it cannot be known.

A container that may use two of a host's 64 processors, or a machine that something else keeps busy, makes torch's own
choice of threads many times slower than it need be: all of them wait for the last one at the end of every layer.
"""

import os
import time
from collections.abc import Callable

import torch

from engine.runner import Runner

# Rounds over all thread counts, forwards of one token in each, and when to stop in any case.
ROUNDS, FORWARDS, MAX_SECONDS = 3, 3, 2.0
# Fewer threads win when they are this close: they leave room for the page and for other programs.
CLOSE = 1.05


def choose_threads(runner: Runner) -> int:
    """Sets torch's thread count to the one with the quickest forward of one token, and returns it.

    A count that the user has set (OMP_NUM_THREADS) stands. Only on a CPU. The count is the process's, so the runner
    remembers its own, for whoever goes back to it.
    """
    if runner.device.type != "cpu" or os.environ.get("OMP_NUM_THREADS"):
        return torch.get_num_threads()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    chosen = quickest(candidates(cores), lambda threads: _forward_seconds(runner, threads))
    torch.set_num_threads(chosen)
    runner.threads = chosen
    return chosen


def candidates(cores: int) -> list[int]:
    """1, 2, 4, ... and the number of cores itself."""
    return sorted({min(2**i, cores) for i in range(cores.bit_length() + 1)})


def quickest(counts: list[int], seconds: Callable[[int], float]) -> int:
    """The smallest count whose best time is within a few percent of the best of all. The counts take turns, so that
    what else the machine does meets all of them; a count that is far behind after one turn drops out."""
    start = time.perf_counter()
    best = {count: seconds(count) for count in counts}
    for _ in range(ROUNDS - 1):
        for count in counts:
            if best[count] <= 2 * min(best.values()):
                best[count] = min(best[count], seconds(count))
        if time.perf_counter() - start > MAX_SECONDS:
            break
    return min(c for c in counts if best[c] <= CLOSE * min(best.values()))


@torch.inference_mode()
def _forward_seconds(runner: Runner, threads: int) -> float:
    """The median of a few forwards of one token; the first of them only wakes the threads."""
    torch.set_num_threads(threads)
    times = []
    for _ in range(FORWARDS + 1):
        cache = runner.new_cache()
        start = time.perf_counter()
        runner.forward([0], cache, keep=1)
        times.append(time.perf_counter() - start)
    return sorted(times[1:])[FORWARDS // 2]
