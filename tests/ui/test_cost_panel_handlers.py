"""The cost panel without a browser: a measured run in, labelled figures out."""

import csv
import io
from datetime import date, timedelta
from types import SimpleNamespace

import pytest
from fakes import CONFIG, PAIR, drafted_step, fake_pair, fake_runner, plain_step

from app import cost_panel, cost_view
from app.catalogue import Words
from app.cost_model import ENOUGH_TOKENS, Assumed, Measured, cost_records, shape_of
from app.session import Run, Session
from engine.hardware import ModelShape, load_gpu_specs
from engine.projection import StepCounts, project
from engine.stats import compute_stats
from engine.validation import shipped_error_band
from pricing import load_prices, to_csv, usd_per_million_tokens

SHAPES = cost_panel.shapes_of(PAIR)
PRICES = load_prices()
EN = Words("en")
CHOSEN = ("", "", 60, 1, 1024, 0.1)
DAY = date(2026, 11, 30)
AT = {key: i for i, (key, *_) in enumerate(cost_view.COLUMNS)}


def measured_session(steps=12, step=drafted_step, drafter="prompt_lookup"):
    """A session as a finished run leaves it: the prompt read, then `steps` steps, and plain as far."""
    run = Run(drafter, "rejection", 5, "cpu", "float32", "Some CPU · 2 threads", "m · Some CPU · 2026-11-30", DAY)
    run.state = "done"
    run.speculative.steps = [plain_step(0), *(step(i + 1) for i in range(steps))]
    emitted = sum(len(s.emitted) for s in run.speculative.steps)
    run.plain.steps = [plain_step(i) for i in range(emitted)]
    return Session(run)


def update(chosen=CHOSEN, session=None, words=EN, shapes=SHAPES):
    names = ("note", "body", "chart", "table", "derivation", "records")
    values = cost_view.update(session or measured_session(), chosen, shapes, PRICES, words)
    return dict(zip(names, values, strict=True))


def records(session=None, **assumed):
    fast, plain = (session or measured_session()).run.compared()
    return cost_records(Measured(fast, plain, SHAPES[0]), Assumed(**assumed), PRICES)


def test_before_any_run_the_panel_says_what_will_appear():
    shown = update(session=Session())
    assert shown["note"] == EN("cost_empty")
    assert shown["body"]["visible"] is False
    assert shown["records"] == []


def test_one_token_has_no_speed_to_price():
    shown = update(session=measured_session(steps=0))
    assert shown["note"] == EN("cost_short")
    assert shown["records"] == []


def test_every_figure_carries_its_label():
    for record in update()["records"]:
        assert record["provenance"] in ("measured", "projected")
        assert record["price_label"] in ("quoted", "assumed")
        assert record["how"]
        assert record["formula"]
        assert record["measured_tokens"] == 25
        assert record["measured_drafted_steps"] == 12


def test_only_this_machine_is_measured_and_its_price_is_the_users_own():
    first, *others = records(own_usd_per_hour=0.5, busy_share=0.5)
    assert (first["provenance"], first["price_label"]) == ("measured", "assumed")
    assert first["plain_tokens_per_second"] == pytest.approx(1000 / 21)
    assert first["speculative_tokens_per_second"] == pytest.approx(25 / (0.021 + 12 * 0.022))
    # $0.5 an hour, half of it busy, at 1000/21 tokens a second: 0.5 / (171428.6 / 2) * 1e6.
    assert first["plain_usd_per_million_tokens"] == pytest.approx(5.8333, rel=1e-4)
    assert {r["provenance"] for r in others} == {"projected"}
    assert {r["gpu"].split()[0] for r in others} == {"A100", "H100", "B200"}


def test_this_machines_row_names_its_hardware_and_the_day_of_the_run():
    own = update()["records"][0]
    assert own["instance"] == "Some CPU · 2 threads"
    assert own["as_of"] == DAY
    assert "m · Some CPU · 2026-11-30" in own["how"]
    assert own["sequences_at_once"] == 1
    assert "one sequence at once" in own["how"]


def test_a_stopped_runs_lead_over_plain_is_not_priced():
    session = measured_session(steps=3)
    ahead = measured_session(steps=3)
    ahead.run.speculative.steps.append(drafted_step(9))  # plain has not done these two tokens
    assert records(ahead)[0] == records(session)[0]


