"""The list of published claims: one short row each, and how many there are of each verdict."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from app.catalogue import Words
from app.claims_model import assessed
from app.claims_tab import parts
from app.claims_tab.phrases import tell
from pricing.claims import VERDICTS, Assessment, Step

# Which step of a rule says the most; the first one of the others.
_HEADLINE = {"speed_for_a_cost": 1}
ORIGINS = {"article": "claim_of_article", "published": "claim_of_published"}


@lru_cache(maxsize=2)
def _drawn(language: str) -> dict[str, Any]:
    words = Words(language)
    found = assessed()
    verdicts = [v for v in VERDICTS if any(one.verdict == v for one in found)]
    return {
        "says": {
            name: words(key)
            for name, key in {
                "search": "claim_search", "count": "claim_count", "none": "claim_none", "number": "claim_number",
                "claim": "claim_claim", "claimed": "claim_claimed_implies", "verdict": "claim_verdict",
                "all": "claim_all", "origin": "claim_origin", "verdicts": "claim_filter", "clear": "claim_clear",
            }.items()
        },
        "verdicts": [
            {"value": v, "text": words(parts.VERDICTS[v]), "n": sum(one.verdict == v for one in found)}
            for v in verdicts
        ],
        "origins": [{"value": origin, "text": words(key)} for origin, key in ORIGINS.items()],
        "rows": [_row(one, words) for one in found],
    }  # fmt: skip


def drawn(words: Words) -> dict[str, Any]:
    """The list's value; the same for everybody who reads the language."""
    return _drawn(words.language)


def _row(one: Assessment, words: Words) -> dict[str, Any]:
    row, step = one.claim.row, headline(one.claim.row.rule, one.implies)
    return {
        "id": row.id,
        "origin": row.origin,
        "claim": row.claim,
        "source": ", ".join(filter(None, (row.source, row.date))),
        "claimed": claimed(one),
        "implies": "" if step is None else parts.value(step.value, step.unit, words),
        "step": "" if step is None else tell(step.name, words),
        "verdict": one.verdict,
        "verdict_text": words(parts.VERDICTS[one.verdict]),
    }


def headline(rule: str, steps: Sequence[Step]) -> Step | None:
    at = _HEADLINE.get(rule, 0)
    return steps[at] if at < len(steps) else None


def claimed(one: Assessment) -> str:
    return f"{one.claim.row.value} {one.claim.row.unit}".removeprefix("n/a ").replace(" -> ", " → ")
