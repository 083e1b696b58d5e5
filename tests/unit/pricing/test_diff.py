"""What newer prices would change: shown entry by entry, and only what is chosen is taken over."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing import PriceRow, PriceTable, accept, diff_tables
from pricing.diff import Entry

TODAY = date(2026, 11, 30)


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


def today(**changes: object) -> PriceRow:
    return price(as_of=TODAY, **changes)


OLD = table(price(), price(region="eu"), price(region="us"), price(provider="Other"))
NEW = table(today(per_hour=25.0), today(region="eu"), today(region="asia"))


def test_prices_are_changed_confirmed_added_or_gone_and_another_providers_are_none_of_it():
    difference = diff_tables(OLD, NEW, TODAY)
    assert [(e.what, (e.new or e.old).region) for e in difference.entries] == [
        ("changed", ""), ("confirmed", "eu"), ("added", "asia"), ("gone", "us"),
    ]  # fmt: skip
    (changed,) = difference.changed
    assert (changed.old, changed.new) == (OLD.rows[0], NEW.rows[0])
    assert changed.share == pytest.approx(0.25)  # 25 / 20 - 1
    assert difference.added[0].share is None
    assert difference.gone[0].share is None


def test_a_cheaper_price_has_a_negative_share():
    (changed,) = diff_tables(table(price(per_hour=98.32)), table(today(per_hour=55.04)), TODAY).changed
    assert changed.share == pytest.approx(-0.4402, abs=5e-5)


def test_the_same_table_differs_in_nothing():
    difference = diff_tables(OLD, OLD, TODAY)
    assert (difference.entries, difference.unchanged) == ((), 4)


def test_a_price_in_another_currency_is_not_compared_with_the_one_in_dollars():
    difference = diff_tables(table(price()), table(today(currency="EUR", per_hour=18.0)), TODAY)
    assert [e.what for e in difference.entries] == ["added", "gone"]


def test_what_the_new_list_would_not_name_is_not_gone():
    assert diff_tables(OLD, NEW, TODAY, covers=lambda row: False).gone == ()
    assert len(diff_tables(OLD, NEW, TODAY, covers=lambda row: True).gone) == 2


def test_an_older_list_changes_nothing_today_and_its_prices_come_in_as_history():
    old, late = table(price(as_of=date(2026, 6, 1))), table(price(per_hour=30.0))
    difference = diff_tables(old, late, TODAY)
    assert [e.what for e in difference.entries] == ["older"]
    after = accept(difference, difference.entries)
    assert [(r.per_hour, r.valid_until) for r in after] == [(20.0, None), (30.0, date(2026, 5, 31))]
    ended = diff_tables(table(), table(price(valid_until=date(2026, 4, 1)), today(region="eu")), TODAY)
    assert [e.what for e in ended.entries] == ["added", "older"]


def test_nothing_is_taken_over_that_was_not_chosen():
    difference = diff_tables(OLD, NEW, TODAY)
    assert accept(difference, []) is OLD
    after = accept(difference, difference.changed)
    assert [(r.per_hour, r.region, r.valid_until) for r in after if r.provider == "Acme"] == [
        (20.0, "", date(2026, 11, 29)), (20.0, "eu", None), (20.0, "us", None), (25.0, "", None),
    ]  # fmt: skip
    assert [r.per_hour for r in after.on(date(2026, 11, 29)) if r.region == ""] == [20.0, 20.0]
    assert {r.per_hour for r in after.on(TODAY) if r.region == "" and r.provider == "Acme"} == {25.0}


def test_a_gone_price_is_closed_and_kept():
    difference = diff_tables(OLD, NEW, TODAY)
    after = accept(difference, difference.gone)
    (gone,) = [row for row in after if row.region == "us"]
    assert gone.valid_until == date(2026, 11, 29)
    assert len(after) == len(OLD)
    assert after.sha256 != OLD.sha256


def test_a_confirmed_price_is_fresh_again():
    difference = diff_tables(OLD, NEW, TODAY)
    after = accept(difference, difference.confirmed)
    (held,) = [row for row in after.on(TODAY) if row.region == "eu"]
    assert not held.is_stale(TODAY)
    assert [row.is_stale(TODAY) for row in OLD.on(TODAY) if row.region == "eu"] == [True]


def test_an_entry_of_another_difference_is_refused():
    with pytest.raises(ValueError, match="not one of this difference"):
        accept(diff_tables(OLD, NEW, TODAY), [Entry("added", None, price(region="mars"))])


@given(st.sets(st.sampled_from(range(4))), st.randoms())
def test_what_is_accepted_does_not_differ_any_more_whatever_the_order_of_choice(places, random):
    difference = diff_tables(OLD, NEW, TODAY)
    chosen = [difference.entries[i] for i in places]
    random.shuffle(chosen)
    after = accept(difference, chosen)
    assert after == accept(difference, sorted(chosen, key=difference.entries.index))
    left = diff_tables(after, NEW, TODAY)
    assert [e.what for e in left.entries] == [e.what for e in difference.entries if e not in chosen]
    assert {row.per_hour for row in after} <= {20.0, 25.0}
    assert len(after) == len(OLD) + sum(e.new is not None for e in chosen)
