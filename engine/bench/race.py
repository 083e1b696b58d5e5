"""Speculative and plain decoding of one prompt in lock-step, so that whatever slows the machine slows both."""

import threading
from collections.abc import Generator, Iterator
from typing import Literal

from engine.decode import Stream
from engine.pair import Pair
from engine.settings import DecodeSettings
from engine.stats import speedup
from engine.text import Prompt
from engine.trace import Step

Arm = Literal["speculative", "plain"]


class Race(Iterator[tuple[Arm, Step]]):
    """After each speculative step, plain steps run until plain has emitted as many tokens. `speculative` and `plain`
    are the two streams; their `generation` is true at any time."""

    def __init__(self, speculative: Stream, plain: Stream, plain_leads: bool = False) -> None:
        self.speculative, self.plain, self.plain_leads = speculative, plain, plain_leads
        self._steps = self._run()

    def __next__(self) -> tuple[Arm, Step]:
        return next(self._steps)

    def _run(self) -> Generator[tuple[Arm, Step], None, None]:
        ahead = 0  # tokens by which speculation is ahead
        while True:
            if self.plain_leads and (first := next(self.plain, None)) is not None:
                ahead -= len(first.emitted)
                yield "plain", first
            step = next(self.speculative, None)
            if step is None:
                return
            ahead += len(step.emitted)
            yield "speculative", step
            while ahead > 0 and (behind := next(self.plain, None)) is not None:
                ahead -= len(behind.emitted)
                yield "plain", behind

    def close(self) -> None:
        """End both arms where they are and let go of their caches; what they did stays readable."""
        self._steps.close()
        for arm in (self.speculative, self.plain):
            arm.close()

    @property
    def speedup(self) -> float | None:
        """So far; see `engine.stats.speedup`."""
        return speedup(self.plain.steps, self.speculative.steps)


def race(
    pair: Pair,
    prompt: Prompt,
    settings: DecodeSettings | None = None,
    drafter: str = "prompt_lookup",
    verifier: str = "rejection",
    cancel: threading.Event | None = None,
    alternatives: int = 0,
    chat: bool = True,
    plain_leads: bool = False,
) -> Race:
    """Speculation beside its own baseline: the same prompt, weights and settings. At temperature 0 the tokens are the
    same too. Arguments as in `engine.stream`. plain_leads: each round begins with plain decoding's step."""
    settings = settings or DecodeSettings()
    return Race(
        Stream(pair, prompt, settings, drafter, verifier, cancel, alternatives, chat),
        Stream(pair, prompt, settings, "none", verifier, cancel, 0, chat),
        plain_leads,
    )
