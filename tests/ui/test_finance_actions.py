"""What the finance tabs' buttons do, without a browser; and that none of it waits for the engine."""

import base64
import subprocess
import sys
import threading

import pytest
from fakes import PAIR
from finance_desk import EN, PEAK, PRICES, TR, measured_session, opened, shelf_of, table, texts
from helpers.finance import a_loss, by_hand

from app import create_app
from app.finance import actions, chances, exports, measured, shown, tco_sheets, year_sheet
from app.finance.desk import Desk
from app.finance.whys import explain
from app.session import Session
from pricing.scenario import Scenario
from pricing.scenario_file import parse_scenario

pytestmark = pytest.mark.usefixtures("shipped")


def test_draws_can_be_stopped_and_say_so_and_are_dropped_when_the_scenario_changes(monkeypatch):
    held = opened("tco")
    seen = []
    for sheet, chart in chances.run(held, EN):
        seen.append((sheet, chart))
    assert seen[-1][1] is not None
    whole = held.chances
    assert whole.draws == chances.DRAWS
    row = table(seen[-1][0], "chances")["rows"][0]
    assert texts(row)[2] == shown.money(min(c.p50 for c in whole.found), "USD", EN)
    # Stopped after the second two thousand.
    monkeypatch.setattr(chances.ChanceRun, "go_on", lambda self: len(told.append(1) or told) >= 2)
    told: list[int] = []
    *_, (sheet, _) = chances.run(held, EN)
    assert held.chances.draws == 4000
    assert "Stopped: this is what 4,000 draws say." in sheet["blocks"][0]["text"]
    held.edit({"id": held.drawn, "seq": 1, "edits": {PEAK: {"value": 3}}, "case": "base"}, EN)
    assert "draw again" in chances.shown(held, EN)[0]["blocks"][0]["text"]


def test_draws_that_are_under_way_are_not_called_stale_when_a_tab_is_looked_at_again(monkeypatch):
    held, done = opened("tco"), threading.Event()
    monkeypatch.setattr(chances.ChanceRun, "work", lambda self: done.wait())
    going = chances.run(held, EN)
    assert "drawn …" in str(next(going)[0])
    assert "drawn …" in str(chances.shown(held, EN)[0])
    going.close()
    done.set()
    assert "draw again" in str(chances.shown(held, EN)[0])


def test_how_often_no_fleet_keeps_the_target_has_a_column_and_its_derivation():
    """0.3 s plain by itself, against 0.25 s; without a target there is no such column."""
    held = opened("tco", by_hand(serving__p95_target_s=0.25))
    *_, (sheet, _) = chances.run(held, EN)
    made = table(sheet, "chances")
    shares = {row["cells"][0]["t"]: row["cells"][6] for row in made["rows"]}
    assert made["columns"][6]["text"] == "No fleet keeps P95"
    assert shares["rented, plain"]["t"] == "100.0%"
    assert shares["rented, plain"]["tone"] == "loss"
    assert shares["an API"]["t"] == shown.NOTHING
    assert explain(held, shares["rented, plain"]["why"], PRICES, EN)["value"] == "100.00%"
    assert "P95" in explain(held, shares["rented, speculative"]["why"], PRICES, TR)["title"]
    assert "no fleet keeps the P95 target" in sheet["blocks"][-1]["text"]
    free = opened("tco")
    *_, (sheet, _) = chances.run(free, EN)
    assert len(table(sheet, "chances")["columns"]) == 6


def test_leaving_the_page_stops_the_draws():
    held = opened("tco")
    going = chances.run(held, EN)
    next(going)
    going.close()
    assert held.chances.stop.is_set()


def test_without_ranges_there_is_nothing_to_draw():
    held = opened("tco", a_loss())
    ((sheet, chart),) = chances.run(held, EN)
    assert "has a range" in sheet["blocks"][0]["text"]
    assert chart is None


def of_the_runs_own():
    """A scenario of the model and the machine that `measured_session` ran on."""
    return by_hand(serving__model="m", serving__gpu="Some CPU")


