"""Stand-ins for the engine: steps made by hand and a race that yields them."""

from types import SimpleNamespace

from engine.trace import Alternative, Proposal, Replacement, Step, TokenText

PAIR = SimpleNamespace(target=SimpleNamespace(name="fake"), device="cpu", dtype="float32", draft=None)


def token(text: str, token_id: int = 7) -> TokenText:
    return TokenText(token_id, text)


def plain_step(index: int, text: str = "a") -> Step:
    bonus = Replacement("bonus", token(text), 0.9)
    return Step(index, (7,), (text,), (token(text),), (), bonus, None, 0, 0.0, 20.0, 1.0)


def drafted_step(index: int) -> Step:
    tops = (Alternative(token("b"), 0.6), Alternative(token("c"), 0.1))
    kept = Proposal(token("b"), 0.6, 1.0, 0.31, 0.6, "accepted", tops)
    lost = Proposal(token("x"), 0.1, 1.0, 0.92, 0.1, "rejected", tops)
    late = Proposal(token("y"), 0.1, 1.0, None, 0.1, "rejected")
    end = Replacement("recovered", token("d"), 0.5)
    texts = ("b", "d")
    return Step(index, (7, 7), texts, tuple(map(token, texts)), (kept, lost, late), end, None, 0, 1.0, 20.0, 1.0)


class FakeRace:
    """Yields what it is told to and, like the engine, stops at its next check once cancelled."""

    def __init__(self, items, error=None, on_step=None):
        self.items, self.error, self.on_step = items, error, on_step
        self.cancel = None
        self.given = 0

    def __call__(self, pair, prompt, settings, *, drafter, verifier, cancel, alternatives):
        self.cancel, self.settings = cancel, settings
        return self

    def __iter__(self):
        for item in self.items:
            if self.cancel.is_set():
                break
            self.given += 1
            if self.on_step:
                self.on_step(self)
            yield item
        if self.error:
            raise self.error

    @property
    def speculative(self):
        reason = "cancelled" if self.cancel.is_set() else "length"
        return SimpleNamespace(generation=SimpleNamespace(finish_reason=reason, trace=SimpleNamespace(notices=())))


def items(steps: int) -> list[tuple[str, Step]]:
    return [pair for i in range(steps) for pair in (("speculative", plain_step(i)), ("plain", plain_step(i)))]
