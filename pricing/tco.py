"""Total cost of ownership: every option of a scenario, plain and speculative, month by month, and what choosing one
over another is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from pricing import finance
from pricing.bill import LINES, RUNNING, TAXED, Bill, api_bill, cloud_bill, owned_bill
from pricing.columns import Array, Numbers
from pricing.demand import Demand, demand, first
from pricing.scenario import ARMS, Arm, Scenario
from pricing.tokens import TokenCosts, token_costs

Verdict = Literal["gain", "late", "even", "loss"]
ONE_OFF = "one_off"
UPKEEP = "upkeep"
TAX = "tax"
BEHIND = (UPKEEP, TAX, ONE_OFF)
MACHINES = ("replicas", "at_work", "gpus", "busy_share")


@dataclass(frozen=True)
class Costed:
    """One option decoded one way, all draws: lines by name, [draws, months] each, tax and speculation's own costs in
    them. `flows`: cash out by month, [draws, months + 1], today first; `total`: their sum, [draws]. beyond: of
    reservations, to be paid after the term, [draws]; it is in no total."""

    option: str
    kind: str
    arm: Arm
    demand: Demand
    lines: Bill
    gpus: Array
    flows: Array
    beyond: Array

    @property
    def total(self) -> Array:
        return self.flows.sum(axis=1)


def cost_options(
    scenario: Scenario, draws: Mapping[str, Sequence[float]] | None = None, arms: Sequence[Arm] = ARMS
) -> list[Costed]:
    """Every option in each of the arms, for the scenario's own numbers or for draws of some of them; an API has no
    arms, and stands once, as "plain"."""
    x = Numbers(scenario, draws)
    needs = {arm: demand(scenario, x, arm) for arm in arms}
    found = []
    for i, cloud in enumerate(scenario.cloud):
        for arm, need in needs.items():
            found.append(_costed(x, cloud.name, "cloud", arm, need, cloud_bill(cloud, f"cloud.{i}", x, need)))
    for i, owned in enumerate(scenario.owned):
        for arm, need in needs.items():
            found.append(_costed(x, owned.name, "owned", arm, need, owned_bill(owned, f"owned.{i}", x, need)))
    for i, api in enumerate(scenario.api):
        work = needs[arms[0]]  # the same in each
        bill = api_bill(f"api.{i}", x, work, api.cached_input_per_million is not None)
        found.append(_costed(x, api.name, "api", "plain", work, bill))
    return found


def _costed(x: Numbers, name: str, kind: str, arm: Arm, need: Demand, bill: Bill) -> Costed:
    nothing = x.nothing(need.requests.shape[1])
    gpus = bill.pop("gpus") + nothing
    beyond = (bill.pop("beyond", nothing) * (1 + x("tax_share"))).sum(axis=1)
    lines = {line: (bill[line] + nothing if line in bill else nothing) for line in LINES}
    lines[UPKEEP], lines[ONE_OFF] = nothing, nothing.copy()
    pilot = nothing.copy()
    if arm == "speculative" and kind != "api":
        lines[UPKEEP] = x("speculation.upkeep_per_month") + nothing
        pilot[:, :1] += x("speculation.pilot")
        lines[ONE_OFF][:, :1] += x("speculation.engineering_weeks") * x("speculation.per_engineering_week")
        lines[ONE_OFF] += pilot
    # Payroll and what is sold have no tax.
    early = x("tax_share") * (lines["capex"] + pilot)
    late = x("tax_share") * sum(lines[line] for line in TAXED)
    lines[TAX] = early + late
    return Costed(name, kind, arm, need, lines, gpus, _flows(lines, early, late), beyond)


def _flows(lines: Bill, early_tax: Array, late_tax: Array) -> Array:
    """[draws, months + 1]: what is bought is paid at a month's beginning, all else at its end; tax with its bill."""
    early = lines["capex"] + lines[ONE_OFF] + early_tax
    late = sum(lines[line] for line in (*RUNNING, UPKEEP, "residual")) + late_tax
    draws, months = early.shape
    flows = pd.DataFrame(0.0, index=range(draws), columns=range(months + 1)).to_numpy().copy()
    flows[:, :-1] += early
    flows[:, 1:] += late
    return flows


