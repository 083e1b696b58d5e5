"""The Explore tab's handlers: plain generators over the engine, testable without a browser.

The engine runs inside the handler's own generator. When Gradio closes it (Stop, a closed tab, a dropped
connection) its `finally` sets the cancel flag, so the model is free within one step and nothing outlives the request.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from datetime import date
from typing import Any

from app.catalogue import Words
from app.components.figures import encode_figures
from app.form import Form
from app.session import Run, Session
from engine.environment import environment
from engine.errors import EngineError

log = logging.getLogger("specscope.app")

UPDATES_PER_SECOND = 15
# Held for each step: a stopped run's last forward may still be under way when the next run starts, and two at once
# would slow each other and spoil both measurements.
ENGINE = threading.Lock()
View = tuple[dict[str, Any], dict[str, Any], dict[str, Any] | None, dict[str, Any] | None]
"""Values for the status line, the token view, the figures and the prompt as sent."""
Race = Callable[..., Any]


def run(
    pair: Any,
    session: Session,
    form: Form,
    race: Race,
    *,
    clock: Callable[[], float] = time.monotonic,
    words: Words | None = None,
    load: Callable[[str], Any] | None = None,
) -> Iterator[View]:
    """Run both arms in turns and yield what the page shows, at most `UPDATES_PER_SECOND` times a second.

    load: gives the pair for the form's choice of weights; `pair` runs without it.
    Never raises for a failed run: the failure is the last thing yielded, as one sentence. Yields nothing more once
    the session has moved on to another run.
    """
    words = words or Words("en")
    unloadable: EngineError | None = None
    try:
        pair = load(form.weights) if load else pair
    except (EngineError, OSError) as error:
        unloadable = EngineError(str(error))
    mine = session.run = _new_run(pair, form, words)
    steps: Any = None
    try:
        yield snapshot(mine)
        if unloadable:
            raise unloadable
        settings = form.settings(words)
        mine.k, mine.greedy, mine.controlled = settings.k, settings.greedy, settings.k_control != "fixed"
        steps = race(
            pair,
            form.prompt,
            settings,
            drafter=form.drafter,
            verifier=form.verifier,
            cancel=mine.cancel,
            alternatives=5,
        )
        mine.begin(steps.speculative.generation.trace, tuple(pair.notices))
        mine.state = "running"
        last, turns = float("-inf"), iter(steps)
        while True:
            with ENGINE:
                turn = next(turns, None)
            if turn is None or session.run is not mine:
                break
            mine.add(*turn)
            now = clock()
            if now - last >= 1 / UPDATES_PER_SECOND:
                last = now
                yield snapshot(mine)
    except EngineError as error:
        mine.state, mine.message = "failed", str(error)
    except Exception:
        log.exception("a run failed")
        mine.state, mine.message = "failed", words("failed_unexpected")
    finally:
        # Also reached by GeneratorExit: whatever closed this generator, the engine stops at its next check.
        mine.cancel.set()
        try:
            _settle(mine, steps)
        finally:
            mine.ended.set()
    if session.run is mine:
        yield snapshot(mine)


def stop(session: Session, patience_s: float = 0.0) -> View:
    """Flag the run to end at its next check and show what there is. Works for a run that has ended, too.

    patience_s: how long to wait for that check, so that what is shown is final; it is one step away.
    """
    mine = session.run
    if mine is not None:
        mine.cancel.set()
        if not mine.ended.wait(patience_s):
            mine.state = "stopped"
    return snapshot(mine)


def _settle(mine: Run, steps: Any) -> None:
    """The engine lets go of its caches; what it did is read once more, for closing it may have released text."""
    if steps is not None:
        steps.close()
        generation = steps.speculative.generation
        mine.reason = generation.finish_reason
        mine.rewrite_last(generation.trace.steps)
        mine.tell(generation.trace)
    if mine.state != "failed":
        mine.state = "stopped" if mine.reason in (None, "cancelled") else "done"


def _new_run(pair: Any, form: Form, words: Words) -> Run:
    made_on = environment(str(pair.device))
    hardware = str(made_on["gpu"] or made_on["cpu"])
    if not made_on["gpu"]:
        hardware += " · " + words("thread" if made_on["threads"] == 1 else "threads", n=made_on["threads"])
    day = date.today()
    return Run(
        drafter=form.drafter,
        verifier=form.verifier,
        k=int(form.k or 0),
        device=str(pair.device),
        precision=str(pair.precision),
        hardware=hardware,
        where=" · ".join([str(pair.target.name), str(pair.precision), hardware, day.isoformat()]),
        day=day,
    )


def snapshot(mine: Run | None) -> View:
    """What the page shows for this run now."""
    if mine is None:
        return {"state": "idle"}, {"run": None, "state": "idle", "steps": []}, None, None
    done = mine.speculative.stats()
    status = {
        "state": mine.state,
        "message": mine.message,
        "tokens": done.output_tokens if done else 0,
        "steps": done.steps if done else 0,
        "reason": mine.reason,
    }
    tokens = {
        "run": mine.id,
        "state": mine.state,
        "greedy": mine.greedy,
        "verifier": mine.verifier,
        "lossy": mine.lossy,
        "steps": list(mine.records),
    }
    sent = {"text": mine.prompt_text, "tokens": mine.prompt_tokens} if mine.prompt_tokens else None
    return status, tokens, encode_figures(mine), sent
