"""The Claims tab: the list and its filters, and one claim's derivation; the handlers alone, then in a real Chromium,
and there "check my claim" too. `visit` fails every test on a console error, a dialog or a foreign request."""

import pytest
from claims_sheets import EN, TR, texts, verdict_of, words_of
from finance_page import wait_for_text

from app.claims_model import assessed
from app.claims_tab import detail, listing, phrases
from pricing.claims import shipped_claims

# 98.32 USD an hour / 0.18 USD a million tokens = 546,222,222 tokens an hour; over 3600 s:
SPEED = round(98.32 / 0.18 * 1e6 / 3600)
HOSTILE = '${alert(1)} {{x}} <img src=x onerror="alert(2)"> </script>'


def test_every_claim_of_the_table_is_in_the_list_with_its_verdict():
    drawn = listing.drawn(EN)
    assert [(row["id"], row["verdict"]) for row in drawn["rows"]] == [(o.claim.id, o.verdict) for o in assessed()]
    assert len(drawn["rows"]) == len(shipped_claims()) == 50


def test_the_counts_of_the_verdicts_add_up_to_the_claims():
    counts = {one["value"]: one["n"] for one in listing.drawn(EN)["verdicts"]}
    assert sum(counts.values()) == 50
    assert counts["contradicted"] == sum(one.verdict == "contradicted" for one in assessed())


def test_the_articles_price_is_told_as_the_speed_that_it_takes():
    assert SPEED == 151_728
    row = next(row for row in listing.drawn(EN)["rows"] if row["id"] == "e")
    assert row["implies"] == "151,728 tokens/s"
    told = words_of(detail.published("e", EN))
    assert "98.32 USD/h / 0.18 USD/1M × 1e6 / 3600" in told
    assert "151,728 tokens/s" in told
    assert "151.728 token/s" in words_of(detail.published("e", TR))


@pytest.mark.parametrize("words", [EN, TR], ids=["en", "tr"])
def test_every_claim_opens_with_all_that_is_known_of_it(words):
    for one in assessed():
        sheet = detail.published(one.claim.id, words)
        told = words_of(sheet)
        assert verdict_of(sheet) == one.verdict
        assert one.claim.row.claim in told
        assert one.claim.row.sources in told
        for step in one.implies:
            assert phrases.formula(step.formula, words) in told
            assert phrases.tell(step.name, words) in told
        for series in one.claim.inputs.values():
            for number in series.values():
                assert number.source in told
        evidence = one.claim.row.evidence_url
        assert [link for link in texts(sheet) if link.startswith("http") and link == evidence] == [evidence] * bool(
            evidence
        )


@pytest.mark.parametrize("wanted", ["nothing", "", None, 7, ["e"], {"id": "e"}, HOSTILE])
def test_what_is_no_claims_id_opens_nothing(wanted):
    assert detail.published(wanted, EN) is None


def test_what_a_claim_says_is_marked_as_english():
    sheet = detail.published("a", TR)
    title = sheet["blocks"][0]
    assert title["lang"] == "en"
    (table,) = [b for b in sheet["blocks"] if b["type"] == "table" and b["name"] == TR("claim_voices")]
    sources = table["rows"][2]["cells"][2]
    assert sources["lang"] == "en"
    assert "lang" not in table["rows"][0]["cells"][2]  # arithmetic's sentence is in the reader's language


ROWS = "#sv-claims-list tbody tr:not([hidden])"


def open_claims(page):
    page.click("#sv-tab-claims-button")
    page.wait_for_selector("#sv-claims-list tbody tr")
    page.wait_for_selector("#sv-claim .sv-claim-verdict")
    page.wait_for_selector("#sv-claim-form button[type=submit]")


def enter(page, **typed):
    for name, text in typed.items():
        box = page.locator(f'#sv-claim-form [name="{name}"]')
        if not box.is_visible():
            page.click("#sv-claim-form summary")
        box.fill(text) if box.evaluate("b => b.tagName") == "INPUT" else box.select_option(text)


def send(page):
    page.click(".sv-claim-check")


