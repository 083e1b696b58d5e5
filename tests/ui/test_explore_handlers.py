"""The Explore tab's handlers as plain generators over a fake race: no browser, no model."""

import copy
import json
import pickle
import threading

import pytest
from fakes import FakeRace, chosen, drafted_step, fake_pair, figures_of, items, plain_step, run, start

from app import explore
from app.catalogue import Words
from app.session import Session
from engine.errors import EngineError
from engine.notice import Notice


def test_updates_are_coalesced_to_at_most_the_stated_rate():
    views = run(FakeRace(items(100)), tick=0.01)  # 200 items in 2 seconds of the fake clock
    assert 15 <= len(views) <= 2 * explore.UPDATES_PER_SECOND + 3


def test_slow_steps_are_shown_one_by_one():
    views = run(FakeRace(items(10)), tick=0.5)
    assert len(views) == 20 + 2  # the start and the end


def test_the_first_step_is_shown_at_once():
    views = start(FakeRace(items(50)), tick=0.001)
    next(views)
    _, tokens, *_ = next(views)
    assert len(tokens["steps"]) == 1


def test_every_step_arrives_exactly_once_and_in_order():
    views = run(FakeRace(items(40)))
    steps = [json.loads(s)["index"] for s in views[-1][1]["steps"]]
    assert steps == list(range(40))
    for _, tokens, *_ in views:
        assert tokens["steps"] == views[-1][1]["steps"][: len(tokens["steps"])]


def test_closing_the_generator_frees_the_model_within_one_step():
    race = FakeRace(items(100))
    views = start(race, tick=1.0)
    next(views), next(views), next(views)
    given = race.given
    views.close()
    assert race.cancel.is_set()
    assert race.given == given
    assert race.closed == 1  # both caches are let go


def test_stop_ends_the_run_at_the_next_check_and_shows_what_there_is():
    session = Session()
    race = FakeRace(items(100), on_step=lambda r: explore.stop(session) if r.given == 5 else None)
    views = run(race, session)
    assert race.given <= 6
    status, tokens, *_ = views[-1]
    assert status["state"] == "stopped"
    assert len(tokens["steps"]) == 3


def test_stop_waits_for_the_engines_check_and_shows_the_text_it_let_go_of():
    session, race = Session(), FakeRace(items(100), held_back=plain_step(0, "a held back"))
    views = start(race, session, tick=1.0)
    next(views), next(views)
    closing = threading.Timer(0.05, views.close)  # as Gradio does it, from another thread
    closing.start()
    status, tokens, *_ = explore.stop(session, patience_s=30)
    closing.join()
    assert status["state"] == "stopped"
    assert [json.loads(s)["emitted"][0]["shown"] for s in tokens["steps"]] == ["a held back"]


def test_a_stopped_run_that_is_still_in_a_forward_writes_nothing_into_the_next_one():
    session = Session()
    inside, go_on = threading.Event(), threading.Event()

    def slow_forward(race):
        if race.given == 3:
            inside.set()
            assert go_on.wait(30)

    old = start(FakeRace(items(50), on_step=slow_forward), session, tick=1.0)
    seen_of_old = []
    thread = threading.Thread(target=lambda: seen_of_old.extend(old))
    thread.start()
    assert inside.wait(30)
    explore.stop(session)
    first, before = session.run, len(seen_of_old)
    new = start(FakeRace(items(2)), session, tick=1.0)
    assert next(new)[1]["run"] == session.run.id != first.id
    go_on.set()
    thread.join(30)
    rest = list(new)
    assert rest[-1][0]["state"] == "done"
    assert [json.loads(s)["index"] for s in rest[-1][1]["steps"]] == [0, 1]
    assert len(session.run.plain.steps) == 2
    assert session.run.reason == "length"
    assert len(seen_of_old) == before, "a superseded run has nothing more to show"
    assert first.cancel.is_set()
    assert first.ended.is_set()


def test_a_superseded_run_that_fails_does_not_fail_the_next_one():
    session = Session()
    old = start(FakeRace(items(3), error=EngineError("the old run's fault")), session, tick=1.0)
    next(old), next(old)
    new = start(FakeRace(items(2)), session, tick=1.0)
    next(new)
    assert list(old) == []
    status, *_ = list(new)[-1]
    assert (status["state"], status["message"]) == ("done", None)


