"""The Cost and TCO tabs' layout and wiring, and the scenario form that both share.

Nothing here waits for the engine: the sums are milliseconds, off its queue. Only a Monte Carlo run has a queue, its
own.
"""

from collections.abc import Callable, Iterator
from datetime import date
from itertools import product
from typing import TYPE_CHECKING, Any

import gradio as gr

from app import shown_in
from app.catalogue import t, words_for
from app.components import finance_views as views
from app.finance import actions, chances, exports, form_view, tabs
from app.finance.desk import Desk
from app.finance.whys import explain
from app.shown_in import ShownIn
from pricing import PriceTable

if TYPE_CHECKING:  # the finance tabs run without torch
    from app.cost_panel import CostPanel

# Off the engine's queue, and not to be called by name from elsewhere.
QUICK: dict[str, Any] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}


def tabs_of(prices: PriceTable) -> "FinanceTabs":
    """The two tabs' contents; called inside gr.Tabs(), which may hold nothing but tabs: it counts its children. The
    form goes beside them, with `wire`."""
    made: dict[str, Any] = {}
    with gr.Tab(t("tab_cost"), id="cost", elem_id="sv-tab-cost") as cost:
        with gr.Column(elem_id="sv-cost-page", elem_classes="sv-page"):
            made["cost_head"] = views.sheet_view("sv-cost-title")
            rates = [views.rates_view("sv-rates")]
            made["cost_cards"] = views.sheet_view("sv-cost-cards")
            with gr.Row(elem_classes="sv-beside"):
                with gr.Column(min_width=320, elem_classes="sv-panel"):
                    gr.Markdown(t("fall_heading"))
                    made["fall_picks"] = views.sheet_view("sv-fall-picks")
                    made["fall"] = _plot("sv-fall")
                with gr.Column(min_width=320, elem_classes="sv-panel"):
                    gr.Markdown(t("load_heading"))
                    made["load"] = _plot("sv-load")
                    made["load_table"] = views.sheet_view("sv-load-table")
            with gr.Column(elem_classes="sv-panel"):
                gr.Markdown(t("prices_heading"))
                made["price_picks"] = views.sheet_view("sv-price-picks")
                made["prices"] = _plot("sv-prices")
                made["price_table"] = views.sheet_view("sv-price-table")
            made["cost_excluded"] = views.sheet_view("sv-cost-excluded")
    with gr.Tab(t("tab_tco"), id="tco", elem_id="sv-tab-tco") as tco:
        with gr.Column(elem_id="sv-tco-page", elem_classes="sv-page"):
            made["tco_head"] = views.sheet_view("sv-tco-title")
            rates.append(views.rates_view("sv-tco-rates"))
            made["verdict"] = views.sheet_view("sv-verdict")
            with gr.Column(elem_classes="sv-panel"):
                gr.Markdown(t("options_heading"))
                made["options"] = views.sheet_view("sv-options")
                made["break_even"] = views.sheet_view("sv-break-even")
                made["choices"] = views.sheet_view("sv-choices")
            with gr.Row(elem_classes="sv-beside"):
                with gr.Column(min_width=320, elem_classes="sv-panel"):
                    gr.Markdown(t("cash_heading"))
                    made["cash"] = _plot("sv-cash")
                with gr.Column(min_width=320, elem_classes="sv-panel"):
                    gr.Markdown(t("gain_heading"))
                    made["gain"] = _plot("sv-gain")
            with gr.Column(elem_classes="sv-panel"):
                gr.Markdown(t("yearly_heading"))
                made["year_picks"] = views.sheet_view("sv-year-picks")
                made["years"] = views.sheet_view("sv-years")
            with gr.Row(elem_classes="sv-beside sv-beside-wide"):
                with gr.Column(min_width=320, elem_classes="sv-panel"):
                    gr.Markdown(t("tornado_heading"))
                    made["tornado"] = _plot("sv-tornado")
                    made["drivers"] = views.sheet_view("sv-drivers")
                with gr.Column(min_width=320, elem_classes="sv-panel"):
                    gr.Markdown(t("two_way_heading"))
                    made["two_way"] = views.sheet_view("sv-two-way")
            with gr.Column(elem_classes="sv-panel", elem_id="sv-chances-box"):
                gr.Markdown(t("chances_heading"))
                with gr.Row(elem_classes="sv-row-buttons"):
                    start = gr.Button(t("chances_run"), size="sm", elem_id="sv-chances-run", min_width=120)
                    halt = gr.Button(t("stop"), size="sm", elem_id="sv-chances-stop", min_width=90)
                made["chances"] = views.sheet_view("sv-chances")
                made["chances_chart"] = _plot("sv-chances-chart")
            with gr.Column(elem_classes="sv-panel"):
                gr.Markdown(t("moved_heading"))
                made["moved"] = views.sheet_view("sv-moved")
            with gr.Column(elem_classes="sv-panel"):
                gr.Markdown(t("files_heading"))
                with gr.Row(elem_classes="sv-row-buttons"):
                    export = gr.Button(t("files_make"), size="sm", elem_id="sv-files-make", min_width=160)
                files = views.files_view("sv-files")
            made["tco_excluded"] = views.sheet_view("sv-tco-excluded")
    return FinanceTabs(prices, made, {"cost": cost, "tco": tco}, (start, halt), (export, files), rates)


