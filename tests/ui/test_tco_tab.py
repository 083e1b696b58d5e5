"""The TCO tab, and the scenarios that a browser keeps, in a real Chromium over a pair without weights. `visit` fails
every test on a console error, a dialog or a foreign request."""

from pathlib import Path

import pytest
from finance_page import driver, open_tab, rows, type_into, view_text, wait_for_text
from helpers.finance import a_loss, by_hand

from app.catalogue import Words
from app.finance import shown
from app.finance.tco_sheets import at_break_even, break_even_text
from pricing.break_even import break_even
from pricing.scenario_file import parse_scenario
from pricing.tco import tco

pytestmark = pytest.mark.browser

EN = Words("en")
RATE = "cloud.0.parts.0.per_gpu_hour"


def money(value, currency="USD"):
    return shown.money(value, currency, EN)


def keep(page, name):
    if page.locator("#sv-keep-name").is_hidden():
        page.click("#sv-kept-box summary")
    page.fill("#sv-keep-name", name)
    page.click("#sv-shelf-keep")
    wait_for_text(page, "#sv-shelf", "is saved in this browser")


def kept(page):
    return page.locator(".sv-kept .sv-link").all_inner_texts()


def test_the_options_are_the_arithmetics_own_cheapest_first(finance_server, visit):
    page = visit(finance_server)
    open_tab(page, "tco")
    made = tco(by_hand())
    found = {row[0]: row for row in rows(page, "#sv-options table")}
    assert list(found) == list(dict.fromkeys(option.name for option in made.options))
    plain, fast = (made.option("rented", arm) for arm in ("plain", "speculative"))
    # 13 replicas x 2.49 x 730 x 12, and 9 of them with a pilot of 29,083.20.
    assert found["rented"][1:4] == ["$283,561", money(fast.total), money(fast.npv_of_cost)]
    assert plain.total == pytest.approx(283_561.2)
    assert found["rented"][4] == money(plain.total - fast.total)
    assert found["rented"][5] == "17.4"  # 4 months in weeks
    verdict = page.inner_text("#sv-verdict")
    assert "rented: speculation saves" in verdict
    assert "own rack: speculation is a loss." in verdict
    for name, (told_name, cell) in zip(
        [o for o in found if o != "an API"], rows(page, "#sv-break-even table"), strict=True
    ):
        even = break_even(by_hand(), name, "an API")
        assert told_name == name
        assert cell == break_even_text(even, EN)
        if even.requests_per_day:
            assert at_break_even(even, EN) in page.inner_text("#sv-break-even table")


def test_a_loss_is_shown_as_a_loss(finance_server, visit):
    page = visit(finance_server)
    open_tab(page, "tco")
    page.select_option("#sv-ship", "loss")
    wait_for_text(page, "#sv-tco-title", "yavaş taslak")
    assert "rented: speculation is a loss." in page.inner_text("#sv-verdict")
    made = tco(a_loss())
    (row,) = rows(page, "#sv-options table")
    assert row[4] == money(made.speculation[0].saving, "TRY")
    assert row[4].startswith("−₺")
    assert row[5:] == ["not within the term", "not within the term", "none"]


def test_the_figures_follow_the_form_and_what_moved_is_told(finance_server, visit):
    page = visit(finance_server)
    open_tab(page, "tco")
    wait_for_text(page, "#sv-moved", "Nothing is other than there.")
    type_into(page, RATE, "3")
    changed = by_hand().with_values({RATE: 3})
    wait_for_text(page, "#sv-options", money(tco(changed).option("rented", "plain").total))
    effect = 9 * (3 - 2.49) * 730 * 12
    wait_for_text(page, "#sv-moved", f"from 2.49 to 3 (+20.48%); that alone raises the total by ${effect:,.2f}")
    page.locator('#sv-moved select[data-name="against"]').select_option("loss")
    wait_for_text(page, "#sv-moved", "different currencies")


