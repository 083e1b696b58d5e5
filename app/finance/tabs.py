"""What each finance tab shows for a desk, as values for its components: the figures that follow a slider at once, the
charts that come right behind them, and what waits until the hand rests. Layout and wiring are in page.py."""

from datetime import date
from typing import Any

import gradio as gr

from app.catalogue import Words
from app.components.finance_views import blocks
from app.finance import charts, cost_sheets, price_sheet, sensitivity_sheets, tco_charts, tco_sheets, year_sheet
from app.finance.chances import shown as chances_shown
from app.finance.desk import Desk, Now, shipped, shipped_names
from app.finance.faults import told
from app.finance.fields import full_label
from app.finance.load_curve import load_lines
from app.finance.two_way import axes, axis_paths, in_both, picked_axes, picked_name, picked_option
from pricing import PriceTable
from pricing.export.told_moved import refusal
from pricing.export.words import Words as ExportWords
from pricing.moved import NotComparableError, what_moved
from pricing.scenario import Arm, Scenario
from pricing.scenario_file import ScenarioError
from pricing.sensitivity import Driver, tornado, two_way
from pricing.tco import cost_options

# Components by name, in the order of page.py's outputs.
COST = (
    "cost_head", "cost_cards", "fall_picks", "fall", "load", "load_table", "price_picks", "prices", "price_table",
    "cost_excluded",
)  # fmt: skip
TCO = (
    "tco_head", "verdict", "options", "cash", "gain", "break_even", "choices", "year_picks", "years", "tornado",
    "drivers", "two_way", "chances", "chances_chart", "moved", "tco_excluded",
)  # fmt: skip
NAMES = (*COST, *TCO)
# What is answered first, and what next: of both tabs, since it is the server that knows which one is seen. Few, because
# every output costs the server a millisecond and more even where it is skipped.
FIGURES = ("cost_head", "cost_cards", "tco_head", "verdict", "options")
CHARTS = ("fall_picks", "fall", "cash", "gain")
_TRIES = 3
PLOTS = ("fall", "load", "prices", "cash", "gain", "tornado", "chances_chart")
Views = dict[str, Any]


def figures(desk: Desk, words: Words) -> Views:
    """What follows a slider at once, on the tab that is seen."""
    now = desk.now
    if desk.tab not in ("cost", "tco"):
        return {}
    views: Views = {f"{desk.tab}_head": cost_sheets.head(desk, words)}
    if now is None:
        return views
    if desk.tab == "cost":
        return views | {"cost_cards": cost_sheets.costs(now, words, desk.to)}
    verdict = tco_sheets.verdict(now, words, desk.to)
    return views | {"verdict": verdict, "options": tco_sheets.options(now, words, desk.to)}


def charts_of(desk: Desk, words: Words) -> Views:
    """The charts that follow a slider on the tab that is seen: a browser draws one as long as all figures together."""
    now = desk.now
    if now is None or desk.tab not in ("cost", "tco"):
        return {}
    if desk.tab == "cost":
        return _fall(desk, now, words)
    return {
        "cash": _plot(tco_charts.cash(now, words, desk.to)),
        "gain": _plot(tco_charts.gain(now, words, desk.to) if cost_sheets.with_arms(now.made) else None),
    }


def rest(desk: Desk, prices: PriceTable, words: Words, today: date | None = None) -> Views:
    """What is calculated when the hand rests."""
    now = desk.now
    if now is None or desk.tab not in ("cost", "tco"):
        return {}
    if desk.tab == "cost":
        excluded = {"cost_excluded": cost_sheets.excluded(now.scenario, words)}
        return _load(desk, now, words) | _prices(desk, now, prices, words, today or date.today()) | excluded
    sheet, chart = chances_shown(desk, words)
    return {
        "break_even": tco_sheets.break_evens(now, words),
        "choices": tco_sheets.in_place_of(now, words, desk.to),
        "chances": sheet,
        "chances_chart": _plot(chart),
        "tco_excluded": cost_sheets.excluded(now.scenario, words),
        **_of_option(desk, now, words),
    }


def all_of(desk: Desk, prices: PriceTable, words: Words) -> Views:
    """Of the desk as it is when this is done: an edit of meanwhile has been answered already, and what is older must
    not come after it."""
    for _ in range(_TRIES):
        before = desk.now, desk.to, desk.tab
        views = figures(desk, words) | charts_of(desk, words) | rest(desk, prices, words)
        if (desk.now, desk.to, desk.tab) == before:
            return views
    # A slider is dragged on: what follows it comes with its own answers, and the rest when it rests.
    return {name: view for name, view in views.items() if name not in (*FIGURES, *CHARTS)}


def as_list(views: Views, names: tuple[str, ...] = NAMES) -> list[Any]:
    """For the outputs, in the order of `names`; what is not in it stays as it is."""
    return [views.get(name, gr.skip()) for name in names]


def after_pick(desk: Desk, name: Any, prices: PriceTable, words: Words) -> Views:
    """What another choice in a sheet's select changes."""
    now = desk.now
    if now is None:
        return {}
    if name == "fall":
        return _fall(desk, now, words) | _load(desk, now, words)
    if name == "provider":
        return _prices(desk, now, prices, words, date.today())
    if name == "option":
        return _of_option(desk, now, words)
    if name in ("row", "across"):
        return {"two_way": _two_way(desk, now, words)}
    return {"moved": moved(desk, words)} if name == "against" else {}


