"""What the server answers to a slider: figures, then charts, then what waits until the hand rests."""

import gradio as gr
import pytest
from fakes import PAIR
from finance_desk import EN, PEAK, PRICES, opened
from helpers.finance import a_loss, by_hand

from app import create_app
from app.finance import actions, tabs
from app.finance.desk import Desk


def moved(held, seq=1, value=3):
    return actions.edit(held, {"id": held.drawn, "seq": seq, "edits": {PEAK: {"value": value}}, "case": "base"}, EN)


def sent(answer, names):
    """What a list of outputs holds, without what is skipped."""
    return {name: value for name, value in zip(names, answer, strict=True) if value != gr.skip()}


def settled(held):
    return sent(actions.settle(held, PRICES, EN), tabs.NAMES)


@pytest.mark.parametrize("scenario", [by_hand(), a_loss()])
@pytest.mark.parametrize(("tab", "names"), [("cost", tabs.COST), ("tco", tabs.TCO)])
def test_three_answers_are_the_whole_tab_and_nothing_twice(scenario, tab, names):
    held = opened(tab, scenario)
    figures = sent(moved(held)[1:], tabs.FIGURES)
    charts = sent(tabs.as_list(tabs.charts_of(held, EN), tabs.CHARTS), tabs.CHARTS)
    rest = settled(held)
    assert sorted([*figures, *charts, *rest]) == sorted(names)
    assert figures
    assert charts
    sheets = {n: v for n, v in {**figures, **rest}.items() if n not in tabs.PLOTS}
    whole = tabs.all_of(held, PRICES, EN)
    assert sheets == {n: v for n, v in whole.items() if n not in (*tabs.PLOTS, *charts)}


def test_an_edit_of_a_form_that_is_no_longer_drawn_sends_nothing():
    held = opened("tco")
    assert sent(actions.edit(held, {"id": "another", "seq": 1}, EN)[1:], tabs.FIGURES) == {}


def test_before_anything_was_opened_there_is_only_a_sentence():
    held = Desk(tab="cost")
    assert list(tabs.figures(held, EN)) == ["cost_head"]
    assert tabs.charts_of(held, EN) == {}
    assert settled(held) == {}


def test_a_refused_edit_says_so_at_once_and_its_figures_stand():
    held = opened("cost")
    before = tabs.figures(held, EN)
    answer = sent(moved(held, value=0.5)[1:], tabs.FIGURES)
    assert answer["cost_cards"] == before["cost_cards"]
    assert "must be at least 1" in str(answer["cost_head"])


def test_no_sheet_or_chart_shows_the_progress_of_an_event():
    """Gradio's page copies the value of whatever does, at every later event."""
    page = create_app(PAIR, race=lambda *a, **k: ())
    large = {"sv-chart", "sv-cost-table", "sv-cost-note", "sv-rates", "sv-shelf", "sv-form"}
    large |= {f"sv-{name}" for name in ("cost-cards", "options", "cash", "gain", "fall", "years", "two-way", "load")}
    ours = [fn for fn in page.fns.values() if fn.fn and fn.fn.__module__ in ("app.finance.page", "app.cost_panel")]
    for fn in ours:
        if fn.show_progress == "hidden" and {o.elem_id for o in fn.outputs} & large:
            on = fn.show_progress_on if fn.show_progress_on is not None else fn.outputs
            on = on if isinstance(on, list) else [on]
            assert not {getattr(o, "elem_id", None) for o in on} & large, fn.fn.__name__


def test_a_slider_waits_for_few_outputs():
    page = create_app(PAIR, race=lambda *a, **k: ())
    edit, draw = (next(fn for fn in page.fns.values() if fn.fn and fn.fn.__name__ == name) for name in ("edit", "draw"))
    assert [o.elem_id for o in edit.outputs] == [
        "sv-answer", "sv-cost-title", "sv-cost-cards", "sv-tco-title", "sv-verdict", "sv-options",
    ]  # fmt: skip
    assert [o.elem_id for o in draw.outputs] == ["sv-fall-picks", "sv-fall", "sv-cash", "sv-gain"]
    assert draw.trigger_mode == "always_last"
