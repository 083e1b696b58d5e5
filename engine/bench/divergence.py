"""Where two greedy runs part, and whether rounding explains it."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.trace import Step

# Widths of one forward round differently. Two probabilities closer than this may change places: float32, then half.
NEAR_TIE, HALF_NEAR_TIE = 1e-3, 0.05


@dataclass(frozen=True, slots=True)
class Divergence:
    """position: of the first differing token, from 0. margin: between the target's two likeliest tokens there, as
    probabilities of its own softmax; None when neither run recorded alternatives. near_tie: whether that margin is
    within what rounding can turn; None without one."""

    position: int
    margin: float | None
    near_tie: bool | None


def first_divergence(one: Sequence[Step], other: Sequence[Step], dtype: str) -> Divergence | None:
    """Of two greedy runs that should agree; None when one is the other's beginning or they are equal.

    dtype: the target's, as `Pair.dtype`. Only a near tie excuses a difference; "bit-identical" is never claimed.
    """
    a, b = ([t for step in run for t in step.emitted] for run in (one, other))
    at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), None)
    if at is None:
        return None
    margin = next((m for run in (one, other) if (m := _margin(run, at)) is not None), None)
    allowed = NEAR_TIE if dtype == "float32" else HALF_NEAR_TIE
    return Divergence(at, margin, None if margin is None else margin <= allowed)


def _margin(steps: Sequence[Step], position: int) -> float | None:
    """Between the two likeliest tokens where `position` was decided, from the recorded alternatives."""
    for step in steps:
        if position < len(step.emitted):
            if position < step.num_accepted:
                top = step.proposals[position].target_top
            else:
                top = step.replacement.target_top if step.replacement else ()
            return top[0].probability - top[1].probability if len(top) > 1 else None
        position -= len(step.emitted)
    return None