def test_every_kind_of_number_opens_its_derivation(finance_server, visit):
    page = visit(finance_server)
    open_tab(page, "tco")
    page.locator("#sv-drivers summary").click()
    page.locator("#sv-choices summary").click()
    for sheet in ("options", "break-even", "choices", "years", "drivers", "two-way"):
        number = page.locator(f"#sv-{sheet} .sv-num").first
        number.focus()
        page.keyboard.press("Enter")
        page.wait_for_selector(".sv-why:not([hidden])")
        assert page.inner_text(".sv-why h3")
        assert page.locator(".sv-why-step, .sv-why-input, .sv-why > .sv-quiet").count() > 0, sheet
        page.keyboard.press("Escape")
        assert page.locator(".sv-why").is_hidden()


def test_the_years_of_an_option_add_up_on_the_page(finance_server, visit):
    page = visit(finance_server)
    open_tab(page, "tco")
    page.locator('#sv-year-picks select[data-name="option"]').select_option("own rack|plain")
    wait_for_text(page, "#sv-years", "Energy")
    option = tco(by_hand()).option("own rack", "plain")
    found = {row[0]: row for row in rows(page, "#sv-years table")}
    assert found["Total"][-1] == money(option.total)
    assert found["Servers bought"][1] == money(float(option.yearly["capex"][0]))


def test_draws_show_their_quantiles_and_go_stale(finance_server, visit):
    page = visit(finance_server)
    open_tab(page, "tco")
    page.click("#sv-chances-run")
    page.wait_for_selector("#sv-chances table")
    found = rows(page, "#sv-chances table")
    assert {row[0] for row in found} == {
        "rented, speculative",
        "rented, plain",
        "own rack, speculative",
        "own rack, plain",
        "an API",
    }
    for row in found:
        p5, p50, p95 = (float(cell.replace("$", "").replace(",", "")) for cell in row[1:4])
        assert p5 <= p50 <= p95
    page.locator("#sv-chances .sv-num").first.click()
    wait_for_text(page, ".sv-why", "10,000")
    page.keyboard.press("Escape")
    type_into(page, RATE, "2.6")
    wait_for_text(page, "#sv-chances", "draw again")


def test_draws_can_be_stopped(finance_server, visit, monkeypatch):
    from app.finance.chances import ChanceRun

    real = ChanceRun.go_on

    def until_stopped(self):
        self.stop.wait(600)  # however long the browser takes to press it
        return real(self)

    monkeypatch.setattr(ChanceRun, "go_on", until_stopped)
    page = visit(finance_server)
    open_tab(page, "tco")
    page.click("#sv-chances-run")
    wait_for_text(page, "#sv-chances", "of 10,000 drawn")
    page.click("#sv-chances-stop")
    wait_for_text(page, "#sv-chances", "Stopped: this is what")
    assert page.locator("#sv-chances table").count() == 1


def test_saved_scenarios_are_this_browsers_own_and_come_back(finance_server, visit):
    page, other = visit(finance_server), visit(finance_server)
    open_tab(page, "tco")
    open_tab(other, "tco")
    type_into(page, RATE, "3")
    total = money(tco(by_hand().with_values({RATE: 3})).option("rented", "plain").total)
    wait_for_text(page, "#sv-options", total)
    keep(page, "dear <b>GPUs</b>")
    assert kept(page) == ["dear <b>GPUs</b>"]
    other.click("#sv-kept-box summary")
    assert kept(other) == []
    page.select_option("#sv-ship", "loss")
    wait_for_text(page, "#sv-tco-title", "yavaş taslak")
    page.reload()
    page.wait_for_selector("#sv-run")
    open_tab(page, "tco")
    page.click("#sv-kept-box summary")
    page.locator(".sv-kept .sv-link").click()
    wait_for_text(page, "#sv-tco-title", "dear <b>GPUs</b>")
    wait_for_text(page, "#sv-options", total)
    stored = page.evaluate("localStorage.getItem('specscope.scenario.dear <b>GPUs</b>')")
    assert parse_scenario(stored).cloud[0].parts[0].per_gpu_hour.value == 3
    gone = page.get_by_role("button", name="Delete: dear <b>GPUs</b>")
    gone.click()
    assert kept(page) == ["dear <b>GPUs</b>"]  # asked first
    assert gone.inner_text() == "Really?"
    gone.click()
    assert kept(page) == []
    assert page.evaluate("Object.keys(localStorage).filter(k => k.startsWith('specscope.')).length") == 0