@pytest.mark.parametrize("drafter", ["early_exit", "eagle", "medusa"])
def test_what_drafting_with_part_of_a_model_costs_on_a_gpu_is_not_taken_for_nothing(drafter):
    shown = update(session=measured_session(drafter=drafter))
    assert EN("cost_draft_unknown") in shown["note"]
    own, *others = shown["records"]
    assert own["speculative_tokens_per_second"] is not None, "measured is measured"
    assert {r["speculative_tokens_per_second"] for r in others} == {None}
    assert all(r["plain_tokens_per_second"] > 0 for r in others)
    mixed = measured_session(drafter="composite")
    assert EN("cost_draft_unknown") not in update(session=mixed)["note"]
    mixed.run.sources.add(drafter)
    assert EN("cost_draft_unknown") in update(session=mixed)["note"]


def test_the_price_of_a_lossy_run_says_that_it_is_one():
    session = measured_session()
    assert "LOSSY" not in update(session=session)["note"]
    session.run.verifier = "typical"
    assert "LOSSY" in update(session=session)["note"]


def test_a_projected_row_is_the_roofline_of_the_runs_own_steps():
    session = measured_session()
    stats = compute_stats(session.run.speculative.steps, 1)
    expected = project(
        SHAPES[0], load_gpu_specs()["H100 SXM"], StepCounts.of(stats), context_tokens=512, batch=4
    )  # fmt: skip
    row = next(r for r in records(session, batch=4, context_tokens=512) if r["gpu_label"] == "H100 SXM 80 GB")
    assert row["speculative_tokens_per_second"] == pytest.approx(expected.speculative_tokens_per_second)
    assert row["plain_tokens_per_second"] == pytest.approx(expected.plain_tokens_per_second)
    assert row["sequences_at_once"] == 4
    assert "sequences at once: 4" in row["how"]


@pytest.mark.parametrize("batch", [1, 8])
def test_the_error_band_stands_beside_each_projected_speed(batch):
    band = shipped_error_band(batch)
    shown = update(("", "", 60, batch, 1024, 0.1))
    own, *projected = shown["records"]
    for name in ("plain_tokens_per_second", "speculative_tokens_per_second"):
        at = AT[name]
        assert AT[f"{name}_range"] == at + 1, "the next column"
        assert own[f"{name}_low"] is own[f"{name}_high"] is None, "measured is measured"
        assert shown["table"]["data"][0][at + 1] == ""
        for row, record in zip(shown["table"]["data"][1:], projected, strict=True):
            assert record[f"{name}_low"] == pytest.approx(record[name] / (1 + band.high))
            assert record[f"{name}_high"] == pytest.approx(record[name] / (1 + band.low))
            low, high = (float(end.replace(",", "")) for end in row[at + 1].split("\u2013"))
            assert (low, high) == (
                pytest.approx(record[f"{name}_low"], rel=0.005), pytest.approx(record[f"{name}_high"], rel=0.005),
            )  # fmt: skip
    median, results = f"{band.median_absolute * 100:.0f}%", band.results
    assert f"{results} published results of this kind in {band.engines} engines were off by {median}" in shown["note"]
    assert "range of the speeds: plain " in shown["derivation"]


def test_without_a_projected_speed_there_is_no_range():
    shown = update(session=measured_session(drafter="eagle"))
    assert all(r["speculative_tokens_per_second_low"] is None for r in shown["records"])
    assert {row[AT["speculative_tokens_per_second_range"]] for row in shown["table"]["data"]} == {""}


def test_a_range_is_written_as_the_numbers_beside_it_are():
    record = {"plain_tokens_per_second_low": 1234.5, "plain_tokens_per_second_high": 2.345}
    cells = [
        cost_view._cell(record, "plain_tokens_per_second_range", "str", 3, Words(language)) for language in ("en", "tr")
    ]
    assert cells == ["1230\u20132.35"] * 2
    turkish = update(words=Words("tr"))["note"]
    assert f"%{shipped_error_band(1).median_absolute * 100:.0f}" in turkish
    assert "+%" in turkish


