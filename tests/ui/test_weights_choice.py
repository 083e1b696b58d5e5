"""The page's choice of weights: loaded when first asked for, once, and never more than was offered."""

import threading
import time

import pytest
from fakes import FakeRace, chosen, fake_pair, items

from app import explore
from app.session import Session
from app.weights_choice import WeightsChoice
from engine import EngineError


def test_a_form_of_the_weights_is_loaded_when_first_asked_for_and_then_kept():
    loads = []
    first = fake_pair(quantization="int8")
    choice = WeightsChoice(first, lambda name: loads.append(name) or fake_pair(quantization=name), ("int8", "none"))
    assert choice.names == ("int8", "none")
    assert choice.get("int8") is first
    assert loads == []
    assert choice.get("none") is choice.get("none")
    assert loads == ["none"]


def test_what_was_never_offered_is_the_pair_that_the_page_started_with():
    first = fake_pair(quantization="int8")
    choice = WeightsChoice(first, lambda name: pytest.fail(name), ("int8",))
    assert choice.get("fp2") is first
    assert choice.get("") is first
    assert WeightsChoice(first).names == ("int8",)


def test_two_who_ask_at_once_wait_for_one_load():
    loads = []

    def load(name):
        time.sleep(0.05)
        loads.append(name)
        return fake_pair(quantization=name)

    choice = WeightsChoice(fake_pair(quantization="int8"), load, ("none",))
    threads = [threading.Thread(target=choice.get, args=("none",)) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert loads == ["none"]


def test_a_run_uses_the_chosen_weights_and_says_so():
    pairs = {"none": fake_pair(), "int8": fake_pair(precision="int8", quantization="int8")}
    session = Session()
    form = chosen(weights="int8")
    list(explore.run(pairs["none"], session, form, FakeRace(items(1)), load=pairs.get))
    assert session.run.precision == "int8"
    assert "int8" in session.run.where


def test_weights_that_cannot_be_loaded_fail_the_run_with_their_sentence():
    def refuse(name):
        raise EngineError("no such weights here")

    session = Session()
    views = list(explore.run(fake_pair(), session, chosen(weights="int4"), FakeRace([]), load=refuse))
    assert views[-1][0]["state"] == "failed"
    assert views[-1][0]["message"] == "no such weights here"
