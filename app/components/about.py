"""Sentences beside the controls: what the chosen things do, and every drafter in one sentence."""

from typing import Any

import gradio as gr

from app.components.base import json_view


def about_view(value: Any = None, *, elem_id: str) -> gr.HTML:
    """value: {"keys": [names of sentences in the catalogues], "lossy": bool}."""
    return json_view(("about.js",), value, elem_id=elem_id)


def guide_view(value: Any, *, elem_id: str) -> gr.HTML:
    """value: {"drafters": [{"name", "lacking": bool}]}: those that are lacking say what they need."""
    return json_view(("guide.js",), value, elem_id=elem_id)
