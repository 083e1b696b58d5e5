"""The price file: what is accepted, and that everything else is refused with line and column."""

import hashlib
import os
import time
from datetime import date, datetime
from pathlib import Path

import pytest
from pydantic import ValidationError

from pricing import PriceError, PriceRow, load_prices
from pricing.rows import COLUMNS
from pricing.tables import DEFAULT_PRICES

GOOD = {
    "provider": "AWS",
    "instance": "p5.48xlarge",
    "gpu": "H100 SXM",
    "gpu_count": "8",
    "gpu_mem_gb": "80",
    "usd_per_hour": "55.04",
    "commitment": "on_demand",
    "valid_until": "",
    "region": "us-east-1",
    "as_of": "2026-03-01",
    "source_url": "https://aws.amazon.com/ec2/pricing/on-demand/",
    "evidence": "A",
    "notes": "",
}
TODAY = date(2026, 11, 30)
HUGE, HUGER = pytest.param(10**400, id="huge"), pytest.param(10**5000, id="huger")


def write(tmp_path: Path, *rows: dict[str, str], header: tuple[str, ...] = COLUMNS, prefix: str = "") -> Path:
    lines = [",".join(header)] + [",".join(f'"{row.get(c, "")}"' for c in header) for row in rows]
    path = tmp_path / "prices.csv"
    path.write_text(prefix + "\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_the_table_that_ships_is_valid_and_every_row_says_where_its_price_comes_from():
    table = load_prices()
    assert len(table) == 129
    assert all(r.source_url.startswith("http") and r.as_of and r.evidence in "ABC" for r in table)
    assert table.sha256 == hashlib.sha256(DEFAULT_PRICES.read_bytes()).hexdigest()


def test_the_aws_price_before_the_cut_is_kept_but_not_selected():
    table = load_prices()
    before = [r for r in table if r.usd_per_hour == 98.32 and r.provider == "AWS"]
    assert [r.valid_until for r in before] == [date(2025, 5, 31)]
    current = table.select(provider="AWS", gpu="H100 SXM", commitment="on_demand", today=TODAY)
    assert {r.usd_per_hour for r in current if r.instance == "p5.48xlarge"} == {55.04}
    everything = table.select(provider="AWS", gpu="H100 SXM", include_superseded=True, today=TODAY)
    assert 98.32 in {r.usd_per_hour for r in everything}


def test_rows_are_selected_by_one_value_or_several_and_by_name_or_name_with_memory():
    table = load_prices()
    both = table.select(gpu="A100 SXM", today=TODAY)
    forty = table.select(gpu="A100 SXM 40 GB", today=TODAY)
    assert {r.gpu_mem_gb for r in both} == {40, 80}
    assert {r.gpu_mem_gb for r in forty} == {40}
    some = table.select(provider={"GCP", "Azure"}, commitment=["spot"], today=TODAY)
    assert {r.commitment for r in some} == {"spot"}
    assert {r.provider for r in some} <= {"GCP", "Azure"}
    assert some.sha256 == table.sha256


def test_the_frame_has_the_price_of_one_gpu_and_marks_what_is_old():
    frame = load_prices().to_frame(TODAY)
    p5 = frame[(frame.instance == "p5.48xlarge") & (frame.usd_per_hour == 55.04)].iloc[0]
    assert p5.usd_per_gpu_hour == pytest.approx(6.88)  # 55.04 / 8
    assert not p5.superseded
    assert len(frame) == 129
    assert frame.superseded.sum() == 6  # four have a last day, two were read anew


def test_a_price_that_was_read_anew_is_not_chosen_beside_its_newer_self():
    # GCP's spot price of 8 H100 in us-central1: 20.3696 read in July 2025 without a last day, 50.6095 a year later.
    spot = load_prices().select(provider="GCP", gpu="H100 SXM", commitment="spot", today=date(2026, 12, 1))
    assert [row.per_hour for row in spot if row.region == "us-central1"] == [50.6095]
    both = load_prices().select(provider="GCP", gpu="H100 SXM", commitment="spot", include_superseded=True)
    assert sorted(row.per_hour for row in both if row.region == "us-central1") == [20.3696, 50.6095]
    frame = load_prices().to_frame(date(2026, 12, 1))
    assert frame[frame.per_hour.isin([20.3696, 50.6095])].superseded.tolist() == [False, True]
    # Read until that day and no more in force: 129 rows, four of them with a last day, two read anew.
    assert frame.superseded.sum() == 6
    assert len(load_prices().on(date(2026, 12, 1))) == 123


@pytest.mark.parametrize(
    ("column", "text", "says"),
    [
        ("usd_per_hour", "0", "never 0"),
        ("usd_per_hour", "0.0", "never 0"),
        ("usd_per_hour", "-2.49", "not a plain positive number"),
        ("usd_per_hour", "nan", "not a plain positive number"),
        ("usd_per_hour", "inf", "not a plain positive number"),
        ("usd_per_hour", "1e400", "not a plain positive number"),
        ("usd_per_hour", "", "blank"),
        ("usd_per_hour", "2,49", "not a plain positive number"),
        ("usd_per_hour", "1.234,56", "not a plain positive number"),
        ("usd_per_hour", "₺89.90", "not a plain positive number"),
        ("usd_per_hour", "2.49 USD", "not a plain positive number"),
        ("usd_per_hour", "0.00000249", "USD per GPU-hour"),
        ("usd_per_hour", "40000", "USD per GPU-hour"),
        ("gpu_count", "0", "never 0"),
        ("gpu_count", "1.5", "whole number"),
        ("gpu_mem_gb", "eighty", "not a plain positive number"),
        ("commitment", "forever", "not one of on_demand"),
        ("commitment", "", "blank"),
        ("evidence", "D", "not one of A, B, C"),
        ("as_of", "2026-02-30", "not a day of the calendar"),
        ("as_of", "01.03.2026", "YYYY-MM-DD"),
        ("as_of", "2026-03-01T00:00:00Z", "YYYY-MM-DD"),
        ("as_of", "", "blank"),
        ("valid_until", "soon", "YYYY-MM-DD"),
        ("valid_until", "2025-01-01", "before the date of the price"),
        ("source_url", "aws.amazon.com", "web address"),
        ("source_url", "javascript:alert(1)", "web address"),
        ("source_url", "https://", "web address"),
        ("source_url", "http://[broken", "web address"),
        ("source_url", "", "blank"),
        ("source_url", "https://me:secret@aws.amazon.com/", "user name or password"),
        ("source_url", "https://aws.amazon.com\u202e/", "invisible character (U+202E)"),
        ("provider", "A\x00WS", "invisible character (U+0000)"),
        ("provider", "AWS\x1f", "invisible character (U+001F)"),
        ("instance", "p5\u200b.48xlarge", "invisible character (U+200B)"),
        ("region", "us\neast", "invisible character (U+000A)"),
        ("notes", "cheap \u202eraed", "invisible character (U+202E)"),
        ("usd_per_hour", "55.04\x00", "invisible character (U+0000)"),
        ("as_of", "2999-01-01", "in the future"),
        ("provider", " ", "blank"),
        ("gpu", "", "blank"),
    ],
)
def test_a_wrong_cell_is_refused_with_its_line_and_column(tmp_path, column, text, says):
    path = write(tmp_path, GOOD, GOOD | {column: text})
    with pytest.raises(PriceError) as caught:
        load_prices(path)
    assert str(caught.value).startswith(f"prices.csv has 1 fault: line 3, column {column}: ")
    assert says in str(caught.value)
    assert str(caught.value).isprintable()
    assert "secret" not in str(caught.value)


def test_all_faults_are_collected_and_the_first_few_are_told_with_the_count(tmp_path):
    path = write(tmp_path, *[GOOD | {"usd_per_hour": "0"}] * 7)
    with pytest.raises(PriceError, match=r"has 7 faults: line 2, .*line 6, .*; and 2 more$") as caught:
        load_prices(path)
    assert [fault.line for fault in caught.value.faults] == [2, 3, 4, 5, 6, 7, 8]


def test_a_price_may_be_dated_tomorrow_where_it_is_tomorrow_already_and_no_later(tmp_path):
    path = write(tmp_path, GOOD)  # as_of 2026-03-01
    assert len(load_prices(path, today=date(2026, 2, 28))) == 1
    with pytest.raises(PriceError, match=r"line 2, column as_of: 2026-03-01 is in the future \(today is 2026-02-27\)"):
        load_prices(path, today=date(2026, 2, 27))


def test_the_table_that_ships_has_no_price_from_the_future_and_loads_on_a_clock_set_wrong(monkeypatch):
    assert len(load_prices(today=TODAY)) == 129

    class Wrong(date):
        @classmethod
        def today(cls):
            return date(1970, 1, 1)

    monkeypatch.setattr("pricing.tables.date", Wrong)
    assert len(load_prices()) == 129


def test_the_same_price_twice_is_refused_and_another_price_of_that_day_is_not(tmp_path):
    other_source = GOOD | {"source_url": "https://example.org/", "notes": "again"}
    with pytest.raises(PriceError, match=r"line 3, column usd_per_hour: is the same price .* as line 2"):
        load_prices(write(tmp_path, GOOD, other_source))
    others = (GOOD | {"usd_per_hour": "55.05"}, GOOD | {"region": "us-west-2"})
    assert len(load_prices(write(tmp_path, GOOD, *others))) == 3


def test_a_column_whose_name_cannot_be_printed_is_spelt_out(tmp_path):
    path = write(tmp_path, GOOD, header=(*COLUMNS, "usd\u202e"))
    with pytest.raises(PriceError, match=r"line 1, column usd\\u202e: the column is not known"):
        load_prices(path)


def test_a_row_after_a_cell_with_a_line_break_is_named_by_its_real_line(tmp_path):
    path = write(tmp_path, GOOD | {"notes": "two\nlines"}, GOOD | {"usd_per_hour": "0"})
    with pytest.raises(PriceError, match="line 4, column usd_per_hour"):
        load_prices(path)


@pytest.mark.parametrize("column", COLUMNS)
def test_a_missing_column_is_refused_by_name(tmp_path, column):
    path = write(tmp_path, GOOD, header=tuple(c for c in COLUMNS if c != column))
    with pytest.raises(PriceError, match=f"line 1, column {column}: the column is missing"):
        load_prices(path)


def test_an_unknown_column_such_as_a_currency_is_refused_and_not_dropped(tmp_path):
    path = write(tmp_path, GOOD | {"currency": "TRY"}, header=(*COLUMNS, "currency"))
    with pytest.raises(PriceError, match="line 1, column currency: the column is not known"):
        load_prices(path)


def test_a_column_given_twice_and_a_row_of_the_wrong_length_are_refused(tmp_path):
    with pytest.raises(PriceError, match="column notes: the column appears twice"):
        load_prices(write(tmp_path, GOOD, header=(*COLUMNS, "notes")))
    path = write(tmp_path, GOOD)
    path.write_text(path.read_text() + "AWS,p5\n")
    with pytest.raises(PriceError, match="line 3: has 2 cells where the header has 13"):
        load_prices(path)


@pytest.mark.parametrize("data", [b"", b"\n\n", ",".join(COLUMNS).encode() + b"\n", b"\xff\xfe\x00", b'"open'])
def test_a_file_that_is_empty_or_not_csv_is_refused_in_one_sentence(tmp_path, data):
    path = tmp_path / "prices.csv"
    path.write_bytes(data)
    with pytest.raises(PriceError, match=r"^prices\.csv has \d+ faults?: line [12]"):
        load_prices(path)


def test_a_file_that_is_not_there_is_a_price_error_too(tmp_path):
    with pytest.raises(PriceError, match=r"none\.csv has 1 fault: line 1: cannot be read"):
        load_prices(tmp_path / "none.csv")


def test_a_byte_order_mark_blank_lines_and_columns_in_another_order_are_fine(tmp_path):
    path = write(tmp_path, GOOD, header=tuple(reversed(COLUMNS)), prefix="\ufeff")
    path.write_text(path.read_text(encoding="utf-8") + "\n\n", encoding="utf-8")
    assert [r.usd_per_hour for r in load_prices(path)] == [55.04]


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Europe/Istanbul", "UTC"])
def test_a_price_date_is_the_same_day_in_every_time_zone(tmp_path, monkeypatch, zone):
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        row = load_prices(write(tmp_path, GOOD)).rows[0]
        assert row.as_of == date(2026, 3, 1)
        assert str(row.as_of) == "2026-03-01"
        # 2026-03-01 + 90 days is 2026-05-30 (30 left in March, 30 in April, 30 in May)
        assert not row.is_stale(date(2026, 5, 30))
        assert row.is_stale(date(2026, 5, 31))
    finally:
        monkeypatch.undo()
        time.tzset()
        assert os.environ.get("TZ") != "America/Los_Angeles"


def test_a_price_is_superseded_the_day_after_its_last_day():
    row = PriceRow.model_validate(GOOD | {"valid_until": "2026-05-31"})
    assert not row.is_superseded(date(2026, 5, 31))
    assert row.is_superseded(date(2026, 6, 1))


@pytest.mark.parametrize("price", [0, -1.0, float("nan"), float("inf"), 1e400, HUGE, HUGER, None, True, ""])
def test_a_row_made_in_code_is_held_to_the_same_rules(price):
    with pytest.raises(ValidationError):
        PriceRow.model_validate(GOOD | {"usd_per_hour": price})


def test_a_moment_with_a_clock_is_not_a_price_date():
    with pytest.raises(ValidationError):
        PriceRow.model_validate(GOOD | {"as_of": datetime(2026, 3, 1, 23, 30)})


def test_memory_may_be_unknown_and_is_then_absent_and_not_zero():
    row = PriceRow.model_validate(GOOD | {"gpu_mem_gb": ""})
    assert row.gpu_mem_gb is None
    assert row.gpu_key == "H100 SXM"
