"""A gr.HTML whose value is structured JSON and whose DOM is built by our own script with `textContent`.

Why not templates: gr.HTML puts Handlebars output into `new Function`, so a token holding `${...}` would run as
JavaScript in the viewer's browser. Here the template is one fixed, empty element and no value ever reaches it.
Why not a subclass: Gradio writes a .pyi file beside the source of every component class it meets.
"""

from pathlib import Path
from typing import Any

import gradio as gr

from app.catalogue import explorer

HERE = Path(__file__).parent


def json_view(
    scripts: tuple[str, ...],
    value: Any = None,
    *,
    elem_id: str,
    labels: dict[str, dict[str, str]] | None = None,
    elem_classes: str = "",
) -> gr.HTML:
    """scripts: our JavaScript files; `dom.js` (elements, odd characters made visible, numbers) goes before them.
    labels: strings by language that the scripts ask for (default: the Explore tab's)."""
    return gr.HTML(
        value,
        html_template='<div class="sv-root"></div>',
        js_on_load="\n".join((HERE / name).read_text("utf-8") for name in ("dom.js", *scripts)),
        apply_default_css=False,
        padding=False,
        elem_id=elem_id,
        elem_classes=f"sv-view {elem_classes}".strip(),
        # The browser chooses the language the way Gradio's own labels do, so the two always agree.
        labels=explorer() if labels is None else labels,
    )


def plain_text(value: str | None = None, *, elem_id: str) -> gr.HTML:
    """A short text shown as text: for names and sentences that come from a model or an error, not from us."""
    return json_view(("plain.js",), value, elem_id=elem_id)
