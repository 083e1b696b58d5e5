"""A scenario says at which rate its figures were converted, and is refused with a sentence for what is no rate."""

from datetime import date, timedelta

import pytest
from helpers.scenarios import scenario

from pricing import currencies
from pricing import scenario as schema
from pricing.scenario_file import ScenarioError, dump_scenario, parse_scenario

RATE = {"base": "USD", "quote": "TRY", "value": 42.5, "side": "selling", "day": date(2026, 11, 27), "source": "TCMB"}


def test_there_is_one_list_of_currencies():
    assert schema.Currency is currencies.Currency
    assert scenario(currency="GBP").currency == "GBP"


def test_a_rate_is_written_as_toml_and_read_again_as_it_was():
    made = scenario(currency="TRY", rates=[RATE])
    text = dump_scenario(made)
    assert "[[rates]]" in text
    assert "day = 2026-11-27\n" in text
    assert parse_scenario(text) == made
    assert made.rates[0].rate.kind == "selling"


def test_a_rate_stays_with_the_scenario_when_its_numbers_change_and_changes_none():
    made = scenario(currency="TRY", rates=[RATE])
    assert made.with_values({"workload.peak_factor": 3}).rates == made.rates
    assert made.figures() == scenario(currency="TRY").figures()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"value": 0}, "the rate USD/TRY must be a number above 0, not 0"),
        ({"value": -3}, "the rate USD/TRY must be a number above 0, not -3"),
        ({"value": float("nan")}, "the rate USD/TRY must be a number above 0, not nan"),
        ({"value": float("inf")}, "the rate USD/TRY must be a number above 0, not inf"),
        ({"side": "mid"}, "is not a kind of rate; name buying or selling, there is no default"),
        ({"source": " "}, "needs a source: who quoted it"),
        ({"base": "CHF"}, "is not one of the currencies USD, EUR, GBP, TRY"),
        ({"quote": "USD"}, "USD to USD needs no rate"),
        ({"day": "27.11.2026"}, "is not a date written YYYY-MM-DD"),
        ({"day": date.today() + timedelta(days=40)}, "is in the future"),
        ({"who": "me"}, "there is no such entry; check its spelling"),
    ],
)
def test_what_is_no_rate_is_one_sentence(changes, told):
    with pytest.raises(ScenarioError) as error:
        scenario(rates=[RATE | changes])
    assert told in str(error.value)
    assert "\n" not in str(error.value)
