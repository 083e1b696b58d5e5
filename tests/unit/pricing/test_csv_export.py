"""The CSV forms: for any reader, and for Excel in Turkish; no cell of either is a formula anywhere."""

import csv
import io
import re
from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing import PriceTable, Throughput, cost_table, load_prices, prices_to_csv, to_csv
from pricing.export.csv import guard
from pricing.rows import NATIVE_COLUMNS

DAY = date(2026, 11, 30)


def cells(text: str, delimiter: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), delimiter=delimiter))


def test_excel_in_turkish_gets_semicolons_decimal_commas_and_a_byte_order_mark():
    row = {
        "usd": 1234.5,
        "n": 8,
        "share": -0.25,
        "tiny": 2.5e-7,
        "d": Decimal("2.49"),
        "text": "a;b 1.5",
        "day": DAY,
        "no": None,
    }
    text = to_csv([row], DAY, form="turkish")
    assert text.startswith("\ufeffusd;n;share;")
    assert cells(text, ";")[1] == ["1234,5", "8", "-0,25", "2,5e-07", "2,49", "a;b 1.5", "2026-11-30", "", "2026-11-30"]


def test_the_plain_form_is_what_it_was():
    assert to_csv([{"usd": 1234.5}], DAY) == "usd,exported_on\r\n1234.5,2026-11-30\r\n"
    with pytest.raises(ValueError, match="'german' is not one of the forms plain, turkish"):
        to_csv([], form="german")  # type: ignore[arg-type]


@pytest.mark.parametrize(("form", "delimiter"), [("plain", ","), ("turkish", ";")])
def test_every_row_of_an_export_carries_the_tables_hash_its_file_and_the_day(form, delimiter):
    prices = load_prices()
    costs = cost_table(prices, {"H100 SXM 80 GB": Throughput(100, 200, "measured", "-")}, today=DAY)
    for text, rows in ((to_csv(costs, DAY, form=form), len(costs)), (prices_to_csv(prices, DAY, form=form), 129)):
        header, *lines = cells(text, delimiter)
        assert len(lines) == rows
        for line in lines:
            named = dict(zip(header, line, strict=True))
            assert named["price_table_sha256"] == prices.sha256
            assert named["price_table_file"] == "gpu_prices.csv"
            assert named["exported_on"] == "2026-11-30"


def test_other_rows_carry_them_when_the_table_is_given():
    header, row = cells(to_csv([{"a": 1}], DAY, table=PriceTable((), "ab" * 32, "p.csv")), ",")
    assert dict(zip(header, row, strict=True)) == {
        "a": "1", "price_table_sha256": "ab" * 32, "price_table_file": "p.csv", "exported_on": "2026-11-30",
    }  # fmt: skip


def test_an_export_of_prices_has_each_in_its_own_currency_and_an_empty_one_still_its_header():
    header, first = cells(prices_to_csv(load_prices().on(date(2025, 5, 31)), DAY), ",")[:2]
    named = dict(zip(header, first, strict=True))
    assert (named["currency"], named["per_hour"], named["per_gpu_hour"]) == ("USD", "98.32", "12.29")
    empty = cells(prices_to_csv(PriceTable((), "ab" * 32, "p.csv"), DAY), ",")
    assert empty == [header]
    assert header[: len(NATIVE_COLUMNS)] == list(NATIVE_COLUMNS)


@pytest.mark.parametrize(
    ("text", "guarded"),
    [
        ("p5;=1+1", "p5;'=1+1"),  # Excel in Turkish splits a comma file here
        ("p5,=1+1", "p5,'=1+1"),  # and Excel in English a Turkish one
        ("p5\t@x", "p5\t'@x"),
        ("p5\n=1+1", "p5\n'=1+1"),
        ('p5;"=1+1', "p5;'\"=1+1"),  # a quote in the middle of a cell opens nothing
        ("p5; \u200b＝1", "p5;' \u200b＝1"),
        ("p5;-2+3", "p5;'-2+3"),
        ("[0.5, -0.25, -1e-05]", "[0.5, -0.25, -1e-05]"),  # numbers are no formulas
        ("after the cut; 55.04/98.32 = -44.0%", "after the cut; 55.04/98.32 = -44.0%"),
    ],
)
def test_what_another_countrys_spreadsheet_would_take_for_a_cell_of_its_own_is_disarmed_too(text, guarded):
    assert guard(text) == guarded


@given(st.text("=+-@;,\t\n\r \"'a1\u200b＝", max_size=12), st.sampled_from(["plain", "turkish"]))
def test_no_cell_starts_a_formula_however_the_line_is_split(text, form):
    line = to_csv([{"a": "x", "b": text, "c": "y"}], DAY, form=form).split("\r\n", 1)[1]
    for separator in ",;\t":
        for row in csv.reader(io.StringIO(line, newline=""), delimiter=separator):
            for cell in row:
                start = cell.lstrip(" \u200b")
                # A number that ends where the other form's separator stands: no spreadsheet makes a formula of it.
                number = re.match(r'[+-]?[0-9]+[\s"\u200b]*([,;\t\r\n]|$)', start)
                assert number or start[:1] not in ("=", "+", "-", "@", "＝")
