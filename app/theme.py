"""How the page looks: one theme, one style sheet, system fonts only (nothing is fetched from anywhere)."""

from pathlib import Path

import gradio as gr

_SHEETS = ("page.css", "views.css", "finance.css", "scenario.css", "claims.css")
CSS = [Path(__file__).parent / "components" / name for name in _SHEETS]

_SANS = ["system-ui", "-apple-system", "Segoe UI", "Roboto", "Noto Sans", "sans-serif"]
_MONO = ["ui-monospace", "SFMono-Regular", "Cascadia Mono", "DejaVu Sans Mono", "monospace"]


def theme() -> gr.themes.Base:
    return gr.themes.Base(
        primary_hue=gr.themes.colors.teal,
        secondary_hue=gr.themes.colors.slate,
        neutral_hue=gr.themes.colors.slate,
        radius_size=gr.themes.sizes.radius_md,
        spacing_size=gr.themes.sizes.spacing_sm,
        text_size=gr.themes.sizes.text_sm,
        font=_SANS,
        font_mono=_MONO,
    ).set(
        body_background_fill="#f6f7f9",
        body_background_fill_dark="#0e1217",
        block_background_fill="#ffffff",
        block_background_fill_dark="#151b22",
        block_border_width="1px",
        block_border_color="#e2e6eb",
        block_border_color_dark="#26303b",
        block_label_background_fill="transparent",
        block_label_background_fill_dark="transparent",
        block_shadow="none",
        input_background_fill="#fbfcfd",
        input_background_fill_dark="#10161c",
        button_primary_background_fill="#0f766e",
        button_primary_background_fill_hover="#115e59",
        button_primary_background_fill_dark="#0f766e",
        button_primary_background_fill_hover_dark="#14857b",
        button_primary_text_color="#ffffff",
        slider_color="#0f766e",
        slider_color_dark="#2dd4bf",
    )
