"""What drafting costs a step: forwards of a draft model or of a small head, or seconds that were measured or
assumed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from engine.labels import Label
from engine.precision import BF16, Precision
from engine.shape import ModelShape


@dataclass(frozen=True)
class Draft:
    """name: for people. shape: of what runs `forwards` times a drafted step (None: once a proposal), None where nothing
    does. reads_prompt: whether it reads the prompt too. gpus: how many share it. seconds: of a drafted step on top of
    the forwards, labelled; it is all there is for lookups. Raises ValueError when a number is out of range.
    """

    name: str
    shape: ModelShape | None = None
    forwards: float | None = None
    reads_prompt: bool = True
    gpus: int = 1
    precision: Precision = BF16
    seconds: float = 0.0
    label: Label = "assumed"

    def __post_init__(self) -> None:
        if self.forwards is not None and not (math.isfinite(self.forwards) and self.forwards >= 1):
            raise ValueError(f"a draft network runs at least once a drafted step, not {self.forwards!r} times")
        if not (math.isfinite(self.seconds) and self.seconds >= 0):
            raise ValueError(f"drafting takes a finite number of seconds of at least 0, not {self.seconds!r}")

    @classmethod
    def model(
        cls, shape: ModelShape, *, gpus: int = 1, precision: Precision = BF16, name: str = "draft model"
    ) -> Draft:
        """A model of its own: a forward a proposal. The shape's own bytes a parameter count."""
        return cls(name, shape, gpus=gpus, precision=precision)

    @classmethod
    def head(
        cls, shape: ModelShape, *, forwards: float | None = None, gpus: int = 1, reads_prompt: bool = True,
        name: str = "head",
    ) -> Draft:  # fmt: skip
        """An EAGLE or Medusa head. forwards: a step; a tree's is its depth, Medusa's is 1, a chain's (None) one a
        proposal."""
        return cls(name, shape, forwards, reads_prompt, gpus)

    @classmethod
    def share(cls, target: ModelShape, share: float, *, forwards: float | None = None) -> Draft:
        """A draft of which only the size is known: `share` of the target's active parameters, in as many of its layers.
        Raises ValueError for a share outside (0, 1]."""
        if not 0 < share <= 1:
            raise ValueError(f"a draft's share of the target is above 0 and at most 1, not {share!r}")
        n_params = max(1, math.ceil(target.matmul_params * share))
        shape = replace(
            target, n_params=n_params, n_active_params=n_params, layers=max(1, round(target.layers * share)),
            lookup_params=0, experts=0, experts_per_token=0, expert_params=0,
        )  # fmt: skip
        return cls(f"{share:g} of the target", shape, forwards)

    @classmethod
    def lookup(cls, seconds: float = 0.0, label: Label = "assumed") -> Draft:
        """Prompt lookup, suffix and n-gram drafts: no network, only host seconds a drafted step."""
        return cls("lookup", seconds=seconds, label=label)
