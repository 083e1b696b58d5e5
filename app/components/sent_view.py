"""The prompt as the model read it: the chat template filled in, control tokens in sight."""

from typing import Any

import gradio as gr

from app.components.base import json_view


def sent_view(value: Any = None, *, elem_id: str) -> gr.HTML:
    """value: {"text", "tokens"}, or None before the first run."""
    return json_view(("sent.js",), value, elem_id=elem_id)
