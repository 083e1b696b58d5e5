"""The figures beside the tokens: both arms over the same tokens, and no claim that does not hold."""

from dataclasses import replace

import pytest
from fakes import Clock, FakeRace, chosen, drafted_step, fake_pair, figures_of, items, plain_step, run, token

from app import explore
from app.session import Arm, Session
from engine.trace import Alternative, Replacement


def test_figures_before_any_draft_are_absent_not_zero():
    figures = figures_of(FakeRace(items(3)))
    assert figures["tau"] is None
    assert figures["accept_rate"] is None
    assert figures["per_position"] == []


def test_a_slow_down_is_reported_as_one():
    turns = [*items(1), ("speculative", plain_step(1, ms=40)), ("plain", plain_step(1, ms=20))]
    # Two tokens each; 21 ms for the first, then 40 against 20: (21 + 20) / (21 + 40).
    assert figures_of(FakeRace(turns))["speedup"] == pytest.approx(41 / 61)


def test_a_stop_before_plain_has_caught_up_compares_only_what_both_have_done():
    turns = [*items(1), ("speculative", drafted_step(1)), ("plain", plain_step(1)), ("plain", plain_step(2))]
    turns += [("speculative", drafted_step(3)), ("plain", plain_step(3))]  # level at 3 tokens; then 5 against 4
    session = Session()
    halt = len(turns)
    turns.append(("plain", plain_step(4)))  # would make them level at 5, and never comes
    stopped = FakeRace(turns, on_step=lambda r: explore.stop(session) if r.given == halt else None)
    status, _, figures, _ = run(stopped, session)[-1]
    assert (status["state"], status["tokens"]) == ("stopped", 5)
    assert figures["compared"] == 3
    assert figures["speedup"] == pytest.approx((21 * 3) / (21 + 22))
    assert figures["speculative"]["tps"] == pytest.approx(3 / 0.043)
    assert figures["plain"]["tps"] == pytest.approx(3 / 0.063)
    # Comparing all that was done, 5 tokens in 65 ms with 4 in 84 ms, would have said 1.62 times per token.
    assert figures["drafted_steps"] == 2  # acceptance is the draft's own and counts every step


def test_a_sampled_plain_answer_that_ended_early_is_compared_up_to_there():
    turns = [*items(2), *(("speculative", plain_step(i, ms=10)) for i in range(2, 9))]
    figures = figures_of(FakeRace(turns), form=chosen(temperature=1.0))
    assert figures["compared"] == 2
    assert figures["speedup"] == pytest.approx(1.0)


def test_one_token_is_the_prompts_reading_and_makes_no_speed_up():
    figures = figures_of(FakeRace(items(1)))
    assert (figures["compared"], figures["speedup"]) == (1, None)


def test_without_a_drafter_the_difference_of_the_arms_is_noise_and_not_shown():
    figures = figures_of(FakeRace(items(5)), form=chosen(drafter="none"))
    assert figures["drafts"] is False
    assert figures["speedup"] is None
    assert figures["speculative"] is None
    assert figures["plain"]["tps"] == pytest.approx(1000 / 21)
    assert figures["same"] is None


def test_equal_tokens_are_only_claimed_at_temperature_zero_and_at_the_end():
    assert figures_of(FakeRace(items(3)))["same"] == {"tokens": 3, "at": None, "margin": None, "near_tie": False}
    assert figures_of(FakeRace(items(3)), form=chosen(temperature=0.7))["same"] is None
    session = Session()
    stopped = FakeRace(items(9), on_step=lambda r: explore.stop(session) if r.given == 6 else None)
    assert run(stopped, session)[-1][2]["same"] is None


@pytest.mark.parametrize(("dtype", "near_tie"), [("float32", False), ("bfloat16", True)])
def test_the_first_differing_token_is_named_with_its_margin_and_later_coincidences_count_for_nothing(dtype, near_tie):
    turns = items(5)
    tops = (Alternative(token("a"), 0.48), Alternative(token("b"), 0.44))
    step = plain_step(2)
    turns[4] = ("speculative", replace(step, replacement=replace(step.replacement, target_top=tops)))
    turns[5] = ("plain", plain_step(2, token_id=8))  # the third token of plain; the fourth and fifth agree again
    same = figures_of(FakeRace(turns), pair=fake_pair(precision=dtype))["same"]
    assert same == {"tokens": 5, "at": 3, "margin": pytest.approx(0.04), "near_tie": near_tie}


def test_a_missing_token_is_a_difference_too():
    assert figures_of(FakeRace([*items(3), ("speculative", plain_step(3))]))["same"]["at"] == 4


def test_a_measurement_names_hardware_precision_and_day():
    from engine.environment import environment

    session = Session()
    where = run(FakeRace(items(2)), session)[-1][2]["where"]
    assert where.split(" · ")[:2] == ["fake", "float32"]
    assert environment()["cpu"] in where
    threads = environment()["threads"]
    assert f"{threads} thread{'s' * (threads != 1)}" in where
    assert session.run.day.isoformat() in where


def test_an_arms_numbers_are_computed_once_an_update(monkeypatch):
    from app import session as module

    counted = []
    real = module.compute_stats
    monkeypatch.setattr(module, "compute_stats", lambda *a: counted.append(1) or real(*a))
    turns = items(1)
    for i in range(20):
        turns += [("speculative", drafted_step(i)), ("plain", plain_step(i)), ("plain", plain_step(i))]
    views = list(explore.run(fake_pair(), Session(), chosen(), FakeRace(turns), clock=Clock(1.0)))
    assert len(views) == len(turns) + 2
    assert len(counted) <= len(turns)  # one step, one arm, one computation


def test_an_arm_without_steps_has_no_numbers():
    assert Arm().stats() is None


def test_a_plain_steps_replacement_is_not_called_a_bonus_of_a_draft():
    step = replace(plain_step(0), replacement=Replacement("bonus", plain_step(0).tokens[0], 1.0))
    assert '"kind":"plain"' in run(FakeRace([("speculative", step)]))[-1][1]["steps"][0]
