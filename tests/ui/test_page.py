"""The page as it is built and launched: private, valid as it stands, and every word of it in both languages."""

import re
from pathlib import Path
from typing import get_args

import gradio as gr
import httpx
import pytest
from fakes import PAIR, fake_pair, fake_runner
from helpers.models import pair_of, wanders
from helpers.tokenizers import CHATML, byte_tokenizer

import engine
from app import create_app, shown_in
from app.catalogue import Words, catalogues
from app.controls import choices
from app.drafter_choice import NEED_A_HEAD, runnable
from app.finance import actions, cost_sheets, fields, why_choices, why_record, year_sheet
from app.weights_choice import WeightsChoice
from engine import DRAFTERS, VERIFIERS, DecodeSettings
from engine.costs import Costs
from engine.linear import QUANTIZATIONS
from engine.notice import Notice
from engine.settings import K_CONTROLS
from engine.text import encode_prompt
from engine.verify import LOSSY
from pricing.bill import LINES
from pricing.rows import Commitment
from pricing.tco import BEHIND

ROOT = Path(__file__).parents[2]
SOURCES = [
    *(ROOT / "app").glob("*.py"),
    *(ROOT / "app/finance").glob("*.py"),
    *(ROOT / "app/claims_tab").glob("*.py"),
    *(ROOT / "app/components").glob("*.py"),
    *(ROOT / "app/components").glob("*.js"),
]
KINDS = ("accepted", "recovered", "bonus", "plain", "rejected", "ignored")
ARMS, PARTS = ("speculative", "plain"), ("draft", "verify", "other")
COST_FIELDS = ("provider", "commitment", "busy", "batch", "context", "own", "gpus", "precision")
STATES = ("idle", "queued", "starting", "running", "done", "stopped", "failed")
NOTES = (
    "no match",
    "nothing left to draft for",
    "the draft's context is full",
    "the match goes on with an id past the vocabulary",
    "what followed the match is too unlikely to go on",
    "this token is new",
    "a step without a draft is quicker here",
    "the draft is not sure enough",
    "the context is full",
    "the target has not left its last token to read",
    "the target has read no token before the last one yet",
    "the target's hidden state in front of the last token has not been read",
    "the target's hidden states up to here have not been read",
    "the text ends inside a character that the draft cannot spell",
    "the draft has nothing to read",
    "the draft wrote no whole token",
    "the draft ends the text here",
)
# Sentences of the engine's about a run, by their keys; see engine/notice.py.
NOTICES = (
    "reads_no_trees", "costs", "no_chat_template", "template_changes_text", "control_tokens_obeyed",
    "control_tokens_as_text", "no_graphs",
)  # fmt: skip
# Of `pricing.why` and why_options.py; a line of the bill has its name as a line.
STEPS = (
    "input_s", "cached_input_s", "output_s", "request_s", "requests_per_second", "replicas_at_work", "alone_s",
    "busy_limit_at_p95", "busy_limit_of_queue", "replicas", "gpus", "busy_share", "requests", "input_tokens",
    "cached_input_tokens", "output_tokens", "servers", "server_busy_share", "running", "total", "npv_of_cost",
    "output_tokens_of_term", "input_tokens_of_term", "cached_input_tokens_of_term", "requests_of_term", "of_term",
    "beyond_term",
)  # fmt: skip
STEP_NOTES = (
    "requests_per_second", "alone_s", "busy_limit_at_p95", "busy_limit_of_queue", "replicas", "gpus", "busy_share",
    "compute", "tokens", "servers", "capex", "one_off", "running", "npv_of_cost", "output_tokens_of_term",
    "input_tokens_of_term", "cached_input_tokens_of_term", "requests_of_term", "per_million_output",
    "per_million_output_alone",
)  # fmt: skip
# Keys that the code puts together: prefix (or suffix) and what may stand there.
FAMILIES = {
    "drafter_{}": DRAFTERS,
    "about_drafter_{}": DRAFTERS,
    "needs_{}": ("model", "early_exit", *NEED_A_HEAD),
    "about_verifier_{}": VERIFIERS,
    "k_control_{}": K_CONTROLS,
    "about_k_control_{}": K_CONTROLS,
    "about_tree_{}": ("auto", "chain", "nodes", "unused", "block"),
    "fate_{}": ("accepted", "rejected", "unreached", "untested", "ignored"),
    "weights_{}": QUANTIZATIONS,
    "verifier_{}": VERIFIERS,
    "card_accept_{}": (*VERIFIERS, "tree"),
    "status_{}": STATES,
    "reason_{}": ("eos", "stop", "length", "cancelled"),
    "kind_{}": (*KINDS, "cloud", "owned", "api"),
    "legend_{}": KINDS,
    "rule_{}": ("recovered", "bonus", "bonus_tree", "plain", "ignored"),
    "view_{}": ("text", "steps"),
    "pane_{}": ("text", "steps"),
    "figure_{}": ("race", "tau", "positions", "split", "forwards"),
    "arm_{}": ARMS,
    "split_{}": PARTS,
    "label_{}": ("measured", "projected", "quoted", "assumed"),
    "{}_info": COST_FIELDS,
    "commitment_{}": get_args(Commitment),
    "notice_{}": NOTICES,
    "num_{}": (*fields.UNITS, fields.YEARS),
    "unit_{}": tuple({*fields.UNITS.values(), "years", *why_record.UNITS.values()}),
    "part_{}": ("workload", "serving", "speculation", "load_curve", "money"),
    "group_{}": ("work", "speed", "money"),
    "case_{}": ("base", "best", "worst"),
    "count_{}": ("measured", "projected", "quoted", "assumed"),
    "shelf_{}": actions.SAYS,
    "rates_{}": (*shown_in.SAYS, *shown_in.KINDS, "buying", "selling", "future", "no_rate"),
    "rates_file_{}": tuple(key for _, key in shown_in.FILE_FAULTS),
    "measure_{}": cost_sheets.MEASURES,
    "line_{}": (*LINES, *BEHIND, "total"),
    "year_{}": year_sheet.QUANTITIES,
    "choice_{}": why_choices.FIGURES,
    "chance_{}": ("p05", "p50", "p95", "mean", "loss_share", "missed_share"),
    "why_{}": ("p05", "p50", "p95", "loss_share", "missed_share"),
    "step_{}": STEPS,
    "stepnote_{}": STEP_NOTES,
    "note_{}": tuple(re.sub(r"\W+", "_", note) for note in NOTES),
}  # fmt: skip


