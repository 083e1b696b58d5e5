"""The drafter contract: propose from the context, then observe what became of it."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Draft:
    """A proposed chain or tree.

    tokens: the n proposed ids. parents: None for a chain; in a tree, for each token the index of the one before it, -1
    for one that follows the context. A parent comes before its children, and no two children of one are the same token.
    probs: [n, V], the law each was drawn from, or None when the drafter is deterministic, as a tree always is. logits:
    [n, V], what probs were made from, for showing. confidence: for each token, the drafter's own guess that the target
    takes it, given that it took the one before. sources: the method each came from, where one draft mixes several.
    note: why it holds fewer than asked, in words, or None. ids: the tokens once more, [n] on the device, from a drafter
    that has them there.
    """

    tokens: list[int] = field(default_factory=list)
    probs: Tensor | None = None
    logits: Tensor | None = None
    note: str | None = None
    ids: Tensor | None = None
    parents: tuple[int, ...] | None = None
    confidence: tuple[float, ...] | None = None
    sources: tuple[str, ...] | None = None

    def parent(self, i: int) -> int:
        return i - 1 if self.parents is None else self.parents[i]

    def part(self, kept: Sequence[int]) -> "Draft":
        """The tokens at `kept`, rising, with each one's parent among them; a chain where they are one."""
        if len(kept) == len(self.tokens):
            return self
        at, new = list(kept), {-1: -1, **{old: i for i, old in enumerate(kept)}}
        parents = tuple(new[self.parent(i)] for i in at)
        return replace(
            self,
            tokens=[self.tokens[i] for i in at],
            probs=None if self.probs is None else self.probs[at],
            logits=None if self.logits is None else self.logits[at],
            ids=None if self.ids is None else self.ids[at],
            parents=None if parents == tuple(range(-1, len(at) - 1)) else parents,
            confidence=self.confidence and tuple(self.confidence[i] for i in at),
            sources=self.sources and tuple(self.sources[i] for i in at),
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a proposal.

    context_length: tokens before it. path: indexes into draft.tokens of those that stand, in order; a chain's are
    0..m-1. next_token: the target's own, behind them. logits: [n+1, V], the target's, behind the context's last token
    and then behind each drafted one.
    """

    context_length: int
    path: tuple[int, ...]
    draft: Draft
    next_token: int
    logits: Tensor

    @property
    def accepted(self) -> int:
        return len(self.path)


UNSURE = "the draft is not sure enough"


class Gate(Protocol):
    """What a drafter that draws token by token asks before each; see `engine.control.Control`. asks: False where the
    answer is always yes, so that no probability need be read."""

    asks: bool

    def goes_on(self, confidence: float, depth: int) -> bool:
        """confidence: the largest probability of the law that the token at `depth` (0 is the first) would be drawn
        from."""
        ...


class Open:
    """The gate that never closes."""

    asks = False

    def goes_on(self, confidence: float, depth: int) -> bool:
        return True


class Drafter(Protocol):
    """One run's drafter: its state belongs to that run.

    name: what users call it. A drafter with a true `begins_in_pieces` may be begun again with more of the same prompt,
    and goes on from what it has read; a batch then reads a long prompt in pieces. Others are begun once, at its end.
    One with `taps` is a `Reader` too.
    """

    name: str

    def begin(self, prompt: Sequence[int], cancel: threading.Event) -> None:
        """Read the prompt, in the step that the target reads it; return early when cancelled."""
        ...

    def propose(self, context: Sequence[int], k: int) -> Draft:
        """Tokens to follow `context` (prompt and output so far), at most k deep. k >= 1."""
        ...

    def observe(self, outcome: Outcome) -> None:
        """What became of the last proposal, or of a step without one."""
        ...


class Reader(Protocol):
    """A drafter that reads the target's hidden states. taps: which; see `engine.runner.Reading`."""

    taps: tuple[int, ...]

    def read(self, context: Sequence[int], start: int, hidden: dict[int, Tensor]) -> None:
        """The target has read context[start : start + n] for good. hidden: for each tap [n, hidden_size]. Called
        behind every forward, and before `observe`. Where `start` does not follow on, what came before was not read
        but reused."""
        ...
