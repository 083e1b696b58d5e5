"""The cost panel: controls that stay live during a run, a chart, a sortable table, a CSV and the derivation."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any

import gradio as gr

from app import shown_in
from app.catalogue import Words, t, words_for
from app.components.base import plain_text
from app.components.finance_views import rates_view
from app.cost_model import shape_of
from app.cost_view import COLUMNS, WIDTHS, explain_selected, update
from app.explore_tab import ExploreTab
from app.session import Session
from app.shown_in import ShownIn
from engine.precision import PRECISIONS
from pricing import PriceTable, to_csv

DOWNLOAD_JS = """(csv) => {
  if (!csv) return;
  // Made in the browser from what the page holds, so that no file with a public address is left on the server.
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob(['\\ufeff', csv], { type: 'text/csv;charset=utf-8' }));
  link.download = 'specscope-cost.csv';
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}"""


@dataclass(frozen=True)
class CostPanel:
    """What other tabs need of it. rates: the state that holds the reader's exchange rate. follow(event): draws the
    panel anew after an event of another tab."""

    rates: gr.State
    follow: Callable[[Any], None]


def build(pair: Any, prices: PriceTable, tab: ExploreTab) -> CostPanel:
    shapes = shapes_of(pair)
    records, rates, english = gr.State([]), gr.State(ShownIn()), Words("en")
    with gr.Column(elem_id="sv-cost"):
        with gr.Row(elem_id="sv-cost-head"):
            gr.Markdown(t("cost_heading"))
            gr.Markdown(t("cost_intro"))
        with gr.Row(elem_id="sv-cost-controls"):
            provider = gr.Dropdown(_providers(prices, english), value="", **_field("provider"))
            commitment = gr.Dropdown(_commitments(prices, english), value="", **_field("commitment"))
            busy = gr.Slider(5, 100, value=60, step=5, buttons=[], **_field("busy"))
            batch = gr.Number(1, precision=0, minimum=1, **_field("batch"))
            context = gr.Number(1024, precision=0, minimum=1, **_field("context"))
            own = gr.Number(0.10, minimum=0, step=0.01, **_field("own"))
            gpus = gr.Number(1, precision=0, minimum=1, **_field("gpus"))
            precision = gr.Dropdown(list(PRECISIONS), value="bf16", **_field("precision"))
        rates_form = rates_view("sv-explore-rates")
        note = plain_text(elem_id="sv-cost-note")
        with gr.Column(visible=False) as body:
            chart = gr.Plot(show_label=False, container=False, elem_id="sv-chart")
            table = gr.Dataframe(
                interactive=False,
                datatype=[kind for _, _, kind, _ in COLUMNS],
                max_height=420,
                column_widths=WIDTHS,
                show_label=False,
                buttons=[],
                elem_id="sv-cost-table",
            )
            with gr.Row():
                with gr.Column(scale=1, min_width=260):
                    with gr.Accordion(t("derivation"), open=False, elem_id="sv-derivation-box"):
                        derivation = plain_text(elem_id="sv-derivation")
                download = gr.Button(t("download"), size="sm", elem_id="sv-download", min_width=130)
        csv_text = gr.Textbox(elem_id="sv-csv", elem_classes="sv-offstage", show_label=False, container=False)
    controls = [provider, commitment, busy, batch, context, own, gpus, precision]
    drawn = [note, body, chart, table, derivation, records]

    def refresh(request: gr.Request, held: Session, money: ShownIn, *chosen: Any) -> Any:
        return update(held, chosen, shapes, prices, words_for(request), money.to, pair)

    wiring: dict[str, Any] = {
        "inputs": [tab.session, rates, *controls],
        "outputs": drawn,
        # Off the engine's queue: the sums take milliseconds and must not wait for a run.
        "queue": False,
        "show_progress": "hidden",
        # Whatever shows progress, hidden or not, has its value copied in the browser at every later event of the page.
        "show_progress_on": download,
        "api_visibility": "private",
    }
    gr.on([c.change for c in controls], refresh, trigger_mode="always_last", **wiring)
    for event in tab.finished:
        event.then(refresh, **wiring)

    def on_rate(name: str) -> Callable[..., Any]:
        def given(request: gr.Request, money: ShownIn, event: gr.EventData) -> Any:
            return shown_in.act(money, name, event._data, words_for(request))

        return given

    for name in shown_in.EVENTS:
        getattr(rates_form, name)(
            on_rate(name), inputs=rates, outputs=rates_form, queue=False, show_progress="hidden",
            trigger_mode="multiple", api_visibility="private",
        ).then(refresh, **wiring)  # fmt: skip

    def again(request: gr.Request, held: Session, money: ShownIn, *chosen: Any) -> Any:
        words = words_for(request)
        return [shown_in.form(money, words, date.today()), *update(held, chosen, shapes, prices, words, money.to, pair)]

    def follow(event: Any) -> None:
        event.then(again, **{**wiring, "outputs": [rates_form, *drawn]})

    page = gr.context.Context.root_block
    assert page is not None, "build() is called inside gr.Blocks()"

    def localise(request: gr.Request, money: ShownIn) -> Any:
        words = words_for(request)
        return *_localise(prices, words), shown_in.form(money, words, date.today())

    page.load(
        localise,
        inputs=rates,
        outputs=[provider, commitment, note, rates_form],
        queue=False,
        show_progress="hidden",
        show_progress_on=download,
        api_visibility="private",
    )
    table.select(
        explain_selected, inputs=records, outputs=derivation, queue=False, show_progress="hidden",
        api_visibility="private",
    )  # fmt: skip
    download.click(
        lambda held: to_csv(held) if held else "", inputs=records, outputs=csv_text, queue=False,
        show_progress="hidden", api_visibility="private",
    ).then(None, inputs=csv_text, js=DOWNLOAD_JS, api_visibility="private")  # fmt: skip
    return CostPanel(rates, follow)


def _field(name: str) -> dict[str, Any]:
    return {"label": t(name), "info": t(f"{name}_info"), "min_width": 130, "elem_id": f"sv-{name}"}


def shapes_of(pair: Any) -> tuple[Any, Any, str]:
    """(target, draft, why not): a model whose layers the roofline does not cover is measured but not projected."""
    try:
        return shape_of(pair.target), shape_of(pair.draft) if pair.draft else None, ""
    except ValueError as error:
        return None, None, str(error)


def _providers(prices: PriceTable, words: Words) -> list[tuple[str, str]]:
    return [(words("provider_all"), ""), *((p, p) for p in sorted({r.provider for r in prices}))]


def _commitments(prices: PriceTable, words: Words) -> list[tuple[str, str]]:
    return [
        (words("commitment_all"), ""),
        *((words.name("commitment", c), c) for c in sorted({r.commitment for r in prices})),
    ]


def _localise(prices: PriceTable, words: Words) -> tuple[Any, Any, str]:
    return (
        gr.update(choices=_providers(prices, words)),
        gr.update(choices=_commitments(prices, words)),
        words("cost_empty"),
    )
