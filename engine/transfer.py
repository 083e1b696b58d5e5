"""Traffic between the host and the device. On a CPU both are the same memory, and these cost next to nothing."""

from collections.abc import Sequence

import torch
from torch import Tensor


def upload(values: Sequence[int], device: torch.device) -> Tensor:
    """[n] int64 on `device`, without waiting for it: pinned memory, or a copy to a GPU would stop the host until the
    GPU has done all that it was given. Not for use inside a graph's capture, where pinning is forbidden."""
    return send(torch.tensor(values, dtype=torch.long), device)


def send(host: Tensor, device: torch.device) -> Tensor:
    """`upload` for a tensor on the host."""
    if device.type != "cuda" or not host.numel():
        return host.to(device)
    return host.pin_memory().to(device, non_blocking=True)


def download(numbers: Tensor) -> list[float]:
    """THE host read of a step: waits for the device, and everything that the host must know comes over at once.
    Token ids travel as float64 beside the probabilities, which holds them exactly."""
    values: list[float] = numbers.flatten().tolist()
    return values
