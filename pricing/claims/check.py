"""Check my claim: what a person entered, put to the same questions as a published claim."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pricing.claims.bounds import Bound, Projected
from pricing.claims.check_input import ROUNDED_TO, SOURCE, ClaimInput
from pricing.claims.derivation import Given, Step, rounded, shown
from pricing.claims.formulas import alpha_from_rate, saving
from pricing.claims.limits import NO_MARGIN, Limit, projection_limits, roofline_limits, speedup_limits
from pricing.claims.relations import Implied, implied
from pricing.claims.table import ClaimTable, shipped_claims
from pricing.claims.verdicts import Decision, Finding, Verdict, Voice, decide
from pricing.claims.worked import best_published, quotient


@dataclass(frozen=True)
class Checked:
    """figures: everything known of the claim, given or worked out, by the names of ClaimInput. implies: how. limits:
    the ladder, each rung with whether the claim is above it. findings, decision: as for any claim. missing: a sentence
    for what would have to be known to say more. bound, projected: what was handed in; None where nothing was."""

    claim: ClaimInput
    figures: dict[str, float]
    implies: tuple[Step, ...]
    limits: tuple[Limit, ...]
    findings: tuple[Finding, ...]
    decision: Decision
    missing: tuple[str, ...]
    bound: Bound | None = None
    projected: Projected | None = None

    @property
    def verdict(self) -> Verdict:
        return self.decision.verdict

    @property
    def why(self) -> str:
        return self.decision.why

    def as_dict(self) -> dict[str, Any]:
        """For JSON: None for what is absent."""
        return {
            "claim": self.claim.as_dict(), "verdict": self.verdict, "decided_by": self.decision.decided_by,
            "why": self.why, "figures": self.figures, "implies": [step.as_dict() for step in self.implies],
            "limits": [limit.as_dict() for limit in self.limits],
            "findings": [finding.as_dict() for finding in self.findings], "missing": list(self.missing),
            "bound": None if self.bound is None else self.bound.as_dict(),
            "projection": None if self.projected is None else self.projected.as_dict(),
        }  # fmt: skip


def check_claim(
    claim: ClaimInput,
    bound: Bound | None = None,
    projected: Projected | None = None,
    table: ClaimTable | None = None,
) -> Checked:
    """bound, projected: of the claim's machine at its batch, from who knows GPUs. table: published results to compare
    with, the shipped ones unless given. The verdict follows from the numbers: a hard limit passed, or figures that do
    not belong together -> contradicted; a soft one passed -> implausible; within all -> plausible; nothing to compare
    with -> unverifiable."""
    known = implied(claim)
    speed, plain, speedup = (
        _for_limits(known.figures.get(name)) for name in ("tokens_per_second", "plain_tokens_per_second", "speedup")
    )
    best = best_published(table or shipped_claims(), claim.batch)
    limits = list(speedup_limits(claim, speedup, bound, best if claim.says_speculative else None))
    if bound is not None:
        limits += roofline_limits(claim, speed, plain, bound)
    if projected is not None and projected.fits:
        limits += projection_limits(claim, speed, plain, speedup, projected)
    findings = (
        _arithmetic(known, limits),
        _roofline(claim, limits, bound, speed),
        _projection(limits, projected),
        _finding("published", limits, "no speed-up to compare with published ones"),
    )
    decision = decide("own", findings, left_open=_left_open(claim, known, limits, bound))
    if decision.verdict == "plausible":
        closest = _tightest([limit for limit in limits if limit.passed is not None])
        held = f", with weights in {projected.chosen}" if projected is not None and projected.chosen else ""
        why = f"within every limit{held}; the closest: {closest.told}"
        decision = decision._replace(decided_by=closest.voice, why=why)
    figures = {name: given.value for name, given in known.figures.items()}
    implies = (*known.steps, *_also(claim, known, bound))
    missing = tuple(_missing(claim, known, bound, projected))
    return Checked(claim, figures, implies, tuple(limits), findings, decision, missing, bound, projected)


def _for_limits(figure: Given | None) -> Given | None:
    """What was entered is held to 1 %, however few digits it has; what was worked out carries the rounding of its
    inputs."""
    entered = figure is not None and figure.source == SOURCE
    return replace(figure, half=ROUNDED_TO * figure.value) if figure is not None and entered else figure


def _left_open(claim: ClaimInput, known: Implied, limits: Sequence[Limit], bound: Bound | None) -> str:
    """What was claimed and met no limit, in words; "" where all did. What arithmetic allows as many requests at once as
    it takes is no limit for a speed that does not say of how many it is: most of it fits no memory."""
    held = {limit.of for limit in limits if limit.passed is not None}
    speed = known.figures.get("tokens_per_second")
    left = []
    if speed is not None and "tokens/s" not in held:
        left.append(f"{speed.digits} tokens/s")
    elif speed is not None and claim.batch is None and bound is not None:
        left.append(f"{rounded(speed.value)} tokens/s at an unsaid number of requests at once")
    elif speed is None and (cost := claim.given("usd_per_million")) is not None:
        left.append(str(cost))
    if "speedup" in known.figures and "speed-up" not in held:
        left.append(f"a speed-up of {known.figures['speedup'].digits}")
    return " and ".join(left)


def _arithmetic(known: Implied, limits: Sequence[Limit]) -> Finding:
    if known.odds:
        return Finding("arithmetic", "against", known.odds[0])
    return _finding("arithmetic", limits, "the figures leave nothing to hold against each other")


def _roofline(claim: ClaimInput, limits: Sequence[Limit], bound: Bound | None, speed: Given | None) -> Finding:
    if bound is not None and not bound.fits:
        why = f"the weights take {bound.weights_gb:.0f} GB and the memory is {bound.memory_gb:.0f} GB: {bound.machine}"
        return Finding("roofline", "against", why)
    if bound is not None and bound.largest_batch is not None and (claim.batch or 1) > bound.largest_batch:
        why = f"{bound.machine} holds the keys of {bound.largest_batch} requests beside the weights, not {claim.batch}"
        return Finding("roofline", "against", why)
    found = _finding("roofline", limits, "no model and GPU to hold a roofline against")
    if found.says == "strains" and not claim.says_speculative and bound is not None and speed is not None:
        needed = speed.value / bound.plain_tokens_per_second
        why = f"{found.why}; only a draft that yields {needed:.2g} tokens a pass could, and none is said"
        return found._replace(why=why)
    return found


def _finding(voice: Voice, limits: Sequence[Limit], silent: str) -> Finding:
    """The hardest limit of this voice that the claim passes, else the tightest that it stays below."""
    of_voice = [limit for limit in limits if limit.voice == voice and limit.passed is not None]
    if not of_voice:
        return Finding(voice, "silent", silent)
    passed = [limit for limit in of_voice if limit.passed]
    if passed:
        worst = min(passed, key=lambda limit: (not limit.hard, limit.value))
        return Finding(voice, "against" if worst.hard else "strains", worst.told)
    return Finding(voice, "agrees", _tightest(of_voice).told)


def _projection(limits: Sequence[Limit], projected: Projected | None) -> Finding:
    if projected is not None and not projected.fits:
        why = f"weights, keys and what else is held are projected not to fit: {projected.machine or 'this machine'}"
        return Finding("projection", "strains", why)
    return _finding("projection", limits, _why_no_projection(limits))


def _why_no_projection(limits: Sequence[Limit]) -> str:
    made = [limit for limit in limits if limit.voice == "projection"]
    if not made:
        return "no projection was made"
    return next((limit.assumes for limit in made if limit.assumes == NO_MARGIN), "nothing claimed that is projected")


def _tightest(limits: Sequence[Limit]) -> Limit:
    return max(limits, key=lambda limit: (limit.claimed.value if limit.claimed else 0.0) / limit.value)


def _also(claim: ClaimInput, known: Implied, bound: Bound | None) -> Iterator[Step]:
    """What else the figures mean: for a request, a GPU, a pass of the target, and in the words of acceptance."""
    speed, speedup, price = (known.figures.get(name) for name in ("tokens_per_second", "speedup", "usd_per_hour"))
    batch, k, gpus = claim.given("batch"), claim.given("k"), claim.given("gpus")
    if speedup is not None:
        value = 100 * saving(speedup.value)
        yield Step("cheaper at equal hardware and load", f"1 - 1 / {rounded(speedup.value)}", value, "%", (speedup,))
    if speed is not None and batch is not None and batch.value > 1:
        yield quotient("of one request", speed, batch, "tokens/s")
    if speed is not None and gpus is not None and gpus.value > 1:
        yield Step(
            "of one GPU", f"{rounded(speed.value)} / {gpus}", speed.value / gpus.value, "tokens/s", (speed, gpus)
        )
    if price is not None and gpus is not None and gpus.value > 1:
        yield Step(
            "price of one GPU", f"{rounded(price.value)} / {gpus}", price.value / gpus.value, "USD/h", (price, gpus)
        )
    if speed is not None and bound is not None:
        top = Given("limit of plain decoding", bound.plain_tokens_per_second, "tokens/s", bound.label, bound.machine)
        yield quotient("tokens a pass that it takes at least", speed, top, "tokens")
    yield from _acceptance(claim, k, speedup)


def _acceptance(claim: ClaimInput, k: Given | None, speedup: Given | None) -> Iterator[Step]:
    length = claim.tokens_per_pass
    if length is None:
        return
    entered = claim.given("mean_acceptance_length") or claim.given("draft_acceptance_rate")
    inputs = tuple(given for given in (entered, k) if given is not None)
    if claim.draft_acceptance_rate is not None and k is not None:
        formula = f"1 + {k.value:g} x {shown(claim.draft_acceptance_rate)}"
        yield Step("mean acceptance length", formula, length, "tokens", inputs)
    if k is not None:
        rate = (length - 1) / k.value
        yield Step("accepted / proposed", f"({shown(length)} - 1) / {k.value:g}", rate, "", inputs)
        formula = f"alpha where (alpha + ... + alpha^{k.value:g}) / {k.value:g} = {rate:.4g}"
        alpha = alpha_from_rate(rate, int(k.value))
        yield Step("chance of one token (alpha), were it the same at each", formula, alpha, "", inputs)
    if speedup is not None:
        formula = f"{shown(length)} / {rounded(speedup.value)}"
        yield Step("plain passes that a round costs", formula, length / speedup.value, "x", (*inputs, speedup))


def _missing(claim: ClaimInput, known: Implied, bound: Bound | None, projected: Projected | None) -> Iterator[str]:
    if (claim.usd_per_million or claim.plain_usd_per_million) and "usd_per_hour" not in known.figures:
        yield "a cost per million tokens says nothing of speed without a price: give the price per hour"
    if not claim.model or not claim.gpu:
        lacks = " and ".join(word for word, there in (("model", claim.model), ("GPU", claim.gpu)) if not there)
        yield f"no roofline can be held against it: name the {lacks}"
    elif bound is None:
        yield "no roofline was handed in for this model and GPU"
    elif "tokens_per_second" not in known.figures:
        yield "a roofline speaks of tokens/s: give them, or a cost per million tokens and a price per hour"
    if claim.says_speculative and claim.tokens_per_pass is None:
        yield "the limit of a speed-up is its acceptance length: give it, or accepted / proposed and K"
    if claim.batch is None and "tokens_per_second" in known.figures:
        yield "the limits of tokens/s grow with the requests at once: give the batch to hold it against the right ones"
    if projected is not None and claim.says_speculative and projected.speculative_tokens_per_second is None:
        yield "a speculative speed is projected from K and the acceptance length: give both"
