"""A scenario is refused with a sentence, or written and read again without loss."""

import pytest
from helpers.scenarios import BY_HAND, scenario
from hypothesis import given
from hypothesis import strategies as st

from pricing.scenario import CASES
from pricing.scenario_file import (
    ScenarioError,
    dump_scenario,
    load_scenario,
    parse_scenario,
    save_scenario,
    scenario_from,
)

TEXT = st.text(min_size=1, max_size=30).filter(lambda t: t.strip() and t.isprintable())
AMOUNT = st.floats(min_value=1e-6, max_value=1e12)


@given(
    name=TEXT,
    source=TEXT,
    value=AMOUNT,
    more=st.floats(min_value=1, max_value=9),
    years=st.integers(1, 5),
    excluded=st.lists(TEXT, max_size=3),
)
def test_what_is_written_is_read_again_as_it_was(name, source, value, more, years, excluded):
    made = scenario(
        name=name,
        years=years,
        excluded=excluded,
        workload__requests_per_day={
            "value": value, "low": value / more, "high": value * more, "label": "measured", "source": source,
        },
        owned=[{"name": name + "!", "gpus_per_server": 8, "price": value, "idle_kw": 0, "active_kw": 1, "per_kwh": 0}],
        load_curve={arm: [{"busy_share": 0.5, "p95_s": 1}] for arm in ("plain", "speculative")},
        serving__p95_target_s=2,
        best={"workload.peak_factor": 1},
    )  # fmt: skip
    assert parse_scenario(dump_scenario(made)) == made


def test_lines_and_quotes_in_a_text_survive():
    made = scenario(about='line\none "two" \\ \t ğüş \u2028')
    assert parse_scenario(dump_scenario(made)) == made


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"workload__requests_per_day": 0}, "workload.requests_per_day: 0 must be above 0"),
        ({"workload__requests_per_day": float("nan")}, "is not a finite number"),
        ({"workload__requests_per_day": float("inf")}, "is not a finite number"),
        ({"workload__requests_per_day": True}, "requests_per_day.value: true is a yes or no; write a number"),
        ({"workload__requests_per_day": "5"}, "is not a finite number"),
        ({"workload__requests_per_day": {"value": 5, "low": 1}}, "both low and high"),
        ({"workload__requests_per_day": {"value": 5, "low": 6, "high": 9}}, "not between its low 6 and its high 9"),
        ({"workload__requests_per_day": {"value": 5, "low": 0, "high": 9}}, "0 must be above 0"),
        ({"workload__requests_per_day": {"value": 5, "label": "measured"}}, "needs a source"),
        ({"workload__peak_factor": 0.5}, "at least 1"),
        ({"workload__cached_input_share": 50}, "a share from 0 to 1"),
        ({"workload__typo": 1}, "workload.typo: there is no such entry"),
        ({"serving__gpus_per_replica": 1.5}, "a whole number"),
        ({"serving__busy_limit": 0}, "above 0"),
        ({"years": 6}, "years: 6 must be at most 5"),
        ({"years": True}, "years: true (yes or no) is not a whole number"),
        ({"years": "3"}, "years: '3' is not a whole number"),
        ({"worst": {"workload.peak_factor": True}}, "worst.workload.peak_factor: true (yes or no) is not a number"),
        ({"best": {"workload.peak_factor": "3"}}, "'3' is not a number"),
        ({"years": 0}, "years: 0 must be at least 1"),
        ({"years": 2.5}, "years: 2.5 is not a whole number"),
        ({"years": "three"}, "years: 'three' is not a whole number"),
        ({"name": ""}, "name: it is blank"),
        ({"name": 5}, "name: 5 is not a text; put it in quotes"),
        ({"name": "a\x1bb"}, "name: it holds U+001B, which cannot be shown"),
        ({"cloud__0__name": "a\uffffb"}, "cloud.0.name: it holds U+FFFF"),
        ({"name": "a\u202eb"}, "name: it holds U+202E"),
        ({"name": "  "}, "name: it is blank"),
        ({"about": "a\0b"}, "about: it holds U+0000"),
        ({"excluded": ["rent", "a\x07"]}, "excluded.1: it holds U+0007"),
        ({"workload__peak_factor": {"value": 2, "source": "a\x1bb"}}, "workload.peak_factor.source: it holds U+001B"),
        ({"workload__requests_per_day": 1e300}, "1e+300 is beyond what a scenario can hold"),
        ({"workload__output_tokens": 1e-300}, "1e-300 is beyond"),
        ({"name": "x" * 81}, "name: it is longer than 80 characters"),
        ({"cloud": {"name": "rented"}}, "cloud: what stands there is not a list"),
        ({"serving": 3}, "serving: 3 is not a table of entries"),
        ({"cloud__0__parts": []}, "cloud.0.parts: it is empty; give at least 1"),
        ({"currency": "JPY"}, "currency: 'JPY' is none that there is; write 'USD'"),
        ({"cloud": []}, "nothing to pay"),
        ({"cloud": [BY_HAND["cloud"][0], BY_HAND["cloud"][0]]}, "two options are called rented"),
        ({"cloud__0__parts__0__fleet_share": 0.4}, "add up to 0.4"),
        ({"cloud__0__parts__0__fleet_share": {"value": 1, "low": 0.5, "high": 1}}, "give it one value"),
        ({"best": {"workload.nothing": 1}}, "best: there is no number called workload.nothing"),
        ({"best": {"workload.peak_facto": 2}}, "the nearest is workload.peak_factor"),
        ({"worst": {"workload.peak_factor": 0}}, "worst: workload.peak_factor: 0 must be at least 1"),
        ({"worst": {"workload.peak_factor": "high"}}, "worst.workload.peak_factor: 'high' is not a number"),
        ({"load_curve": {"plain": [{"busy_share": 0.5, "p95_s": 1}]}}, "needs both arms"),
    ],
)
def test_what_cannot_be_is_refused_by_its_place(changes, told):
    with pytest.raises(ScenarioError) as error:
        scenario(**changes)
    assert told in str(error.value)


