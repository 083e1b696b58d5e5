"""What rented GPUs cost, month by month: each part of the fleet, and what is owed for it when the term is over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pricing.bill import longest_first
from pricing.export.formula import Cells, Formula, largest, round_down, still_running, when
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

    def parts(self, option: int, terms: list[int], fleet: Fleet) -> list[Part]:
        """terms: months that each part is reserved for."""
        replicas = [fleet.replicas] if len(terms) == 1 else self._run(option, terms, fleet)
        return [self._part(option, i, each) for i, each in enumerate(replicas)]

    def _run(self, option: int, terms: list[int], fleet: Fleet) -> list[Row]:
        """Replicas that each part runs; see `pricing.bill.run`."""
        shares = [self.x(f"cloud.{option}.parts.{i}.fleet_share") for i in range(len(terms))]
        due = self._dealt_out("calc.part", dict(enumerate(shares)), lambda t: fleet.replicas[t])
        found, idle = dict(due), None
        for i in longest_first(terms):
            found[i], idle = self._reserved(i, self.x.term_months(option, i), due[i], idle)
        monthly = [i for i, term in enumerate(terms) if term == 1]
        if idle is not None and monthly:
            found |= self._left_over({i: due[i] for i in monthly}, {i: shares[i] for i in monthly}, idle)
        return [found[i] for i in range(len(terms))]

    def _reserved(self, part: int, term: Formula, due: Row, idle: Row | None) -> tuple[Row, Row]:
        """(replicas that it holds, those that parts up to it hold beyond their shares). idle: those of the ones before
        it, so many fewer of which it reserves."""
        month = self.need.time.month

        def held_before(rented: Cells, t: int) -> Formula:
            return still_running(rented, month.until(t - 1), month[t], term)

        def wanted(t: int) -> Formula:
            return due[t] - idle[t] if idle is not None else due[t]

        anew = self.grid.history(
            self.words("calc.part_anew", part=part + 1), self.words("unit.replicas"),
            lambda before, t: largest(0, wanted(t) - held_before(before, t)), "count",
        )  # fmt: skip
        held = self._count("calc.part_reserved", part + 1, lambda t: anew[t] + held_before(anew.until(t - 1), t))

        def beyond(t: int) -> Formula:
            return held[t] - due[t] if idle is None else idle[t] + held[t] - due[t]

        return held, self._count("calc.part_idle", part + 1, beyond)

    def _left_over(self, due: dict[int, Row], shares: dict[int, Formula], idle: Row) -> dict[int, Row]:
        """What parts without a term run beside reserved ones of which so many idle beyond their shares."""
        grid, words = self.grid, self.words
        left = grid.line(
            words("calc.parts_left"), words("unit.replicas"),
            lambda t: largest(0, sum_of([row[t] for row in due.values()]) - idle[t]), "count", whole=None,
        )  # fmt: skip
        if len(due) == 1:
            return dict.fromkeys(due, left)
        of_these = sum_of(list(shares.values()))
        dealt = self._dealt_out(
            "calc.left", {i: share / of_these for i, share in shares.items()}, lambda t: left[t]
        )  # fmt: skip
        return {
            i: self._count("calc.part_run", i + 1, lambda t, i=i: when(idle[t] > 0, dealt[i][t], due[i][t]))  # type: ignore[misc]
            for i in due
        }

    def _dealt_out(
        self, said: str, shares: dict[int, Formula], replicas: Callable[[int], Formula]
    ) -> dict[int, Row]:  # fmt: skip
        """Whole replicas for each part, as many as there are in all; see `pricing.bill.dealt_out`. said: what the rows'
        names begin with."""
        nothing, words = self.x.constant("tolerance"), self.words
        quotas, wholes = {}, {}
        for i, share in shares.items():
            quotas[i] = quota = self.grid.line(
                words(f"{said}_quota", part=i + 1), words("unit.replicas"),
                lambda t, share=share: replicas(t) * share, "number", whole=None,  # type: ignore[misc]
            )  # fmt: skip
            wholes[i] = self._count(f"{said}_whole", i + 1, lambda t, q=quota: round_down(q[t] + nothing))  # type: ignore[misc]
        more = self.grid.line(
            words("calc.parts_more"), words("unit.replicas"),
            lambda t: replicas(t) - sum_of([whole[t] for whole in wholes.values()]), "count", whole=None,
        )  # fmt: skip

        def ahead(i: int, t: int) -> Formula:
            """How many parts have a larger remainder, or an equal one and stand before it."""
            own = quotas[i][t] - wholes[i][t]
            found = []
            for j in shares:
                other = quotas[j][t] - wholes[j][t]
                if j > i:
                    found.append(when(other - own > nothing, 1, 0))
                elif j < i:
                    found.append(when(own - other > nothing, 0, 1))
            return sum_of(found)

        return {
            i: self._count(
                f"{said}_dealt", i + 1,
                lambda t, i=i: wholes[i][t] + when(ahead(i, t) < more[t] - nothing, 1, 0),  # type: ignore[misc]
            )
            for i in shares
        }  # fmt: skip

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
