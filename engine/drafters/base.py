"""The drafter contract: propose from the context, then observe what became of it."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Draft:
    """A proposed chain. tokens: up to k ids. probs: [len(tokens), V], the law each was drawn from, or None when the
    drafter is deterministic. logits: [len(tokens), V], what probs were made from, for showing. note: why it holds
    fewer than asked, in words, or None. ids: the tokens once more, [len(tokens)] on the device, from a drafter that
    has them there."""

    tokens: list[int] = field(default_factory=list)
    probs: Tensor | None = None
    logits: Tensor | None = None
    note: str | None = None
    ids: Tensor | None = None


class Drafter(Protocol):
    """One run's drafter: its state belongs to that run.

    name: what users call it. A drafter with a true `begins_in_pieces` may be begun again with more of the same prompt,
    and goes on from what it has read; a batch then reads a long prompt in pieces. Others are begun once, at its end.
    """

    name: str

    def begin(self, prompt: Sequence[int], cancel: threading.Event) -> None:
        """Read the prompt, in the step that the target reads it; return early when cancelled."""
        ...

    def propose(self, context: Sequence[int], k: int) -> Draft:
        """At most k tokens to follow `context` (prompt and output so far). k >= 1."""
        ...

    def observe(self, context_length: int, accepted: int) -> None:
        """What became of the last proposal: `accepted` of its tokens stand behind `context_length` tokens."""
        ...
