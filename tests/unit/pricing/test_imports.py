"""Contract prices from people's own files: the right number, or every reason why not, and nothing half-imported."""

import hashlib
import io
import os
import zipfile
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import openpyxl
import openpyxl.chart
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing import PriceError, import_prices
from pricing.amounts import parse_amount
from pricing.scenario_file import ScenarioError, load_scenario
from pricing.sheets import MAX_ROWS, format_currency_name

TODAY = date(2026, 11, 30)
COLUMNS = (
    "provider",
    "instance",
    "gpu",
    "gpu_count",
    "gpu_mem_gb",
    "price",
    "currency",
    "commitment",
    "region",
    "as_of",
)
GOOD = {
    "provider": "Bulut",
    "instance": "gpu-8",
    "gpu": "H100 SXM",
    "gpu_count": "8",
    "gpu_mem_gb": "80",
    "price": "19.92",
    "currency": "USD",
    "commitment": "reserved_1yr",
    "region": "İstanbul",
    "as_of": "2026-09-01",
}


def csv_file(tmp_path: Path, *rows: dict[str, str], header=COLUMNS, delimiter=";", prefix="", name="ours.csv") -> Path:
    lines = [delimiter.join(header)] + [delimiter.join(row.get(c, "") for c in header) for row in rows]
    path = tmp_path / name
    path.write_text(prefix + "\n".join(lines) + "\n", encoding="utf-8")
    return path


def workbook(tmp_path: Path, *rows: list[object], header=COLUMNS, name="ours.xlsx") -> Path:
    book = openpyxl.Workbook()
    book.active.append(list(header))
    for row in rows:
        book.active.append(row)
    path = tmp_path / name
    book.save(path)
    return path


def row_of(**changes: object) -> list[object]:
    given = {**GOOD, "gpu_count": 8, "gpu_mem_gb": 80, "price": 19.92, "as_of": date(2026, 9, 1)} | changes
    return [given[c] for c in COLUMNS]


def prices(path: Path, **options: object) -> list[tuple[float, str]]:
    return [(row.per_hour, row.currency) for row in import_prices(path, today=TODAY, **options).rows]


def refusal(path: Path, **options: object) -> str:
    with pytest.raises(PriceError) as caught:
        import_prices(path, today=TODAY, **options)
    assert str(caught.value).isprintable()
    return str(caught.value)


# Numbers


@pytest.mark.parametrize(
    ("text", "value", "currency"),
    [
        ("2,49", "2.49", None),
        ("2.49", "2.49", None),
        ("1.234,56", "1234.56", None),
        ("1,234.56", "1234.56", None),
        ("1.234.567", "1234567", None),  # two points cannot both be decimal
        ("1.234.567,8", "1234567.8", None),
        ("1234,567", "1234.567", None),  # no thousands mark stands after four digits
        ("0,123", "0.123", None),  # nor after a zero
        ("1\xa0234,5", "1234.5", None),
        ("1\u202f234", "1234", None),
        ("1'234.50", "1234.50", None),
        ("₺89,90", "89.90", "TRY"),
        ("89,90 TL", "89.90", "TRY"),
        ("89,90 try", "89.90", "TRY"),
        ("2.49 USD", "2.49", "USD"),
        ("US$ 2.49", "2.49", "USD"),
        ("4.711,98 €", "4711.98", "EUR"),
        ("4.711,98\xa0€", "4711.98", "EUR"),
        ("EUR 4.711,98 €", "4711.98", "EUR"),
        ("£3.10", "3.10", "GBP"),
    ],
)
def test_an_amount_is_read_as_people_of_two_languages_write_it(text, value, currency):
    amount = parse_amount(text)
    assert (amount.value, amount.currency) == (Decimal(value), currency)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1,234", "'1,234' is ambiguous, 1.234 or 1234; say which mark is the decimal one"),
        ("1.234", "'1.234' is ambiguous, 1.234 or 1234"),
        ("$12,345", "is ambiguous, 12.345 or 12345"),
        ("", "blank"),
        ("\xa0", "blank"),
        ("0", "never 0"),
        ("0,00", "never 0"),
        ("-2,49", "never negative"),
        ("−2,49", "never negative"),
        ("(2,49)", "never negative"),
        ("$-2.49", "never negative"),
        ("%25", "is a percentage"),
        ("25 %", "is a percentage"),
        ("01.03.2026", "is a date"),
        ("2026-03-01", "is a date"),
        ("nan", "not a price"),
        ("inf", "not a price"),
        ("1e400", "not a price"),
        ("1e3", "not a price"),
        ("1,23,456", "not a price"),
        ("12,34.5", "not a price"),
        ("1.234,567,8", "not a price"),
        ("2..49", "not a price"),
        ("2,", "beside the number"),
        (",49", "beside the number"),
        ("2.49 CHF", "only a currency may stand there"),
        ("2.49 USD/h", "only a currency may stand there"),
        ("$2.49 EUR", "names two currencies, USD and EUR"),
        ("9" * 400, "not a price"),
        ("２", "not a price"),  # a full-width digit
        ("2\u200b49", r"invisible character \(U\+200B\)"),
    ],
)
def test_what_is_no_price_or_two_prices_is_refused_with_a_sentence(text, says):
    with pytest.raises(ValueError, match=says):
        parse_amount(text)


