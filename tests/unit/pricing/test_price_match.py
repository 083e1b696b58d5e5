"""A price table's hash stands beside its own prices and beside no other number."""

import csv
import html
import io
import re
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
OWN = "the user's own price, not from this table"
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


def quoted(price, source="Acme and Other, their lists"):
    return {"value": price, "label": "quoted", "source": source}


def match(price=2.49, commitment="on_demand", table=TABLE, source="Acme and Other, their lists", **changes):
    made = scenario(
        cloud__0__parts__0__per_gpu_hour=quoted(price, source), cloud__0__parts__0__commitment=commitment, **changes
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
    two = PriceTable((row(), row(provider="Zed"), row(instance="big9")), "ab" * 32, "p.csv")
    assert match(table=two, source="Zed's list").found[0] == "Zed"
    assert match(table=two, source="Zed's list").more == 0  # Acme asks as much, and the source does not name it
    assert match(table=two, source="Acme big9").found[1] == "big9"
    assert (match(table=two, source="Acme").found[1], match(table=two, source="Acme").more) == ("big8", 1)
    assert (match(table=two, source="p.csv").found[:2], match(table=two, source="p.csv").more) == (("Acme", "big8"), 2)


# Of the row of Acme at 2.49, and of nothing else.
@pytest.mark.parametrize("source", [
    "Acme", "acme's list of November", "ACME/big8, read today", "https://acme.example/prices", "p.csv",
    "see https://acme.example/prices/.", "the table of sha256 " + "ab" * 32, "price table abababababab…",
])  # fmt: skip
def test_a_source_that_names_the_provider_its_page_or_the_table_vouches(source):
    assert match(source=source).found == ("Acme", "big8", "2026-11-01")


@pytest.mark.parametrize("source", [
    "our own contract with Initech", "Other, their list", "a price page, 2026-11-01", "Acmetron", "big8", "map.csv",
    "2.49 a GPU-hour", "ababab",
])  # fmt: skip
def test_a_price_that_merely_equals_a_row_is_the_users_own(source):
    assert match(source=source).row is None


@pytest.mark.parametrize(
    ("end", "known"), [("", True), ("/", True), (", read today", True), (".", True), ("-2024", False), ("/spot", False),
                       (".html", False), ("?gpu=h200", False), ("#h200", False)],
)  # fmt: skip
def test_a_page_below_the_rows_own_is_another_page(end, known):
    table = PriceTable((row(source_url="https://lists.example/gpus/"),), "ab" * 32, "p.csv")
    assert (match(table=table, source=f"https://lists.example/gpus{end}").row is not None) == known


def test_a_price_without_a_source_and_one_changed_by_hand_are_the_users_own():
    """4 was Acme's; that it now is what Acme asks too is not Acme's word."""
    bare = scenario(cloud__0__parts__0__per_gpu_hour=2.49)
    was = scenario(cloud__0__parts__0__per_gpu_hour=quoted(4, "Acme"))
    changed = was.with_values({"cloud.0.parts.0.per_gpu_hour": 2.49})
    assert "Acme" in changed.figures()["cloud.0.parts.0.per_gpu_hour"].source
    for made in (bare, changed):
        assert matched_prices(made, TABLE, DAY)[0].row is None


def test_a_contracts_price_is_vouched_for_by_its_file_or_its_hash():
    contract = {"evidence": "contract", "source_url": "", "source_file": "offer 12.pdf", "source_sha256": "cd" * 32}
    table = PriceTable((row(**contract),), "ab" * 32, "own.csv")
    for source in ("offer 12.pdf", f"sha256 {'cd' * 32}", "own.csv"):
        assert match(table=table, source=source).row is not None, source
    assert match(table=table, source="offer 13.pdf").row is None


def test_a_price_in_lira_matches_at_the_rate_that_the_scenario_was_converted_at():
    # 2.49 x 42.5 = 105.825
    assert match(105.825, currency="TRY", rates=[LIRA]).rate.rate == 42.5
    assert match(105.825, currency="TRY").row is None
    assert match(105.84, currency="TRY", rates=[LIRA]).row is None


def lines(made):
    return list(csv.DictReader(io.StringIO(tco_to_csv(tco(made), table=TABLE, exported_on=DAY))))


def test_the_csv_carries_the_hash_on_lines_of_prices_that_are_in_the_table_alone():
    typed = {"name": "typed", "parts": [{"commitment": "on_demand", "per_gpu_hour": 2.49}]}
    listed = {"name": "listed", "parts": [{"commitment": "on_demand", "per_gpu_hour": quoted(2.49)}]}
    by_option = {line["option"]: line for line in lines(scenario(cloud=[typed, listed]))}
    assert by_option["typed"]["prices_in_table"] == f"2.49: {OWN}"
    assert by_option["typed"]["price_table_sha256"] == ""
    assert by_option["listed"]["prices_in_table"] == "2.49: as in the price table: Acme, big8, 2026-11-01"
    assert by_option["listed"]["price_table_sha256"] == TABLE.sha256


@pytest.mark.parametrize(
    ("price", "told"),
    [(quoted(2.49, "Acme"), "as in the price table: Acme, big8, 2026-11-01"), (2.49, OWN),
     (quoted(2.49, "Initech"), OWN), (quoted(9.99, "Acme"), OWN)],
)  # fmt: skip
def test_workbook_and_page_say_of_each_rented_price_whether_it_is_in_the_table(price, told):
    made = scenario(cloud__0__parts__0__per_gpu_hour=price)
    sheet = openpyxl.load_workbook(io.BytesIO(to_xlsx(made, prices=TABLE, exported_at=AT)))["Prices with sources"]
    (rented,) = [r for r in sheet.iter_rows(values_only=True) if r[0] and "Price of a GPU" in str(r[0])]
    assert rented[7] == told
    page = to_html(make_report(made, prices=TABLE, exported_at=AT))
    assert re.search(f">{re.escape(html.escape(told))}[<;]", page)
    assert f"{int(told != OWN)} of 1 rented prices are as in this table, by amount and by source." in page


def test_a_rate_of_the_scenario_is_in_assumptions_change_log_page_and_csv():
    made = scenario(currency="TRY", rates=[LIRA])
    book = openpyxl.load_workbook(io.BytesIO(to_xlsx(made, exported_at=AT)))
    told = "42.5 TRY per USD, selling, 2026-11-27, TCMB"
    for name in ("Assumptions and exclusions", "Change log"):
        cells = [str(cell) for line in book[name].iter_rows(values_only=True) for cell in line]
        assert any(told in cell for cell in cells), name
    assert told in to_html(make_report(made, exported_at=AT))
    assert {line["converted_at"] for line in lines(made)} == {told}
