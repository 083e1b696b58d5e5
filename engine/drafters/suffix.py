"""Suffix decoding (Oliaro et al. 2024, SuffixDecoding): what followed these words, wherever they stood before?

The rule: take the longest suffix of the context that occurred earlier in it, prompt and output alike, or, where a
memory was given, in the tenant's earlier outputs; whichever holds the longer one wins, the run's own text on a tie.
The suffix is never matched with itself. What followed it is weighed with what followed its shorter suffixes, which
gives each token a chance of being the target's next one:

    chance(token) = trust * count / n + (1 - trust) * its chance by the next shorter suffix
    trust         = x / (x + TRUST),  x = length * (n / kinds) ** EVENNESS

n: how often the suffix was followed, by `kinds` different tokens; below the shortest suffix every chance is 0. So one
earlier occurrence of length 1, 2, 4, 8, 16 is trusted 0.29, 0.45, 0.63, 0.77, 0.87. TRUST and EVENNESS were fitted
(maximum likelihood) on 68,198 tokens of greedy answers of SmolLM2-135M-Instruct, each token standing for the target's
choice. On as many that were not fitted on, where a chance of 0.14, 0.26, 0.34, 0.45, 0.55, 0.65, 0.75, 0.85 and 0.97
was given, 0.16, 0.25, 0.38, 0.53, 0.56, 0.69, 0.77, 0.85 and 0.98 came. Other texts copy more or less than those, so
within a run TRUST moves with what is accepted.

The draft is the likeliest continuation, or, with `nodes`, the likeliest tree. It ends where the chance that all of it
up to there stands falls below a floor: a long match drafts far, a single word seldom at all. Of equal chances the most
recent wins. Where the text ends the draft goes on through its own tokens, as a text that repeats itself does.
"""

import heapq
import math
import threading
from collections.abc import Sequence

from engine.drafters.automaton import ROOT, Automaton, Match
from engine.drafters.base import Draft, Outcome
from engine.memory import OutputMemory

TRUST = 2.4
EVENNESS = 1.5
# A token costs a row of the verify pass, about a tenth of a step on a CPU. A tree pays for its rows anyway.
CHAIN_FLOOR = 0.1
TREE_FLOOR = 0.02
SUFFIXES = 6  # how many are weighed at most
NEGLIGIBLE = 0.05  # weight left for shorter ones
LEARNING_RATE = 0.1
FARTHEST = 8.0  # TRUST moves by this factor at most
PIECE = 4096  # tokens read between two looks at `cancel`
WINDOW = 256  # a prompt's last tokens, for a match in earlier outputs

# A token, its chance, where it was last seen, and the state and length of the match that it makes.
_Guess = tuple[int, float, int, int, int]


