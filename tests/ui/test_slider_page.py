"""What a slider moves on the page, in a real Chromium: charts behind figures, nothing drawn twice, nothing stale left
behind by what is done while an answer is under way. `visit` fails every test on a console error."""

import pytest
from finance_page import driver, open_tab, wait_for_text
from helpers.finance import a_loss, by_hand

from app.catalogue import Words
from app.finance import shown
from pricing.tco import tco

pytestmark = pytest.mark.browser

EN = Words("en")
REQUESTS, RATE = "workload.requests_per_day", "cloud.0.parts.0.per_gpu_hour"


def move(page, path=REQUESTS):
    """One step of a slider; the number that it is now."""
    driver(page, path).locator("input[type=range]").focus()
    page.keyboard.press("ArrowRight")
    return float(driver(page, path).locator("input[type=text]").input_value().replace(",", ""))


def total(scenario, arm="plain", name="rented"):
    return shown.money(tco(scenario).option(name, arm).total, scenario.currency, EN)


def per_million(scenario):
    made = tco(scenario).option("rented", "plain").tokens.per_million_output
    return shown.unit_price(made, scenario.currency, EN)


def wait_for_chart(page, selector, text):
    page.wait_for_function("([s, t]) => document.querySelector(s)?.textContent.includes(t)", arg=[selector, text])


def chart(page, selector):
    """What a chart's lines are drawn from."""
    return page.evaluate(
        "s => JSON.stringify(document.querySelector(s + ' .js-plotly-plot').data.map(d => d.y))", selector
    )


def test_the_chart_behind_the_figures_is_of_the_same_scenario(finance_server, visit):
    page = visit(finance_server)
    open_tab(page, "cost")
    wait_for_chart(page, "#sv-fall", total(by_hand()))
    changed = by_hand().with_values({REQUESTS: move(page)})
    wait_for_text(page, "#sv-cost-cards", per_million(changed))
    wait_for_chart(page, "#sv-fall", total(changed))
    wait_for_chart(page, "#sv-fall", total(changed, "speculative"))


def test_the_charts_of_the_tco_tab_follow_a_slider(finance_server, visit):
    page = visit(finance_server)
    open_tab(page, "tco")
    page.wait_for_selector("#sv-cash .js-plotly-plot")
    page.wait_for_selector("#sv-gain .js-plotly-plot")
    before = [chart(page, selector) for selector in ("#sv-cash", "#sv-gain")]
    changed = by_hand().with_values({RATE: move(page, RATE)})
    wait_for_text(page, "#sv-options", total(changed))
    for selector, old in zip(("#sv-cash", "#sv-gain"), before, strict=True):
        page.wait_for_function(
            "([s, old]) => JSON.stringify(document.querySelector(s + ' .js-plotly-plot').data.map(d => d.y)) !== old",
            arg=[selector, old],
        )


def test_a_sheet_that_an_edit_does_not_touch_is_not_drawn_again(finance_server, visit):
    page = visit(finance_server)
    open_tab(page, "cost")
    sheets = ["#sv-price-table", "#sv-price-picks", "#sv-cost-excluded", "#sv-fall-picks"]
    page.evaluate("all => all.forEach(s => { document.querySelector(s + ' .sv-sheet > *').drawn = 'once'; })", sheets)
    page.click("#sv-load-table summary")
    before = page.inner_text("#sv-load-table table")
    move(page)
    page.wait_for_function("old => document.querySelector('#sv-load-table table').innerText !== old", arg=before)
    drawn = page.evaluate("all => all.map(s => document.querySelector(s + ' .sv-sheet > *').drawn)", sheets)
    assert drawn == ["once"] * len(sheets)


def test_nothing_stale_stands_on_a_tab_that_is_opened_right_after_a_move(finance_server, visit):
    page = visit(finance_server)
    for first, other in (("cost", "tco"), ("tco", "cost")):
        open_tab(page, first)
        changed = by_hand().with_values({REQUESTS: move(page)})
        page.click(f"#sv-tab-{other}-button")
        if other == "tco":
            wait_for_text(page, "#sv-options", total(changed))
            wait_for_text(page, "#sv-years", total(changed, "speculative"))
        else:
            wait_for_text(page, "#sv-cost-cards", per_million(changed))
            wait_for_chart(page, "#sv-fall", total(changed))


def test_nothing_stale_stands_in_a_scenario_that_is_opened_right_after_a_move(finance_server, visit):
    page = visit(finance_server)
    open_tab(page, "cost")
    move(page)
    page.select_option("#sv-ship", "loss")
    wait_for_text(page, "#sv-cost-title", "yavaş taslak")
    page.wait_for_timeout(1500)  # longer than a slider's answers take: none may come late
    assert per_million(a_loss()) in page.inner_text("#sv-cost-cards")
    assert "an API" not in page.inner_text("#sv-cost-cards")
    wait_for_chart(page, "#sv-fall", total(a_loss()))


def test_nothing_stale_stands_in_a_case_that_is_chosen_right_after_a_move(finance_server, visit):
    page = visit(finance_server)
    open_tab(page, "cost")
    given = by_hand().with_values({REQUESTS: move(page)})
    page.click('.sv-cases button:text-is("worst")')
    worst = given.with_values(by_hand().worst)
    wait_for_text(page, "#sv-cost-title", "worst case")
    wait_for_text(page, "#sv-cost-cards", per_million(worst))
    wait_for_chart(page, "#sv-fall", total(worst))


def test_a_table_that_was_moved_sideways_stays_where_it_was(finance_server, visit):
    page = visit(finance_server, viewport={"width": 390, "height": 844})
    open_tab(page, "tco")
    page.wait_for_selector("#sv-two-way table")
    table = "#sv-two-way .sv-scroll"
    at = page.evaluate("s => { const t = document.querySelector(s); t.scrollLeft = 60; return t.scrollLeft; }", table)
    assert at > 0
    page.evaluate("s => { document.querySelector(s).drawn = 'once'; }", table)
    page.click(".sv-form-toggle")
    move(page)
    page.wait_for_function("s => document.querySelector(s)?.drawn === undefined", arg=table)
    page.wait_for_function("([s, at]) => document.querySelector(s).scrollLeft === at", arg=[table, at])
