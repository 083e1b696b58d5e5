"""What the browser tests of both finance tabs do to a page."""

CARD = "#sv-cost-cards .sv-option-card"


def open_tab(page, tab):
    page.click(f"#sv-tab-{tab}-button")
    page.wait_for_selector(CARD if tab == "cost" else "#sv-options table")
    page.wait_for_selector("#sv-form .sv-driver", state="attached")
    page.wait_for_selector("#sv-price-table details" if tab == "cost" else "#sv-years table")


def driver(page, path):
    return page.locator(f'.sv-driver[data-path="{path}"]')


def type_into(page, path, text):
    driver(page, path).locator("input[type=text]").fill(text)
    page.keyboard.press("Tab")


def wait_for_text(page, selector, text):
    page.wait_for_function("([s, t]) => document.querySelector(s)?.innerText.includes(t)", arg=[selector, text])


def view_text(page, name):
    """What a view of ours says: Gradio counts, unseen, the seconds of an event that is under way beside it."""
    return page.inner_text(f"#{name} .sv-root")


def wait_for_plots(page):
    """Charts are drawn after the tables, by a library that is fetched when it is first wanted."""
    page.wait_for_function(
        """() => [...document.querySelectorAll('.sv-page .sv-plot')]
             .filter(plot => plot.offsetParent).every(plot => plot.querySelector('.main-svg'))"""
    )


def rows(page, selector):
    """Texts of a table's cells, without what stands under a figure."""
    return page.evaluate(
        """s => [...document.querySelectorAll(s + ' tbody tr')].map(tr => [...tr.children].map(c => {
             const figure = c.querySelector('.sv-num') || c.querySelector('.sv-cell > span') || c;
             return figure.innerText.trim(); }))""",
        selector,
    )


def card(page, title):
    """A cost card's rows by their first cell."""
    found = page.evaluate(
        """t => [...document.querySelectorAll('#sv-cost-cards .sv-option-card')]
             .filter(c => c.querySelector('h4').textContent === t)
             .map(c => [...c.querySelectorAll('tbody tr')].map(r => [...r.children].map(d => d.innerText.trim())))
             .at(0)""",
        title,
    )
    return {row[0]: row[1:] for row in found}


def upload(page, tmp_path, text, name="mine.toml"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    page.set_input_files("#sv-shelf input[type=file]", str(path))
