"""The TCO tab in a second currency: beside each amount at the rate that the reader gave, in the files too, and nowhere
without one."""

import base64
import csv
import io
import re

import openpyxl
import pytest
from finance_desk import EN, PRICES, TR, blocks_of, opened, table, texts, whys
from helpers.finance import a_loss, by_hand
from helpers.rates import exchange, lira

from app.finance import exports, tabs
from app.finance.whys import explain
from pricing.tco import tco

# 13 replicas x 2.49 x 8,760 hours and 9 with a pilot of 29,083.20, at 42.5 lira a dollar.
PLAIN, FAST, SAVED = "₺12,051,351", "₺9,579,279", "₺2,472,072"


def shown(to, words=EN, scenario=None):
    held = opened("tco", scenario or by_hand(), words)
    held.to = to
    return held, tabs.all_of(held, PRICES, words)


def row(sheet, name, first):
    return next(r["cells"] for r in table(sheet, name)["rows"] if texts(r)[0] == first)


def subs(value):
    """All that stands under a figure."""
    if isinstance(value, dict):
        if "sub" in value:
            yield from value["sub"] if isinstance(value["sub"], list) else [value["sub"]]
        for part in value.values():
            yield from subs(part)
    elif isinstance(value, list):
        for part in value:
            yield from subs(part)


def test_totals_present_values_and_savings_have_lira_under_them_and_keep_their_dollars():
    _, made = shown(lira())
    cells = row(made["options"], "options", "rented")
    assert [cell["t"] for cell in cells[1:5]] == ["$283,561", "$225,395", "$225,395", "$58,166"]
    assert [cell["sub"] for cell in cells[1:4]] == [PLAIN, FAST, FAST]
    assert cells[4]["sub"] == [SAVED, "+20.5%"]
    assert all("sub" not in cell for cell in cells[5:])  # weeks and rates are no money


def test_each_years_total_is_in_lira_and_the_lines_that_it_adds_up_are_not():
    held, _ = shown(lira())
    tabs.pick(held, "option", "rented|plain")
    sheet = tabs.all_of(held, PRICES, EN)["years"]
    assert [cell["sub"] for cell in row(sheet, "years", "Total")[1:]] == [PLAIN, PLAIN]
    assert list(subs(sheet)) == [PLAIN, PLAIN]


def test_one_option_in_place_of_another_is_worth_lira_too():
    """An API's 26,280 million tokens at 0.50 and 5,256 at 1.50 a million, 12 times: 252,288; less 225,394.80."""
    _, made = shown(lira())
    rows = table(made["choices"], "choices")["rows"]
    cells = next(r["cells"] for r in rows if r["cells"][0]["t"] == "rented, speculative" and "API" in texts_of(r))
    assert [cell["sub"] for cell in cells[1:3]] == ["₺1,142,961"] * 2


def texts_of(line):
    return " ".join([*texts(line), *subs(line)])


def test_the_sentences_say_both_and_a_loss_is_one_in_both():
    _, made = shown(lira())
    told = [block["text"] for block in made["verdict"]["blocks"]]
    assert "$159,443 (₺6,776,339)" in told[0]
    assert any("$58,166 (₺2,472,072; 20.5%)" in text for text in told if text.startswith("rented"))
    assert any("loss" in text and "$27,734 (₺1,178,702; 17.4%)" in text for text in told if text.startswith("own rack"))


@pytest.mark.parametrize("words", [EN, TR])
def test_of_several_rates_the_line_names_the_one_that_is_used(words):
    to = exchange(USD_TRY=42.5, EUR_TRY=48.2)
    _, made = shown(to, words)
    told = [block["text"] for block in made["verdict"]["blocks"] if block.get("tone") == "small"]
    assert told == [
        "Also shown in TRY, at 42.5 TRY per USD, selling, 2026-11-27, our bank."
        if words is EN
        else "Ayrıca TRY olarak gösteriliyor; kur: 1 USD = 42,5 TRY, satış, 2026-11-27, our bank."
    ]


@pytest.mark.parametrize("to", [None, exchange("USD", USD_TRY=42.5)])
def test_without_a_rate_for_it_the_tab_is_as_before(to):
    _, made = shown(to)
    told = str([value for name, value in made.items() if name not in tabs.PLOTS])
    assert "₺" not in told
    assert list(subs(made["years"])) == []


def test_a_rate_that_does_not_reach_the_scenario_is_said_to_be_missing_and_converts_nothing():
    held, made = shown(exchange(EUR_TRY=48.2))
    told = [block["text"] for block in made["verdict"]["blocks"]]
    assert told[-1] == EN("rates_unreached", own="USD", currency="TRY")
    assert "₺" not in str([made["options"], made["years"], made["choices"]])
    names = [one["name"] for one in exports.files(held, PRICES, EN)["files"]]
    assert len(names) == 5  # and the files are made, in dollars


