"""Earlier outputs, kept so that a later run of the same tenant may draft from them."""

import threading
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from itertools import islice

from engine.drafters.automaton import BREAK, Automaton
from engine.errors import EngineError

MAX_TOKENS = 32_768  # about 18 MB of Python objects, once automata stand over them
MAX_OUTPUTS = 1_000
MAX_TENANTS = 64
STALE_SHARE = 8


class OutputMemory:
    """A bounded store of outputs by tenant. Off unless you pass one, and no tenant ever drafts from another's.

    max_tokens, max_outputs: for each tenant; the oldest outputs go first, and an output longer than all of it leaves
    its end. max_tenants: the one that was not used for longest goes first. tenant: whoever may know of all that is
    kept under that name, since what is drafted, and how fast, shows what was said before. It is held in memory only.
    Any number of threads and runs may share one.
    """

    def __init__(
        self, max_tokens: int = MAX_TOKENS, max_outputs: int = MAX_OUTPUTS, max_tenants: int = MAX_TENANTS
    ) -> None:
        for name, value in (("max_tokens", max_tokens), ("max_outputs", max_outputs), ("max_tenants", max_tenants)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise EngineError(f"{name} must be a whole number of at least 1, not {value!r}")
        self.max_tokens, self.max_outputs, self.max_tenants = max_tokens, max_outputs, max_tenants
        self._lock = threading.Lock()
        self._shelves: OrderedDict[str, _Shelf] = OrderedDict()

    def add(self, tenant: str, ids: Sequence[int]) -> None:
        """Keep one output's token ids. Raises EngineError for an id below 0."""
        kept = tuple(ids[-self.max_tokens :]) if isinstance(ids, Sequence) else (None,)
        if not all(type(i) is int and 0 <= i < 2**31 for i in kept):
            raise EngineError("an output is a list of token ids, whole numbers of at least 0")
        if not kept:
            return
        with self._lock:
            shelf = self._shelf(tenant)
            if shelf is None:
                shelf = self._shelves[tenant] = _Shelf()
                if len(self._shelves) > self.max_tenants:
                    self._shelves.popitem(last=False)
        shelf.add(kept, self.max_tokens, self.max_outputs)

    def outputs(self, tenant: str) -> list[tuple[int, ...]]:
        """What is kept of a tenant's outputs, the oldest first."""
        with self._lock:
            shelf = self._shelf(tenant)
        return shelf.held() if shelf else []

    def forget(self, tenant: str) -> None:
        """Drop all of a tenant's outputs. A run that began before still drafts from them until it ends."""
        with self._lock:
            if self._shelf(tenant):
                del self._shelves[tenant]

    def snapshot(self, tenant: str) -> tuple[Automaton, ...]:
        """Automata over a tenant's outputs, which grow no more and are shared by its runs: the latest outputs' first.

        What was dropped may be in them still, up to an eighth of all that they hold.
        """
        with self._lock:
            shelf = self._shelf(tenant)
        return shelf.snapshot() if shelf else ()

    def _shelf(self, tenant: str) -> "_Shelf | None":
        if not isinstance(tenant, str):
            raise EngineError(f"a tenant must be named by a string, not {tenant!r}")
        if tenant in self._shelves:
            self._shelves.move_to_end(tenant)
        return self._shelves.get(tenant)


class _Shelf:
    """One tenant's outputs, and two automata: a large one, made anew when an eighth of it is out of date, and a small
    one over what came since. So a run that begins reads again, on average, a sixteenth of what is kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._outputs: deque[tuple[int, ...]] = deque()
        self._tokens = 0
        self._large: Automaton | None = None
        self._small: Automaton | None = None
        self._since = 0  # outputs that the large one lacks
        self._unread = 0  # their tokens
        self._dropped = 0  # tokens that it holds and that are kept no more

    def held(self) -> list[tuple[int, ...]]:
        with self._lock:
            return list(self._outputs)

    def add(self, ids: tuple[int, ...], max_tokens: int, max_outputs: int) -> None:
        with self._lock:
            self._outputs.append(ids)
            self._tokens += len(ids)
            self._since += 1
            self._unread += len(ids)
            self._small = None
            while self._tokens > max_tokens or len(self._outputs) > max_outputs:
                gone = len(self._outputs.popleft())
                self._tokens -= gone
                if len(self._outputs) < self._since:  # it was dropped before it was read
                    self._since, self._unread = self._since - 1, self._unread - gone
                else:
                    self._dropped += gone

    def snapshot(self) -> tuple[Automaton, ...]:
        with self._lock:
            if self._large is None or (self._unread + self._dropped) * STALE_SHARE > len(self._large):
                self._large, self._small = _automaton(self._outputs), None
                self._since = self._unread = self._dropped = 0
            elif self._small is None and self._since:
                self._small = _automaton(islice(self._outputs, len(self._outputs) - self._since, None))
            return (self._large,) if self._small is None else (self._small, self._large)


def _automaton(outputs: Iterable[tuple[int, ...]]) -> Automaton:
    made = Automaton()
    for ids in outputs:
        made.extend(ids)
        made.extend((BREAK,))
    return made
