"""Prices in their own currency, and over time: what was in force on a day, and that merging loses nothing."""

import os
import time
from collections import Counter
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pricing import PriceError, PriceRow, PriceTable, Throughput, cost_table, load_prices, load_prices_with_own
from pricing.history import merged, reading
from pricing.price_file import parse, write
from pricing.rows import NATIVE_COLUMNS

TODAY = date(2026, 11, 30)
SHA = "ab" * 32


def price(**changes: object) -> PriceRow:
    return PriceRow.model_validate(
        {
            "provider": "Acme",
            "instance": "big8",
            "gpu": "H100 SXM",
            "gpu_count": 8,
            "gpu_mem_gb": 80,
            "currency": "USD",
            "per_hour": 20.0,
            "commitment": "on_demand",
            "as_of": date(2026, 3, 1),
            "source_url": "https://acme.example/prices",
            "evidence": "A",
        }
        | changes
    )


def table(*rows: PriceRow) -> PriceTable:
    return PriceTable.of(rows, "prices.csv")


def contract(**changes: object) -> PriceRow:
    given = {"evidence": "contract", "source_url": "", "source_file": "ours.xlsx", "source_sha256": SHA}
    return price(**(given | changes))


# What ships


def test_the_shipped_table_has_129_prices_of_15_providers_all_in_dollars():
    shipped = load_prices()
    assert Counter(row.provider for row in shipped) == {
        "AWS": 22, "Azure": 9, "GCP": 30, "OCI": 9, "CoreWeave": 11, "Lambda": 7, "Crusoe": 6, "RunPod": 9,
        "Hyperstack": 10, "Nebius": 3, "Together AI": 2, "Vast.ai": 3, "DigitalOcean": 1, "Akash": 4, "Qubrid": 3,
    }  # fmt: skip
    assert len(shipped) == 129
    assert {row.currency for row in shipped} == {"USD"}
    assert all(row.usd_per_hour == row.per_hour for row in shipped)


# A price in its own currency


def test_a_price_in_another_currency_has_no_dollars_and_is_never_converted_silently():
    row = price(currency="EUR", per_hour=40.0)
    assert (row.per_hour, row.per_gpu_hour) == (40.0, 5.0)
    assert row.usd_per_hour is None
    assert row.usd_per_gpu_hour is None
    frame = table(row, price()).to_frame(TODAY)
    assert frame.usd_per_hour.isna().tolist() == [True, False]
    assert frame.currency.tolist() == ["EUR", "USD"]
    (cost,) = cost_table(table(row), {"H100 SXM 80 GB": Throughput(100, 200, "measured", "-")}, today=TODAY)
    assert cost.plain_usd_per_million_tokens is None
    assert cost.usd_per_hour is None
    assert (cost.per_hour, cost.currency) == (40.0, "EUR")
    # 8 cards at 5 EUR; 100 tokens/s are 0.36 M an hour
    assert (cost.plain_per_million_tokens, cost.shown_currency) == (pytest.approx(5 / 0.36), None)
    assert cost.formula.startswith("€40/h for 8 x H100 SXM / 8 replica(s) = €5/h a replica; plain: 5 / (100 tok/s")


def test_prices_are_selected_by_their_currency():
    both = table(price(), price(currency="TRY", per_hour=1600))
    assert [row.per_hour for row in both.select(currency="TRY", today=TODAY)] == [1600]


def test_usd_per_hour_is_the_price_and_its_currency_in_one():
    given = price().model_dump(exclude={"currency", "per_hour"}) | {"usd_per_hour": 20.0}
    assert PriceRow.model_validate(given) == price()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"currency": "CHF"}, "'CHF' is not one of USD, EUR, GBP, TRY"),
        ({"currency": ""}, "blank"),
        ({"currency": "usd"}, "'usd' is not one of"),
        ({"usd_per_hour": 20.0}, "and not both"),
        ({"currency": "TRY", "per_hour": 8.0}, "8 is 1 TRY per GPU-hour, outside 2 to 20000"),  # a dollar price?
        ({"currency": "EUR", "per_hour": 40_000}, "5000 EUR per GPU-hour"),  # a month's
        ({"per_hour": 0}, "never 0"),
        ({"per_hour": -1.0}, "never 0"),
        ({"per_hour": float("nan")}, "not a finite number"),
        ({"per_hour": float("inf")}, "not a finite number"),
        ({"per_hour": 1e400}, "not a finite number"),
        ({"per_hour": ""}, "blank"),
    ],
)
def test_a_price_without_a_known_currency_or_out_of_all_range_is_refused(changes, says):
    with pytest.raises(ValidationError, match=says):
        price(**changes)


