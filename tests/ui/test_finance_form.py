"""What is typed into the finance tabs' form: one reading or one sentence, and nothing of it is lost."""

import dataclasses

import pytest
from helpers.finance import a_loss, by_hand

from app.catalogue import Words
from app.finance import actions, faults, fields, form_view, tabs, tco_sheets
from app.finance import desk as desk_module
from app.finance.desk import Desk
from app.finance.edits import apply
from pricing import load_prices
from pricing.scenario_file import ScenarioError, scenario_from

EN, TR = Words("en"), Words("tr")
PEAK, RATE, CACHED = "workload.peak_factor", "cloud.0.parts.0.per_gpu_hour", "workload.cached_input_share"
INPUTS = by_hand().model_dump()


def desk(scenario=None, words=EN):
    held = Desk()
    held.open(scenario or by_hand(), "by_hand", words)
    return held


def edited(edits, words=EN, scenario=None):
    return apply(scenario or by_hand(), edits, words)


def test_an_edit_is_in_the_scenario_and_a_share_is_typed_in_percent():
    made = edited({PEAK: {"value": "2.5"}, CACHED: {"value": "30"}, "years": {"value": 3}})
    assert not made.faults
    assert (made.scenario.workload.peak_factor.value, made.scenario.workload.cached_input_share.value) == (2.5, 0.3)
    assert made.scenario.years == 3


def test_a_number_that_is_typed_over_a_quoted_one_is_assumed_and_says_what_it_was():
    figure = edited({RATE: {"value": 2.75}}).scenario.cloud[0].parts[0].per_gpu_hour
    assert (figure.value, figure.label) == (2.75, "assumed")
    assert "2.49" in figure.source
    assert "a price page" in figure.source
    kept = edited({RATE: {"value": 2.75, "label": "quoted", "source": "a contract"}}).scenario
    assert kept.cloud[0].parts[0].per_gpu_hour.label == "quoted"
    assert kept.cloud[0].parts[0].per_gpu_hour.source == "a contract"


def test_a_range_grows_to_hold_what_is_typed():
    figure = edited({RATE: {"value": 9}}).scenario.cloud[0].parts[0].per_gpu_hour
    assert (figure.low, figure.value, figure.high) == (2, 9, 9)


def test_ranges_and_cases_can_be_entered_and_taken_out():
    made = edited({PEAK: {"low": "1.5", "high": "4", "best": "", "worst": "5"}})
    assert not made.faults
    figure = made.scenario.workload.peak_factor
    assert (figure.low, figure.high) == (1.5, 4)
    assert (made.scenario.best, made.scenario.worst) == ({}, {PEAK: 5.0})
    gone = edited({RATE: {"low": "", "high": ""}}).scenario.cloud[0].parts[0].per_gpu_hour
    assert (gone.low, gone.high) == (None, None)


@pytest.mark.parametrize(
    ("edits", "key", "english", "turkish"),
    [
        ({PEAK: {"value": "0.5"}}, f"{PEAK}|value", "0.5 must be at least 1.", "0,5 olamaz; en az 1 olmalı."),
        ({RATE: {"value": 0}}, f"{RATE}|value", "0 must be above 0.", "0 olamaz; 0’dan büyük olmalı."),
        (
            {CACHED: {"value": 130}},
            f"{CACHED}|value",
            "130.0% must be from 0% to 100%.",
            "%130,0 olamaz; %0 ile %100 arasında olmalı.",
        ),
        (
            {PEAK: {"low": 3, "high": 4}},
            f"{PEAK}|low",
            "2 is not between its low 3 and its high 4.",
            "2, alt sınır 3 ile üst sınır 4 arasında değil.",
        ),
        ({PEAK: {"low": 1}}, f"{PEAK}|low", "give both low and high", "birlikte verin"),
        ({PEAK: {"label": "measured"}}, f"{PEAK}|source", "needs a source", "kaynağı yazılmalı"),
        ({PEAK: {"worst": 0.5}}, f"{PEAK}|worst", "0.5 must be at least 1.", "0,5 olamaz; en az 1 olmalı."),
        (
            {"serving.gpus_per_replica": {"value": 1.5}},
            "serving.gpus_per_replica|value",
            "a whole number",
            "bir tam sayı",
        ),
        (
            {"owned.0.idle_kw": {"value": 20}},
            "owned.0.idle_kw|value",
            "own rack takes 20 kW idle",
            "own rack boşta 20 kW",
        ),
        (
            {"cloud.0.parts.0.fleet_share": {"value": 40}},
            "cloud.0.parts.0.fleet_share|value",
            "add up to 40.0%",
            "toplamı %40,0",
        ),
        ({"years": {"value": 7}}, "years|value", "must be 1, 2, 3, 4 or 5 years", "1, 2, 3, 4 ya da 5 yıl"),
    ],
)
def test_what_cannot_be_has_its_sentence_and_the_rest_goes_on(edits, key, english, turkish):
    other = {"workload.input_tokens": {"value": 1500}}
    for words, told in ((EN, english), (TR, turkish)):
        # A number from a slider: in text, 0.5 is no Turkish notation.
        typed = {p: {f: float(v) if v == "0.5" else v for f, v in fs.items()} for p, fs in edits.items()}
        made = apply(by_hand(), {**other, **typed}, words)
        assert list(made.faults) == [key]
        assert told in made.faults[key]
        assert made.scenario.workload.input_tokens.value == 1500
        assert made.scenario.workload.peak_factor.value == 2