@pytest.mark.parametrize(
    "text", ["", "{not toml", "${alert(1)}", "name = 'x'", "\x00" * 9, "[" * 3000, "a" * 1_000_001]
)
def test_corrupt_or_hostile_stored_text_is_one_sentence(finance_server, visit, text):
    page = visit(finance_server)
    page.evaluate("t => localStorage.setItem('specscope.scenario.<img src=x onerror=alert(1)>', t)", text)
    open_tab(page, "tco")
    before = view_text(page, "sv-options")
    page.click("#sv-kept-box summary")
    page.locator(".sv-kept .sv-link").click()
    page.wait_for_selector("#sv-shelf [role=alert]")
    told = page.inner_text("#sv-shelf [role=alert]")
    assert 0 < len(told) < 400
    assert "\n" not in told
    assert view_text(page, "sv-options") == before
    page.evaluate("document.querySelector('#sv-shelf [role=alert]').textContent = ''")
    page.get_by_role("button", name="Compare: <img").click()
    page.wait_for_function("t => document.querySelector('#sv-shelf [role=alert]')?.textContent === t", arg=told)
    assert view_text(page, "sv-options") == before


def test_a_browser_that_keeps_nothing_says_so(finance_server, visit):
    page = visit(finance_server)
    open_tab(page, "tco")
    page.evaluate(
        "() => { Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); }; }"
    )
    page.click("#sv-kept-box summary")
    page.click("#sv-shelf-keep")
    wait_for_text(page, "#sv-shelf", "This browser keeps nothing more")


def test_a_kept_scenario_can_be_compared_with_the_one_that_is_open(finance_server, visit):
    page = visit(finance_server)
    open_tab(page, "tco")
    keep(page, "before")
    type_into(page, "workload.peak_factor", "3")
    page.get_by_role("button", name="Compare: before").click()
    wait_for_text(page, "#sv-shelf", "Compared with “before”")
    wait_for_text(page, "#sv-moved", "Busiest hour over the mean hour goes from 2 to 3")
    # The sentence stood there before: against the scenario as it was opened.
    page.wait_for_function("""() => document.querySelector('#sv-moved select[data-name="against"]').value === 'kept'""")


def test_files_are_saved_from_the_page(finance_server, visit):
    page = visit(finance_server)
    open_tab(page, "tco")
    page.click("#sv-files-make")
    page.wait_for_selector("#sv-files .sv-button")
    names = page.locator("#sv-files .sv-button").all_inner_texts()
    assert names[0].endswith("by-hand.toml")
    with page.expect_download() as download:
        page.locator("#sv-files .sv-button").first.click()
    assert parse_scenario(Path(download.value.path()).read_text("utf-8")) == by_hand()


def test_files_and_a_derivation_of_numbers_that_have_changed_are_not_offered_on(finance_server, visit):
    page = visit(finance_server)
    open_tab(page, "tco")
    page.click("#sv-files-make")
    page.wait_for_selector("#sv-files .sv-button")
    page.locator("#sv-options .sv-num").first.click()
    page.wait_for_selector(".sv-why:not([hidden])")
    type_into(page, RATE, "3")
    wait_for_text(page, "#sv-files", "have changed since")
    assert page.locator("#sv-files .sv-button").count() == 0
    page.wait_for_selector(".sv-why", state="hidden")
    page.click("#sv-files-make")
    page.wait_for_selector("#sv-files .sv-button")
    page.select_option("#sv-ship", "loss")
    wait_for_text(page, "#sv-files", "have changed since")
    assert page.locator("#sv-files .sv-button").count() == 0


def test_all_edits_are_taken_back_also_those_of_numbers_without_a_slider(finance_server, visit):
    page = visit(finance_server)
    open_tab(page, "tco")
    first = view_text(page, "sv-options")
    page.click("#sv-all-numbers")
    spare = page.locator('.sv-all-row[data-path="serving.spare_replicas"] .sv-all-value input')
    spare.fill("abc")
    page.keyboard.press("Tab")
    page.wait_for_selector('.sv-all-row[data-path="serving.spare_replicas"] .sv-fault:not([hidden])')
    page.keyboard.press("Escape")
    type_into(page, RATE, "3")
    wait_for_text(page, "#sv-moved", "from 2.49 to 3")
    page.click("#sv-form .sv-buttons button:last-child")
    wait_for_text(page, "#sv-moved", "Nothing is other than there.")
    assert view_text(page, "sv-options") == first
    page.click("#sv-all-numbers")
    assert spare.input_value() == "1"


