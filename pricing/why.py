"""Why a number is what it is: each figure of an option as a formula over other figures and the scenario's inputs.

Formulas are plain arithmetic over names: a name with a dot is an input by its path, one without is another step. What
is calculated is calculated in `demand`, `bill` and `tco`; a test evaluates every formula here and finds the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pricing.bill import RUNNING
from pricing.columns import Numbers
from pricing.demand import demand, first
from pricing.figure import Figure
from pricing.load import busy_limit
from pricing.scenario import Api, Arm, Cloud, Owned, Scenario
from pricing.tco import Costed, Tco, cost_options

_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*(?:\.[A-Za-z_0-9]+)*")
_SHOWN = (("*", "×"), ("/", "÷"), (" - ", " − "))


@dataclass(frozen=True)
class Step:
    """name = value `unit`, by `formula`; `unit` is "money" for an amount in the scenario's currency. note: what the
    formula leaves to say. An empty formula: the value comes from more months than a line can hold, as the note says."""

    name: str
    value: float
    unit: str
    formula: str
    note: str = ""

    @property
    def uses(self) -> tuple[str, ...]:
        """Names in the formula, in their order, once each; `ceil` is none."""
        return tuple(dict.fromkeys(name for name in _NAME.findall(self.formula) if name not in ("ceil", "e6")))

    @property
    def shown(self) -> str:
        """The formula for people."""
        text = self.formula
        for plain, sign in _SHOWN:
            text = text.replace(plain, sign)
        return re.sub(r"\bceil\b", "round up", text)


@dataclass(frozen=True)
class Derivation:
    """steps: from the inputs to the total, for the first month and the term. inputs: every number used, by its path."""

    option: str
    steps: dict[str, Step]
    inputs: dict[str, Figure]

    def lines(self, name: str) -> list[str]:
        """`name` and everything that it rests on, indented by how far it lies behind. Raises KeyError."""
        return list(self._lines(name, 0, set()))

    def _lines(self, name: str, depth: int, told: set[str]) -> Iterator[str]:
        indent = "  " * depth
        if name in self.inputs:
            figure = self.inputs[name]
            origin = f"{figure.label}: {figure.source}" if figure.source else figure.label
            span = f", {figure.low:g} to {figure.high:g}" if figure.is_a_range else ""
            yield f"{indent}{name} = {figure.value:g} ({origin}{span})"
            return
        step = self.steps[name]
        formula = f" = {step.shown}" if step.formula else ""
        note = f" ({step.note})" if step.note else ""
        yield f"{indent}{name}{formula} = {step.value:,.6g} {step.unit}{note}"
        if name in told:
            return
        told.add(name)
        for used in step.uses:
            yield from self._lines(used, depth + 1, told)


def why(made: Tco, option: str, arm: Arm = "speculative") -> Derivation:
    """Raises KeyError for an option that there is not."""
    scenario, found = made.scenario, made.option(option, arm)
    costed = next(c for c in cost_options(scenario) if (c.option, c.arm) == (option, found.arm))
    steps = [*_demand(scenario, found.arm)] if found.kind != "api" else [*_tokens_only(scenario, costed)]
    at = next(i for i, o in enumerate(scenario.options) if o.name == option)
    kind = scenario.options[at]
    if isinstance(kind, Cloud):
        steps += _cloud(kind, at, costed)
    elif isinstance(kind, Owned):
        steps += _owned(scenario, kind, at - len(scenario.cloud), costed)
    else:
        steps += _api(kind, at - len(scenario.cloud) - len(scenario.owned), costed)
    steps += _ends(made, costed)
    by_name = {step.name: step for step in steps}
    figures = scenario.figures()
    used = dict.fromkeys(name for step in steps for name in step.uses if name not in by_name)
    return Derivation(found.title, by_name, {name: figures[name] for name in used})


def _demand(scenario: Scenario, arm: Arm) -> Iterator[Step]:
    x = Numbers(scenario)
    need = demand(scenario, x, arm)
    speed, slower = f"serving.{arm}", " * (1 - speculation.capacity_share_taken)" if arm == "speculative" else ""
    seconds = need.seconds
    yield Step(
        "input_s",
        first(seconds.input),
        "s",
        f"workload.input_tokens * (1 - workload.cached_input_share) / {speed}.input_tokens_per_second",
    )
    yield Step(
        "cached_input_s",
        first(seconds.cached_input),
        "s",
        "workload.input_tokens * workload.cached_input_share * serving.cached_input_cost_share"
        f" / {speed}.input_tokens_per_second",
    )
    yield Step(
        "output_s", first(seconds.output), "s", f"workload.output_tokens / ({speed}.output_tokens_per_second{slower})"
    )
    yield Step("request_s", first(seconds.total), "s of one replica", "input_s + cached_input_s + output_s")
    rate = first(need.busy_share * need.replicas / seconds.total)
    yield Step(
        "requests_per_second",
        rate,
        "1/s",
        "workload.requests_per_day / 86400 / workload.hours_on_share",
        "the mean of the hours in which the service is on",
    )
    yield Step(
        "replicas_at_work", first(need.busy_share * need.replicas), "replicas", "requests_per_second * request_s"
    )
    if scenario.load_curve:
        yield Step(
            "busy_limit",
            first(busy_limit(scenario, arm, x)),
            "share",
            "",
            f"read off the load curve at P95 = {scenario.serving.p95_target_s.value:g} s"
            if scenario.serving.p95_target_s
            else "",
        )
        limit = "busy_limit"
    else:
        limit = "serving.busy_limit"
    yield Step(
        "replicas",
        first(need.replicas),
        "replicas",
        f"ceil(replicas_at_work * workload.peak_factor / {limit}) + serving.spare_replicas",
        "for the busiest hour, P95 kept, and spare ones",
    )
    yield Step("busy_share", first(need.busy_share), "share", "replicas_at_work / replicas")
    yield Step("requests", first(need.requests), "a month", "workload.requests_per_day * 365 / 12")


def _tokens_only(scenario: Scenario, costed: Costed) -> Iterator[Step]:
    yield Step("requests", first(costed.demand.requests), "a month", "workload.requests_per_day * 365 / 12")
    for name, tokens, formula in (
        ("input", costed.demand.input_tokens, "workload.input_tokens * (1 - workload.cached_input_share)"),
        ("cached_input", costed.demand.cached_input_tokens, "workload.input_tokens * workload.cached_input_share"),
        ("output", costed.demand.output_tokens, "workload.output_tokens"),
    ):
        yield Step(f"{name}_tokens", first(tokens), "a month", f"requests * {formula}")


def _cloud(option: Cloud, i: int, costed: Costed) -> Iterator[Step]:
    at, parts = f"cloud.{i}", []
    for j, part in enumerate(option.parts):
        own = f"{at}.parts.{j}"
        hours = "8760 / 12 * workload.hours_on_share" if part.by_the_hour else "8760 / 12"
        replicas = f"ceil(replicas * {own}.fleet_share / (1 - {own}.interruption_share))"
        rented = f"ceil({replicas} * serving.gpus_per_replica / {at}.gpus_per_instance) * {at}.gpus_per_instance"
        parts.append(f"{rented} * {own}.per_gpu_hour * {hours}")
    kinds = ", ".join(part.commitment for part in option.parts)
    yield Step("compute", first(costed.lines["compute"]), "money", " + ".join(parts), f"{kinds}; the first month")
    yield Step("storage", first(costed.lines["storage"]), "money", f"{at}.storage_per_month")
    yield Step("egress", first(costed.lines["egress"]), "money", f"requests / 1e6 * {at}.egress_per_million_requests")
    yield Step("support", first(costed.lines["support"]), "money", f"compute * {at}.support_share")


def _owned(scenario: Scenario, option: Owned, i: int, costed: Costed) -> Iterator[Step]:
    at, gpus = f"owned.{i}", first(costed.gpus)
    at_work = first(costed.demand.busy_share * costed.demand.replicas)
    busy = at_work * scenario.workload.hours_on_share.value * scenario.serving.gpus_per_replica.value / gpus
    yield Step(
        "servers",
        gpus / option.gpus_per_server.value,
        "servers",
        f"ceil(replicas * serving.gpus_per_replica / {at}.gpus_per_server)",
        "in the first month",
    )
    yield Step(
        "capex",
        first(costed.lines["capex"]),
        "money",
        f"servers * ({at}.price * (1 + {at}.network_share) + {at}.install)",
        "bought at the beginning",
    )
    yield Step(
        "server_busy_share",
        busy,
        "share",
        f"replicas_at_work * workload.hours_on_share * serving.gpus_per_replica / (servers * {at}.gpus_per_server)",
    )
    yield Step(
        "energy",
        first(costed.lines["energy"]),
        "money",
        f"servers * ({at}.idle_kw + ({at}.active_kw - {at}.idle_kw) * server_busy_share) * {at}.pue"
        f" * 8760 / 12 * {at}.per_kwh",
    )
    yield Step(
        "colocation",
        first(costed.lines["colocation"]),
        "money",
        f"servers * {at}.active_kw * {at}.colocation_per_kw_month",
    )
    yield Step("staff", first(costed.lines["staff"]), "money", f"{at}.staff_fte * {at}.per_fte_year / 12")
    yield Step(
        "support", first(costed.lines["support"]), "money", f"servers * {at}.price * {at}.support_share_per_year / 12"
    )
    yield Step(
        "licences",
        first(costed.lines["licences"]),
        "money",
        f"servers * {at}.gpus_per_server * {at}.licence_per_gpu_year / 12",
    )


def _api(option: Api, i: int, costed: Costed) -> Iterator[Step]:
    at = f"api.{i}"
    cached = "cached_input_per_million" if option.cached_input_per_million is not None else "input_per_million"
    yield Step(
        "tokens",
        first(costed.lines["tokens"]),
        "money",
        f"(input_tokens * {at}.input_per_million + cached_input_tokens * {at}.{cached}"
        f" + output_tokens * {at}.output_per_million) / 1e6",
        "the first month",
    )


def _ends(made: Tco, costed: Costed) -> Iterator[Step]:
    """What the option comes to: the first month's bill, the term's, and by the token."""
    scenario, option = made.scenario, made.option(costed.option, costed.arm)
    bills = [line for line in RUNNING if first(costed.lines[line])]
    if costed.arm == "speculative":
        yield Step("upkeep", first(costed.lines["upkeep"]), "money", "speculation.upkeep_per_month")
        yield Step(
            "one_off",
            first(costed.lines["one_off"]),
            "money",
            "speculation.engineering_weeks * speculation.per_engineering_week + speculation.pilot",
            "once, at the start",
        )
        bills.append("upkeep")
    running = sum(first(costed.lines[line]) for line in bills)
    taxed = running * (1 + scenario.tax_share.value)
    yield Step("running", taxed, "money", f"({' + '.join(bills)}) * (1 + tax_share)", "the first month's bill")
    yield Step(
        "total", option.total, "money", "", f"all bills of {scenario.years} years, what was bought and sold in them"
    )
    yield Step(
        "npv_of_cost",
        option.npv_of_cost,
        "money",
        "",
        f"the same, each month discounted at {scenario.cost_of_capital.value:g} a year",
    )
    tokens = float(costed.demand.output_tokens.sum())
    yield Step("output_tokens_of_term", tokens, "tokens", "", f"of {scenario.years} years, growth included")
    if costed.kind != "api" and option.tokens.per_million_output is not None:
        yield Step(
            "per_million_output",
            option.tokens.per_million_output,
            "money",
            "total * output_s / request_s / output_tokens_of_term * 1e6",
            "the output's part of the bill is its part of a request's time",
        )
    if option.tokens.per_million_output_alone is not None:
        yield Step(
            "per_million_output_alone",
            option.tokens.per_million_output_alone,
            "money",
            "total / output_tokens_of_term * 1e6",
            "all of the bill on output tokens",
        )