@pytest.mark.browser
def test_a_claim_is_found_by_verdict_origin_and_words(finance_server, visit):
    page = visit(finance_server)
    open_claims(page)
    assert page.locator(ROWS).count() == 50
    wait_for_text(page, "#sv-claims-list", "50 of 50 claims")
    page.click('.sv-chip[data-label="contradicted"]')
    contradicted = sum(one.verdict == "contradicted" for one in assessed())
    assert page.locator(ROWS).count() == contradicted
    assert page.get_attribute('.sv-chip[data-label="contradicted"]', "aria-pressed") == "true"
    page.click('.sv-chip[data-label="implausible"]')  # a second verdict is added to the first
    assert page.locator(ROWS).count() == contradicted + sum(one.verdict == "implausible" for one in assessed())
    page.click('#sv-claims-list [data-value="published"]')
    assert page.locator(ROWS).count() == 0
    wait_for_text(page, "#sv-claims-list", "No claim fits")
    page.click("#sv-claims-list .sv-claims-found button")
    assert page.locator(ROWS).count() == 50
    page.fill("#sv-claims-list input[type=search]", "151,728")
    assert page.locator(ROWS).evaluate_all("rows => rows.map(r => r.dataset.id)") == ["e"]


@pytest.mark.browser
def test_a_row_opens_its_claim_by_mouse_and_by_keyboard_with_links_that_lead_out(finance_server, visit):
    page = visit(finance_server)
    open_claims(page)
    assert "151,728 tokens/s" in page.inner_text("#sv-claim")
    page.locator('tr[data-id="a"] .sv-badge').click()
    wait_for_text(page, "#sv-claim", "MLPerf Inference v4.1 saw")
    assert page.get_attribute('tr[data-id="a"]', "aria-current") == "true"
    link = page.locator('#sv-claim a[href^="https://github.com/mlcommons"]')
    assert link.get_attribute("rel") == "noopener noreferrer"
    assert link.get_attribute("target") == "_blank"
    page.locator('tr[data-id="b"] button').focus()
    page.keyboard.press("Enter")
    wait_for_text(page, "#sv-claim", "13 months")
    assert page.get_attribute("#sv-claim .sv-title", "lang") == "en"
    hrefs = page.locator("#sv-claims-page a").evaluate_all("links => links.map(a => a.protocol)")
    assert set(hrefs) == {"https:"}


@pytest.mark.browser
def test_my_claim_is_checked_in_turkish_with_a_decimal_comma(finance_server, visit):
    page = visit(finance_server, locale="tr-TR")
    page.wait_for_selector("#sv-tab-claims-button")
    assert page.inner_text("#sv-tab-claims-button") == "İddialar"
    open_claims(page)
    enter(page, usd_per_hour="98,32", usd_per_million="0,18")
    page.locator('#sv-claim-form [name="usd_per_million"]').press("Enter")
    wait_for_text(page, "#sv-claim-answer", "151.728 token/s")
    assert "doğrulanamıyor" in page.inner_text("#sv-claim-answer")
    assert page.input_value('#sv-claim-form [name="usd_per_hour"]') == "98,32"


@pytest.mark.browser
def test_a_fault_stands_at_its_field_and_nothing_typed_is_lost(finance_server, visit):
    page = visit(finance_server)
    open_claims(page)
    enter(page, model=HOSTILE, speedup="3.5", busy_share="7")
    send(page)
    fault = '.sv-claim-field[data-name="model"] .sv-fault'
    wait_for_text(page, fault, "is no model whose shape is known")
    assert "<img src=x onerror=" in page.inner_text(fault)
    assert page.locator("img[src=x]").count() == 0
    box = page.locator('#sv-claim-form [name="model"]')
    assert box.get_attribute("aria-invalid") == "true"
    assert page.locator(f"[id='{box.get_attribute('aria-describedby').split()[0]}']").inner_text().startswith("“")
    assert page.evaluate("document.activeElement.name") == "model"
    assert page.input_value('#sv-claim-form [name="model"]') == HOSTILE[:80]
    assert page.input_value('#sv-claim-form [name="speedup"]') == "3.5"
    # another tab and back: form and answer are as they were
    page.click("#sv-tab-explore-button")
    page.click("#sv-tab-claims-button")
    assert page.input_value('#sv-claim-form [name="speedup"]') == "3.5"
    enter(page, model="Llama-3.1-8B", busy_share="", k="5", mean_acceptance_length="3.2", gpu="H100 SXM")
    send(page)
    wait_for_text(page, "#sv-claim-answer", "is above the mean acceptance length (3.2x)")
    assert page.locator("#sv-claim-form .sv-fault:visible").count() == 0


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_no_claim_is_wider_than_the_screen(finance_server, visit, width, scheme):
    page = visit(
        finance_server, f"?__theme={scheme}", viewport={"width": width, "height": 844}, color_scheme=scheme,
        locale="tr-TR",
    )  # fmt: skip
    open_claims(page)
    page.locator("#sv-claim-form .sv-claim-examples button").last.click()
    page.wait_for_selector("#sv-claim-answer .sv-claim-verdict")
    for fold in page.locator("#sv-claims-page summary").all():
        fold.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("#sv-scenario").is_hidden()
