"""A scenario is refused with a sentence, or written and read again without loss."""

import pytest
from helpers.scenarios import BY_HAND, scenario
from hypothesis import given
from hypothesis import strategies as st

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


def test_controls_and_quotes_in_a_text_survive():
    made = scenario(about='line\none "two" \\ \x7f ğüş \u2028')
    assert parse_scenario(dump_scenario(made)) == made


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"workload__requests_per_day": 0}, "workload.requests_per_day: 0 must be above 0"),
        ({"workload__requests_per_day": float("nan")}, "is not a finite number"),
        ({"workload__requests_per_day": float("inf")}, "is not a finite number"),
        ({"workload__requests_per_day": True}, "is not a finite number"),
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
        ({"years": 6}, "years"),
        ({"currency": "JPY"}, "currency"),
        ({"cloud": []}, "nothing to pay"),
        ({"cloud": [BY_HAND["cloud"][0], BY_HAND["cloud"][0]]}, "two options are called rented"),
        ({"cloud__0__parts__0__fleet_share": 0.4}, "add up to 0.4"),
        ({"cloud__0__parts__0__fleet_share": {"value": 1, "low": 0.5, "high": 1}}, "give it one value"),
        ({"best": {"workload.nothing": 1}}, "no number called workload.nothing"),
        ({"worst": {"workload.peak_factor": 0}}, "at least 1"),
        ({"load_curve": {"plain": [{"busy_share": 0.5, "p95_s": 1}]}}, "needs both arms"),
    ],
)
def test_what_cannot_be_is_refused_by_its_place(changes, told):
    with pytest.raises(ScenarioError) as error:
        scenario(**changes)
    assert told in str(error.value)


def test_every_fault_is_told_at_once():
    with pytest.raises(ScenarioError) as error:
        scenario(workload__peak_factor=0, workload__input_tokens=-1, serving__busy_limit=2)
    assert len(str(error.value).splitlines()) == 3


@pytest.mark.parametrize("text", ["name = ", "a" * 2, "[[", "x = " + "[" * 100_000])
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