def test_an_ambiguous_amount_is_read_when_the_decimal_mark_is_told():
    assert parse_amount("1,234", ",").value == Decimal("1.234")
    assert parse_amount("1,234", ".").value == 1234
    assert parse_amount("1.234", ",").value == 1234
    assert parse_amount("1.234", ".").value == Decimal("1.234")
    with pytest.raises(ValueError, match=r"'2\.49' is not a price with ',' as the decimal mark"):
        parse_amount("2.49", ",")


@given(st.integers(1, 10**9), st.integers(0, 99), st.sampled_from([(".", ","), (",", ".")]), st.booleans())
def test_no_amount_is_read_as_another_one(whole, cents, marks, grouped):
    group, mark = marks
    text = f"{whole:,}".replace(",", group) if grouped else str(whole)
    assert parse_amount(f"{text}{mark}{cents:02}").value == whole + Decimal(cents) / 100


# CSV


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("prefix", ["", "\ufeff"])
def test_a_csv_is_read_with_any_of_three_delimiters_and_with_a_byte_order_mark(tmp_path, delimiter, prefix):
    path = csv_file(tmp_path, GOOD, GOOD | {"region": "Ankara"}, delimiter=delimiter, prefix=prefix)
    read = import_prices(path, today=TODAY)
    assert [row.region for row in read.rows] == ["İstanbul", "Ankara"]
    row = read.rows[0]
    assert (row.per_hour, row.currency, row.gpu_count, row.gpu_mem_gb) == (19.92, "USD", 8, 80)
    assert (row.evidence, row.source_url, row.source_file) == ("contract", "", "ours.csv")
    assert row.source_sha256 == read.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert read.table.sha256 == read.sha256


def test_a_decimal_comma_inside_quotes_is_fine_in_a_comma_file_and_outside_them_the_hint_says_so(tmp_path):
    assert prices(csv_file(tmp_path, GOOD | {"price": '"19,92"'}, delimiter=",")) == [(19.92, "USD")]
    said = refusal(csv_file(tmp_path, GOOD | {"price": "19,92"}, delimiter=","))
    assert said.endswith(
        "line 2: has 11 cells where the header has 10; a decimal comma needs quotes around the cell, or ; between cells"
    )


def test_the_line_with_which_spreadsheets_tell_each_other_the_delimiter_counts_as_a_line(tmp_path):
    assert prices(csv_file(tmp_path, GOOD, prefix="sep=;\n")) == [(19.92, "USD")]
    assert "line 3, column price" in refusal(csv_file(tmp_path, GOOD | {"price": "x"}, prefix="sep=;\n"))


