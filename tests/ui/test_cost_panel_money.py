"""The cost panel's money: each price in its own currency, the reader's at a given rate, reading and writing apart."""

from datetime import date
from types import SimpleNamespace

import pytest
from fakes import PAIR, fake_pair
from test_cost_panel_handlers import AT, CHOSEN, EN, PRICES, SHAPES, measured_session

from app import cost_view, head_cost
from app.cost_model import Assumed, Measured, cost_records
from app.cost_money import measured_parts
from engine.hardware import load_gpu_specs
from engine.heads.eagle import EagleShape
from engine.heads.medusa import MedusaShape
from engine.precision import find_precision
from engine.projection import StepCounts, project
from pricing import Exchange, PriceRow, PriceTable, Rate, Rates

DAY = date(2026, 11, 30)
EURO = Exchange("TRY", Rates([Rate("EUR", "TRY", 48.20, "selling", date(2026, 11, 27), "TCMB")]), "selling")


def price(**changes: object) -> PriceRow:
    return PriceRow.model_validate(
        {
            "provider": "Bulut", "instance": "eight", "gpu": "H100 SXM", "gpu_count": 8, "gpu_mem_gb": 80,
            "currency": "EUR", "per_hour": 19.92, "commitment": "on_demand", "as_of": date(2026, 11, 1),
            "source_url": "https://bulut.example/prices", "evidence": "A",
        }
        | changes
    )  # fmt: skip


EUROS = PriceTable.of([price()], "p.csv")
MIXED = PriceTable.of([price(), price(provider="Dollar", currency="USD")], "p.csv")


def measured(session=None, **more):
    fast, plain = (session or measured_session()).run.compared()
    return Measured(fast, plain, SHAPES[0], **more)


def update(prices, to=None, chosen=CHOSEN, session=None, pair=None):
    names = ("note", "body", "chart", "table", "derivation", "records")
    values = cost_view.update(session or measured_session(), chosen, SHAPES, prices, EN, to, pair)
    return dict(zip(names, values, strict=True))


def test_a_price_in_euro_has_its_cost_in_euro_and_is_drawn_with_its_sign():
    shown = update(EUROS)
    row = shown["table"]["data"][1]
    assert (row[AT["currency"]], row[AT["per_gpu_hour"]]) == ("EUR", 2.49)
    speed = shown["records"][1]["plain_tokens_per_second"]
    assert row[AT["plain_per_million_tokens"]] == pytest.approx(2.49 / (speed * 3600 * 0.6) * 1e6, rel=1e-3)
    assert shown["chart"]["value"].layout.xaxis.tickprefix == "€"


def test_at_a_rate_it_is_shown_in_lira_and_the_price_stays_beside_it():
    own, shown = update(EUROS)["table"]["data"][1], update(EUROS, EURO)["table"]["data"][1]
    assert shown[AT["currency"]] == "TRY"
    for key in ("per_gpu_hour", "plain_per_million_tokens", "speculative_per_million_output"):
        assert shown[AT[key]] == pytest.approx(own[AT[key]] * 48.20, rel=2e-3), key
    assert shown[AT["price_label"]] == "quoted, 2026-11-01, €2.490"
    derived = update(EUROS, EURO)["derivation"]
    assert "in TRY at 48.2 TRY per EUR, selling, TCMB, 2026-11-27" in derived


def test_what_no_rate_reaches_is_in_the_table_in_its_own_and_counted_off_the_chart():
    shown = update(MIXED)
    assert [row[AT["currency"]] for row in shown["table"]["data"]] == ["USD", "USD", "EUR"]
    assert "1 prices are in another currency (EUR)" in shown["note"]
    points = [trace for trace in shown["chart"]["value"].data if trace.mode == "markers"]
    assert [len(trace.x) for trace in points] == [1, 1]


def test_the_note_says_which_table_is_in_force():
    assert f"sha256 {EUROS.sha256[:12]}…" in update(EUROS)["note"]
    assert "with 1 of your own rows." in update(EUROS)["note"]


