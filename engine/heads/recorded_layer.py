"""A head's layer recorded once and replayed without Python: what `engine.recorded` is to a target's layers.

On a CPU more than a third of a draft step is Python asking for some sixty short operations. A recording asks for the
same ones in the same order, so the numbers are the same to the last bit.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from engine.linear import Linear
from engine.recorded import TRACER, trace, unoptimised


class RecordedLayer:
    """layer: tensors in, tensor out, with everything that changes from step to step in the tensors. projections: what
    it multiplies by. Any number of threads may call it. A recording holds for one row of
    input or for more, and for a call with a mask or without."""

    def __init__(self, layer: Callable[..., Tensor], projections: Sequence[Linear]) -> None:
        self.layer, self.projections = layer, projections
        self._recordings: dict[tuple[bool, int], Any] = {}

    def __call__(self, *given: Tensor) -> Tensor:
        key = given[0].shape[0] == 1, len(given)
        if key not in self._recordings:
            with TRACER:
                if key not in self._recordings:
                    self._recordings[key] = self._record(key[0], given)
        recording = self._recordings[key]
        if recording is None:
            return self.layer(*given)
        with unoptimised(False):  # the optimiser would specialise it for each new length
            out: Tensor = recording(*given)
        return out

    def _record(self, one_row: bool, given: tuple[Tensor, ...]) -> Any:
        if not all(p.traceable(one_row) for p in self.projections):
            return None
        try:
            with warnings.catch_warnings(), unoptimised(False):
                warnings.simplefilter("ignore")  # of every Python number it meets, and of its own retirement
                return trace(_Layer(self.layer, self.projections), given, check_trace=False)
        except RuntimeError:  # what the tracer cannot write down runs without it
            return None


class _Layer(torch.nn.Module):
    """The layer as the tracer wants it: every packed weight an attribute of a module."""

    def __init__(self, layer: Callable[..., Tensor], projections: Sequence[Linear]) -> None:
        super().__init__()
        self.layer = layer
        for i, projection in enumerate(projections):
            packed = getattr(projection, "packed", None)
            if isinstance(packed, Tensor):
                self.register_buffer(f"packed_{i}", packed)
            elif packed is not None:
                setattr(self, f"packed_{i}", packed)

    def forward(self, *given: Tensor) -> Tensor:
        return self.layer(*given)