def _plot(elem_id: str) -> gr.Plot:
    return gr.Plot(show_label=False, container=False, elem_id=elem_id, elem_classes="sv-plot")


class FinanceTabs:
    """What `wire` needs of the tabs' contents."""

    def __init__(
        self, prices: PriceTable, made: dict[str, Any], tab: Any, run: Any, export: Any, rates: list[gr.HTML]
    ) -> None:
        self.prices, self.made, self.tab, self.run, self.export = prices, made, tab, run, export
        self.rates = rates

    def wire(self, session: Any, costs: "CostPanel") -> None:
        """The form beside the tabs, the panel over them, and every event. session: the Explore tab's; costs: its cost
        panel, whose rate is this one too."""
        with gr.Column(elem_id="sv-scenario"):
            shelf = views.shelf_view("sv-shelf")
            form = views.form_view("sv-form")
        sent, answer, why = views.sent_view("sv-sent-form"), views.answer_view("sv-answer"), views.why_view("sv-why")
        shown, figures, charts = (
            [self.made[name] for name in names] for names in (tabs.NAMES, tabs.FIGURES, tabs.CHARTS)
        )
        # Whatever shows an event's progress has its value copied in the browser several times at every later event of
        # the page, hidden or not: charts and sheets are large, the mailbox is small.
        quick: dict[str, Any] = {**QUICK, "show_progress_on": sent}
        desk, prices = gr.State(Desk()), self.prices
        placed = [shelf, form, answer, *shown]

        def on_tab(name: str) -> Callable[..., Any]:
            def select(request: gr.Request, held: Desk, rates: ShownIn) -> Any:
                held.to = rates.to  # it may have been given on the Explore tab
                words = words_for(request)
                form = shown_in.form(rates, words, date.today())
                return [*[form] * len(self.rates), *actions.select(held, name, prices, words)]

            return select

        for name, tab in self.tab.items():
            tab.select(on_tab(name), inputs=[desk, costs.rates], outputs=[*self.rates, *placed], **quick)

        def edit(request: gr.Request, held: Desk, given: Any) -> Any:
            return actions.edit(held, given, words_for(request))

        def draw(request: gr.Request, held: Desk) -> Any:
            return tabs.as_list(tabs.charts_of(held, words_for(request)), tabs.CHARTS)

        def settle(request: gr.Request, held: Desk) -> Any:
            return actions.settle(held, prices, words_for(request))

        # Only the last of many positions of a slider is worth an answer.
        last: dict[str, Any] = {"trigger_mode": "always_last", **quick}
        sent.edit(edit, inputs=[desk, sent], outputs=[answer, *figures], **last)
        sent.draw(draw, inputs=desk, outputs=charts, **last)
        sent.settle(settle, inputs=desk, outputs=shown, **last)

        many: dict[str, Any] = {"trigger_mode": "multiple", **quick}

        def opened(request: gr.Request, held: Desk, event: gr.EventData) -> Any:
            return actions.open_scenario(held, event._data, prices, words_for(request))

        def compare(request: gr.Request, held: Desk, event: gr.EventData) -> Any:
            return actions.compare(held, event._data, prices, words_for(request))

        def take(request: gr.Request, held: Desk, explored: Any) -> Any:
            return actions.take(held, explored, prices, words_for(request))

        def keep(request: gr.Request, held: Desk, event: gr.EventData) -> Any:
            return actions.keep(held, event._data, words_for(request))

        def fetch(request: gr.Request, held: Desk) -> Any:
            return actions.fetch(held, words_for(request))

        shelf.open(opened, inputs=desk, outputs=placed, **many)
        shelf.compare(compare, inputs=desk, outputs=placed, **many)
        shelf.take(take, inputs=[desk, session], outputs=placed, **many)
        shelf.keep(keep, inputs=desk, outputs=shelf, **many)
        shelf.fetch(fetch, inputs=desk, outputs=shelf, **many)

        def picked(request: gr.Request, held: Desk, event: gr.EventData) -> Any:
            return actions.pick(held, event._data, prices, words_for(request))

        def asked(request: gr.Request, held: Desk, event: gr.EventData) -> Any:
            found = explain(held, (event._data or {}).get("id"), prices, words_for(request))
            return gr.skip() if found is None else found

        for name, component in self.made.items():
            if name not in tabs.PLOTS:
                component.why(asked, inputs=desk, outputs=why, **many)
                component.pick(picked, inputs=desk, outputs=shown, **many)
        self._rates(desk, costs, answer, shown, many)
        self._chances(desk, sent)
        self._files(desk, session)

    def _rates(self, desk: Any, costs: "CostPanel", answer: gr.HTML, shown: list[Any], many: dict[str, Any]) -> None:
        def on_rate(name: str) -> Callable[..., Any]:
            def given(request: gr.Request, held: Desk, rates: ShownIn, event: gr.EventData) -> Any:
                words = words_for(request)
                value = shown_in.act(rates, name, event._data, words)
                held.to = rates.to
                known = form_view.beside(held)
                return [*[value] * len(self.rates), known, *tabs.as_list(tabs.all_of(held, self.prices, words))]

            return given

        outputs = [*self.rates, answer, *shown]
        for form, name in product(self.rates, shown_in.EVENTS):
            event = getattr(form, name)(on_rate(name), inputs=[desk, costs.rates], outputs=outputs, **many)
            costs.follow(event)

    def _chances(self, desk: Any, sent: gr.HTML) -> None:
        def run(request: gr.Request, held: Desk) -> Iterator[Any]:
            for sheet, chart in chances.run(held, words_for(request)):
                yield sheet, gr.update(value=chart, visible=chart is not None)

        start, halt = self.run
        start.click(
            run, inputs=desk, outputs=[self.made["chances"], self.made["chances_chart"]],
            concurrency_limit=2, concurrency_id="chances", show_progress="hidden", show_progress_on=sent,
            api_visibility="private",
        )  # fmt: skip
        halt.click(chances.halt, inputs=desk, **QUICK)

    def _files(self, desk: Any, session: Any) -> None:
        def make(request: gr.Request, held: Desk, explored: Any) -> Any:
            return exports.files(held, self.prices, words_for(request), explored)

        export, files = self.export
        export.click(make, inputs=[desk, session], outputs=files, **{**QUICK, "show_progress": "minimal"})