def test_the_measured_run_has_reading_and_writing_apart():
    session = measured_session()
    session.run.prompt_tokens = 1
    fast, plain = session.run.compared()
    # One prompt token is read in the first step's 21 ms; the 24 others take the rest.
    own = cost_records(Measured(fast, plain, SHAPES[0]), Assumed(own_usd_per_hour=0.5, busy_share=1.0), PRICES)[0]
    second = 0.5 / 3600
    assert own["plain_per_million_input"] == pytest.approx(second * 0.021 / plain.prompt_tokens * 1e6)
    assert own["plain_per_million_output"] == pytest.approx(second * 24 * 0.021 / 25 * 1e6)
    whole = own["plain_per_million_tokens"] * 25
    parts = own["plain_per_million_input"] * plain.prompt_tokens + own["plain_per_million_output"] * 25
    assert parts == pytest.approx(whole)


def test_a_run_without_a_time_to_first_token_is_not_split():
    assert measured_parts(None) is None
    assert measured_parts(SimpleNamespace(runs=1, ttft_s=None, output_tokens_per_second=5)) is None


def test_a_projection_splits_by_its_own_prefill_and_decode_seconds():
    row = cost_records(measured(), Assumed(busy_share=1.0), EUROS, today=DAY)[1]
    made = project(
        SHAPES[0], load_gpu_specs()["H100 SXM"], StepCounts.of(measured().speculative), precision=find_precision("bf16")
    )
    second = 2.49 / 3600
    assert row["plain_per_million_input"] == pytest.approx(
        second * made.plain.prefill_s_per_request / made.prompt_tokens * 1e6
    )
    assert row["speculative_per_million_output"] == pytest.approx(
        second * made.speculative.decode_s_per_request / made.output_tokens * 1e6
    )


def test_gpus_and_precision_go_into_the_projection_and_the_bill():
    one, two = (cost_records(measured(), Assumed(gpus=n), EUROS)[1] for n in (1, 2))
    assert (one["replicas"], two["replicas"]) == (8, 4)
    assert two["per_replica_hour"] == pytest.approx(2 * one["per_replica_hour"])
    assert two["plain_tokens_per_second"] != one["plain_tokens_per_second"]
    small = cost_records(measured(), Assumed(precision="int4"), EUROS)[1]
    assert small["plain_tokens_per_second"] > one["plain_tokens_per_second"]
    shown = update(EUROS, chosen=(*CHOSEN, 2, "int4"))["records"][1]
    assert shown["replicas"] == 4
    assert update(EUROS, chosen=(*CHOSEN, None, "int4"))["note"] == EN("cost_field_empty", name=EN("gpus"))


def eagle(**changes):
    whole = {
        "form": "eagle", "hidden_size": 576, "intermediate_size": 1536, "num_heads": 9, "num_kv_heads": 3,
        "head_dim": 64, "vocab_size": 49152, "draft_vocab_size": 49152,
    }  # fmt: skip
    return SimpleNamespace(shape=EagleShape(**(whole | changes)))


def test_a_trained_heads_own_size_is_what_its_draft_costs(monkeypatch):
    monkeypatch.setattr("engine.shipped.head_of", lambda pair, method: eagle())
    found = head_cost.head_draft(PAIR, "eagle", None)
    # 2 x 576 x 576 in front; queries 576 x 576, keys and values 2 x 576 x 192, output 576 x 576; MLP 3 x 576 x 1536;
    # the rows of 49,152 ids
    assert found.shape.n_params == 663_552 + 331_776 + 221_184 + 331_776 + 2_654_208 + 28_311_552
    assert (found.reads_prompt, found.forwards) == (True, None)
    monkeypatch.setattr(
        "engine.shipped.head_of",
        lambda pair, method: SimpleNamespace(shape=MedusaShape(4, 576, 49152, 49152)),
    )
    found = head_cost.head_draft(PAIR, "medusa", None)
    assert found.shape.n_params == 4 * 576**2 + 49152 * 576
    assert (found.reads_prompt, found.forwards) == (False, 1)


def test_a_run_of_a_trained_head_is_projected_with_what_the_head_costs(monkeypatch):
    session = measured_session(drafter="eagle")
    assert (
        update(EUROS, session=session, pair=fake_pair(heads={}))["records"][1]["speculative_tokens_per_second"] is None
    )  # no head, so no cost of one
    monkeypatch.setattr("engine.shipped.head_of", lambda pair, method: eagle())
    known = update(EUROS, session=session, pair=fake_pair(heads={}))["records"][1]
    free = update(EUROS)["records"][1]  # drafts looked up
    assert 0 < known["speculative_tokens_per_second"] < free["speculative_tokens_per_second"]
    assert "forwards of the eagle head" in known["how"]
