"""Steps and generations written by hand, for arithmetic on records."""

import engine
from engine.stats import compute_stats
from engine.trace import Proposal, Replacement, Step, TokenText, Trace

A = TokenText(1, "a")


def step(emitted, ms, proposed=0, accepted=0, index=1):
    """A step of `emitted` tokens that took `ms`, with `accepted` of `proposed` standing."""
    proposals = tuple(
        Proposal(A, 1.0, 1.0, None, 1.0, "accepted" if i < accepted else "rejected") for i in range(proposed)
    )
    end = Replacement("bonus" if accepted == proposed else "recovered", A, 1.0)
    return Step(index, (1,) * emitted, ("a",) * emitted, (A,) * emitted, proposals, end, None, 0, 0.0, ms, 0.0)


def generation(*steps):
    trace = Trace(
        tuple(steps), (1,), "", engine.DecodeSettings().as_dict(), "d", "rejection", {}, "length", "2026-01-01"
    )
    return engine.Generation(trace.token_ids, trace.text, "length", trace, compute_stats(steps, 1))
