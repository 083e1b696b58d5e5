"""The views of the Cost and TCO tabs. Their values are made by the server as texts, in the reader's own notation."""

from typing import Any

import gradio as gr

from app.components.base import json_view

# Texts come with the values: a catalogue in each of a dozen views would be most of the page.
NO_LABELS: dict[str, dict[str, str]] = {"en": {}, "tr": {}}
OFFSTAGE = "sv-offstage"


def shelf_view(elem_id: str) -> gr.HTML:
    """Events: open {shipped} or {text, name}; take; keep {name}; fetch; compare {text, name}."""
    return json_view(("shelf.js",), elem_id=elem_id, labels=NO_LABELS)


def form_view(elem_id: str) -> gr.HTML:
    """value: `form_view.drawn(...)`."""
    return json_view(("scenario_form.js", "scenario_table.js"), elem_id=elem_id, labels=NO_LABELS)


def rates_view(elem_id: str) -> gr.HTML:
    """value: `shown_in.form(...)`. Events: rate {...}, bulletin {currency, kind, base64}, own."""
    return json_view(("rates_form.js",), elem_id=elem_id, labels=NO_LABELS)


def sent_view(elem_id: str) -> gr.HTML:
    """What the form was last changed to, as its value. Events: edit, at once; draw, when that is answered; settle, at
    rest."""
    return json_view(("scenario_sent.js",), elem_id=elem_id, labels=NO_LABELS, elem_classes=OFFSTAGE)


def answer_view(elem_id: str) -> gr.HTML:
    """value: `form_view.patch(...)`."""
    return json_view(("scenario_answer.js",), elem_id=elem_id, labels=NO_LABELS, elem_classes=OFFSTAGE)


def sheet_view(elem_id: str) -> gr.HTML:
    """value: {"blocks": [...]} of sheet.js. Events: why {id}; pick {name, value}."""
    return json_view(("sheet.js",), elem_id=elem_id, labels=NO_LABELS, elem_classes="sv-sheet-view")


def why_view(elem_id: str) -> gr.HTML:
    """value: `whys.shown(...)`; a new number in it opens the panel."""
    return json_view(("why.js",), elem_id=elem_id, labels=NO_LABELS)


def files_view(elem_id: str) -> gr.HTML:
    """value: {"told", "files": [{"name", "mime", "base64"}]}."""
    return json_view(("files.js",), elem_id=elem_id, labels=NO_LABELS)


def blocks(*made: dict[str, Any] | None) -> dict[str, Any]:
    """A sheet's value; None among the blocks is left out."""
    return {"blocks": [block for block in made if block is not None]}
