"""Exchange rates: dated, sourced, of a named kind, and never a default."""

import math
from datetime import date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing import Rate, RateError, Rates, read_bulletin
from pricing.fx import split_kind

DAY = date(2026, 4, 24)


def rate(base="USD", quote="TRY", value=45.0, kind="selling", day=DAY, source="our bank") -> Rate:
    return Rate(base, quote, value, kind, day, source)


def currency(code: str, fields: str, unit: str = "<Unit>1</Unit>") -> str:
    return f'<Currency CrossOrder="0" Kod="{code}" CurrencyCode="{code}">{unit}<Isim>x</Isim>{fields}</Currency>'


def quotes(forex: str = "44.9773 45.0583", banknote: str = "44.9458 45.1259") -> str:
    names = ("ForexBuying", "ForexSelling", "BanknoteBuying", "BanknoteSelling")
    return "".join(f"<{n}>{v}</{n}>" for n, v in zip(names, f"{forex} {banknote}".split(" "), strict=True))


USD = currency("USD", quotes())
EUR = currency("EUR", quotes("52.6100 52.7048", " "))  # empty banknote cells
JPY = currency("JPY", quotes("28.1 28.3", " "), "<Unit>100</Unit>")


def bulletin(*currencies: str, head: str = "", dates: str = 'Tarih="24.04.2026" Date="04/24/2026"') -> bytes:
    root = f'<Tarih_Date {dates} Bulten_No="2026/77">{"".join(currencies)}</Tarih_Date>'
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{head}\n{root}'.encode()


# Converting


def test_a_dollar_price_is_shown_in_lira_at_the_named_rate_and_the_sentence_says_which():
    converted = Rates([rate(value=45.032)]).convert(2.49, "USD", "TRY", kind="selling")
    assert converted.amount == pytest.approx(112.12968)  # 2.49 x 45.032
    assert (converted.currency, converted.rate) == ("TRY", rate(value=45.032))
    assert converted.how == "at 45.032 TRY per USD, selling, our bank, 2026-04-24"


def test_the_same_rate_divides_on_the_way_back():
    assert Rates([rate(value=40.0)]).convert(1000, "TRY", "USD", kind="selling").amount == pytest.approx(25.0)


def test_the_same_currency_needs_no_rate():
    converted = Rates([]).convert(2.49, "EUR", "EUR", kind="buying")
    assert (converted.amount, converted.rate) == (2.49, None)
    assert converted.how == "already in EUR, so no rate is used"


def test_a_loss_stays_a_loss():
    assert Rates([rate()]).convert(-2.0, "USD", "TRY", kind="selling").amount == -90.0


def test_there_is_no_default_kind():
    rates = Rates([rate()])
    with pytest.raises(TypeError):
        rates.convert(1.0, "USD", "TRY")  # type: ignore[call-arg]
    with pytest.raises(RateError, match="name buying or selling, there is no default"):
        rates.convert(1.0, "USD", "TRY", kind="mid")  # type: ignore[arg-type]
    with pytest.raises(
        RateError, match="there is no buying rate between USD and TRY; give one with its day and source"
    ):
        rates.convert(1.0, "USD", "TRY", kind="buying")


def test_a_missing_rate_is_one_sentence_that_says_what_there_is():
    with pytest.raises(RateError) as caught:
        Rates([rate()]).convert(1.0, "GBP", "TRY", kind="selling")
    assert str(caught.value) == (
        "there is no selling rate between GBP and TRY; give one with its day and source (there is: USD/TRY selling)"
    )
    with pytest.raises(RateError, match=r"\(there is: none\)"):
        Rates([]).convert(1.0, "GBP", "TRY", kind="selling")


def test_a_cross_through_lira_takes_the_sides_that_a_bank_would():
    rates = read_bulletin(bulletin(USD, EUR), "forex")
    buying = rates.convert(100, "EUR", "USD", kind="buying")
    assert buying.amount == pytest.approx(100 * 52.61 / 45.0583)  # it buys euros and sells dollars
    selling = rates.convert(100, "EUR", "USD", kind="selling")
    assert selling.amount == pytest.approx(100 * 52.7048 / 44.9773)
    assert buying.amount < selling.amount  # a bank never pays more than it asks
    # The other way it is the same EUR/USD, as the market quotes the pair.
    assert rates.convert(buying.amount, "USD", "EUR", kind="buying").amount == pytest.approx(100)
    assert buying.how == (
        "at 1.167598422 USD per EUR, buying, TCMB bulletin 2026/77, forex (EUR/TRY buying 52.61 over USD/TRY selling "
        "45.0583), 2026-04-24"
    )


def test_a_cross_of_one_kind_alone_or_of_two_days_is_refused():
    one_kind = Rates([rate(), rate("EUR", value=52.0)])
    with pytest.raises(RateError, match="no selling rate between EUR and USD"):
        one_kind.convert(1.0, "EUR", "USD", kind="selling")
    two_days = Rates([rate(kind="buying"), rate("EUR", value=52.0, day=date(2026, 4, 23))])
    with pytest.raises(RateError, match="not of one day and source: 52 TRY per EUR"):
        two_days.convert(1.0, "EUR", "USD", kind="selling")


