"""What the arithmetic of one claim comes to, and the small calculations that several rules share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from pricing.claims.derivation import Given, Step, named, shown
from pricing.claims.formulas import needed_speedup, saving
from pricing.claims.table import Claim, ClaimTable
from pricing.claims.verdicts import Says

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_BATCH = re.compile(r"\bbatch [0-9]+(?: to ([0-9]+))?")


class Speed(NamedTuple):
    """Output tokens/s that a claim states or implies, all `batch` requests together. batch None: not said, so any.
    per_pass: tokens that a pass of the target can yield at most; None: not known. speculative: whether a draft helps.
    """

    name: str
    tokens_per_second: float
    batch: int | None
    speculative: bool
    per_pass: float | None = None


@dataclass(frozen=True)
class Worked:
    """The steps, what they say of the claim and why, in a sentence, and the speeds that a roofline may be held
    against."""

    steps: tuple[Step, ...]
    says: Says
    why: str
    speeds: tuple[Speed, ...] = ()


Rule = Callable[[Claim, ClaimTable], Worked]


def quotient(name: str, over: Given, under: Given, unit: str = "x") -> Step:
    return Step(name, f"{over} / {under}", over.value / under.value, unit, (over, under))


def span(over: Given, under: Given) -> tuple[float, float]:
    """(lowest, highest) quotient that the rounding of both leaves open."""
    return over.low / under.high, over.high / under.low


def within_rounding(printed: Given, low: float, high: float) -> bool:
    """Whether the printed number, as rounded as it is, and low..high have something in common."""
    return printed.low <= high and low <= printed.high


def number_in(at: str) -> float:
    """The last number of a place: 5 of "K 5", 256 of "batch 32 to 256"."""
    found = _NUMBER.findall(at)
    return float(found[-1]) if found else 0.0


def batch_of(claim: Claim, at: str) -> int | None:
    """The largest batch that a number of the claim is for; None where nothing says."""
    found = _BATCH.search(at)
    return claim.row.batch if found is None else int(number_in(found.group()))


class Published(NamedTuple):
    """A speed-up that somebody printed. batch None: not said."""

    claim: Claim
    given: Given
    batch: int | None

    def __str__(self) -> str:
        return f"{shown(self.given.value)}x ({self.claim.id}{f', {self.given.at}' if self.given.at else ''})"


def published_speedups(claims: Iterable[Claim]) -> Iterator[Published]:
    """Every printed speed-up of the claims that are published, those apart that are marked lossy."""
    for claim in claims:
        if claim.row.origin == "published":
            for at, given in claim.series("speedup").items():
                if "lossy" not in at:
                    yield Published(claim, given, batch_of(claim, at))


def best_published(claims: Iterable[Claim], at_least: int | None = None) -> Published | None:
    """The highest, of those for batches of `at_least` and more; all of them for 1 and None."""
    found = [p for p in published_speedups(claims) if at_least is None or at_least <= 1 or (p.batch or 1) >= at_least]
    return max(found, key=lambda p: p.given.value, default=None)


def needs_step(name: str, share_percent: Given) -> Step:
    """The speed-up that a saving needs: 1 / (1 - share)."""
    share = share_percent.value / 100
    return Step(name, f"1 / (1 - {shown(share)})", needed_speedup(share), "x", (share_percent,))


def saving_step(name: str, speedup: Given) -> Step:
    """The share of the cost that goes at equal hardware and load."""
    return Step(name, f"1 - 1 / {shown(speedup.value)}", 100 * saving(speedup.value), "%", (speedup,))


def speedup_steps(claim: Claim) -> tuple[list[Step], list[tuple[Given, float, float]], list[Speed]]:
    """Plain against speculative at each place, from tokens/s or from milliseconds: the steps, the printed speed-ups
    beside the span that the figures leave open, and the speeds."""
    steps: list[Step] = []
    pairs: list[tuple[Given, float, float]] = []
    speeds: list[Speed] = []
    printed = claim.series("speedup")
    lengths = claim.series("mean_acceptance_length")
    for slow, fast in (("plain_tokens_per_second", "speculative_tokens_per_second"),
                       ("speculative_ms_per_token", "plain_ms_per_token")):  # fmt: skip
        for at, under in claim.series(slow).items():
            over = claim.given(fast, at)
            steps.append(quotient(named("speed-up that the figures give", at), over, under))
            if at in printed:
                pairs.append((printed[at], *span(over, under)))
            if slow.startswith("plain"):
                batch, length = batch_of(claim, at), lengths.get(at)
                speeds.append(Speed(named("plain", at), under.value, batch, False))
                speeds.append(
                    Speed(named("speculative", at), over.value, batch, True, length.value if length else None)
                )
    return steps, pairs, speeds