def test_texts_in_any_script_are_kept_as_they_are():
    name, about = "Müşteri \U0001fae8 عربي\u200c\u200d\U0001f469", "first\n\tsecond, İstanbul'da"
    made = scenario(name=name, about=about)
    assert (made.name, made.about) == (name, about)


def test_no_sentence_is_pydantics_own():
    with pytest.raises(ScenarioError) as error:
        scenario(cloud__0__parts__0__commitment="on-demand", years=9, name="", currency="usd", about=7)
    said = str(error.value)
    assert len(said.splitlines()) == 5  # the part is not also said to be missing
    assert not any(words in said for words in ("Input should", "validation", "String", "Tuple"))


def test_every_fault_is_told_at_once():
    with pytest.raises(ScenarioError) as error:
        scenario(workload__peak_factor=0, workload__input_tokens=-1, serving__busy_limit=2)
    assert len(str(error.value).splitlines()) == 3


@pytest.mark.parametrize("text", ["name = ", "a" * 2, "[[", "x = " + "[" * 100_000, "x = " + "9" * 5000])
def test_what_is_no_toml_is_said_so(text):
    with pytest.raises(ScenarioError, match="is not TOML"):
        parse_scenario(text, "a.toml")


def test_files_that_cannot_be_read_are_told(tmp_path):
    with pytest.raises(ScenarioError, match=r"nothing\.toml cannot be read"):
        load_scenario(tmp_path / "nothing.toml")
    (tmp_path / "latin.toml").write_bytes(b"name = '\xff'")
    with pytest.raises(ScenarioError, match="not UTF-8"):
        load_scenario(tmp_path / "latin.toml")
    (tmp_path / "big.toml").write_bytes(b"#" * 1_000_001)
    with pytest.raises(ScenarioError, match="fewer than"):
        load_scenario(tmp_path / "big.toml")


