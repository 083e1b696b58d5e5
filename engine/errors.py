"""What the engine says when it cannot go on: one sentence, with what to do."""


class EngineError(ValueError):
    """Bad input or an impossible request. The message is one sentence that a user can act on."""


class UnsupportedModelError(EngineError):
    """The model's architecture cannot be decoded speculatively here, and why."""


class VocabularyError(EngineError):
    """Target and draft do not speak the same token ids."""
