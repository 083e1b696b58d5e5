"""What the sensitivity views look at: which option, which two numbers, over which values."""

from typing import Any

from app.finance import fields
from app.finance.cost_sheets import arms_of, names, with_arms
from app.finance.desk import Desk, Now
from app.finance.sensitivity_sheets import steps
from pricing.scenario import ARMS, Arm, Scenario


def picked_option(desk: Desk, now: Now) -> tuple[str, Arm]:
    """The option and arm that were picked on the TCO tab, or the scenario's first that is decoded in both ways: one
    that stays the same however the numbers move."""
    picked = desk.picks.get("option", "")
    name, _, arm = picked.rpartition("|")
    if name in names(now.made) and arm in arms_of(now.made, name):
        return name, _arm(arm)
    both = _in_order(now)
    return (both[0], "speculative") if both else (names(now.made)[0], "plain")


def picked_name(desk: Desk, now: Now, pick: str) -> str | None:
    """An option with two arms, as picked; None where there is none."""
    both = _in_order(now)
    picked = desk.picks.get(pick, "")
    return picked if picked in both else both[0] if both else None


def _in_order(now: Now) -> list[str]:
    """Options with both arms, in the scenario's own order."""
    known = with_arms(now.made)
    return [option.name for option in now.scenario.options if option.name in known]


def in_both(before: Scenario, after: Scenario, name: str) -> str | None:
    """The option whose total is followed from one scenario to the other: the one named, else the first that both have;
    None where there is none."""
    known = [option.name for option in before.options]
    names = [option.name for option in after.options if option.name in known]
    return name if name in names else names[0] if names else None


def axis_paths(scenario: Scenario) -> list[str]:
    """Numbers that a two-way table may vary: those with a range, and those with a slider; not what is chosen."""
    figures = scenario.figures()
    ranged = [path for path, figure in figures.items() if figure.is_a_range]
    sliders = [d.path for d in fields.drivers(scenario) if d.path in figures]
    return [path for path in dict.fromkeys([*ranged, *sliders]) if path != "serving.requests_at_once"]


def picked_axes(desk: Desk, scenario: Scenario) -> tuple[str, str]:
    """The two numbers, never the same one twice."""
    paths = axis_paths(scenario)
    wanted = ["workload.requests_per_day", "serving.speculative.output_tokens_per_second"]
    chosen: list[str] = []
    for name, usual in zip(("row", "across"), wanted, strict=True):
        picked: Any = desk.picks.get(name)
        chosen.append(picked if picked in paths else usual)
    if chosen[0] == chosen[1]:
        chosen[1] = next(path for path in paths if path != chosen[0])
    return chosen[0], chosen[1]


def axes(scenario: Scenario, path: str) -> list[float]:
    """Values that the number may have with all others as they are."""
    made = steps(scenario.figures()[path], scenario.bounds(path))
    return [value for value in made if scenario.refused({path: value}) is None]


def _arm(arm: str) -> Arm:
    return next(known for known in ARMS if known == arm)
