"""K control: how many tokens to draft next. One controller a run; what it has learned belongs to that run.

The output law holds whatever a controller does, because it decides on the past alone: how deep to draft before a step
begins, whether to go on before a token is drawn (never after: to drop a drawn token would change the law), and which of
a deterministic draft's tokens to send, which are a function of the past too.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence

from engine.costs import Costs
from engine.drafters.base import UNSURE, Draft, Open, Outcome
from engine.errors import EngineError
from engine.settings import DecodeSettings
from engine.tree import depths

QUICKER = "a step without a draft is quicker here"
HEURISTIC_START = 5


class Control(Open):
    """Fixed K, and what the others change of it. rows: sequences that share the target's next forward."""

    rows = 1
    notice: str | None = None

    def prepare(self, rows: int) -> None:
        """Before a step's clock runs: so many sequences will share the target's next forward."""
        self.rows = rows

    def depth(self, room: int) -> int:
        """How deep to draft, of at most `room`; 0 is a plain step."""
        return room

    def trim(self, draft: Draft) -> Draft:
        """What of a draft to verify."""
        return draft

    def observe(self, outcome: Outcome) -> None:
        """What became of it."""


class Heuristic(Control):
    """transformers' "heuristic" schedule: two more after a full accept, one less after a rejection, at least one."""

    def __init__(self, k: int) -> None:
        self.most, self.k = k, min(k, HEURISTIC_START)

    def depth(self, room: int) -> int:
        return min(self.k, room)

    def observe(self, outcome: Outcome) -> None:
        draft = outcome.draft
        if draft.tokens:
            deepest = max(depths(draft.parents)) + 1 if draft.parents else len(draft.tokens)
            whole = outcome.accepted == deepest
            self.k = min(self.k + 2, self.most) if whole else max(self.k - 1, 1)


class Confidence(Control):
    """Stops where the draft's own probability falls below a threshold. transformers' assistant_confidence_threshold
    keeps the first unsure token; here it is not drawn."""

    asks = True

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold

    def goes_on(self, confidence: float, depth: int) -> bool:
        return confidence >= self.threshold

    def trim(self, draft: Draft) -> Draft:
        if draft.probs is not None or draft.confidence is None:
            return draft
        kept: list[int] = []
        for i, confidence in enumerate(draft.confidence):
            if confidence >= self.threshold and (draft.parent(i) < 0 or draft.parent(i) in kept):
                kept.append(i)
        return part(draft, kept, UNSURE)


