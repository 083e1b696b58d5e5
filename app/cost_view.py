"""What the cost panel shows for a measured run: notes, chart, table and derivation. Its layout is in cost_panel.py."""

from collections.abc import Iterator
from typing import Any

import gradio as gr

from app import table_told
from app.catalogue import Words
from app.cost_chart import draw, price_label
from app.cost_model import ENOUGH_TOKENS, THIS_MACHINE, Assumed, Measured, cost_records, record_of
from app.cost_money import MONEY, amount, axis, currency_of, native, split_told
from app.head_cost import HEADS, head_draft
from app.session import Session
from engine.draft_cost import Draft
from engine.validation import shipped_error_band
from pricing import Exchange, PriceTable
from pricing.rows import STALE_AFTER_DAYS

# (record key, catalogue key, type, significant digits; of the saving: decimals)
COLUMNS: tuple[tuple[str, str, str, int], ...] = (
    ("gpu_label", "col_gpu", "str", 0),
    ("provider", "col_provider", "str", 0),
    ("instance", "col_instance", "str", 0),
    ("commitment", "col_commitment", "str", 0),
    ("currency", "col_currency", "str", 0),
    ("per_gpu_hour", "col_gpu_price", "number", 4),
    ("price_label", "col_price_label", "str", 0),
    ("plain_per_million_tokens", "col_plain_cost", "number", 4),
    ("speculative_per_million_tokens", "col_spec_cost", "number", 4),
    ("saving_share", "col_saving", "number", 1),
    ("provenance", "col_speed_label", "str", 0),
    ("plain_tokens_per_second", "col_plain_tps", "number", 4),
    ("plain_tokens_per_second_range", "col_plain_range", "str", 3),
    ("speculative_tokens_per_second", "col_spec_tps", "number", 4),
    ("speculative_tokens_per_second_range", "col_spec_range", "str", 3),
    ("plain_per_million_input", "col_plain_input", "number", 4),
    ("plain_per_million_output", "col_plain_output", "number", 4),
    ("speculative_per_million_input", "col_spec_input", "number", 4),
    ("speculative_per_million_output", "col_spec_output", "number", 4),
    ("sequences_at_once", "col_sequences", "number", 6),
    ("region", "col_region", "str", 0),
    ("row", "col_row", "number", 6),
)
# What a price and a speed are (quoted, projected) is in sight on a laptop's screen; the rest may scroll.
WIDTHS = [126, 92, 100, 112, 82, 104, 196, 104, 142, 94, 152, 114, 140, 152, 160, 132, 132, 160, 160, 96, 130, 64]
# What they cost on a GPU is neither nothing, as with looking things up, nor a whole model's forward.
PARTS_OF_A_MODEL = {"early_exit", *HEADS}
ROW_AT = [key for key, *_ in COLUMNS].index("row")
EVIDENCE = {
    "A": "dated copy of the primary page",
    "B": "dated third-party statement",
    "C": "weak",
    "contract": "a contract of one's own",
}


def update(
    held: Session, chosen: Any, shapes: Any, prices: PriceTable, words: Words, to: Exchange | None = None,
    pair: Any = None,
) -> tuple[Any, ...]:  # fmt: skip
    """(note, body, chart, table, derivation, records) for what is measured now and what the user assumes. to: the
    currency that costs are shown in, at rates that the reader gave; pair: whose trained heads may have drafted."""

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
    head = _head(run, methods, pair)
    measured = Measured(
        fast if run.drafts else None,
        plain,
        shape,
        head or (draft_shape if "model" in methods else None),
        run.device,
        run.hardware,
        run.where,
        run.day,
        draft_is_known=not PARTS_OF_A_MODEL & methods or head is not None,
    )
    try:
        records = cost_records(measured, _assumed(chosen, words), prices, to=to)
    except ValueError as error:
        return nothing(str(error))
    projected = records[1:]
    notes = [*_notes(measured, run.drafts, run.lossy, projected, refusal, words), *_money(records, prices, words)]
    return (
        "\n".join(notes),
        gr.update(visible=True),
        # Only projected rows are drawn: with none of them an empty chart would say less than no chart.
        gr.update(value=draw(records, words), visible=bool(projected)),
        _frame(records, words),
        words("derivation_hint") + "\n\n" + derive(records[1] if projected else records[0]),  # the cheapest
        records,
    )