def test_two_shares_of_a_fleet_may_be_changed_together_and_not_one_alone():
    parts = [{"commitment": c, "per_gpu_hour": 2, "fleet_share": 0.5} for c in ("on_demand", "reserved_1yr")]
    mixed = by_hand(cloud__0__parts=parts)
    shares = [f"cloud.0.parts.{j}.fleet_share" for j in (0, 1)]
    both = {shares[0]: {"value": 70}, shares[1]: {"value": 30}}
    assert [p.fleet_share.value for p in edited(both, scenario=mixed).scenario.cloud[0].parts] == [0.7, 0.3]
    with_a_fault = {**both, RATE: {"value": -1}}
    made = edited(with_a_fault, scenario=mixed)
    assert list(made.faults) == [f"{RATE}|value"]
    assert [p.fleet_share.value for p in made.scenario.cloud[0].parts] == [0.7, 0.3]
    assert list(edited({shares[0]: {"value": 70}}, scenario=mixed).faults) == [f"{shares[0]}|value"]


@pytest.mark.parametrize(
    "sent",
    [
        None,
        7,
        "x",
        [],
        {"a": 1},
        {PEAK: None},
        {PEAK: {"value": {"x": 1}}},
        {"__class__": {"value": 1}},
        {"workload": {"value": 1}},
        {PEAK: {"source": "\ud800", "label": "x" * 9999}},
        {PEAK: {"value": "9" * 10_000}},
        {"cloud.9.parts.0.per_gpu_hour": {"value": 1}},
        {"years": {"value": "NaN"}},
        {PEAK: {"low": [], "best": {}}},
    ],
)
def test_whatever_a_browser_sends_is_an_edit_a_sentence_or_nothing(sent):
    made = edited(sent)
    assert made.scenario.model_copy(update={"workload": by_hand().workload, "best": {}}) == by_hand(best={})
    for sentence in made.faults.values():
        sentence.encode()
    form_view.drawn(desk(), EN)


