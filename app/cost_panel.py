"""The cost panel: controls that stay live during a run, a chart, a sortable table, a CSV and the derivation."""

from typing import Any

import gradio as gr

from app.catalogue import Words, t, words_for
from app.components.base import plain_text
from app.cost_chart import draw
from app.cost_model import THIS_MACHINE, Assumed, Measured, cost_records, same_row, shape_of
from app.explore import Session
from app.explore_tab import ExploreTab
from pricing import PriceTable, to_csv

# (record key, catalogue key, type, significant digits)
COLUMNS: tuple[tuple[str, str, str, int], ...] = (
    ("gpu_label", "col_gpu", "str", 0),
    ("provider", "col_provider", "str", 0),
    ("instance", "col_instance", "str", 0),
    ("commitment", "col_commitment", "str", 0),
    ("usd_per_gpu_hour", "col_usd_hour", "number", 4),
    ("plain_usd_per_million_tokens", "col_plain_usd", "number", 4),
    ("speculative_usd_per_million_tokens", "col_spec_usd", "number", 4),
    ("saving_share", "col_saving", "number", 3),
    ("plain_tokens_per_second", "col_plain_tps", "number", 4),
    ("speculative_tokens_per_second", "col_spec_tps", "number", 4),
    ("provenance", "col_speed_label", "str", 0),
    ("price_label", "col_price_label", "str", 0),
    ("region", "col_region", "str", 0),
)
WIDTHS = [140, 118, 170, 132, 122, 118, 156, 106, 118, 156, 110, 150, 130]

DOWNLOAD_JS = """(csv) => {
  if (!csv) return;
  // Made in the browser from what the page holds, so that no file with a public address is left on the server.
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob(['\\ufeff', csv], { type: 'text/csv;charset=utf-8' }));
  link.download = 'specscope-cost.csv';
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}"""


def build(pair: Any, prices: PriceTable, tab: ExploreTab) -> None:
    shapes = _shapes(pair)
    records, english = gr.State([]), Words("en")
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
    controls = [provider, commitment, busy, batch, context, own]

    def refresh(request: gr.Request, held: Session, *chosen: Any) -> Any:
        return update(held, chosen, shapes, prices, words_for(request))

    wiring: dict[str, Any] = {
        "inputs": [tab.session, *controls],
        "outputs": [note, body, chart, table, derivation, records],
        # Off the engine's queue: the sums take milliseconds and must not wait for a run.
        "queue": False,
        "show_progress": "hidden",
        "api_visibility": "private",
    }
    gr.on([c.change for c in controls], refresh, trigger_mode="always_last", **wiring)
    for event in tab.finished:
        event.then(refresh, **wiring)
    page = gr.context.Context.root_block
    assert page is not None, "build() is called inside gr.Blocks()"

    def localise(request: gr.Request) -> Any:
        return _localise(prices, words_for(request))

    page.load(
        localise,
        outputs=[provider, commitment, note],
        queue=False,
        show_progress="hidden",
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


def _field(name: str) -> dict[str, Any]:
    return {"label": t(name), "info": t(f"{name}_info"), "min_width": 130, "elem_id": f"sv-{name}"}


def update(held: Session, chosen: Any, shapes: Any, prices: PriceTable, words: Words) -> tuple[Any, ...]:
    """(note, body, chart, table, derivation, records) for what is measured now and what the user assumes."""
    speculative, plain = held.measured()
    if speculative is None or plain is None or speculative.output_tokens < 2:
        return words("cost_empty"), gr.update(visible=False), gr.skip(), gr.skip(), gr.skip(), []
    shape, draft_shape, refusal = shapes
    if shape is None:
        return refusal, gr.update(visible=False), gr.skip(), gr.skip(), gr.skip(), []
    drafting = draft_shape if held.drafter == "model" else None
    measured = Measured(speculative, plain, held.k, shape, drafting, held.device, held.where)
    try:
        records = cost_records(measured, _assumed(chosen, words), prices)
    except ValueError as error:
        return str(error), gr.update(visible=False), gr.skip(), gr.skip(), gr.skip(), []
    drafted = speculative.mean_acceptance_length is not None
    note = "" if drafted else words("cost_no_gain")
    if len(records) == 1:
        note = words("cost_no_price")
    cheapest = next((r for r in records[1:] if r["speculative_usd_per_million_tokens"]), records[0])
    return (
        note,
        gr.update(visible=True),
        draw(records, words),
        _frame(records, words),
        words("derivation_hint") + "\n\n" + derive(cheapest),
        records,
    )


def _assumed(chosen: Any, words: Words) -> Assumed:
    """Raises ValueError for a cleared field: nothing is filled in behind the user's back."""
    provider, commitment, busy, batch, context, own = chosen
    for name, value in (("busy", busy), ("batch", batch), ("context", context)):
        if value is None or value <= 0:
            raise ValueError(words("cost_field_empty", name=words(name)))
    return Assumed(provider or None, commitment or None, busy / 100, int(batch), int(context), own)


def _frame(records: list[dict[str, Any]], words: Words) -> dict[str, Any]:
    rows = [[_cell(r, key, kind, digits, words) for key, _, kind, digits in COLUMNS] for r in records]
    return {"headers": [words(head) for _, head, _, _ in COLUMNS], "data": rows}


def _cell(record: dict[str, Any], key: str, kind: str, digits: int, words: Words) -> Any:
    value = record.get(key)
    if kind == "number":
        scale = 100 if key == "saving_share" else 1
        return None if value is None else float(f"{value * scale:.{digits}g}")
    if key == "commitment" and value:
        return words.name("commitment", value)
    if key == "provider" and value == THIS_MACHINE:
        return words("this_machine")
    if key == "provenance":
        return words(f"label_{value}")
    if key == "price_label":
        return words(f"label_{value}") + (f" {record['as_of']}" if value == "quoted" else "")
    return str(value or "")


def derive(record: dict[str, Any]) -> str:
    """Every step from the measurement to the price, as text."""
    head = " · ".join(
        str(record[k]) for k in ("gpu_label", "provider", "instance", "commitment", "region") if record[k]
    )
    source = record.get("source_url")
    quoted = f"price: quoted {record['as_of']}, {source}" if source else "price: assumed"
    return "\n".join([head, record["formula"], quoted, "", f"speed: {record['provenance']}", record["how"]])


def explain_selected(records: list[dict[str, Any]], event: gr.SelectData) -> Any:
    cells = event.row_value
    record = same_row(records, cells[0], cells[2], float(cells[4] or 0)) if cells else None
    return gr.skip() if record is None else derive(record)


def _shapes(pair: Any) -> tuple[Any, Any, str]:
    """(target, draft, why not): a model whose layers the roofline does not cover is measured but not projected."""
    try:
        return shape_of(pair.target), shape_of(pair.draft) if pair.draft else None, ""
    except (ValueError, AttributeError) as error:
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