def test_a_price_without_any_currency_is_refused_and_not_taken_for_dollars():
    given = price().model_dump(exclude={"currency"})
    with pytest.raises(ValidationError, match="currency"):
        PriceRow.model_validate(given)
    with pytest.raises(ValidationError, match="and not both"):
        PriceRow.model_validate(
            price().model_dump(exclude={"per_hour", "currency"}) | {"usd_per_hour": 9, "currency": "EUR"}
        )


def test_a_contract_price_needs_no_web_address_but_a_file_with_its_hash():
    assert contract().source == f"ours.xlsx (sha256 {SHA})"
    assert contract(source_url="https://acme.example/offer").source == "https://acme.example/offer"
    with pytest.raises(ValidationError, match="source_file and source_sha256"):
        contract(source_sha256="")
    with pytest.raises(ValidationError, match="only a contract price may name a file"):
        contract(evidence="A")
    with pytest.raises(ValidationError, match="is not a sha256"):
        contract(source_sha256="123")


def test_a_file_with_a_currency_in_each_row_reads_back_to_the_very_same_rows(tmp_path):
    rows = (
        price(currency="TRY", per_hour=1234.56, notes='a "b", c\nd'),
        contract(currency="EUR", per_hour=21.957642),
        price(),
    )
    path = tmp_path / "own.csv"
    path.write_text(write(rows), encoding="utf-8")
    read = load_prices(path, today=TODAY)
    assert read.rows == rows
    assert PriceTable.of(rows, "x").sha256 == read.sha256


@pytest.mark.parametrize(
    ("column", "text", "says"),
    [
        ("per_hour", "0", "line 2, column per_hour: .*never 0"),
        ("per_hour", "1e400", "line 2, column per_hour: .*not a plain positive number"),
        ("per_hour", "nan", "line 2, column per_hour: .*not a plain positive number"),
        ("per_hour", "-3", "line 2, column per_hour: .*not a plain positive number"),
        ("per_hour", "", "line 2, column per_hour: the cell is blank"),
        ("currency", "YEN", "line 2, column currency: 'YEN' is not one of USD, EUR, GBP, TRY"),
        ("currency", "", "line 2, column currency: the cell is blank"),
    ],
)
def test_a_wrong_cell_of_such_a_file_is_refused_with_line_and_column(column, text, says):
    cells = dict(zip(NATIVE_COLUMNS, write([price()]).splitlines()[1].split(","), strict=True)) | {column: text}
    data = "\n".join([",".join(NATIVE_COLUMNS), ",".join(cells.values())]).encode()
    with pytest.raises(PriceError, match=says) as caught:
        parse(data, "own.csv", TODAY)
    assert len(caught.value.faults) == 1


# In force on a day


def p5(day: date) -> list[float]:
    rows = load_prices().on(day).select(provider="AWS", commitment="on_demand", include_superseded=True)
    return [row.per_hour for row in rows if row.instance == "p5.48xlarge"]


def test_the_aws_price_was_98_32_until_the_end_of_may_2025_and_is_55_04_since():
    assert p5(date(2025, 5, 31)) == [98.32]
    assert p5(date(2025, 6, 1)) == [55.04]  # read in 2026 only, and yet what replaced the other one
    assert p5(TODAY) == [55.04]


def test_a_price_is_not_carried_back_to_a_day_on_which_nobody_had_read_it():
    assert p5(date(2025, 5, 30)) == []
    assert table(price()).on(date(2026, 2, 28)).rows == ()
    assert table(price()).on(date(2026, 3, 1)).rows == (price(),)


