"""What the cost panel shows for a measured run: notes, chart, table and derivation. Its layout is in cost_panel.py."""

from collections.abc import Iterator
from typing import Any

import gradio as gr

from app.catalogue import Words
from app.cost_chart import draw, price_label
from app.cost_model import ENOUGH_TOKENS, THIS_MACHINE, Assumed, Measured, cost_records, record_of
from app.session import Session
from pricing import PriceTable
from pricing.rows import STALE_AFTER_DAYS

# (record key, catalogue key, type, significant digits; of the saving: decimals)
COLUMNS: tuple[tuple[str, str, str, int], ...] = (
    ("gpu_label", "col_gpu", "str", 0),
    ("provider", "col_provider", "str", 0),
    ("instance", "col_instance", "str", 0),
    ("commitment", "col_commitment", "str", 0),
    ("usd_per_gpu_hour", "col_usd_hour", "number", 4),
    ("price_label", "col_price_label", "str", 0),
    ("plain_usd_per_million_tokens", "col_plain_usd", "number", 4),
    ("speculative_usd_per_million_tokens", "col_spec_usd", "number", 4),
    ("saving_share", "col_saving", "number", 1),
    ("provenance", "col_speed_label", "str", 0),
    ("plain_tokens_per_second", "col_plain_tps", "number", 4),
    ("speculative_tokens_per_second", "col_spec_tps", "number", 4),
    ("sequences_at_once", "col_sequences", "number", 6),
    ("region", "col_region", "str", 0),
    ("row", "col_row", "number", 6),
)
# What a price and a speed are (quoted, projected) is in sight on a laptop's screen; the rest may scroll.
WIDTHS = [126, 92, 100, 112, 110, 196, 104, 142, 94, 152, 114, 152, 96, 130, 64]
# What they cost on a GPU is neither nothing, as with looking things up, nor a whole model's forward.
PARTS_OF_A_MODEL = {"early_exit", "eagle", "medusa"}
ROW_AT = [key for key, *_ in COLUMNS].index("row")
EVIDENCE = {
    "A": "dated copy of the primary page",
    "B": "dated third-party statement",
    "C": "weak",
    "contract": "a contract of one's own",
}


def update(held: Session, chosen: Any, shapes: Any, prices: PriceTable, words: Words) -> tuple[Any, ...]:
    """(note, body, chart, table, derivation, records) for what is measured now and what the user assumes."""

    def nothing(why: str) -> tuple[Any, ...]:
        return why, gr.update(visible=False), gr.skip(), gr.skip(), gr.skip(), []

    run = held.run
    if run is None or not run.speculative.steps:
        return nothing(words("cost_empty"))
    fast, plain = run.compared()
    if fast is None or plain is None or plain.output_tokens < 2:
        return nothing(words("cost_short"))
    shape, draft_shape, refusal = shapes
    methods = {run.drafter, *run.sources}
    measured = Measured(
        fast if run.drafts else None,
        plain,
        shape,
        draft_shape if "model" in methods else None,
        run.device,
        run.hardware,
        run.where,
        run.day,
        draft_is_known=not PARTS_OF_A_MODEL & methods,
    )
    try:
        records = cost_records(measured, _assumed(chosen, words), prices)
    except ValueError as error:
        return nothing(str(error))
    projected = records[1:]
    return (
        "\n".join(_notes(measured, run.drafts, run.lossy, projected, refusal, words)),
        gr.update(visible=True),
        # Only projected rows are drawn: with none of them an empty chart would say less than no chart.
        gr.update(value=draw(records, words), visible=bool(projected)),
        _frame(records, words),
        words("derivation_hint") + "\n\n" + derive(records[1] if projected else records[0]),  # the cheapest
        records,
    )


def _notes(measured: Measured, drafts: bool, lossy: bool, projected: Any, refusal: str, words: Words) -> Iterator[str]:
    """What a reader of the table must know, one sentence a line."""
    if lossy:
        yield words("cost_lossy")
    if refusal:
        yield words("cost_no_projection", why=refusal)
    elif measured.drafted and not measured.draft_is_known:
        yield words("cost_draft_unknown")
    rests = measured.rests_on()
    key = "cost_rests_thin" if measured.few_tokens else "cost_rests"
    yield words(key, tokens=rests["measured_tokens"], steps=rests["measured_drafted_steps"], enough=ENOUGH_TOKENS)
    if not drafts:
        yield words("cost_no_drafter")
    elif not measured.drafted:
        yield words("cost_no_gain")
    if not projected:
        if not refusal:
            yield words("cost_no_price")
        return
    stale = sum(r["stale"] for r in projected)
    if stale:
        yield words("cost_stale", n=stale, total=len(projected), days=STALE_AFTER_DAYS)


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
        if value is None or isinstance(value, int):
            return value
        if key == "saving_share":
            return round(value * 100, digits) + 0.0  # not -0.0
        return float(f"{value:.{digits}g}")
    if key == "commitment" and value:
        return words.name("commitment", value)
    if key == "provider" and value == THIS_MACHINE:
        return words("this_machine")
    if key == "provenance":
        return words(f"label_{value}") + (f", {words('few_tokens')}" if record["few_tokens"] else "")
    if key == "price_label":
        return price_label(record, words)
    return str(value or "")


def derive(record: dict[str, Any]) -> str:
    """Every step from the measurement to the price, as text."""
    head = " · ".join(
        str(record[k]) for k in ("gpu_label", "provider", "instance", "commitment", "region") if record[k]
    )
    return "\n".join(
        [head, record["formula"], _price_source(record), "", f"speed: {record['provenance']}", record["how"]]
    )


def _price_source(record: dict[str, Any]) -> str:
    if record["price_label"] != "quoted":
        return f"price: {record['price_label']}"
    age = f" (stale: read more than {STALE_AFTER_DAYS} days ago)" if record["stale"] else ""
    grade = f"evidence {record['evidence']}: {EVIDENCE[record['evidence']]}"
    notes = f"; notes: {record['price_notes']}" if record["price_notes"] else ""
    return f"price: quoted {record['as_of']}{age}, {record['source_url']}; {grade}{notes}"


def explain_selected(records: list[dict[str, Any]], event: gr.SelectData) -> Any:
    cells = event.row_value
    record = record_of(records, cells[ROW_AT]) if cells else None
    return gr.skip() if record is None else derive(record)
