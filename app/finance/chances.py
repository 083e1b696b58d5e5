"""A Monte Carlo run: in a thread of its own, seen on its way, stopped when asked or when nobody looks any more."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from app.catalogue import Words
from app.components.finance_views import blocks
from app.finance import sensitivity_sheets, tco_charts
from app.finance.desk import Desk, Now
from app.finance.faults import told as refusal
from app.finance.shown import number
from pricing.sensitivity import Chances, monte_carlo, ranges

DRAWS = 10_000
BATCH = 2000  # `monte_carlo` asks between so many whether to go on
LOOK_S = 0.1


@dataclass(eq=False)
class ChanceRun:
    """stop: set by the Stop button or by whoever closes the page. asked: how often `monte_carlo` has asked."""

    now: Now
    seed: int = 0
    stop: threading.Event = field(default_factory=threading.Event)
    asked: int = 0
    found: list[Chances] = field(default_factory=list)
    error: BaseException | None = None

    @property
    def draws(self) -> int:
        return len(self.found[0].totals) if self.found else 0

    @property
    def is_drawing(self) -> bool:
        return not (self.stop.is_set() or self.found or self.error)

    def told(self, words: Words) -> Any:
        text = words("chances_running", n=number(self.asked * BATCH, words, 6), of=number(DRAWS, words, 6))
        return blocks({"type": "text", "text": text, "tone": "small"})

    def go_on(self) -> bool:
        self.asked += 1
        return self.stop.is_set()

    def work(self) -> None:
        try:
            self.found = monte_carlo(self.now.scenario, DRAWS, self.seed, self.go_on)
        except Exception as error:
            self.error = error


def run(desk: Desk, words: Words) -> Iterator[tuple[Any, Any]]:
    """Values of (sheet, chart) while it goes on, and what it found at the end."""
    now = desk.now
    if now is None:
        yield blocks({"type": "text", "text": words("nothing_open")}), None
        return
    if not ranges(now.scenario):
        yield blocks({"type": "text", "text": words("no_ranges"), "tone": "fault"}), None
        return
    halt(desk)
    mine = desk.chances = ChanceRun(now)
    worker = threading.Thread(target=mine.work, daemon=True)
    worker.start()
    try:
        told = -1
        while worker.is_alive():
            if mine.asked != told:
                told = mine.asked
                yield mine.told(words), None
            worker.join(LOOK_S)
    finally:
        mine.stop.set()  # also when the page is closed
    if desk.chances is mine:
        yield shown(desk, words)


def shown(desk: Desk, words: Words) -> tuple[Any, Any]:
    """(sheet, chart) of what was found; an invitation where nothing was, or where it is of another scenario."""
    mine: ChanceRun | None = desk.chances
    if mine is not None and mine.now is desk.now and mine.is_drawing:
        return mine.told(words), None
    if mine is None or mine.now is not desk.now or not (mine.found or mine.error):
        told = words("chances_idle", n=number(DRAWS, words, 6)) if desk.chances is None else words("chances_stale")
        return blocks({"type": "text", "text": told, "tone": "small"}), None
    if mine.error is not None:
        refused = isinstance(mine.error, ValueError)  # a draw that cannot be served; else beyond what floats hold
        text = refusal(str(mine.error), "", words) if refused else words("fault_too_large")
        return blocks({"type": "text", "text": text, "tone": "fault"}), None
    stopped = mine.draws < DRAWS
    note = (
        {"type": "text", "text": words("chances_stopped", n=number(mine.draws, words, 6)), "tone": "small"}
        if stopped
        else None
    )
    made = sensitivity_sheets.chances(mine.found, mine.draws, mine.now, words)
    return blocks(note, *made), tco_charts.chances(mine.found, mine.now, words)


def halt(desk: Desk) -> None:
    if desk.chances is not None:
        desk.chances.stop.set()