def test_a_saving_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "mine.toml"
    save_scenario(scenario(name="old"), path)
    monkeypatch.setattr("pricing.scenario_file.os.replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        save_scenario(scenario(name="new"), path)
    assert load_scenario(path).name == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["mine.toml"]


def test_other_values_are_checked_and_the_original_stays():
    base = scenario()
    other = base.with_values({"cloud.0.parts.0.per_gpu_hour": 3.0, "workload.peak_factor": 4})
    assert other.cloud[0].parts[0].per_gpu_hour.value == 3.0
    assert base.cloud[0].parts[0].per_gpu_hour.value == 2.49
    with pytest.raises(ValueError, match="above 0"):
        base.with_values({"cloud.0.parts.0.per_gpu_hour": 0})


def test_a_bare_number_is_an_assumption():
    assert scenario_from(BY_HAND).workload.peak_factor.label == "assumed"


@pytest.mark.parametrize("path", ["cost_of_capital", "owned__0__support_share_per_year"])
@pytest.mark.parametrize(
    ("value", "told"), [(20, "20 is 2,000 % a year; write 0.2 for 20 %"), (-0.1, "-0.1 must be at least 0")]
)
def test_a_percentage_written_whole_is_told_how_to_write_it(path, value, told):
    with pytest.raises(ScenarioError, match=told):
        scenario(**{"owned": [{**OWN}], path: value})


@pytest.mark.parametrize("path", ["tax_share", "cloud__0__support_share", "owned__0__network_share"])
def test_a_rate_of_a_bill_is_at_most_all_of_it(path):
    with pytest.raises(ScenarioError, match=r"20 is 2,000 % of it; write 0.2 for 20 %"):
        scenario(**{"owned": [{**OWN}], path: 20})
    assert scenario(**{"owned": [{**OWN}], path: 1})


def test_growth_may_be_tenfold_and_not_twentyfold():
    assert scenario(workload__growth_per_year=4).workload.growth_per_year.value == 4
    with pytest.raises(ScenarioError, match=r"20 is 2,000 % more a year; write 0.2 for 20 %"):
        scenario(workload__growth_per_year=20)


OWN = {"name": "own", "gpus_per_server": 8, "price": 300_000, "idle_kw": 2, "active_kw": 10, "per_kwh": 0.1}


def test_idle_power_may_not_be_drawn_above_busy_power():
    apart = {**OWN, "idle_kw": {"value": 2, "low": 1, "high": 4}, "active_kw": {"value": 10, "low": 4, "high": 12}}
    assert scenario(owned=[apart])
    with pytest.raises(ScenarioError, match="own takes up to 5 kW idle and from 4 kW busy"):
        scenario(owned=[{**apart, "idle_kw": {"value": 2, "low": 1, "high": 5}}])


def test_a_changed_number_is_assumed_in_place_of_what_it_was():
    quoted = {"value": 6.88, "label": "quoted", "source": "AWS p5.48xlarge", "low": 5, "high": 8}
    base = scenario(cloud__0__parts__0__per_gpu_hour=quoted)
    path = "cloud.0.parts.0.per_gpu_hour"
    changed = base.with_values({path: 3, "workload.peak_factor": 3})
    price = changed.figures()[path]
    assert (price.value, price.label, price.low) == (3, "assumed", None)
    assert price.source == "in place of 6.88 (quoted: AWS p5.48xlarge)"
    assert changed.workload.peak_factor.source == "in place of 2 (assumed)"
    assert base.with_values({path: 6.88}).figures()[path] == base.figures()[path]


def test_each_number_knows_what_it_may_be():
    made = scenario(owned=[OWN], serving__p95_target_s=2)
    assert all(made.bounds(path) is not None for path in made.figures())
    assert made.bounds("serving.p95_target_s").low_open
    assert made.bounds("serving.gpus_per_replica").whole
    assert made.bounds("workload.hours_on_share").high == 1
    for path in ("nothing", "cloud.3.name", "cloud.0.parts.0.nothing", "serving.plain.nothing.more"):
        with pytest.raises(ValueError, match="no number called"):
            made.bounds(path)
    assert made.bounds("name") is None


def test_a_case_is_the_scenario_with_that_cases_numbers():
    made = scenario(best={"workload.peak_factor": 1.5}, worst={"workload.peak_factor": 4})
    assert made.in_case("base") is made
    assert [made.in_case(case).workload.peak_factor.value for case in CASES] == [2, 1.5, 4]
    assert scenario().in_case("worst") == scenario()


@pytest.mark.parametrize("line", ["price = 3,40", "price = { value = 3,40, source = 'x' }"])
def test_a_decimal_comma_in_a_file_is_told_how_to_be_written(line):
    with pytest.raises(ScenarioError, match=r"write 3\.40 with a point, not 3,40"):
        parse_scenario(f"name = 'x'\n{line}\n", "mine.toml")
