"""How to decode: the sampling law and the limits, checked once when they are made."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from engine.errors import EngineError

# Below this a division by the temperature says nothing that argmax does not, and half precision overflows.
GREEDY_BELOW = 1e-5
MAX_K = 64
MAX_NODES = 64
K_CONTROLS = ("fixed", "heuristic", "confidence", "cost")


@dataclass(frozen=True, slots=True)
class DecodeSettings:
    """One run's settings. Raises `EngineError` with one sentence when a value has no meaning.

    k: draft tokens a step (`num_speculative_tokens`), in a tree its depth; 0 is plain decoding.
    tree_nodes: tokens of a drafted tree; 0 drafts chains; None is what the drafter is made for.
    k_control: "fixed"; "heuristic", which asks for two more after a full accept and one less after a rejection;
    "confidence", which stops where the draft's own probability falls below confidence_threshold; "cost", which takes
    what the measured cost of a step and the acceptance so far say is quickest, no draft included. k is then the most.
    temperature: below 1e-5 is greedy (ties go to the lowest id). top_k: 0 or -1 is off, above the vocabulary is
    the vocabulary. top_p: 1 is off, 0 keeps one token. min_p: 0 is off. repetition_penalty: 1 is off; it sees
    the prompt, the output and, at each drafted position, the drafted tokens before it.
    stop: strings that end the output; the text is cut before the stop, the ids end with the token completing it.
    seed: None draws one, which the trace records. ignore_eos: go on past the end-of-sequence tokens.
    """

    k: int = 5
    max_new_tokens: int = 128
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    stop: tuple[str, ...] = ()
    seed: int | None = None
    ignore_eos: bool = False
    tree_nodes: int | None = None
    k_control: str = "fixed"
    confidence_threshold: float = 0.4

    def __post_init__(self) -> None:
        given = (self.stop,) if isinstance(self.stop, str) else self.stop
        stop = tuple(given) if isinstance(given, Iterable) else (given,)
        if not isinstance(self.ignore_eos, bool):
            raise EngineError(f"ignore_eos must be True or False, not {self.ignore_eos!r}")
        if not all(isinstance(s, str) and s for s in stop):
            raise EngineError("stop must be non-empty strings; leave it out to stop only at the end or the length")
        object.__setattr__(self, "stop", stop)
        _whole("k", self.k, 0, MAX_K)
        if self.tree_nodes is not None:
            _whole("tree_nodes", self.tree_nodes, 0, MAX_NODES)
        if self.k_control not in K_CONTROLS:
            raise EngineError(f"k_control must be one of {', '.join(K_CONTROLS)}, not {self.k_control!r}")
        _number("confidence_threshold", self.confidence_threshold, 0.0, 1.0)
        _whole("max_new_tokens", self.max_new_tokens, 0, 1_000_000)
        _whole("top_k", self.top_k, -1, None)
        _number("temperature", self.temperature, 0.0, 100.0)
        _number("top_p", self.top_p, 0.0, 1.0)
        _number("min_p", self.min_p, 0.0, 1.0)
        _number("repetition_penalty", self.repetition_penalty, 0.0, 100.0, above=True)
        if self.seed is not None:
            _whole("seed", self.seed, 0, 2**63 - 1)

    @property
    def greedy(self) -> bool:
        return self.temperature < GREEDY_BELOW

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "stop": list(self.stop)}


def _whole(name: str, value: object, low: int, high: int | None) -> None:
    ok = isinstance(value, int) and not isinstance(value, bool) and value >= low and (high is None or value <= high)
    if not ok:
        span = f"from {low} to {high}" if high is not None else f"of at least {low}"
        raise EngineError(f"{name} must be a whole number {span}, not {value!r}")


def _number(name: str, value: object, low: float, high: float, above: bool = False) -> None:
    ok = isinstance(value, int | float) and not isinstance(value, bool)
    # Comparisons are False for NaN, and hold for whole numbers that no float can.
    if not ok or not (low < value if above else low <= value) or not value <= high:  # type: ignore[operator]
        span = f"above {low:g} and at most {high:g}" if above else f"from {low:g} to {high:g}"
        raise EngineError(f"{name} must be a number {span}, not {value!r}")
