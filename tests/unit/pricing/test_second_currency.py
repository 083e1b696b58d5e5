"""Files of a total cost in a second currency: beside its own amounts, at the rate that somebody gave, and no other."""

import csv
import io
import re
from datetime import UTC, datetime

import openpyxl
import pytest
from helpers.everything import everything
from helpers.finance import a_loss, by_hand
from helpers.rates import DAY, exchange, lira
from helpers.scenarios import scenario

from pricing import Exchange, Rate, RateError, Rates
from pricing.export.csv import BOM
from pricing.export.html import to_html
from pricing.export.report import make_report
from pricing.export.tco_csv import tco_to_csv
from pricing.export.xlsx import build, to_xlsx
from pricing.export.xlsx_cases import of_block
from pricing.tco import tco

AT = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)
# 13 replicas x 2.49 x 8,760 hours; 9 of them and a pilot of 29,083.20; the difference. At 42.5 lira a dollar.
PLAIN, FAST, SAVED = 283_561.20, 225_394.80, 58_166.40
PLAIN_LIRA, FAST_LIRA, SAVED_LIRA = 12_051_351.00, 9_579_279.00, 2_472_072.00


def report(made, **asked):
    return make_report(made, exported_at=AT, **asked)


def built(made, to=None, language="en"):
    return build(made, "base", None, (), (), (), None, AT, language, to=to)


def opened(made, **asked):
    return openpyxl.load_workbook(io.BytesIO(to_xlsx(made, exported_at=AT, **asked)))


# CSV


def rows(form="plain", made=None, to=None):
    text = tco_to_csv(tco(made or by_hand()), form=form, exported_on=AT.date(), to=to)
    delimiter = ";" if form == "turkish" else ","
    return list(csv.DictReader(io.StringIO(text.removeprefix(BOM), newline=""), delimiter=delimiter))


@pytest.mark.parametrize(
    ("form", "number"), [("plain", float), ("turkish", lambda text: float(text.replace(",", ".")))]
)
def test_each_month_of_the_csv_is_in_lira_too_and_says_at_which_rate(form, number):
    found = [row for row in rows(form, to=lira()) if (row["option"], row["arm"]) == ("rented", "plain")]
    assert sum(number(row["total"]) for row in found) == pytest.approx(PLAIN)
    assert number(found[0]["shown_total"]) == pytest.approx(23_630.10 * 42.5)
    assert sum(number(row["shown_total"]) for row in found) == pytest.approx(PLAIN_LIRA)
    assert sum(number(row["shown_paid"]) + number(row["shown_paid_today"]) for row in found) == pytest.approx(
        PLAIN_LIRA
    )
    assert number(found[0]["rate"]) == 42.5
    keys = ("currency", "shown_currency", "rate_pair", "rate_kind", "rate_day", "rate_source")
    assert [found[0][key] for key in keys] == ["USD", "TRY", "USD/TRY", "selling", "2026-11-27", "our bank"]


def test_a_lira_total_is_divided_by_the_rate_where_dollars_are_asked_for():
    """13 replicas at 100 lira for 8,760 hours: 11,388,000 lira are 267,952.94 dollars."""
    found = [row for row in rows(made=a_loss(), to=exchange("USD", USD_TRY=42.5)) if row["arm"] == "plain"]
    assert sum(float(row["total"]) for row in found) == pytest.approx(11_388_000)
    assert sum(float(row["shown_total"]) for row in found) == pytest.approx(11_388_000 / 42.5)


def test_what_is_owed_after_the_term_is_in_lira_too():
    """13 GPUs for two years more at 2.49 x 8,760: 567,122.40 dollars."""
    found = rows(made=scenario(cloud__0__parts__0__commitment="reserved_3yr"), to=lira())
    owed = sum(float(row["shown_owed_after_term"]) for row in found if row["arm"] == "plain")
    assert owed == pytest.approx(567_122.40 * 42.5)


def test_a_source_that_would_run_in_a_spreadsheet_is_a_text():
    to = exchange(USD_TRY=42.5)
    object.__setattr__(next(iter(to.rates)), "source", "=cmd()")
    assert {row["rate_source"] for row in rows(to=to)} == {"'=cmd()"}


# One page


