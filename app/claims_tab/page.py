"""The Claims tab's layout and events. Nothing here waits for the engine: a claim is milliseconds, off its queue."""

from typing import Any

import gradio as gr

from app.catalogue import LANGUAGES, Words, t, words_for
from app.claims_model import check
from app.claims_tab import detail, form, listing, parts
from app.components.base import json_view
from app.components.finance_views import NO_LABELS, blocks
from engine.errors import EngineError
from pricing import PriceTable
from pricing.claims import ClaimInput

# Off the engine's queue, not to be called by name from elsewhere, and every click is answered.
QUICK: dict[str, Any] = {
    "queue": False, "show_progress": "hidden", "api_visibility": "private", "trigger_mode": "multiple",
}  # fmt: skip
FIRST = "e"  # the article's figures that this tab is best known for


def tab_of(prices: PriceTable) -> None:
    """The tab with its contents; called inside gr.Tabs(). prices: where a claim that names no price gets one."""
    with gr.Tab(t("tab_claims"), id="claims", elem_id="sv-tab-claims") as tab:
        # In the tab: gr.Tabs counts its children to place tabs, so that nothing else may be among them.
        chosen, seen = gr.State(FIRST), gr.State(False)
        with gr.Column(elem_id="sv-claims-page", elem_classes="sv-page"):
            gr.Markdown(t("claims_told"), elem_id="sv-claims-told")
            with gr.Row(elem_classes="sv-beside"):
                with gr.Column(min_width=320, elem_classes="sv-panel", elem_id="sv-claims-listed"):
                    listed = _view(("claims_list.js",), "sv-claims-list")
                with gr.Column(min_width=320, elem_classes="sv-panel", elem_id="sv-claims-one"):
                    shown = _sheet("sv-claim")
            with gr.Row(elem_classes="sv-beside"):
                with gr.Column(min_width=320, elem_classes="sv-panel", elem_id="sv-claims-form"):
                    gr.Markdown(t("claim_check_heading"))
                    entry = _view(("claims_form.js",), "sv-claim-form")
                with gr.Column(min_width=320, elem_classes="sv-panel", elem_id="sv-claims-answer"):
                    answer = _sheet("sv-claim-answer")

    def select(request: gr.Request, held: str, before: bool) -> Any:
        return [True, *opened(held, before, words_for(request))]

    def choose(request: gr.Request, event: gr.EventData) -> Any:
        wanted = (event._data or {}).get("id")
        found = detail.published(wanted, words_for(request))
        return (gr.skip(), gr.skip()) if found is None else (wanted, found)

    def look(request: gr.Request, event: gr.EventData) -> Any:
        return checked((event._data or {}).get("typed"), prices, words_for(request))

    tab.select(select, inputs=[chosen, seen], outputs=[seen, listed, shown, entry, answer], **QUICK)
    listed.open(choose, outputs=[chosen, shown], **QUICK)
    entry.check(look, outputs=[entry, answer], **QUICK)


def opened(claim_id: str, before: bool, words: Words) -> list[Any]:
    """What the tab shows when it is opened: list, one claim, form, answer. When it was open before, form and answer
    are left as they were."""
    found = [{**listing.drawn(words), "chosen": claim_id}, detail.published(claim_id, words)]
    if before:
        return [*found, gr.skip(), gr.skip()]
    return [*found, form.drawn(words), blocks(parts.text(words("claim_waiting"), "small"))]


def checked(given: object, prices: PriceTable, words: Words) -> tuple[Any, Any]:
    """(the form with what is wrong in it, the answer's sheet) for what was typed."""
    entered = form.read(given, prices, words)
    if entered.claim is not None and not entered.faults:
        try:
            found = check(entered.claim, **entered.besides)
            return form.drawn(words, entered), detail.own(found, entered, words)
        except EngineError as error:  # of all of it and no field: a machine that cannot be worked out
            entered.faults[""] = str(error)
    return form.drawn(words, entered), blocks(parts.text(words("claim_faulty"), "small"))


def warm_up() -> None:
    """Reads claims, shapes, published results and phrases, which is half a second once in a process."""
    check(ClaimInput(model="Llama-3.1-8B", gpu="H100 SXM", speedup=2.0, batch=1))
    for language in LANGUAGES:
        opened(FIRST, False, Words(language))


def _view(scripts: tuple[str, ...], elem_id: str) -> gr.HTML:
    return json_view(scripts, elem_id=elem_id, labels=NO_LABELS)


def _sheet(elem_id: str) -> gr.HTML:
    """value: blocks of sheet.js, and those of a claim's own."""
    return json_view(("sheet.js", "claims_sheet.js"), elem_id=elem_id, labels=NO_LABELS, elem_classes="sv-sheet-view")
