"""The Explore tab's handlers as plain generators over a fake race: no browser, no model."""

import copy
import json

import pytest
from fakes import PAIR, FakeRace, drafted_step, items, plain_step, token

from app import explore
from app.catalogue import Words
from app.components.token_view import encode_step
from engine.errors import EngineError
from engine.trace import Replacement, Step

FORM = explore.Form("hello", "prompt_lookup", 5, "rejection", 0.0)


class Clock:
    """Each look at the clock finds `tick` seconds gone."""

    def __init__(self, tick: float):
        self.now, self.tick = 0.0, tick

    def __call__(self) -> float:
        self.now += self.tick
        return self.now


def run(race, session=None, form=FORM, tick=0.02):
    session = session or explore.Session()
    return list(explore.run(PAIR, session, form, race, clock=Clock(tick)))


def test_updates_are_coalesced_to_at_most_the_stated_rate():
    views = run(FakeRace(items(100)), tick=0.01)  # 200 items in 2 seconds of the fake clock
    assert 15 <= len(views) <= 2 * explore.UPDATES_PER_SECOND + 3


def test_slow_steps_are_shown_one_by_one():
    views = run(FakeRace(items(10)), tick=0.5)
    assert len(views) == 20 + 2  # the start and the end


def test_the_first_step_is_shown_at_once():
    views = explore.run(PAIR, explore.Session(), FORM, FakeRace(items(50)), clock=Clock(0.001))
    next(views)
    _, tokens, _ = next(views)
    assert len(tokens["steps"]) == 1


def test_every_step_arrives_exactly_once_and_in_order():
    views = run(FakeRace(items(40)))
    steps = [json.loads(s)["index"] for s in views[-1][1]["steps"]]
    assert steps == list(range(40))
    for _, tokens, _ in views:
        assert tokens["steps"] == views[-1][1]["steps"][: len(tokens["steps"])]


def test_closing_the_generator_frees_the_model_within_one_step():
    race = FakeRace(items(100))
    views = explore.run(PAIR, explore.Session(), FORM, race, clock=Clock(1.0))
    next(views), next(views), next(views)
    given = race.given
    views.close()
    assert race.cancel.is_set()
    assert race.given == given


def test_stop_ends_the_run_at_the_next_check_and_shows_what_there_is():
    session = explore.Session()
    race = FakeRace(items(100), on_step=lambda r: explore.stop(session) if r.given == 5 else None)
    views = run(race, session)
    assert race.given <= 6
    status, tokens, _ = views[-1]
    assert status["state"] == "stopped"
    assert len(tokens["steps"]) == 3


def test_stop_before_any_run_says_so_and_does_nothing():
    assert explore.stop(explore.Session())[0]["state"] == "idle"


def test_an_engine_error_is_shown_as_its_one_sentence_and_the_next_run_works():
    session = explore.Session()
    failed = run(FakeRace(items(2), error=EngineError("the prompt is empty; type something")), session)
    assert failed[-1][0]["state"] == "failed"
    assert failed[-1][0]["message"] == "the prompt is empty; type something"
    assert run(FakeRace(items(2)), session)[-1][0]["state"] == "done"


def test_an_unforeseen_exception_shows_a_sentence_and_no_traceback(caplog):
    views = run(FakeRace(items(2), error=RuntimeError("secret path /srv/x")))
    assert views[-1][0]["message"] == Words("en")("failed_unexpected")
    assert "secret" not in json.dumps(views)
    assert "secret" in caplog.text  # the server's log has it


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("k", None, "“K” is empty"),
        ("k", 2.5, "whole number"),
        ("temperature", -1, "temperature"),
        ("repetition_penalty", 0, "repetition_penalty"),
        ("max_new_tokens", None, "“Longest answer, tokens” is empty"),
        ("seed", "1.5", "whole number"),
        ("prompt", "  ", "The prompt is empty"),
    ],
)
def test_a_bad_field_is_named_in_the_sentence_and_the_engine_is_never_called(field, value, says):
    race = FakeRace(items(2))
    views = run(race, form=explore.Form(**{**FORM.__dict__, field: value}))
    assert views[-1][0]["state"] == "failed"
    assert says in views[-1][0]["message"]
    assert race.cancel is None