def test_lira_are_divided_where_dollars_are_asked_for():
    """11,388,000 lira at 42.5: 267,953 dollars."""
    _, made = shown(exchange("USD", USD_TRY=42.5), scenario=a_loss())
    assert row(made["options"], "options", "rented")[1]["sub"] == "$267,953"


def test_the_charts_tell_both_at_a_point():
    held, _ = shown(lira())
    figure = tabs.charts_of(held, EN)["cash"]["value"]
    assert "$283,561 (₺12,051,351)" in str([trace.customdata for trace in figure.data])


# Why

MONEY = ("option", "speculation", "choice", "year", "driver", "two_way", "token")


def test_a_total_in_lira_says_amount_rate_day_side_and_source():
    held, _ = shown(lira())
    panel = explain(held, ["option", "rented", "plain", "total"], PRICES, EN)
    first = panel["steps"][0]
    assert panel["value"] == "$283,561.20"
    assert (first["label"], first["value"]) == ("In TRY", "₺12,051,351.00")
    assert (first["formula"], first["note"]) == (
        "$283,561.20 × 42.5", "at 42.5 TRY per USD, selling, 2026-11-27, our bank",
    )  # fmt: skip
    rate = panel["inputs"][-1]
    assert (rate["label"], rate["value"], rate["kind"]) == ("Exchange rate", "42.5 TRY/USD", "quoted")
    assert rate["source"] == "selling, 2026-11-27, our bank"


@pytest.mark.parametrize(("tab", "words"), [("tco", EN), ("tco", TR), ("cost", EN)])
def test_every_amount_on_the_tab_opens_its_lira_and_nothing_else_does(tab, words):
    held, made = shown(lira(), words)
    held.tab = tab
    made = tabs.all_of(held, PRICES, words)
    asked = [(why, text) for why, text in whys(list(made.values())) if why[0] in MONEY]
    assert len(asked) >= 40
    for why, text in asked:
        panel = explain(held, why, PRICES, words)
        lines = [step["value"] for step in panel["steps"] if step["label"] == words("why_rate", currency="TRY")]
        assert len(lines) == ("$" in panel["value"]), (why, text, panel["value"])
        assert all(line.lstrip("−").startswith("₺") for line in lines)


def test_where_it_is_divided_the_formula_says_so():
    held, _ = shown(exchange("USD", USD_TRY=42.5), scenario=a_loss())
    panel = explain(held, ["year", "rented", "plain", "compute", "1"], PRICES, EN)
    assert panel["steps"][0]["formula"] == "₺11,388,000.00 ÷ 42.5"


def test_without_a_rate_no_derivation_has_one():
    held, _ = shown(None)
    panel = explain(held, ["option", "rented", "plain", "total"], PRICES, EN)
    assert "TRY" not in str(panel)


# Files


def files(held, words=EN):
    made = exports.files(held, PRICES, words)["files"]
    return {re.sub(r".*\.", ".", one["name"]): base64.b64decode(one["base64"]) for one in made}


@pytest.mark.parametrize("words", [EN, TR])
def test_the_pages_files_carry_the_rate_and_both_amounts(words):
    held, _ = shown(lira(), words)
    made = files(held, words)
    text = made[".csv"].decode("utf-8-sig")
    lines = list(csv.DictReader(io.StringIO(text, newline=""), delimiter="," if words is EN else ";"))
    own = [line for line in lines if (line["option"], line["arm"]) == ("rented", "plain")]
    total = sum(float(line["shown_total"].replace(",", ".")) for line in own)
    assert total == pytest.approx(tco(by_hand()).option("rented", "plain").total * 42.5)
    assert {line["shown_currency"] for line in lines} == {"TRY"}
    page = made[".html"].decode()
    assert "12,051,351" in page or "12.051.351" in page
    assert "our bank" in page
    book = openpyxl.load_workbook(io.BytesIO(made[".xlsx"]), data_only=True)
    given = {r[0].value: r[2].value for r in book.worksheets[1].iter_rows()}
    assert (given["second.rate"], given["second.source"]) == (42.5, "our bank")
    assert made[".toml"] == files(shown(None, words)[0], words)[".toml"]  # a scenario keeps no reader's rate


def test_without_a_rate_the_pages_files_have_none():
    made = files(shown(None)[0])
    assert b"shown_" not in made[".csv"]
    assert "₺" not in made[".html"].decode()
    given = [r[0].value for r in openpyxl.load_workbook(io.BytesIO(made[".xlsx"]))["Inputs"].iter_rows()]
    assert "second.rate" not in given


def test_no_block_of_the_tab_holds_a_number_without_its_derivation():
    _, made = shown(lira())
    for sheet in (made["options"], made["years"], made["choices"]):
        for block in blocks_of(sheet):
            for line in block.get("rows", []):
                for cell in line["cells"][1:]:
                    assert not (isinstance(cell, dict) and "sub" in cell) or "why" in cell, cell
