"""How a head is trained, checked once when it is made."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from engine.errors import EngineError

METHODS = ("eagle", "medusa")
DRAFT_VOCAB = 16384
MOST_SEED = 2**63 - 1
FORMS = ("eagle3", "eagle")


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """Raises EngineError with one sentence when a value has no meaning.

    method, form: what is trained. draft_vocab: ids that the head can guess, the most frequent ones of the data; 0 is
    all, None is all up to DRAFT_VOCAB.
    taps: hidden states that an EAGLE-3 head reads; None: a low, a middle and a high one. epochs: passes over the data.
    unroll: depths at which an EAGLE head is trained on its own output; for Medusa, the number of heads. layers:
    residual blocks of a Medusa head. lr: the largest learning rate; it rises over `warmup` steps and falls to nothing
    by the last one. batch_tokens: tokens a step. depth_decay: how much less each further position weighs. regress:
    weight of coming near the target's own next state. max_length: longer texts are cut. held_out: share of the lines
    that is never trained on. patience: evaluations without a gain before the training ends. evaluate_every: steps.
    """

    method: str = "eagle"
    form: str = "eagle3"
    draft_vocab: int | None = None
    taps: tuple[int, ...] | None = None
    epochs: int = 8
    unroll: int = 4
    layers: int = 1
    lr: float = 1e-3
    warmup: int = 50
    weight_decay: float = 0.05
    batch_tokens: int = 2048
    depth_decay: float = 0.8
    regress: float = 0.0
    max_length: int = 512
    held_out: float = 0.05
    patience: int = 8
    evaluate_every: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise EngineError(f"unknown method {self.method!r}: a head is trained as {' or '.join(METHODS)}")
        if self.form not in FORMS:
            raise EngineError(f"unknown form {self.form!r}: an EAGLE head is trained as {' or '.join(FORMS)}")
        whole = {"epochs": 1, "unroll": 1, "batch_tokens": 16, "max_length": 8, "patience": 1, "evaluate_every": 1}
        if self.taps is not None and (len({*self.taps}) < len(self.taps) or any(tap < 0 for tap in self.taps)):
            raise EngineError(f"taps must be different layers, counted from 0, not {', '.join(map(str, self.taps))}")
        if self.seed > MOST_SEED:
            raise EngineError(f"seed must be at most {MOST_SEED}, not {self.seed}")
        if self.method == "medusa" and self.layers == 0:
            raise EngineError("a Medusa head without a residual block has nothing to learn; give --layers 1 or more")
        given = {} if self.draft_vocab is None else {"draft_vocab": 0}
        for name, least in {**whole, **given, "layers": 0, "warmup": 0, "seed": 0}.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise EngineError(f"{name} must be a whole number of at least {least}, not {value!r}")
        positive = {"lr": 1.0, "depth_decay": 1.0, "held_out": 0.5}
        for name, high in {**positive, "weight_decay": 10.0, "regress": 100.0}.items():
            number = getattr(self, name)
            low = 0.0 if name not in positive else 1e-9
            if not isinstance(number, int | float) or not math.isfinite(number) or not low <= number <= high:
                above = "above 0" if name in positive else "of at least 0"
                raise EngineError(f"{name} must be a number {above} and at most {high:g}, not {number!r}")
        if self.unroll > 16:
            raise EngineError(f"a head learns at most 16 positions ahead, not {self.unroll}")

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "taps": None if self.taps is None else list(self.taps)}