def test_the_measured_run_fills_the_speeds_with_its_label_and_its_source():
    held = opened(scenario=of_the_runs_own())
    session = measured_session()
    fast, plain = session.run.compared()
    made = actions.take(held, session, PRICES, EN)
    speeds = held.current.serving
    assert speeds.plain.output_tokens_per_second.value == pytest.approx(plain.decode_tokens_per_second, rel=1e-5)
    assert speeds.speculative.output_tokens_per_second.value == pytest.approx(fast.decode_tokens_per_second, rel=1e-5)
    assert speeds.plain.input_tokens_per_second.value == pytest.approx(40 / plain.ttft_s, rel=1e-5)
    for arm in (speeds.plain, speeds.speculative):
        for figure in (arm.input_tokens_per_second, arm.output_tokens_per_second):
            assert figure.label == "measured"
            assert "m · Some CPU · 2026-11-30" in figure.source
            assert "one sequence at once" in figure.source
    assert "one sequence at once on this machine" in shelf_of(made)["told"]
    assert held.now.scenario == held.current
    assert (
        "LOSSY"
        in shelf_of(actions.take(opened(scenario=of_the_runs_own()), measured_session(lossy=True), PRICES, EN))["told"]
    )
    assert (
        "KAYIPLI"
        in shelf_of(actions.take(opened(scenario=of_the_runs_own()), measured_session(lossy=True), PRICES, TR))["told"]
    )


def test_what_was_said_of_many_requests_at_once_goes_with_the_speeds_it_was_said_of():
    # At once 8, of projected speeds: a replica then has the output speed of 8 sequences together.
    many = of_the_runs_own().with_values({"serving.requests_at_once": 8})
    whole = many.model_dump()
    whole["serving"]["speed_factor"] = {"value": 1, "low": 0.6, "high": 1.2, "label": "projected", "source": "its band"}
    whole["worst"] = {"serving.speed_factor": 0.6}
    curve = [{"busy_share": 0.3, "p95_s": 1}, {"busy_share": 0.8, "p95_s": 5}]
    whole |= {"load_curve": {"plain": curve, "speculative": curve}}
    whole["serving"]["p95_target_s"] = 4
    many = Scenario.model_validate(whole)
    held = opened(scenario=many)
    told = shelf_of(actions.take(held, measured_session(), PRICES, EN))["told"]
    assert EN("take_alone") in told
    after = held.current
    for figure in (after.serving.requests_at_once, after.serving.speed_factor):
        assert (figure.value, figure.low, figure.high, figure.label) == (1, None, None, "measured")
        assert "one sequence at once: m · Some CPU" in figure.source
    assert after.load_curve == {}
    assert after.worst == {}
    held = opened(scenario=many)
    refused = shelf_of(actions.take(held, measured_session(drafter="none"), PRICES, EN))
    assert (refused["tone"], refused["told"]) == ("fault", EN("take_both"))
    assert held.current == many
    alone = shelf_of(actions.take(opened(scenario=of_the_runs_own()), measured_session(), PRICES, EN))
    assert EN("take_alone") not in alone["told"]


@pytest.mark.parametrize("words", [EN, TR])
def test_of_another_models_run_only_the_ratio_is_taken(words):
    held = opened()  # "a model" on an H100 SXM
    session = measured_session()
    fast, plain = session.run.compared()
    ratio = fast.decode_tokens_per_second / plain.decode_tokens_per_second
    before = held.current.serving
    made = shelf_of(actions.take(held, session, PRICES, words))
    after = held.current.serving
    assert after.plain == before.plain
    assert after.speculative.input_tokens_per_second == before.speculative.input_tokens_per_second
    speed = after.speculative.output_tokens_per_second
    assert speed.value == pytest.approx(before.plain.output_tokens_per_second.value * ratio, rel=1e-5)
    assert speed.label == "projected"
    for text in (f"× {shown.number(ratio, words, 3)}", "m · Some CPU · 2026-11-30"):
        assert text in speed.source
    for text in (f"× {shown.number(ratio, words, 3)}", "H100 SXM", "a model", "Some CPU"):
        assert text in made["told"]
    assert made["tone"] == "gain"


@pytest.mark.parametrize(
    ("model", "gpu", "gpus", "alike"),
    [
        ("Llama-3.1-8B", "H100 SXM", 1, True),
        ("Llama-3.1-8B", "H100", 1, True),
        ("Llama-3.1-8B", "H100 PCIe", 1, False),
        ("Llama-3.1-8B", "H200 SXM", 1, False),
        ("Llama-3.1-8B", "H100 SXM", 8, False),
        ("Mixtral-8x22B", "H100 SXM", 1, False),
        ("Llama-3.1-70B", "H100 SXM", 1, False),
    ],
)
def test_a_run_is_alike_where_model_and_gpu_are(model, gpu, gpus, alike):
    run = measured_session().run
    run.where, run.hardware = "meta-llama/Llama-3.1-8B-Instruct · bfloat16 · x", "NVIDIA H100 80GB HBM3"
    scenario = by_hand(serving__model=model, serving__gpu=gpu, serving__gpus_per_replica=gpus)
    assert measured._alike(scenario, run) is alike