@pytest.mark.parametrize(
    ("column", "text", "says"),
    [
        ("price", "1.234", "column price: '1.234' is ambiguous, 1.234 or 1234"),
        ("price", "0", "column price: '0' must be above 0"),
        ("price", "-3", "column price: '-3' must be above 0"),
        ("price", "", "column price: the cell is blank"),
        ("price", "nan", "column price: 'nan' is not a price"),
        ("price", "1e400", "column price: '1e400' is not a price"),
        ("price", "%20", "column price: '%20' is a percentage"),
        ("price", "01.03.2026", "column price: '01.03.2026' is a date"),
        (
            "price",
            "₺19,92",
            "column price: '₺19,92' is in two currencies, TRY by the cell and USD by the currency column",
        ),
        ("price", "4.711,98", "column price: 4711.98 is 588.997 USD per GPU-hour, outside 0.05 to 200"),
        ("currency", "CHF", "column currency: 'CHF' is not one of the currencies USD, EUR, GBP, TRY"),
        ("currency", "", "column price: '19.92' has no currency; write one beside it"),
        ("gpu_count", "8,5", "column gpu_count: 8.5 is not a whole number"),
        ("gpu_count", "$8", "column gpu_count: '$8' is an amount of money"),
        ("gpu_count", "", "column gpu_count: the cell is blank"),
        ("commitment", "forever", "column commitment: 'forever' is not one of on_demand"),
        ("as_of", "03/01/2026", "column as_of: '03/01/2026' is not a date written YYYY-MM-DD"),
        ("as_of", "31.02.2026", "column as_of: '31.02.2026' is not a day of the calendar"),
        ("as_of", "", "column as_of: the cell is blank"),
        ("as_of", "2026-12-24", "column as_of: 2026-12-24 is in the future"),
        ("provider", "", "column provider: the cell is blank"),
        ("provider", "Bu\u202elut", "column provider: there is an invisible character (U+202E)"),
    ],
)
def test_a_wrong_cell_is_refused_once_with_line_and_column_and_no_row_comes_in(tmp_path, column, text, says):
    path = csv_file(tmp_path, GOOD, GOOD | {"instance": "other", column: text})
    assert refusal(path).startswith(f"ours.csv has 1 fault: line 3, {says}")


def test_every_fault_of_a_file_is_told_not_only_the_first(tmp_path):
    path = csv_file(
        tmp_path, GOOD | {"price": "1,234", "as_of": "soon"}, GOOD, GOOD | {"gpu_count": "0", "gpu": "L40S"}
    )
    with pytest.raises(PriceError) as caught:
        import_prices(path, today=TODAY)
    assert [(f.line, f.column) for f in caught.value.faults] == [(2, "price"), (2, "as_of"), (4, "gpu_count")]


def test_headers_are_taken_in_any_case_and_told_as_the_file_has_them(tmp_path):
    header = (
        "Provider",
        "Instance",
        "GPU",
        "GPU count",
        "gpu-mem-gb",
        "Price",
        "Currency",
        "Commitment",
        "Region",
        "As of",
    )
    named = dict(zip(header, GOOD.values(), strict=True))
    assert prices(csv_file(tmp_path, named, header=header)) == [(19.92, "USD")]
    assert "line 2, column As of: 'x' is not a date" in refusal(
        csv_file(tmp_path, named | {"As of": "x"}, header=header)
    )


@pytest.mark.parametrize(
    ("header", "says"),
    [
        (tuple(c for c in COLUMNS if c != "gpu_count"), "line 1, column gpu_count: the column is missing"),
        (tuple(c for c in COLUMNS if c != "price"), "line 1, column price: the column is missing"),
        (tuple(c for c in COLUMNS if c != "as_of"), "line 1, column as_of: the column is missing"),
        ((*COLUMNS, "discount"), "line 1, column discount: the column is not known; known are as_of, "),
        ((*COLUMNS, "price"), "line 1, column price: the column appears twice"),
        (
            (*COLUMNS, "usd_per_hour"),
            "line 1, column price: there are several prices, price and usd_per_hour; keep one",
        ),
    ],
)
def test_a_header_that_says_too_little_or_too_much_is_refused(tmp_path, header, says):
    assert says in refusal(csv_file(tmp_path, GOOD, header=header))


def test_a_cell_without_a_column_name_is_refused_and_empty_columns_at_the_end_are_not(tmp_path):
    assert prices(csv_file(tmp_path, GOOD, header=(*COLUMNS, "", ""))) == [(19.92, "USD")]
    said = refusal(csv_file(tmp_path, GOOD | {"": "12"}, header=(*COLUMNS, "")))
    assert "line 2: '12' stands in a column without a name" in said


