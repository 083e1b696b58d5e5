"""Stand-ins for the engine: steps made by hand, a race that yields them, and the handler run over it."""

from dataclasses import replace
from types import SimpleNamespace

import torch

from app import explore
from app.form import Form
from app.session import Session
from engine.settings import DecodeSettings
from engine.trace import Alternative, Proposal, Replacement, Step, TokenText

CONFIG = {
    "num_hidden_layers": 30, "hidden_size": 576, "intermediate_size": 1536, "num_attention_heads": 9,
    "num_key_value_heads": 3, "vocab_size": 49152, "tie_word_embeddings": True,
}  # fmt: skip


def fake_runner(config=CONFIG, name="fake"):
    """The size of SmolLM2-135M, without its weights: no head that was made for those is its own."""
    return SimpleNamespace(
        name=name, config=config, n_params=134_515_008, num_layers=30, vocab_size=49152, device="cpu",
        embed=lambda ids: torch.zeros(len(ids), 576),
    )  # fmt: skip


def fake_pair(**changes):
    fields = {
        "target": fake_runner(), "device": "cpu", "dtype": "float32", "precision": "float32", "quantization": "none",
        "draft": None, "context_length": 512, "notices": (),
    }  # fmt: skip
    return SimpleNamespace(**{**fields, **changes})


PAIR = fake_pair()


def token(text: str, token_id: int = 7) -> TokenText:
    return TokenText(token_id, text)


def plain_step(index: int, text: str = "a", ms: float = 21.0, token_id: int = 7) -> Step:
    bonus = Replacement("bonus", token(text, token_id), 0.9)
    return Step(index, (token_id,), (text,), (token(text, token_id),), (), bonus, None, 0, 0.0, ms - 1.0, 1.0)


def drafted_step(index: int) -> Step:
    """Two tokens in 22 ms: one accepted, one rejected, one untested, one recovered."""
    tops = (Alternative(token("b"), 0.6), Alternative(token("c"), 0.1))
    kept = Proposal(token("b"), 0.6, 1.0, 0.31, 0.6, "accepted", tops)
    lost = Proposal(token("x"), 0.1, 1.0, 0.92, 0.1, "rejected", tops)
    late = Proposal(token("y"), 0.1, 1.0, None, 0.1, "rejected")
    end = Replacement("recovered", token("d"), 0.5)
    texts = ("b", "d")
    return Step(index, (7, 7), texts, tuple(map(token, texts)), (kept, lost, late), end, None, 0, 1.0, 20.0, 1.0)


def tree_step(index: int, text: str = "", q: float = 1.0) -> Step:
    """Six tokens at temperature 0: "b" then "c" stand and "d" behind them fell, "!" in its place; "x" beside "b" fell,
    so "y" and "z" behind it were never reached. text: stands before every token's own letter."""

    guesses = (
        ("b", -1, 0.7, "accepted", "suffix"),
        ("x", -1, 0.2, "rejected", "recycling"),
        ("c", 0, 0.6, "accepted", "suffix"),
        ("d", 2, 0.1, "rejected", "recycling"),
        ("y", 1, 0.9, "rejected", "recycling"),
        ("z", 4, 0.8, "rejected", "recycling"),
    )
    made = [token(text + letter, i) for i, (letter, *_) in enumerate(guesses)]
    tops = {at: tuple(Alternative(made[i], g[2]) for i, g in enumerate(guesses) if g[1] == at) for at in range(-1, 6)}
    proposals = tuple(
        Proposal(made[i], float(status == "accepted"), q, None, p, status, tops[parent], (), parent, source)
        for i, (_, parent, p, status, source) in enumerate(guesses)
    )
    texts = tuple(text + letter for letter in "bc!")
    end = Replacement("recovered", token(texts[2]), 0.8)
    return Step(index, (7, 7, 7), texts, tuple(map(token, texts)), proposals, end, None, 0, 1.0, 20.0, 1.0)


class FakeRace:
    """Yields what it is told to, arms of any length, and, like the engine, stops at its next check once cancelled.

    held_back: a step that takes the place of the last speculative one when the race is closed, as the engine's does
    when it lets go of text. notices: what the trace tells the user.
    """

    def __init__(self, items, error=None, on_step=None, held_back=None, notices=(), prompt="<|user|>hello"):
        self.items, self.error, self.on_step, self.held_back = items, error, on_step, held_back
        self.notices, self.prompt = notices, prompt
        self.cancel = None
        self.given, self.closed = 0, 0
        self.settings = DecodeSettings()
        self.finished = False
        self.arms = {"speculative": [], "plain": []}

    def __call__(self, pair, prompt, settings, *, drafter, verifier, cancel, alternatives):
        self.cancel, self.settings = cancel, settings
        return self

    def __iter__(self):
        for arm, step in self.items:
            if self.cancel.is_set():
                return
            self.given += 1
            self.arms[arm].append(step)
            if self.on_step:
                self.on_step(self)
            yield arm, step
        if self.error:
            raise self.error
        self.finished = True

    def close(self):
        self.closed += 1
        if self.held_back:
            self.arms["speculative"][-1] = self.held_back

    @property
    def speculative(self):
        trace = SimpleNamespace(
            steps=tuple(self.arms["speculative"]),
            notices=self.notices,
            prompt_text=self.prompt,
            prompt_token_ids=(1, 2, 3),
            settings={**self.settings.as_dict(), "seed": 4242 if self.settings.seed is None else self.settings.seed},
        )
        reason = "length" if self.finished else "cancelled"
        return SimpleNamespace(generation=SimpleNamespace(finish_reason=reason, trace=trace))


def items(steps: int) -> list[tuple[str, Step]]:
    return [pair for i in range(steps) for pair in (("speculative", plain_step(i)), ("plain", plain_step(i)))]


def drafted_run(steps: int) -> list[tuple[str, Step]]:
    """A prompt's reading, then `steps` drafted steps of two tokens each, and plain decoding as far."""
    run = [("speculative", plain_step(0)), ("plain", plain_step(0))]
    for i in range(steps):
        run.append(("speculative", drafted_step(i + 1)))
        run += [("plain", plain_step(2 * i + j)) for j in (1, 2)]
    return run


FORM = Form("hello", "prompt_lookup", 5, "rejection", 0.0)


class Clock:
    """Each look at the clock finds `tick` seconds gone."""

    def __init__(self, tick: float):
        self.now, self.tick = 0.0, tick

    def __call__(self) -> float:
        self.now += self.tick
        return self.now


def start(race, session=None, form=FORM, tick=0.02, pair=PAIR):
    return explore.run(pair, session or Session(), form, race, clock=Clock(tick))


def run(*args, **kwargs):
    return list(start(*args, **kwargs))


def figures_of(*args, **kwargs):
    return run(*args, **kwargs)[-1][2]


def chosen(**changes):
    return replace(FORM, **changes)