def test_a_case_opens_with_the_first_number_that_is_entered_for_it(finance_server, visit):
    page = visit(finance_server)
    open_tab(page, "tco")
    page.select_option("#sv-ship", "loss")
    wait_for_text(page, "#sv-tco-title", "yavaş taslak")
    best = page.locator('.sv-cases [data-case="best"]')
    assert best.is_disabled()
    page.click("#sv-all-numbers")
    page.locator('.sv-all-row[data-path="workload.peak_factor"] .sv-all-best input').fill("1.5")
    page.keyboard.press("Tab")
    page.wait_for_selector('.sv-cases [data-case="best"]:not([disabled])', state="attached")
    page.keyboard.press("Escape")
    best.click()
    wait_for_text(page, "#sv-tco-title", "best case")


def test_the_tco_tab_works_by_keyboard_alone(finance_server, visit):
    page = visit(finance_server)
    page.focus("#sv-tab-explore-button")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "sv-tab-tco-button"
    page.keyboard.press("Enter")
    page.wait_for_selector("#sv-years table")
    page.wait_for_selector("#sv-tabs > .tab-wrapper + #sv-scenario .sv-driver")
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.closest('.sv-driver') !== null"):
            break
    assert page.evaluate("document.activeElement.type") == "range"
    figures = view_text(page, "sv-options")
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    page.wait_for_function("old => document.querySelector('#sv-options .sv-root').innerText !== old", arg=figures)
    for _ in range(120):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('sv-num')"):
            break
    page.keyboard.press("Enter")
    page.wait_for_selector(".sv-why:not([hidden])")


def test_a_figure_that_is_drawn_anew_keeps_the_keyboard(finance_server, visit):
    page = visit(finance_server)
    open_tab(page, "tco")
    rented = page.locator("#sv-options tr", has_text="rented").locator(".sv-num").first
    type_into(page, RATE, "3")
    rented.focus()
    changed = tco(by_hand().with_values({RATE: 3})).option("rented", "plain").total
    wait_for_text(page, "#sv-options", money(changed))
    assert rented.inner_text() == money(changed)
    assert rented.evaluate("node => node === document.activeElement")


def test_a_turkish_browser_gets_turkish_and_lira(finance_server, visit):
    page = visit(finance_server, locale="tr-TR")
    open_tab(page, "tco")
    page.select_option("#sv-ship", "loss")
    wait_for_text(page, "#sv-tco-title", "yavaş taslak")
    assert "rented: taslaklı üretim zarar ettiriyor" in page.inner_text("#sv-verdict")
    text = page.inner_text("#sv-tab-tco")
    for words in ("Seçenekler", "Geri ödeme, iskontolu", "süre içinde değil", "Yıl yıl", "Toplam", "Ne değişti", "₺"):
        assert words in text, words
    for english in ("Option", "Payback", "Year", "Total", "saving", "speculation", "Draw", "Files"):
        assert english not in text, english
    made = tco(a_loss()).option("rented", "plain")
    assert shown.money(made.total, "TRY", Words("tr")) in text
    driver(page, RATE).locator(".sv-badge").wait_for(state="attached")


def test_the_case_that_was_chosen_is_the_forms_on_both_tabs(finance_server, visit):
    page = visit(finance_server)
    open_tab(page, "tco")
    page.select_option("#sv-ship", "loss")
    wait_for_text(page, "#sv-tco-title", "yavaş taslak")
    page.select_option("#sv-ship", "by_hand")
    wait_for_text(page, "#sv-tco-title", "by hand")
    page.click('.sv-cases button:text-is("worst")')
    wait_for_text(page, "#sv-tco-title", "worst case")
    told = driver(page, "workload.peak_factor").inner_text()
    for tab in ("cost", "tco", "cost"):
        open_tab(page, tab)
        wait_for_text(page, f"#sv-{tab}-title", "worst case")
        page.wait_for_timeout(300)
        assert page.locator('.sv-cases button[aria-pressed="true"]').inner_text() == "worst"
        assert driver(page, "workload.peak_factor").inner_text() == told
