"""A claim of the table, put to arithmetic, roofline and sources: what it implies, what each says, the verdict."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pricing.claims.bounds import Bound
from pricing.claims.derivation import Given, Step, rounded, shown
from pricing.claims.rules import RULES
from pricing.claims.table import Claim, ClaimTable, shipped_claims
from pricing.claims.verdicts import Decision, Finding, Says, Verdict, Voice, decide
from pricing.claims.worked import Speed, Worked


@dataclass(frozen=True)
class Assessment:
    """implies: everything computed from the claim's inputs, a step each. findings: arithmetic, roofline, sources, in
    that order. bounds: the numbers that the roofline's finding rests on."""

    claim: Claim
    implies: tuple[Step, ...]
    findings: tuple[Finding, ...]
    decision: Decision
    bounds: tuple[Bound, ...] = ()

    @property
    def verdict(self) -> Verdict:
        return self.decision.verdict

    @property
    def decided_by(self) -> Voice | None:
        return self.decision.decided_by

    @property
    def why(self) -> str:
        return self.decision.why

    def finding(self, voice: Voice) -> Finding:
        return next(finding for finding in self.findings if finding.voice == voice)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: None for what is absent."""
        row = self.claim.row
        given = [number.as_dict() for series in self.claim.inputs.values() for number in series.values()]
        return {
            "id": row.id, "origin": row.origin, "claim": row.claim, "value": row.value, "unit": row.unit,
            "source": row.source, "date": row.date or None, "conditions": row.conditions or None,
            "verdict": self.verdict, "decided_by": self.decided_by, "why": self.why,
            "evidence": row.evidence, "evidence_url": row.evidence_url or None,
            "inputs": given, "implies": [step.as_dict() for step in self.implies],
            "findings": [finding.as_dict() for finding in self.findings],
            "bounds": [bound.as_dict() for bound in self.bounds],
        }  # fmt: skip


def assess(claim: Claim, table: ClaimTable | None = None, bounds: Collection[Bound] = ()) -> Assessment:
    """bounds: of the claim's machine, one for each batch of `speeds`; without them the roofline is silent."""
    worked = _worked(claim, table)
    steps, roofline = _roofline(claim, worked.speeds, bounds)
    findings = (
        Finding("arithmetic", worked.says, worked.why),
        roofline,
        Finding("sources", _SOURCES.get(claim.row.sources_say, "silent"), claim.row.sources),
    )
    return Assessment(claim, (*worked.steps, *steps), findings, decide(claim.row.origin, findings), tuple(bounds))


def assess_all(
    table: ClaimTable | None = None, bounds: Mapping[str, Collection[Bound]] | None = None
) -> list[Assessment]:
    """All claims in the table's order. bounds: by claim id."""
    held = table or shipped_claims()
    return [assess(claim, held, (bounds or {}).get(claim.id, ())) for claim in held]


def speeds(claim: Claim, table: ClaimTable | None = None) -> tuple[Speed, ...]:
    """The tokens/s that a claim states or implies: what a roofline may be held against, and at which batches."""
    return _worked(claim, table).speeds


# A source that prints its own figure, or none at all, says nothing for or against it.
_SOURCES: dict[str, Says] = {"against": "against", "superseded": "superseded", "supports": "supports"}


def _worked(claim: Claim, table: ClaimTable | None) -> Worked:
    return RULES[claim.row.rule](claim, table or shipped_claims())


def _roofline(claim: Claim, speeds: Iterable[Speed], bounds: Collection[Bound]) -> tuple[list[Step], Finding]:
    by_batch = {bound.batch: bound for bound in bounds}
    found = [(speed, by_batch[speed.batch]) for speed in speeds if speed.batch in by_batch]
    if not found:
        why = "no speed on a machine that is known" if not bounds else "no bound for its batches"
        return [], Finding("roofline", "silent", why)
    if claim.row.gpus is None:
        return _gpus_needed(claim, found)
    steps: list[Step] = []
    beyond: list[str] = []
    for speed, bound in found:
        limit, name = _limit(speed, bound)
        steps += _share(speed, bound, limit, name)
        if speed.tokens_per_second > limit:
            told = rounded(speed.tokens_per_second)
            beyond.append(f"{told} tokens/s ({speed.name}) against {rounded(limit)} ({name})")
    machine = found[0][1].machine
    if not beyond:
        return steps, Finding("roofline", "agrees", f"within what {machine} could do")
    if claim.row.machine == "assumed":
        why = f"more than {machine} could do, taken as an example: {'; '.join(beyond)}"
        return steps, Finding("roofline", "strains", why)
    return steps, Finding("roofline", "against", f"more than {machine} can do: {'; '.join(beyond)}")


def _share(speed: Speed, bound: Bound, limit: float, name: str) -> list[Step]:
    """How much of the limit the claim takes; of a draft whose acceptance is not known, how many tokens a pass, where
    that is more than one."""
    unknown = speed.speculative and speed.per_pass is None and speed.batch is not None
    top = bound.plain_tokens_per_second if unknown else limit
    given = Given(name, top, "tokens/s", bound.label, "; ".join(bound.sources))
    words = "tokens a pass that it takes at least" if unknown else f"share of the {name}"
    formula = f"{rounded(speed.tokens_per_second)} / {given.digits}"
    unit = "tokens" if unknown else ""
    step = Step(f"{words}: {speed.name}", formula, speed.tokens_per_second / top, unit, (given,))
    return [] if unknown and speed.tokens_per_second <= top else [step]


def _limit(speed: Speed, bound: Bound) -> tuple[float, str]:
    if speed.batch is None:
        return bound.compute_tokens_per_second, "arithmetic limit at any batch"
    if not speed.speculative:
        return bound.plain_tokens_per_second, f"{bound.bound_by} limit of plain decoding"
    if speed.per_pass is None:
        return bound.compute_tokens_per_second, "arithmetic limit at any batch"
    return bound.speculative_tokens_per_second(speed.per_pass), f"limit at {shown(speed.per_pass)} tokens a pass"


def _gpus_needed(claim: Claim, found: list[tuple[Speed, Bound]]) -> tuple[list[Step], Finding]:
    """The claim does not say how many GPUs: how many it takes at least. The bound is one GPU's."""
    steps = []
    most = 1
    for speed, bound in found:
        if speed.speculative:
            continue
        given = Given(
            f"limit of plain decoding on one {claim.row.gpu}", bound.plain_tokens_per_second, "tokens/s", bound.label,
            "; ".join(bound.sources),
        )  # fmt: skip
        by_speed = speed.tokens_per_second / bound.plain_tokens_per_second
        by_memory = bound.weights_gb / bound.memory_gb
        needed = math.ceil(max(by_speed, by_memory) - 1e-9)
        formula = (
            f"the larger of {rounded(speed.tokens_per_second)} / {rounded(bound.plain_tokens_per_second)} and "
            f"{bound.weights_gb:.0f} / {bound.memory_gb:.0f} GB, rounded up"
        )
        steps.append(Step(f"GPUs that it takes at least: {speed.name}", formula, float(needed), "GPUs", (given,)))
        most = max(most, needed)
    row = claim.row
    why = f"how many GPUs is not said; {row.model} in {row.precision} at that speed takes {most} x {row.gpu} at least"
    return steps, Finding("roofline", "silent", why)
