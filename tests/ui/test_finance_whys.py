"""Every number of the finance tabs opens its derivation, and nothing else does."""

import json
import re

import pytest
from finance_desk import EN, PRICES, RATE, TR, opened, sheets, tables_of, whys
from helpers.derivation import evaluated
from helpers.everything import everything
from helpers.finance import a_loss, by_hand

from app.finance.desk import Desk
from app.finance.why_options import enriched
from app.finance.whys import explain
from pricing.tokens import FORMULAS

pytestmark = pytest.mark.usefixtures("shipped")


@pytest.mark.parametrize("words", [EN, TR], ids=["en", "tr"])
@pytest.mark.parametrize("tab", ["cost", "tco"])
@pytest.mark.parametrize(
    "scenario", [by_hand(), a_loss(), by_hand(tax_share=0.2, years=3)], ids=["usd", "try", "taxed"]
)
def test_every_number_opens_its_derivation(scenario, tab, words):
    held = opened(tab, scenario, words)
    found = list(whys(list(sheets(held, words).values())))
    assert len(found) > 50
    for why, text in found:
        panel = explain(held, why, PRICES, words)
        assert panel is not None, why
        assert panel["steps"] or panel["inputs"] or panel["told"], why
        for one in panel["inputs"]:
            assert one["kind"] in ("measured", "projected", "quoted", "assumed")
            assert one["kind_text"] == words(f"label_{one['kind']}")
        shown_figure, derived = (re.sub(r"[^0-9]", "", t)[:3] for t in (text, panel["value"]))
        if why[0] in ("option", "token", "price", "speculation") and shown_figure:
            assert derived.startswith(shown_figure[:2]), (why, text, panel["value"])
        if why[0] == "token":
            assert panel["value"] == text, why
        json.dumps(panel, allow_nan=False)


# Digits that are no figures, by sheet and column beside the first, which names its row: how long a GPU is reserved, and
# the day of a quote.
NAMES = {("price_table", 2), ("price_table", 4)}


@pytest.mark.parametrize("words", [EN, TR], ids=["en", "tr"])
@pytest.mark.parametrize("tab", ["cost", "tco"])
@pytest.mark.parametrize("scenario", [by_hand(), a_loss(), everything()], ids=["usd", "try", "everything"])
def test_every_cell_with_a_digit_is_a_figure_with_a_derivation(scenario, tab, words):
    """Of all tables; rows and columns are named in their heads, and what is said in sentences stands in no table."""
    seen = 0
    for sheet, value in sheets(opened(tab, scenario, words), words).items():
        for table in tables_of(value):
            for row in table["rows"]:
                for column, cell in enumerate(row["cells"][1:], 1):
                    held = cell if isinstance(cell, dict) else {"t": cell or ""}
                    if re.search("[0-9]", held["t"]) and (sheet, column) not in NAMES:
                        assert "why" in held, (sheet, table["name"], column, held)
                        seen += 1
    assert seen > 40


@pytest.mark.parametrize("scenario", [by_hand(), everything()], ids=["usd", "everything"])
def test_each_formula_behind_a_token_gives_the_number_that_is_shown(scenario):
    now = opened("cost", scenario).now
    for option in now.made.options:
        derivation, _ = enriched(now, option)
        values = {path: figure.value for path, figure in now.scenario.figures().items()}
        values |= {name: step.value for name, step in derivation.steps.items()}
        told = {name: evaluated(step, values) for name, step in derivation.steps.items() if step.formula}
        known = [name for name in FORMULAS if getattr(option.tokens, name) is not None]
        assert {"total", *known} <= set(told), option.title
        for name in known:
            assert told[name] == pytest.approx(getattr(option.tokens, name)), (option.title, name)
        assert told["total"] == pytest.approx(option.total)
        for name, worked in told.items():
            assert worked == pytest.approx(derivation.steps[name].value), (option.title, name)


def test_a_break_even_is_proved_by_the_request_below_it():
    """The golden case, without a spare replica: three replicas are 65,437.20, as much as 224,100 requests a day."""
    held = opened("tco", by_hand(serving__spare_replicas=0, speculation__pilot=0))
    panel = explain(held, ["break_even", "rented", "an API"], PRICES, EN)
    assert panel["value"] == "224,101"
    shown_at = [step["label"] for step in panel["steps"]]
    below = shown_at.index("One request fewer")
    assert panel["steps"][below]["value"].startswith("224,100 ")
    assert [step["value"] for step in panel["steps"][below + 1 : below + 3]] == ["$65,437.20", "$65,437.20"]


def test_a_derivation_has_formula_inputs_labels_and_sources():
    held = opened()
    panel = explain(held, ["token", "rented", "plain", "per_million_output"], PRICES, EN)
    assert panel["value"] == "$2.997"
    assert panel["steps"][0]["formula"] == (
        "per_million_output = total × output_s ÷ request_s ÷ output_tokens_of_term × 1e6"
    )
    assert any(step["formula"].startswith("replicas = largest of (1, round up (") for step in panel["steps"])
    rate = next(one for one in panel["inputs"] if one["path"] == RATE)
    assert (rate["kind"], rate["source"], rate["range"]) == ("quoted", "a price page, 2026-11-30", "2 to 3")
    turkish = explain(opened(words=TR), ["token", "rented", "plain", "per_million_output"], PRICES, TR)
    assert any("yukarı yuvarla" in step["formula"] for step in turkish["steps"])
    assert not [step for step in turkish["steps"] if step["label"].isascii() and "_" in step["label"]]


@pytest.mark.parametrize(
    "asked",
    [
        None,
        [],
        {},
        "x",
        ["nothing"],
        ["option"],
        ["option", "rented", "sideways", "total"],
        ["option", "no", "plain", "total"],
        ["option", "rented", "plain", "__class__"],
        ["year", "rented", "plain", "total", "99"],
        ["year", "rented", "plain", "flows", "1"],
        ["choice", "-9", "saving"],
        ["choice", "x", "saving"],
        ["speculation", "an API", "npv"],
        ["speculation", "rented", "flows"],
        ["two_way", "a", "b", "0", "0"],
        ["chance", "rented, plain", "p50"],
        ["load", "rented", "plain", "999"],
        ["price", "9999999"],
        ["input", "workload"],
        [["option"]],
        ["token", 1, 2, 3],
    ],
)
def test_what_is_no_number_of_the_page_has_no_derivation(asked):
    assert explain(opened("tco"), asked, PRICES, EN) is None
    assert explain(Desk(), asked, PRICES, EN) is None