def _head(run: Any, methods: set[str], pair: Any) -> Draft | None:
    """What the one trained head cost that drafted; None for any other way of drafting, and for two at once."""
    used = methods & PARTS_OF_A_MODEL
    if pair is None or len(used) != 1 or not used <= {*HEADS}:
        return None
    return head_draft(pair, used.pop(), run.k if run.trees else None)


def _money(records: list[dict[str, Any]], prices: PriceTable, words: Words) -> Iterator[str]:
    """What no rate reaches, and which table the prices are of."""
    shown = axis(records[1:])
    off = sorted({currency_of(r) for r in records[1:]} - {shown})
    if off:
        count = sum(currency_of(r) in off for r in records[1:])
        yield words("cost_off_axis", n=count, currencies=", ".join(off), m=shown)
    yield table_told.told(prices, words)


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
    band = shipped_error_band(projected[0]["sequences_at_once"])
    yield words(
        "cost_error_band", median=_percent(band.median_absolute, words, ""), low=_percent(band.low, words),
        high=_percent(band.high, words), results=band.results, engines=band.engines,
    )  # fmt: skip
    stale = sum(r["stale"] for r in projected)
    if stale:
        yield words("cost_stale", n=stale, total=len(projected), days=STALE_AFTER_DAYS)


def _assumed(chosen: Any, words: Words) -> Assumed:
    """Raises ValueError for a cleared field: nothing is filled in behind the user's back."""
    provider, commitment, busy, batch, context, own, *more = chosen
    gpus, precision = more or (1, "bf16")
    for name, value in (("busy", busy), ("batch", batch), ("context", context), ("gpus", gpus)):
        if value is None or value <= 0:
            raise ValueError(words("cost_field_empty", name=words(name)))
    where = (provider or None, commitment or None)
    return Assumed(*where, busy / 100, int(batch), int(context), own, int(gpus), precision)


def _frame(records: list[dict[str, Any]], words: Words) -> dict[str, Any]:
    rows = [[_cell(r, key, kind, digits, words) for key, _, kind, digits in COLUMNS] for r in records]
    return {"headers": [words(head) for _, head, _, _ in COLUMNS], "data": rows}


def _cell(record: dict[str, Any], key: str, kind: str, digits: int, words: Words) -> Any:
    if key.endswith("_range"):
        low, high = (record.get(f"{key.removesuffix('_range')}_{end}") for end in ("low", "high"))
        return "" if low is None or high is None else f"{_figure(low, digits)}–{_figure(high, digits)}"
    value = amount(record, key) if key in MONEY else record.get(key)
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
        return ", ".join(filter(None, (price_label(record, words), native(record))))
    if key == "currency":
        return currency_of(record)
    return str(value or "")


def _figure(value: float, digits: int) -> str:
    """So many digits, without an exponent, written as the sortable numbers beside it are in every language: 1.020 as a
    thousand and twenty beside their 1.87 would be read as one."""
    rounded = float(f"{value:.{digits}g}")
    return f"{rounded:.0f}" if abs(rounded) >= 10 ** (digits - 1) else f"{rounded:g}"


def _percent(share: float, words: Words, plus: str = "+") -> str:
    sign = "\u2212" if share < 0 else plus
    size = f"{abs(share) * 100:.0f}"
    return f"{sign}%{size}" if words.language == "tr" else f"{sign}{size}%"


def derive(record: dict[str, Any]) -> str:
    """Every step from the measurement to the price, as text."""
    head = " · ".join(
        str(record[k]) for k in ("gpu_label", "provider", "instance", "commitment", "region") if record[k]
    )
    return "\n".join(
        [
            head,
            record["formula"],
            *filter(None, (split_told(record, arm) for arm in ("plain", "speculative"))),
            _price_source(record),
            "",
            f"speed: {record['provenance']}",
            record["how"],
        ]
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