def test_the_pages_totals_and_savings_have_their_lira_under_them():
    made = report(by_hand(), to=lira())
    options = {row[0]: row for row in made.options.rows}
    assert options["rented, plain"][1:3] == ("$283,561\n₺12,051,351",) * 2
    assert options["rented, plain"][6] == "$0.0008992\n₺0.03821"  # of a request, of which there are 315,360,000
    assert options["an API"][7:] == ("–", "–")
    saved = {row[0]: row for row in made.speculation.rows}["rented"]
    assert (saved[1], saved[3]) == ("$58,166\n₺2,472,072",) * 2
    assert made.rate == "Also in TRY, at 42.5 TRY per USD, selling, 2026-11-27, our bank."


def test_the_headline_says_both_and_a_loss_keeps_its_sign():
    made = report(by_hand(), to=lira())
    assert made.headline[0] == (  # 600,000 bought, 450,000 left of it, energy of 786.94 a month: 159,443.28
        "own rack, plain costs least: $159,443 (₺6,776,339) over one year, $159,443 (₺6,776,339) in present value."
    )
    assert "LOSES $27,734 (₺1,178,702; 17.4%)" in made.headline[1]
    assert {row[0]: row for row in made.speculation.rows}["own rack"][1] == "-$27,734\n-₺1,178,702"


def test_the_turkish_page_names_rate_day_side_and_source():
    made = report(by_hand(), to=lira("buying"), language="tr")
    assert made.rate == "Ayrıca TRY olarak; kur: 1 USD = 42,5 TRY, alış, 2026-11-27, our bank."
    assert {row[0]: row for row in made.options.rows}["rented, yalın"][1] == "$283.561\n₺12.051.351"
    page = to_html(made)
    assert f'<p class="dim">{made.rate}</p>' in page
    assert "<td class=right>$283.561<div class=also>₺12.051.351</div></td>" in page


def test_a_source_on_the_page_is_never_markup():
    to = exchange(USD_TRY=42.5)
    object.__setattr__(next(iter(to.rates)), "source", "<img src=x>")
    page = to_html(report(by_hand(), to=to))
    assert "<img" not in page
    assert "&lt;img src=x&gt;" in page


# The workbook


def second_cells(book):
    """The rate's cells on Inputs by their path: as given, and as used."""
    sheet = book["Inputs"]
    return {row[0].value: row for row in sheet.iter_rows() if str(row[0].value or "").startswith("second.")}


def test_the_rate_stands_on_inputs_with_its_day_side_and_source():
    found = second_cells(opened(by_hand(), to=lira()))
    assert [row[2].value for row in found.values()] == [42.5, "selling", datetime(2026, 11, 27), "our bank"]
    assert list(found) == ["second.rate", "second.side", "second.day", "second.source"]
    rate = found["second.rate"]
    assert [rate[column].value for column in (1, 6, 7, 8)] == ["Exchange rate", "TRY per USD", "quoted", "our bank"]
    assert rate[2].font.color.rgb == "FF0000FF"  # a cell that a reader may change


def cells_of(found, kind):
    """Formulas of Summary that hold the rate, by what they come to."""
    rate = found.inputs.second.rate.text
    return [f for f in found.sheets["summary"].formulas.values() if f.text.endswith(f"{kind}{rate}")]


def test_totals_savings_and_present_values_are_live_formulas_over_the_rates_cell():
    found = built(by_hand(), lira())
    worked = cells_of(found, "*")
    values = [formula.value for formula in worked]
    for amount in (PLAIN_LIRA, FAST_LIRA, SAVED_LIRA):
        assert values.count(pytest.approx(amount)) == 2, amount  # total and present value, saving and NPV
    for formula in worked:  # an amount's cell times the rate's, and nothing else
        assert re.fullmatch(r"[^*]+\*Inputs!\$F\$\d+", formula.text), formula.text
    for sheet in found.sheets.values():
        for formula in sheet.formulas.values():
            bare = re.sub(r"(?:'[^']+'|[A-Za-z]+)?!?\$?[A-Z]{1,3}\$?[0-9]+", "", re.sub(r'"[^"]*"', "", formula.text))
            assert set(re.findall(r"[0-9.]+", bare)) <= {"0", "1"}, formula.text


def test_a_lira_workbook_divides_by_the_cell():
    found = built(a_loss(), exchange("USD", USD_TRY=42.5))
    assert pytest.approx(11_388_000 / 42.5) in [formula.value for formula in cells_of(found, "/")]
    assert not cells_of(found, "*")


