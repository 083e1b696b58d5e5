"""What a sweep's report is made of: a point of the grid, the best K of a place, the batch from which nothing pays."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    """One place of the grid. ratio: plain / speculative seconds for the same tokens, prompts read included;
    decode_ratio: the same behind the first token, the one that `predicted` speaks of, which is None where drafts are
    trees or K is controlled. tree_nodes: as in the plan. failed: what it died of."""

    quantization: str
    drafter: str
    temperature: float
    batch: int
    k: int
    failed: str | None
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    decode_ratio: float | None = None
    predicted: float | None = None
    mean_acceptance_length: float | None = None
    alpha: float | None = None
    drafted_share: float | None = None
    tokens_per_second: float | None = None
    plain_tokens_per_second: float | None = None
    tree_nodes: int | None = None


@dataclass(frozen=True, slots=True)
class BestK:
    """k: what to use at this batch; 0 is plain decoding, where nothing was faster. at_k: the fastest K that was
    measured, with its ratio. sure: the interval leaves out 1, and what it resamples (prompts, or whole batches) is
    enough to say so. predicted_k, predicted: the best of every K up to the widest measured, by theory on the measured
    curves, behind the first token."""

    quantization: str
    drafter: str
    temperature: float
    batch: int
    k: int
    at_k: int
    ratio: float
    interval: tuple[float, float] | None
    sure: bool
    predicted_k: int | None
    predicted: float | None
    tree_nodes: int | None = None


@dataclass(frozen=True, slots=True)
class BreakEven:
    """batch: the smallest measured at which no K is faster than plain decoding; None: not reached. predicted: the
    same by theory on the measured curves. up_to: the largest batch that was measured. unsure: batches, up to the one
    that decides, whose fastest K may be faster than plain decoding or not: its interval spans 1. has_theory: whether
    any batch has a prediction."""

    quantization: str
    drafter: str
    temperature: float
    batch: int | None
    predicted: int | None
    up_to: int
    unsure: tuple[int, ...] = ()
    tree_nodes: int | None = None
    has_theory: bool = True

    @property
    def words(self) -> str:
        found = f"not reached up to batch {self.up_to}" if self.batch is None else f"batch {self.batch}"
        theory = f"not up to batch {self.up_to}" if self.predicted is None else f"batch {self.predicted}"
        doubt = f"; the 95% interval spans 1 at batch {', '.join(map(str, self.unsure))}" if self.unsure else ""
        return f"{found} (predicted: {theory}){doubt}" if self.has_theory else found + doubt