def test_a_direct_rate_is_preferred_to_a_cross():
    rates = Rates([*read_bulletin(bulletin(USD, EUR), "forex"), rate("EUR", "USD", 1.17)])
    assert rates.convert(1.0, "EUR", "USD", kind="selling").amount == pytest.approx(1.17)


def test_two_rates_for_one_pair_and_kind_are_refused_in_either_direction():
    for second in (rate(value=46.0, day=date(2026, 4, 25)), rate("TRY", "USD", 0.02)):
        with pytest.raises(RateError, match="there are two selling rates for"):
            Rates([rate(), second])


@pytest.mark.parametrize("amount", [math.nan, math.inf, "2.49", None, True, 10**400, Decimal("NaN")])
def test_what_is_no_amount_is_not_converted(amount):
    with pytest.raises(RateError, match="is not an amount that can be converted"):
        Rates([rate()]).convert(amount, "USD", "TRY", kind="selling")


def test_a_result_beyond_the_range_of_numbers_is_refused_and_not_infinite_or_zero():
    with pytest.raises(RateError, match="beyond the range of numbers"):
        Rates([rate()]).convert(1e308, "USD", "TRY", kind="selling")
    with pytest.raises(RateError, match="beyond the range of numbers"):
        Rates([rate()]).convert(5e-324, "TRY", "USD", kind="selling")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"value": 0}, "must be a number above 0"),
        ({"value": -45.0}, "must be a number above 0"),
        ({"value": math.nan}, "must be a number above 0"),
        ({"value": math.inf}, "must be a number above 0"),
        ({"value": "45"}, "must be a number above 0"),
        ({"value": True}, "must be a number above 0"),
        ({"value": 5e-324}, "must be a number above 0"),  # its inverse is no number
        ({"base": "CHF"}, "'CHF' is not one of the currencies USD, EUR, GBP, TRY"),
        ({"base": "TRY"}, "TRY to TRY needs no rate"),
        ({"kind": "mid"}, "'mid' is not a kind of rate"),
        ({"day": datetime(2026, 4, 24, 15, 30)}, "needs the day of its quote"),
        ({"day": None}, "needs the day of its quote"),
        ({"source": " "}, "needs a source"),
        ({"source": "bank\u202e"}, "invisible character"),
    ],
)
def test_a_rate_without_a_day_a_source_a_kind_or_a_value_is_none(changes, says):
    with pytest.raises(RateError, match=says):
        rate(**changes)


@given(
    st.floats(min_value=-1e12, max_value=1e12).filter(lambda x: x == 0 or abs(x) > 1e-9),
    st.floats(min_value=1, max_value=1e4),
    st.sampled_from(["buying", "selling"]),
)
def test_there_and_back_is_the_same_amount(amount, value, kind):
    rates = Rates([rate(value=value, kind=kind)])
    there = rates.convert(amount, "USD", "TRY", kind=kind)
    assert rates.convert(there.amount, "TRY", "USD", kind=kind).amount == pytest.approx(amount, rel=1e-12)


@given(st.floats(min_value=0.01, max_value=1e9), st.sampled_from(["buying", "selling"]))
def test_there_and_back_through_a_cross_is_the_same_amount_too(amount, kind):
    rates = read_bulletin(bulletin(USD, EUR), "forex")
    there = rates.convert(amount, "EUR", "USD", kind=kind)
    assert rates.convert(there.amount, "USD", "EUR", kind=kind).amount == pytest.approx(amount, rel=1e-12)


# The bulletin


def test_a_bulletin_has_two_markets_and_two_sides_and_each_is_named():
    def lira(market: str, kind: str) -> float:
        return read_bulletin(bulletin(USD), market).convert(1.0, "USD", "TRY", kind=kind).amount

    assert lira("forex", "buying") == 44.9773
    assert lira("forex", "selling") == 45.0583
    assert lira("banknote", "buying") == 44.9458
    assert lira("banknote", "selling") == 45.1259
    with pytest.raises(RateError, match="name forex or banknote, there is no default"):
        read_bulletin(bulletin(USD), "both")  # type: ignore[arg-type]


def test_its_own_day_and_number_stay_with_each_rate_and_other_currencies_are_left_out():
    rates = list(read_bulletin(bulletin(USD, EUR, JPY), "forex"))
    assert {(r.day, r.source) for r in rates} == {(DAY, "TCMB bulletin 2026/77, forex")}
    assert [(r.base, r.quote, r.kind) for r in rates] == [
        ("USD", "TRY", "buying"), ("USD", "TRY", "selling"), ("EUR", "TRY", "buying"), ("EUR", "TRY", "selling"),
    ]  # fmt: skip


