"""What speculation can give, from formulas alone. Pure Python.

Two numbers are easily confused and never mixed here:
  alpha           accepted / tested: the chance that a token is accepted, given that those before it were;
  accepted share  accepted / proposed (`draft_acceptance_rate`): smaller, as what follows a rejection is not
  tested.
`alpha_from_accepted_share` goes from one to the other.

Source: Leviathan, Kalman, Matias, "Fast Inference from Transformers via Speculative Decoding" (ICML 2023).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

MAX_K = 64
# A longer draft must gain more than rounding error, so that a tie goes to the shorter one.
_RELATIVE_TIE = 1e-12


class BestK(NamedTuple):
    """The number of drafted tokens with the highest speed-up; k = 0 (speed-up 1) says: do not speculate."""

    k: int
    speedup: float


def expected_tokens_per_step(alpha: float, k: int) -> float:
    """Tokens emitted per step, bonus included: (1 - alpha^(k+1)) / (1 - alpha), and k + 1 at alpha = 1.

    `alpha` in [0, 1], independent for each position; `k` >= 0 drafted tokens. Leviathan 2023, equation 1.
    Raises ValueError outside those ranges.
    """
    _check_share("alpha", alpha)
    _check_k(k)
    if alpha == 1:
        return float(k + 1)
    if alpha == 0:
        return 1.0
    return -math.expm1((k + 1) * math.log(alpha)) / (1 - alpha)  # expm1 keeps the digits when alpha is near 1


def expected_tokens_from_conditional(conditional_acceptance: Sequence[float]) -> float:
    """Tokens emitted per step from measured rates: 1 + a1 + a1*a2 + ... + a1*...*aK.

    `conditional_acceptance[i]` is accepted at i / tested at i (given that 0..i-1 were accepted), each in
    [0, 1].
    """
    expected, all_so_far = 1.0, 1.0
    for position, share in enumerate(conditional_acceptance):
        _check_share(f"conditional_acceptance[{position}]", share)
        all_so_far *= share
        expected += all_so_far
    return expected


def leviathan_speedup(alpha: float, k: int, cost_ratio: float) -> float:
    """Plain seconds / speculative seconds: (1 - alpha^(k+1)) / ((1 - alpha)(k * cost_ratio + 1)).

    `cost_ratio` is the seconds of one draft forward / one target forward (c in the paper), >= 0. Assumes
    that verifying k + 1 tokens costs as much as one; where it does not, use `speedup_from_curves`.
    Leviathan 2023, Theorem 3.8.
    """
    _check_not_negative("cost_ratio", cost_ratio)
    return expected_tokens_per_step(alpha, k) / (k * cost_ratio + 1)


def speedup_from_curves(
    expected_tokens: float, verify_1_s: float, verify_k1_s: float, draft_s: float, overhead_s: float = 0.0
) -> float:
    """Plain / speculative seconds: expected_tokens * verify_1_s / (draft_s + verify_k1_s + overhead_s).

    `expected_tokens` per step (>= 1); `verify_1_s` seconds of a target forward over 1 token; `verify_k1_s`
    over k + 1 tokens; `draft_s` seconds of the whole draft phase of one step (all k tokens); `overhead_s`
    everything else in a step. Below 1 is a legal answer: verification is not assumed to be free.
    `leviathan_speedup` is the case verify_k1_s = verify_1_s.
    """
    if not (math.isfinite(expected_tokens) and expected_tokens >= 1):
        raise ValueError(f"expected_tokens must be at least 1, not {expected_tokens!r}")
    for name, seconds in (("verify_1_s", verify_1_s), ("verify_k1_s", verify_k1_s)):
        if not (math.isfinite(seconds) and seconds > 0):
            raise ValueError(f"{name} must be above 0 seconds, not {seconds!r}")
    _check_not_negative("draft_s", draft_s)
    _check_not_negative("overhead_s", overhead_s)
    return expected_tokens * verify_1_s / (draft_s + verify_k1_s + overhead_s)


def best_k(alpha: float, cost_ratio: float, max_k: int = MAX_K) -> BestK:
    """The k in 0..max_k with the highest `leviathan_speedup`; a tie goes to the shorter draft."""
    return best_k_of(lambda k: leviathan_speedup(alpha, k, cost_ratio), max_k)


def best_k_of(speedup_at: Callable[[int], float], max_k: int = MAX_K) -> BestK:
    """The same search over any curve, such as a measured one; `speedup_at(k)` for k >= 1, and k = 0 is 1.

    Every k is tried: a measured curve can have more than one hill (kernels change at certain widths).
    """
    _check_k(max_k)
    best = BestK(0, 1.0)
    for k in range(1, max_k + 1):
        speedup = speedup_at(k)
        if speedup > best.speedup * (1 + _RELATIVE_TIE):
            best = BestK(k, speedup)
    return best


def break_even_batch(best_speedup_at: Callable[[int], float], batches: Iterable[int]) -> int | None:
    """The smallest of `batches` at which speculation does not pay: `best_speedup_at(batch)`, the best over k, is at
    most 1. None when it pays at all of them."""
    return next((b for b in sorted(batches) if best_speedup_at(b) <= 1), None)


def alpha_from_accepted_share(share: float, k: int) -> float:
    """alpha such that (expected_tokens_per_step(alpha, k) - 1) / k == share, by bisection.

    `share` is accepted / proposed in [0, 1] with `k` >= 1 tokens proposed in every step. At k = 5, 0.538 is
    alpha 0.8.
    """
    _check_share("share", share)
    _check_k(k, at_least=1)
    return _alpha_where(lambda alpha: (expected_tokens_per_step(alpha, k) - 1) / k, share)


def break_even_alpha(cost_ratio: float, k: int) -> float | None:
    """The alpha at which `leviathan_speedup` is 1; None when even alpha = 1 is a loss (cost_ratio > 1)."""
    _check_not_negative("cost_ratio", cost_ratio)
    _check_k(k, at_least=1)
    if cost_ratio > 1:
        return None
    return _alpha_where(lambda alpha: expected_tokens_per_step(alpha, k), k * cost_ratio + 1)


def _alpha_where(rising: Callable[[float], float], wanted: float) -> float:
    low, high = 0.0, 1.0
    if wanted <= rising(low):
        return low
    if wanted >= rising(high):
        return high
    while True:
        middle = (low + high) / 2
        if middle in (low, high):  # neighbours in floating point: nothing lies between
            return middle
        if rising(middle) < wanted:
            low = middle
        else:
            high = middle


def _check_share(name: str, value: float) -> None:
    if not 0 <= value <= 1:  # NaN fails too
        raise ValueError(f"{name} must be between 0 and 1, not {value!r}")


def _check_k(k: int, at_least: int = 0) -> None:
    if isinstance(k, bool) or not isinstance(k, int) or k < at_least:
        raise ValueError(f"k must be a whole number of at least {at_least}, not {k!r}")


def _check_not_negative(name: str, value: float) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{name} must be a finite number of at least 0, not {value!r}")
