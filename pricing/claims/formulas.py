"""The formulas that claims are recomputed with. `engine.theory` has them too, checked against the papers; rooms that
never meet each hold what they need, and a test keeps the two the same.

Source: Leviathan, Kalman, Matias, "Fast Inference from Transformers via Speculative Decoding" (ICML 2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import prod

MAX_K = 64


def expected_tokens(alpha: float, k: int) -> float:
    """Tokens of one pass of the target, its own included: 1 + alpha + ... + alpha^k. alpha: accepted / tested."""
    return sum(alpha**i for i in range(k + 1))


def formula_speedup(alpha: float, k: int, cost_ratio: float) -> float:
    """Plain over speculative seconds where verifying costs as much as one plain pass: E / (k c + 1). cost_ratio:
    seconds of one draft pass over those of one target pass."""
    return expected_tokens(alpha, k) / (k * cost_ratio + 1)


def best_k(alpha: float, cost_ratio: float) -> int:
    """The k of 0..64 with the highest `formula_speedup`, the shortest of equals; 0 says not to speculate."""
    best, best_speedup = 0, 1.0
    for k in range(1, MAX_K + 1):
        speedup = formula_speedup(alpha, k, cost_ratio)
        if speedup > best_speedup * (1 + 1e-12):
            best, best_speedup = k, speedup
    return best


def alpha_from_rate(rate: float, k: int) -> float:
    """The alpha at which accepted / proposed is `rate`: the two are different numbers. Within 1e-12."""
    low, high = 0.0, 1.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        below = (expected_tokens(middle, k) - 1) / k < rate
        low, high = (middle, high) if below else (low, middle)
    return (low + high) / 2


def largest_cost_ratio(tokens_per_pass: float, speedup: float, k: int) -> float:
    """The draft's cost ratio at which so many tokens a pass give just this speed-up; below 0 none does."""
    return (tokens_per_pass / speedup - 1) / k


def saving(speedup: float) -> float:
    """Share of the cost that goes at equal hardware and load: 1 - 1 / S. Negative for a slowdown."""
    return 1 - 1 / speedup


def needed_speedup(share: float) -> float:
    """The speed-up at which `saving` is this share, below 1: 1 / (1 - share)."""
    return 1 / (1 - share)


Law = Sequence[Fraction]


def accepted_token_by_token(p: Law, q: Law, k: int) -> Fraction:
    """Drafted tokens that stand, expected, when each is tested alone: alpha + ... + alpha^k. p: target, q: draft, the
    same law at every position."""
    alpha = sum((min(a, b) for a, b in zip(p, q, strict=True)), Fraction(0))
    return sum((alpha**i for i in range(1, k + 1)), Fraction(0))


def accepted_by_block(p: Law, q: Law, k: int) -> Fraction:
    """The same when a block is tested as a whole, by enumerating every draft (Sun et al., "Block Verification
    Accelerates Speculative Decoding", arXiv 2403.10444, algorithm 2)."""
    total = Fraction(0)
    for draft in product(range(len(q)), repeat=k):
        stands: list[Fraction] = []
        weight = Fraction(1)
        for i, token in enumerate(draft, 1):
            weight = min(weight * p[token] / q[token], Fraction(1))
            left = sum((max(weight * a - b, Fraction(0)) for a, b in zip(p, q, strict=True)), Fraction(0))
            rest = left + 1 - weight
            # Nothing left over and nothing to correct: the prefix follows the target as it is.
            stands.append(weight if i == k else left / rest if rest else Fraction(1))
        chance = prod((q[token] for token in draft), start=Fraction(1))
        none_longer = Fraction(1)
        for length in range(k, 0, -1):
            total += chance * length * stands[length - 1] * none_longer
            none_longer *= 1 - stands[length - 1]
    return total


def accepted_at_most(p: Law, q: Law, k: int) -> Fraction:
    """What no lossless test of the draft can pass: the overlap of both laws over whole prefixes, over all lengths."""
    return sum(
        (
            sum(
                (
                    min(
                        prod((p[t] for t in prefix), start=Fraction(1)), prod((q[t] for t in prefix), start=Fraction(1))
                    )
                    for prefix in product(range(len(q)), repeat=length)
                ),
                Fraction(0),
            )
            for length in range(1, k + 1)
        ),
        Fraction(0),
    )