@dataclass(frozen=True)
class Option:
    """One option decoded one way. Money in the scenario's currency. monthly and yearly: a row a month or year, with
    requests, tokens, replicas, at_work (of them, in the mean hour of service), gpus, busy_share, the lines of the bill
    and `total`. busy_share: while the service is on, of the time of all GPUs that are paid for, spare and idle ones
    among them. npv_of_cost: at the cost of capital. tokens: of the whole term. beyond_term: what its reservations still
    cost after the term, with tax; a liability that is in no total."""

    name: str
    kind: str
    arm: Arm
    total: float
    npv_of_cost: float
    tokens: TokenCosts
    monthly: pd.DataFrame
    yearly: pd.DataFrame
    flows: tuple[float, ...]
    beyond_term: float

    @property
    def title(self) -> str:
        return self.name if self.kind == "api" else f"{self.name}, {self.arm}"


@dataclass(frozen=True)
class Choice:
    """`option` in place of `instead_of`: positive is a gain, negative a loss, and neither is hidden. saving_share: of
    the total. npv: at the cost of capital. irr: a year; None where nothing is paid in advance, where no rate or no
    single one makes the flows worth nothing (they and their sums change sign never or more than once), where all but
    everything is lost, and beyond what floats hold. payback in weeks: 0 where nothing has to come back, None where it
    does not for good within the term; the discounted one is never before the other."""

    option: str
    instead_of: str
    saving: float
    saving_share: float | None
    npv: float
    irr: float | None
    payback_weeks: float | None
    discounted_payback_weeks: float | None
    flows: tuple[float, ...]

    @property
    def verdict(self) -> Verdict:
        """To the cent; "late" is a saving that today's value makes a loss."""
        saving, npv = round(self.saving, 2), round(self.npv, 2)
        if saving < 0:
            return "loss"
        if npv < 0:
            return "late"
        return "gain" if npv > 0 else "even"


@dataclass(frozen=True)
class Tco:
    """All options of a scenario, cheapest first by present value; speculation: what it is worth in each; choices: what
    each one's best arm is worth in place of each other's. From what demand on one is cheaper is asked of
    `pricing.break_even`, which takes many such calculations."""

    scenario: Scenario
    options: tuple[Option, ...]
    speculation: tuple[Choice, ...]
    choices: tuple[Choice, ...]

    def option(self, name: str, arm: Arm = "speculative") -> Option:
        """Raises KeyError with the names that there are."""
        for option in self.options:
            if option.name == name and (option.arm == arm or option.kind == "api"):
                return option
        raise KeyError(f"no option is called {name} ({arm}); there are " + ", ".join(o.title for o in self.options))


def tco(scenario: Scenario) -> Tco:
    """The scenario's total cost over its years, month by month. Raises ValueError with a sentence where the scenario
    cannot be served at all."""
    options = [_option(scenario, costed) for costed in cost_options(scenario)]
    rate = scenario.cost_of_capital.value
    by_name: dict[str, dict[str, Option]] = {}
    for option in options:
        by_name.setdefault(option.name, {})[option.arm] = option
    speculation = tuple(
        choose(arms["speculative"], arms["plain"], rate) for arms in by_name.values() if "speculative" in arms
    )
    best = [min(arms.values(), key=lambda option: option.npv_of_cost) for arms in by_name.values()]
    choices = tuple(choose(a, b, rate) for a in best for b in best if a is not b)
    return Tco(scenario, tuple(sorted(options, key=lambda o: o.npv_of_cost)), speculation, choices)


