"""Numbers as the finance tabs' readers write and read them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.catalogue import Words
from app.finance.shown import cents, exact, money, number, percent, unit_price
from app.finance.typed import read_number

EN, TR = Words("en"), Words("tr")


@pytest.mark.parametrize(
    ("text", "english", "turkish"),
    [
        ("1234", 1234, 1234),
        ("1234.5", 1234.5, None),
        ("1234,5", None, 1234.5),
        ("1,234.5", 1234.5, None),
        ("1.234,5", None, 1234.5),
        ("1.234", 1.234, 1234),
        ("1,234", 1234, 1.234),
        ("2.49", 2.49, None),
        (" 2.49 ", 2.49, None),
        ("−3", -3, -3),
        ("+5", 5, 5),
    ],
)
def test_a_number_is_read_in_the_notation_of_its_language(text, english, turkish):
    for words, wanted in ((EN, english), (TR, turkish)):
        if wanted is None:
            with pytest.raises(ValueError):
                read_number(text, words)
        else:
            assert read_number(text, words) == pytest.approx(wanted)


@pytest.mark.parametrize(
    "text", ["", "  ", "abc", "1e6", "nan", "inf", "1_000", "١٢", "--3", "1.2.3,4,5", "\ud800", None, True, [1]]
)
def test_what_is_no_number_is_refused_in_one_sentence(text):
    for words in (EN, TR):
        with pytest.raises(ValueError) as error:
            read_number(text, words)
        assert str(error.value).endswith((".", "?"))
        str(error.value).encode()


@pytest.mark.parametrize(
    ("text", "unit", "wanted"),
    [(" $2.49 ", "$/GPU-h", 2.49), ("%30", "% a year", 30), ("30 %", "%", 30), ("₺ 1,500", "₺", 1500)],
)
def test_a_fields_own_sign_may_stand_beside_the_number(text, unit, wanted):
    assert read_number(text, EN, unit) == wanted


@pytest.mark.parametrize(
    ("text", "unit"), [("$5", "₺/GPU-h"), ("5%", "$/GPU-h"), ("€5", ""), ("$€5", "$"), ("5 %", "kW")]
)
def test_another_sign_is_no_ornament(text, unit):
    for words in (EN, TR):
        with pytest.raises(ValueError) as error:
            read_number(text, words, unit)
        assert text in str(error.value)


@pytest.mark.parametrize("given", [10**400, "9" * 400, "1" * 61, float("inf")])
def test_what_no_number_of_ours_can_hold_is_refused(given):
    with pytest.raises(ValueError, match="number"):
        read_number(given, EN)


def test_a_number_in_the_other_notation_is_told_what_it_may_have_meant():
    with pytest.raises(ValueError, match="2,49 mi demek istediniz"):
        read_number("2.49", TR)
    with pytest.raises(ValueError, match="98,32 mi demek istediniz"):
        read_number("98.32", TR)
    with pytest.raises(ValueError, match=r"did you mean 2\.49\?"):
        read_number("2,49", EN)


@given(st.floats(min_value=1e-9, max_value=1e15))
def test_what_a_field_shows_is_read_back_as_it_was(value):
    for words in (EN, TR):
        assert read_number(exact(value, words), words) == pytest.approx(value, rel=1e-11)


def test_amounts_are_written_as_their_readers_write_them():
    assert money(1234567.5, "USD", EN) == "$1,234,568"
    assert money(-1234567.5, "TRY", TR) == "−₺1.234.568"
    assert money(999.5, "USD", EN) == "$999.50"
    assert money(0, "USD", EN) == "$0"
    assert money(math.inf, "USD", EN) == "–"
    assert cents(23630.1, "EUR", TR) == "€23.630,10"
    assert unit_price(0.00437, "USD", EN) == "$0.004370"
    assert percent(0.2345, TR) == "%23,4" or percent(0.2345, TR) == "%23,5"
    assert percent(-0.25, EN, signed=True) == "−25.0%"
    assert percent(0.25, TR, signed=True) == "+%25,0"
    assert number(1234.5678, TR) == "1.235"
    assert number(1e20, EN).startswith("100,000,000")
    assert number(1e-12, EN) == "0.000000000001"
