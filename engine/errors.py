"""What the engine says when it cannot go on: one sentence, with what to do."""


class EngineError(ValueError):
    """Bad input or an impossible request. The message is one sentence that a user can act on."""


LONGEST_SENTENCE = 300


def first_line(error: BaseException) -> str:
    return next((" ".join(line.split()) for line in str(error).splitlines() if line.strip()), "")[:LONGEST_SENTENCE]


def sentence(error: BaseException) -> str:
    """The first line of what any error says, with its kind where it is not one of ours."""
    first = first_line(error)
    if isinstance(error, EngineError) and first:
        return first
    return f"{type(error).__name__}: {first}".removesuffix(": ")


class UnsupportedModelError(EngineError):
    """The model's architecture cannot be decoded speculatively here, and why."""


class VocabularyError(EngineError):
    """Target and draft do not speak the same token ids."""