def made_of_parts():
    return {shape.format(part) for shape, parts in FAMILIES.items() for part in parts}


def test_both_catalogues_say_the_same_things():
    english, turkish = catalogues()["en"], catalogues()["tr"]
    assert english.keys() == turkish.keys()
    for key, text in english.items():
        placeholders = {part.split("}")[0] for part in text.split("{")[1:]}
        assert placeholders == {part.split("}")[0] for part in turkish[key].split("{")[1:]}, key


def test_every_string_of_the_catalogues_is_used():
    literal = set()
    for path in SOURCES:
        text = path.read_text("utf-8")
        literal |= set(re.findall(r"""["']([a-z][a-z0-9_]*)["']""", text)) | set(re.findall(r"\bL\.([a-z0-9_]+)", text))
    assert sorted(catalogues()["en"].keys() - literal - made_of_parts()) == []


def test_every_string_that_a_script_asks_for_is_there():
    for path in (ROOT / "app/components").glob("*.js"):
        text = path.read_text("utf-8")
        asked = set(re.findall(r"\bL\.([a-z0-9_]+)", text)) | set(re.findall(r'\bsay\("([a-z0-9_]+)"[,)]', text))
        assert asked <= catalogues()["en"].keys(), path.name


def test_every_name_that_the_engine_can_hand_over_has_its_words():
    assert sorted(made_of_parts() - catalogues()["en"].keys()) == []


def test_the_drafters_notes_are_the_ones_that_the_catalogues_translate():
    engine = "".join(p.read_text("utf-8") for p in (ROOT / "engine").rglob("*.py"))
    for note in NOTES:
        assert f'"{note}"' in engine, note
    drafters = "".join(p.read_text("utf-8") for p in (ROOT / "engine/drafters").glob("*.py"))
    found = re.findall(r'\bnote ?= ?"([^"]+)"', drafters)
    found += re.findall(r'^[A-Z]+ = "([a-z\' ]+)"$', drafters, re.MULTILINE)
    assert {note for note in found if note != "; "} <= set(NOTES)  # "; " joins those of a draft of several methods


def in_english(value):
    """As the page writes it for an English reader."""
    if isinstance(value, list):
        return " · ".join(f"{n}: {x:.1f}" for n, x in value)
    return f"{value:.2f}" if isinstance(value, float) else value


def engine_notices():
    """One of each that a run on this machine can have."""
    tokenizer = byte_tokenizer(template=CHATML)
    yield from encode_prompt(tokenizer, "a </s> b", "tiny").notices
    yield from encode_prompt(tokenizer, "a </s> b", "tiny", chat=False).notices
    yield from encode_prompt(byte_tokenizer(), "a", "tiny").notices
    yield from encode_prompt(byte_tokenizer(template="{{ messages[0]['role'] }}"), "a", "tiny").notices
    yield Costs(1, (1, 2, 3, 4), (0.01, 0.0123, 0.013, 0.02), 0.005, 0.0004).summary
    pair = pair_of(wanders(6), 6)
    yield from engine.generate(pair, [1, 2], DecodeSettings(max_new_tokens=1), "recycling").trace.notices


def test_every_notice_of_the_engines_is_said_in_both_languages_and_in_english_as_the_engine_says_it():
    seen = set()
    for notice in engine_notices():
        assert type(notice) is Notice, notice
        values = {name: in_english(v) for name, v in notice.values.items()}
        assert Words("en")(f"notice_{notice.key}", **values) == notice
        turkish = Words("tr")(f"notice_{notice.key}", **values)
        assert turkish != notice
        assert "{" not in turkish
        seen.add(notice.key)
    assert seen == {*NOTICES} - {"no_graphs"}  # that one needs a GPU, whose tests look at it
    keys = {
        key for path in (ROOT / "engine").rglob("*.py")
        for call in re.findall(r"\bNotice\((.*?)\n? *\)\n", path.read_text("utf-8"), re.DOTALL)
        for key in re.findall(r'"([a-z_]+)"', call)
    }  # fmt: skip
    assert keys == {*NOTICES}


