"""Another currency on the page: shown at a rate that the reader gave, and nowhere without one."""

import base64
import io
from datetime import date

import openpyxl
import pytest
from fakes import PAIR
from finance_desk import EN, TR, blocks_of, measured_session, opened, table, texts
from helpers.finance import by_hand
from typer.testing import CliRunner

from app import cli, create_app, own_prices, shown_in
from app.finance import charts, exports, measured, price_sheet, tabs
from app.finance.whys import explain
from app.shown_in import ShownIn
from pricing import PriceRow, PriceTable, load_prices, price_file

TODAY = date(2026, 11, 30)
LIRA = {
    "currency": "TRY", "base": "USD", "value": "42.50", "day": "2026-11-27", "side": "selling", "source": "our bank",
}  # fmt: skip
BULLETIN = """<?xml version="1.0" encoding="UTF-8"?>
<Tarih_Date Tarih="27.11.2026" Date="11/27/2026" Bulten_No="2026/222">
<Currency Kod="USD" CurrencyCode="USD"><Unit>1</Unit>
<ForexBuying>42.41</ForexBuying><ForexSelling>42.50</ForexSelling><BanknoteBuying/><BanknoteSelling/></Currency>
<Currency Kod="EUR" CurrencyCode="EUR"><Unit>1</Unit>
<ForexBuying>48.11</ForexBuying><ForexSelling>48.20</ForexSelling><BanknoteBuying/><BanknoteSelling/></Currency>
</Tarih_Date>"""


def price(**changes: object) -> PriceRow:
    return PriceRow.model_validate(
        {
            "provider": "Bulut", "instance": "one", "gpu": "H100 SXM", "gpu_count": 1, "gpu_mem_gb": 80,
            "currency": "EUR", "per_hour": 2.49, "commitment": "on_demand", "as_of": date(2026, 11, 1),
            "source_url": "https://bulut.example/prices", "evidence": "A",
        }
        | changes
    )  # fmt: skip


MIXED = PriceTable.of([price(), price(provider="Yerli", currency="TRY", per_hour=100), price(currency="USD")], "p.csv")


def file(text=BULLETIN, kind="forex_selling", currency="TRY"):
    data = text if isinstance(text, bytes) else text.encode()
    return {"currency": currency, "kind": kind, "base64": base64.b64encode(data).decode()}


def given(name="rate", what=LIRA, words=EN):
    held = ShownIn()
    return held, shown_in.act(held, name, what, words, TODAY)


def test_a_typed_rate_is_in_force_and_named_with_its_day_side_and_source():
    held, value = given()
    assert (value["tone"], value["now"]) == (
        "gain",
        "Also shown in TRY, at 42.5 TRY per USD, selling, 2026-11-27, our bank.",
    )
    assert held.to.price(2.0, "USD").amount == 85.0


def test_a_rate_is_read_in_the_readers_own_notation():
    held, value = given(what=LIRA | {"value": "42,50"}, words=TR)
    assert held.to.price(1.0, "USD").amount == 42.5
    assert "1 USD = 42,5 TRY, satış, 2026-11-27, our bank" in value["now"]


def test_a_bulletin_gives_its_own_day_and_every_pair_that_it_has():
    held, value = given("bulletin", file())
    assert "48.2 TRY per EUR, selling, 2026-11-27, TCMB bulletin 2026/222, forex" in value["now"]
    assert held.to.price(1.0, "EUR").amount == 48.2
    assert given("bulletin", file(kind="forex_buying"))[0].to.price(1.0, "EUR").amount == 48.11


def test_a_second_pair_joins_the_first_and_the_same_pair_takes_its_place():
    held, _ = given()
    shown_in.act(held, "rate", LIRA | {"base": "EUR", "value": "48.20"}, EN, TODAY)
    assert [held.to.price(1.0, one).amount for one in ("USD", "EUR")] == [42.5, 48.2]
    shown_in.act(held, "rate", LIRA | {"value": "43"}, EN, TODAY)
    assert held.to.price(1.0, "USD").amount == 43.0


def test_back_to_own_currencies_leaves_no_rate():
    held, _ = given()
    assert shown_in.act(held, "own", {}, EN, TODAY)["now"] == ""
    assert held.to is None


