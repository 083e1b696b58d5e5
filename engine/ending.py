"""Where the output ends: token by token, the end of sequence first, then a stop string, then the length."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.text import Detokenizer, StopScanner
from engine.trace import FinishReason


@dataclass(frozen=True, slots=True)
class Cut:
    """What of a step is emitted: ids, the text each one added, and why the output ends here (None: it goes on)."""

    ids: tuple[int, ...]
    texts: tuple[str, ...]
    finish_reason: FinishReason | None


class Ending:
    """Looks at every token of a step: an end inside an accepted block is found wherever it falls, whatever drafted."""

    def __init__(self, detokenizer: Detokenizer, stop: Sequence[str], eos_ids: frozenset[int], max_tokens: int) -> None:
        self.detokenizer = detokenizer
        self.scanner = StopScanner(stop)
        self.eos_ids = eos_ids
        self.left = max_tokens

    def take(self, ids: Sequence[int]) -> Cut:
        texts: list[str] = []
        reason: FinishReason | None = None
        for token in ids:
            text, stopped = self.scanner.add(self.detokenizer.add(token))
            texts.append(text)
            self.left -= 1
            if token in self.eos_ids:
                reason = "eos"
            elif stopped:
                reason = "stop"
            elif self.left <= 0:
                reason = "length"
            if reason:
                break
        if reason and reason != "stop":
            texts[-1] += self.rest()
        return Cut(tuple(ids[: len(texts)]), tuple(texts), reason)

    def rest(self) -> str:
        """The text still held back (part of a character, the beginning of a stop string), when no token will follow."""
        text, stopped = self.scanner.add(self.detokenizer.flush())
        return text if stopped else text + self.scanner.flush()
