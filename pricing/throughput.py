"""How fast one replica of a model is, in both ways of decoding: what a price an hour is compared with."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Literal, get_args

from pricing.cells import finite, shown

Provenance = Literal["measured", "projected", "assumed"]


def positive(value: object) -> float | None:
    """A positive finite float, or None: NaN and infinities would reach JSON, which has no word for them."""
    number = finite(value)
    return number if number is not None and number > 0 else None


@dataclass(frozen=True)
class RequestParts:
    """Of one request: tokens that it reads and writes, and the seconds of a replica that each of the two takes."""

    input_tokens: float
    output_tokens: float
    input_s: float
    output_s: float

    def per_million(self, per_million_output_alone: float | None) -> tuple[float | None, float | None]:
        """(of input, of output) from what 1M output tokens cost with all of the bill on them: the bill is split by
        seconds, so the parts add up to it. None where there is nothing to split."""
        whole_s = self.input_s + self.output_s
        alone = positive(per_million_output_alone)
        if alone is None or not all(map(positive, (self.input_tokens, self.output_tokens, whole_s))):
            return None, None
        of_input = alone * self.output_tokens * self.input_s / whole_s / self.input_tokens
        return positive(of_input), positive(alone * self.output_s / whole_s)


@dataclass(frozen=True)
class Throughput:
    """Output tokens per second of one replica of the model on `gpus` GPUs, all its requests together.

    `how` says where the numbers come from (run, hardware and date, or the projection). None means no value; a speed
    that is zero, negative, not finite or not a number is none either, and is kept as None. *_parts: how a request's
    time divides into reading and writing, where that is known.
    """

    plain_tokens_per_second: float | None
    speculative_tokens_per_second: float | None
    provenance: Provenance
    how: str
    gpus: int = 1
    plain_parts: RequestParts | None = None
    speculative_parts: RequestParts | None = None

    def __post_init__(self) -> None:
        if self.provenance not in get_args(Provenance):
            known = ", ".join(get_args(Provenance))
            raise ValueError(f"provenance must be one of {known}, not {self.provenance!r}")
        if isinstance(self.gpus, bool) or not isinstance(self.gpus, numbers.Integral) or self.gpus < 1:
            raise ValueError(f"a replica needs at least 1 GPU, as a whole number, not {shown(self.gpus)}")
        for name in ("plain_tokens_per_second", "speculative_tokens_per_second"):
            object.__setattr__(self, name, positive(getattr(self, name)))