class CostOptimal(Control):
    """The draft with the most expected tokens a second, by the measured cost of a step and the running acceptance.

    A token's chance is its drafter's own confidence, corrected by what became of such tokens in this run: they are
    counted by source and confidence, and the guess counts as PRIOR observations. With no confidence given, the chance
    at each depth is counted instead. A draft's worth is 1 + the sum over its tokens of the product of the chances on
    the path (Medusa's and EAGLE-2's value of a tree); the tokens worth most are sent, as many as make the quickest
    step. Drafting itself costs something too: while no draft pays, it is tried again after ever longer pauses.
    """

    asks = True
    PRIOR = 6.0
    BINS = 8
    GUESS = 0.6  # of a token that nobody has a guess for
    LONGEST_PAUSE = 32
    CHEAP = 0.03  # share of a step that a draft may cost without being asked whether it pays

    def __init__(self, costs: Callable[[int], Costs]) -> None:
        """costs: for so many rows."""
        self._costs = costs
        self._measured: Costs | None = None
        self._tested: defaultdict[object, float] = defaultdict(float)
        self._stood: defaultdict[object, float] = defaultdict(float)
        self._pause, self._wait, self._asked = 1, 0, False
        self._chance, self._worth = 1.0, 1.0

    def prepare(self, rows: int) -> None:
        if self._measured is None or rows != self.rows:
            self.rows, self._measured = rows, self._costs(rows)  # measured once, and not in anybody's step

    @property
    def costs(self) -> Costs:
        if self._measured is None:
            self._measured = self._costs(self.rows)
        return self._measured

    @property
    def notice(self) -> str:  # type: ignore[override]
        return self.costs.summary

    def depth(self, room: int) -> int:
        costs = self.costs
        self._chance = self._worth = 1.0
        self._asked = False
        if costs.draft(1) < self.CHEAP * costs.step(1):
            return room
        if self._wait > 0:
            self._wait -= 1
            return 0
        self._asked = True
        reach, worth, best, rate = 1.0, 1.0, 0, 1.0 / costs.step(1)
        for n in range(1, room + 1):
            reach *= self._mean(("depth", n - 1), self.GUESS)
            worth += reach
            if (found := worth / (costs.step(n + 1) + costs.draft(n))) > rate:
                best, rate = n, found
        if best == 0:
            self._lengthen()
        return max(best, 1)  # a try before the pause, where nothing seems to pay

    def _lengthen(self) -> None:
        self._pause = min(2 * self._pause, self.LONGEST_PAUSE)
        self._wait = self._pause

    def goes_on(self, confidence: float, depth: int) -> bool:
        # The law that is asked about has been paid for already, whether a token is drawn from it or not.
        costs = self.costs
        chance = self._chance * self._corrected("draft", confidence)
        now = self._worth / (costs.step(depth + 1) + costs.draft(depth + 1))
        then = (self._worth + chance) / (costs.step(depth + 2) + costs.draft(depth + 1))
        if then <= now:
            return False
        self._chance, self._worth = chance, self._worth + chance
        return True

    def trim(self, draft: Draft) -> Draft:
        if draft.probs is not None or not draft.tokens:
            return draft
        reach, deep = self._reach(draft), depths(self._parents(draft))
        # A token is never worth more than the one before it, which has the lower index: prefixes of this are trees.
        order = sorted(range(len(reach)), key=lambda i: (-reach[i], i))
        costs, deepest = self.costs, max(deep) + 1
        worth, best, rate = 1.0, 0, 1.0 / (costs.step(1) + costs.draft(deepest))
        for n, i in enumerate(order, 1):
            worth += reach[i]
            if (found := worth / (costs.step(n + 1) + costs.draft(deepest))) > rate:
                best, rate = n, found
        return part(draft, sorted(order[:best]), QUICKER)

    def observe(self, outcome: Outcome) -> None:
        draft = outcome.draft
        if self._asked and not draft.tokens:
            self._lengthen()  # it was paid for, and nothing of it was worth sending
        elif outcome.path:
            self._pause = 1
        if not draft.tokens:
            return
        deep, stood = depths(self._parents(draft)), {*outcome.path}
        reached = {-1, *outcome.path}
        seen: dict[int, bool] = {}
        for i in range(len(draft.tokens)):
            if draft.parent(i) not in reached:
                continue
            key = self._key(draft, i, deep[i])
            self._tested[key] += 1
            self._stood[key] += i in stood
            seen[deep[i]] = seen.get(deep[i], False) or i in stood
        for depth, any_stood in seen.items():
            self._tested["depth", depth] += 1
            self._stood["depth", depth] += any_stood

    def _reach(self, draft: Draft) -> list[float]:
        """Of each token, the chance that it and all before it are taken."""
        deep, found = depths(self._parents(draft)), list[float]()
        for i in range(len(draft.tokens)):
            guess = self.GUESS if draft.confidence is None else draft.confidence[i]
            chance = self._mean(self._key(draft, i, deep[i]), guess)
            parent = draft.parent(i)
            found.append(chance * (found[parent] if parent >= 0 else 1.0))
        return found

    def _key(self, draft: Draft, i: int, depth: int) -> object:
        source = draft.sources[i] if draft.sources else "draft"
        if draft.confidence is None:
            return source, "depth", min(depth, self.BINS)
        return source, self._bin(draft.confidence[i])

    def _bin(self, confidence: float) -> int:
        return min(int(confidence * self.BINS), self.BINS - 1)

    def _corrected(self, source: str, confidence: float) -> float:
        return self._mean((source, self._bin(confidence)), confidence)

    def _mean(self, key: object, guess: float) -> float:
        return (self.PRIOR * guess + self._stood[key]) / (self.PRIOR + self._tested[key])

    @staticmethod
    def _parents(draft: Draft) -> Sequence[int]:
        return range(-1, len(draft.tokens) - 1) if draft.parents is None else draft.parents


def part(draft: Draft, kept: Sequence[int], note: str) -> Draft:
    """A deterministic draft's tokens at `kept`. note: why, where none is."""
    return draft.part(kept) if kept or not draft.tokens else Draft(note=draft.note or note)


def make_control(settings: DecodeSettings, costs: Callable[[int], Costs]) -> Control:
    match settings.k_control:
        case "fixed":
            return Control()
        case "heuristic":
            return Heuristic(settings.k)
        case "confidence":
            return Confidence(settings.confidence_threshold)
        case "cost":
            return CostOptimal(costs)
    raise EngineError(f"unknown k_control {settings.k_control!r}")
