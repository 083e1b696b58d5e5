"""The page: `create_app(pair)` builds it, `launch(pair)` serves it. The pair is loaded before either."""

import os

# Read by gradio at import and at launch; set before it is imported anywhere.
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

from typing import Any

import gradio as gr

from app import controls, cost_panel, explore_tab, own_prices
from app.catalogue import gradio_i18n, t
from app.claims_tab import page as claims
from app.components.base import plain_text
from app.finance import page as finance
from app.theme import CSS, theme
from app.weights_choice import Load, WeightsChoice
from pricing import PriceTable

# Nothing leaves the machine: no analytics, no run history in the browser, no share link, no API page.
PRIVATE: dict[str, Any] = {
    "share": False,
    "run_history": False,
    "footer_links": [],
    "enable_monitoring": False,
    # Gradio would look at its own page and give up where that takes three seconds, as it may on a busy machine. It has
    # asked the server before, without a clock.
    "_frontend": False,
}


class Page(gr.Blocks):
    """Blocks that always launch privately, with our theme and languages, whoever calls `launch`."""

    def launch(self, *args: Any, **kwargs: Any) -> Any:
        kwargs = {
            **PRIVATE,
            "theme": theme(),
            "css_paths": CSS,
            "i18n": gradio_i18n(),
            "allowed_paths": [],
            "quiet": True,
            **kwargs,
        }
        return super().launch(*args, **kwargs)


# What the page offers where it can load the same pair again, the quickest first.
QUANTIZATIONS = ("int8", "none", "int4")


def create_app(pair: Any, *, prices: PriceTable | None = None, race: Any = None, load: Load | None = None) -> gr.Blocks:
    """The whole page for a loaded `engine.Pair`. prices: default the one in force, the user's
    own rows over those that ship; race: default `engine.race`;
    load: the same pair under another quantization, which the page then offers."""
    if race is None:
        from engine import race  # late: a test of the page alone needs no torch
    prices = prices if prices is not None else own_prices.load()
    with Page(title="specscope", analytics_enabled=False, fill_width=True) as page:
        _header(pair)
        with gr.Column(elem_id="sv-shell"):
            with gr.Tabs(elem_id="sv-tabs"):
                with gr.Tab(t("tab_explore"), id="explore", elem_id="sv-tab-explore"):
                    explored = explore_tab.build(WeightsChoice(pair, load, QUANTIZATIONS), race)
                    costs = cost_panel.build(pair, prices, explored)
                money = finance.tabs_of(prices)
                claims.tab_of(prices)
                # One more tab is one more `with gr.Tab(...)` here.
            money.wire(explored.session, costs)
    # One run at a time on one model; a short queue, so that a crowd is told at once instead of waiting for ever.
    page.queue(max_size=32, api_open=False)
    return page


def launch(
    pair: Any,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    root_path: str | None = None,
    auth: tuple[str, str] | None = None,
    open_browser: bool = False,
    prevent_thread_lock: bool = False,
    prices: PriceTable | None = None,
    load: Load | None = None,
) -> tuple[Any, str]:
    """Serve the page. Returns (page, url); blocks until interrupted unless `prevent_thread_lock`."""
    _warm_up(pair)
    claims.warm_up()
    page = create_app(pair, prices=prices, load=load)
    _, url, _ = page.launch(
        server_name=host,
        server_port=port,
        root_path=root_path,
        auth=auth,
        inbrowser=open_browser,
        prevent_thread_lock=prevent_thread_lock,
    )
    return page, url


def _warm_up(pair: Any) -> None:
    """The first forward of a process sets up kernels and thread pools, and cost-optimal K measures what a step costs:
    done before anybody waits for it."""
    from engine import DecodeSettings, generate

    settings = DecodeSettings(k=controls.K, max_new_tokens=2, k_control=controls.CONTROL)
    generate(pair, "Hello", settings, drafter=controls.DRAFTER)


def _header(pair: Any) -> None:
    with gr.Row(elem_id="sv-header", equal_height=True):
        gr.Markdown("# specscope", elem_id="sv-name")
        gr.Markdown(t("tagline"), elem_id="sv-tagline")
        # A model's name is untrusted text: neither Markdown nor HTML.
        plain_text(f"{pair.target.name} · {pair.device}", elem_id="sv-running")
    if pair.notices:
        plain_text("\n".join(pair.notices), elem_id="sv-pair-notices")
