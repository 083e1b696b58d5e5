"""A scenario's numbers as columns: one row a draw, so that one arithmetic serves one case and ten thousand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from pricing.scenario import Scenario

# A numpy array; pricing names no numpy, pandas hands it over.
Array = Any


def array(values: Sequence[float]) -> Array:
    """[n] floats."""
    return pd.Series(list(values), dtype=float).to_numpy()


def column(values: Sequence[float]) -> Array:
    """[n, 1]: a row a draw."""
    return array(values).reshape(-1, 1)


class Numbers:
    """numbers("workload.requests_per_day") is that number of every draw, [draws, 1]; the scenario's own, in one row,
    where no draw says otherwise."""

    def __init__(self, scenario: Scenario, draws: Mapping[str, Sequence[float]] | None = None) -> None:
        self._figures = scenario.figures()
        self._drawn = {path: column(values) for path, values in (draws or {}).items()}
        unknown = next((path for path in self._drawn if path not in self._figures), None)
        if unknown is not None:
            raise ValueError(f"there is no number called {unknown} in the scenario {scenario.name}")
        if len({len(values) for values in self._drawn.values()}) > 1:
            raise ValueError("every drawn number needs equally many draws")
        self._columns = dict(self._drawn)
        self.draws = next((len(values) for values in self._drawn.values()), 1)

    def nothing(self, months: int) -> Array:
        """[draws, months] zeros: added to what only some draws or months have, it gives that to all."""
        return column([0.0] * self.draws) + 0.0 * array(range(months)).reshape(1, -1)

    def __call__(self, path: str) -> Array:
        if path not in self._columns:  # asked for once an option, and as a column costs more than the sums on it
            self._columns[path] = column([self._figures[path].value])
        return self._columns[path]


def ceiling(values: Array) -> Array:
    """The next whole number up; what floats leave behind a whole one does not count as more."""
    return -((1e-9 - values) // 1)


def at_least(values: Array, least: float) -> Array:
    """A number or an array of them, none below `least`."""
    return values.clip(min=least) if hasattr(values, "clip") else max(values, least)
