"""Cost of a token: golden values from arithmetic, and no number where there is none."""

import csv
import dataclasses
import io
import json
import math
import subprocess
import sys
from datetime import date
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing import PriceRow, Throughput, cost_table, format_unit_price, load_prices, saving_share, to_csv
from pricing import usd_per_million_tokens as cost
from pricing.tables import PriceTable

TODAY = date(2026, 11, 30)
HUGE = pytest.param(10**400, id="huge")  # beyond any float
HUGER = pytest.param(10**5000, id="huger")  # beyond what Python writes out
sane = st.floats(min_value=1e-3, max_value=1e6)
share = st.floats(min_value=0.01, max_value=1.0)


def price(**changes: object) -> PriceRow:
    return PriceRow.model_validate(
        {
            "provider": "Acme",
            "instance": "big8",
            "gpu": "H100 SXM",
            "gpu_count": 8,
            "gpu_mem_gb": 80,
            "usd_per_hour": 19.92,
            "commitment": "on_demand",
            "as_of": date(2026, 11, 1),
            "source_url": "https://acme.example/prices",
            "evidence": "A",
        }
        | changes
    )


def table(*rows: PriceRow) -> PriceTable:
    return PriceTable(tuple(rows), "ab" * 32, "prices.csv")


@pytest.mark.parametrize(
    ("usd_per_hour", "tokens_per_second", "usd"),
    [
        (2.49, 100, 6.9167),  # 100 * 3600 = 360 000 tokens an hour; 2.49 / 0.36 M
        (8 * 2.49, 100, 55.3333),  # the whole server pays for the same 100 tokens a second (K4)
        (2.00, 85, 6.5359),  # 306 000 tokens an hour
        (1.50, 2000, 0.2083),  # 7.2 M tokens an hour
        (6.98, 6238, 0.3108),  # 22.4568 M tokens an hour
        (1.69, 1000, 0.4694),  # 3.6 M tokens an hour
    ],
)
def test_the_golden_costs_come_out_in_usd_per_million(usd_per_hour, tokens_per_second, usd):
    assert cost(usd_per_hour, tokens_per_second) == pytest.approx(usd, abs=5e-5)


def test_a_machine_busy_half_of_the_billed_time_costs_twice_as_much_a_token():
    assert cost(2.49, 100, 0.5) == pytest.approx(2 * 2.49 / 0.36)


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, -math.inf, 1e400, None])
def test_a_cost_without_meaning_is_none_and_never_zero_infinite_or_nan(bad):
    assert cost(bad, 100) is None
    assert cost(2.49, bad) is None
    assert cost(2.49, 100, bad) is None


@pytest.mark.parametrize("bad", [HUGE, HUGER, Decimal("NaN"), Decimal("sNaN"), Decimal("1e400"), "2.49", True, [], 1j])
def test_what_is_not_a_number_or_too_large_for_one_has_no_meaning(bad):
    assert cost(bad, 100) is None
    assert cost(2.49, bad) is None
    assert cost(2.49, 100, bad) is None
    assert saving_share(bad, 1) is None
    assert saving_share(1, bad) is None
    assert format_unit_price(bad, "USD") == "n/a"
    assert Throughput(bad, 2, "measured", "-").plain_tokens_per_second is None


def test_a_decimal_and_a_numpy_number_cost_what_the_float_costs():
    assert cost(Decimal("2.49"), np.float32(100), np.int64(1)) == cost(2.49, 100)
    assert type(cost(np.float64(2.49), 100)) is float
    assert saving_share(Decimal(10), 7.5) == pytest.approx(0.25)
    assert format_unit_price(Decimal("6.916666"), "USD") == "$6.917"


@pytest.mark.parametrize("busy", [math.nan, 2, -1, 0, None, True, "0.5", HUGE, HUGER])
def test_a_table_is_not_made_with_a_busy_share_that_has_no_meaning(busy):
    with pytest.raises(ValueError, match=r"^busy_share must be a number above 0 and at most 1, not "):
        cost_table(table(price()), {}, busy)


