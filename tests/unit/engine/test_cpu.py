"""How many threads: the quickest count, the smaller one when two are close, and the user's own when it is set."""

import pytest
import torch
from helpers.models import tiny_llama

from engine import Pair
from engine.cpu import candidates, choose_threads, quickest


@pytest.mark.parametrize(
    ("cores", "counts"), [(1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8]), (12, [1, 2, 4, 8, 12])]
)
def test_the_counts_tried_are_powers_of_two_and_all_cores(cores, counts):
    assert candidates(cores) == counts


def test_the_quickest_count_wins_by_its_best_time():
    times = {1: [4.0, 4.0, 4.0], 2: [9.0, 2.0, 9.0], 4: [3.0, 3.0, 3.0]}
    drawn = {count: iter(values) for count, values in times.items()}
    assert quickest([1, 2, 4], lambda n: next(drawn[n])) == 4, "9 s is far behind after one turn, so 2 drops out"
    times = {1: [4.0] * 3, 2: [5.0, 2.0, 9.0]}
    drawn = {count: iter(values) for count, values in times.items()}
    assert quickest([1, 2], lambda n: next(drawn[n])) == 2


def test_of_two_that_are_close_the_smaller_is_taken():
    assert quickest([1, 2, 4], {1: 1.2, 2: 1.02, 4: 1.0}.get) == 2


def test_a_count_that_the_user_has_set_stands(monkeypatch):
    pair = Pair.from_models(tiny_llama(), None)
    before = torch.get_num_threads()
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert choose_threads(pair.target) == before == torch.get_num_threads()


def test_the_chosen_count_is_the_one_that_torch_uses(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    pair = Pair.from_models(tiny_llama(), None)
    before = torch.get_num_threads()
    try:
        assert choose_threads(pair.target) == torch.get_num_threads()
    finally:
        torch.set_num_threads(before)