def pick(desk: Desk, name: Any, value: Any) -> None:
    """A select of a sheet. What is no choice of ours is passed over; each view checks what it is given once more."""
    if name not in ("fall", "provider", "option", "row", "across", "against") or not isinstance(value, str):
        return
    if name == "against":
        if value == "kept":
            return
        try:
            desk.other = shipped(value) if value else None
        except ScenarioError:
            return
    desk.picks[name] = value


def _fall(desk: Desk, now: Now, words: Words) -> Views:
    name = picked_name(desk, now, "fall")
    options = [{"value": n, "text": n} for n in cost_sheets.with_arms(now.made)]
    return {
        "fall_picks": blocks(_picks(_select("fall", words("col_option"), name, options))) if name else blocks(),
        "fall": _plot(charts.waterfall(now, name, words) if name else None),
    }


def _load(desk: Desk, now: Now, words: Words) -> Views:
    name = picked_name(desk, now, "fall")
    lines = load_lines(now, name) if name else []
    return {
        "load": _plot(charts.load(lines, now, words) if lines else None),
        "load_table": cost_sheets.load_table(lines, now, words) if lines else blocks(),
    }


def _prices(desk: Desk, now: Now, prices: PriceTable, words: Words, today: date) -> Views:
    rows = price_sheet.wanted(desk, prices, today)
    return {
        "price_picks": blocks(price_sheet.picks(desk, prices, words)),
        "prices": _plot(charts.prices(rows, now, words, today, desk.to)),
        "price_table": price_sheet.sheet(desk, now, prices, words, today),
    }


def _of_option(desk: Desk, now: Now, words: Words) -> Views:
    """The views that look at one option: years, tornado, two-way table, what moved."""
    name, arm = picked_option(desk, now)
    option = now.made.option(name, arm)
    titles = [{"value": f"{o.name}|{o.arm}", "text": tco_sheets.title(o, words)} for o in now.made.options]
    found, fault = _tornado(now, name, arm, words)
    return {
        "year_picks": blocks(_picks(_select("option", words("pick_option"), f"{name}|{option.arm}", titles))),
        "years": year_sheet.years(now, name, arm, words, desk.to),
        "tornado": _plot(tco_charts.tornado(found, now.scenario, name, words) if found else None),
        "drivers": fault or sensitivity_sheets.drivers(found, now.scenario, words),
        "two_way": _two_way(desk, now, words),
        "moved": moved(desk, words),
    }


def _two_way(desk: Desk, now: Now, words: Words) -> Any:
    scenario = now.scenario
    name, arm = picked_option(desk, now)
    row, across = picked_axes(desk, scenario)
    down, right = axes(scenario, row), axes(scenario, across)
    paths = [{"value": path, "text": full_label(scenario, path, words)} for path in axis_paths(scenario)]
    chosen = _picks(
        _select("row", words("axis_down"), row, paths), _select("across", words("axis_across"), across, paths)
    )
    try:
        totals = two_way(scenario, name, (row, down), (across, right), arm)
    except ValueError as error:  # at some end of an axis it cannot be served
        return blocks(chosen, _refused(error, words))
    return blocks(chosen, sensitivity_sheets.two_way((row, down), (across, right), totals, scenario, words))


def _tornado(now: Now, name: str, arm: Arm, words: Words) -> tuple[list[Driver], Any]:
    """(what was found, or a block that says why nothing was)."""
    try:
        return tornado(now.scenario, name, arm), None
    except (ValueError, ArithmeticError) as error:  # at some end of a range it cannot be served
        return [], blocks(_refused(error, words))


def _refused(error: Exception, words: Words) -> dict[str, Any]:
    return {"type": "text", "text": told(str(error), "", words), "tone": "fault"}


def moved(desk: Desk, words: Words) -> Any:
    """What is other than in the scenario that this one is compared with."""
    now = desk.now
    if now is None:
        return blocks()
    before, after = desk.compared()
    name, arm = picked_option(desk, now)
    name = in_both(before, after, name)
    against = desk.picks.get("against", "")
    choices = [{"value": "", "text": words("moved_opened")}]
    choices += [{"value": stem, "text": title} for stem, title in shipped_names()]
    if against == "kept":
        choices.append({"value": "kept", "text": before.name})
    picks = _picks(_select("against", words("moved_against"), against, choices))
    if name is None:
        return blocks(picks, {"type": "text", "text": words("moved_no_option")})
    try:
        found = what_moved(before, after, name, arm)
        totals = _totals(before, after, name, arm)
    except NotComparableError as error:
        return blocks(picks, {"type": "text", "text": refusal(error, ExportWords(words.language))})
    except (ValueError, ArithmeticError) as error:  # one of the two cannot be served, or is beyond what floats hold
        return blocks(picks, _refused(error, words))
    return blocks(picks, *sensitivity_sheets.moved(found, before, after, name, totals, words))


def _totals(before: Scenario, after: Scenario, name: str, arm: str) -> tuple[float, float] | None:
    """The option's totals in both, where both have it."""
    found = []
    for scenario in (before, after):
        found += [c for c in cost_options(scenario) if c.option == name and (c.arm == arm or c.kind == "api")]
    return (float(found[0].total[0]), float(found[1].total[0])) if len(found) == 2 else None


def _select(name: str, label: str, value: str | None, options: list[dict[str, str]]) -> dict[str, Any]:
    return {"name": name, "label": label, "value": value, "options": options}


def _picks(*selects: dict[str, Any]) -> dict[str, Any]:
    return {"type": "picks", "picks": list(selects)}


def _plot(figure: Any) -> Any:
    return gr.update(value=figure, visible=figure is not None)
