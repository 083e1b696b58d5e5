"""The Explore tab's fields, with a sentence on what is chosen beside them. Their check is in form.py."""

import json
from dataclasses import dataclass
from typing import Any

import gradio as gr

from app.catalogue import Words, t
from app.components.about import about_view, guide_view
from app.drafter_choice import lacking, runnable
from app.form import AUTO
from app.weights_choice import WeightsChoice
from engine import DRAFTERS, VERIFIERS
from engine.drafters.make import TREES
from engine.settings import K_CONTROLS, MAX_K, MAX_NODES
from engine.verify import LOSSY

# The first click is what people judge speculation by: the drafter that needs nothing and the K that never loses.
DRAFTER, CONTROL, K = "composite", "cost", 16
NAMED = ("drafter", "verifier", "k_control", "tree", "weights")
TREE_SIZES = (0, 8, 16, 32, 48, MAX_NODES)

# The chosen (drafter, verifier, K control, tree) -> what stands beside each of the three fields.
ABOUT_JS = """(drafter, verifier, control, tree) => {
  const trees = %(trees)s.includes(drafter), lossy = %(lossy)s.includes(verifier);
  const shape = drafter === "none" ? [] : !trees ? ["about_tree_unused"] : verifier === "block" ? ["about_tree_block"]
    : ["about_tree_" + (tree === "auto" ? "auto" : tree === "0" ? "chain" : "nodes")];
  return [{ keys: ["about_drafter_" + drafter] }, { keys: ["about_verifier_" + verifier], lossy },
    { keys: ["about_k_control_" + control, ...shape] }];
}"""


@dataclass(frozen=True)
class Fields:
    """names: of `Form`'s fields behind the prompt, in the order of inputs."""

    by_name: dict[str, Any]

    @property
    def names(self) -> list[str]:
        return list(self.by_name)

    @property
    def inputs(self) -> list[Any]:
        return list(self.by_name.values())


def build(choice: WeightsChoice) -> Fields:
    pair, named = choice.first, choices(choice, Words("en"))
    held: dict[str, Any] = {}
    held["drafter"] = gr.Dropdown(named["drafter"], value=DRAFTER, label=t("drafter"), elem_id="sv-drafter")
    about_drafter = about_view({"keys": [f"about_drafter_{DRAFTER}"]}, elem_id="sv-about-drafter")
    with gr.Accordion(t("guide"), open=False, elem_id="sv-guide-box"):
        guide_view({"drafters": [{"name": n, "lacking": lacking(pair, n)} for n in DRAFTERS]}, elem_id="sv-guide")
    held["k"] = gr.Slider(1, 16, value=K, step=1, buttons=[], label=t("k"), info=t("k_info"), elem_id="sv-k")
    with gr.Row(elem_classes="sv-pair"):
        held["k_control"] = gr.Dropdown(
            named["k_control"], value=CONTROL, label=t("k_control"), min_width=120, elem_id="sv-k-control"
        )
        held["tree"] = gr.Dropdown(named["tree"], value=AUTO, label=t("tree"), min_width=120, elem_id="sv-tree")
    about_draft = about_view({"keys": [f"about_k_control_{CONTROL}", "about_tree_auto"]}, elem_id="sv-about-draft")
    held["confidence_threshold"] = gr.Slider(
        0, 1, value=0.4, step=0.05, buttons=[], visible=CONTROL == "confidence", elem_id="sv-threshold",
        label=t("confidence_threshold"), info=t("confidence_threshold_info"),
    )  # fmt: skip
    held["temperature"] = gr.Slider(
        0, 2, value=0, step=0.05, buttons=[], elem_id="sv-temperature", label=t("temperature"),
        info=t("temperature_info"),
    )  # fmt: skip
    held["verifier"] = gr.Dropdown(named["verifier"], value="rejection", label=t("verifier"), elem_id="sv-verifier")
    about_verifier = about_view({"keys": ["about_verifier_rejection"]}, elem_id="sv-about-verifier")
    held["weights"] = gr.Dropdown(
        named["weights"], value=pair.quantization, label=t("weights"), info=t("weights_info"),
        interactive=len(choice.names) > 1, elem_id="sv-weights",
    )  # fmt: skip
    with gr.Accordion(t("more"), open=False, elem_id="sv-more"):
        held |= _more(pair)
    chosen = [held[name] for name in ("drafter", "verifier", "k_control", "tree")]
    gr.on(
        [field.change for field in chosen], None, inputs=chosen,
        js=ABOUT_JS % {"trees": json.dumps(TREES), "lossy": json.dumps(LOSSY)},
        outputs=[about_drafter, about_verifier, about_draft], api_visibility="private",
    )  # fmt: skip
    held["k_control"].change(
        lambda control: gr.update(visible=control == "confidence"), inputs=held["k_control"],
        outputs=held["confidence_threshold"], queue=False, show_progress="hidden", api_visibility="private",
    )  # fmt: skip
    return Fields(held)


def choices(choice: WeightsChoice, words: Words) -> dict[str, list[tuple[str, str]]]:
    """Of the fields in `NAMED`: what this pair can run, by the names people use."""
    named = {
        "drafter": [(words.name("drafter", n), n) for n in runnable(choice.first)],
        "verifier": [(words.name("verifier", n), n) for n in VERIFIERS],
        "k_control": [(words.name("k_control", n), n) for n in K_CONTROLS],
        "tree": [
            (words("tree_auto"), AUTO),
            *((words("tree_nodes", n=n) if n else words("tree_chain"), str(n)) for n in TREE_SIZES),
        ],
        "weights": _weights(choice, words),
    }
    return {name: named[name] for name in NAMED}


def _weights(choice: WeightsChoice, words: Words) -> list[tuple[str, str]]:
    """A form of the weights is named by its numbers: "none" keeps those of the model's dtype."""
    dtype = choice.first.dtype
    return [(words.name("weights", n) if n != "none" else words("weights_none", dtype=dtype), n) for n in choice.names]


def _more(pair: Any) -> dict[str, Any]:
    """The rest of the settings."""
    longest = max(16, min(1024, pair.context_length or 1024))
    held: dict[str, Any] = {
        "max_new_tokens": gr.Slider(
            8, longest, value=min(128, longest), step=1, buttons=[], label=t("max_new_tokens"), elem_id="sv-length"
        )
    }
    with gr.Row(elem_classes="sv-pair"):
        held["top_k"] = gr.Number(0, label=t("top_k"), precision=0, minimum=0, min_width=110)
        held["top_p"] = gr.Number(1.0, label=t("top_p"), minimum=0, maximum=1, step=0.01, min_width=110)
    with gr.Row(elem_classes="sv-pair"):
        held["min_p"] = gr.Number(0.0, label=t("min_p"), minimum=0, maximum=1, step=0.01, min_width=110)
        held["repetition_penalty"] = gr.Number(
            1.0, label=t("repetition_penalty"), minimum=0.01, step=0.01, min_width=110
        )
    held["stop"] = gr.Textbox("", label=t("stop_strings"), lines=2)
    held["seed"] = gr.Textbox("", label=t("seed"), max_lines=1)
    held["ignore_eos"] = gr.Checkbox(False, label=t("ignore_eos"))
    return held


assert MAX_K >= 16  # the slider offers no K that the engine would refuse
