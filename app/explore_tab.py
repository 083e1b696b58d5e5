"""The Explore tab's layout and wiring. The fields are in controls.py; what the buttons do is in explore.py."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gradio as gr

from app import controls, explore
from app.catalogue import t, words_for
from app.components.figures import figures_view, status_line
from app.components.sent_view import sent_view
from app.components.token_view import token_view
from app.examples import EXAMPLES
from app.form import Form
from app.session import Session
from app.weights_choice import WeightsChoice

ENGINE_QUEUE = "engine"  # every event that touches the model shares this one queue
STOP_PATIENCE_S = 10.0  # a step, or one chunk of a long prompt, is well inside it


@dataclass(frozen=True)
class ExploreTab:
    """What the cost panel needs of this tab."""

    session: gr.State
    finished: list[Any]
    """Events after which new measurements may be there."""


def build(choice: WeightsChoice, race: Any) -> ExploreTab:
    session = gr.State(Session())
    with gr.Row(elem_id="sv-explore", equal_height=False):
        with gr.Column(scale=0, min_width=300, elem_id="sv-controls"):
            prompt = gr.Textbox(
                EXAMPLES[0].prompt,
                label=t("prompt"),
                placeholder=t("prompt_placeholder"),
                lines=4,
                max_lines=10,
                elem_id="sv-prompt",
            )
            with gr.Row(elem_id="sv-examples"):
                for example in EXAMPLES:
                    button = gr.Button(t(example.key), size="sm", min_width=0, elem_classes="sv-example")
                    # The text travels once, in the page; choosing an example needs no server.
                    button.click(None, js=f"() => {example.as_js()}", outputs=prompt, api_visibility="private")
            # Above the settings, which are many: the first click is in sight on a laptop.
            with gr.Row(elem_id="sv-buttons"):
                start = gr.Button(t("run"), variant="primary", elem_id="sv-run", min_width=90)
                halt = gr.Button(t("stop"), variant="secondary", elem_id="sv-stop", min_width=90)
            fields = controls.build(choice)
        with gr.Column(scale=3, min_width=320, elem_id="sv-stream"):
            status = status_line({"state": "idle"}, elem_id="sv-status")
            tokens = token_view(elem_id="sv-tokens")
            with gr.Accordion(t("sent"), open=False, elem_id="sv-sent-box"):
                sent = sent_view(elem_id="sv-sent")
        with gr.Column(scale=1, min_width=270, elem_id="sv-live"):
            figures = figures_view(elem_id="sv-figures")
    outputs = [status, tokens, figures, sent]

    def on_run(request: gr.Request, held: Session, asked: str, *values: Any) -> Iterator[Any]:
        form = Form(asked, **dict(zip(fields.names, values, strict=True)))
        yield from explore.run(choice.first, held, form, race, words=words_for(request), load=choice.get)

    running = start.click(
        on_run,
        inputs=[session, prompt, *fields.inputs],
        outputs=outputs,
        concurrency_limit=1,
        concurrency_id=ENGINE_QUEUE,
        show_progress="full",  # Gradio writes the place in the queue here, and nowhere over the tokens
        show_progress_on=status,
        api_visibility="private",
    )
    stopped = halt.click(
        lambda held: explore.stop(held, STOP_PATIENCE_S),
        inputs=session,
        outputs=outputs,
        cancels=[running],
        queue=False,
        api_visibility="private",
    )
    page = gr.context.Context.root_block
    assert page is not None, "build() is called inside gr.Blocks()"

    def localise(request: gr.Request) -> list[Any]:
        return [gr.update(choices=named) for named in controls.choices(choice, words_for(request)).values()]

    # Gradio does not translate the choices of a dropdown, so they follow the language of the request.
    named = [fields.by_name[name] for name in controls.NAMED]
    page.load(
        localise, outputs=named, queue=False, show_progress="hidden", show_progress_on=halt, api_visibility="private"
    )
    return ExploreTab(session, [running, stopped])
