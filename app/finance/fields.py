"""What each number of a scenario is called, what it is counted in, and which of them get a slider."""

from collections.abc import Iterator
from dataclasses import dataclass

from app.catalogue import Words
from app.finance.shown import symbol
from pricing.scenario import Scenario
from pricing.scenario_options import Cloud, CloudPart, Owned

# By the last part of a path: the unit's name in the catalogues. {m} in a unit is the currency's sign. The units with
# "percent" in them are of shares, which people read and write as percentages.
UNITS = {
    "requests_per_day": "per_day",
    "input_tokens": "tokens",
    "output_tokens": "tokens",
    "peak_factor": "times",
    "hours_on_share": "percent",
    "cached_input_share": "percent",
    "growth_per_year": "percent_year",
    "turns_per_conversation": "turns",
    "english_tokens_per_word": "tokens_word",
    "turkish_tokens_per_word": "tokens_word",
    "gpus_per_replica": "gpus",
    "input_tokens_per_second": "tps",
    "output_tokens_per_second": "tps",
    "busy_limit": "percent",
    "requests_at_once": "turns",
    "speed_factor": "times",
    "spare_replicas": "replicas",
    "cached_input_cost_share": "percent",
    "p95_target_s": "seconds",
    "engineering_weeks": "weeks",
    "per_engineering_week": "money_week",
    "pilot": "money",
    "upkeep_per_month": "money_month",
    "capacity_share_taken": "percent",
    "busy_share": "percent",
    "p95_s": "seconds",
    "per_gpu_hour": "money_gpu_hour",
    "fleet_share": "percent",
    "interruption_share": "percent",
    "gpus_per_instance": "gpus",
    "storage_per_month": "money_month",
    "egress_per_million_requests": "money_million_requests",
    "support_share": "percent",
    "gpus_per_server": "gpus",
    "price": "money",
    "idle_kw": "kw",
    "active_kw": "kw",
    "per_kwh": "money_kwh",
    "network_share": "percent",
    "install": "money",
    "residual_share": "percent",
    "life_years": "years",
    "pue": "times",
    "colocation_per_kw_month": "money_kw_month",
    "staff_fte": "fte",
    "per_fte_year": "money_year",
    "support_share_per_year": "percent_year",
    "licence_per_gpu_year": "money_gpu_year",
    "input_per_million": "money_million",
    "output_per_million": "money_million",
    "cached_input_per_million": "money_million",
    "cost_of_capital": "percent_year",
    "tax_share": "percent",
}
YEARS = "years"  # the one input that is a plain whole number: a term has no source and no range


@dataclass(frozen=True)
class Driver:
    """A number with a slider. group: a heading's name, or "option" with that option's name. logarithmic: over a
    hundredfold around its value; else from `low` to `high`."""

    path: str
    group: str
    logarithmic: bool = True
    low: float = 0.0
    high: float = 1.0
    option: str = ""


def last(path: str) -> str:
    return path.rsplit(".", 1)[-1]


def is_share(path: str) -> bool:
    return "percent" in UNITS.get(last(path), "")


def label(path: str, words: Words) -> str:
    """What people call it, an arm's name with it. A path that only a newer schema knows keeps its own name."""
    name = last(path)
    if name != YEARS and name not in UNITS:
        return path
    text = words(f"num_{name}")
    for arm in ("plain", "speculative"):
        if f".{arm}." in path:
            text = f"{text}, {words(f'arm_{arm}')}"
    return text


def full_label(scenario: Scenario, path: str, words: Words) -> str:
    """With the option that it is of in front, so that two options' prices can be told apart."""
    owner = option_of(scenario, path)
    part = part_of(scenario, path)
    names = [owner] if owner else []
    if part is not None:
        names.append(words.name("commitment", part.commitment))
    return " · ".join([*names, label(path, words)])


def unit(path: str, scenario: Scenario, words: Words) -> str:
    name = UNITS.get(last(path)) if path != YEARS else "years"
    return words(f"unit_{name}", m=symbol(scenario.currency)) if name else ""


def option_of(scenario: Scenario, path: str) -> str:
    """The name of the option that the number is of; "" for what all options share."""
    kind, _, rest = path.partition(".")
    options = {"cloud": scenario.cloud, "owned": scenario.owned, "api": scenario.api}.get(kind)
    return options[int(rest.split(".")[0])].name if options is not None else ""


def part_of(scenario: Scenario, path: str) -> CloudPart | None:
    """The part of a mixed fleet that the number is of; None for a fleet bought in one way."""
    steps = path.split(".")
    if steps[0] != "cloud" or len(steps) < 4:
        return None
    parts = scenario.cloud[int(steps[1])].parts
    return parts[int(steps[3])] if len(parts) > 1 else None


def drivers(scenario: Scenario) -> Iterator[Driver]:
    """The numbers that mostly decide, in the order in which a form asks for them."""
    for name, logarithmic, low, high in (
        ("requests_per_day", True, 0.0, 0.0),
        ("peak_factor", False, 1.0, 10.0),
        ("input_tokens", True, 0.0, 0.0),
        ("output_tokens", True, 0.0, 0.0),
        ("cached_input_share", False, 0.0, 1.0),
        ("growth_per_year", False, -0.5, 2.0),
    ):
        yield Driver(f"workload.{name}", "work", logarithmic, low, high)
    for arm in ("plain", "speculative"):
        yield Driver(f"serving.{arm}.output_tokens_per_second", "speed")
    for arm in ("plain", "speculative"):
        yield Driver(f"serving.{arm}.input_tokens_per_second", "speed")
    if not scenario.load_curve:  # which, where there is one, says how busy a replica may be
        yield Driver("serving.busy_limit", "speed", False, 0.05, 1.0)
    if scenario.serving.p95_target_s is not None:
        yield Driver("serving.p95_target_s", "speed")
    for i, option in enumerate(scenario.options):
        yield from _of_option(option, i, scenario)
    yield Driver(YEARS, "money", False, 1, 5)
    yield Driver("cost_of_capital", "money", False, 0.0, 0.4)


def _of_option(option: object, i: int, scenario: Scenario) -> Iterator[Driver]:
    if isinstance(option, Cloud):
        for j in range(len(option.parts)):
            yield Driver(f"cloud.{i}.parts.{j}.per_gpu_hour", "option", option=option.name)
    elif isinstance(option, Owned):
        at = f"owned.{i - len(scenario.cloud)}"
        yield Driver(f"{at}.price", "option", option=option.name)
        yield Driver(f"{at}.per_kwh", "option", option=option.name)
        yield Driver(f"{at}.life_years", "option", False, 1, 8, option.name)
    else:
        at = f"api.{i - len(scenario.cloud) - len(scenario.owned)}"
        for name in ("input_per_million", "output_per_million"):
            yield Driver(f"{at}.{name}", "option", option=scenario.options[i].name)