def test_the_currency_comes_from_the_cell_the_column_the_header_or_the_caller_and_they_must_agree(tmp_path):
    bare = GOOD | {"currency": ""}
    assert prices(csv_file(tmp_path, bare | {"price": "19,92 €"})) == [(19.92, "EUR")]
    assert prices(csv_file(tmp_path, bare), currency="EUR") == [(19.92, "EUR")]
    assert prices(csv_file(tmp_path, bare | {"currency": "TL", "price": "899,00"})) == [(899.0, "TRY")]
    dollars = tuple("usd_per_hour" if c == "price" else c for c in COLUMNS if c != "currency")
    assert prices(csv_file(tmp_path, GOOD | {"usd_per_hour": "19,92"}, header=dollars)) == [(19.92, "USD")]
    said = refusal(csv_file(tmp_path, GOOD | {"usd_per_hour": "₺899,00"}, header=dollars))
    assert "'₺899,00' is in two currencies, TRY by the cell and USD by the header" in said
    assert "USD by the currency column and EUR by the whole file" in refusal(csv_file(tmp_path, GOOD), currency="EUR")
    with pytest.raises(ValueError, match="'CHF' is not one of the currencies"):
        import_prices(csv_file(tmp_path, GOOD), currency="CHF")


def test_a_day_given_for_the_file_stands_where_the_file_says_none(tmp_path):
    path = csv_file(tmp_path, GOOD | {"as_of": ""}, GOOD | {"gpu": "L40S", "gpu_mem_gb": "48", "as_of": "15.10.2026"})
    read = import_prices(path, as_of=date(2026, 8, 1), today=TODAY)
    assert [row.as_of for row in read.rows] == [date(2026, 8, 1), date(2026, 10, 15)]


def test_the_same_instance_and_day_twice_is_refused_whether_the_price_is_the_same_or_not(tmp_path):
    assert "line 3, column price: is the same price of the same instance and day as line 2; keep one" in refusal(
        csv_file(tmp_path, GOOD, GOOD)
    )
    assert "is another price" in refusal(csv_file(tmp_path, GOOD, GOOD | {"price": "21"}))


def test_each_value_is_echoed_beside_its_text_for_a_person_to_look_over(tmp_path):
    path = csv_file(tmp_path, GOOD | {"price": "₺1.234,56", "currency": "", "as_of": "01.09.2026"})
    readings = {r.column: (r.line, r.text, r.read_as) for r in import_prices(path, today=TODAY).readings}
    assert readings == {
        "gpu_count": (2, "8", "8"),
        "gpu_mem_gb": (2, "80", "80"),
        "as_of": (2, "01.09.2026", "2026-09-01"),
        "price": (2, "₺1.234,56", "1234.56"),
        "currency": (2, "₺1.234,56", "TRY"),
    }


def test_a_told_decimal_mark_is_used_for_prices_and_counts(tmp_path):
    path = csv_file(tmp_path, GOOD | {"price": "1.234", "currency": "TRY"})
    assert prices(path, decimal=",") == [(1234.0, "TRY")]
    with pytest.raises(ValueError, match=r"decimal must be ',' or '\.', not ';'"):
        import_prices(path, decimal=";")


def test_a_list_price_with_its_page_and_grade_stays_what_it_is(tmp_path):
    more = {"source_url": "https://acme.example/", "evidence": "A"}
    (row,) = import_prices(csv_file(tmp_path, GOOD | more, header=(*COLUMNS, *more)), today=TODAY).rows
    assert (row.evidence, row.source_url) == ("A", "https://acme.example/")
    said = refusal(csv_file(tmp_path, GOOD | {"evidence": "A"}, header=(*COLUMNS, "evidence")))
    assert "line 2, column source_url: the cell is blank" in said


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty"),
        (b"\n \n", "is empty"),
        (";".join(COLUMNS).encode(), "there is no price after the header"),
        (b"\xff\xfe" + "provider".encode("utf-16-le"), "is UTF-16 text; save it as CSV UTF-8"),
        ("provider;İ".encode("cp1254"), "is not UTF-8 text"),
        (b"\xd0\xcf\x11\xe0rest", "is an old .xls workbook or has a password"),
        (b"PK\x03\x04broken", "cannot be read as a workbook"),
        (b'provider;"open', "is not valid CSV"),
        (b"x" * 5_000_001, "is larger than 5 MB"),
    ],
)
def test_a_file_that_is_no_price_list_is_refused_in_one_sentence(tmp_path, data, says):
    path = tmp_path / "ours.csv"
    path.write_bytes(data)
    assert says in refusal(path)


def test_more_rows_than_a_price_list_has_are_refused(tmp_path):
    assert f"has more than {MAX_ROWS:,} rows" in refusal(csv_file(tmp_path, *[GOOD] * (MAX_ROWS + 1)))


def test_a_file_that_is_not_there_is_a_price_error(tmp_path):
    assert "none.csv has 1 fault: line 1: cannot be read" in refusal(tmp_path / "none.csv")


# XLSX


