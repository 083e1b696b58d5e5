"""What a peer is: an engine that decodes the very prompt ids it is given, greedily, for an exact number of ids."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class PeerRun:
    """One prompt decoded by one arm.

    token_ids: the emitted ids, as the engine itself gives them; texts are never counted. seconds: a stopwatch around
    the whole call, from prompt ids in to the last id out, the same for every arm. ttft_s: to the first id, None where
    the engine does not tell. counts: what the engine says of its drafts (`proposed`, `accepted`, `target_forwards`),
    empty where it says nothing.
    """

    token_ids: tuple[int, ...]
    seconds: float
    ttft_s: float | None = None
    note: str | None = None
    counts: Mapping[str, int] = field(default_factory=dict)


class PeerArm(Protocol):
    """One way to decode. name: as it is shown; its first word is the engine. weights: what the weights are held in, for
    example "fp32" or "Q4_1". threads: CPU threads it may use, None when they are not ours to set. step_bytes: bytes of
    weights that a step of one token reads, known once it is loaded; None where the engine does not tell."""

    name: str
    weights: str
    threads: int | None

    @property
    def step_bytes(self) -> int | None: ...

    def available(self) -> str | None:
        """None, or one sentence that says why it cannot run here. Loads nothing."""

    def load(self, context_tokens: int) -> None:
        """Get ready for prompt and output of `context_tokens` together. May raise anything: the arm is then skipped."""

    def run(self, prompt_ids: Sequence[int], max_new_tokens: int) -> PeerRun:
        """Greedy, with nothing kept from earlier prompts, on past any end-of-sequence id to `max_new_tokens` ids."""

    def close(self) -> None:
        """Let go of weights and caches."""