def test_a_misspelt_entry_is_told_first_with_the_one_that_was_meant():
    good = actions.fetch(opened(), EN)["file"]
    text = base64.b64decode(good["base64"]).decode().replace("peak_factor =", "peak_facter =", 1)
    for words, told in ((EN, "there is no such entry; the nearest is peak_factor."), (TR, "en yakını peak_factor.")):
        said = shelf_of(actions.open_scenario(opened(), {"text": text, "name": "x"}, PRICES, words))["told"]
        assert "workload.peak_facter" in said
        assert said.endswith(told)
    two = text.replace("requests_per_day =", "requests_each_day_of_all =", 1)
    said = shelf_of(actions.open_scenario(opened(), {"text": two, "name": "x"}, PRICES, EN))["told"]
    assert "there is no such entry" in said
    assert "faults)" in said or "(and 1 more fault)" in said


def test_without_a_run_or_a_drafter_what_cannot_be_taken_is_said():
    held = opened()
    before = held.current
    other = shelf_of(actions.take(held, measured_session(drafter="none"), PRICES, EN))
    assert other["tone"] == "fault"
    assert other["told"].endswith("so nothing of it carries over.")
    assert held.current is before
    held = opened(scenario=of_the_runs_own())
    before = held.current
    made = actions.take(held, Session(), PRICES, EN)
    assert shelf_of(made)["told"] == EN("take_nothing")
    assert held.current is before
    told = shelf_of(actions.take(held, measured_session(drafter="none"), PRICES, EN))["told"]
    assert EN("take_plain_only") in told
    assert held.current.serving.speculative.output_tokens_per_second.label == "projected"
    assert held.current.serving.plain.output_tokens_per_second.label == "measured"


def test_the_first_look_opens_the_first_scenario_that_ships():
    held = Desk()
    made = actions.select(held, "cost", PRICES, EN)
    assert held.current.name == "by hand"
    assert [one["value"] for one in shelf_of(made)["shipped"]] == ["by_hand", "loss"]
    assert [one["text"] for one in shelf_of(made)["shipped"]] == ["by hand", "yavaş taslak"]
    actions.open_scenario(held, {"shipped": "loss"}, PRICES, EN)
    assert held.current.currency == "TRY"


@pytest.mark.parametrize(
    "given",
    [
        {"shipped": "../../etc/passwd"},
        {"shipped": None},
        {"text": None, "name": "x"},
        {"text": "a" * 1_000_001, "name": "x"},
        {"text": "name = ", "name": "<b>"},
        {"text": "x = " + "[" * 5000, "name": "deep"},
        {"text": 'name = "a"', "name": "x"},
        {"text": "\ud800", "name": "\ud800"},
        {},
        None,
        [],
        {"text": "\x00", "name": ""},
    ],
)
def test_what_is_no_scenario_is_one_sentence_and_changes_nothing(given):
    for words in (EN, TR):
        held = opened()
        before = held.now
        told = shelf_of(actions.open_scenario(held, given, PRICES, words))
        assert told["tone"] == "fault"
        assert "\n" not in told["told"]
        assert 0 < len(told["told"]) < 400
        told["told"].encode()
        assert held.now is before
        assert "Traceback" not in told["told"]


def test_what_is_kept_and_fetched_is_the_scenario_as_toml():
    held = opened()
    held.edit({"id": held.drawn, "seq": 1, "edits": {PEAK: {"value": 3}}, "case": "worst"}, EN)
    kept = actions.keep(held, {"name": "  mine ’ <script>  "}, EN)["keep"]
    assert kept["name"] == "mine ’ <script>"
    again = parse_scenario(kept["text"])
    assert again.model_copy(update={"name": "by hand"}) == held.current
    assert actions.keep(held, {"name": ""}, EN)["keep"]["name"] == "by hand"
    assert len(actions.keep(held, {"name": "x" * 500}, EN)["keep"]["name"]) == 80

    file = actions.fetch(held, EN)["file"]
    assert file["name"] == "by-hand.toml"
    assert parse_scenario(base64.b64decode(file["base64"]).decode()) == held.current
    assert actions.keep(Desk(), {}, EN)["tone"] == "fault"
    assert actions.fetch(Desk(), EN)["tone"] == "fault"


def test_files_are_made_of_what_is_on_the_desk():
    held = opened("tco")
    made = exports.exports(held.now.made, "tr", scenario=held.current, prices=PRICES)
    names = [name for name, _, _ in made]
    assert names[0] == "by-hand.toml"
    assert len(names) == len(set(names))
    assert parse_scenario(made[0][2].decode()) == held.current
    listed = exports.files(held, PRICES, EN)["files"]
    assert [file["name"] for file in listed] == names
    assert exports.files(Desk(), PRICES, EN)["files"] == []


