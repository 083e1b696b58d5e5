"""What a trace that is read back must hold to: numbers that a run could have written.

Statistics, the page and the stored runs read a trace without asking again, and JSON says 1e999, true and -3 as readily
as a probability, a count and a token.
"""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.trace import Alternative, Proposal, Step, Trace

# Quotients of float64 may come out this much above 1.
ROUNDING = 1e-6


def check_numbers(trace: "Trace") -> None:
    """Raises ValueError with one sentence that names the step and the field."""
    for token in trace.prompt_token_ids:
        _whole("the prompt", "prompt_token_ids", token)
    _number("the run", "queued_ms", trace.queued_ms)
    for i, step in enumerate(trace.steps):
        _step(f"step {i}", step)


def _step(where: str, step: "Step") -> None:
    for name in ("index", "prefill_tokens", "reused_prompt_tokens"):
        _whole(where, name, getattr(step, name))
    _whole(where, "rows", step.rows, least=1)
    for name in ("draft_ms", "verify_ms", "other_ms"):
        _number(where, name, getattr(step, name))
    for token in step.emitted:
        _whole(where, "emitted", token)
    for shown in step.tokens:
        _whole(where, "token_id", shown.token_id)
    for i, proposal in enumerate(step.proposals):
        _proposal(f"{where}, proposal {i}", i, proposal)
    if (end := step.replacement) is not None:
        _whole(f"{where}, replacement", "token_id", end.token.token_id)
        _number(f"{where}, replacement", "p", end.p, most=1)
        _tops(f"{where}, replacement", end.target_top)


def _proposal(where: str, i: int, proposal: "Proposal") -> None:
    _whole(where, "token_id", proposal.token.token_id)
    for name in ("p", "q", "accept_probability"):
        _number(where, name, getattr(proposal, name), most=1)
    if proposal.u is not None:
        _number(where, "u", proposal.u, most=1)
    parent = proposal.parent
    if parent is not None and (type(parent) is not int or not -1 <= parent < i):
        raise _no(where, "parent", "the index of an earlier proposal, or -1", parent)
    _tops(where, proposal.target_top)
    _tops(where, proposal.draft_top)


def _tops(where: str, tops: Sequence["Alternative"]) -> None:
    for top in tops:
        _whole(where, "token_id", top.token.token_id)
        _number(where, "probability", top.probability, most=1)


def _whole(where: str, name: str, value: Any, least: int = 0) -> None:
    if type(value) is not int or value < least:  # True is an int to isinstance
        raise _no(where, name, f"a whole number of at least {least}", value)


def _number(where: str, name: str, value: Any, most: float | None = None) -> None:
    high = sys.float_info.max if most is None else most + ROUNDING
    if type(value) not in (int, float) or not 0 <= value <= high:  # nor NaN, which is below and above nothing
        raise _no(where, name, f"a number {'of at least 0' if most is None else f'from 0 to {most}'}", value)


def _no(where: str, name: str, wanted: str, value: Any) -> ValueError:
    return ValueError(f"this trace is not whole: in {where}, {name} must be {wanted}, not {value!r:.40}")
