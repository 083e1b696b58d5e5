"""The sheets of one claim: of a published one, and of what somebody entered at "check my claim"."""

from typing import Any

from app.catalogue import Words
from app.claims_model import assessed
from app.claims_tab import parts
from app.claims_tab.form import Entered
from app.claims_tab.listing import ORIGINS, claimed
from app.claims_tab.phrases import formula, tell
from app.components.finance_views import blocks
from pricing.claims import EVIDENCE, Assessment, Checked, ClaimError, Limit

Block = dict[str, Any]
# In the order of the form.
_GIVEN = (
    "usd_per_hour", "tokens_per_second", "plain_tokens_per_second", "speedup", "usd_per_million",
    "plain_usd_per_million", "mean_acceptance_length", "draft_acceptance_rate", "cost_ratio", "busy_share", "gpus",
    "batch", "k",
)  # fmt: skip
_OF = {"speed-up": "x", "tokens/s": "tokens/s", "plain tokens/s": "tokens/s"}


def published(claim_id: object, words: Words) -> dict[str, Any] | None:
    """One claim's whole derivation; None for what is no claim's id."""
    try:
        (one,) = assessed([claim_id]) if isinstance(claim_id, str) else ()
    except (ClaimError, ValueError):
        return None
    given = [number for series in one.claim.inputs.values() for number in series.values()]
    return blocks(
        parts.title(f"{one.claim.id} · {one.claim.row.claim}", "en"),
        parts.verdict(one.verdict, words),
        parts.reason(one.why, one.decided_by, words),
        {"type": "figures", "items": _facts(one, words)},
        *parts.inputs(given, words),
        *parts.steps(one.implies, words),
        *parts.findings(one.findings, words),
        *parts.roofline(one.bounds, words),
        *_evidence(one, words),
    )


def _facts(one: Assessment, words: Words) -> list[list[Any]]:
    row = one.claim.row
    facts: list[list[Any]] = [
        [words("claim_claimed"), {"t": claimed(one), "lang": "en"}],
        [words("claim_by"), {"t": ", ".join(filter(None, (row.source, row.date))), "lang": "en"}],
        [words("claim_origin"), words(ORIGINS[row.origin])],
    ]
    if row.conditions:
        facts.append([words("claim_on"), {"t": row.conditions, "lang": "en"}])
    if row.machine is not None:
        count = f"{row.gpus} x " if row.gpus and row.gpus > 1 else ""
        held = formula(f"{row.model} in {row.precision} on {count}{row.gpu}", words)
        facts.append([words("claim_assumed_machine" if row.machine == "assumed" else "claim_stated_machine"), held])
    return facts


def _evidence(one: Assessment, words: Words) -> list[Block]:
    row = one.claim.row
    if not row.evidence_url:
        return [parts.heading(words("claim_evidence")), parts.text(words("claim_no_evidence"), "small")]
    grade = f"{row.evidence}: {tell(EVIDENCE[row.evidence], words)}" if row.evidence else ""
    link = {"t": grade, "links": [row.evidence_url]}
    told = parts.text(words("claim_evidence_told"), "small")
    return [parts.heading(words("claim_evidence")), {"type": "list", "items": [link]}, told]


def own(checked: Checked, entered: Entered, words: Words) -> dict[str, Any]:
    """What is made of a person's claim, in the order of a published one."""
    claim = checked.claim
    given = [one for name in _GIVEN if (one := claim.given(name)) is not None and _is_said(name, one.value)]
    price = {"USD per hour": entered.price_cell(words)} if entered.price is not None else None
    return blocks(
        parts.title(_machine(checked, words)),
        parts.verdict(checked.verdict, words),
        parts.reason(checked.why, checked.decision.decided_by, words),
        parts.text(entered.price_told(words), "small") if entered.price is not None else None,
        *parts.inputs(given, words, price),
        *parts.steps(checked.implies, words),
        *_limits(checked, words),
        *parts.findings(checked.findings, words),
        *_missing(checked, words),
        *parts.roofline([checked.bound] if checked.bound else [], words),
        *_projection(checked, words),
    )


def _is_said(name: str, value: float) -> bool:
    """One GPU and a machine that is never idle are what nobody has to say."""
    return not (name in ("gpus", "busy_share") and value == 1)


def _machine(checked: Checked, words: Words) -> str:
    claim = checked.claim
    if not claim.model or not claim.gpu:
        return claim.model or claim.gpu or words("claim_yours")
    return words("claim_machine", model=claim.model, gpu=f"{claim.gpus} × {claim.gpu}" if claim.gpus > 1 else claim.gpu)


def _limits(checked: Checked, words: Words) -> list[Block]:
    if not checked.limits:
        return []
    columns = [{"text": words("claim_limit"), "text_left": True}, {"text": words("claim_claimed")},
               {"text": words("claim_most")}, {"text": "", "text_left": True}]  # fmt: skip
    rows = [{"cells": _limit(limit, words)} for limit in checked.limits]
    name = words("claim_limits")
    return [
        parts.heading(name),
        {"type": "table", "name": name, "columns": columns, "rows": rows, "dense": True, "limits": True},
        parts.text(words("claim_soft_told"), "small"),
    ]


def _limit(limit: Limit, words: Words) -> list[Any]:
    told = formula(limit.step.formula, words)
    if not limit.hard:
        # What a projection assumes stands with it, and of what is published the formula names the claim.
        assumed = tell(limit.assumes, words) if limit.voice == "roofline" else ""
        told += "\n" + (words("claim_soft_why", why=assumed) if assumed else words("claim_soft"))
    unit = _OF[limit.of]
    number = None if limit.claimed is None else limit.claimed.value
    top = {"t": parts.value(limit.value, unit, words), "badge": parts.badge(limit.step.label, words)}
    mark: Any = None
    if limit.passed is not None:
        mark = {"t": words("claim_above" if limit.passed else "claim_within"),
                "tone": "loss" if limit.passed else "gain"}  # fmt: skip
    return [
        {"t": tell(limit.step.name, words), "sub": told},
        {"t": parts.value(number, unit, words), "sub": words("arm_plain") if limit.of == "plain tokens/s" else ""},
        top,
        mark,
    ]


def _missing(checked: Checked, words: Words) -> list[Block]:
    if not checked.missing:
        return []
    items = [{"t": parts.sentence(told, words)} for told in checked.missing]
    return [parts.heading(words("claim_say_more")), {"type": "list", "items": items}]


def _projection(checked: Checked, words: Words) -> list[Block]:
    """The engine's lines are its own English."""
    made = checked.projected
    if made is None:
        return []
    lines = [{"t": line, "lang": "en"} for line in made.how]
    band = {"t": words("claim_band", band=tell(made.band, words))}
    inside = [{"type": "list", "items": [band, *lines]}]
    return [{"type": "fold", "name": "projection", "title": words("claim_projection"), "blocks": inside}]