def choose(option: Option, instead_of: Option, yearly_rate: float) -> Choice:
    """What changing from one to the other brings: what the other would have cost, less what this one does."""
    flows = [other - own for own, other in zip(option.flows, instead_of.flows, strict=True)]
    saving = instead_of.total - option.total
    return Choice(
        option=option.title,
        instead_of=instead_of.title,
        saving=saving,
        saving_share=saving / instead_of.total if instead_of.total > 0 else None,
        npv=finance.npv(yearly_rate, flows),
        irr=finance.irr(flows),
        payback_weeks=finance.payback_weeks(flows),
        discounted_payback_weeks=finance.payback_weeks(flows, yearly_rate),
        flows=tuple(flows),
    )


def _option(scenario: Scenario, costed: Costed) -> Option:
    need = costed.demand
    at_work, gone = need.busy_share * need.replicas, 0 * need.requests
    columns = {
        "requests": need.requests,
        "input_tokens": need.input_tokens,
        "cached_input_tokens": need.cached_input_tokens,
        "output_tokens": need.output_tokens,
        "replicas": need.replicas,
        "at_work": at_work,
        "gpus": costed.gpus,
        "busy_share": at_work * scenario.serving.gpus_per_replica.value / costed.gpus if costed.kind != "api" else gone,
        **{line: costed.lines[line] for line in (*LINES, *BEHIND)},
    }
    monthly = pd.DataFrame({name: (values + 0 * need.requests)[0] for name, values in columns.items()})
    if costed.kind == "api":
        monthly[list(MACHINES)] = float("nan")
    monthly.insert(0, "month", range(1, len(monthly) + 1))
    monthly["total"] = monthly[[*LINES, *BEHIND]].sum(axis=1)
    flows = tuple(float(flow) for flow in costed.flows[0])
    total = float(sum(flows))
    return Option(
        name=costed.option,
        kind=costed.kind,
        arm=costed.arm,
        total=total,
        npv_of_cost=finance.npv(scenario.cost_of_capital.value, flows),
        tokens=_tokens(scenario, costed, total),
        monthly=monthly,
        yearly=_yearly(monthly),
        flows=flows,
        beyond_term=float(costed.beyond[0]),
    )


def _yearly(monthly: pd.DataFrame) -> pd.DataFrame:
    """Money, requests and tokens are sums; what is of machines are means."""
    means = list(MACHINES)
    names = [name for name in monthly.columns if name != "month"]
    # [years, 12, columns]; grouping by year does the same and takes ten times as long, which a slider would show.
    months = monthly[names].to_numpy(dtype=float).reshape(-1, 12, len(names))
    table = pd.DataFrame(months.sum(axis=1), columns=names)
    table[means] = months.mean(axis=1)[:, [names.index(name) for name in means]]
    table.insert(0, "year", range(1, len(table) + 1))
    return table


def _tokens(scenario: Scenario, costed: Costed, total: float) -> TokenCosts:
    """Split by the time that a request's parts take; an API's total by its own prices, with their tax."""
    work, need = scenario.workload, costed.demand
    parts = [first(part) for part in (need.seconds.input, need.seconds.cached_input, need.seconds.output)]
    if costed.kind == "api":
        api = next(api for api in scenario.api if api.name == costed.option)
        cached = api.cached_input_per_million or api.input_per_million
        prices = (api.input_per_million, cached, api.output_per_million)
        bought = (need.input_tokens, need.cached_input_tokens, need.output_tokens)
        parts = [first(tokens) * price.value for tokens, price in zip(bought, prices, strict=True)]

    def word(figure: Any) -> float | None:
        return figure.value if figure is not None else None

    return token_costs(
        total,
        input_s=parts[0],
        cached_input_s=parts[1],
        output_s=parts[2],
        input_tokens=float(need.input_tokens.sum()),
        cached_input_tokens=float(need.cached_input_tokens.sum()),
        output_tokens=float(need.output_tokens.sum()),
        requests=float(need.requests.sum()),
        turns_per_conversation=work.turns_per_conversation.value,
        english_tokens_per_word=word(work.english_tokens_per_word),
        turkish_tokens_per_word=word(work.turkish_tokens_per_word),
    )
