"""Do target and draft mean the same strings by the same ids, and where they do not: which tokens do both have?

Compared as strings, never by size or by name. A draft with a vocabulary of its own drafts all the same, in one of two
ways (Timor et al. 2025, arXiv 2502.05202; `engine.drafters.foreign`).
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Literal

from engine.errors import VocabularyError
from engine.fertility import ENGLISH, Fertility, measure
from engine.token_bytes import encode, is_text, token_bytes

ForeignMethod = Literal["intersection", "reencoding"]
FOREIGN_METHODS: tuple[ForeignMethod, ...] = ("intersection", "reencoding")
# Of the target's tokens in running text, the share that the draft must have for its tokens to be mapped one to one.
# With a share c in common and an agreement a where it is, a mapped token stands with a chance of about a * c; a
# re-encoded one with a, but two tokens more are written for it. With a draft forward at a tenth of the target's and
# k = 5, both are equally quick at c = 0.86, 0.92 and 0.93 for a = 0.5, 0.7 and 0.8. That is greedy; above temperature 0
# a re-encoded guess stands with p(x) only, and a mapped one with the sum of min(p, q). Hence a little lower.
ENOUGH_IN_COMMON = 0.9
SAMPLES = 8
HOW = {
    "intersection": "its tokens are mapped one to one",
    "reencoding": "it writes in its own and the text is re-encoded for the target",
    None: "it cannot draft",
}


@dataclass(frozen=True, slots=True, eq=False)
class VocabularyMap:
    """target, draft: id -> the bytes it stands for (special tokens: none). to_draft: target id -> draft id, wherever
    the draft has the token; to_target: draft id -> target id, one to one. Special tokens are in these where both sides
    have one of that name, or one of that role (begin, end)."""

    target: Mapping[int, bytes]
    draft: Mapping[int, bytes]
    to_draft: Mapping[int, int]
    to_target: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Difference:
    """What one id reads as, None where a side does not have it."""

    id: int
    target: str | None
    draft: str | None


@dataclass(frozen=True, slots=True)
class VocabularyReport:
    """Two vocabularies beside each other.

    same: every regular id reads the same. target_tokens, draft_tokens: how many stand for text. overlap: percent (0 to
    100) of the target's that the draft has, under any id; same_id: under the same. differing: the first ids that do not
    read the same. missing: some of the target's tokens that the draft lacks. fertility: tokens per word in Turkish and
    in English. method: how the draft is to draft; None when nothing overlaps and nothing can be re-encoded.
    """

    same: bool
    target_tokens: int
    draft_tokens: int
    overlap: float
    same_id: float
    differing: tuple[Difference, ...]
    missing: tuple[str, ...]
    fertility: tuple[Fertility, ...]
    method: ForeignMethod | None
    words: VocabularyMap = field(repr=False, compare=False)

    @property
    def coverage(self) -> float | None:
        """Share (0 to 1) of the target's tokens in running text that the draft has; None where it was not measured."""
        tokens = [f.words * f.target for f in self.fertility]
        return sum(f.shared * n for f, n in zip(self.fertility, tokens, strict=True)) / sum(tokens) if tokens else None

    @property
    def summary(self) -> str:
        """One sentence, without its full stop."""
        if self.same:
            return "target and draft have the same vocabulary"
        seen = "" if self.coverage is None else f" ({self.coverage:.0%} of those in running text)"
        per_word = "".join(f"; {f}" for f in self.fertility)
        how = HOW[self.method] + (f" ('{self.method}')" if self.method else "")
        return (
            f"the draft has a vocabulary of its own, with {self.overlap:.1f}% of the target's "
            f"{self.target_tokens:,} tokens{seen}, so {how}{per_word}"
        )

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready, without the maps."""
        return {
            "same": self.same,
            "target_tokens": self.target_tokens,
            "draft_tokens": self.draft_tokens,
            "overlap_percent": self.overlap,
            "same_id_percent": self.same_id,
            "coverage": self.coverage,
            "differing": [asdict(d) for d in self.differing],
            "missing": list(self.missing),
            "fertility": [asdict(f) for f in self.fertility],
            "method": self.method,
            "summary": self.summary,
        }


def vocabulary_size(tokenizer: Any) -> int:
    """One past the highest id that the tokenizer knows (len(tokenizer) miscounts vocabularies with gaps)."""
    vocab = tokenizer.get_vocab()
    return max(vocab.values()) + 1 if vocab else 0


def differing_ids(target: Any, draft: Any) -> tuple[list[int], list[int]]:
    """Ids that do not read the same: those that are a regular token on either side, and the others. Padded embeddings
    and differing added tokens are no other vocabulary: a draft that shares all the rest drafts by id."""
    if target is draft:
        return [], []
    ours, theirs = _by_id(target), _by_id(draft)
    sides = ((vocab, getattr(t, "added_tokens_decoder", {})) for vocab, t in ((ours, target), (theirs, draft)))
    regular = {i for vocab, added in sides for i in vocab if i not in added}
    differing = [i for i in sorted({*ours, *theirs}) if ours.get(i) != theirs.get(i)]
    return [i for i in differing if i in regular], [i for i in differing if i not in regular]


def compare(
    tokenizer: Any, draft_tokenizer: Any, target_name: str, draft_name: str, method: ForeignMethod | None
) -> tuple[VocabularyReport | None, tuple[str, ...]]:
    """The report where the draft has a vocabulary of its own, else None, and what a user should know. Raises
    VocabularyError where such a draft has no way to draft."""
    regular, added = differing_ids(tokenizer, draft_tokenizer)
    if not regular:
        note = f"{len(added)} added tokens differ between {target_name} and {draft_name}; they are never drafted well"
        return None, (note,) if added else ()
    report = check_vocabularies(tokenizer, draft_tokenizer, method)
    if report.method is None:
        raise VocabularyError(
            f"{draft_name} shares no token with {target_name}, and its text cannot be re-encoded; use a draft of the "
            "same model family, or the drafter 'prompt_lookup', which needs none"
        )
    return report, (f"{draft_name} drafts for {target_name}: {report.summary}",)


def check_vocabularies(
    target_tokenizer: Any, draft_tokenizer: Any, method: ForeignMethod | None = None
) -> VocabularyReport:
    """Compares two tokenizers by the bytes of their tokens. Takes about a second for 150,000 of them.

    method: forces how the draft is to draft; None chooses by the share of running text that both have tokens for.
    Raises VocabularyError for a method that does not exist, or that these two cannot be used by."""
    if method not in (None, *FOREIGN_METHODS):
        raise VocabularyError(f"unknown method {method!r} for a foreign draft: use {' or '.join(FOREIGN_METHODS)}")
    words = _map(target_tokenizer, draft_tokenizer)
    regular, _ = differing_ids(target_tokenizer, draft_tokenizer)
    shared = [i for i in words.target if i in words.to_draft]
    fertility = measure(
        partial(encode, target_tokenizer), partial(encode, draft_tokenizer), words.to_draft.__contains__
    )
    ours, theirs = _by_id(target_tokenizer), _by_id(draft_tokenizer)
    report = VocabularyReport(
        same=not regular,
        target_tokens=len(words.target),
        draft_tokens=len(words.draft),
        overlap=_percent(len(shared), len(words.target)),
        same_id=_percent(sum(words.draft.get(i) == b for i, b in words.target.items()), len(words.target)),
        differing=tuple(Difference(i, ours.get(i), theirs.get(i)) for i in regular[:SAMPLES]),
        missing=_samples([word for i, word in words.target.items() if i not in words.to_draft]),
        fertility=fertility,
        method=None,
        words=words,
    )
    possible = _possible(report, target_tokenizer, draft_tokenizer)
    if method is not None and method not in possible:
        raise VocabularyError(
            f"the method {method!r} cannot be used: "
            + ("no token is in both vocabularies" if method == "intersection" else "its text cannot be re-encoded")
        )
    return replace(report, method=method or next(iter(possible), None))


def _possible(report: VocabularyReport, target: Any, draft: Any) -> list[ForeignMethod]:
    """Ways for this draft to draft, the better one first."""
    coverage = report.overlap / 100 if report.coverage is None else report.coverage
    ways: list[ForeignMethod] = ["intersection"] if report.overlap else []
    if all(map(_keeps_text, (target, draft))):
        ways.insert(0 if coverage < ENOUGH_IN_COMMON else 1, "reencoding")
    return ways


def _keeps_text(tokenizer: Any) -> bool:
    """Is a text still the same, by and large, when it has been encoded and decoded? Lower case would do to draft by,
    a tokenizer of whole words that knows none of these would not."""
    ids = encode(tokenizer, ENGLISH)
    back = str(tokenizer.decode(ids, skip_special_tokens=True)).split() if ids else []
    words = Counter(ENGLISH.lower().split())
    return (words & Counter(w.lower() for w in back)).total() >= words.total() / 2


def _map(target: Any, draft: Any) -> VocabularyMap:
    ours, theirs = token_bytes(target), token_bytes(draft)
    first: dict[bytes, int] = {}
    for i, word in theirs.items():
        first.setdefault(word, i)
    to_draft = {i: first[word] for i, word in ours.items() if word in first}
    to_target: dict[int, int] = {}
    for i, other in to_draft.items():  # in the order of `token_bytes`: the one that a tokenizer writes comes first
        to_target.setdefault(other, i)
    for i, other in _special(target, draft, ours, theirs):
        if i not in to_draft and other not in to_target:
            to_draft[i], to_target[other] = other, i
    return VocabularyMap(ours, theirs, to_draft, to_target)


def _special(target: Any, draft: Any, ours: Mapping[int, bytes], theirs: Mapping[int, bytes]) -> list[tuple[int, int]]:
    """Special tokens that answer to each other: by name first, then by role."""
    names = draft.get_vocab()
    pairs = [(i, names[t]) for t, i in target.get_vocab().items() if t in names and i not in ours]
    roles = ((getattr(t, role, None) for t in (target, draft)) for role in ("bos_token_id", "eos_token_id"))
    pairs += [(int(i), int(other)) for i, other in roles if i is not None and other is not None and i not in ours]
    return [(i, other) for i, other in pairs if other not in theirs]


def _by_id(tokenizer: Any) -> dict[int, str]:
    return {i: str(t) for t, i in tokenizer.get_vocab().items()}


def _samples(words: list[bytes]) -> tuple[str, ...]:
    """Up to SAMPLES of those that read as text, from all over."""
    texts = [word.decode() for word in words if is_text(word)]
    return tuple(texts[:: max(-(-len(texts) // SAMPLES), 1)])


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 0.0
