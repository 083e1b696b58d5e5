"""One prompt of a batch, and the numbers of all of them together."""

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

from engine.clock import Stopwatch
from engine.decode import show
from engine.drafters import Draft
from engine.runner import Reading
from engine.sequence import Run


class BatchRow(Run):
    """One prompt of a batch. `generation` is true at any time; `finish_reason` is None while it goes on. error: what
    ended it, when its drafter or its logits failed: it then reads "cancelled" and holds all that it had done.

    Times of its steps: draft_ms is its own drafting; verify_ms the whole time of the forwards that it was part of,
    whoever else was; other_ms all the rest since its last step (its own test, and waiting for the other rows), so
    that their sum is the time that passed. The first step counts from admission; the wait before is `queued_ms`.
    """

    def __init__(self, index: int, *args: Any) -> None:
        super().__init__(*args)
        self.index = index
        self.error: Exception | None = None
        self.submitted = time.perf_counter()
        self.since = 0.0
        self.drafting, self.verifying = Stopwatch(self.target.device), Stopwatch(self.target.device)
        self.begun = 0  # prompt tokens that the drafter has read

    @property
    def ended(self) -> bool:
        return self.finish_reason is not None

    @property
    def counts(self) -> list[int]:
        """Tokens of the prompt, those of them reused, those emitted."""
        return [len(self.prompt.ids), self.reused, sum(len(step.emitted) for step in self.steps)]

    def read_prompt(self, most: int) -> tuple[int, Reading | None]:
        """Reads up to `most` more prompt tokens. Returns how many, and what the last piece came to, with the logits
        behind it, [1, V]. It waits until a draft model has read its own."""
        with self.drafting.running():
            if self.drafter and self.draft_room > 0 and getattr(self.drafter, "begins_in_pieces", False):
                self.begun = min(self.begun + most, len(self.context))
                self.drafter.begin(self.context[: self.begun], self.cancel)
            else:
                self.begun = len(self.context)
        with self.verifying.running():
            self.reuse_prefix()
            piece = self.unread[:most]
            last = len(piece) == len(self.unread)
            if last and self.begun < len(self.context):
                return most, None
            reading = self.target.read(piece, self.cache, 1, None, self.taps)
            if not last:
                self.share_prefix()
        if not last:
            with self.drafting.running():
                show(self, self.cache.length, 0, reading, ())
        return len(piece), reading if last else None


class Ready(NamedTuple):
    """A row whose draft, or prompt, has been read. reading: with the logits [n+1, V]; rows: those that shared the
    forward."""

    row: BatchRow
    draft: Draft
    reading: Reading
    rows: int


@dataclass(frozen=True, slots=True)
class BatchTotals:
    """The batch as a whole. seconds: the engine's own, in which a slow reader has no part. forwards: of the target,
    with rows sharing one counted once and pieces of prompts left out; rows_per_forward: how many shared one."""

    rows: int
    steps: int
    forwards: int
    rows_per_forward: float | None
    prompt_tokens: int
    reused_prompt_tokens: int
    output_tokens: int
    seconds: float
    output_tokens_per_second: float | None