class SuffixDrafter:
    """Deterministic: q is one-hot. vocab_size: ids past it are never proposed. nodes: largest tree, 0 for a chain.

    memory: the outputs of `tenant` that it may draft from, as they stand when the run begins. It never adds to them.
    """

    name = "suffix"
    begins_in_pieces = True

    def __init__(
        self,
        vocab_size: int | None = None,
        nodes: int = 0,
        memory: OutputMemory | None = None,
        tenant: str = "",
        floor: float | None = None,
    ) -> None:
        self.vocab_size, self.nodes = vocab_size, nodes
        self.floor = floor if floor is not None else TREE_FLOOR if nodes else CHAIN_FLOOR
        self.trust = TRUST
        self._own = Automaton()
        self._memory, self._tenant = memory, tenant
        self._earlier: list[tuple[Automaton, Match]] = []
        self._followed = 0  # tokens of the context that the matches in earlier outputs have followed

    def begin(self, prompt: Sequence[int], cancel: threading.Event) -> None:
        if self._memory:
            self._earlier = [(text, Match(ROOT, 0)) for text in self._memory.snapshot(self._tenant)]
            self._memory = None  # a prompt in pieces sees one state of it
        self._read(prompt, cancel)

    def propose(self, context: Sequence[int], k: int) -> Draft:
        self._read(context)
        found = [(self._own, self._own.longest()), *self._earlier]
        text, match = max(found, key=lambda pair: pair[1].length)  # the first of equals
        return self._draft(text, match, k) if match.length else Draft(note="no match")

    def observe(self, outcome: Outcome) -> None:
        """Trust moves by how much more, or less, was accepted than its own tokens were given."""
        draft = outcome.draft
        if draft.confidence is None or draft.sources is None:
            return
        chances = [0.0] * (len(draft.tokens) + 1)  # of a token's children together; the context's are the last
        for i, chance in enumerate(draft.confidence):
            if draft.sources[i] == self.name:
                chances[draft.parent(i)] += chance
        taken = set(outcome.path)
        for i in (-1, *outcome.path):
            if chances[i]:
                came = any(draft.parent(j) == i for j in taken if draft.sources[j] == self.name)
                self.trust *= math.exp(-LEARNING_RATE * (came - chances[i]))
        self.trust = min(max(self.trust, TRUST / FARTHEST), TRUST * FARTHEST)

    def _read(self, context: Sequence[int], cancel: threading.Event | None = None) -> None:
        for at in range(len(self._own), len(context), PIECE):
            if cancel and cancel.is_set():
                return
            self._own.extend(context[at : at + PIECE])
        if not self._earlier:
            return
        start = max(self._followed, len(context) - WINDOW)
        fresh = context[start:]
        for i, (text, match) in enumerate(self._earlier):
            if start > self._followed:
                match = Match(ROOT, 0)
            for token in fresh:
                match = text.step(match, token)
            self._earlier[i] = text, match
        self._followed = len(context)

    def _draft(self, text: Automaton, match: Match, k: int) -> Draft:
        """The likeliest first: nothing is added before all that is likelier, and no token before its parent."""
        most = self.nodes or k
        tokens: list[int] = []
        parents: list[int] = []
        confidence: list[float] = []
        # chance of the whole path and time last seen, both negated; a number that no other has; parent; depth; the
        # path's first token; guess
        waiting: list[tuple[float, int, int, int, int, int, _Guess]] = []
        number, at, depth, path, first = 0, -1, 0, 1.0, -1
        note = "what followed the match is too unlikely to go on"
        while len(tokens) < most:
            guesses = self._guesses(text, match, first) if depth < k else []
            said = [guess for guess in guesses if self._in_vocabulary(guess[0])]
            if len(said) < len(guesses):
                note = "the match goes on with an id past the vocabulary"
            if said and not self.nodes:
                said = [max(said, key=_likelier)]
            for guess in said:
                if path * guess[1] >= self.floor:
                    number += 1
                    root = first if at >= 0 else guess[0]
                    heapq.heappush(waiting, (-path * guess[1], -guess[2], number, at, depth + 1, root, guess))
            if not waiting:
                break
            negated, _, _, parent, depth, first, (token, chance, _, *made) = heapq.heappop(waiting)
            path, at, match = -negated, len(tokens), Match(*made)
            tokens.append(token)
            parents.append(parent)
            confidence.append(chance)
        return Draft(
            tokens,
            note=note if len(tokens) < most else None,
            parents=tuple(parents) if self.nodes else None,
            confidence=tuple(confidence),
            sources=(self.name,) * len(tokens),
        )

    def _guesses(self, text: Automaton, match: Match, first: int) -> list[_Guess]:
        """What may follow a match. first: the draft's own first token, which follows where the text ends; -1: none."""
        chances: dict[int, float] = {}
        found: dict[int, tuple[int, int, int]] = {}
        left = 1.0
        for _ in range(SUFFIXES):
            if match.state == ROOT:
                break
            if first >= 0 and text.ends(match):  # never in an earlier output, which ends in a BREAK
                followers = [(first, 1, len(text), text.step(match, first).state)]
            else:
                followers = text.followers(match)
            if followers:
                n = sum([follower[1] for follower in followers])
                x = match.length * (n / len(followers)) ** EVENNESS
                share = left * x / (x + self.trust) / n
                for token, count, seen, state in followers:
                    if token in chances:
                        chances[token] += share * count
                    else:
                        chances[token] = share * count
                        found[token] = seen, state, match.length + 1
                left *= self.trust / (x + self.trust)
                if left < NEGLIGIBLE:
                    break
            match = text.shorter(match)
        return [(token, chance, *found[token]) for token, chance in chances.items()]

    def _in_vocabulary(self, token: int) -> bool:
        """A prompt of token ids may hold padded ones, which the target reads and never says."""
        return token >= 0 and (self.vocab_size is None or token < self.vocab_size)


def _likelier(guess: _Guess) -> tuple[float, int]:
    return guess[1], guess[2]