def test_a_busy_share_above_one_has_no_meaning():
    assert cost(2.49, 100, 1.0) is not None
    assert cost(2.49, 100, 1.0000001) is None
    assert cost(2.49, 100, 50) is None  # 50 per cent written as 50


@pytest.mark.parametrize("args", [(1e308, 1e-300), (1e-300, 1e300), (5e-324, 1e10), (1.0, 5e-324, 0.1)])
def test_extremes_that_leave_the_range_of_numbers_are_none(args):
    value = cost(*args)
    assert value is None or (math.isfinite(value) and value > 0)


@given(sane, sane, share)
def test_cost_falls_when_speed_rises_and_rises_with_price(usd_per_hour, tokens_per_second, busy):
    base = cost(usd_per_hour, tokens_per_second, busy)
    assert base is not None
    assert cost(usd_per_hour, tokens_per_second * 2, busy) == pytest.approx(base / 2)
    assert cost(usd_per_hour * 2, tokens_per_second, busy) == pytest.approx(base * 2)
    # turned round: the tokens that the cost buys in an hour are the tokens made in an hour
    assert usd_per_hour / base * 1e6 == pytest.approx(tokens_per_second * 3600 * busy)


@given(st.floats(), st.floats(), st.floats())
def test_whatever_goes_in_what_comes_out_is_none_or_a_positive_number(a, b, c):
    value = cost(a, b, c)
    assert value is None or (math.isfinite(value) and value > 0)


def test_the_saving_is_one_minus_the_ratio_and_a_loss_is_negative():
    assert saving_share(10, 7.5) == pytest.approx(0.25)
    assert saving_share(10, 12.5) == pytest.approx(-0.25)  # speed-up 0.8 at equal hardware: dearer
    assert saving_share(1.4, 1.0) == pytest.approx(0.2857, abs=1e-4)  # speed-up 1.4: 28.6 % less a token
    assert saving_share(None, 1) is None
    assert saving_share(1, None) is None
    assert saving_share(0, 1) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (6.916666, "$6.917"),
        (55.3333, "$55.33"),
        (0.208333, "$0.2083"),
        (12345.678, "$12,346"),
        (9.99996, "$10.00"),
        (2.0005, "$2.000"),  # half to even
        (1.2346e-6, "$0.000001235"),
        (1e-7, "<$0.000001"),
        (-1e-7, ">-$0.000001"),
        (-2.5, "-$2.500"),
        (None, "n/a"),
        (math.nan, "n/a"),
        (math.inf, "n/a"),
    ],
)
def test_money_is_shown_with_four_digits_and_a_tiny_price_never_as_zero(value, text):
    assert format_unit_price(value, "USD") == text


def test_the_cost_of_25_tokens_is_not_rounded_away():
    # 25 tokens at 0.01 USD per 1M are 0.00000025 USD: six decimals would make it 0 (K3)
    per_million = cost(0.036, 1000)
    assert per_million == pytest.approx(0.01)
    assert per_million * 25 / 1e6 == pytest.approx(2.5e-7, rel=1e-12)
    assert format_unit_price(per_million * 25 / 1e6, "USD") == "<$0.000001"


@given(st.floats(min_value=1e-300, max_value=1e12))
def test_no_positive_price_is_ever_shown_as_zero(value):
    assert any(digit in format_unit_price(value, "USD") for digit in "123456789")


def test_the_whole_instance_price_meets_the_throughput_of_all_its_replicas():
    # 8 GPUs, one replica each, 100 tok/s a replica: 19.92 / 8 = 2.49 USD an hour a replica -> 6.9167
    (row,) = cost_table(table(price()), {"H100 SXM 80 GB": Throughput(100, 250, "measured", "run 1")}, today=TODAY)
    assert (row.gpu_count, row.gpus_per_replica, row.replicas) == (8, 1, 8)
    assert row.usd_per_gpu_hour == pytest.approx(2.49)
    assert row.plain_usd_per_million_tokens == pytest.approx(6.9167, abs=5e-5)
    assert row.speculative_usd_per_million_tokens == pytest.approx(2.7667, abs=5e-5)  # 2.49 / 0.9
    assert row.saving_share == pytest.approx(0.6)
    assert row.tokens_counted == "output"
    assert "8 x H100 SXM / 8 replica(s)" in row.formula


