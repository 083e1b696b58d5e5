"""The Explore tab's handlers: plain generators over the engine, testable without a browser.

The engine runs inside the handler's own generator. When Gradio closes it (Stop, a closed tab, a dropped
connection) its `finally` sets the cancel flag, so the model is free within one step and nothing outlives the request.
"""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from app.catalogue import Words
from app.components.figures import encode_figures
from app.components.token_view import encode_step
from engine.errors import EngineError
from engine.settings import DecodeSettings
from engine.stats import Stats, compute_stats
from engine.trace import Step

log = logging.getLogger("specscope.app")

UPDATES_PER_SECOND = 15
View = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]  # status line, token view, figures
Race = Callable[..., Any]


@dataclass
class Session:
    """What one browser tab holds; lives in gr.State and is never shared. Replaced piece by piece by each run."""

    run: str | None = None
    state: str = "idle"
    cancel: threading.Event | None = None
    drafter: str = "none"
    k: int = 0
    greedy: bool = True
    lossless: bool = True
    records: list[str] = field(default_factory=list)
    speculative: list[Step] = field(default_factory=list)
    plain: list[Step] = field(default_factory=list)
    reason: str | None = None
    message: str | None = None
    device: str = ""
    where: str = ""
    notices: tuple[str, ...] = ()

    def measured(self) -> tuple[Stats | None, Stats | None]:
        """(speculative, plain) of the latest run so far; None for an arm that has no step yet."""
        arms = (self.speculative, self.plain)
        return tuple(compute_stats(list(steps)) if steps else None for steps in arms)  # type: ignore[return-value]


@dataclass(frozen=True)
class Form:
    """What the user chose, as the page's fields give it: a cleared number field is None."""

    prompt: str
    drafter: str
    k: float | None
    verifier: str
    temperature: float | None
    max_new_tokens: float | None = 128
    top_k: float | None = 0
    top_p: float | None = 1.0
    min_p: float | None = 0.0
    repetition_penalty: float | None = 1.0
    stop: str = ""
    seed: str = ""
    ignore_eos: bool = False

    def settings(self, words: Words) -> DecodeSettings:
        """Raises EngineError with one sentence for a value that has no meaning."""

        def number(name: str) -> float:
            value = getattr(self, name)
            if value is None:
                raise EngineError(words("field_empty", name=words(name)))
            return float(value)

        def whole(name: str) -> int:
            # Number fields hand over 5.0 for 5; what is not whole is refused, not rounded.
            value = number(name)
            if value != int(value):
                raise EngineError(words("field_whole", name=words(name), value=f"{value:g}"))
            return int(value)

        if not self.prompt.strip():  # a chat template would turn it into a prompt about nothing
            raise EngineError(words("prompt_empty"))
        return DecodeSettings(
            k=whole("k"),
            max_new_tokens=whole("max_new_tokens"),
            temperature=number("temperature"),
            top_k=whole("top_k"),
            top_p=number("top_p"),
            min_p=number("min_p"),
            repetition_penalty=number("repetition_penalty"),
            stop=tuple(line for line in self.stop.split("\n") if line),
            seed=self._seed(words),
            ignore_eos=bool(self.ignore_eos),
        )

    def _seed(self, words: Words) -> int | None:
        """A text field: a number field cannot be left empty without reading as 0, which is a seed like any other."""
        text = self.seed.strip()
        if text and not (text.isascii() and text.isdigit()):
            raise EngineError(words("field_whole", name=words("seed"), value=text))
        return int(text) if text else None


def run(
    pair: Any,
    session: Session,
    form: Form,
    race: Race,
    *,
    clock: Callable[[], float] = time.monotonic,
    words: Words | None = None,
) -> Iterator[View]:
    """Run both arms in turns and yield what the page shows, at most `UPDATES_PER_SECOND` times a second.

    Never raises for a failed run: the failure is the last thing yielded, as one sentence.
    """
    words = words or Words("en")
    cancel = threading.Event()
    _begin(session, cancel, pair, form)
    mine = session.run
    steps: Any = None
    try:
        yield snapshot(session)
        settings = form.settings(words)
        session.k, session.greedy = settings.k, settings.greedy
        session.lossless = form.verifier != "typical"
        steps = race(
            pair,
            form.prompt,
            settings,
            drafter=form.drafter,
            verifier=form.verifier,
            cancel=cancel,
            alternatives=5,
        )
        last = float("-inf")
        for arm, step in steps:
            if arm == "speculative":
                session.speculative.append(step)
                session.records.append(encode_step(step))
            else:
                session.plain.append(step)
            session.state = "running"
            now = clock()
            if now - last >= 1 / UPDATES_PER_SECOND:
                last = now
                yield snapshot(session)
        generation = steps.speculative.generation
        session.reason = generation.finish_reason
        session.notices = tuple(generation.trace.notices)
        session.state = "stopped" if session.reason == "cancelled" else "done"
    except EngineError as error:
        session.state, session.message = "failed", str(error)
    except Exception:
        log.exception("a run failed")
        session.state, session.message = "failed", words("failed_unexpected")
    finally:
        # Also reached by GeneratorExit: whatever closed this generator, the engine stops at its next check.
        cancel.set()
        if hasattr(steps, "close"):
            steps.close()
        if session.run == mine and session.state in ("starting", "running"):
            session.state = "stopped"
    yield snapshot(session)


def stop(session: Session) -> View:
    """Flag the run to end at its next check and show what there is. Works for a run that has ended, too."""
    if session.cancel is not None:
        session.cancel.set()
    if session.state in ("starting", "running"):
        session.state = "stopped"
    return snapshot(session)


def _begin(session: Session, cancel: threading.Event, pair: Any, form: Form) -> None:
    """A fresh run in the same session object: the cost panel and Stop hold the object, not the run."""
    fresh = replace(Session(), run=uuid.uuid4().hex, state="starting", cancel=cancel, where=_where(pair))
    session.__dict__.update(fresh.__dict__)
    session.device = str(pair.device)
    session.k, session.drafter = int(form.k or 0), form.drafter


def _where(pair: Any) -> str:
    names = (pair.target.name, pair.device, pair.dtype, time.strftime("%Y-%m-%d"))
    return " · ".join(str(n) for n in names)


def snapshot(session: Session) -> View:
    """What the page shows for this session now: values for the status line, the token view and the figures."""
    speculative, plain = session.measured()
    status = {
        "state": session.state,
        "message": session.message,
        "tokens": speculative.output_tokens if speculative else 0,
        "steps": speculative.steps if speculative else 0,
        "reason": session.reason,
    }
    tokens = {
        "run": session.run,
        "state": session.state,
        "greedy": session.greedy,
        "steps": list(session.records),
    }
    figures = encode_figures(
        session.state, session.k, speculative, plain, _same(session), session.where, session.notices
    )
    return status, tokens, figures


def _same(session: Session) -> tuple[int, int] | None:
    """How many tokens of the two arms agree, counted only where they must: greedy, lossless, at the end."""
    if session.state != "done" or not (session.greedy and session.lossless):
        return None
    ours, theirs = ([t for s in arm for t in s.emitted] for arm in (session.speculative, session.plain))
    return sum(a == b for a, b in zip(ours, theirs, strict=False)), max(len(ours), len(theirs))