def test_a_workbook_is_read_with_its_numbers_dates_and_real_line_numbers(tmp_path):
    path = workbook(
        tmp_path, row_of(), [None] * len(COLUMNS), row_of(gpu="L40S", gpu_mem_gb=48, price="₺899,90", currency="TL")
    )
    read = import_prices(path, today=TODAY)
    assert [(r.per_hour, r.currency, r.as_of) for r in read.rows] == [
        (19.92, "USD", date(2026, 9, 1)),
        (899.9, "TRY", date(2026, 9, 1)),
    ]
    assert {r.line for r in read.readings} == {2, 4}
    assert read.rows[0].source_file == "ours.xlsx"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"price": "=8*2.49"}, "column price: holds a formula without a stored value; save the workbook again"),
        ({"price": -2.0}, "column price: -2.0 must be above 0"),
        ({"price": 0}, "column price: 0.0 must be above 0"),
        ({"price": None}, "column price: the cell is blank"),
        ({"price": True}, "column price: holds True"),
        ({"price": date(2026, 3, 1)}, "column price: 2026-03-01 is a date and no price"),
        ({"price": "#N/A"}, "column price: holds the error #N/A"),
        ({"price": "1,234"}, "column price: '1,234' is ambiguous"),
        ({"gpu_count": 1.5}, "column gpu_count: 1.5 is not a whole number"),
        ({"instance": date(2026, 8, 1)}, "column instance: holds the date 2026-08-01 where text belongs"),
        ({"as_of": datetime(2026, 9, 1, 23, 30)}, "column as_of: holds the moment 2026-09-01 23:30:00"),
        ({"as_of": 46266}, "column as_of: 46266 is a number and no date"),
    ],
)
def test_a_wrong_cell_of_a_workbook_is_refused_with_line_and_column(tmp_path, changes, says):
    assert f"ours.xlsx has 1 fault: line 2, {says}" in refusal(workbook(tmp_path, row_of(**changes)))


def formatted(tmp_path: Path, number_format: str, **changes: object) -> Path:
    path = workbook(tmp_path, row_of(**changes))
    book = openpyxl.load_workbook(path)
    book.active.cell(2, COLUMNS.index("price") + 1).number_format = number_format
    book.save(path)
    return path


def test_a_currency_that_only_the_number_format_shows_is_not_dropped(tmp_path):
    lira = formatted(tmp_path, "[$₺-41F]#,##0.00", currency=None, price=899.9)
    assert prices(lira) == [(899.9, "TRY")]
    assert "TRY by the cell and USD by the currency column" in refusal(
        formatted(tmp_path, '#,##0.00 "TL"', price=899.9)
    )
    assert "'¥' is not one of the currencies" in refusal(formatted(tmp_path, "[$¥-411]#,##0"))
    assert "column price: is a percentage" in refusal(formatted(tmp_path, "0.00%"))
    assert prices(formatted(tmp_path, "#,##0.00")) == [(19.92, "USD")]


@pytest.mark.parametrize(
    ("number_format", "name"),
    [
        ("General", ""), ("#,##0.00", ""), ("[Red]0.00", ""), ("[$-41F]0.00", ""), ("0.00E+00", ""),
        ("$#,##0.00", "$"), ('"$"#,##0.00', "$"), ("\\$0.00", "$"), ("[$$-409]#,##0.00", "$"), ("[$USD] 0.00", "USD"),
        ('_($* #,##0.00_);_($* (#,##0.00)', "$"), ("#,##0.00\\ [$€-407]", "€"),
        ('0.00 "EUR"', "EUR"), ('0.00\\ "TL"', "TL"),
    ],
)  # fmt: skip
def test_the_currency_of_a_number_format_is_found_and_nothing_else_is_taken_for_one(number_format, name):
    assert format_currency_name(number_format) == name


def test_of_a_workbook_with_several_sheets_one_is_named(tmp_path):
    path = workbook(tmp_path, row_of())
    book = openpyxl.load_workbook(path)
    book.create_sheet("Notes")
    book.save(path)
    assert "has 2 sheets, 'Sheet', 'Notes'; say which one holds the prices" in refusal(path)
    assert prices(path, sheet="Sheet") == [(19.92, "USD")]
    assert "has no sheet 'Prices'; its sheets are 'Sheet', 'Notes'" in refusal(path, sheet="Prices")
    assert "is no workbook, so there is no sheet 'Prices'" in refusal(csv_file(tmp_path, GOOD), sheet="Prices")