@pytest.mark.parametrize("words", [EN, TR])
@pytest.mark.parametrize(
    ("name", "what", "key"),
    [
        ("rate", LIRA | {"value": "0"}, "rates_no_rate"),
        ("rate", LIRA | {"value": "-3"}, "rates_no_rate"),
        ("rate", LIRA | {"value": "nan"}, ""),
        ("rate", LIRA | {"value": ""}, "typed_empty"),
        ("rate", LIRA | {"value": "1e3"}, ""),
        ("rate", LIRA | {"value": "42", "day": "2026-12-24"}, "rates_future"),
        ("rate", LIRA | {"value": "42", "day": "27.11.2026"}, "rates_no_day"),
        ("rate", LIRA | {"side": ""}, "rates_no_side"),
        ("rate", LIRA | {"value": "42", "source": "  "}, "rates_no_source"),
        ("rate", LIRA | {"base": "TRY"}, "rates_same"),
        ("rate", LIRA | {"currency": "CHF"}, "rates_no_currency"),
        ("rate", None, "rates_no_currency"),
        ("rate", [1], "rates_no_currency"),
        ("rate", {"currency": {}, "base": []}, "rates_no_currency"),
        ("bulletin", file('<!DOCTYPE a [<!ENTITY x "y">]><Tarih_Date/>'), "rates_file_entities"),
        ("bulletin", file("<Tarih_Date"), "rates_file_xml"),
        ("bulletin", file("<html/>"), "rates_file_other"),
        ("bulletin", file(b"\x00" * 1_100_000), "rates_file_large"),
        ("bulletin", file(kind="banknote_selling"), "rates_file_none"),
        ("bulletin", file(kind="mid"), "rates_no_kind"),
        ("bulletin", file() | {"base64": "%%%"}, "rates_file_other"),
        ("bulletin", file() | {"base64": None}, "rates_file_large"),
        ("bulletin", file(BULLETIN.replace("27.11.2026", "27.12.2026").replace("11/27", "12/27")), "rates_file_future"),
    ],
)
def test_what_is_no_rate_is_one_sentence_and_converts_nothing(words, name, what, key):
    held, value = given(name, what, words)
    assert held.to is None
    assert (value["tone"], value["now"]) == ("fault", "")
    assert 0 < len(value["told"]) < 200
    assert "\n" not in value["told"]
    if key:
        assert value["told"] == words(key, currency="TRY", day="2026-12-24")


def test_cost_cards_show_lira_under_each_price_and_nothing_without_a_rate():
    held = opened("cost")
    first = table(tabs.all_of(held, MIXED, EN)["cost_cards"], "rented")["rows"][0]
    assert all("sub" not in cell for cell in first["cells"][1:3])
    held.to = given()[0].to
    first = table(tabs.all_of(held, MIXED, EN)["cost_cards"], "rented")["rows"][0]
    own = held.now.made.option("rented", "plain").tokens.per_million_output
    assert first["cells"][1]["sub"] == f"₺{own * 42.5:.1f}"  # four digits
    assert first["cells"][1]["t"].startswith("$")


def test_a_rate_that_does_not_reach_the_scenario_is_said_to_be_missing():
    held = opened("cost")
    held.to = given(what=LIRA | {"base": "EUR"})[0].to
    shown = tabs.all_of(held, MIXED, EN)["cost_cards"]
    assert shown["blocks"][0]["text"] == EN("rates_unreached", own="USD", currency="TRY")


def test_prices_in_other_currencies_are_listed_in_their_own_and_counted_off_the_axis():
    held = opened("cost")
    sheet = price_sheet.sheet(held, held.now, MIXED, EN, TODAY)
    assert {texts(row)[3] for row in table(sheet, "prices")["rows"]} == {"€2.490", "₺100.0", "$2.490"}
    told = sheet["blocks"][0]["text"]
    assert told.startswith("3 quoted prices in force")
    assert "2 of them are in another currency (EUR, TRY) and cannot stand on an axis of USD" in told
    figure = charts.prices(price_sheet.wanted(held, MIXED, TODAY), held.now, EN, TODAY)
    assert [list(trace.x) for trace in figure.data] == [[2.49]]


def test_at_a_rate_they_stand_on_one_axis_and_keep_their_own_price():
    held = opened("cost")
    held.to = given("bulletin", file())[0].to
    figure = charts.prices(price_sheet.wanted(held, MIXED, TODAY), held.now, EN, TODAY, held.to)
    # 2.49 x 48.20, 100 as it is, 2.49 x 42.50
    assert sorted(x for trace in figure.data for x in trace.x) == pytest.approx([100, 105.825, 120.018])
    assert figure.layout.xaxis.tickprefix == "₺"
    assert "€2.490 = ₺120.0" in "".join(text for trace in figure.data for text in trace.text)
    assert figure.layout.shapes[0].x0 == pytest.approx(2.49 * 42.5)  # what this scenario pays
    rows = table(price_sheet.sheet(held, held.now, MIXED, EN, TODAY), "prices")["rows"]
    assert {row["cells"][3].get("sub") for row in rows} == {"₺120.0", "₺105.8", None}


