"""What a run did, as counts: they depend on the text and the draft, not on the hardware."""

from __future__ import annotations

from dataclasses import dataclass

from engine.labels import Label
from engine.stats import Stats


@dataclass(frozen=True, slots=True)
class StepCounts:
    """One request's counts, on average.

    prompt_tokens and output_tokens: a request's. decode_steps: steps behind the first, which reads the prompt and emits
    one token. drafted_steps: those of them that verified a draft. proposed: drafted tokens in all. label: where the
    counts are from. Raises ValueError for counts that no run can have.
    """

    prompt_tokens: float
    output_tokens: float
    decode_steps: float
    drafted_steps: float
    proposed: float
    label: Label = "measured"

    def __post_init__(self) -> None:
        if not (self.prompt_tokens >= 1 and self.output_tokens >= 1):  # NaN fails too
            raise ValueError("a request has at least one prompt token and one output token")
        if not (0 <= self.drafted_steps <= self.decode_steps <= self.output_tokens - 1):
            raise ValueError("drafted steps are some of the decode steps, and each of those emits a token at least")
        if not (self.drafted_steps <= self.proposed) or (self.proposed > 0) != (self.drafted_steps > 0):
            raise ValueError("a drafted step proposes a token at least, and no other step does")

    @classmethod
    def of(cls, stats: Stats) -> StepCounts:
        """Of a measured run, or the average of the runs that were pooled."""
        runs = stats.runs
        if not runs:
            raise ValueError("nothing was decoded, so there is nothing to carry to another GPU")
        return cls(
            stats.prompt_tokens / runs,
            stats.output_tokens / runs,
            (stats.steps - runs) / runs,
            stats.drafted_steps / runs,
            stats.proposed / runs,
        )

    @classmethod
    def from_acceptance(
        cls,
        mean_acceptance_length: float,
        k: float,
        *,
        prompt_tokens: float,
        output_tokens: float,
        depth: float | None = None,
        label: Label = "quoted",
    ) -> StepCounts:
        """Of a request in which every step behind the first drafts and emits `mean_acceptance_length` tokens on
        average, the target's own included (vLLM's number; 1..depth + 1).

        k: tokens drafted a step, all nodes of a tree; depth: of those, how many can stand at once: k, a chain, unless
        given. Raises ValueError for an acceptance that no draft of that depth can have.
        """
        deep = k if depth is None else depth
        if not 1 <= deep <= k:
            raise ValueError(f"a draft of {k:g} tokens is 1 to {k:g} deep, not {deep:g}")
        if not 1 <= mean_acceptance_length <= deep + 1:
            raise ValueError(
                f"the mean acceptance length of a draft {deep:g} deep is 1 to {deep + 1:g}, "
                f"not {mean_acceptance_length:g}"
            )
        steps = (output_tokens - 1) / mean_acceptance_length
        return cls(prompt_tokens, output_tokens, steps, steps, steps * k, label)

    @classmethod
    def plain(cls, *, prompt_tokens: float, output_tokens: float, label: Label = "assumed") -> StepCounts:
        """Of a request that drafts nothing: a step a token."""
        return cls(prompt_tokens, output_tokens, output_tokens - 1, 0.0, 0.0, label)

    @property
    def width(self) -> float:
        """Proposals in a drafted step, on average."""
        return self.proposed / self.drafted_steps if self.drafted_steps else 0.0