def repacked(path: Path, part: str, change) -> Path:
    """The workbook with one of its parts changed."""
    out = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            data = old.read(info)
            new.writestr(info.filename, change(data) if info.filename == part else data)
    path.write_bytes(out.getvalue())
    return path


SHEET = "xl/worksheets/sheet1.xml"


def test_a_formula_counts_by_the_value_that_the_spreadsheet_stored_with_it(tmp_path):
    path = workbook(tmp_path, row_of(price="=8*2.49"))
    repacked(
        path,
        SHEET,
        lambda xml: xml.replace(b"<f>8*2.49</f><v></v>", b"<f>8*2.49</f><v>19.92</v>").replace(
            b"<f>8*2.49</f><v />", b"<f>8*2.49</f><v>19.92</v>"
        ),
    )
    assert prices(path) == [(19.92, "USD")]


def test_rows_beyond_the_size_that_a_workbook_states_are_not_lost(tmp_path):
    path = workbook(tmp_path, row_of(), row_of(region="Ankara"))
    repacked(path, SHEET, lambda xml: xml.replace(b'<dimension ref="A1:J3"', b'<dimension ref="A1"'))
    assert len(prices(path)) == 2


def test_a_workbook_that_unpacks_to_too_much_or_holds_entities_is_not_read(tmp_path):
    path = workbook(tmp_path, row_of())
    repacked(path, SHEET, lambda xml: xml + b" " * 50_000_000)
    assert path.stat().st_size < 1_000_000
    assert "unpacks to more than 20 MB" in refusal(path)
    bomb = b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaa">]>'
    path = repacked(workbook(tmp_path, row_of()), SHEET, lambda xml: bomb + xml.split(b"?>", 1)[-1])
    assert "holds a document type definition" in refusal(path)


def sheet_with(rows: bytes):
    return lambda xml: xml.replace(b"</sheetData>", rows + b"</sheetData>")


def never(what):
    return lambda *_, **__: pytest.fail(f"{what} was asked")


@pytest.mark.parametrize("number", [2_000_000_000, 3_000_000, 1_048_577])
def test_a_row_beyond_the_last_one_of_a_workbook_is_refused_before_any_row_is_read(tmp_path, monkeypatch, number):
    row = f'<row r="{number}"><c r="A{number}"><v>1</v></c></row>'.encode()
    path = repacked(workbook(tmp_path, row_of()), SHEET, sheet_with(row))
    # It would give every row up to that one, empty.
    monkeypatch.setattr("openpyxl.worksheet._read_only.ReadOnlyWorksheet._cells_by_row", never("for its rows, it"))
    assert f"has a row {number}, and a workbook ends with row 1,048,576" in refusal(path)


def test_a_row_that_would_be_lost_behind_another_one_is_refused(tmp_path):
    path = repacked(workbook(tmp_path, row_of()), SHEET, sheet_with(b'<row r="2"><c r="A2"><v>1</v></c></row>'))
    assert "line 2: has a row numbered '2' after row 2; save it again" in refusal(path)
    path = repacked(workbook(tmp_path, row_of()), SHEET, sheet_with(b'<row r="two"></row>'))
    assert "has a row numbered 'two'" in refusal(path)


@pytest.mark.parametrize(
    "piece", [b"<!--" + b"<>x" * 1_000_000 + b"-->", b"<?x " + b"<" * 300_000 + b"?>",
              b"<![CDATA[" + b"<" * 300_000 + b"]]>", b'<row x="' + b">" * 300_000 + b'"/>', b"<!--" + b"y" * 300_000],
)  # fmt: skip
def test_a_piece_that_would_keep_a_parser_busy_reaches_none(tmp_path, monkeypatch, piece):
    path = repacked(workbook(tmp_path, row_of()), SHEET, sheet_with(piece))
    monkeypatch.setattr("openpyxl.load_workbook", never("openpyxl"))
    monkeypatch.setattr("pricing.workbook_parts.expat.ParserCreate", never("expat"))
    assert "holds a comment, tag or cell of more than 262,144 bytes" in refusal(path)


def test_a_comment_of_a_sensible_length_is_read_past(tmp_path):
    path = repacked(workbook(tmp_path, row_of()), SHEET, sheet_with(b"<!-- by hand -->"))
    assert prices(path) == [(19.92, "USD")]


