"""Why a number is what it is: each figure of an option as a formula over other figures and the scenario's inputs.

Formulas are plain arithmetic over names: a name with a dot is an input by its path, one without is another step. What
is calculated is calculated in `demand`, `bill` and `tco`; a test evaluates every formula here and finds the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pricing.bill import RUNNING, TAXED
from pricing.columns import Numbers
from pricing.demand import demand, first
from pricing.figure import Figure
from pricing.scenario import Arm, Scenario
from pricing.scenario_options import Cloud, Owned
from pricing.service_level import busy_limit
from pricing.tco import Costed, Tco, cost_options
from pricing.tokens import FORMULAS
from pricing.why_bill import Step as Step
from pricing.why_bill import api_steps, cloud_steps, owned_steps


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
        steps += cloud_steps(scenario, kind, at, costed)
    elif isinstance(kind, Owned):
        steps += owned_steps(scenario, kind, at - len(scenario.cloud), costed)
    else:
        steps += api_steps(kind, at - len(scenario.cloud) - len(scenario.owned), costed)
    steps += _ends(made, costed)
    by_name = {step.name: step for step in steps}
    figures = scenario.figures()
    used = dict.fromkeys(name for step in steps for name in step.uses if name not in by_name)
    return Derivation(found.title, by_name, {name: figures[name] for name in used})


def _demand(scenario: Scenario, arm: Arm) -> Iterator[Step]:
    x = Numbers(scenario)
    need = demand(scenario, x, arm)
    speed, slower = f"serving.{arm}", " * (1 - speculation.capacity_share_taken)" if arm == "speculative" else ""
    reading = f"({speed}.input_tokens_per_second * serving.speed_factor)"
    seconds = need.seconds
    yield Step(
        "input_s",
        first(seconds.input),
        "s",
        f"workload.input_tokens * (1 - workload.cached_input_share) / {reading}",
    )
    yield Step(
        "cached_input_s",
        first(seconds.cached_input),
        "s",
        f"workload.input_tokens * workload.cached_input_share * serving.cached_input_cost_share / {reading}",
    )
    yield Step(
        "output_s",
        first(seconds.output),
        "s",
        f"workload.output_tokens / ({speed}.output_tokens_per_second * serving.speed_factor{slower})",
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
    limit = "serving.busy_limit"
    if scenario.serving.p95_target_s is not None:
        measured = bool(scenario.load_curve.get(arm))
        if not measured:
            alone = first(x("serving.requests_at_once") * seconds.total)
            yield Step("alone_s", alone, "s", "serving.requests_at_once * request_s", "without waiting")
        yield Step(
            "busy_limit_at_p95" if measured else "busy_limit_of_queue",
            first(busy_limit(scenario, arm, x, seconds.total)),
            "share",
            "",
            f"read off the load curve at P95 = {scenario.serving.p95_target_s.value:g} s"
            if measured
            else "serving.busy_limit, or less where Erlang's formula says that 5 % would wait longer than the target "
            "leaves beside alone_s",
        )
        limit = "busy_limit_at_p95" if measured else "busy_limit_of_queue"
    yield Step(
        "replicas",
        first(need.replicas),
        "replicas",
        f"max(1, ceil(replicas_at_work * workload.peak_factor / {limit})) + serving.spare_replicas",
        "for the busiest hour, P95 kept, and spare ones",
    )
    yield Step("requests", first(need.requests), "a month", "workload.requests_per_day * 365 / 12")


def _tokens_only(scenario: Scenario, costed: Costed) -> Iterator[Step]:
    yield Step("requests", first(costed.demand.requests), "a month", "workload.requests_per_day * 365 / 12")
    for name, tokens, formula in (
        ("input", costed.demand.input_tokens, "workload.input_tokens * (1 - workload.cached_input_share)"),
        ("cached_input", costed.demand.cached_input_tokens, "workload.input_tokens * workload.cached_input_share"),
        ("output", costed.demand.output_tokens, "workload.output_tokens"),
    ):
        yield Step(f"{name}_tokens", first(tokens), "a month", f"requests * {formula}")


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
    taxed = [line for line in bills if line in TAXED]
    wages = [line for line in bills if line not in TAXED]
    running = sum(first(costed.lines[line]) for line in bills)
    running += scenario.tax_share.value * sum(first(costed.lines[line]) for line in taxed)
    formula = " + ".join([f"({' + '.join(taxed)}) * (1 + tax_share)", *wages])
    yield Step("running", running, "money", formula, "the first month's bill; wages have no tax")
    if option.beyond_term:
        yield Step(
            "beyond_term", option.beyond_term, "money", "",
            "still owed for reservations after the term, with their support and tax; in no total",
        )  # fmt: skip
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
            FORMULAS["per_million_output"],
            "the output's part of the bill is its part of a request's time",
        )
    if option.tokens.per_million_output_alone is not None:
        yield Step(
            "per_million_output_alone",
            option.tokens.per_million_output_alone,
            "money",
            FORMULAS["per_million_output_alone"],
            "all of the bill on output tokens",
        )
