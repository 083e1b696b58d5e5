"""What one browser tab has on its desk: a scenario, what was typed over it, and the arithmetic of it all."""

import math
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy

from app.catalogue import Words
from app.finance import edits, faults
from app.finance.shown import clean
from pricing.exchange import Exchange
from pricing.scenario import CASES, Case, Scenario
from pricing.scenario_file import MOST_BYTES, ScenarioError, load_scenario, parse_scenario, shipped_scenarios
from pricing.tco import Tco, tco


@dataclass(frozen=True)
class Now:
    """A scenario with its case's numbers in it, and what it comes to. Replaced as a whole, so that a reader in another
    thread never sees one without the other."""

    scenario: Scenario
    made: Tco
    seq: int = 0
    """Of the form's message that it was made of."""


@dataclass
class Desk:
    """Lives in gr.State, one a tab, never shared. loaded: as it was opened. base: what the form was drawn from.
    current: with the edits that can be made. now: None until something was opened that can be calculated."""

    tab: str = ""
    name: str = ""
    loaded: Scenario | None = None
    base: Scenario | None = None
    current: Scenario | None = None
    drawn: str = ""
    """The id of the form that was last drawn: edits of an older one are dropped."""
    seq: int = 0
    edits: dict[str, Any] = field(default_factory=dict)
    case: Case = "base"
    faults: dict[str, str] = field(default_factory=dict)
    now: Now | None = None
    picks: dict[str, str] = field(default_factory=dict)
    other: Scenario | None = None
    """What the scenario is compared with; None: with itself as it was opened."""
    to: Exchange | None = None
    """The currency that amounts are shown in too, at the rates that the reader gave."""
    chances: Any = None
    """The Monte Carlo run that is under way or done."""

    def open(self, scenario: Scenario, name: str, words: Words) -> None:
        """A scenario on an empty desk."""
        self.name, self.loaded, self.other, self.case, self.picks = name, scenario, None, "base", {}
        self.edits, self.now = {}, None  # of the one before no figure may stand beside this one's name
        self._draw(scenario)
        self.calculate(words)

    def put(self, scenario: Scenario, words: Words) -> None:
        """The same scenario with other numbers that are not typed ones. What was typed and refused stays typed, but
        not over a number that is new."""
        refused = {key.split("|")[0] for key in self.faults}
        before, after = (held.figures() if held is not None else {} for held in (self.current, scenario))
        kept = {}
        for path, fields in self.edits.items():
            anew = path in before and before[path] != after.get(path)
            left = {name: text for name, text in fields.items() if not anew or f"{path}|{name}" in self.faults}
            if path in refused and left:
                kept[path] = left
        self.edits = kept
        self._draw(scenario)
        self._apply(words)
        self.calculate(words)

    def edit(self, sent: Any, words: Words) -> bool:
        """What the form sent; whether it was of the form that is drawn, and no older than what it sent before."""
        drawn = self.drawn
        if self.base is None or not isinstance(sent, Mapping) or sent.get("id") != drawn:
            return False
        seq = sent["seq"] if isinstance(sent.get("seq"), int) else 0
        if seq < self.seq:  # it was overtaken by a newer one, which says everything
            return False
        self.seq = seq
        given = sent.get("edits")
        self.edits = dict(given) if isinstance(given, Mapping) else {}
        self.case = sent["case"] if sent.get("case") in CASES else "base"
        self._apply(words)
        self.calculate(words)
        return self.drawn == drawn

    def calculate(self, words: Words) -> None:
        """`now` from `current` in its case. What cannot be calculated has its sentence, and the last figures stand."""
        current, drawn, seq = self.current, self.drawn, self.seq
        if current is None:
            return
        try:
            scenario = current.in_case(self.case)
            with numpy.errstate(all="ignore"):  # what overflows is told below, in words
                made = tco(scenario)
            if not all(math.isfinite(option.total) for option in made.options):
                raise OverflowError
            if self.drawn == drawn:  # else another was opened meanwhile, by another thread: it stands
                self.now = Now(scenario, made, seq)
        except (ArithmeticError, ValueError) as error:
            # Of what pricing does not put in words, only numbers beyond what floats hold are left.
            said = faults.told(str(error), "", words)
            self.faults[""] = said if said != str(error) else words("fault_too_large")

    def compared(self) -> tuple[Scenario, Scenario]:
        """(what the scenario is compared with, the scenario), both without their cases."""
        assert self.loaded is not None
        assert self.current is not None
        return self.other or self.loaded, self.current

    def _draw(self, scenario: Scenario) -> None:
        self.base = self.current = scenario
        self.drawn, self.seq, self.faults = uuid.uuid4().hex, 0, {}

    def _apply(self, words: Words) -> None:
        base, drawn = self.base, self.drawn
        if base is not None:
            applied = edits.apply(base, self.edits, words)
            if self.drawn == drawn:
                self.current, self.faults = applied.scenario, dict(applied.faults)


def shipped_names() -> list[tuple[str, str]]:
    """(name of the file, name of the scenario) of those that come with specscope; one that cannot be read has the
    file's."""
    return [(stem, _title(path, path.stat().st_mtime)) for stem, path in shipped_scenarios().items()]


@cache
def _title(path: Path, changed: float) -> str:
    try:
        return load_scenario(path).name
    except ScenarioError:
        return path.stem.replace("_", " ")


def shipped(name: str) -> Scenario:
    """One that comes with specscope. Raises ScenarioError, also for a name that is none of theirs: never a path."""
    if name not in shipped_scenarios():
        raise ScenarioError(f"no scenario is called {clean(name)[:80]}")
    return load_scenario(name)


def from_text(text: Any, name: Any) -> Scenario:
    """From a file or from what a browser has stored: text that nobody vouches for. Raises ScenarioError."""
    title = clean(str(name or ""))[:80] or "scenario.toml"
    if isinstance(text, str) and clean(text) != text:
        raise ScenarioError(f"{title} is not UTF-8 text")
    if not isinstance(text, str) or len(text.encode("utf-8", "replace")) > MOST_BYTES:
        raise ScenarioError(f"{title} has more than {MOST_BYTES:,} bytes; a scenario has fewer")
    return parse_scenario(text, title)