@pytest.mark.parametrize("language", ["en", "tr"])
def test_native_amounts_stay_and_each_currency_has_its_sign(language):
    book = opened(by_hand(), to=lira(), language=language)
    sheet = book.worksheets[0]
    table = next(row for row in sheet.iter_rows() if str(row[0].value or "").startswith("1. rented") and row[4].value)
    codes = [table[column].number_format for column in (1, 2, 3, 4)]
    assert ["$" in code for code in codes] == [True, True, False, False]
    assert ["₺" in code for code in codes] == [False, False, True, True]


def test_every_option_of_a_scenario_with_all_in_it_is_converted_to_pythons_cents():
    made = everything()
    found, whole = built(made, lira()), tco(made)
    values = [round(formula.value, 2) for formula in cells_of(found, "*")]
    for block in found.blocks:
        option = of_block(whole, block)
        for amount in (option.total, option.npv_of_cost):
            assert any(value == pytest.approx(amount * 42.5, abs=0.005) for value in values), block.label


# None without a rate


def test_without_a_rate_and_for_the_own_currency_a_file_is_as_before():
    made, found, own = by_hand(), tco(by_hand()), exchange("USD", USD_TRY=42.5)
    plain = tco_to_csv(found, exported_on=AT.date())
    assert "shown_" not in plain.partition("\r\n")[0]
    assert tco_to_csv(found, exported_on=AT.date(), to=own) == plain
    page = to_html(report(made))
    assert to_html(report(made, to=own)) == page
    assert "₺" not in page
    assert "class=also" not in page
    assert to_xlsx(made, exported_at=AT, to=own) == to_xlsx(made, exported_at=AT)
    assert second_cells(opened(made)) == {}
    assert built(made).inputs.second is None


@pytest.mark.parametrize("to", [exchange(), exchange(EUR_TRY=48.2)])
def test_a_currency_that_no_rate_reaches_is_refused_and_never_made_up(to):
    for make in (report, lambda made, to: to_xlsx(made, to=to), lambda made, to: tco_to_csv(tco(made), to=to)):
        with pytest.raises(RateError, match="no selling rate between USD and TRY"):
            make(by_hand(), to=to)


def test_a_cross_rate_names_its_legs():
    """EUR/TRY selling 48.20 over USD/TRY buying needs both sides; without the other side there is none."""
    legs = [Rate("EUR", "TRY", 48.2, "selling", DAY, "TCMB"), Rate("USD", "TRY", 40.0, "buying", DAY, "TCMB")]
    made = report(by_hand(), to=Exchange("EUR", Rates(legs), "selling"))
    assert "TCMB (EUR/TRY selling 48.2 over USD/TRY buying 40)" in made.rate
    # 283,561.20 dollars at 1.205 dollars a euro: 235,320.50 less a fifth of a cent
    assert {row[0]: row for row in made.options.rows}["rented, plain"][1] == "$283,561\n€235,320"


# Paper


def test_the_summary_prints_on_one_landscape_page():
    for to in (None, lira()):
        sheet = opened(everything(), to=to)["Summary"]
        assert sheet.page_setup.orientation == "landscape"
        assert sheet.sheet_properties.pageSetUpPr.fitToPage
        assert (sheet.page_setup.fitToWidth or 1, sheet.page_setup.fitToHeight) in ((1, None), (1, 1))
        assert not sheet.row_breaks.brk
        assert sheet.print_area


def test_more_options_than_are_legible_on_one_page_take_another():
    many = [{"name": f"cloud {i}", "parts": [{"commitment": "on_demand", "per_gpu_hour": 2 + i}]} for i in range(24)]
    sheet = opened(scenario(cloud=many))["Summary"]
    assert sheet.page_setup.fitToHeight == 0
    assert len(sheet.row_breaks.brk) == 1


def test_columns_that_only_the_chart_reads_are_not_printed():
    found = built(everything())
    sheet = openpyxl.load_workbook(io.BytesIO(found.book.close()))["Summary"]
    level = next(cell for row in sheet.iter_rows() for cell in row if cell.value == "Level (for the chart)")
    last = openpyxl.utils.range_boundaries(sheet.print_area.rpartition("!")[2].replace("$", ""))[2]
    assert level.column > last
