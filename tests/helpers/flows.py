"""Money by month whose rate of return is known before anybody looks for it, and a sheet that works such rates out."""

import math
import random
from dataclasses import dataclass
from datetime import datetime

from helpers.scenarios import scenario
from pricing.export.grid import Grid, Row
from pricing.export.words import Words
from pricing.export.workbook import Workbook
from pricing.export.xlsx_demand import Demand
from pricing.export.xlsx_inputs import Inputs
from pricing.export.xlsx_rate import RateSearch

KINDS = (
    "loss", "late_loss", "next_to_all_lost", "nothing_left", "tiny", "usual", "huge", "paid_for_months", "refresh",
    "rounding", "residue", "many_turns", "never",
)  # fmt: skip


@dataclass(frozen=True)
class Flows:
    """yearly: the rate that the flows were made for, None where they were not made for one."""

    kind: str
    flows: tuple[float, ...]
    yearly: float | None


def some_flows(count: int, seed: int) -> list[Flows]:
    """As many of each kind, of 12 to 60 months. Yearly rates from -99 % (and all but everything lost within months)
    over 0.00001 % to 2,000,000 %."""
    chance = random.Random(seed)
    return [_made(KINDS[i % len(KINDS)], chance.choice((12, 24, 36, 60)), chance) for i in range(count)]


def _made(kind: str, months: int, chance: random.Random) -> Flows:
    later = [chance.uniform(0.2, 5) * chance.choice((1, 1, 1000)) for _ in range(months)]
    gain, loss = chance.uniform(0, 3), -chance.uniform(0.01, 0.99)
    either = chance.choice((gain, loss))
    match kind:
        case "late_loss":
            begin = chance.randrange(1, months)
            end = chance.randrange(begin, months) + 1
            return _priced(kind, loss, [later[t] if begin <= t < end else 0.0 for t in range(months)])
        case "tiny" | "huge":
            yearly = 10 ** (chance.uniform(-7, -2) if kind == "tiny" else chance.uniform(1, 4.3))
            return _priced(kind, yearly, later)
        case "loss" | "usual":
            return _priced(kind, loss if kind == "loss" else gain, later)
        case "paid_for_months":
            paid = chance.randrange(2, 7)
            first = _priced(kind, either, [0.0] * paid + later[paid:])
            share = _worth([1.0] * paid, either)  # the same each month
            return Flows(kind, (*[first.flows[0] / share] * paid, *first.flows[paid:]), first.yearly)
        case "rounding":
            made = _priced(kind, either, later)
            around = 1e-13 * max(map(abs, made.flows))
            return Flows(kind, tuple(flow + chance.uniform(-around, around) for flow in made.flows), made.yearly)
        case "next_to_all_lost" | "nothing_left" | "residue":
            first, back = chance.randrange(0, 3), chance.randrange(1, 4)
            powers = {"next_to_all_lost": (0.5, 5.5), "nothing_left": (6, 8), "residue": (-3, 5)}[kind]
            ratio = 10 ** chance.uniform(*powers)  # a month's discount; of "nothing_left" beyond the largest
            around = 1e-13 if kind == "residue" else 0.0
            flows = [chance.uniform(-around, around) for _ in range(months + 1)]
            flows[first], flows[first + back] = -1.0, ratio**-back
            beyond = kind == "nothing_left" or ratio**-back < 1e-9
            return Flows(kind, tuple(flows), None if beyond else ratio**-12 - 1)
        case "refresh":
            flows = [-chance.uniform(5, 50), *(chance.uniform(0.5, 8) for _ in range(months))]
            for _ in range(chance.randrange(1, 4)):
                flows[chance.randrange(1, months)] -= chance.uniform(1, 15)
            return Flows(kind, tuple(flows), None)
        case "many_turns":
            return Flows(kind, tuple(chance.uniform(-10, 10) for _ in range(months + 1)), None)
        case _:
            sign = chance.choice((-1, 0, 1))
            return Flows(kind, tuple(sign * flow for flow in (0.0, *later)), None)


def _priced(kind: str, yearly: float, later: list[float]) -> Flows:
    """What is got later, for the payment today that makes its rate this one. Where some of it is as small as rounding
    beside that payment, no rate is claimed: the rule leaves it out."""
    paid = _worth([0.0, *later], yearly)
    told = min(flow for flow in later if flow) > 1e-9 * paid
    return Flows(kind, (-paid, *later), yearly if told else None)


def _worth(flows: list[float], yearly: float) -> float:
    return math.fsum(flow * (1 + yearly) ** (-month / 12) for month, flow in enumerate(flows))


class RateSheet:
    """A workbook of a term's rows of flows, nothing in them yet, each with the formulas of its rate."""

    def __init__(self, months: int, rows: int) -> None:
        self.book = Workbook("USD", datetime(2026, 11, 30))
        sheet = self.book.add("Inputs")
        self.calculation = self.book.add("Calculation")
        words, made = Words(), scenario(years=months // 12)
        x = Inputs(sheet, made, words, sheet.put(3, 5, 1))
        grid = Grid(self.calculation, months)
        time = Demand(grid, x, made, words).time
        self._grid, self._search = grid, RateSearch(grid, x, time, "USD", words)
        self.rows = [self.add([0.0] * (months + 1)) for _ in range(rows)]

    def add(self, flows: tuple[float, ...] | list[float]) -> tuple[Row, object]:
        """(the row of flows, the cell of its monthly rate)"""
        saved = self._grid.line("saved", "USD", lambda t: flows[t], first=0)  # type: ignore[arg-type, return-value]
        summed = self._grid.running("so far", "USD", lambda before, t: before + saved[t])
        return saved, self._search.monthly(saved, summed)
