"""What the finance tabs' buttons do: plain functions over a desk, testable without a browser.

Each gives the values of its outputs: the shelf, the form, the form's answer, then the tabs' components.
"""

import uuid
from collections.abc import Mapping
from typing import Any

import gradio as gr

from app.catalogue import Words
from app.finance import exports as files_of
from app.finance import faults, form_view, measured, tabs
from app.finance.desk import Desk, from_text, shipped, shipped_names
from app.finance.shown import clean
from pricing import PriceTable
from pricing.scenario_file import ScenarioError, shipped_scenarios

SAYS = (
    "ship", "ship_none", "upload", "fetch", "take", "keep", "kept", "kept_none", "kept_info", "kept_name", "kept_open",
    "kept_compare", "kept_delete", "kept_really", "kept_full", "kept_done", "file_large", "file_text",
)  # fmt: skip
_LONGEST_NAME = 80
FIRST = "ecommerce_chat"  # what a page opens on, where it ships


def select(desk: Desk, tab: str, prices: PriceTable, words: Words) -> list[Any]:
    """A tab comes into sight; with the first one, a scenario that ships."""
    desk.tab = tab
    if desk.base is not None:
        return [gr.skip(), gr.skip(), form_view.beside(desk), *_shown(desk, prices, words)]
    told, tone = "", ""
    known = shipped_scenarios()
    first = FIRST if FIRST in known else next(iter(known), None)
    if first is not None:
        try:
            desk.open(shipped(first), first, words)
        except ScenarioError as error:
            told, tone = faults.file_told(str(error), words), "fault"
    return [shelf(desk, words, told, tone), form_view.drawn(desk, words), gr.skip(), *_shown(desk, prices, words)]


def open_scenario(desk: Desk, given: Any, prices: PriceTable, words: Words) -> list[Any]:
    """A shipped scenario, a file's text, or what the browser had kept. What cannot be used changes nothing."""
    asked = given if isinstance(given, Mapping) else {}
    try:
        if "shipped" in asked:
            scenario, name = shipped(str(asked["shipped"])), str(asked["shipped"])
        else:
            scenario, name = from_text(asked.get("text"), asked.get("name")), ""
        desk.open(scenario, name, words)
    except ScenarioError as error:
        return [
            shelf(desk, words, faults.file_told(str(error), words), "fault"),
            gr.skip(),
            gr.skip(),
            *tabs.as_list({}),
        ]
    return [
        shelf(desk, words, words("opened", name=scenario.name), "gain"),
        form_view.drawn(desk, words),
        gr.skip(),
        *_shown(desk, prices, words),
    ]


def edit(desk: Desk, sent: Any, words: Words) -> list[Any]:
    """The form changed: its answer, and the figures that follow a slider."""
    if not desk.edit(sent, words):
        return [gr.skip(), *tabs.as_list({}, tabs.FIGURES)]
    return [form_view.patch(desk, words), *tabs.as_list(tabs.figures(desk, words), tabs.FIGURES)]


def settle(desk: Desk, prices: PriceTable, words: Words) -> list[Any]:
    """The hand rests: what waited for that. No figures: on their way they could pass those of a later edit."""
    return tabs.as_list(tabs.rest(desk, prices, words))


def take(desk: Desk, session: Any, prices: PriceTable, words: Words) -> list[Any]:
    """The Explore tab's speeds into the scenario."""
    unchanged = [gr.skip(), gr.skip(), *tabs.as_list({})]
    if desk.current is None:
        return [shelf(desk, words, words("nothing_open"), "fault"), *unchanged]
    try:
        taken = measured.take(desk.current, session, words)
    except ValueError as error:
        return [shelf(desk, words, str(error), "fault"), *unchanged]
    desk.put(taken.scenario, words)
    return [
        shelf(desk, words, taken.told, "gain"),
        form_view.drawn(desk, words),
        gr.skip(),
        *_shown(desk, prices, words),
    ]


def keep(desk: Desk, given: Any, words: Words) -> Any:
    """The scenario's text, for the browser to keep; the server keeps nothing."""
    if desk.current is None:
        return shelf(desk, words, words("nothing_open"), "fault")
    asked = given.get("name") if isinstance(given, Mapping) else ""
    name = clean(str(asked or "")).strip()[:_LONGEST_NAME] or desk.current.name
    scenario = desk.current.model_copy(update={"name": name})
    text = files_of.toml_file(scenario)[2].decode()
    return shelf(desk, words, name=name) | {"keep": {"name": name, "text": text}}


def fetch(desk: Desk, words: Words) -> Any:
    """The scenario as a TOML file."""
    if desk.current is None:
        return shelf(desk, words, words("nothing_open"), "fault")
    return shelf(desk, words) | {"file": files_of.as_download(files_of.toml_file(desk.current))}


def compare(desk: Desk, given: Any, prices: PriceTable, words: Words) -> list[Any]:
    """What the browser had kept, beside the scenario that is open."""
    asked = given if isinstance(given, Mapping) else {}
    unchanged = [gr.skip(), gr.skip()]
    if desk.current is None:
        return [shelf(desk, words, words("nothing_open"), "fault"), *unchanged, *tabs.as_list({})]
    try:
        desk.other = from_text(asked.get("text"), asked.get("name"))
    except ScenarioError as error:
        return [shelf(desk, words, faults.file_told(str(error), words), "fault"), *unchanged, *tabs.as_list({})]
    desk.picks["against"] = "kept"
    told = shelf(desk, words, words("compared", name=desk.other.name), "gain")
    return [told, *unchanged, *tabs.as_list({"moved": tabs.moved(desk, words)} if desk.tab == "tco" else {})]


def pick(desk: Desk, given: Any, prices: PriceTable, words: Words) -> list[Any]:
    asked = given if isinstance(given, Mapping) else {}
    tabs.pick(desk, asked.get("name"), asked.get("value"))
    return tabs.as_list(tabs.after_pick(desk, asked.get("name"), prices, words))


def shelf(desk: Desk, words: Words, told: str = "", tone: str = "", name: str | None = None) -> dict[str, Any]:
    """The shelf's value; a new `n` each time, so that the same sentence is said again."""
    current = desk.current.name if desk.current is not None else ""
    return {
        "says": {key: words(f"shelf_{key}") for key in SAYS},
        "shipped": [{"value": stem, "text": title} for stem, title in shipped_names()],
        "current": desk.name if desk.name in shipped_scenarios() else "",
        "title": current,
        "name": current if name is None else name,
        "n": uuid.uuid4().hex,
        "told": told,
        "tone": tone,
    }


def _shown(desk: Desk, prices: PriceTable, words: Words) -> list[Any]:
    return tabs.as_list(tabs.all_of(desk, prices, words))