def test_a_model_on_all_eight_gpus_pays_for_eight():
    # the same 100 tok/s, made by one replica on 8 GPUs: 19.92 / 0.36 (K4)
    (row,) = cost_table(table(price()), {"H100 SXM 80 GB": Throughput(100, 100, "assumed", "-", gpus=8)}, today=TODAY)
    assert row.plain_usd_per_million_tokens == pytest.approx(55.3333, abs=5e-5)
    assert row.replicas == 1


def test_gpus_that_no_replica_can_use_are_billed_and_said():
    # 8 GPUs hold 2 replicas of 3: each pays 19.92 / 2 = 9.96, not 3 * 2.49 = 7.47
    (row,) = cost_table(table(price()), {"H100 SXM 80 GB": Throughput(100, 100, "assumed", "-", gpus=3)}, today=TODAY)
    assert row.usd_per_replica_hour == pytest.approx(9.96)
    assert "2 of its GPUs unused but billed" in row.formula


def test_an_instance_too_small_for_the_model_has_no_cost_and_comes_last():
    small = price(gpu_count=1, usd_per_hour=1.0, instance="one")
    speeds = {"H100 SXM 80 GB": Throughput(100, 200, "projected", "-", gpus=2)}
    rows = cost_table(table(small, price()), speeds, today=TODAY)
    assert [row.instance for row in rows] == ["big8", "one"]
    assert rows[1].speculative_usd_per_million_tokens is None
    assert "needs 2 GPUs and the instance has 1" in rows[1].formula


def test_rows_are_sorted_by_speculative_cost_and_no_value_never_ranks_first():
    speeds = {
        "H100 SXM 80 GB": Throughput(100, 200, "measured", "-"),
        "L40S 48 GB": Throughput(50, math.nan, "measured", "-"),
    }
    dear = price(usd_per_hour=40, instance="dear")
    unknown = price(gpu="L40S", gpu_mem_gb=48, instance="unknown", usd_per_hour=0.5)
    rows = cost_table(table(unknown, dear, price()), speeds, today=TODAY)
    assert [row.instance for row in rows] == ["big8", "dear", "unknown"]
    assert rows[2].speculative_tokens_per_second is None
    json.dumps([dataclasses.asdict(r) | {"as_of": str(r.as_of)} for r in rows], allow_nan=False)  # K1


def test_a_slower_speculative_run_is_a_loss_in_the_table():
    (row,) = cost_table(table(price()), {"H100 SXM 80 GB": Throughput(100, 80, "measured", "-")}, today=TODAY)
    assert row.saving_share == pytest.approx(-0.25)  # 1 - 100 / 80


def test_gpus_without_a_throughput_and_superseded_prices_are_left_out():
    old = price(valid_until=date(2026, 11, 2), instance="old")
    speeds = {"H100 SXM 80 GB": Throughput(100, 200, "measured", "-")}
    prices = table(old, price(), price(gpu="L40S", gpu_mem_gb=48))
    assert [r.instance for r in cost_table(prices, speeds, today=TODAY)] == ["big8"]
    assert len(cost_table(prices, speeds, today=TODAY, include_superseded=True)) == 2


def test_the_two_a100_sizes_do_not_share_a_throughput():
    rows = cost_table(load_prices(), {"A100 SXM 40 GB": Throughput(1, 2, "assumed", "-")}, today=TODAY)
    assert rows
    assert {row.gpu_mem_gb for row in rows} == {40}


def test_a_throughput_without_a_known_provenance_or_without_a_gpu_is_refused():
    with pytest.raises(ValueError, match="provenance"):
        Throughput(1, 2, "guessed", "-")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 1 GPU"):
        Throughput(1, 2, "measured", "-", gpus=0)