def test_only_what_the_pair_can_run_is_offered_and_the_guide_says_what_the_others_need():
    assert runnable(PAIR) == ["none", "prompt_lookup", "suffix", "recycling", "composite", "early_exit"]
    whole = fake_pair(draft=fake_runner(), heads={"eagle": "a/folder", "medusa": "another"})
    assert runnable(whole) == list(DRAFTERS)
    page = create_app(PAIR, race=lambda *a, **k: ())
    drafter = next(b for b in page.blocks.values() if getattr(b, "elem_id", None) == "sv-drafter")
    assert [value for _, value in drafter.choices] == runnable(PAIR)
    guide = next(b for b in page.blocks.values() if getattr(b, "elem_id", None) == "sv-guide")
    assert [d["name"] for d in guide.value["drafters"]] == list(DRAFTERS)
    assert {d["name"] for d in guide.value["drafters"] if d["lacking"]} == {"model", "eagle", "medusa"}


def test_the_page_opens_on_what_wins_without_anything_to_get_first():
    page = create_app(PAIR, race=lambda *a, **k: ())
    values = {b.elem_id: b.value for b in page.blocks.values() if getattr(b, "elem_id", None) and hasattr(b, "value")}
    assert [values[f"sv-{name}"] for name in ("drafter", "k-control", "tree", "k", "verifier")] == [
        "composite", "cost", "auto", 16, "rejection",
    ]  # fmt: skip


def test_a_lossy_verifier_is_called_so_in_both_languages():
    for language, word in (("en", "LOSSY"), ("tr", "KAYIPLI")):
        named = {value: name for name, value in choices(WeightsChoice(PAIR), Words(language))["verifier"]}
        assert [name for name in VERIFIERS if word in named[name]] == list(LOSSY)
        assert catalogues()[language]["lossy"] == word


def test_the_page_can_be_built_twice():
    assert create_app(PAIR, race=lambda *a, **k: ()) is not create_app(PAIR, race=lambda *a, **k: ())


def test_a_short_context_still_gives_a_form_that_is_valid_as_it_stands():
    page = create_app(fake_pair(context_length=32), race=lambda *a, **k: ())
    for block in page.blocks.values():
        if block.get_block_name() == "slider":
            assert block.minimum <= block.value <= block.maximum


def test_what_holds_for_the_pair_is_on_the_page_before_any_run():
    page = create_app(fake_pair(notices=("the draft is larger than its target",)), race=lambda *a, **k: ())
    assert "the draft is larger than its target" in [getattr(b, "value", None) for b in page.blocks.values()]


@pytest.mark.parametrize("by", ["app.launch", "page.launch"])
def test_nothing_is_shared_recorded_or_sent_by_what_is_really_launched(monkeypatch, by):
    import app
    from app import main

    launched = {}

    def spy(self, *args, **kwargs):
        launched.update(kwargs, page=self)
        return None, "http://127.0.0.1:0/", None

    monkeypatch.setattr(gr.Blocks, "launch", spy)
    monkeypatch.setattr(main, "_warm_up", lambda pair: None)
    if by == "app.launch":
        app.launch(PAIR)
        assert launched["server_name"] == "127.0.0.1"  # other machines only when asked for
    else:
        create_app(PAIR, race=lambda *a, **k: ()).launch()
    assert launched["share"] is False
    assert launched["run_history"] is False
    assert launched["enable_monitoring"] is False
    assert launched["footer_links"] == []
    assert launched["allowed_paths"] == []
    assert launched["page"].analytics_enabled is False


def test_a_page_that_is_slow_to_answer_is_served_all_the_same(monkeypatch):
    monkeypatch.setattr("gradio.networking.url_ok", lambda url: False)  # what Gradio makes of three seconds
    page = create_app(PAIR, race=lambda *a, **k: ())
    _, url, _ = page.launch(server_name="127.0.0.1", prevent_thread_lock=True)
    try:
        assert httpx.get(url, timeout=600, trust_env=False).status_code == 200
    finally:
        page.close()


def test_the_engine_has_one_queue_and_the_cost_controls_have_none():
    page = create_app(PAIR, race=lambda *a, **k: ())
    engine_runs = [fn for fn in page.fns.values() if fn.concurrency_id == "engine"]
    assert [fn.concurrency_limit for fn in engine_runs] == [1]
    refreshes = [fn for fn in page.fns.values() if fn.fn and fn.fn.__name__ == "refresh"]
    assert len(refreshes) == 6  # the controls, a run's end and a Stop; a rate typed, a bulletin, back to own money
    assert not any(fn.queue for fn in refreshes)
