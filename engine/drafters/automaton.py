"""A suffix automaton: every substring of a text, with how often it occurred, where last, and what followed it.

Grown token by token (Blumer et al. 1985): at most two states and three transitions a token, a constant number of
dictionary operations each, amortised. A state stands for the substrings that end at the same places; its suffix link
leads to the longest of their suffixes that ends in more. So the link of the state that stands for the whole text is
the longest suffix of the text that occurred before, and never that suffix itself.

Counts and latest places are kept along the links, the longest substrings first, UPDATED_LINKS of them a token: exact
wherever a text's suffixes have at most that many different sets of places. Behind that, as in one token said a hundred
times over, the short ones' counts are too low and their places not the latest, but each still did occur there.
"""

from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

UPDATED_LINKS = 64
# Where a great many tokens followed, only those seen first are looked at, and the frequent ones are seen early.
MOST_FOLLOWERS = 32
ROOT = 0  # the empty substring
BREAK = -1  # stands between texts that do not follow each other; never an id


# A token, how often it followed, at which index of the text it last did, and the state of the substring with it. Plain
# tuples: a drafter makes some hundred of them a step.
Follower = tuple[int, int, int, int]


class Match(NamedTuple):
    """`length` tokens in a row that are in the text. state: of them, and of all that end in the same places."""

    state: int
    length: int


class Automaton:
    """Not for two threads while it grows; any number may read one that grows no more."""

    def __init__(self, tokens: Iterable[int] = ()) -> None:
        self._next: list[dict[int, int]] = [{}]
        self._link = [-1]
        self._length = [0]  # of the state's longest substring
        self._count = [0]
        self._last = [-1]  # index of the last token, where it was last seen
        self._whole = ROOT  # of the whole text
        self._size = 0
        self.extend(tokens)

    def __len__(self) -> int:
        """Tokens read."""
        return self._size

    @property
    def states(self) -> int:
        return len(self._link)

    def extend(self, tokens: Iterable[int]) -> None:
        nexts, links, lengths, counts, lasts = self._next, self._link, self._length, self._count, self._last
        whole, at = self._whole, self._size
        for token in tokens:
            made = len(links)
            nexts.append({})
            lengths.append(at + 1)
            counts.append(0)
            lasts.append(at)
            state = whole
            while state >= 0 and token not in nexts[state]:
                nexts[state][token] = made
                state = links[state]
            if state < 0:
                links.append(ROOT)
            else:
                known = nexts[state][token]
                if lengths[known] == lengths[state] + 1:
                    links.append(known)
                else:  # its shorter substrings now end in one place more than its longer ones: they part
                    short = made + 1
                    nexts.append(dict(nexts[known]))
                    lengths.append(lengths[state] + 1)
                    counts.append(counts[known])
                    lasts.append(lasts[known])
                    links += (short, links[known])
                    links[known] = short
                    while state >= 0 and nexts[state].get(token) == known:
                        nexts[state][token] = short
                        state = links[state]
            whole, state = made, made
            for _ in range(UPDATED_LINKS):
                if state <= ROOT:
                    break
                counts[state] += 1
                lasts[state] = at
                state = links[state]
            at += 1
        self._whole, self._size = whole, at

    def longest(self) -> Match:
        """The longest suffix of the text that occurred before, overlaps included; the root where there is none."""
        state = max(self._link[self._whole], ROOT)
        return Match(state, self._length[state])

    def step(self, match: Match, token: int) -> Match:
        """The longest suffix of (match, token) that is in the text."""
        state, length = match
        while token not in self._next[state]:
            if state == ROOT:
                return Match(ROOT, 0)
            state = self._link[state]
            length = self._length[state]
        return Match(self._next[state][token], length + 1)

    def ends(self, match: Match) -> bool:
        """Whether the only place where it stands is the end of the text."""
        return match.state == self._whole

    def shorter(self, match: Match) -> Match:
        """The longest suffix of a match that occurred in more places; the root's is the root."""
        state = max(self._link[match.state], ROOT)
        return Match(state, self._length[state])

    def followers(self, match: Match) -> list[Follower]:
        """What followed it, in the order first seen, at most MOST_FOLLOWERS. None follows where the text ends."""
        counts, lasts = self._count, self._last
        pairs = islice(self._next[match.state].items(), MOST_FOLLOWERS)
        return [(token, counts[state], lasts[state], state) for token, state in pairs]
