"""What both finance tabs share, in a real Chromium: where scenarios come from, how wide it all is, and that what a
stranger wrote is text. `visit` fails every test on a console error, a dialog or a foreign request."""

import pytest
from finance_page import open_tab, upload, view_text, wait_for_plots, wait_for_text
from helpers.finance import by_hand

from pricing.scenario_file import dump_scenario

pytestmark = pytest.mark.browser


HOSTILE = '${alert(1)} {{x}} <img src=x onerror="alert(2)"> `\\u` </script>'


def test_a_hostile_scenario_is_text_and_nothing_else(finance_server, visit, tmp_path):
    page = visit(finance_server)
    open_tab(page, "cost")
    made = by_hand(
        name=HOSTILE[:80],
        about=HOSTILE,
        excluded=[HOSTILE],
        cloud__0__name=HOSTILE[:78],
        serving__model=HOSTILE[:80],
        workload__requests_per_day={"value": 5000, "label": "measured", "source": HOSTILE},
    )
    upload(page, tmp_path, dump_scenario(made))
    wait_for_text(page, "#sv-cost-title", "${alert(1)}")
    page.wait_for_function("document.querySelector('#sv-fall-picks select')?.value.includes('onerror')")
    open_tab(page, "tco")
    wait_for_text(page, "#sv-options", "onerror=")
    page.locator("#sv-options .sv-num").first.click()
    page.wait_for_selector(".sv-why:not([hidden])")
    assert page.locator("img[src=x]").count() == 0
    assert HOSTILE in page.inner_text(".sv-why")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"name = ", "mine.toml is not TOML"),
        (b"name = '\xff'", "“mine.toml” is not UTF-8 text"),
        (b"#" * 1_000_001, "“mine.toml” is larger than a scenario can be"),
        (
            dump_scenario(by_hand()).replace("peak_factor = 2.0", "peak_factor = 0.2").encode(),
            "Peak factor: 0.2 must be at least 1.",
        ),
    ],
)
def test_a_file_that_is_no_scenario_changes_nothing(finance_server, visit, tmp_path, content, told):
    page = visit(finance_server)
    open_tab(page, "cost")
    before = view_text(page, "sv-cost-cards")
    upload(page, tmp_path, content)
    wait_for_text(page, "#sv-shelf", told)
    assert page.locator("#sv-shelf [role=alert]").count() == 1
    assert view_text(page, "sv-cost-cards") == before


def test_another_scenario_that_ships_can_be_opened(finance_server, visit):
    page = visit(finance_server)
    open_tab(page, "cost")
    page.select_option("#sv-ship", "loss")
    wait_for_text(page, "#sv-cost-title", "yavaş taslak")
    assert "₺" in page.inner_text("#sv-cost-cards")


@pytest.mark.parametrize("tab", ["cost", "tco"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_screen(finance_server, visit, width, scheme, tab):
    page = visit(
        finance_server,
        f"?__theme={scheme}",
        viewport={"width": width, "height": 844},
        color_scheme=scheme,
        locale="tr-TR",
    )
    open_tab(page, tab)
    for fold in page.locator("#sv-scenario summary, .sv-page summary").all():
        if fold.is_visible():
            fold.click()
    if width == 390:
        page.click(".sv-form-toggle")
    wait_for_plots(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator(".sv-page .sv-num").filter(visible=True).first.click()
    page.wait_for_selector(".sv-why:not([hidden])")
    assert page.evaluate("document.querySelector('.sv-why').getBoundingClientRect().left") >= 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.keyboard.press("Escape")
    page.click("#sv-all-numbers")
    box = page.evaluate("(b => [b.left, b.right])(document.querySelector('dialog.sv-all').getBoundingClientRect())")
    assert box[0] >= 0
    assert box[1] <= width


def test_the_explore_tab_is_as_it_was_and_has_no_form_beside_it(finance_server, visit):
    page = visit(finance_server)
    assert page.locator("#sv-scenario").is_hidden()
    open_tab(page, "cost")
    assert page.locator("#sv-scenario").is_visible()
    page.click("#sv-tab-explore-button")
    page.wait_for_selector("#sv-run", state="visible")
    assert page.locator("#sv-scenario").is_hidden()
    assert page.locator("#sv-cost").is_visible()


@pytest.mark.parametrize("width", [1280, 1400])
def test_the_tables_of_totals_show_all_their_columns_at_desk_width(finance_server, visit, width):
    page = visit(finance_server, viewport={"width": width, "height": 900})
    open_tab(page, "tco")
    for sheet in ("options", "two-way"):
        page.wait_for_selector(f"#sv-{sheet} table")
        seen, whole = page.evaluate(
            "s => { const n = document.querySelector(s); return [n.clientWidth, n.scrollWidth]; }",
            f"#sv-{sheet} .sv-scroll",
        )
        assert whole <= seen, sheet
