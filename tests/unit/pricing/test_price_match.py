"""A price table's hash stands beside its own prices and beside no other number."""

import csv
import io
from datetime import UTC, date, datetime

import openpyxl
import pytest
from helpers.scenarios import scenario

from pricing import PriceRow
from pricing.export.html import to_html
from pricing.export.report import make_report
from pricing.export.tco_csv import tco_to_csv
from pricing.export.xlsx import to_xlsx
from pricing.price_match import matched_prices
from pricing.tables import PriceTable
from pricing.tco import tco

DAY = date(2026, 11, 30)
AT = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)
LIRA = {"base": "USD", "quote": "TRY", "value": 42.5, "side": "selling", "day": date(2026, 11, 27), "source": "TCMB"}


def row(**changes: object) -> PriceRow:
    return PriceRow.model_validate(
        {
            "provider": "Acme", "instance": "big8", "gpu": "H100 SXM", "gpu_count": 8, "gpu_mem_gb": 80,
            "usd_per_hour": 19.92, "commitment": "on_demand", "as_of": date(2026, 11, 1),
            "source_url": "https://acme.example/prices", "evidence": "A",
        }
        | changes
    )  # fmt: skip


TABLE = PriceTable((row(), row(provider="Other", usd_per_hour=88.49, commitment="reserved_1yr")), "ab" * 32, "p.csv")


def match(price=2.49, commitment="on_demand", table=TABLE, **changes):
    made = scenario(
        cloud__0__parts__0__per_gpu_hour=price, cloud__0__parts__0__commitment=commitment, **changes
    )  # fmt: skip
    (found,) = matched_prices(made, table, DAY)
    return found


def test_a_price_of_the_table_names_its_row():
    assert match().found == ("Acme", "big8", "2026-11-01")  # 19.92 / 8 = 2.49


def test_a_typed_price_is_not_from_the_table():
    assert match(9.99).row is None


@pytest.mark.parametrize(
    ("price", "known"), [(11.06125, True), (11.0613, True), (11.06, True), (11.07, False), (11.1, False), (11, False)]
)
def test_a_price_is_compared_to_the_digits_that_it_is_written_with_and_to_cents_at_least(price, known):
    assert (match(price, "reserved_1yr").row is not None) == known  # 88.49 / 8 = 11.06125


def test_the_same_price_of_another_commitment_gpu_or_currency_is_not_it():
    assert match(commitment="spot").row is None
    assert match(serving__gpu="A100 SXM").row is None
    assert match(currency="EUR").row is None
    assert match(serving__gpu="H100 SXM 80 GB").row is not None


def test_a_price_that_another_took_the_place_of_is_not_in_force():
    old = PriceTable((row(valid_until=date(2026, 11, 9)),), "ab" * 32, "p.csv")
    assert match(table=old).row is None


def test_of_two_rows_that_say_the_same_the_one_that_the_scenario_names_is_told():
    two = PriceTable((row(), row(provider="Zed")), "ab" * 32, "p.csv")
    assert match(table=two).found[0] == "Acme"
    quoted = {"value": 2.49, "label": "quoted", "source": "Zed's list"}
    assert (match(quoted, table=two).found[0], match(table=two).more) == ("Zed", 1)


def test_a_price_in_lira_matches_at_the_rate_that_the_scenario_was_converted_at():
    # 2.49 x 42.5 = 105.825
    assert match(105.825, currency="TRY", rates=[LIRA]).rate.rate == 42.5
    assert match(105.825, currency="TRY").row is None
    assert match(105.84, currency="TRY", rates=[LIRA]).row is None


def lines(made):
    return list(csv.DictReader(io.StringIO(tco_to_csv(tco(made), table=TABLE, exported_on=DAY))))


def test_the_csv_carries_the_hash_on_lines_of_prices_that_are_in_the_table_alone():
    typed = {"name": "typed", "parts": [{"commitment": "on_demand", "per_gpu_hour": 9.99}]}
    listed = {"name": "listed", "parts": [{"commitment": "on_demand", "per_gpu_hour": 2.49}]}
    by_option = {line["option"]: line for line in lines(scenario(cloud=[typed, listed]))}
    assert by_option["typed"]["prices_in_table"] == "9.99: not from this table"
    assert by_option["typed"]["price_table_sha256"] == ""
    assert by_option["listed"]["prices_in_table"] == "2.49: as in the price table: Acme, big8, 2026-11-01"
    assert by_option["listed"]["price_table_sha256"] == TABLE.sha256


@pytest.mark.parametrize(
    ("price", "told"), [(2.49, "as in the price table: Acme, big8, 2026-11-01"), (9.99, "not from this table")]
)
def test_workbook_and_page_say_of_each_rented_price_whether_it_is_in_the_table(price, told):
    made = scenario(cloud__0__parts__0__per_gpu_hour=price)
    sheet = openpyxl.load_workbook(io.BytesIO(to_xlsx(made, prices=TABLE, exported_at=AT)))["Prices with sources"]
    (rented,) = [r for r in sheet.iter_rows(values_only=True) if r[0] and "Price of a GPU" in str(r[0])]
    assert rented[7] == told
    page = to_html(make_report(made, prices=TABLE, exported_at=AT))
    assert f">{told}<" in page
    assert f"{int(price == 2.49)} of 1 rented prices are as in this table." in page


def test_a_rate_of_the_scenario_is_in_assumptions_change_log_page_and_csv():
    made = scenario(currency="TRY", rates=[LIRA])
    book = openpyxl.load_workbook(io.BytesIO(to_xlsx(made, exported_at=AT)))
    told = "42.5 TRY per USD, selling, 2026-11-27, TCMB"
    for name in ("Assumptions and exclusions", "Change log"):
        cells = [str(cell) for line in book[name].iter_rows(values_only=True) for cell in line]
        assert any(told in cell for cell in cells), name
    assert told in to_html(make_report(made, exported_at=AT))
    assert {line["converted_at"] for line in lines(made)} == {told}
