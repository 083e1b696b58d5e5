"""The ladder of limits that a claimed speed-up or speed stands on, each with its formula and how hard it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pricing.claims.bounds import Bound, Projected
from pricing.claims.check_input import ClaimInput
from pricing.claims.derivation import WORKED_OUT, Given, Step, rounded
from pricing.claims.verdicts import Voice
from pricing.claims.worked import Published

NO_MARGIN = "too few speed-ups were published of so many requests at once to say how far a projected one may be off"
Of = Literal["speed-up", "tokens/s", "plain tokens/s"]


@dataclass(frozen=True, slots=True)
class Limit:
    """One rung. of: which claimed figure it holds for. hard: nothing can pass it; else passing it takes more than has
    been shown. claimed: that figure, its rounding in `half`; None where it is not known. assumes: what the rung rests
    on."""

    step: Step
    of: Of
    hard: bool
    voice: Voice
    claimed: Given | None
    assumes: str = ""

    @property
    def value(self) -> float:
        return self.step.value or 0.0

    @property
    def passed(self) -> bool | None:
        """Whether the claim is above it, as it may have been rounded; None where there is nothing to compare."""
        return None if self.claimed is None else self.claimed.low > self.value

    @property
    def told(self) -> str:
        """A sentence; only where there is something to compare."""
        claimed = "" if self.claimed is None else rounded(self.claimed.value)
        figure = f"a speed-up of {claimed}x" if self.of == "speed-up" else f"{claimed} {self.of}"
        unit = "x" if self.of == "speed-up" else ""
        return f"{figure} is {'above' if self.passed else 'within'} the {self.step.name} ({rounded(self.value)}{unit})"

    def as_dict(self) -> dict[str, Any]:
        return {
            **self.step.as_dict(), "of": self.of, "hard": self.hard, "by": self.voice, "assumes": self.assumes or None,
            "claimed": None if self.claimed is None else self.claimed.value, "passed": self.passed,
        }  # fmt: skip


def speedup_limits(
    claim: ClaimInput, speedup: Given | None, bound: Bound | None, best: Published | None
) -> list[Limit]:
    """For the speed-up: K + 1, the acceptance length, the draft's cost, passes that verify, what was published."""
    found: list[Limit] = []
    k, length, ratio = claim.given("k"), _length(claim), claim.given("cost_ratio")
    per_pass = length or _most(k)

    def add(name: str, formula: str, value: float, *inputs: Given, by: Voice = "arithmetic", why: str) -> None:
        step = Step(name, formula, value, "x", inputs)
        found.append(Limit(step, "speed-up", by == "arithmetic", by, speedup, why))

    if k is not None:
        why = "a pass yields the drafted tokens and one of the target's at most"
        add("most tokens of a pass", f"{k.digits} + 1", k.value + 1, k, why=why)
    if length is not None:
        why = "verifying K + 1 tokens takes no less than one plain pass"
        add(
            "mean acceptance length",
            f"{length.digits} tokens of a pass / 1 of a plain one",
            length.value,
            length,
            why=why,
        )
    if per_pass is not None and ratio is not None and k is not None:
        formula = f"{per_pass.digits} / (1 + {k.digits} x {ratio.digits})"
        why = "the draft's passes come before every verification"
        value = per_pass.value / (1 + k.value * ratio.value)
        add("acceptance length after the draft's cost", formula, value, per_pass, k, ratio, why=why)
    if per_pass is not None and bound is not None and bound.verify_over_plain is not None:
        slower = _of_bound(bound, "verify pass over plain pass", bound.verify_over_plain, "x")
        formula = f"{per_pass.digits} / {slower.digits}"
        name, why = "acceptance length over the roofline's verify pass", "both passes come as near to the roofline"
        add(name, formula, per_pass.value / slower.value, per_pass, slower, by="roofline", why=why)
    if best is not None:
        at = "" if claim.batch is None or claim.batch == 1 else f" for {claim.batch} requests at once or more"
        why = f"{best.claim.row.claim}; {best.claim.row.conditions}"
        add(f"highest published{at}", str(best), best.given.value, best.given, by="published", why=why)
    return found