def test_without_a_price_this_machine_costs_nothing_known_not_zero():
    assert records(own_usd_per_hour=None)[0]["plain_usd_per_million_tokens"] is None


def test_halving_the_busy_share_doubles_the_cost():
    whole, half = (records(busy_share=b)[1]["plain_usd_per_million_tokens"] for b in (1.0, 0.5))
    assert half == pytest.approx(2 * whole)


def test_the_users_provider_and_commitment_are_the_only_ones_shown():
    shown = update(("AWS", "on_demand", 60, 1, 1024, 0.1))["records"][1:]
    assert shown
    assert {(r["provider"], r["commitment"]) for r in shown} == {("AWS", "on_demand")}


def test_a_choice_that_no_price_matches_says_so():
    shown = update(("Lambda", "spot", 60, 1, 1024, 0.1))
    assert EN("cost_no_price") in shown["note"]
    assert shown["chart"]["visible"] is False


def test_without_a_drafter_nothing_is_priced_as_speculative_not_even_here():
    shown = update(session=measured_session(step=plain_step, drafter="none"))
    assert EN("cost_no_drafter") in shown["note"]
    assert all(r["speculative_usd_per_million_tokens"] is None for r in shown["records"])
    assert all(r["saving_share"] is None for r in shown["records"])
    assert all(r["plain_usd_per_million_tokens"] is not None for r in shown["records"])


@pytest.mark.parametrize(
    ("session", "price"),
    [
        (measured_session(), "speculative_usd_per_million_tokens"),
        (measured_session(step=plain_step, drafter="none"), "plain_usd_per_million_tokens"),
    ],
    ids=["with a draft", "without a drafter"],
)
def test_the_cheapest_projected_token_comes_first_and_is_the_one_derived(session, price):
    shown = update(session=session)
    costs = [r[price] for r in shown["records"][1:]]
    assert costs == sorted(costs)
    assert shown["derivation"].endswith(cost_view.derive(shown["records"][1]))


def test_a_drafter_that_never_matched_keeps_its_measured_speed_and_projects_nothing():
    shown = update(session=measured_session(step=plain_step))
    own, *projected = shown["records"]
    assert EN("cost_no_gain") in shown["note"]
    assert own["speculative_tokens_per_second"] == pytest.approx(1000 / 21)
    assert all(r["speculative_usd_per_million_tokens"] is None for r in projected)
    assert all(r["plain_usd_per_million_tokens"] is not None for r in projected)


@pytest.mark.parametrize(("steps", "thin"), [(1, True), (7, True), (8, False), (60, False)])
def test_what_a_projection_rests_on_is_said_and_a_short_run_is_marked(steps, thin):
    shown = update(session=measured_session(steps=steps))
    tokens = 1 + 2 * steps  # 3, 15, 17, 121 against the documented 16
    assert (tokens < ENOUGH_TOKENS) is thin
    assert f"{tokens} tokens and {steps} drafted steps" in shown["note"]
    assert ("not much to go by" in shown["note"]) is thin
    assert ("not much to go by" in shown["derivation"]) is thin
    assert f"{tokens} output tokens and {steps} drafted steps" in shown["records"][1]["how"]
    assert {r["few_tokens"] for r in shown["records"]} == {thin}
    at = AT["provenance"]
    assert {row[at] for row in shown["table"]["data"]} == (
        {"measured, few tokens", "projected, few tokens"} if thin else {"measured", "projected"}
    )


def test_a_stale_price_is_marked_in_the_table_the_note_and_the_derivation():
    shown = update()
    at = AT["price_label"]
    today, counted = date.today(), 0
    for row, record in zip(shown["table"]["data"][1:], shown["records"][1:], strict=True):
        old = record["as_of"] < today - timedelta(days=90)
        counted += old
        assert row[at] == f"quoted, {record['as_of']}" + (", stale" if old else "")
        assert ("stale" in cost_view.derive(record)) is old
    assert counted > 0
    assert EN("cost_stale", n=counted, total=len(shown["records"]) - 1, days=90) in shown["note"]


def test_a_derivation_names_grade_day_source_and_notes_of_its_price():
    record = next(r for r in update()["records"][1:] if r["price_notes"])
    text = cost_view.derive(record)
    for part in (f"evidence {record['evidence']}: ", str(record["as_of"]), record["source_url"], record["price_notes"]):
        assert part in text