@pytest.mark.parametrize("gpus", [True, 1.5, 2.0, "2", None, -1])
def test_gpus_are_counted_in_whole_numbers(gpus):
    with pytest.raises(ValueError, match="at least 1 GPU, as a whole number"):
        Throughput(1, 2, "measured", "-", gpus=gpus)


@pytest.mark.parametrize("speed", [0, -5.0, math.nan, math.inf])
def test_a_speed_that_no_machine_has_is_absent_and_not_shown(speed):
    (row,) = cost_table(table(price()), {"H100 SXM 80 GB": Throughput(speed, 80, "measured", "-")}, today=TODAY)
    assert row.plain_tokens_per_second is None
    assert row.plain_usd_per_million_tokens is None
    assert "plain: n/a" in row.formula


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", " =", *"＝＋－＠﹦﹢﹣﹫"])
def test_text_and_headers_that_a_spreadsheet_would_run_are_disarmed(start):
    evil = f"{start}HYPERLINK(1)"
    text = to_csv([{evil: evil, "fine": "a-b"}])
    header, row = csv.reader(io.StringIO(text, newline=""))
    assert header[0] == "'" + evil
    assert row[0] == "'" + evil
    assert row[1] == "a-b"


@pytest.mark.parametrize(
    "unseen", ["\ufeff", "\u200b", "\u202e", "\x00", "\x1f", "\u2060", "\xa0", "\u3164", "\ufe0f", " \u200d "]
)
def test_a_formula_behind_a_character_that_nobody_sees_is_disarmed_too(unseen):
    _, row = csv.reader(io.StringIO(to_csv([{"a": f"{unseen}=1+1", "b": f"{unseen}fine"}]), newline=""))
    assert row[:2] == [f"'{unseen}=1+1", f"{unseen}fine"]


def test_numbers_of_other_kinds_stay_numbers_and_their_nan_is_an_empty_cell():
    row = {
        "decimal": Decimal("-5"),
        "float32": np.float32(-0.5),
        "int64": np.int64(-3),
        "inf": np.float32("inf"),
        "nan": Decimal("NaN"),
        "snan": Decimal("sNaN"),
        "huge": HUGER.values[0],
    }
    _, cells = csv.reader(io.StringIO(to_csv([row])))
    assert cells[:-1] == ["-5", "-0.5", "-3", "", "", "", ""]


def test_numbers_stay_numbers_and_absent_values_are_empty_cells():
    row = {"loss": -0.25, "n": -3, "tiny": 2.5e-7, "nan": math.nan, "inf": math.inf, "none": None}
    _, cells = csv.reader(io.StringIO(to_csv([row], date(2026, 3, 1))))
    assert cells == ["-0.25", "-3", "2.5e-07", "", "", "", "2026-03-01"]
    assert float(cells[2]) == 2.5e-7


def test_the_export_is_plain_csv_and_carries_hash_date_and_busy_share_in_every_row():
    speeds = {"H100 SXM 80 GB": Throughput(100, 250, "measured", '=cmd, "quoted"\nnext line')}
    rows = cost_table(table(price(), price(instance="other")), speeds, 0.6, today=TODAY)
    text = to_csv(rows, date(2026, 12, 1))
    assert text.count("\r\n") == 3
    read = list(csv.DictReader(io.StringIO(text, newline="")))
    assert len(read) == 2
    for line in read:
        assert line["price_table_sha256"] == "ab" * 32
        assert line["busy_share"] == "0.6"
        assert line["as_of"] == "2026-11-01"
        assert line["exported_on"] == "2026-12-01"
        assert line["how"] == '\'=cmd, "quoted"\nnext line'
        assert float(line["plain_usd_per_million_tokens"]) == rows[0].plain_usd_per_million_tokens


def test_an_export_without_rows_still_has_its_header():
    assert to_csv([]).startswith("provider,instance,gpu,")


def test_pricing_brings_in_neither_torch_nor_gradio_nor_the_engine():
    code = "import sys, pricing; print([m for m in ('torch','gradio','engine','app') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
