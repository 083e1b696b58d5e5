"""A desk with a scenario on it, and what the sheets made for it hold."""

from datetime import date

from fakes import drafted_run
from helpers.finance import by_hand

from app.catalogue import Words
from app.finance import chances, tabs
from app.finance.desk import Desk
from app.session import Run, Session
from pricing import load_prices

EN, TR = Words("en"), Words("tr")
PRICES = load_prices()
PEAK, RATE = "workload.peak_factor", "cloud.0.parts.0.per_gpu_hour"


def opened(tab="cost", scenario=None, words=EN):
    held = Desk(tab=tab)
    held.open(scenario or by_hand(), "", words)
    return held


def shelf_of(made):
    return made[0]


def whys(value):
    """(why, text) of every figure in a sheet."""
    if isinstance(value, dict):
        if "why" in value:
            yield value["why"], value["t"]
        for part in value.values():
            yield from whys(part)
    elif isinstance(value, list):
        for part in value:
            yield from whys(part)


def sheets(held, words=EN):
    """All sheets of the tab that is seen, a Monte Carlo run in them."""
    if held.tab == "tco":
        list(chances.run(held, words))
    made = tabs.all_of(held, PRICES, words)
    return {name: sheet for name, sheet in made.items() if name not in tabs.PLOTS}


def table(sheet, name):
    found = [b for b in blocks_of(sheet) if b.get("name") == name and b["type"] == "table"]
    assert found, name
    return found[0]


def blocks_of(sheet):
    for block in sheet["blocks"]:
        yield block
        yield from blocks_of({"blocks": block.get("blocks", [])})
        for card in block.get("cards", []) if block["type"] == "cards" else []:
            yield from blocks_of(card)


def tables_of(value):
    """All tables of a sheet, wherever they stand in it."""
    if isinstance(value, dict):
        if value.get("type") == "table":
            yield value
        for part in value.values():
            yield from tables_of(part)
    elif isinstance(value, list):
        for part in value:
            yield from tables_of(part)


def texts(row):
    return [cell["t"] if isinstance(cell, dict) else cell for cell in row["cells"]]


def measured_session(lossy=False, drafter="composite", steps=12):
    run = Run(
        drafter,
        "typical" if lossy else "rejection",
        5,
        "cpu",
        "float32",
        "Some CPU",
        "m · Some CPU · 2026-11-30",
        date(2026, 11, 30),
    )
    run.prompt_tokens = 40
    for arm, step in drafted_run(steps):
        run.add(arm, step)
    run.state = "done"
    return Session(run)