def test_one_forward_at_a_time_whoever_asks():
    busy, most = [], []

    def forward(race):
        busy.append(race)
        most.append(len(busy))
        threading.Event().wait(0.005)
        busy.remove(race)

    threads = [threading.Thread(target=run, args=(FakeRace(items(5), on_step=forward),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(most) == 3 * 10
    assert max(most) == 1


def test_stop_before_any_run_says_so_and_does_nothing():
    assert explore.stop(Session())[0]["state"] == "idle"


def test_an_engine_error_is_shown_as_its_one_sentence_and_the_next_run_works():
    session = Session()
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
    views = run(race, form=chosen(**{field: value}))
    assert views[-1][0]["state"] == "failed"
    assert says in views[-1][0]["message"]
    assert race.cancel is None


def test_the_users_k_and_stop_strings_reach_the_engine():
    race = FakeRace(items(1))
    run(race, form=chosen(k=9.0, stop="END\n\nFIN", seed=" 3 "))
    assert (race.settings.k, race.settings.stop, race.settings.seed) == (9, ("END", "FIN"), 3)


def test_k_control_and_the_trees_size_reach_the_engine():
    race = FakeRace(items(1))
    run(race, form=chosen(drafter="recycling", tree="32", k_control="confidence", confidence_threshold=0.25))
    settings = race.settings
    assert (settings.tree_nodes, settings.k_control, settings.confidence_threshold) == (32, "confidence", 0.25)
    run(race, form=chosen(drafter="recycling"))
    assert race.settings.tree_nodes is None, "auto is what the drafter is made for"


def test_a_drafter_of_chains_is_not_refused_for_a_tree_size_that_it_does_not_use():
    race = FakeRace(items(1))
    assert run(race, form=chosen(drafter="prompt_lookup", tree="32"))[-1][0]["state"] == "done"
    assert race.settings.tree_nodes is None


def test_a_lossy_run_is_known_as_one_and_plain_decoding_never_is():
    for drafter, verifier, lossy in (
        ("suffix", "typical", True),
        ("suffix", "match", False),
        ("none", "typical", False),
    ):
        _, tokens, figures, _ = run(FakeRace(items(2)), form=chosen(drafter=drafter, verifier=verifier))[-1]
        assert (tokens["lossy"], figures["lossy"]) == (lossy, lossy)


def test_what_the_engine_has_to_tell_at_the_end_is_told():
    session = Session()
    race = FakeRace(items(2))
    race.on_step = lambda r: setattr(r, "notices", ("cost-optimal K goes by what was measured here",))
    assert run(race, session)[-1][2]["notices"] == ["cost-optimal K goes by what was measured here"]


def test_a_notice_reaches_the_page_with_its_key_and_values_and_is_plain_english_elsewhere():
    notice = Notice("tiny cannot read a tree", "reads_no_trees", name="tiny")
    figures = figures_of(FakeRace(items(2), notices=(notice, "of nobody's catalogue")))
    assert json.loads(json.dumps(figures["notices"])) == [
        {"key": "reads_no_trees", "values": {"name": "tiny"}, "text": "tiny cannot read a tree"},
        "of nobody's catalogue",
    ]
    assert json.dumps([notice]) == '["tiny cannot read a tree"]'
    for again in (copy.deepcopy(notice), pickle.loads(pickle.dumps(notice))):
        assert (again, again.key, again.values) == (notice, "reads_no_trees", {"name": "tiny"})


def test_an_empty_seed_field_leaves_the_seed_to_the_engine():
    race = FakeRace(items(1))
    run(race)
    assert race.settings.seed is None


def test_two_sessions_share_nothing():
    one, two = Session(), Session()
    first = start(FakeRace(items(9)), one, tick=1.0)
    next(first), next(first)
    run(FakeRace([("speculative", drafted_step(0))]), two)
    assert one.run.id != two.run.id
    assert (len(one.run.speculative.steps), len(two.run.speculative.steps)) == (1, 1)
    assert one.run.records != two.run.records
    assert not one.run.cancel.is_set()


def test_a_new_run_forgets_the_one_before():
    session = Session()
    run(FakeRace(items(5)), session)
    before = session.run
    views = run(FakeRace([("speculative", drafted_step(0)), ("plain", plain_step(0))]), session)
    assert (views[0][1]["run"], views[0][1]["state"], views[0][1]["steps"]) == (session.run.id, "starting", [])
    assert session.run is not before
    assert len(views[-1][1]["steps"]) == 1


def test_gradio_can_copy_the_session_template_and_the_copies_share_nothing():
    template = Session()
    mine, yours = copy.deepcopy(template), copy.deepcopy(template)
    run(FakeRace(items(1)), mine)
    assert mine.run is not None
    assert yours.run is template.run is None


def test_the_prompt_as_sent_and_the_seed_in_use_are_there_from_the_first_step():
    views = start(FakeRace(items(9), prompt="<|im_start|>user\nhi"), form=chosen(temperature=0.8))
    assert next(views)[3] is None
    _, tokens, figures, sent = next(views)
    assert sent == {"text": "<|im_start|>user\nhi", "tokens": 3}
    assert (figures["temperature"], figures["seed"], figures["greedy"]) == (0.8, "4242", False)
    assert tokens["verifier"] == "rejection"


def test_a_long_seed_reaches_the_page_digit_by_digit():
    seed = 2**63 - 1  # a number of the browser's would round it
    assert figures_of(FakeRace(items(2)), form=chosen(temperature=1.0, seed=str(seed)))["seed"] == str(seed)


def test_what_holds_for_the_pair_is_not_repeated_with_every_run():
    pair = fake_pair(notices=("the draft is larger",))
    race = FakeRace(items(2), notices=("the draft is larger", "the prompt was cut"))
    assert figures_of(race, pair=pair)["notices"] == ["the prompt was cut"]
