"""What each option costs, month by month: its block of the Calculation sheet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pricing.bill import LINES, RUNNING, TAXED
from pricing.export.formula import Formula, due_again, largest, literal, remainder, round_off, total, when
from pricing.export.grid import Grid, Row
from pricing.export.words import NO_VALUE, Words
from pricing.export.xlsx_demand import Demand, Fleet
from pricing.export.xlsx_inputs import Inputs
from pricing.export.xlsx_rented import Rented, sum_of
from pricing.scenario import Arm, Scenario
from pricing.tco import BEHIND, ONE_OFF, TAX, UPKEEP

COST_LINES = (*LINES, *BEHIND)


@dataclass(frozen=True)
class Block:
    """An option as it stands in the sheet. lines: those that it has. flows, summed, discounted: of money paid, from
    today on. busy_share: of the GPUs that are paid for. tokens: money by what it pays for, by the name of
    `pricing.tokens.TokenCosts`. beyond: owed for reservations after the term; None for what has none."""

    number: int
    title: str
    name: str
    kind: str
    arm: Arm
    lines: dict[str, Row]
    total: Row
    flows: Row
    summed: Row
    discounted: Row
    gpus: Row | None
    busy_share: Row | None
    tokens: dict[str, Formula]
    beyond: Formula | None

    @property
    def label(self) -> str:
        """Unlike any other's, whatever people call their options."""
        return f"{self.number}. {self.title}"