@pytest.mark.parametrize("name", ["../../x", "a/b\\c", "", "…", "ışık ğ", "x" * 300])
def test_a_files_name_leads_out_of_no_folder(name):
    stem = exports.file_stem(name)
    assert stem
    assert len(stem) <= 60
    assert not set(stem) & set("/\\.")


def test_no_finance_event_waits_for_the_engine():
    page = create_app(PAIR, race=lambda *a, **k: ())
    ours = [fn for fn in page.fns.values() if fn.fn and fn.fn.__module__.startswith("app.finance")]
    assert len(ours) > 30
    for fn in ours:
        assert fn.concurrency_id != "engine"
        assert fn.api_visibility == "private"
        assert not fn.queue or fn.concurrency_id == "chances", fn.fn
    assert {fn.fn.__name__: fn.trigger_mode for fn in ours}["edit"] == "always_last"
    assert {fn.fn.__name__: fn.trigger_mode for fn in ours}["settle"] == "always_last"


def test_the_finance_tabs_run_without_torch():
    code = "import sys, app.finance.page, app.finance.whys; sys.exit('torch' in sys.modules or 'engine' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_tabs_hold_nothing_but_tabs():
    """Gradio counts the children of gr.Tabs to place a tab: a State among them gives one tab the place of another."""
    page = create_app(PAIR, race=lambda *a, **k: ())
    holder = next(b for b in page.blocks.values() if getattr(b, "elem_id", None) == "sv-tabs")
    assert {type(child).__name__ for child in holder.children} == {"Tab"}
    assert [child.elem_id for child in holder.children] == [
        "sv-tab-explore",
        "sv-tab-cost",
        "sv-tab-tco",
        "sv-tab-claims",
    ]


def test_a_mean_has_one_decimal_and_less_than_a_week_is_said_so():
    assert [year_sheet._quantity(name, 167.33333, EN) for name in ("gpus", "replicas")] == ["167.3", "167.3"]
    assert year_sheet._quantity("replicas", 20.9167, TR) == "20,9"
    assert year_sheet._quantity("requests", 864_000, EN) == "864,000"
    assert [tco_sheets.weeks_of(weeks, EN) for weeks in (0, 0.466, 1, 17.38)] == [
        "at once",
        "under a week",
        "1",
        "17.4",
    ]


def missed_worst():
    """Served as it is, and not in its worst case: its load curve keeps no target so tight."""
    curve = {
        arm: [{"busy_share": 0.3, "p95_s": 2}, {"busy_share": 0.8, "p95_s": 5}] for arm in ("plain", "speculative")
    }
    whole = by_hand().model_dump() | {"load_curve": curve, "worst": {"serving.p95_target_s": 1.5}}
    whole["serving"]["p95_target_s"] = 4
    return Scenario.model_validate(whole)


@pytest.mark.parametrize("words", [EN, TR])
def test_files_that_cannot_be_made_leave_the_scenario_to_save_and_say_why(words):
    held = opened("tco", missed_worst(), words)
    assert held.now is not None
    made = exports.files(held, PRICES, words)
    assert [one["name"] for one in made["files"]] == ["by-hand.toml"]
    assert "1.5" in made["told"] or "1,5" in made["told"]
    assert "P95" in made["told"]
    assert parse_scenario(base64.b64decode(made["files"][0]["base64"]).decode(), "x.toml") == held.current


@pytest.mark.parametrize("words", [EN, TR])
def test_a_number_that_nothing_can_be_calculated_with_breaks_no_sheet(words):
    held = opened("tco", missed_worst(), words)
    target = {"serving.p95_target_s": {"value": 1}}
    assert held.edit({"id": held.drawn, "seq": 1, "edits": target, "case": "base"}, words)
    assert "P95" in held.faults[""]
    sheets = actions.settle(held, PRICES, words)
    assert "P95" in str(sheets)
    assert [one["name"] for one in exports.files(held, PRICES, words)["files"]] == ["by-hand.toml"]


def test_a_file_that_cannot_be_calculated_is_opened_with_its_sentence_and_can_be_mended():
    held = opened("tco")
    whole = missed_worst().model_dump()
    whole["serving"]["p95_target_s"] = 1
    text = exports.toml_file(Scenario.model_validate(whole | {"name": "tight"}))[2].decode()
    shelf, form, _, *sheets = actions.open_scenario(held, {"text": text, "name": "tight.toml"}, PRICES, EN)
    assert shelf["told"] == EN("opened", name="tight")
    assert form["id"] == held.drawn
    assert "P95" in str(sheets)
    mended = {"serving.p95_target_s": {"value": 4}}
    assert held.edit({"id": held.drawn, "seq": 1, "edits": mended, "case": "base"}, EN)
    assert held.now.scenario.name == "tight"
    assert not held.faults
