"""Do target and draft mean the same strings by the same ids? Compared as strings, never by size or by name."""

from typing import Any

from engine.errors import VocabularyError


def vocabulary_size(tokenizer: Any) -> int:
    """One past the highest id that the tokenizer knows (len(tokenizer) miscounts vocabularies with gaps)."""
    vocab = tokenizer.get_vocab()
    return max(vocab.values()) + 1 if vocab else 0


def check_same_vocabulary(target: Any, draft: Any, target_name: str, draft_name: str) -> tuple[str, ...]:
    """Passes when every id of the regular vocabularies reads the same; returns notices on tolerated differences.

    Embeddings padded past the tokenizer and differing added tokens are tolerated: the target's test keeps the output
    law whatever is drafted. Raises VocabularyError with the first differing token, the overlap and what to do.
    """
    if target is draft:
        return ()
    ours = {i: t for t, i in target.get_vocab().items()}
    theirs = {i: t for t, i in draft.get_vocab().items()}
    added = {*getattr(target, "added_tokens_decoder", {}), *getattr(draft, "added_tokens_decoder", {})}
    differing = [i for i in sorted({*ours, *theirs}) if ours.get(i) != theirs.get(i)]
    regular = [i for i in differing if i not in added]
    if not regular:
        if not differing:
            return ()
        return (
            f"{len(differing)} added tokens differ between {target_name} and {draft_name}; they are never drafted well",
        )
    first = regular[0]
    overlap = len({*ours.values()} & {*theirs.values()}) / max(len(ours), 1)
    same = sum(theirs.get(i) == t for i, t in ours.items()) / max(len(ours), 1)

    def reads(vocab: dict[int, str]) -> str:
        return repr(vocab[first]) if first in vocab else "nothing"

    raise VocabularyError(
        f"{target_name} and {draft_name} have different vocabularies: id {first} is {reads(ours)} in the target and "
        f"{reads(theirs)} in the draft (overlap: the draft knows {overlap:.1%} of the target's tokens, {same:.1%} "
        "under the same id); use a draft of the same model family, or the drafter 'prompt_lookup', which needs none"
    )
