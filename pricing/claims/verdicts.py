"""The verdicts, what each means, and the one rule that gives them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

Voice = Literal["arithmetic", "roofline", "projection", "published", "sources"]
# against: it cannot be so. strains: nothing forbids it, and it needs more than anybody has shown. superseded: it was
# so. supports: somebody else says so too. agrees: recomputed, or within a limit. silent: nothing to go by.
Says = Literal["against", "strains", "superseded", "supports", "agrees", "silent"]
Verdict = Literal[
    "contradicted", "implausible", "outdated", "unverifiable", "plausible", "supported",
    "published", "published-consistent", "published-inconsistent",
]  # fmt: skip
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
# Whose claim it is: the article's, of its own publisher, or a person's at "check my claim".
Kind = Literal["article", "published", "own"]

MEANING: dict[Verdict, str] = {
    "contradicted": "a number, a limit or a document says that it is not so",
    "implausible": "nothing forbids it, but it needs more than measured or projected results show",
    "outdated": "it was so and has been replaced",
    "unverifiable": "arithmetic leaves it open and there is nothing to check it against",
    "plausible": "within every limit that could be worked out",
    "supported": "a source other than the claim's own says the same",
    "published": "its source prints it, with nothing to recompute it from",
    "published-consistent": "its source prints it, and the printed numbers give it within their rounding",
    "published-inconsistent": "its source prints it, and the printed numbers do not give it",
}


class Finding(NamedTuple):
    """What one voice has to say, in a sentence."""

    voice: Voice
    says: Says
    why: str

    def as_dict(self) -> dict[str, Any]:
        return {"voice": self.voice, "says": self.says, "why": self.why}


class Decision(NamedTuple):
    """decided_by: the voice whose finding settled it; None where none had anything to say."""

    verdict: Verdict
    decided_by: Voice | None
    why: str


def decide(kind: Kind, findings: Sequence[Finding], left_open: str = "") -> Decision:
    """The first rule that applies, the first finding that meets it:

    published: arithmetic, a limit or a document against it -> published-inconsistent; one of them agrees ->
    published-consistent; else published. article and own: against -> contradicted; strains -> implausible; superseded
    -> outdated; supports -> supported; an own claim with which something agrees and of which nothing is left open
    (left_open names it) -> plausible; else unverifiable. What is published is not implausible for being the first: it
    was measured.
    """

    def first(says: Says) -> Finding | None:
        return next((finding for finding in findings if finding.says == says), None)

    def settled(verdict: Verdict, finding: Finding | None) -> Decision:
        return Decision(verdict, finding.voice if finding else None, finding.why if finding else MEANING[verdict])

    if kind == "published":
        if against := first("against"):
            return settled("published-inconsistent", against)
        if agrees := first("agrees"):
            return settled("published-consistent", agrees)
        return settled("published", next((f for f in findings if f.voice == "sources"), None))
    ladder: tuple[tuple[Says, Verdict], ...] = (
        ("against", "contradicted"), ("strains", "implausible"), ("superseded", "outdated"), ("supports", "supported"),
    )  # fmt: skip
    for says, verdict in ladder:
        if finding := first(says):
            return settled(verdict, finding)
    if kind == "own":
        agrees = first("agrees")
        if agrees is not None and not left_open:
            return settled("plausible", agrees)
        return Decision("unverifiable", None, f"there is nothing to hold {left_open or 'it'} against")
    return settled("unverifiable", next((f for f in findings if f.voice == "sources"), None))
