"""Prompt lookup (Saxena 2023): what followed these words the last time they appeared?

The rule: take the longest suffix of the context (at most MAX_NGRAM tokens, at least MIN_NGRAM) that occurs earlier in
the context, prompt and output alike; of its occurrences the most recent one wins; propose the k tokens that followed
it. Where fewer than k followed, the text is repeating itself and the proposal goes on through its own tokens.
The suffix is never matched with itself. With no match nothing is proposed, and the step is a plain one.
"""

import threading
from collections.abc import Sequence

from engine.drafters.base import Draft, Outcome

MAX_NGRAM = 4
MIN_NGRAM = 2


class PromptLookupDrafter:
    """Deterministic: q is one-hot. Costs a dictionary look-up a step; the index grows with the context."""

    name = "prompt_lookup"

    def __init__(self, vocab_size: int | None = None, max_ngram: int = MAX_NGRAM, min_ngram: int = MIN_NGRAM) -> None:
        self.vocab_size = vocab_size
        self.sizes = range(max_ngram, min_ngram - 1, -1)
        # n-gram -> the position behind its most recent occurrence. Only n-grams with a follower are in it.
        self._next: dict[tuple[int, ...], int] = {}
        self._indexed = 0

    def begin(self, prompt: Sequence[int], cancel: threading.Event) -> None:
        self._index(prompt)

    def propose(self, context: Sequence[int], k: int) -> Draft:
        self._index(context)
        for n in self.sizes:
            if len(context) <= n:
                continue
            at = self._next.get(tuple(context[-n:]))
            if at is not None:
                tokens = list(context[at : at + k])
                period = len(context) - at
                while len(tokens) < k:
                    tokens.append(tokens[-period])
                return self._within(tokens)
        return Draft(note="no match")

    def observe(self, outcome: Outcome) -> None:
        """Nothing to undo: only emitted tokens are indexed."""

    def _within(self, tokens: list[int]) -> Draft:
        """A prompt of token ids may hold padded ones, which the target reads and never says."""
        size = self.vocab_size
        end = next((i for i, t in enumerate(tokens) if size is not None and t >= size), len(tokens))
        note = "the match goes on with an id past the vocabulary" if end < len(tokens) else None
        return Draft(tokens[:end], note=note)

    def _index(self, context: Sequence[int]) -> None:
        # Position `end` is a follower, so the n-gram that ends right before it may be proposed from.
        for end in range(max(self._indexed, 1), len(context)):
            for n in self.sizes:
                if end >= n:
                    self._next[tuple(context[end - n : end])] = end
        self._indexed = len(context)
