"""The Explore tab's layout and wiring. What the buttons do is in explore.py."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gradio as gr

from app import explore
from app.catalogue import Words, t, words_for
from app.components.figures import figures_view, status_line
from app.components.sent_view import sent_view
from app.components.token_view import token_view
from app.examples import EXAMPLES
from app.form import Form
from app.session import Session
from app.weights_choice import WeightsChoice
from engine import DRAFTERS, VERIFIERS
from engine.settings import MAX_K

ENGINE_QUEUE = "engine"  # every event that touches the model shares this one queue
STOP_PATIENCE_S = 10.0  # a step, or one chunk of a long prompt, is well inside it


@dataclass(frozen=True)
class ExploreTab:
    """What the cost panel needs of this tab."""

    session: gr.State
    finished: list[Any]
    """Events after which new measurements may be there."""


def build(choice: WeightsChoice, race: Any) -> ExploreTab:
    pair = choice.first
    drafters, verifiers = _choices(pair, Words("en"))
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
            with gr.Row(elem_classes="sv-pair"):
                drafter = gr.Dropdown(drafters, value="prompt_lookup", label=t("drafter"), elem_id="sv-drafter")
                verifier = gr.Dropdown(verifiers, value="rejection", label=t("verifier"), elem_id="sv-verifier")
            k = gr.Slider(1, 16, value=5, step=1, buttons=[], label=t("k"), info=t("k_info"), elem_id="sv-k")
            temperature = gr.Slider(
                0,
                2,
                value=0,
                step=0.05,
                buttons=[],
                label=t("temperature"),
                info=t("temperature_info"),
                elem_id="sv-temperature",
            )
            weights = gr.Dropdown(
                _weights(choice, Words("en")),
                value=pair.quantization,
                label=t("weights"),
                info=t("weights_info"),
                interactive=len(choice.names) > 1,
                elem_id="sv-weights",
            )
            with gr.Row(elem_id="sv-buttons"):
                start = gr.Button(t("run"), variant="primary", elem_id="sv-run", min_width=90)
                halt = gr.Button(t("stop"), variant="secondary", elem_id="sv-stop", min_width=90)
            with gr.Accordion(t("more"), open=False, elem_id="sv-more"):
                more = _more(pair)
        with gr.Column(scale=3, min_width=320, elem_id="sv-stream"):
            status = status_line({"state": "idle"}, elem_id="sv-status")
            tokens = token_view(elem_id="sv-tokens")
            with gr.Accordion(t("sent"), open=False, elem_id="sv-sent-box"):
                sent = sent_view(elem_id="sv-sent")
        with gr.Column(scale=1, min_width=270, elem_id="sv-live"):
            figures = figures_view(elem_id="sv-figures")
    outputs = [status, tokens, figures, sent]

    def on_run(request: gr.Request, held: Session, *fields: Any) -> Iterator[Any]:
        yield from explore.run(pair, held, Form(*fields), race, words=words_for(request), load=choice.get)

    running = start.click(
        on_run,
        inputs=[session, prompt, drafter, k, verifier, temperature, *more, weights],
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
        words = words_for(request)
        return [gr.update(choices=named) for named in (*_choices(pair, words), _weights(choice, words))]

    # Gradio does not translate the choices of a dropdown, so they follow the language of the request.
    named = [drafter, verifier, weights]
    page.load(localise, outputs=named, queue=False, show_progress="hidden", api_visibility="private")
    return ExploreTab(session, [running, stopped])


def _choices(pair: Any, words: Words) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """(drafters, verifiers) that this pair can run, by the names people use."""
    drafters = [name for name in DRAFTERS if name != "model" or pair.draft is not None]
    return [(words.name("drafter", n), n) for n in drafters], [(words.name("verifier", n), n) for n in VERIFIERS]


def _weights(choice: WeightsChoice, words: Words) -> list[tuple[str, str]]:
    """A form of the weights is named by its numbers: "none" keeps those of the model's dtype."""
    dtype = choice.first.dtype
    return [(words.name("weights", n) if n != "none" else words("weights_none", dtype=dtype), n) for n in choice.names]


def _more(pair: Any) -> list[Any]:
    """The rest of the settings, in the order of `Form`."""
    longest = max(16, min(1024, pair.context_length or 1024))
    fields: list[Any] = [
        gr.Slider(
            8, longest, value=min(128, longest), step=1, buttons=[], label=t("max_new_tokens"), elem_id="sv-length"
        )
    ]
    with gr.Row(elem_classes="sv-pair"):
        fields.append(gr.Number(0, label=t("top_k"), precision=0, minimum=0, min_width=110))
        fields.append(gr.Number(1.0, label=t("top_p"), minimum=0, maximum=1, step=0.01, min_width=110))
    with gr.Row(elem_classes="sv-pair"):
        fields.append(gr.Number(0.0, label=t("min_p"), minimum=0, maximum=1, step=0.01, min_width=110))
        fields.append(gr.Number(1.0, label=t("repetition_penalty"), minimum=0.01, step=0.01, min_width=110))
    fields.append(gr.Textbox("", label=t("stop_strings"), lines=2))
    fields.append(gr.Textbox("", label=t("seed"), max_lines=1))
    fields.append(gr.Checkbox(False, label=t("ignore_eos")))
    return fields


assert MAX_K >= 16  # the slider offers no K that the engine would refuse
