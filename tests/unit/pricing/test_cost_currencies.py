"""A cost in its price's own currency, and in the reader's at a rate that somebody gave: never without one."""

import csv
import io
from datetime import date

import pytest

from pricing import Exchange, PriceRow, Rate, RateError, Rates, Throughput, cost_table, to_csv
from pricing.exchange import checked_days
from pricing.tables import PriceTable
from pricing.throughput import RequestParts

TODAY = date(2026, 11, 30)
SPEED = {"H100 SXM 80 GB": Throughput(80, 100, "measured", "run 1")}


def price(**changes: object) -> PriceRow:
    return PriceRow.model_validate(
        {
            "provider": "Acme", "instance": "one", "gpu": "H100 SXM", "gpu_count": 1, "gpu_mem_gb": 80,
            "currency": "EUR", "per_hour": 2.49, "commitment": "on_demand", "as_of": date(2026, 11, 1),
            "source_url": "https://acme.example/prices", "evidence": "A",
        }
        | changes
    )  # fmt: skip


def table(*rows: PriceRow) -> PriceTable:
    return PriceTable(rows, "ab" * 32, "prices.csv")


def rate(base="EUR", quote="TRY", value=48.20, kind="selling", day=date(2026, 11, 27)) -> Rate:
    return Rate(base, quote, value, kind, day, "TCMB bulletin")


def in_lira(*rates: Rate) -> Exchange:
    return Exchange("TRY", Rates(rates), "selling")


def test_a_price_in_euro_has_a_cost_in_euro_without_any_rate():
    (row,) = cost_table(table(price()), SPEED, today=TODAY)
    # 100 tokens/s are 0.36 M an hour: 2.49 / 0.36
    assert row.speculative_per_million_tokens == pytest.approx(6.9167, abs=5e-5)
    assert row.plain_per_million_tokens == pytest.approx(2.49 / 0.288)
    assert row.saving_share == pytest.approx(0.2)
    assert row.speculative_usd_per_million_tokens is None
    assert (row.shown_currency, row.shown_speculative_per_million_tokens, row.rate) == (None, None, None)
    assert "€2.49/h for 1 x H100 SXM" in row.formula
    assert "€6.917 per 1M output tokens" in row.formula


def test_at_a_rate_that_is_given_the_cost_is_shown_in_lira_with_the_rate_its_day_side_and_source():
    (row,) = cost_table(table(price()), SPEED, today=TODAY, to=in_lira(rate()))
    # 2.49 / 0.36 x 48.20
    assert row.shown_speculative_per_million_tokens == pytest.approx(333.3833, abs=5e-5)
    assert row.shown_per_gpu_hour == pytest.approx(120.018)
    assert row.speculative_per_million_tokens == pytest.approx(6.9167, abs=5e-5)  # and stays what it is
    assert (row.rate, row.rate_pair, row.rate_kind, row.rate_day) == (48.2, "EUR/TRY", "selling", date(2026, 11, 27))
    assert row.rate_source == "TCMB bulletin"
    assert "in TRY at 48.2 TRY per EUR, selling, TCMB bulletin, 2026-11-27" in row.formula
    assert "speculative €6.917 x 48.2 = ₺333.4" in row.formula


def test_every_line_of_the_csv_says_at_which_rate_it_was_converted():
    rows = cost_table(table(price()), SPEED, today=TODAY, to=in_lira(rate()))
    (line,) = csv.DictReader(io.StringIO(to_csv(rows)))
    assert (line["currency"], line["shown_currency"]) == ("EUR", "TRY")
    assert (line["rate"], line["rate_kind"], line["rate_day"]) == ("48.2", "selling", "2026-11-27")


def test_a_price_that_no_rate_reaches_keeps_its_own_cost_and_says_why_it_has_no_other():
    (row,) = cost_table(table(price(currency="GBP")), SPEED, today=TODAY, to=in_lira(rate()))
    assert row.speculative_per_million_tokens == pytest.approx(2.49 / 0.36)
    assert row.shown_speculative_per_million_tokens is None
    assert row.shown_how.startswith("not shown in TRY: there is no selling rate between GBP and TRY")


def test_a_rate_of_the_other_side_converts_nothing():
    (row,) = cost_table(table(price()), SPEED, today=TODAY, to=in_lira(rate(kind="buying")))
    assert row.shown_speculative_per_million_tokens is None


def test_costs_are_ranked_in_the_currency_that_was_asked_for():
    rows = table(price(instance="euro"), price(instance="dollar", currency="USD", per_hour=2.60))
    # 2.49 x 48.20 = 120.018 and 2.60 x 42 = 109.20: the euro one is the dearer
    ranked = cost_table(rows, SPEED, today=TODAY, to=in_lira(rate(), rate("USD", "TRY", 42.0)))
    assert [row.instance for row in ranked] == ["dollar", "euro"]


def test_without_a_rate_euro_and_dollars_are_not_ranked_against_each_other():
    rows = table(price(instance="euro", per_hour=0.5), price(instance="dollar", currency="USD", per_hour=9))
    assert [row.instance for row in cost_table(rows, SPEED, today=TODAY)] == ["dollar", "euro"]


def test_a_rate_from_the_other_direction_divides():
    (row,) = cost_table(
        table(price(currency="TRY", per_hour=120)), SPEED, today=TODAY,
        to=Exchange("EUR", Rates([rate()]), "selling"),
    )  # fmt: skip
    assert row.shown_per_gpu_hour == pytest.approx(120 / 48.2)
    assert "/ 48.2 = €" in row.formula


def test_reading_and_writing_split_the_bill_by_their_seconds_and_add_up_to_it():
    # 1000 tokens are read in 1 s and 100 written in 4: a request takes 5 s, 20 output tokens a second
    parts = RequestParts(1000, 100, 1.0, 4.0)
    speed = {"H100 SXM 80 GB": Throughput(20, None, "measured", "-", plain_parts=parts)}
    (row,) = cost_table(table(price(per_hour=3.6)), speed, today=TODAY)
    request = 3.6 / 3600 * 5
    assert row.plain_per_million_input == pytest.approx(request / 5 * 1 / 1000 * 1e6)  # 1.0
    assert row.plain_per_million_output == pytest.approx(request / 5 * 4 / 100 * 1e6)  # 40.0
    assert row.plain_per_million_input * 1e-3 + row.plain_per_million_output * 1e-4 == pytest.approx(request)
    assert row.speculative_per_million_input is None


def test_a_rate_of_a_day_that_has_not_come_is_one_sentence():
    checked_days([rate(day=date(2026, 12, 1))], TODAY)  # tomorrow it may be where the rate was read
    with pytest.raises(RateError, match=r"^the rate EUR/TRY of 2026-12-02 is in the future \(today is 2026-11-30\)$"):
        checked_days([rate(day=date(2026, 12, 2))], TODAY)