def test_the_latest_reading_holds_also_where_the_older_one_was_never_closed():
    def spot(day: date) -> list[float]:
        rows = load_prices().on(day).select(provider="GCP", commitment="spot", gpu="H100 SXM", include_superseded=True)
        return [r.per_hour for r in rows if r.instance == "a3-highgpu-8g" and r.region == "us-central1"]

    assert spot(date(2025, 7, 23)) == []
    assert spot(date(2026, 7, 29)) == [20.3696]
    assert spot(date(2026, 7, 30)) == [50.6095]


def test_two_sources_of_one_day_are_both_in_force_unless_one_ends_on_it():
    first, second = price(per_hour=20.0), price(per_hour=21.0)
    assert table(first, second).on(TODAY).rows == (first, second)
    ended = price(per_hour=20.0, valid_until=date(2026, 3, 1))
    assert table(ended, second).on(date(2026, 3, 1)).rows == (second,)
    assert table(ended).on(date(2026, 3, 1)).rows == (ended,)


def test_a_price_whose_end_has_passed_and_that_nothing_replaced_is_absent():
    assert table(price(valid_until=date(2026, 6, 30))).on(date(2026, 7, 1)).rows == ()


def test_regions_commitments_currencies_and_contracts_have_their_own_history():
    rows = (
        price(), price(region="eu"), price(commitment="spot"), price(currency="EUR"), contract(), price(gpu_count=4),
    )  # fmt: skip
    later = price(as_of=date(2026, 5, 1), per_hour=30.0)
    assert table(*rows, later).on(TODAY).rows == (*rows[1:], later)


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Europe/Istanbul", "Pacific/Kiritimati"])
def test_the_day_of_a_change_is_the_same_in_every_time_zone(monkeypatch, zone):
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert p5(date(2025, 5, 31)) == [98.32]
        assert p5(date(2025, 6, 1)) == [55.04]
    finally:
        monkeypatch.undo()
        time.tzset()
        assert os.environ.get("TZ") != zone


# Merging


def test_a_newer_price_comes_in_and_the_older_one_is_closed_on_the_day_before():
    old, new = price(), price(per_hour=25.0, as_of=date(2026, 6, 1))
    both = table(old).merged(table(new))
    assert [(r.per_hour, r.valid_until) for r in both] == [(20.0, date(2026, 5, 31)), (25.0, None)]
    assert both.on(date(2026, 5, 31)).rows == (both.rows[0],)
    assert both.on(date(2026, 6, 1)).rows == (new,)


def test_a_price_known_to_hold_since_an_earlier_day_than_it_was_read_closes_the_old_one_there():
    both = table(price()).merged(table(price(per_hour=25.0, as_of=date(2026, 6, 1))), date(2026, 4, 1))
    assert both.rows[0].valid_until == date(2026, 3, 31)
    assert [r.per_hour for r in both.on(date(2026, 4, 1))] == [25.0]
    # the old price was seen on 2026-03-01, so it is not closed before that
    both = table(price()).merged(table(price(per_hour=25.0, as_of=date(2026, 6, 1))), date(2026, 1, 1))
    assert both.rows[0].valid_until == date(2026, 3, 1)


def test_an_older_price_is_history_and_leaves_the_newer_one_in_force():
    both = table(price()).merged(table(price(per_hour=15.0, as_of=date(2026, 1, 1))))
    assert [(r.per_hour, r.valid_until) for r in both] == [(20.0, None), (15.0, date(2026, 2, 28))]


def test_another_price_of_the_same_day_takes_over_on_that_day():
    both = table(price()).merged(table(price(per_hour=25.0)))
    assert [r.per_hour for r in both.on(date(2026, 3, 1))] == [25.0]
    assert both.rows[0].valid_until == date(2026, 3, 1)


def test_a_contract_that_is_replaced_before_its_end_says_so():
    both = table(contract(valid_until=date(2027, 12, 31))).merged(
        table(contract(per_hour=18.0, as_of=date(2026, 9, 1)))
    )
    assert both.rows[0].valid_until == date(2026, 8, 31)
    assert both.rows[0].notes == "replaced before its end, 2027-12-31"


