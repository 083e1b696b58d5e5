"""What a machine could do, as numbers that are handed in: this room knows no GPU. Who makes them says how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pricing.figure import Label


@dataclass(frozen=True, slots=True)
class Bound:
    """What no software can pass on one machine; speeds in output tokens/s, all requests together.

    machine: model, precision and GPUs, for people. gpus: how many it is of. batch: requests at once; None: any number.
    plain_tokens_per_second: one token a request and pass, a pass taking no less than reading what it must or
    multiplying it; bound_by says which. compute_tokens_per_second: every token that comes out has to be multiplied
    once, at any batch; prefill_tokens_per_second: the same for tokens that are read. verify_over_plain: a pass over K
    + 1 tokens over one over 1 token; None without K. largest_batch: requests whose keys fit beside the weights; None:
    not worked out. how: its derivation, a line each. sources: of the figures in it.
    """

    machine: str
    gpus: int
    batch: int | None
    plain_tokens_per_second: float
    bound_by: str
    compute_tokens_per_second: float
    prefill_tokens_per_second: float
    weights_gb: float
    memory_gb: float
    verify_over_plain: float | None = None
    largest_batch: int | None = None
    how: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    label: Label = "projected"

    @property
    def fits(self) -> bool:
        """Whether the weights alone do."""
        return self.weights_gb <= self.memory_gb

    def speculative_tokens_per_second(self, tokens_per_pass: float) -> float:
        """A pass that verifies is no shorter than a plain one and yields so many tokens a request; every one of them
        has to be multiplied."""
        return min(self.plain_tokens_per_second * tokens_per_pass, self.compute_tokens_per_second)

    def as_dict(self) -> dict[str, Any]:
        return {
            "machine": self.machine, "gpus": self.gpus, "batch": self.batch,
            "plain_tokens_per_second": self.plain_tokens_per_second, "bound_by": self.bound_by,
            "compute_tokens_per_second": self.compute_tokens_per_second,
            "prefill_tokens_per_second": self.prefill_tokens_per_second, "weights_gb": self.weights_gb,
            "memory_gb": self.memory_gb, "fits": self.fits, "verify_over_plain": self.verify_over_plain,
            "largest_batch": self.largest_batch, "how": list(self.how), "sources": list(self.sources),
            "label": self.label,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Projected:
    """What the machine is expected to do. speculative_tokens_per_second, speedup: None where acceptance is not known.
    times_at_most: how many times the projection nine in ten published results stayed below, 1 where that is not known;
    band: the same in words. speedup_times_at_most, speedup_band: the same of speed-ups, whose errors are not those of
    the two speeds; None where too few were published, and then the projection judges no speed-up. how: its derivation;
    assumptions: each with its label. machine: model, precision and GPUs, for people. fits: whether its memory holds all
    of that; the speeds of one that does not fit support nothing. chosen: the precision, where the claim says none.
    """

    plain_tokens_per_second: float
    speculative_tokens_per_second: float | None = None
    times_at_most: float = 1.0
    band: str = ""
    how: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    label: Label = "projected"
    speedup_times_at_most: float | None = None
    speedup_band: str = ""
    machine: str = ""
    fits: bool = True
    chosen: str = ""

    @property
    def speedup(self) -> float | None:
        fast = self.speculative_tokens_per_second
        return None if fast is None else fast / self.plain_tokens_per_second

    def as_dict(self) -> dict[str, Any]:
        return {
            "plain_tokens_per_second": self.plain_tokens_per_second,
            "speculative_tokens_per_second": self.speculative_tokens_per_second, "speedup": self.speedup,
            "times_at_most": self.times_at_most, "band": self.band or None,
            "speedup_times_at_most": self.speedup_times_at_most, "speedup_band": self.speedup_band or None,
            "machine": self.machine or None, "fits": self.fits, "chosen_precision": self.chosen or None,
            "how": list(self.how),
            "assumptions": list(self.assumptions), "label": self.label,
        }  # fmt: skip