class Options:
    """Writes a block for each option and arm, in the order of the scenario."""

    def __init__(self, grid: Grid, x: Inputs, need: Demand, scenario: Scenario, words: Words) -> None:
        self.grid, self.x, self.need, self.scenario, self.words = grid, x, need, scenario, words
        self.currency = scenario.currency
        self.blocks: list[Block] = []
        for i, cloud in enumerate(scenario.cloud):
            for arm, fleet in need.fleets.items():
                self._begin(cloud.name, arm)
                terms = [part.term_months for part in cloud.parts]
                self._block(cloud.name, "cloud", arm, fleet, *self._rented(i, terms, fleet))
        for i, owned in enumerate(scenario.owned):
            for arm, fleet in need.fleets.items():
                self._begin(owned.name, arm)
                self._block(owned.name, "owned", arm, fleet, *self._bought(f"owned.{i}", fleet))
        for i, api in enumerate(scenario.api):
            self._begin(api.name, None)
            fleet, lines = need.fleets["plain"], self._by_the_token(f"api.{i}")
            self._block(api.name, "api", "plain", fleet, lines, None)

    def _begin(self, name: str, arm: Arm | None) -> None:
        self._title = name if arm is None else self.words("title", name=name, arm=self.words(f"arm.{arm}"))
        self.grid.heading(f"{len(self.blocks) + 1}. {self._title}")

    def _money(self, line: str, formula: Callable[[int], Formula | int]) -> Row:
        return self.grid.line(self.words(f"line.{line}"), self.currency, formula)

    def _rented(self, option: int, terms: list[int], fleet: Fleet) -> tuple[dict[str, Row], Row, Formula]:
        grid, x, words, need = self.grid, self.x, self.words, self.need
        at = f"cloud.{option}"
        rented = Rented(grid, x, need, self.currency, words).parts(option, terms, fleet)
        compute = self._money("compute", lambda t: sum_of([part.cost[t] for part in rented]))
        lines = {
            "compute": compute,
            "storage": self._money("storage", lambda t: x(f"{at}.storage_per_month")),
            "egress": self._money(
                "egress",
                lambda t: need.work.requests[t] / x.constant("million") * x(f"{at}.egress_per_million_requests"),
            ),
            "support": self._money("support", lambda t: compute[t] * x(f"{at}.support_share")),
        }
        gpus = grid.line(
            words("calc.gpus"), words("unit.gpus"), lambda t: sum_of([part.gpus[t] for part in rented]), "count",
            whole=None,
        )  # fmt: skip
        owed = sum_of([part.beyond.whole for part in rented]) * (1 + x(f"{at}.support_share")) * (1 + x("tax_share"))
        return lines, gpus, grid.value(words("calc.beyond"), self.currency, owed, "money")

    def _bought(self, at: str, fleet: Fleet) -> tuple[dict[str, Row], Row]:
        grid, x, words, time = self.grid, self.x, self.words, self.need.time
        servers_unit = words("unit.servers")

        def of(name: str) -> Formula:
            return x(f"{at}.{name}")

        two, per_year = x.constant("two"), x.constant("months_per_year")
        months = grid.value(words("calc.life_months"), words("unit.months"), of("life_years") * per_year)
        half = (remainder(months, two)).same_as(1 / two)  # 34.5 is rounded to the even 34, as Python does
        life = grid.value(
            words("calc.life_whole"), words("unit.months"), largest(1, round_off(months) - when(half, 1, 0)), "whole"
        )
        old = grid.value(words("calc.sold_for"), self.currency, of("price") * of("residual_share"), "rate")
        new = grid.value(
            words("calc.bought_for"), self.currency, of("price") * (1 + of("network_share")) + of("install"), "rate"
        )
        gpus_each, per_replica = of("gpus_per_server"), x("serving.gpus_per_replica")
        needed = grid.line(
            words("calc.servers_needed"), servers_unit,
            lambda t: self.need.whole_up(fleet.replicas[t] * per_replica / gpus_each), "count", whole=None,
        )  # fmt: skip
        servers = grid.running(
            words("calc.servers"), servers_unit, lambda before, t: largest(before, needed[t]), "count", first=1
        )
        bought = grid.line(
            words("calc.servers_bought"), servers_unit, lambda t: servers[t] - servers[t - 1], "count"
        )  # fmt: skip
        again = grid.line(
            words("calc.servers_again"), servers_unit,
            lambda t: due_again(bought.until(t - 1), time.month.until(t - 1), time.month[t], life), "count",
        )  # fmt: skip
        left_value = grid.line(
            words("calc.value_left"), self.currency,
            lambda t: when(
                time.left[t] <= life,
                (bought[t] + again[t]) * (of("price") - (of("price") - old) * time.left[t] / life), 0,
            ), whole=None,
        )  # fmt: skip
        gpus = grid.line(words("calc.gpus"), words("unit.gpus"), lambda t: servers[t] * gpus_each, "count", whole=None)
        on = x("workload.hours_on_share")
        busy = grid.line(
            words("calc.busy_day"), words("unit.share_time"),
            lambda t: fleet.at_work[t] * on * per_replica / gpus[t], "share", whole=None,
        )  # fmt: skip
        kw = grid.line(
            words("calc.kw"), words("unit.kw_server"),
            lambda t: of("idle_kw") + (of("active_kw") - of("idle_kw")) * busy[t], "number", whole=None,
        )  # fmt: skip
        hours = time.hours_per_month
        lines = {
            "energy": self._money("energy", lambda t: servers[t] * kw[t] * of("pue") * hours * of("per_kwh")),
            "colocation": self._money(
                "colocation", lambda t: servers[t] * of("active_kw") * of("colocation_per_kw_month")
            ),
            "staff": self._money("staff", lambda t: of("staff_fte") * of("per_fte_year") / per_year),
            "support": self._money(
                "support", lambda t: servers[t] * of("price") * of("support_share_per_year") / per_year
            ),
            "licences": self._money("licences", lambda t: gpus[t] * of("licence_per_gpu_year") / per_year),
            "capex": self._money("capex", lambda t: (bought[t] + again[t]) * new),
            "residual": self._money(
                "residual", lambda t: 0 - again[t] * old - time.last[t] * total(left_value.all)
            ),
        }  # fmt: skip
        return lines, gpus

    def _by_the_token(self, at: str) -> dict[str, Row]:
        """What each kind of token costs stands in rows of its own, by which the total is split again."""
        x, work = self.x, self.need.work
        cached = f"{at}.cached_input_per_million"
        cached_price = x(cached) if cached in x else x(f"{at}.input_per_million")
        million = x.constant("million")
        parts = {
            "input": (work.input_tokens, x(f"{at}.input_per_million")),
            "cached": (work.cached_tokens, cached_price),
            "output": (work.output_tokens, x(f"{at}.output_per_million")),
        }
        self._bought_tokens = paid = [
            self.grid.line(
                self.words(f"calc.token_{name}"), self.currency,
                lambda t, tokens=tokens, price=price: tokens[t] / million * price,  # type: ignore[misc]
            )
            for name, (tokens, price) in parts.items()
        ]  # fmt: skip
        return {"tokens": self._money("tokens", lambda t: sum_of([part[t] for part in paid]))}

    def _block(
        self, name: str, kind: str, arm: Arm, fleet: Fleet, lines: dict[str, Row], gpus: Row | None,
        beyond: Formula | None = None,
    ) -> None:  # fmt: skip
        grid, x, words = self.grid, self.x, self.words
        busy, per_replica, first = None, x("serving.gpus_per_replica"), self.need.time.month
        if gpus is not None:
            busy = grid.line(
                words("calc.busy_paid"), words("unit.share_time"), lambda t: fleet.at_work[t] * per_replica / gpus[t],
                "share", whole=None,
            )  # fmt: skip
        pilot: Formula | None = None
        if arm == "speculative":
            lines[UPKEEP] = self._money(UPKEEP, lambda t: x("speculation.upkeep_per_month"))
            pilot = x("speculation.pilot")
            once = x("speculation.engineering_weeks") * x("speculation.per_engineering_week") + pilot
            once = grid.value(words("calc.once"), self.currency, once, "rate")
            lines[ONE_OFF] = self._money(ONE_OFF, lambda t: when(first[t].same_as(1), once, 0))
        tax = x("tax_share")
        running = self._money("running", lambda t: sum_of([lines[n][t] for n in (*RUNNING, UPKEEP) if n in lines]))
        taxed = self._money("taxed", lambda t: sum_of([lines[n][t] for n in TAXED if n in lines]))

        def bought(t: int) -> Formula | int:
            parts = [lines["capex"][t]] if "capex" in lines else []
            parts += [when(first[t].same_as(1), pilot, 0)] if pilot is not None else []
            return sum_of(parts) if parts else 0

        taxed_early = self._money("taxed_early", bought)
        lines[TAX] = self._money(TAX, lambda t: tax * (taxed[t] + taxed_early[t]))
        ordered = {line: lines[line] for line in COST_LINES if line in lines}
        whole = grid.line(
            words("line.total"), self.currency, lambda t: sum_of([line[t] for line in ordered.values()]), look="strong"
        )
        early, late = self._paid(lines, running, tax, taxed, taxed_early)
        flows = grid.line(words("calc.flows"), self.currency, lambda t: late[t] + early[t + 1], first=0, look="strong")
        summed = grid.running(words("calc.summed"), self.currency, lambda before, t: before + flows[t])
        discount = self.need.time.discount
        discounted = grid.line(words("calc.discounted"), self.currency, lambda t: flows[t] * discount[t], first=0)
        tokens = self._tokens(flows.whole, self._parts(kind, fleet))
        self.blocks.append(
            Block(
                number=len(self.blocks) + 1, title=self._title, name=name, kind=kind, arm=arm, lines=ordered,
                total=whole, flows=flows, summed=summed, discounted=discounted, gpus=gpus,
                busy_share=busy, tokens=tokens, beyond=beyond,
            )
        )  # fmt: skip

    def _paid(
        self, lines: dict[str, Row], running: Row, tax: Formula, taxed: Row, taxed_early: Row
    ) -> tuple[Row, Row]:  # fmt: skip
        """What is bought is paid at a month's beginning, all else at its end, with its tax."""

        def early(t: int) -> Formula:
            once = [lines[name][t] for name in ("capex", ONE_OFF) if name in lines]
            return sum_of([*once, tax * taxed_early[t]])

        def late(t: int) -> Formula:
            paid = running[t] + tax * taxed[t]
            return paid + lines["residual"][t] if "residual" in lines else paid

        return self._money("early", early), self._money("late", late)

    def _parts(self, kind: str, fleet: Fleet) -> tuple[Formula, ...]:
        """What the total is split by, and what that adds up to: seconds of a replica, or an API's own prices."""
        if kind != "api":
            return fleet.input_s, fleet.cached_s, fleet.output_s, fleet.total_s
        wholes = [row.whole for row in self._bought_tokens]
        return *wholes, sum_of(wholes)

    def _tokens(self, paid: Formula, parts: tuple[Formula, ...]) -> dict[str, Formula]:
        """The total by its parts, so that they add up to it."""
        grid, x, words, work = self.grid, self.x, self.words, self.need.work
        million, unit = x.constant("million"), words("unit.money_million_tokens", currency=self.currency)
        found: dict[str, Formula] = {}

        def per_million(name: str, cost: Formula, tokens: Formula) -> None:
            held = when(tokens > 0, cost / tokens * million, literal(NO_VALUE))
            found[name] = grid.value(words(f"cost.{name}"), unit, held, "rate")

        read, cached, written = work.input_tokens.whole, work.cached_tokens.whole, work.output_tokens.whole
        per_million("per_million_input", paid * parts[0] / parts[3], read)
        per_million("per_million_cached_input", paid * parts[1] / parts[3], cached)
        per_million("per_million_output", paid * parts[2] / parts[3], written)
        per_million("per_million_output_alone", paid, written)
        per_million("blended_per_million", paid, read + cached + written)
        request = paid / work.requests.whole
        money = self.currency
        found["per_request"] = grid.value(words("cost.per_request"), money, request, "tiny")
        turns = x("workload.turns_per_conversation")
        found["per_conversation"] = grid.value(
            words("cost.per_conversation"), money, found["per_request"] * turns, "tiny"
        )
        for language in ("english", "turkish"):
            path, name = f"workload.{language}_tokens_per_word", f"per_1000_words_{language}"
            if path in x:
                each = found["per_million_output"] * x(path) * x.constant("thousand") / million
                found[name] = grid.value(words(f"cost.{name}"), money, each, "rate")
        return found
