"""Between the ids of two vocabularies: the target's context in the draft's ids, and the draft's text in the target's.

Nothing here can change what a run emits; it decides how well the draft drafts. It has no use for an unknown token:
what a vocabulary lacks is spelt in the tokens that it has.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from engine.token_bytes import encode, is_text, joined, unfinished
from engine.vocabulary import VocabularyMap

# What is put in front of a piece of text to be encoded as the middle of one. The first that does not run into it.
ANCHORS = ("\n", "a", ".")
# Bytes of text that are encoded anew with every token, at most about, and what of them may still change.
LONG, RECENT = 512, 96
# Tokens before a proposal that are encoded along with it.
LOOK_BACK = 8


class Speller:
    """A tokenizer for pieces of a text. ids at or past `limit` have no embedding and are never given."""

    def __init__(self, tokenizer: Any, pieces: Mapping[int, bytes], limit: int) -> None:
        self.tokenizer, self.pieces, self.limit = tokenizer, pieces, limit
        leads = ((anchor, joined(pieces, encode(tokenizer, anchor))) for anchor in ANCHORS)
        self._anchors = [(anchor, lead) for anchor, lead in leads if lead]

    def opening(self) -> list[int]:
        """What the tokenizer puts before every text: its BOS, mostly, or nothing."""
        plain, whole = encode(self.tokenizer, "a"), [int(i) for i in self.tokenizer("a")["input_ids"]]
        starts = (n for n in range(len(whole)) if plain and whole[n : n + len(plain)] == plain)
        return self._within(whole[: next(starts, 0)])

    def spell(self, text: str, begins: bool = False) -> list[int]:
        """begins: it is the start of a text. In the middle of one no BOS may come in, and no space that is not there
        (SentencePiece puts one before every text)."""
        plain = encode(self.tokenizer, text) if text else []
        said = text.encode()
        if begins or joined(self.pieces, plain) == said:
            return self._within(plain)
        for anchor, lead in self._anchors:
            whole = encode(self.tokenizer, anchor + text)
            at = cut(self.pieces, whole, lead)
            if at is not None and joined(self.pieces, whole[at:]) == said:
                return self._within(whole[at:])
        return self._within(plain)

    def _within(self, ids: list[int]) -> list[int]:
        return [i for i in ids if i < self.limit]


def cut(pieces: Mapping[int, bytes], ids: Sequence[int], lead: bytes) -> int | None:
    """How many of the ids say exactly `lead`, which is not empty; None where no token ends there."""
    said = b""
    for n, i in enumerate(ids, 1):
        said += pieces.get(i, b"")
        if not lead.startswith(said):
            return None
        if said == lead:
            return n
    return None


class DraftText:
    """The target's context in the draft's ids, growing with it.

    one_to_one: tokens that the draft has are taken over as they are; the others, and all of them where it is False,
    are runs of text that the draft's tokenizer spells. A run is spelt anew when it grows, so its ids may change.
    """

    def __init__(self, words: VocabularyMap, draft: Speller, one_to_one: bool) -> None:
        self.words, self.draft, self.one_to_one = words, draft, one_to_one
        self._settled: list[int] = []
        self._opening = draft.opening()
        self._run = bytearray()
        self._seen = 0
        self.ids: list[int] = []

    @property
    def held(self) -> bool:
        """Does the context end inside a character that is not in `ids` yet?"""
        return bool(unfinished(self._run))

    def extend(self, context: Sequence[int]) -> None:
        """context: all of the run's tokens; those seen before have not changed."""
        for t in context[self._seen :]:
            word, mapped = self.words.target.get(t), self.words.to_draft.get(t)
            mapped = None if mapped is None or mapped >= self.draft.limit else mapped
            if not self._seen and mapped not in self._opening[:1]:
                self._settled += self._opening
            self._seen += 1
            if word is not None and (mapped is None or not self.one_to_one or unfinished(self._run)):
                self._run += word
                continue
            self._settle(len(self._run))
            if mapped is not None:  # a special token that the draft has no like of says nothing
                self._settled.append(mapped)
        if len(self._run) > LONG:
            # Between words, where tokens end in nearly every vocabulary; where there is none, anywhere between two
            # characters.
            at = max(self._run.rfind(b" ", 1, -RECENT), self._run.rfind(b"\n", 1, -RECENT))
            at = at if at > 0 else len(self._run) - RECENT
            self._settle(at - unfinished(self._run[:at]))
        self.ids = [*self._settled, *self._spelt(len(self._run))]

    def _settle(self, end: int) -> None:
        self._settled += self._spelt(end)
        self._run = self._run[end:]

    def _spelt(self, end: int) -> list[int]:
        """Ids of the run up to `end`, the bytes of a character that is not complete held back."""
        whole = self._run[:end]
        text = whole[: len(whole) - unfinished(whole)].decode("utf-8", "replace")
        return self.draft.spell(text, begins=self._settled in ([], self._opening))


def follow(words: VocabularyMap, target: Speller, context: Sequence[int], written: bytes) -> list[int]:
    """The target's ids for `written`, text that comes behind the context. Every one stands: what they say is the
    beginning of what was written, whatever the tokenizer does to a text."""
    written = written[: len(written) - unfinished(written)]
    text = written.decode("utf-8", "replace")
    ids = _behind(words, target, context, text)
    if ids is None:
        ids = target.spell(text)
    said = b""
    for n, i in enumerate(ids):
        said += words.target.get(i, b"")
        if i not in words.target or not written.startswith(said):
            return ids[:n]
    return ids


def _behind(words: VocabularyMap, target: Speller, context: Sequence[int], text: str) -> list[int] | None:
    """The text spelt together with the last words of the context, because a token may depend on what is before it.
    None where no token would end at the joint: the target has put one there all the same."""
    start = len(context)
    for n in range(1, min(LOOK_BACK, len(context)) + 1):
        word = words.target.get(context[-n])
        if word is None:
            break
        if word[:1] in (b" ", b"\n"):
            start = len(context) - n
    lead = joined(words.target, context[start:])
    if not lead or not is_text(lead):
        return None
    ids = target.spell(lead.decode() + text)
    at = cut(words.target, ids, lead)
    return None if at is None else ids[at:]
