"""What a drafter keeps of the target's hidden states: those of the newest positions, in order, until it uses them."""

import torch
from torch import Tensor


class Unused:
    """States of consecutive positions [start, end), each [hidden], held in pieces."""

    def __init__(self) -> None:
        self.start = self.end = 0
        self._pieces: list[Tensor] = []

    def restart(self, position: int) -> None:
        """Forget everything; the next states are those of `position` on."""
        self.start = self.end = position
        self._pieces = []

    def add(self, states: Tensor) -> None:
        """[n, hidden], of the n positions from `end` on."""
        self._pieces.append(states)
        self.end += states.shape[0]

    def take(self, end: int) -> Tensor:
        """The states of [start, end), [n, hidden]; they are held no longer."""
        held = self._pieces[0] if len(self._pieces) == 1 else torch.cat(self._pieces)
        count = end - self.start
        self._pieces = [held[count:]] if count < held.shape[0] else []
        self.start = end
        return held[:count]
