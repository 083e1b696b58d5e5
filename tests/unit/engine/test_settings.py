"""Settings are checked when they are made: one sentence that names the field, before anything runs."""

import dataclasses
import json
import math
import re

import pytest
from helpers.models import pair_of, wanders

import engine
from engine import DecodeSettings, EngineError

NAN, INF = float("nan"), float("inf")
BAD = [
    ("k", [-1, 65, 1.5, 5.0, "5", None, True, NAN]),
    ("max_new_tokens", [-1, 0.5, "10", None, True, INF, 10**12]),
    ("temperature", [-0.1, NAN, INF, -INF, "1", None, True, 101, 10**400]),
    ("top_k", [-2, 1.5, "5", None, True, NAN]),
    ("top_p", [-0.1, 1.1, NAN, INF, "0.9", None, True]),
    ("min_p", [-0.1, 1.1, NAN, INF, "0.1", None, True]),
    ("repetition_penalty", [0, 0.0, -1, NAN, INF, "1.1", None, True, 101]),
    ("seed", [-1, 1.5, "1", True, 2**63, NAN]),
    ("stop", ["", ("",), ("a", ""), (1,), None, 5, (None,)]),
    ("tree_nodes", [-1, 65, 1.5, "16", True, NAN]),
    ("k_control", ["", "Fixed", "auto", None, 1, True, ["fixed"]]),
    ("confidence_threshold", [-0.1, 1.1, NAN, INF, "0.4", None, True]),
]


@pytest.mark.parametrize(("field", "value"), [(f, v) for f, values in BAD for v in values], ids=lambda v: repr(v)[:24])
def test_a_value_without_a_meaning_is_one_sentence_that_names_its_field(field, value):
    with pytest.raises(EngineError) as raised:
        DecodeSettings(**{field: value})
    message = str(raised.value)
    assert re.match(rf"{field} must be ", message)
    assert "\n" not in message
    assert len(message) < 600


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("k", 0), ("k", 64), ("max_new_tokens", 0), ("max_new_tokens", 1_000_000), ("temperature", 0),
        ("temperature", 100), ("top_k", -1), ("top_k", 0), ("top_k", 10**9), ("top_p", 0), ("top_p", 1), ("min_p", 0),
        ("min_p", 1), ("repetition_penalty", 0.01), ("repetition_penalty", 100), ("seed", 0), ("seed", 2**63 - 1),
        ("seed", None), ("stop", ()), ("stop", ["a", "b"]), ("ignore_eos", True), ("tree_nodes", 0), ("tree_nodes", 64),
        ("tree_nodes", None), ("k_control", "cost"), ("confidence_threshold", 0), ("confidence_threshold", 1),
    ],
)  # fmt: skip
def test_the_edges_of_each_range_are_inside(field, value):
    assert getattr(DecodeSettings(**{field: value}), field) in (value, tuple(value) if field == "stop" else value)


def test_one_stop_string_is_one_stop_and_not_its_letters():
    assert DecodeSettings(stop="END").stop == ("END",)
    assert DecodeSettings(stop=["END", "\n"]).stop == ("END", "\n")


def test_the_defaults_are_the_published_ones():
    expected = {
        "k": 5, "max_new_tokens": 128, "temperature": 0.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0,
        "repetition_penalty": 1.0, "stop": (), "seed": None, "ignore_eos": False, "tree_nodes": None,
        "k_control": "fixed", "confidence_threshold": 0.4,
    }  # fmt: skip
    assert dataclasses.asdict(DecodeSettings()) == expected


def test_settings_cannot_be_changed_under_a_run():
    with pytest.raises(dataclasses.FrozenInstanceError):
        DecodeSettings().k = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("temperature", "greedy"), [(0, True), (1e-6, True), (9.9e-6, True), (1e-5, False), (1.0, False)]
)
def test_a_temperature_below_the_threshold_is_greedy(temperature, greedy):
    assert DecodeSettings(temperature=temperature).greedy is greedy


def test_a_run_with_bad_settings_leaves_the_next_one_untouched():
    pair = pair_of(wanders(16))
    with pytest.raises(EngineError, match="repetition_penalty must be a number above 0"):
        engine.generate(pair, [1, 2], DecodeSettings(repetition_penalty=0))
    assert pair.target.model.widths == []
    assert len(engine.generate(pair, [1, 2], DecodeSettings(max_new_tokens=3)).token_ids) == 3


def test_names_that_do_not_exist_are_refused_with_the_ones_that_do():
    pair = pair_of(wanders(16))
    with pytest.raises(EngineError, match=r"unknown drafter 'magic'.*none, prompt_lookup, .*model"):
        engine.generate(pair, [1], drafter="magic")
    with pytest.raises(EngineError, match=r"unknown verifier 'typicaly'.*rejection, block, match"):
        engine.generate(pair, [1], verifier="typicaly")
    with pytest.raises(EngineError, match=r"needs a draft model.*prompt_lookup"):
        engine.generate(pair, [1], drafter="model")


@pytest.mark.parametrize(
    ("drafter", "verifier", "values", "says"),
    [
        ("eagle", "rejection", {}, r"'eagle' needs a head.*train-head --method eagle"),
        ("medusa", "rejection", {}, r"'medusa' needs a head.*train-head --method medusa"),
        ("prompt_lookup", "rejection", {"tree_nodes": 7}, r"'prompt_lookup' drafts chains.*suffix"),
        ("model", "rejection", {"tree_nodes": 1}, r"'model' drafts chains.*tree_nodes"),
        ("early_exit", "match", {"tree_nodes": 7}, r"'early_exit' drafts chains"),
        ("suffix", "block", {"tree_nodes": 7}, r"block verification judges chains.*'rejection'"),
        ("early_exit", "rejection", {}, r"early exit.*1 layer\b"),
    ],
)
def test_what_a_pair_or_a_drafter_cannot_do_is_refused_before_any_forward(drafter, verifier, values, says):
    pair = pair_of(wanders(16), draft=wanders(16))
    with pytest.raises(EngineError, match=says) as raised:
        engine.generate(pair, [1], DecodeSettings(**values), drafter=drafter, verifier=verifier)
    assert "\n" not in str(raised.value)
    assert pair.target.model.widths == pair.draft.model.widths == []


def test_the_json_form_holds_every_field_and_nothing_that_json_cannot_say():
    values = DecodeSettings(stop=("a",), seed=3).as_dict()
    assert set(values) == {f.name for f in dataclasses.fields(DecodeSettings)}
    assert json.loads(json.dumps(values, allow_nan=False)) == values
    assert all(not isinstance(v, float) or math.isfinite(v) for v in values.values())
