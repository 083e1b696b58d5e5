"""Money as people read it, in two languages and four currencies; rounded at the display and nowhere before."""

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing import format_money, format_unit_price


@pytest.mark.parametrize(
    ("value", "currency", "english", "turkish"),
    [
        (6.916666, "USD", "$6.917", "$6,917"),
        (6.916666, "TRY", "₺6.917", "₺6,917"),
        (6.916666, "EUR", "€6.917", "€6,917"),
        (55.3333, "EUR", "€55.33", "€55,33"),
        (0.208333, "USD", "$0.2083", "$0,2083"),
        (1234567.891, "TRY", "₺1,234,568", "₺1.234.568"),  # whole units are never cut
        (0.00437, "USD", "$0.004370", "$0,004370"),  # Babel's own pattern makes $0.00 of it
        (2.0005, "USD", "$2.000", "$2,000"),  # half to even
        (2.0015, "USD", "$2.002", "$2,002"),
        (9.99996, "GBP", "£10.00", "£10,00"),
        (1e-7, "TRY", "<₺0.000001", "<₺0,000001"),
        (-1e-7, "TRY", ">-₺0.000001", ">-₺0,000001"),
        (-2.5, "TRY", "-₺2.500", "-₺2,500"),
        (0, "TRY", "₺0", "₺0"),
        (None, "TRY", "n/a", "n/a"),
        (math.nan, "USD", "n/a", "n/a"),
        (math.inf, "USD", "n/a", "n/a"),
    ],
)
def test_a_unit_price_has_four_digits_the_currencys_sign_and_the_languages_marks(value, currency, english, turkish):
    assert format_unit_price(value, currency) == english
    assert format_unit_price(value, currency, "tr") == turkish


@pytest.mark.parametrize(
    ("value", "english", "turkish"),
    [
        (1234567.891, "₺1,234,567.89", "₺1.234.567,89"),
        (2.675, "₺2.68", "₺2,68"),  # half to even on the decimal that was meant, not on the binary one below it
        (2.665, "₺2.66", "₺2,66"),
        (-1234.5, "-₺1,234.50", "-₺1.234,50"),
        (0.004, "<₺0.01", "<₺0,01"),
        (-0.004, ">-₺0.01", ">-₺0,01"),
        (0, "₺0.00", "₺0,00"),
        (1e22, "₺10,000,000,000,000,000,000,000.00", "₺10.000.000.000.000.000.000.000,00"),
        (None, "n/a", "n/a"),
        (-math.inf, "n/a", "n/a"),
    ],
)
def test_a_bill_is_shown_to_the_cent_and_a_loss_as_a_loss(value, english, turkish):
    assert format_money(value, "TRY") == english
    assert format_money(value, "TRY", "tr") == turkish


def test_a_decimal_is_not_rounded_through_a_float():
    assert format_money(Decimal("90071992547409.935"), "USD") == "$90,071,992,547,409.94"  # 5 up to the even 4
    assert format_unit_price(Decimal("6.9165"), "USD") == "$6.916"


@given(
    st.floats(min_value=1e-300, max_value=1e15), st.sampled_from(["USD", "EUR", "TRY"]), st.sampled_from(["en", "tr"])
)
def test_no_amount_however_small_is_shown_as_nothing(value, currency, language):
    for text in (format_unit_price(value, currency, language), format_money(value, currency, language)):
        assert any(digit in text for digit in "123456789")


@given(st.floats(min_value=1e-6, max_value=1e9))
def test_both_languages_show_the_same_number(value):
    turkish = format_unit_price(value, "TRY", "tr").removeprefix("₺").replace(".", "").replace(",", ".")
    assert format_unit_price(value, "TRY").removeprefix("₺").replace(",", "") == turkish
    assert float(turkish) == pytest.approx(value, rel=5.1e-4)


def test_a_currency_or_language_that_is_not_known_is_refused():
    with pytest.raises(ValueError, match="'CHF' is not one of the currencies USD, EUR, GBP, TRY"):
        format_unit_price(1.0, "CHF")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'de' is not one of the languages en, tr"):
        format_money(1.0, "EUR", "de")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="significant must be at least 1"):
        format_unit_price(1.0, "EUR", significant=0)
