"""What an option costs, month by month: rented, bought, or paid by the token. All [draws, months], no tax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from pricing.columns import Array, Numbers, ceiling
from pricing.demand import HOURS_PER_MONTH, Demand
from pricing.scenario_options import Cloud, Owned

# Lines of a bill in the order in which they are shown. Running costs are paid at a month's end; "capex" (servers, their
# network and installation) at its beginning; "residual" is money back: sold at a replacement, or at the end.
RUNNING = ("compute", "tokens", "storage", "egress", "energy", "colocation", "staff", "support", "licences")
LINES = (*RUNNING, "capex", "residual")
# Wages have no VAT; all other running costs are somebody's bill.
TAXED = tuple(line for line in RUNNING if line != "staff")
# Beside its lines a bill has "gpus", and "beyond": what is still to be paid for reservations when the term is over.
Bill = dict[str, Array]
_M = 1e6
_NOTHING = 1e-9


def cloud_bill(option: Cloud, at: str, x: Numbers, demand: Demand) -> Bill:
    """Whole instances for each part of the fleet. On-demand and spot ones are billed for the hours in which the service
    is on, reserved ones and capacity blocks for all hours; a reserved one until its term ends, whether it is needed or
    not. It serves as long as it is paid for: the parts without a term run what is left over."""
    nothing = x.nothing(demand.requests.shape[1])
    compute, gpus, beyond = nothing, nothing, nothing
    shares = [x(f"{at}.parts.{i}.fleet_share") for i in range(len(option.parts))]
    per_instance = x(f"{at}.gpus_per_instance")
    terms = [part.term_months for part in option.parts]
    for i, (part, replicas) in enumerate(zip(option.parts, run(demand.replicas + nothing, shares, terms), strict=True)):
        own = f"{at}.parts.{i}"
        running = ceiling(replicas / (1 - x(f"{own}.interruption_share")))
        needed = ceiling(running * x("serving.gpus_per_replica") / per_instance) * per_instance
        rented, left = _held(needed, part.term_months)
        hours = HOURS_PER_MONTH * (x("workload.hours_on_share") if part.by_the_hour else 1.0)
        price = x(f"{own}.per_gpu_hour")
        compute = compute + rented * price * hours
        gpus = gpus + rented
        beyond = beyond + left * price * hours
    return {
        "compute": compute,
        "storage": x(f"{at}.storage_per_month") + 0 * compute,
        "egress": demand.requests / _M * x(f"{at}.egress_per_million_requests"),
        "support": compute * x(f"{at}.support_share"),
        "gpus": gpus,
        "beyond": beyond * (1 + x(f"{at}.support_share")),
    }


def run(replicas: Array, shares: list[Array], terms: list[int]) -> list[Array]:
    """Whole replicas that each part runs in each month, [draws, months]; terms: months that each is reserved for.

    By their shares, but none while a reserved one idles: of what a part still holds beyond its share so many fewer are
    reserved anew in parts of shorter terms, and run in those of a term of 1, between which what is left over is dealt
    out by their shares. Where nothing idles, as in all but falling demand, all parts have what their shares come to."""
    due = dealt_out(replicas, shares)
    found, idle = list(due), 0 * replicas
    for i in longest_first(terms):
        found[i] = _held(due[i] - idle, terms[i])[0]
        idle = idle + found[i] - due[i]
    monthly = [i for i, term in enumerate(terms) if term == 1]
    if monthly and (idle > 0).any():
        left = (sum(due[i] for i in monthly) - idle).clip(min=0)
        of_these = sum(shares[i] for i in monthly)
        for i, part in zip(monthly, dealt_out(left, [shares[i] / of_these for i in monthly]), strict=True):
            found[i] = part * (idle > 0) + due[i] * (idle <= 0)
    return found


def longest_first(terms: list[int]) -> list[int]:
    """The parts that are reserved, those of equal terms in their own order."""
    return sorted((i for i, term in enumerate(terms) if term > 1), key=lambda i: -terms[i])


def dealt_out(replicas: Array, shares: list[Array]) -> list[Array]:
    """Whole replicas for each share, as many as there are in all: each gets the whole ones in its part, and those with
    the largest remainders one more; of equal ones the first."""
    parts = [replicas * share for share in shares]
    whole = [(part + _NOTHING) // 1 for part in parts]
    over = [part - least for part, least in zip(parts, whole, strict=True)]
    more = replicas - sum(whole)
    found = []
    for i, own in enumerate(over):
        ahead: Array = 0
        for j, other in enumerate(over):
            if j != i:
                ahead = ahead + (other - own > _NOTHING if j > i else own - other <= _NOTHING)
        found.append(whole[i] + (ahead < more - _NOTHING))
    return found


def _held(needed: Array, term: int) -> tuple[Array, Array]:
    """(what is paid for in each month, months still to be paid after the last one of what was rented in each): rented
    when first needed, for `term` months, and then only if it is needed again."""
    if term == 1:
        return needed, 0 * needed
    months = needed.shape[1]
    held, left = needed.copy(), 0 * needed
    rented = 0 * needed
    for month in range(months):
        running = rented[:, max(0, month - term + 1) : month].sum(axis=1)
        rented[:, month] = (needed[:, month] - running).clip(min=0)
        held[:, month] = running + rented[:, month]
        left[:, month] = rented[:, month] * max(0, month + term - months)
    return held, left


def owned_bill(option: Owned, at: str, x: Numbers, demand: Demand) -> Bill:
    """Servers are bought when the fleet first needs them and kept. Power is idle power and what being busy adds, over
    the whole day, times PUE; colocation is paid for the power that a server can take."""

    def of(name: str) -> Array:
        return x(f"{at}.{name}")

    nothing = x.nothing(demand.requests.shape[1])
    needed = ceiling(demand.replicas * x("serving.gpus_per_replica") / of("gpus_per_server")) + nothing
    servers = _each_row(needed, lambda frame: frame.cummax(axis=1))
    bought = servers.copy()
    bought[:, 1:] -= servers[:, :-1]
    replaced, residual = _replaced_and_sold(bought, of("price"), of("life_years") * 12, of("residual_share"))
    at_work = demand.busy_share * demand.replicas * x("workload.hours_on_share")
    busy = at_work * x("serving.gpus_per_replica") / (servers * of("gpus_per_server"))
    kw = of("idle_kw") + (of("active_kw") - of("idle_kw")) * busy
    return {
        "energy": servers * kw * of("pue") * HOURS_PER_MONTH * of("per_kwh"),
        "colocation": servers * of("active_kw") * of("colocation_per_kw_month"),
        "staff": of("staff_fte") * of("per_fte_year") / 12 + nothing,
        "support": servers * of("price") * of("support_share_per_year") / 12,
        "licences": servers * of("gpus_per_server") * of("licence_per_gpu_year") / 12,
        "capex": (bought + replaced) * (of("price") * (1 + of("network_share")) + of("install")),
        "residual": -residual,
        "gpus": servers * of("gpus_per_server"),
    }


def _each_row(values: Array, change: Callable[[Any], Any]) -> Array:
    return change(pd.DataFrame(values)).to_numpy().copy()


def _replaced_and_sold(bought: Array, price: Array, life_months: Array, residual_share: Array) -> tuple[Array, Array]:
    """(servers bought again in each month, money for those sold). The last month's money has what all servers are worth
    at the end: their price falls evenly to its residual share over their life, and no further."""
    draws, months = bought.shape
    again, sold = 0.0 * bought, 0.0 * bought
    life = (life_months + 0 * bought[:, :1]).reshape(-1)
    value = price * residual_share + 0 * bought[:, :1]
    full = price + 0 * bought[:, :1]
    for whole in sorted({max(1, round(m)) for m in life.tolist()}):  # draws of one life, together
        rows = [i for i, m in enumerate(life.tolist()) if max(1, round(m)) == whole] if draws > 1 else [0]
        every = len(rows) == draws
        first, worth, new = (a if every else a[rows] for a in (bought, value, full))
        made, money = 0.0 * first, 0.0 * first
        for month in range(months):
            if month >= whole:
                made[:, month] = first[:, month - whole] + made[:, month - whole]
                money[:, month] += made[:, month] * worth[:, 0]
            age = min(months - month, whole)  # at the end of the last month
            if months - month <= whole:
                left = new - (new - worth) * age / whole
                money[:, -1] += (first[:, month] + made[:, month]) * left[:, 0]
        if every:
            return made, money
        again[rows], sold[rows] = made, money
    return again, sold


def api_bill(at: str, x: Numbers, demand: Demand, cached_price: bool) -> Bill:
    """Tokens at their list prices; cached input at the input price where it has none of its own."""
    cached = x(f"{at}.cached_input_per_million" if cached_price else f"{at}.input_per_million")
    tokens = (
        demand.input_tokens * x(f"{at}.input_per_million")
        + demand.cached_input_tokens * cached
        + demand.output_tokens * x(f"{at}.output_per_million")
    )
    return {"tokens": tokens / _M, "gpus": 0 * tokens}
