"""What one browser tab holds: a pointer to its latest run, and all that this run has done so far.

Every run is an object of its own. A run that was superseded while its last forward was under way goes on writing to
its own object, which nobody looks at any more, and never into the measurements of the next one.
"""

import threading
import uuid
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from app.components.token_view import encode_step
from engine.bench import first_divergence
from engine.sequence import LOSSY_NOTICE
from engine.stats import Stats, compute_stats, level, speedup
from engine.trace import Step, Trace
from engine.verify import LOSSY


class Arm:
    """The steps of one way of decoding, and their numbers, each computed once."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._kept: dict[int, Stats] = {}

    @property
    def token_ids(self) -> list[int]:
        return [t for step in list(self.steps) for t in step.emitted]

    def stats(self, count: int | None = None) -> Stats | None:
        """The numbers of the first `count` steps (default: all); None when there is no step."""
        steps = self.steps[:count]
        if not steps:
            return None
        kept = self._kept
        if len(steps) not in kept:
            # The two latest are enough: the arms are compared at this step or at the one before it.
            prompt = steps[0].prefill_tokens + steps[0].reused_prompt_tokens + 1
            kept = {**dict(list(kept.items())[-1:]), len(steps): compute_stats(steps, prompt)}
            self._kept = kept
        return kept[len(steps)]


@dataclass(eq=False)
class Run:
    """One press of the Run button. hardware: what it ran on, for people; where: that with model, precision and day."""

    drafter: str
    verifier: str
    k: int
    device: str
    precision: str
    hardware: str
    where: str
    day: date
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    cancel: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)
    state: str = "starting"
    greedy: bool = True
    records: list[str] = field(default_factory=list)
    speculative: Arm = field(default_factory=Arm)
    plain: Arm = field(default_factory=Arm)
    reason: str | None = None
    message: str | None = None
    notices: tuple[str, ...] = ()
    pair_notices: tuple[str, ...] = ()
    prompt_text: str = ""
    prompt_tokens: int = 0
    temperature: float | None = None
    seed: int | None = None
    controlled: bool = False
    """Whether k is only the most that was asked for."""
    trees: bool = False
    """Whether any draft was a tree."""
    sources: set[str] = field(default_factory=set)
    """The methods that drafted, where the chosen one mixes several."""

    @property
    def drafts(self) -> bool:
        """False when both arms decode plainly, so that any difference between them is the clock's."""
        return self.drafter != "none"

    @property
    def lossy(self) -> bool:
        """Whether the output may leave the target's own law."""
        return self.drafts and self.verifier in LOSSY

    def begin(self, trace: Trace, pair_notices: tuple[str, ...]) -> None:
        """What the engine made of the form: the prompt as sent and the seed it really uses."""
        self.prompt_text, self.prompt_tokens = trace.prompt_text, len(trace.prompt_token_ids)
        self.temperature, self.seed = trace.settings["temperature"], trace.settings["seed"]
        self.pair_notices = pair_notices
        self.tell(trace)

    def tell(self, trace: Trace) -> None:
        """What the user should know of the run. What holds for the pair whatever the prompt is already at the top of
        the page, and that a run is lossy has a badge."""
        self.notices = tuple(n for n in trace.notices if n not in (*self.pair_notices, LOSSY_NOTICE))

    def add(self, arm: str, step: Step) -> None:
        if arm == "speculative":
            self.speculative.steps.append(step)
            self.records.append(encode_step(step))
            self.trees = self.trees or step.is_tree
            self.sources |= {p.source for p in step.proposals if p.source}
        else:
            self.plain.steps.append(step)

    def rewrite_last(self, steps: tuple[Step, ...]) -> None:
        """Text that the engine had held back comes out with a Stop, on the step that was last."""
        if steps and len(steps) == len(self.records) and steps[-1] is not self.speculative.steps[-1]:
            self.speculative.steps[-1] = steps[-1]
            self.records[-1] = encode_step(steps[-1])

    def compared(self) -> tuple[Stats | None, Stats | None]:
        """(speculative, plain) up to the latest point where both had emitted equally many tokens.

        Speeds, the speed-up and prices come from here: the arms take turns, so one is mostly ahead, and a sampled
        plain answer may end early.
        """
        speculative, plain = list(self.speculative.steps), list(self.plain.steps)
        i, j = level(plain, speculative)
        return (self.speculative.stats(j) if j else None), (self.plain.stats(i) if i else None)

    def speedup(self) -> float | None:
        return speedup(list(self.plain.steps), list(self.speculative.steps)) if self.drafts else None

    def agreement(self) -> dict[str, Any] | None:
        """Whether plain decoding gave the same tokens: asked only where it must, that is greedy and at the end.

        at: the first differing token, counted from 1, or None. near_tie: whether rounding explains it, by the margin
        between the target's two likeliest tokens there.
        """
        if self.state != "done" or not (self.greedy and self.drafts):
            return None
        ours, theirs = self.speculative.token_ids, self.plain.token_ids
        parted = first_divergence(list(self.speculative.steps), list(self.plain.steps), self.precision)
        at = parted.position if parted else min(len(ours), len(theirs)) if len(ours) != len(theirs) else None
        return {
            "tokens": len(ours),
            "at": None if at is None else at + 1,
            "margin": parted and parted.margin,
            "near_tie": bool(parted and parted.near_tie),
        }


@dataclass
class Session:
    """Lives in gr.State, one a tab, never shared. Gradio copies the empty one, so a run is not a part of it yet."""

    run: Run | None = None
