"""Speeds from the Explore tab's run into a scenario: what was measured, and what that means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.catalogue import Words
from app.finance.shown import number

if TYPE_CHECKING:  # the finance tabs run without torch
    from app.session import Run, Session
from pricing.scenario import Scenario


@dataclass(frozen=True)
class Taken:
    """scenario: with the measured speeds. told: what was taken, and what a reader must know of it."""

    scenario: Scenario
    told: str


def take(scenario: Scenario, session: Session, words: Words) -> Taken:
    """Raises ValueError with a sentence where there is nothing to take."""
    run = session.run
    fast, plain = run.compared() if run is not None and run.speculative.steps else (None, None)
    if run is None or plain is None or plain.decode_tokens_per_second is None or not plain.ttft_s:
        raise ValueError(words("take_nothing"))
    arms = {"plain": plain}
    if run.drafts and fast is not None and fast.decode_tokens_per_second is not None and fast.ttft_s:
        arms["speculative"] = fast
    whole = scenario.model_dump()
    for arm, stats in arms.items():
        whole["serving"][arm] = {
            "input_tokens_per_second": _figure(run.prompt_tokens / stats.ttft_s, run, stats, words),
            "output_tokens_per_second": _figure(stats.decode_tokens_per_second, run, stats, words),
        }
    told = [
        words(
            "take_done", plain=number(plain.decode_tokens_per_second, words),
            fast=number(arms["speculative"].decode_tokens_per_second, words) if "speculative" in arms else "–",
        ),
        words("take_means"),
    ]  # fmt: skip
    if "speculative" not in arms:
        told.append(words("take_plain_only"))
    elif not run.speculative.stats() or not fast or not fast.drafted_steps:
        told.append(words("take_no_drafts"))
    if run.lossy:
        told.append(words("take_lossy"))
    return Taken(Scenario.model_validate(whole), " ".join(told))


def rows(session: Session | None) -> list[dict[str, object]]:
    """The session's run as the workbook lists raw runs: a row an arm; nothing where there is no run."""
    run = session.run if session is not None else None
    if run is None or not run.speculative.steps:
        return []
    fast, plain = run.compared()
    head: dict[str, object] = {
        "run": run.id, "where": run.where, "hardware": run.hardware, "precision": run.precision, "day": str(run.day),
        "drafter": run.drafter, "verifier": run.verifier, "k": run.k, "temperature": run.temperature, "seed": run.seed,
        "prompt_tokens": run.prompt_tokens,
    }  # fmt: skip
    arms = {"plain": plain, "speculative": fast if run.drafts else None}
    return [
        {**head, "arm": arm, **{k: v for k, v in stats.as_dict().items() if isinstance(v, int | float | None)}}
        for arm, stats in arms.items()
        if stats is not None
    ]


def _figure(value: float, run: Run, stats: Any, words: Words) -> dict[str, Any]:
    """Six digits: more than a clock can tell."""
    how = words.name("drafter", run.drafter)
    source = words(
        "take_source", where=run.where, how=how, k=run.k, tokens=stats.output_tokens, prompt=run.prompt_tokens
    )
    return {"value": float(f"{value:.6g}"), "label": "measured", "source": source}
