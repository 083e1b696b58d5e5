"""The cost panel without a browser: a measured run in, labelled figures out."""

import csv
import io

import pytest
from fakes import PAIR, drafted_step, plain_step

from app import cost_panel, explore
from app.catalogue import Words, catalogues
from app.cost_model import Assumed, Measured, cost_records
from engine.hardware import ModelShape
from pricing import load_prices, to_csv, usd_per_million_tokens

SHAPE = ModelShape.from_config(
    {
        "num_hidden_layers": 30, "hidden_size": 576, "intermediate_size": 1536, "num_attention_heads": 9,
        "num_key_value_heads": 3, "vocab_size": 49152, "tie_word_embeddings": True,
    }
)  # fmt: skip
SHAPES = (SHAPE, None, "")
PRICES = load_prices()
EN = Words("en")
CHOSEN = ("", "", 60, 1, 1024, 0.1)


def measured_session(drafted: bool = True) -> explore.Session:
    """A session as a finished run leaves it: the prompt read, then three steps in each arm."""
    session = explore.Session(run="r", state="done", k=5, drafter="prompt_lookup", device="cpu", where="m · cpu")
    step = drafted_step if drafted else plain_step
    session.speculative = [plain_step(0), *(step(i) for i in (1, 2, 3))]
    session.plain = [plain_step(i) for i in range(7)]
    return session


def update(chosen=CHOSEN, session=None, words=EN):
    names = ("note", "body", "chart", "table", "derivation", "records")
    values = cost_panel.update(session or measured_session(), chosen, SHAPES, PRICES, words)
    return dict(zip(names, values, strict=True))


def records(**assumed):
    session = measured_session()
    speculative, plain = session.measured()
    return cost_records(Measured(speculative, plain, 5, SHAPE, None, "cpu", "m · cpu"), Assumed(**assumed), PRICES)


def test_before_any_run_the_panel_says_what_will_appear():
    shown = update(session=explore.Session())
    assert shown["note"] == EN("cost_empty")
    assert shown["body"]["visible"] is False
    assert shown["records"] == []


def test_every_figure_carries_its_label():
    for record in update()["records"]:
        assert record["provenance"] in ("measured", "projected")
        assert record["price_label"] in ("quoted", "assumed")
        assert record["how"]
        assert record["formula"]


def test_only_this_machine_is_measured_and_its_price_is_the_users_own():
    first, *others = records(own_usd_per_hour=0.5, busy_share=0.5)
    assert (first["provenance"], first["price_label"]) == ("measured", "assumed")
    speed = first["plain_tokens_per_second"]
    assert first["plain_usd_per_million_tokens"] == usd_per_million_tokens(0.5, speed, 0.5)
    assert {r["provenance"] for r in others} == {"projected"}
    assert {r["gpu"].split()[0] for r in others} == {"A100", "H100", "B200"}


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
    assert update(("Lambda", "spot", 60, 1, 1024, 0.1))["note"] == EN("cost_no_price")


def test_without_drafts_there_is_no_speculative_cost_to_project():
    shown = update(session=measured_session(drafted=False))
    assert shown["note"] == EN("cost_no_gain")
    assert all(r["speculative_usd_per_million_tokens"] is None for r in shown["records"][1:])
    assert all(r["plain_usd_per_million_tokens"] is not None for r in shown["records"][1:])


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
        assert row[5] == pytest.approx(float(line["plain_usd_per_million_tokens"]), rel=1e-3)
    drawn = sum(len(trace.x) for trace in shown["chart"].data if trace.mode == "markers")
    assert drawn == 2 * (len(rows) - 1)


def test_the_chart_keeps_numeric_axes():
    chart = update()["chart"]
    assert chart.layout.xaxis.type == "linear"
    assert all(isinstance(x, float) for trace in chart.data for x in trace.x)


def test_a_projected_row_derives_itself_down_to_its_assumptions():
    shown = update()
    text = cost_panel.derive(shown["records"][1])
    for part in ("TB/s", "max(memory", "(assumed)", "(measured)", "(quoted)", "quoted", "https://"):
        assert part in text, part


def test_a_selected_row_is_found_whatever_the_order():
    from app.cost_model import same_row

    all_rows = update()["records"]
    wanted = all_rows[len(all_rows) // 2]
    found = same_row(list(reversed(all_rows)), wanted["gpu_label"], wanted["instance"], wanted["usd_per_gpu_hour"])
    assert found["usd_per_gpu_hour"] == wanted["usd_per_gpu_hour"]


def test_a_model_the_roofline_does_not_cover_says_why():
    values = cost_panel.update(measured_session(), CHOSEN, (None, None, "no formula for this model"), PRICES, EN)
    assert values[0] == "no formula for this model"


def test_both_catalogues_say_the_same_things():
    english, turkish = catalogues()["en"], catalogues()["tr"]
    assert english.keys() == turkish.keys()
    for key, text in english.items():
        placeholders = {part.split("}")[0] for part in text.split("{")[1:]}
        assert placeholders == {part.split("}")[0] for part in turkish[key].split("{")[1:]}, key


def test_the_page_can_be_built_twice(monkeypatch):
    from types import SimpleNamespace

    from app import create_app

    pair = SimpleNamespace(**{**PAIR.__dict__, "context_length": 512})
    assert create_app(pair, race=lambda *a, **k: ()) is not create_app(pair, race=lambda *a, **k: ())


def test_a_short_context_still_gives_a_form_that_is_valid_as_it_stands():
    from app import create_app

    pair = type("P", (), {"target": PAIR.target, "device": "cpu", "dtype": "f32", "draft": None, "context_length": 32})
    page = create_app(pair, race=lambda *a, **k: ())
    for block in page.blocks.values():
        if block.get_block_name() == "slider":
            assert block.minimum <= block.value <= block.maximum


def test_nothing_is_shared_recorded_or_sent():
    from app.main import PRIVATE, create_app

    pair = type("P", (), {"target": PAIR.target, "device": "cpu", "dtype": "f32", "draft": None, "context_length": 9})
    page = create_app(pair, race=lambda *a, **k: ())
    assert page.analytics_enabled is False
    assert PRIVATE["share"] is False
    assert PRIVATE["run_history"] is False
    engine_runs = [fn for fn in page.fns.values() if fn.concurrency_id == "engine"]
    assert [fn.concurrency_limit for fn in engine_runs] == [1]
    assert all(not fn.queue for fn in page.fns.values() if fn.fn and fn.fn.__name__ == "refresh" and fn.trigger_mode)