def test_a_saving_is_shown_in_tenths_of_a_percent_and_noise_is_zero():
    # 25 tokens: plain 25 x 21 = 525 ms, speculative 21 + 12 x 22 = 285 ms; 1 - 285 / 525 = 45.714 %.
    assert update()["table"]["data"][0][AT["saving_share"]] == 45.7
    same = update(session=measured_session(step=plain_step))["table"]["data"][0][AT["saving_share"]]
    assert str(same) == "0.0"


def test_a_cleared_field_is_named_and_not_filled_in():
    shown = update(("", "", None, 1, 1024, 0.1))
    assert EN("busy") in shown["note"]
    assert shown["body"]["visible"] is False


def test_table_chart_and_csv_hold_the_same_rows():
    shown = update()
    rows = shown["table"]["data"]
    exported = list(csv.DictReader(io.StringIO(to_csv(shown["records"]))))
    assert len(rows) == len(exported) == len(shown["records"])
    for row, line in zip(rows, exported, strict=True):
        assert row[0] == line["gpu_label"]
        assert row[-1] == int(line["row"])
        assert row[AT["plain_per_million_tokens"]] == pytest.approx(float(line["plain_per_million_tokens"]), rel=1e-3)
    drawn = sum(len(trace.x) for trace in shown["chart"]["value"].data if trace.mode == "markers")
    assert drawn == 2 * (len(rows) - 1)


def test_the_chart_keeps_numeric_axes():
    chart = update()["chart"]["value"]
    assert chart.layout.xaxis.type == "linear"
    assert all(isinstance(x, float) for trace in chart.data for x in trace.x)


def test_a_projected_row_derives_itself_down_to_its_assumptions():
    text = cost_view.derive(update()["records"][1])
    for part in ("TB/s", "max(memory", "(assumed)", "(measured)", "(quoted)", "quoted", "https://"):
        assert part in text, part


@pytest.mark.parametrize("language", ["en", "tr"])
def test_every_selected_row_is_found_whatever_the_order_and_the_language(language):
    shown = update(words=Words(language))
    for cells in reversed(shown["table"]["data"]):
        event = SimpleNamespace(row_value=[str(c) for c in cells])
        assert cost_view.explain_selected(shown["records"], event) == cost_view.derive(shown["records"][cells[-1]])


def test_rows_that_differ_in_their_region_or_term_alone_are_told_apart():
    shown = update()
    twins = {}
    for record in shown["records"][1:]:
        twins.setdefault((record["gpu_label"], record["instance"]), []).append(record)
    pair = next(rows for rows in twins.values() if len(rows) > 1)
    texts = {cost_view.derive(shown["records"][r["row"]]) for r in pair}
    assert len(texts) == len(pair)


def test_an_empty_cell_explains_nothing():
    import gradio as gr

    assert (
        cost_view.explain_selected(update()["records"], SimpleNamespace(row_value=[""] * len(cost_view.COLUMNS)))
        == gr.skip()
    )


def test_a_family_that_the_formula_does_not_know_is_projected_from_its_counted_parameters():
    config = {**CONFIG, "model_type": "gpt2"}
    with pytest.raises(ValueError, match="n_params"):
        ModelShape.from_config(config)
    runner = fake_runner(config)
    shape = shape_of(runner)
    assert shape.n_params == runner.n_params
    assert len(update(shapes=(shape, None, ""))["records"]) > 1


def test_a_model_without_a_shape_keeps_its_measured_row_and_says_why_the_rest_is_missing():
    config = {**CONFIG, "model_type": "deepseek_v3", "kv_lora_rank": 512}
    shapes = cost_panel.shapes_of(fake_pair(target=fake_runner(config)))
    shown = update(shapes=shapes)
    assert shown["body"]["visible"] is True
    assert shown["chart"]["visible"] is False
    assert [r["provenance"] for r in shown["records"]] == ["measured"]
    assert shown["records"][0]["plain_usd_per_million_tokens"] == usd_per_million_tokens(0.1, 1000 / 21, 0.6)
    assert "deepseek_v3 compresses its KV (MLA), which is not covered" in shown["note"]
    assert EN("cost_no_price") not in shown["note"]
