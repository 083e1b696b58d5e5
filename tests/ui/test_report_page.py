"""The HTML report in a real browser: nothing is fetched, nothing runs, it prints on one page."""

import re
from datetime import UTC, datetime

import pytest
from helpers.everything import CLOUD, OWNED, everything

from pricing import load_prices
from pricing.export.html import to_html
from pricing.export.report import make_report

pytestmark = pytest.mark.browser
AT = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)
CROWDED = everything(
    name="<img src=http://127.0.0.1:1/x onerror=document.title=1> " + "W" * 20, about="about " * 60,
    excluded=[f"thing {i} " * 12 for i in range(30)], best={}, worst={},
    cloud=[{**CLOUD, "name": f"cloud {i} " + "x" * 40} for i in range(6)],
    owned=[{**OWNED, "name": f"<script>document.title={i}</script>"} for i in range(4)],
)  # fmt: skip


@pytest.fixture
def opened(chromium, tmp_path):
    pages = []

    def show(made, language="en", scheme="light", width=1100):
        file = tmp_path / "report.html"
        file.write_text(to_html(make_report(made, prices=load_prices(), exported_at=AT, language=language)), "utf-8")
        page = chromium.new_page(color_scheme=scheme, viewport={"width": width, "height": 900})
        page.set_default_timeout(600_000)  # a guard against hanging, not a measure of speed
        pages.append(page)
        page.told = []
        page.on("console", lambda message: page.told.append(message.text))
        page.on("pageerror", lambda error: page.told.append(str(error)))
        page.on("request", lambda request: page.told.append(request.url) if request.url != file.as_uri() else None)
        page.goto(file.as_uri())
        return page

    yield show
    for page in pages:
        page.close()


@pytest.mark.parametrize("language", ["en", "tr"])
@pytest.mark.parametrize("made", [everything(), CROWDED], ids=["usual", "crowded"])
def test_it_prints_on_one_page_and_asks_for_nothing(opened, made, language):
    page = opened(made, language)
    printed = page.pdf(prefer_css_page_size=True)
    assert len(re.findall(rb"/Type /Page\b", printed)) == 1
    assert page.told == []
    assert page.title() == made.name
    assert page.evaluate("document.images.length + document.scripts.length") == 0


def test_it_follows_light_and_dark(opened):
    colours = [
        opened(everything(), scheme=scheme).evaluate("getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    ]
    assert colours == ["rgb(255, 255, 255)", "rgb(17, 22, 29)"]


def test_on_a_narrow_screen_tables_scroll_and_the_page_does_not(opened):
    page = opened(everything(), width=400)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