def roofline_limits(claim: ClaimInput, speed: Given | None, plain: Given | None, bound: Bound) -> list[Limit]:
    """For tokens/s: what reading and multiplying allow, plain and with the tokens of a pass."""
    found: list[Limit] = []
    top = _of_bound(bound, "limit of plain decoding", bound.plain_tokens_per_second)
    flops = _of_bound(bound, "limit of arithmetic", bound.compute_tokens_per_second)
    length, k = _length(claim), claim.given("k")
    per_pass = length or _most(k)

    def add(name: str, formula: str, value: float, *inputs: Given, why: str) -> None:
        found.append(Limit(Step(name, formula, value, "tokens/s", inputs), "tokens/s", True, "roofline", speed, why))

    name = f"{bound.bound_by} limit of plain decoding"
    step = Step(name, _line(bound, 0), top.value, "tokens/s", (top,))
    if claim.says_speculative:
        found.append(Limit(step, "plain tokens/s", True, "roofline", plain))
    else:  # soft: a draft that nobody mentions may be what passes it
        found.append(Limit(step, "tokens/s", False, "roofline", speed))
    if per_pass is not None:
        value = bound.speculative_tokens_per_second(per_pass.value)
        formula = f"{top.digits} x {per_pass.digits}, {flops.digits} at most"
        why = "a pass that verifies is no shorter than a plain one"
        add("plain limit times the tokens of a pass", formula, value, top, per_pass, flops, why=why)
    why = "every token that comes out is multiplied once"
    add("arithmetic limit at any batch", _line(bound, 1), flops.value, flops, why=why)
    if length is not None and k is not None:
        formula = f"{flops.digits} x {length.digits} / ({k.digits} + 1)"
        value = flops.value * length.value / (k.value + 1)
        why = "rejected tokens are multiplied too"
        add("arithmetic limit with rejected tokens", formula, value, flops, length, k, why=why)
    return found


def projection_limits(
    claim: ClaimInput, speed: Given | None, plain: Given | None, speedup: Given | None, projected: Projected
) -> list[Limit]:
    """What the machine is expected to do, with the margin that projections were found to need: tokens/s by the errors
    of tokens/s, a speed-up by those of speed-ups. Without any of the latter the projected speed-up is shown and held
    against nothing."""
    fast = projected.speculative_tokens_per_second if claim.says_speculative else projected.plain_tokens_per_second
    expected: list[tuple[str, Of, float | None, Given | None]] = [("projection", "tokens/s", fast, speed)]
    if claim.says_speculative:
        expected += [
            ("projection without a draft", "plain tokens/s", projected.plain_tokens_per_second, plain),
            ("projection", "speed-up", projected.speedup, speedup),
        ]
    found = []
    for name, of, value, claimed in expected:
        if value is None:
            continue
        unit = "x" if of == "speed-up" else "tokens/s"
        of_ratios = of == "speed-up"
        most = projected.speedup_times_at_most if of_ratios else projected.times_at_most
        band = projected.speedup_band if of_ratios else projected.band
        given = Given(name, value, unit, projected.label, "the engine's projection")
        if most is None:
            step = Step(f"{name}, its margin not known", given.digits, value, unit, (given,))
            found.append(Limit(step, of, False, "projection", None, NO_MARGIN))
        else:
            step = Step(f"{name} and its margin", f"{given.digits} x {most:.3g}", value * most, unit, (given,))
            found.append(Limit(step, of, False, "projection", claimed, band))
    return found


def _length(claim: ClaimInput) -> Given | None:
    if claim.draft_acceptance_rate is not None:
        return Given("mean acceptance length", claim.tokens_per_pass or 1.0, "tokens", "assumed", WORKED_OUT)
    return claim.given("mean_acceptance_length")


def _most(k: Given | None) -> Given | None:
    return None if k is None else Given("most tokens of a pass", k.value + 1, "tokens", k.label, k.source)


def _of_bound(bound: Bound, name: str, value: float, unit: str = "tokens/s") -> Given:
    return Given(name, value, unit, bound.label, "; ".join(bound.sources))


def _line(bound: Bound, number: int) -> str:
    return bound.how[number] if len(bound.how) > number else ""