def test_a_rate_for_a_hundred_units_is_divided():
    hundred = currency("USD", quotes("4497.73 4505.83", " "), "<Unit>100</Unit>")
    assert read_bulletin(bulletin(hundred), "forex").convert(1, "USD", "TRY", kind="selling").amount == pytest.approx(
        45.0583
    )


def test_an_empty_cell_is_no_rate_and_never_a_zero():
    assert len(list(read_bulletin(bulletin(USD, EUR), "banknote"))) == 2
    with pytest.raises(RateError, match="no selling rate between EUR and TRY"):
        read_bulletin(bulletin(USD, EUR), "banknote").convert(1, "EUR", "TRY", kind="selling")
    with pytest.raises(RateError, match="has no banknote rate for USD, EUR, GBP"):
        read_bulletin(bulletin(EUR), "banknote")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "not well-formed XML"),
        (b"<html></html>", "is no TCMB bulletin: its root is 'html'"),
        (b"<Tarih_Date", "not well-formed XML"),
        (bulletin(USD, dates=""), "does not say its day"),
        (bulletin(USD, dates='Tarih="24.04.2026"'), "does not say its day"),
        (bulletin(USD, dates='Tarih="24.04.2026" Date="04/25/2026"'), "has two dates"),
        (bulletin(USD, dates='Tarih="04.05.2026" Date="04/05/2026"'), "has two dates"),  # 4 May and 5 April
        (bulletin(USD, dates='Tarih="31.02.2026" Date="02/31/2026"'), "not a day of the calendar"),
        (bulletin(USD, USD), "there are two buying rates for USD and TRY"),
        (bulletin(USD.replace('Kod="USD"', 'Kod="EUR"')), "calls one currency EUR and USD"),
        (
            bulletin(USD.replace("45.0583", "0")),
            "ForexSelling of USD in the TCMB bulletin is '0', not a number above 0",
        ),
        (bulletin(USD.replace("45.0583", "-1")), "'-1', not a number above 0"),
        (bulletin(USD.replace("45.0583", "45,0583")), "'45,0583', not a number above 0"),
        (bulletin(USD.replace("45.0583", "1e400")), "'1e400', not a number above 0"),
        (bulletin(USD.replace("<Unit>1</Unit>", "")), "does not say how many USD its rates are for"),
        (bulletin(USD.replace("<Unit>1</Unit>", "<Unit>0</Unit>")), "Unit of USD in the TCMB bulletin is '0'"),
        (bulletin(), "has no forex rate"),
        (bulletin(USD) + b" " * 1_000_001, "larger than 1 MB"),
        (b"<a>" * 50 + b"</a>" * 50, "nested too deep"),
        (b'<?xml version="1.0" encoding="no-such"?><Tarih_Date/>', "encoding|not well-formed"),
    ],
)
def test_what_is_no_bulletin_or_a_wrong_one_is_refused_in_one_sentence(data, says):
    with pytest.raises(RateError, match=says) as caught:
        read_bulletin(data, "forex")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "head",
    [
        '<!DOCTYPE Tarih_Date SYSTEM "http://127.0.0.1/x.dtd">',
        '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]>',
        '<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/hostname">]>',
    ],
)
def test_a_file_with_a_document_type_or_entities_is_not_read(head):
    with pytest.raises(RateError, match="holds a document type definition"):
        read_bulletin(bulletin(USD, head=head), "forex")


def test_a_style_sheet_line_as_the_bank_writes_it_is_fine():
    head = '<?xml-stylesheet type="text/xsl" href="isokur.xsl"?>'
    assert len(read_bulletin(bulletin(USD, head=head), "forex")) == 2


def test_the_four_kinds_of_a_central_bank_are_market_and_side():
    assert split_kind("forex_selling") == ("forex", "selling")
    assert split_kind("banknote-buying") == ("banknote", "buying")
    for wrong in ("selling", "forex", "forex_mid", ""):
        with pytest.raises(
            RateError, match="name one of forex_buying, forex_selling, banknote_buying, banknote_selling"
        ):
            split_kind(wrong)


@pytest.mark.parametrize(("base", "quote", "rate"), [("TRY", "USD", 45), ("USD", "TRY", 0.0222), ("TRY", "EUR", 1.01)])
def test_a_pair_the_wrong_way_round_is_refused(base, quote, rate):
    with pytest.raises(RateError, match=f"write it as {quote}/{base}="):
        Rate(base, quote, rate, "selling", date(2026, 11, 27), "a bank")


def test_a_bank_does_not_sell_for_less_than_it_buys():
    sides = {"buying": 46.0, "selling": 45.0}
    with pytest.raises(RateError, match="wrong way round"):
        Rates(Rate("USD", "TRY", rate, side, date(2026, 11, 27), "a bank") for side, rate in sides.items())


@pytest.mark.parametrize("value", [1e20, 1e-9])
def test_a_rate_beyond_any_two_currencies_is_a_slip(value):
    with pytest.raises(RateError, match="is no rate between two currencies"):
        Rate("USD", "EUR", value, "selling", date(2026, 11, 27), "a bank")