@pytest.mark.parametrize("encoding", ["utf-16", "cp037"])
def test_a_workbook_in_another_encoding_than_workbooks_have_is_refused(tmp_path, encoding):
    def change(xml: bytes) -> bytes:
        text = xml.decode().split("?>", 1)[-1]
        head = f'<?xml version="1.0" encoding="{encoding}"?>'
        return (
            (head + text).encode("utf-16") if encoding == "utf-16" else head.encode() + text.encode(encoding, "replace")
        )

    assert "is not written in UTF-8, as workbooks are" in refusal(repacked(workbook(tmp_path, row_of()), SHEET, change))


def test_hidden_rows_are_read_and_named(tmp_path):
    path = workbook(tmp_path, row_of(), row_of(region="Ankara"), row_of(region="Bursa"))
    assert import_prices(path, today=TODAY).hidden == ()
    book = openpyxl.load_workbook(path)
    book.active.row_dimensions[3].hidden = True
    book.active.row_dimensions[9].hidden = True  # blank
    book.save(path)
    read = import_prices(path, today=TODAY)
    assert (len(read.rows), read.hidden) == (3, (3,))


@pytest.mark.parametrize(
    "number_format", ["#,##0.00,", "0,", "0.0,,", "0,.0", '#,##0,"k"', "[Red]0.00,", "[$₺-41F]#,##0.00,"]
)
def test_a_price_that_its_format_shows_in_another_size_is_refused(tmp_path, number_format):
    assert "column price: holds 19.92 and is shown in thousands or millions" in refusal(
        formatted(tmp_path, number_format, currency=None)
    )


@pytest.mark.parametrize("number_format", ["#,##0.00", "#,##0", '0.00"a,"', "0.00\\,", "#,##0.00_,"])
def test_a_comma_that_parts_thousands_or_is_only_shown_changes_no_price(tmp_path, number_format):
    assert prices(formatted(tmp_path, number_format)) == [(19.92, "USD")]


def test_a_workbook_with_a_chart_sheet_is_read_or_told_what_to_do(tmp_path):
    path = workbook(tmp_path, row_of())
    book = openpyxl.load_workbook(path)
    chart = openpyxl.chart.BarChart()
    chart.add_data(openpyxl.chart.Reference(book.active, min_col=6, min_row=1, max_row=2))
    book.create_chartsheet("Chart").add_chart(chart)
    book.save(path)
    assert prices(path) == [(19.92, "USD")]
    book.create_chartsheet("Empty")  # openpyxl cannot read one without a chart
    book.save(path)
    assert "has a chart sheet that cannot be read; save the sheet of prices alone" in refusal(path)


def test_utf_16_is_told_also_without_its_mark(tmp_path):
    path = csv_file(tmp_path, GOOD)
    for encoding in ("utf-16-le", "utf-16-be", "utf-16"):
        path.write_bytes(csv_file(tmp_path, GOOD).read_text(encoding="utf-8").encode(encoding))
        assert "is UTF-16 text; save it as CSV UTF-8" in refusal(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_or_a_device_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    for path in (tmp_path / "pipe.csv", Path("/dev/zero")):
        assert "is a pipe or a device; save what it gives as a file" in refusal(path)
        with pytest.raises(ScenarioError, match="is a pipe or a device"):
            load_scenario(path)


def test_a_name_that_no_table_could_show_and_an_instance_of_a_hundred_million_gpus_are_refused(tmp_path):
    assert "column provider: has 100,000 characters, and a name has 120 at most" in refusal(
        csv_file(tmp_path, GOOD | {"provider": "x" * 100_000})
    )
    many = GOOD | {"gpu_count": "99999999", "price": "99999999"}
    assert "column gpu_count: 99,999,999 GPUs are more than one instance has (10,000 at most)" in refusal(
        csv_file(tmp_path, many)
    )
    assert prices(csv_file(tmp_path, GOOD | {"provider": "x" * 120})) == [(19.92, "USD")]


def test_a_last_day_before_there_were_prices_is_refused_like_a_first_one(tmp_path):
    header = (*COLUMNS, "valid_until")
    assert "column as_of: 0001-01-01 is before 2006-01-01" in refusal(
        csv_file(tmp_path, GOOD | {"as_of": "0001-01-01"})
    )
    assert "column valid_until: 1999-01-01 is before 2006-01-01" in refusal(
        csv_file(tmp_path, GOOD | {"valid_until": "1999-01-01"}, header=header)
    )