def test_a_table_without_dollars_is_drawn_in_the_currency_that_it_has():
    held = opened("cost")
    lira = PriceTable.of([price(currency="TRY", per_hour=100)], "p.csv")
    figure = charts.prices(price_sheet.wanted(held, lira, TODAY), held.now, EN, TODAY)
    assert (list(figure.data[0].x), figure.layout.xaxis.tickprefix) == ([100], "₺")


def test_the_panel_beside_a_price_says_how_it_was_converted():
    held = opened("cost")
    held.to = given("bulletin", file())[0].to
    panel = explain(held, ["price", "0"], MIXED, EN)
    (step,) = [s for s in panel["steps"] if s["label"] == "In TRY"]
    assert (step["value"], step["note"]) == (
        "₺120.0",
        "at 48.2 TRY per EUR, selling, 2026-11-27, TCMB bulletin 2026/222, forex",
    )


def test_the_page_says_which_price_table_is_in_force_and_how_many_rows_are_the_readers():
    held = opened("cost")
    shipped = load_prices()
    told = [b.get("text", "") for b in blocks_of(price_sheet.sheet(held, held.now, shipped, EN, TODAY))]
    assert any(f"Price table: gpu_prices.csv, sha256 {shipped.sha256[:12]}…" in text for text in told)
    both = shipped.merged(MIXED)
    told = [b.get("text", "") for b in blocks_of(price_sheet.sheet(held, held.now, both, EN, TODAY))]
    assert any(f"{both.sha256[:12]}…" in text and "with 3 of your own rows." in text for text in told)


def test_a_shipped_row_that_a_newer_price_closed_is_not_the_readers_own():
    shipped = load_prices()
    old = next(row for row in shipped if row.valid_until is None)
    newer = old.model_copy(update={"as_of": date(2026, 11, 29), "per_hour": old.per_hour * 1.01})
    assert own_prices.count_own(shipped.merged(PriceTable.of([newer], "mine.csv"))) == 1
    assert own_prices.count_own(shipped) == 0


def page_with(tmp_path, monkeypatch, text):
    monkeypatch.setenv("SPECSCOPE_DATA", str(tmp_path))
    (tmp_path / "prices.csv").write_text(text, encoding="utf-8")
    return create_app(PAIR, race=lambda *a, **k: ())


def test_the_page_has_the_readers_own_prices_after_they_were_accepted(tmp_path, monkeypatch):
    page = page_with(tmp_path, monkeypatch, price_file.write([price()]))
    choices = next(b.choices for b in page.blocks.values() if getattr(b, "elem_id", None) == "sv-provider")
    assert "Bulut" in {value for _, value in choices}


def test_a_fault_in_that_file_is_one_sentence_before_any_weights_are_loaded(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECSCOPE_DATA", str(tmp_path))
    monkeypatch.setattr("app.command.load", lambda *_, **__: pytest.fail("the weights were loaded"))
    wrong = price_file.write([price()]).replace("2.49", "-2.49")
    (tmp_path / "prices.csv").write_text(wrong, encoding="utf-8")
    result = CliRunner().invoke(cli.app, ["app"])
    assert (result.exit_code, result.stdout) == (2, "")
    said = result.stderr.replace("\n", " ")
    assert f"error: {tmp_path / 'prices.csv'} has 1 fault: line 2, column per_hour: " in said


def workbook(held, session=None):
    made = exports.files(held, load_prices(), EN, session)["files"]
    (found,) = [one for one in made if one["name"].endswith(".xlsx")]
    return openpyxl.load_workbook(io.BytesIO(base64.b64decode(found["base64"])))


def cells(sheet):
    return [str(cell) for line in sheet.iter_rows(values_only=True) for cell in line if cell is not None]


def test_the_pages_workbook_has_the_picked_tornado_the_changes_and_the_measured_run():
    held = opened("tco", by_hand())
    tabs.pick(held, "option", "rented|plain")
    held.put(held.current.with_values({"cloud.0.parts.0.per_gpu_hour": 3}), EN)
    session = measured_session()
    book = workbook(held, session)
    assert any("rented" in text and "plain" in text for text in cells(book["Sensitivity"])[:6])
    assert any("Price of a GPU" in text and "2.49" in text and "3" in text for text in cells(book["Change log"]))
    rows = cells(book["Measurements"])
    assert session.run.id in rows
    assert {"plain", "speculative", "Some CPU"} <= {*rows}


def test_a_workbook_without_a_run_has_no_rows_of_one():
    assert "Some CPU" not in cells(workbook(opened("tco", by_hand()))["Measurements"])


def test_a_run_is_a_row_an_arm_with_what_was_counted_in_it():
    session = measured_session()
    plain, fast = measured.rows(session)
    assert (plain["arm"], fast["arm"], plain["run"]) == ("plain", "speculative", session.run.id)
    assert plain["output_tokens"] == session.run.compared()[1].output_tokens
    assert measured.rows(None) == []