def test_the_users_k_and_stop_strings_reach_the_engine():
    race = FakeRace(items(1))
    run(race, form=explore.Form(**{**FORM.__dict__, "k": 9.0, "stop": "END\n\nFIN", "seed": " 3 "}))
    assert (race.settings.k, race.settings.stop, race.settings.seed) == (9, ("END", "FIN"), 3)


def test_an_empty_seed_field_leaves_the_seed_to_the_engine():
    race = FakeRace(items(1))
    run(race)
    assert race.settings.seed is None


def test_two_sessions_share_nothing():
    one, two = explore.Session(), explore.Session()
    first = explore.run(PAIR, one, FORM, FakeRace(items(9)), clock=Clock(1.0))
    next(first), next(first)
    run(FakeRace([("speculative", drafted_step(0))]), two)
    assert one.run != two.run
    assert (len(one.speculative), len(two.speculative)) == (1, 1)
    assert one.records != two.records
    assert not one.cancel.is_set()


def test_a_new_run_forgets_the_one_before():
    session = explore.Session()
    run(FakeRace(items(5)), session)
    before = session.run
    views = run(FakeRace([("speculative", drafted_step(0)), ("plain", plain_step(0))]), session)
    assert (views[0][1]["run"], views[0][1]["state"], views[0][1]["steps"]) == (session.run, "starting", [])
    assert session.run != before
    assert len(views[-1][1]["steps"]) == 1


def test_figures_before_any_draft_are_absent_not_zero():
    _, _, figures = run(FakeRace(items(3)))[-1]
    assert figures["tau"] is None
    assert figures["accept_rate"] is None
    assert figures["per_position"] == []


def test_a_slow_down_is_reported_as_one():
    slow = Step(1, (7,), ("a",), (token("a"),), (), Replacement("bonus", token("a"), 1.0), None, 0, 9.0, 31.0, 0.0)
    quick = Step(1, (7,), ("a",), (token("a"),), (), Replacement("bonus", token("a"), 1.0), None, 0, 0.0, 20.0, 0.0)
    _, _, figures = run(FakeRace([*items(1), ("speculative", slow), ("plain", quick)]))[-1]
    # Two tokens each; 21 ms for the first, then 40 against 20: (21 + 20) / (21 + 40).
    assert figures["speedup"] == pytest.approx(41 / 61)


def test_equal_tokens_are_only_claimed_at_temperature_zero_without_loss():
    assert run(FakeRace(items(3)))[-1][2]["same"] == [3, 3]
    sampled = explore.Form(**{**FORM.__dict__, "temperature": 0.7})
    assert run(FakeRace(items(3)), form=sampled)[-1][2]["same"] is None
    lossy = explore.Form(**{**FORM.__dict__, "verifier": "typical"})
    assert run(FakeRace(items(3)), form=lossy)[-1][2]["same"] is None


def test_a_step_record_tells_accepted_recovered_and_untested_apart():
    record = json.loads(encode_step(drafted_step(4)))
    assert [e["kind"] for e in record["emitted"]] == ["accepted", "recovered"]
    assert [p["status"] for p in record["proposals"]] == ["accepted", "rejected", "rejected"]
    assert [p["u"] for p in record["proposals"]] == [0.31, 0.92, None]
    assert record["replacement"]["kind"] == "recovered"


def test_a_step_record_is_ascii_json_whatever_the_token_holds():
    wild = plain_step(0, "\x00\ud83d</script>${alert(1)}{{x}}`\\u")
    record = encode_step(wild)
    assert record.isascii()
    assert json.loads(record)["emitted"][0]["shown"] == wild.texts[0]


def test_gradio_can_copy_the_session_template_and_the_copies_share_nothing():
    template = explore.Session()
    mine, yours = copy.deepcopy(template), copy.deepcopy(template)
    mine.records.append("x")
    assert yours.records == template.records == []
