"""What the numbers of a scenario are called, in people's words, with their units."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pricing.export.words import Words
from pricing.figure import Figure
from pricing.scenario import Arm, Scenario
from pricing.sensitivity import tornado

# By path without option and part numbers: the unit's key, and how the number is shown.
_UNITS: dict[str, tuple[str, str]] = {
    "workload.requests_per_day": ("requests_day", "number"),
    "workload.input_tokens": ("tokens_request", "number"),
    "workload.output_tokens": ("tokens_request", "number"),
    "workload.peak_factor": ("times", "number"),
    "workload.hours_on_share": ("share_hours", "share"),
    "workload.cached_input_share": ("share_input", "share"),
    "workload.growth_per_year": ("share_year", "share"),
    "workload.turns_per_conversation": ("turns", "number"),
    "workload.english_tokens_per_word": ("tokens_word", "number"),
    "workload.turkish_tokens_per_word": ("tokens_word", "number"),
    "serving.gpus_per_replica": ("gpus", "number"),
    "serving.plain.input_tokens_per_second": ("tokens_second", "number"),
    "serving.plain.output_tokens_per_second": ("tokens_second", "number"),
    "serving.speculative.input_tokens_per_second": ("tokens_second", "number"),
    "serving.speculative.output_tokens_per_second": ("tokens_second", "number"),
    "serving.busy_limit": ("share_time", "share"),
    "serving.requests_at_once": ("requests", "number"),
    "serving.speed_factor": ("times", "number"),
    "serving.spare_replicas": ("replicas", "number"),
    "serving.cached_input_cost_share": ("share_reading", "share"),
    "serving.p95_target_s": ("seconds", "number"),
    "speculation.engineering_weeks": ("weeks", "number"),
    "speculation.per_engineering_week": ("money_week", "rate"),
    "speculation.pilot": ("money", "rate"),
    "speculation.upkeep_per_month": ("money_month", "rate"),
    "speculation.capacity_share_taken": ("share_speed", "share"),
    "load_curve.plain.busy_share": ("share_time", "share"),
    "load_curve.plain.p95_s": ("seconds", "number"),
    "load_curve.speculative.busy_share": ("share_time", "share"),
    "load_curve.speculative.p95_s": ("seconds", "number"),
    "cloud.parts.per_gpu_hour": ("money_gpu_hour", "rate"),
    "cloud.parts.fleet_share": ("share_fleet", "share"),
    "cloud.parts.interruption_share": ("share_hours", "share"),
    "cloud.gpus_per_instance": ("gpus", "number"),
    "cloud.storage_per_month": ("money_month", "rate"),
    "cloud.egress_per_million_requests": ("money_million_requests", "rate"),
    "cloud.support_share": ("share_compute", "share"),
    "owned.gpus_per_server": ("gpus", "number"),
    "owned.price": ("money_server", "rate"),
    "owned.idle_kw": ("kw_server", "number"),
    "owned.active_kw": ("kw_server", "number"),
    "owned.per_kwh": ("money_kwh", "rate"),
    "owned.network_share": ("share_price", "share"),
    "owned.install": ("money_server", "rate"),
    "owned.residual_share": ("share_price", "share"),
    "owned.life_years": ("years", "number"),
    "owned.pue": ("times", "number"),
    "owned.colocation_per_kw_month": ("money_kw_month", "rate"),
    "owned.staff_fte": ("fte", "number"),
    "owned.per_fte_year": ("money_fte_year", "rate"),
    "owned.support_share_per_year": ("share_price_year", "share"),
    "owned.licence_per_gpu_year": ("money_gpu_year", "rate"),
    "api.input_per_million": ("money_million_tokens", "rate"),
    "api.output_per_million": ("money_million_tokens", "rate"),
    "api.cached_input_per_million": ("money_million_tokens", "rate"),
    "cost_of_capital": ("share_year", "share"),
    "tax_share": ("share_bill", "share"),
}
_TELLING = ("_tokens_per_second", "per_gpu_hour", ".price", "requests_per_day", "busy_limit", "_per_million")
MOST_CONDITIONS, MOST_MOVING = 14, 8  # so that the prices and speeds keep their place
_NUMBERED = re.compile(r"\.\d+(?=\.|$)")


@dataclass(frozen=True)
class Told:
    """A number of a scenario. section: of the scenario, or the option's own name. kind: share, money ("rate") or other
    ("number")."""

    path: str
    section: str
    name: str
    unit: str
    kind: str
    figure: Figure


def told(scenario: Scenario, words: Words) -> list[Told]:
    """Every number, in the scenario's own order."""
    return [_told(scenario, words, path, figure) for path, figure in scenario.figures().items()]


@dataclass(frozen=True)
class Conditions:
    """What a total hangs on. moved: the first ones are ordered by how far their ranges move it; else there are no
    ranges that do. left_out: how many more there are."""

    numbers: list[Told]
    moved: bool
    left_out: int


def conditions(scenario: Scenario, option: str, arm: Arm, words: Words) -> Conditions:
    """The numbers that move the option's total, by their tornado's swing; then prices, speeds and demand."""
    known = {number.path: number for number in told(scenario, words)}
    try:
        moving = [driver.path for driver in tornado(scenario, option, arm) if driver.swing >= _NOTHING]
    except ValueError:  # cannot be served at an end of a range
        moving = []
    paths = list(dict.fromkeys([*moving[:MOST_MOVING], *(p for p in known if p.endswith(_TELLING)), *moving]))
    left_out = max(0, len(paths) - MOST_CONDITIONS)
    return Conditions([known[path] for path in paths[:MOST_CONDITIONS]], bool(moving), left_out)


_NOTHING = 0.005  # of money: half a cent


def _told(scenario: Scenario, words: Words, path: str, figure: Figure) -> Told:
    kept = _NUMBERED.sub("", path)
    unit, kind = _UNITS[kept]
    steps = path.split(".")
    group = steps[0]
    name = words(f"input.{kept}")
    if group in ("cloud", "owned", "api"):
        option = getattr(scenario, group)[int(steps[1])]
        section = option.name
        if group == "cloud" and steps[2] == "parts":
            part = option.parts[int(steps[3])]
            name = f"{name}: {words(f'commitment.{part.commitment}')}"
            if len(option.parts) > 1:
                name = f"{name} ({int(steps[3]) + 1})"
    else:
        section = words(f"section.{group if len(steps) > 1 else 'money'}")
        if group == "load_curve":
            name = words("input.point", name=name, number=int(steps[2]) + 1)
    return Told(path, section, name, words(f"unit.{unit}", currency=scenario.currency), kind, figure)
