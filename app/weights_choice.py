"""In which form the page's model is held: the user's choice, each form loaded once, when somebody first asks for it."""

import threading
from collections.abc import Callable
from typing import Any

Load = Callable[[str], Any]


class WeightsChoice:
    """first: the pair that the page starts with. load: gives the same pair under another quantization; without it
    there is nothing to choose."""

    def __init__(self, first: Any, load: Load | None = None, names: tuple[str, ...] = ()) -> None:
        self.first = first
        self.names = tuple(dict.fromkeys((first.quantization, *names))) if load else (first.quantization,)
        self._load = load
        self._loaded = {first.quantization: first}
        self._lock = threading.Lock()

    def get(self, name: str) -> Any:
        """The pair under this quantization; the one that the page started with for a name that was never offered.
        Raises EngineError or OSError as loading does."""
        with self._lock:  # two people who ask at once wait for one load
            if name in self.names and name not in self._loaded and self._load is not None:
                self._loaded[name] = self._load(name)
            pair = self._loaded.get(name, self.first)
            if threads := getattr(pair.target, "threads", None):
                set_threads(threads)  # of the process: another form may have had another count
            return pair


def set_threads(count: int) -> None:
    import torch

    torch.set_num_threads(count)
