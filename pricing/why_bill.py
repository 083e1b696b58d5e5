"""A step of a derivation, and those from a fleet or from tokens to an option's bill of the first month."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from pricing.bill import dealt_out
from pricing.columns import column
from pricing.demand import first
from pricing.scenario import Scenario
from pricing.scenario_options import Api, Cloud, Owned
from pricing.tco import Costed

_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*(?:\.[A-Za-z_0-9]+)*")
_NO_NAMES = ("ceil", "floor", "max", "e6")
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
        """Names in the formula, in their order, once each; those of functions are none."""
        return tuple(dict.fromkeys(name for name in _NAME.findall(self.formula) if name not in _NO_NAMES))

    @property
    def shown(self) -> str:
        """The formula for people."""
        text = self.formula
        for plain, sign in _SHOWN:
            text = text.replace(plain, sign)
        text = re.sub(r"\bceil\b", "round up", text)
        return re.sub(r"\bfloor\b", "round down", text)


def cloud_steps(scenario: Scenario, option: Cloud, i: int, costed: Costed) -> Iterator[Step]:
    at, parts, gpus = f"cloud.{i}", [], []
    shares = dealt_out(costed.demand.replicas, [column([part.fleet_share.value]) for part in option.parts])
    for j, part in enumerate(option.parts):
        own = f"{at}.parts.{j}"
        hours = "8760 / 12 * workload.hours_on_share" if part.by_the_hour else "8760 / 12"
        dealt = "replicas"
        if len(option.parts) > 1:
            dealt = f"(floor(replicas * {own}.fleet_share) + part_{j + 1}_extra)"
            extra = first(shares[j]) - math.floor(first(costed.demand.replicas) * part.fleet_share.value + 1e-9)
            yield Step(
                f"part_{j + 1}_extra", extra, "replicas", "",
                "1 where the part's remainder is among the largest, so that the parts add up to the fleet",
            )  # fmt: skip
        replicas = f"ceil({dealt} / (1 - {own}.interruption_share))"
        rented = f"ceil({replicas} * serving.gpus_per_replica / {at}.gpus_per_instance) * {at}.gpus_per_instance"
        gpus.append(rented)
        parts.append(f"{rented} * {own}.per_gpu_hour * {hours}")
    yield Step("gpus", first(costed.gpus), "GPUs", " + ".join(gpus), "in the first month")
    yield _busy(scenario, costed)
    kinds = ", ".join(part.commitment for part in option.parts)
    yield Step("compute", first(costed.lines["compute"]), "money", " + ".join(parts), f"{kinds}; the first month")
    yield Step("storage", first(costed.lines["storage"]), "money", f"{at}.storage_per_month")
    yield Step("egress", first(costed.lines["egress"]), "money", f"requests / 1e6 * {at}.egress_per_million_requests")
    yield Step("support", first(costed.lines["support"]), "money", f"compute * {at}.support_share")


def _busy(scenario: Scenario, costed: Costed) -> Step:
    at_work = first(costed.demand.busy_share * costed.demand.replicas)
    busy = at_work * scenario.serving.gpus_per_replica.value / first(costed.gpus)
    note = "of the GPUs that are paid for, while the service is on"
    return Step("busy_share", busy, "share", "replicas_at_work * serving.gpus_per_replica / gpus", note)


def owned_steps(scenario: Scenario, option: Owned, i: int, costed: Costed) -> Iterator[Step]:
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
    yield Step("gpus", gpus, "GPUs", f"servers * {at}.gpus_per_server", "in the first month")
    yield _busy(scenario, costed)
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


def api_steps(option: Api, i: int, costed: Costed) -> Iterator[Step]:
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
