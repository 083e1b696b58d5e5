"""What rented GPUs cost, month by month: each part of the fleet, and what is owed for it when the term is over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pricing.export.formula import Formula, largest, round_down, still_running, when
from pricing.export.grid import Grid, Row
from pricing.export.words import Words
from pricing.export.xlsx_demand import Demand, Fleet
from pricing.export.xlsx_inputs import Inputs


@dataclass(frozen=True)
class Part:
    """Of a fleet, at one price. beyond: to be paid after the term, for what is rented in a month."""

    gpus: Row
    cost: Row
    beyond: Row


class Rented:
    """Writes the parts of a cloud's fleet into the grid."""

    def __init__(self, grid: Grid, x: Inputs, need: Demand, currency: str, words: Words) -> None:
        self.grid, self.x, self.need, self.currency, self.words = grid, x, need, currency, words

    def parts(self, option: int, count: int, fleet: Fleet) -> list[Part]:
        dealt = self._dealt_out(option, count, fleet)
        return [self._part(option, i, replicas) for i, replicas in enumerate(dealt)]

    def _dealt_out(self, option: int, count: int, fleet: Fleet) -> list[Row]:
        """Whole replicas for each part, as many as there are in all; see `pricing.bill.dealt_out`."""
        if count == 1:
            return [fleet.replicas]
        x, words = self.x, self.words
        nothing = x.constant("tolerance")
        quotas, wholes = [], []
        for i in range(count):
            share = x(f"cloud.{option}.parts.{i}.fleet_share")
            quota = self.grid.line(
                words("calc.part_quota", part=i + 1), words("unit.replicas"),
                lambda t, share=share: fleet.replicas[t] * share, "number", whole=None,  # type: ignore[misc]
            )  # fmt: skip
            quotas.append(quota)
            wholes.append(self._count("calc.part_whole", i + 1, lambda t, q=quota: round_down(q[t] + nothing)))  # type: ignore[misc]
        more = self.grid.line(
            words("calc.parts_more"), words("unit.replicas"),
            lambda t: fleet.replicas[t] - sum_of([whole[t] for whole in wholes]), "count", whole=None,
        )  # fmt: skip

        def ahead(i: int, t: int) -> Formula:
            """How many parts have a larger remainder, or an equal one and stand before it."""
            own = quotas[i][t] - wholes[i][t]
            found = []
            for j in range(count):
                other = quotas[j][t] - wholes[j][t]
                if j > i:
                    found.append(when(other - own > nothing, 1, 0))
                elif j < i:
                    found.append(when(own - other > nothing, 0, 1))
            return sum_of(found)

        return [
            self._count(
                "calc.part_dealt", i + 1,
                lambda t, i=i: wholes[i][t] + when(ahead(i, t) < more[t] - nothing, 1, 0),  # type: ignore[misc]
            )
            for i in range(count)
        ]  # fmt: skip

    def _part(self, option: int, part: int, dealt: Row) -> Part:
        grid, x, words, need, number = self.grid, self.x, self.words, self.need, part + 1
        own, time = f"cloud.{option}.parts.{part}", self.need.time
        idle = x.by_the_hour(option, part) * (1 - x("workload.hours_on_share"))
        hours = time.hours_per_month * (1 - idle)
        hours = grid.value(words("calc.part_hours", part=number), words("unit.hours"), hours)
        there = 1 - x(f"{own}.interruption_share")
        replicas = self._count("calc.part_replicas", number, lambda t: need.whole_up(dealt[t] / there))
        per_replica, per_instance = x("serving.gpus_per_replica"), x(f"cloud.{option}.gpus_per_instance")
        needed = self._count(
            "calc.part_instances", number, lambda t: need.whole_up(replicas[t] * per_replica / per_instance)
        )
        term, month = x.term_months(option, part), time.month
        rented = grid.history(
            words("calc.part_rented", part=number), words("unit.pieces"),
            lambda before, t: largest(0, needed[t] - still_running(before, month.until(t - 1), month[t], term)),
            "count",
        )  # fmt: skip
        held = self._count(
            "calc.part_held", number,
            lambda t: rented[t] + still_running(rented.until(t - 1), month.until(t - 1), month[t], term),
        )  # fmt: skip
        gpus = self._count("calc.part_gpus", number, lambda t: held[t] * per_instance)
        price = x(f"{own}.per_gpu_hour")
        cost = grid.line(words("calc.part_cost", part=number), self.currency, lambda t: gpus[t] * price * hours)
        beyond = grid.line(
            words("calc.part_beyond", part=number), self.currency,
            lambda t: rented[t] * per_instance * largest(0, term - time.left[t]) * price * hours,
        )  # fmt: skip
        return Part(gpus, cost, beyond)

    def _count(self, key: str, part: int, formula: Callable[[int], Formula]) -> Row:
        return self.grid.line(self.words(key, part=part), self.words("unit.pieces"), formula, "count", whole=None)


def sum_of(parts: list[Formula]) -> Formula:
    whole = parts[0]
    for part in parts[1:]:
        whole = whole + part
    return whole