def test_a_contract_price_never_closes_a_list_price_and_the_same_reading_is_not_kept_twice():
    list_price = table(price())
    both = list_price.merged(table(contract(as_of=date(2026, 9, 1), per_hour=12.0)))
    assert both.rows[0] == price()
    assert list_price.merged(table(price(notes="a second source"))) is list_price


def test_a_merged_table_has_the_hash_of_its_rows_and_the_names_of_both_files():
    both = PriceTable.of([price()], "a.csv").merged(PriceTable.of([price(region="eu")], "b.csv"))
    assert both.file == "a.csv + b.csv"
    assert both.sha256 == PriceTable.of(both.rows, "c.csv").sha256
    assert both.sha256 != PriceTable.of([price()], "a.csv").sha256
    assert both.merged(PriceTable.of([price(region="us")], "b.csv")).file == "a.csv + b.csv"


rows = st.builds(
    lambda usd, day, last, region: price(
        per_hour=float(usd),
        as_of=date(2026, 1, 1) + timedelta(day),
        valid_until=None if last is None else date(2026, 1, 1) + timedelta(day + last),
        region=region,
    ),
    st.integers(10, 14),
    st.integers(0, 40),
    st.none() | st.integers(0, 30),
    st.sampled_from(["", "eu"]),
)
tables = st.lists(rows, max_size=8, unique_by=reading)


@given(tables, tables)
def test_merging_loses_no_reading_and_merging_again_changes_nothing(old, new):
    both = merged(old, new)
    assert {reading(row) for row in both} == {reading(row) for row in [*old, *new]}
    assert len({reading(row) for row in both}) == len(both)
    assert all(row.valid_until is None or row.valid_until >= row.as_of for row in both)
    assert merged(both, new) == both


@given(tables, tables)
def test_what_was_in_force_on_the_day_of_the_latest_reading_is_that_reading(old, new):
    both = PriceTable.of(merged(old, new), "x")
    for region in {row.region for row in both}:
        mine = [row for row in both if row.region == region]
        day = max(row.as_of for row in mine)
        latest = {row.per_hour for row in both.on(day) if row.region == region}
        fresh = {row.per_hour for row in new if row.region == region and row.as_of == day}
        fresh -= {row.per_hour for row in old if row.region == region and row.as_of == day}
        assert not fresh or latest & fresh  # of two readings of one day the new one counts


# The user's own over the shipped ones


def test_the_users_own_file_is_merged_over_the_shipped_table_and_a_missing_one_is_no_fault(tmp_path):
    own = tmp_path / "prices.csv"
    assert load_prices_with_own(own, today=TODAY) == load_prices(today=TODAY)
    assert load_prices_with_own(None) == load_prices()
    shipped = next(r for r in load_prices() if r.per_hour == 55.04)
    mine = contract(provider="AWS", instance="p5.48xlarge", per_hour=38.5, region="us-east-1")
    newer = shipped.model_copy(update={"per_hour": 50.0, "as_of": date(2026, 11, 20), "notes": ""})
    own.write_text(write([mine, newer]), encoding="utf-8")
    together = load_prices_with_own(own, today=TODAY)
    assert len(together) == 131
    assert together.file == "gpu_prices.csv + prices.csv"
    in_force = together.on(TODAY).select(provider="AWS", commitment="on_demand", today=TODAY)
    assert [r.per_hour for r in in_force if r.instance == "p5.48xlarge"] == [38.5, 50.0]
    own.write_text("provider\n", encoding="utf-8")
    with pytest.raises(PriceError, match=r"prices\.csv has"):
        load_prices_with_own(own)


def test_a_price_read_more_than_90_days_ago_is_stale_in_every_currency():
    row = price(currency="TRY", per_hour=1600)  # 2026-03-01 + 90 days is 2026-05-30
    assert not row.is_stale(date(2026, 5, 30))
    assert row.is_stale(date(2026, 5, 31))