# One path of each kind of number, and what it must not be.
DEMANDS = [
    ("workload.requests_per_day", 0), ("speculation.pilot", -1), ("workload.peak_factor", 0),
    ("workload.cached_input_share", 2), ("serving.busy_limit", 0), ("speculation.capacity_share_taken", 1),
    ("workload.growth_per_year", -1), ("serving.gpus_per_replica", 0), ("serving.spare_replicas", -1),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value"), DEMANDS)
def test_every_demand_of_a_number_is_told_in_both_languages(path, value):
    key = f"{path}|value"
    share = 100 if fields.is_share(path) else 1
    english, turkish = (edited({path: {"value": value * share}}, words).faults[key] for words in (EN, TR))
    assert " must be " in english
    assert "olmalı" in turkish


@pytest.mark.parametrize(
    ("change", "turkish"),
    [
        ({"cloud": [], "owned": [], "api": []}, "ödenecek bir şey yok"),
        ({"api": [{"name": "rented", "input_per_million": 1, "output_per_million": 1}]}, "iki seçeneğin adı rented"),
        ({"workload": {**INPUTS["workload"], "typo": 1}}, "böyle bir giriş yok"),
        (
            {"workload": {k: v for k, v in INPUTS["workload"].items() if k != "peak_factor"}},
            "Yoğunluk katsayısı: eksik",
        ),
        ({"best": {"a.b": 1}}, "a.b adında bir sayı yok"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_in_one_sentence(change, turkish):
    with pytest.raises(ScenarioError) as error:
        scenario_from({**INPUTS, **change}, "mine.toml")
    told = faults.file_told(str(error.value), TR)
    assert told.startswith("mine.toml kullanılamıyor.")
    assert turkish in told
    assert "\n" not in told
    assert "mine.toml cannot be used" in faults.file_told(str(error.value), EN)


@pytest.mark.parametrize(
    ("message", "english", "turkish"),
    [
        (
            "a.toml is not TOML: Invalid value (at line 1, column 8)",
            "a.toml is not TOML: Invalid value (at",
            "a.toml TOML değil:",
        ),
        ("a.toml is not UTF-8 text", "a.toml is not UTF-8 text.", "a.toml UTF-8 metni değil."),
        ("a.toml has 2,000,000 bytes; a scenario has fewer than 1,000,000", "too large", "fazla büyük"),
        ("a.toml has more than 1,000,000 bytes; a scenario has fewer", "too large", "fazla büyük"),
        ("no scenario is called x", "No scenario is called x.", "x adında bir senaryo yok."),
    ],
)
def test_a_file_that_is_none_is_told_in_both_languages(message, english, turkish):
    assert english in faults.file_told(message, EN)
    assert turkish in faults.file_told(message, TR)


def test_the_form_has_every_number_with_its_label_source_and_name_in_both_languages():
    for words in (EN, TR):
        drawn = form_view.drawn(desk(words=words), words)
        table = {row["path"]: row for group in drawn["table"] for row in group["rows"]}
        assert table.keys() == by_hand().figures().keys()
        for path, row in table.items():
            assert row["label"] != path
            assert row["cells"]["label"] in ("measured", "projected", "quoted", "assumed")
        drivers = [row["path"] for group in drawn["groups"] for row in group["rows"]]
        assert {PEAK, RATE, CACHED, "years", "owned.0.price", "owned.0.per_kwh", "cost_of_capital"} <= set(drivers)
        for group in drawn["groups"]:
            for row in group["rows"]:
                assert row["min"] <= row["num"] <= row["max"], row["path"]
        assert [option["name"] for option in drawn["options"]] == ["rented", "own rack", "an API"]


def test_an_option_with_a_headings_name_keeps_its_own_group():
    made = by_hand(cloud__0__name="work")
    groups = [group["title"] for group in form_view.drawn(desk(made), EN)["groups"]]
    assert groups.count("work") == 1
    assert "Demand" in groups


def test_edits_of_an_older_form_are_dropped():
    held = desk()
    assert not held.edit({"id": "another", "seq": 1, "edits": {PEAK: {"value": 3}}, "case": "base"}, EN)
    assert held.current == held.base
    assert held.edit({"id": held.drawn, "seq": 4, "edits": {PEAK: {"value": 3}}, "case": "worst"}, EN)
    assert held.now.scenario.workload.peak_factor.value == 4  # the case's own
    assert form_view.patch(held, EN)["in_case"] == {PEAK: "4"}
    assert form_view.patch(held, EN)["seq"] == 4
    assert form_view.patch(held, EN)["echo"][PEAK]["value"] == "3"


def test_a_message_that_a_newer_one_has_overtaken_is_dropped():
    held = desk()
    assert held.edit({"id": held.drawn, "seq": 2, "edits": {}, "case": "base"}, EN)
    assert not held.edit({"id": held.drawn, "seq": 1, "edits": {PEAK: {"value": 3}}, "case": "base"}, EN)
    assert held.current == held.base


def test_what_was_refused_stays_typed_when_the_form_is_drawn_anew():
    held = desk()
    held.edit({"id": held.drawn, "seq": 1, "edits": {PEAK: {"value": "zero"}, RATE: {"value": 3}}, "case": "base"}, EN)
    old = held.drawn
    held.put(held.current, EN)
    drawn = form_view.drawn(held, EN)
    assert drawn["id"] != old
    assert drawn["edits"] == {PEAK: {"value": "zero"}}
    assert f"{PEAK}|value" in drawn["faults"]
    assert held.current.cloud[0].parts[0].per_gpu_hour.value == 3


def test_numbers_beyond_what_a_scenario_holds_leave_the_last_figures():
    held = desk()
    before = held.now
    for value in (1e308, 10**400, "9" * 31):
        edits = {"workload.requests_per_day": {"value": value}}
        held.edit({"id": held.drawn, "seq": 1, "edits": edits, "case": "base"}, EN)
        assert [o.total for o in held.now.made.options] == [o.total for o in before.made.options]
        assert list(held.faults) == ["workload.requests_per_day|value"]


def test_what_cannot_be_calculated_all_the_same_is_told(monkeypatch):
    held = desk()
    before = held.now
    monkeypatch.setattr("app.finance.desk.tco", lambda scenario: 1 / 0)
    held.edit({"id": held.drawn, "seq": 1, "edits": {PEAK: {"value": 3}}, "case": "base"}, EN)
    assert held.now is before
    assert form_view.fault_lines(held, EN) == [EN("fault_too_large")]


def test_a_load_curve_that_misses_its_target_is_told_in_the_readers_language():
    curve = {arm: [{"busy_share": 0.5, "p95_s": 5}] for arm in ("plain", "speculative")}
    held = desk(a_loss(load_curve=curve, serving__p95_target_s=2, name="eğri"), TR)
    assert held.now is None
    assert "yük eğrisinin hiçbir noktasında yalın üretim P95’i 2 sn içinde tutmuyor" in held.faults[""]


def test_a_scenario_that_cannot_be_calculated_has_no_figures_of_the_one_before():
    held = desk()
    curve = {arm: [{"busy_share": 0.5, "p95_s": 5}] for arm in ("plain", "speculative")}
    held.open(a_loss(load_curve=curve, serving__p95_target_s=2), "", EN)
    assert held.now is None
    assert held.faults[""]
    assert form_view.drawn(held, EN)["id"] == held.drawn


def test_a_number_that_is_new_is_not_typed_over_by_what_stood_beside_a_refused_one():
    held = desk()
    typed = {PEAK: {"value": 3, "high": "abc"}}
    held.edit({"id": held.drawn, "seq": 1, "edits": typed, "case": "base"}, EN)
    assert held.current.workload.peak_factor.value == 3
    held.put(by_hand().with_values({PEAK: 7}), EN)
    assert held.current.workload.peak_factor.value == 7
    assert held.edits == {PEAK: {"high": "abc"}}
    assert f"{PEAK}|high" in held.faults


def test_an_edit_that_an_opening_overtakes_brings_nothing_of_the_older_scenario_back(monkeypatch):
    held = desk()
    real = apply

    def overtaken(base, given, words):
        applied = real(base, given, words)
        monkeypatch.setattr("app.finance.edits.apply", real)
        held.open(a_loss(), "loss", words)  # as another thread would, between the two
        return applied

    monkeypatch.setattr("app.finance.edits.apply", overtaken)
    assert not held.edit({"id": held.drawn, "seq": 1, "edits": {PEAK: {"value": 3}}, "case": "base"}, EN)
    assert held.current == held.base == a_loss()
    assert held.now.scenario == a_loss()


def test_figures_that_an_opening_overtakes_are_not_shown(monkeypatch):
    held = desk()
    real = desk_module.tco

    def overtaken(scenario):
        made = real(scenario)
        monkeypatch.setattr(desk_module, "tco", real)
        held.open(a_loss(), "loss", EN)
        return made

    monkeypatch.setattr(desk_module, "tco", overtaken)
    held.edit({"id": held.drawn, "seq": 1, "edits": {PEAK: {"value": 3}}, "case": "base"}, EN)
    assert held.now.scenario == a_loss()


def test_what_a_tab_shows_is_of_the_edit_that_overtook_it(monkeypatch):
    held = desk()
    held.tab = "tco"
    real = tabs.rest

    def overtaken(*given, **more):
        monkeypatch.setattr(tabs, "rest", real)
        made = real(*given, **more)
        held.edit({"id": held.drawn, "seq": 1, "edits": {RATE: {"value": 3}}, "case": "base"}, EN)  # another thread's
        return made

    monkeypatch.setattr(tabs, "rest", overtaken)
    shown_at_last = tabs.all_of(held, load_prices(), EN)
    assert held.current.cloud[0].parts[0].per_gpu_hour.value == 3
    assert shown_at_last["options"] == tco_sheets.options(held.now, EN)
    assert shown_at_last["years"] == real(held, load_prices(), EN)["years"]


def test_what_an_edit_overtakes_again_and_again_leaves_figures_to_the_edits_own_answers(monkeypatch):
    held = desk()
    held.tab = "tco"
    real, times = tabs.rest, iter(range(2, 100))

    def overtaken(*given, **more):
        made = real(*given, **more)
        n = next(times)
        held.edit({"id": held.drawn, "seq": n, "edits": {RATE: {"value": n}}, "case": "base"}, EN)
        return made

    monkeypatch.setattr(tabs, "rest", overtaken)
    shown_at_last = tabs.all_of(held, load_prices(), EN)
    assert not {*tabs.FIGURES, *tabs.CHARTS} & set(shown_at_last)
    assert "years" in shown_at_last


def test_a_case_can_be_chosen_as_soon_as_it_has_a_number():
    held = desk(by_hand(best={}, worst={}))
    whys = {case["value"]: case["why"] for case in form_view.patch(held, EN)["cases"]}
    assert whys["best"] == whys["worst"] == EN("case_none")
    held.edit({"id": held.drawn, "seq": 1, "edits": {PEAK: {"best": 1.5}}, "case": "base"}, EN)
    whys = {case["value"]: case["why"] for case in form_view.patch(held, EN)["cases"]}
    assert (whys["base"], whys["best"], whys["worst"]) == ("", "", EN("case_none"))


RATE_LINE = {"base": "USD", "quote": "TRY", "value": 45, "side": "selling", "day": "2026-11-27", "source": "TCMB"}


@pytest.mark.parametrize(
    ("entry", "turkish"),
    [
        ({"base": "XXX"}, "para birimlerinden biri değil"),
        ({"quote": "USD"}, "kur gerekmez"),
        ({"value": -1}, "0’dan büyük bir sayı olmalı"),
        ({"value": 4.5e8}, "rakamlarını denetleyin"),
        ({"value": 0.02}, "ters yazılmış; TRY/USD=0.02 olarak yazın"),
        ({"side": "mid"}, "bir kur türü değil"),
        ({"source": ""}, "kaynağı gerekli"),
        ({"day": "27 Kasım"}, "2026-11-30 biçiminde yazın"),
    ],
)
def test_a_rate_that_is_none_is_told_in_turkish(entry, turkish):
    with pytest.raises(ScenarioError) as caught:
        scenario_from({**INPUTS, "rates": [RATE_LINE | entry]})
    assert turkish in faults.file_told(str(caught.value), TR)
    assert scenario_from({**INPUTS, "rates": [RATE_LINE]}).rates


@pytest.mark.parametrize(
    ("changes", "turkish"),
    [
        ({"years": 9}, "9 olamaz; en çok 5 olmalı"),
        ({"years": 0}, "0 olamaz; en az 1 olmalı"),
        (
            {"serving": INPUTS["serving"] | {"requests_at_once": {"value": 8, "low": 4, "high": 16}}},
            "aynı anda işlenen istek sayısı seçilen bir değerdir",
        ),
    ],
)
def test_what_is_chosen_or_counted_is_refused_in_turkish(changes, turkish):
    with pytest.raises(ScenarioError) as caught:
        scenario_from(INPUTS | changes)
    assert turkish in faults.file_told(str(caught.value), TR)


def test_figures_of_a_tab_say_which_message_of_the_form_they_know_of():
    held = desk()
    first = actions.select(held, "tco", load_prices(), EN)[2]
    assert first == {"id": held.drawn, "beside": True, "seq": 0}
    held.edit({"id": held.drawn, "seq": 7, "edits": {RATE: {"value": 3}}, "case": "base"}, EN)
    assert actions.select(held, "cost", load_prices(), EN)[2]["seq"] == 7
    # A message that nothing could be calculated of is not known to figures that stand from before it.
    held.edit({"id": held.drawn, "seq": 8, "edits": {}, "case": "base"}, EN)
    held.now = dataclasses.replace(held.now, seq=7)
    assert actions.select(held, "tco", load_prices(), EN)[2]["seq"] == 7
