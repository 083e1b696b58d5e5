"""The reader's exchange rate in a real browser: typed or from a bulletin, on both tabs, and only while it is wanted."""

import pytest
from finance_page import open_tab, wait_for_text

pytestmark = pytest.mark.browser

FORM = "#sv-rates"
BULLETIN = """<?xml version="1.0" encoding="ISO-8859-9"?>
<Tarih_Date Tarih="27.11.2026" Date="11/27/2026" Bulten_No="2026/222">
<Currency Kod="USD" CurrencyCode="USD"><Unit>1</Unit><Isim>ABD DOLARI (ş)</Isim>
<ForexBuying>42.41</ForexBuying><ForexSelling>42.50</ForexSelling><BanknoteBuying/><BanknoteSelling/></Currency>
</Tarih_Date>"""


def fill(page, value="42.50", source="our bank", form=FORM):
    page.click(f"{form} summary")
    for name, choice in (("currency", "TRY"), ("base", "USD"), ("side", "selling")):
        page.select_option(f"{form} select[data-name={name}]", choice)
    page.fill(f"{form} input[data-name=value]", value)
    page.fill(f"{form} input[data-name=day]", "2026-11-27")
    page.fill(f"{form} input[data-name=source]", source)
    page.click(f"{form} button[data-name=use]")


def under_the_first_price(page):
    return page.locator("#sv-cost-cards .sv-sub").all_inner_texts()


def test_a_typed_rate_is_shown_on_both_tabs_and_goes_when_it_is_not_wanted(finance_server, visit):
    page = visit(finance_server)
    open_tab(page, "cost")
    assert under_the_first_price(page) == []
    fill(page, source="<img src=x>")
    wait_for_text(page, FORM, "Also shown in TRY, at 42.5 TRY per USD, selling, 2026-11-27, <img src=x>.")
    page.wait_for_selector("#sv-cost-cards .sv-sub")
    assert all(text.startswith("₺") for text in under_the_first_price(page))
    page.click("#sv-tab-explore-button")
    wait_for_text(page, "#sv-explore-rates", "42.5 TRY per USD, selling, 2026-11-27")
    page.click("#sv-tab-cost-button")
    page.click(f"{FORM} button[data-name=own]")
    page.wait_for_function("document.querySelectorAll('#sv-cost-cards .sv-sub').length === 0")


def test_a_rate_given_on_the_explore_tab_is_there_on_the_cost_tab(finance_server, visit):
    page = visit(finance_server)
    fill(page, form="#sv-explore-rates")
    wait_for_text(page, "#sv-explore-rates", "42.5 TRY per USD")
    open_tab(page, "cost")
    wait_for_text(page, FORM, "42.5 TRY per USD")
    page.wait_for_selector("#sv-cost-cards .sv-sub")


def test_a_bulletin_in_its_own_encoding_is_read_in_the_browser(finance_server, visit, tmp_path):
    page = visit(finance_server)
    open_tab(page, "cost")
    path = tmp_path / "today.xml"
    path.write_bytes(BULLETIN.encode("iso-8859-9"))
    page.click(f"{FORM} summary")
    page.select_option(f"{FORM} select[data-name=currency]", "TRY")
    page.set_input_files(f"{FORM} input[type=file]", str(path))
    wait_for_text(page, FORM, "Choose which of the bulletin’s rates")
    page.select_option(f"{FORM} select[data-name=kind]", "forex_buying")
    page.set_input_files(f"{FORM} input[type=file]", str(path))
    wait_for_text(page, FORM, "42.41 TRY per USD, buying, 2026-11-27, TCMB bulletin 2026/222, forex")


def test_the_tco_tab_has_the_form_too_and_what_is_given_there_is_in_force_everywhere(finance_server, visit):
    page = visit(finance_server)
    open_tab(page, "tco")
    assert "₺" not in page.inner_text("#sv-options")
    fill(page, form="#sv-tco-rates")
    wait_for_text(page, "#sv-tco-rates", "Also shown in TRY, at 42.5 TRY per USD, selling, 2026-11-27, our bank.")
    wait_for_text(page, "#sv-options", "₺12,051,351")  # 283,561.20 dollars
    assert "$283,561" in page.inner_text("#sv-options")
    page.locator("#sv-options .sv-num", has_text="$283,561").click()
    wait_for_text(page, ".sv-why", "$283,561.20 × 42.5")
    page.keyboard.press("Escape")
    open_tab(page, "cost")
    wait_for_text(page, FORM, "42.5 TRY per USD")
    page.wait_for_selector("#sv-cost-cards .sv-sub")
    page.click(f"{FORM} button[data-name=own]")
    page.click("#sv-tab-tco-button")
    page.wait_for_function("!document.querySelector('#sv-options').innerText.includes('₺')")
    assert page.locator("#sv-tco-rates button[data-name=own]").count() == 0


def test_files_and_derivations_of_another_rate_are_not_offered_on(finance_server, visit):
    page = visit(finance_server)
    open_tab(page, "tco")
    page.click("#sv-files-make")
    page.wait_for_selector("#sv-files .sv-button")
    page.locator("#sv-options .sv-num").first.click()
    page.wait_for_selector(".sv-why:not([hidden])")
    fill(page, form="#sv-tco-rates")
    wait_for_text(page, "#sv-files", "have changed since")
    page.wait_for_selector(".sv-why", state="hidden")
    assert page.locator("#sv-files .sv-button").count() == 0


@pytest.mark.parametrize("locale", ["en-US", "tr-TR"])
def test_in_two_currencies_the_tco_tab_does_not_scroll_sideways_on_a_phone(finance_server, visit, locale):
    page = visit(finance_server, locale=locale)
    page.set_viewport_size({"width": 390, "height": 900})
    open_tab(page, "tco")
    fill(page, form="#sv-tco-rates", value="42.50" if locale == "en-US" else "42,50")
    wait_for_text(page, "#sv-options", "₺12")
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_another_browser_has_no_rate(finance_server, visit):
    first, second = visit(finance_server), visit(finance_server)
    open_tab(first, "cost")
    fill(first)
    first.wait_for_selector("#sv-cost-cards .sv-sub")
    open_tab(second, "cost")
    assert under_the_first_price(second) == []
    assert "42.5" not in second.inner_text(FORM)
