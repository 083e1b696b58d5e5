"""How close a run is to what the memory allows: no step can be quicker than its weights can be read."""

import time
from dataclasses import dataclass
from typing import Any

import torch

from engine.pair import Pair
from engine.stats import Stats

# Bytes read to find the bandwidth: as many as one step reads, within these bounds, so that what fits a cache there
# fits it here too.
LEAST_BYTES, MOST_BYTES = 32 * 2**20, 2**30
READS = 7


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """target_bytes, draft_bytes: weights that one forward of one token reads, keys and values left out.
    bytes_per_second: what this process was seen to read from memory."""

    target_bytes: int
    draft_bytes: int
    bytes_per_second: float

    @classmethod
    def of(cls, pair: Pair, drafter: str) -> "MemoryLimit":
        """Measures the memory; takes about as long as eight steps. Only drafter "model" reads the draft's weights."""
        target, draft = pair.target.read_bytes, pair.draft.read_bytes if pair.draft and drafter == "model" else 0
        return cls(target, draft, read_bandwidth(target, pair.target.device))

    @property
    def tokens_per_second(self) -> float:
        """Plain decoding at its limit, one token a step."""
        return self.bytes_per_second / self.target_bytes

    def fraction(self, stats: Stats) -> float | None:
        """Of the steps behind the first: the seconds in which their weights can be read / the seconds they took."""
        steps = stats.steps - stats.runs
        seconds = sum(stats.itl_s)
        if steps < 1 or seconds <= 0:
            return None
        # Every drafted token is one forward of the draft model, where there is one.
        bytes_read = steps * self.target_bytes + stats.proposed * self.draft_bytes
        return bytes_read / self.bytes_per_second / seconds

    def as_dict(self) -> dict[str, Any]:
        return {
            "target_bytes": self.target_bytes,
            "draft_bytes": self.draft_bytes,
            "bytes_per_second": self.bytes_per_second,
            "plain_tokens_per_second": self.tokens_per_second,
        }


@torch.inference_mode()
def read_bandwidth(nbytes: int, device: torch.device) -> float:
    """Bytes a second that this process reads from the device's memory, over a buffer of `nbytes` (within bounds):
    the best of several passes, the first one dropped."""
    buffer = torch.ones(min(max(nbytes, LEAST_BYTES), MOST_BYTES) // 4, dtype=torch.float32, device=device)
    seconds = []
    for _ in range(READS + 1):
        start = time.perf_counter()
        buffer.sum().item()  # waits for the device
        seconds.append(time.perf_counter() - start)
    return buffer.numel() * 4 / min(seconds[1:])
