"""Cost curves: what is timed, in which order, and that nothing stays behind in the cache."""

import threading
import time

import pytest
from helpers.models import pair_of, tiny_llama, wanders

import engine
from engine.bench.curves import (
    DraftCurve,
    Stopped,
    Timing,
    VerifyCurve,
    curve_context,
    draft_curve,
    take_turns,
    verify_curve,
)
from engine.bench.suites import BenchPrompt

CONTEXT = [1, 2, 3, 1, 2, 3]
SETTINGS = engine.DecodeSettings(k=3, max_new_tokens=6)


@pytest.fixture
def pair(one_thread):
    return pair_of(wanders(16), 16, draft=wanders(16, seed=1))


def test_cases_take_turns_and_the_first_round_is_dropped(monkeypatch):
    clock = iter(range(1000))
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    worked, undone = [], []
    got = take_turns((1, 2, 3), worked.append, undone.append, lambda: None, 3)
    assert got == [[1, 1, 1]] * 3
    assert worked == undone == [1, 2, 3, 1, 3, 2, 3, 1, 2, 3, 2, 1]
    assert Timing.of([3.0, 1.0, 2.0]) == Timing(2.0, 1.0, 3.0, 3)


def test_turns_end_between_two_works_when_stopped():
    cancel, worked = threading.Event(), []

    def work(case):
        worked.append(case)
        cancel.set()

    with pytest.raises(Stopped):
        take_turns((1, 2), work, lambda _: None, lambda: None, 3, cancel)
    assert worked == [1]


def test_a_verify_curve_forwards_each_width_behind_the_same_context(pair):
    model = pair.target.model
    got = verify_curve(pair, 1, 4, CONTEXT, rounds=2)
    assert got.widths == (1, 2, 3, 4)
    assert (got.batch, got.context, [t.n for t in got.times]) == (1, 6, [2] * 4)
    assert model.widths[0] == 6
    assert sorted(model.widths[1:]) == sorted([1, 2, 3, 4] * 3)
    assert model.longest == 10, "every forward begins right behind the context"
    assert all(0 < t.low_s <= t.median_s <= t.high_s for t in got.times)
    assert got.seconds(2) == got.times[1].median_s
    assert got.seconds(9) is None
    assert VerifyCurve.from_dict(got.as_dict()) == got


def test_a_verify_curve_of_a_batch_reads_all_rows_in_one_forward(one_thread, monkeypatch):
    pair = engine.Pair.from_models(tiny_llama(seed=3), None, quantization="none")
    seen = []
    real = type(pair.target).forward_rows

    def forward_rows(self, ids, cache, keep):
        seen.append((len(ids), len(ids[0]), [*cache.lengths]))
        return real(self, ids, cache, keep)

    monkeypatch.setattr(type(pair.target), "forward_rows", forward_rows)
    got = verify_curve(pair, 3, 2, CONTEXT, rounds=1)
    assert [(rows, width) for rows, width, _ in seen] == [(3, 1), (3, 2), (3, 1), (3, 2)]
    assert all(lengths == [6, 6, 6] for *_, lengths in seen)
    assert (got.batch, len(got.times)) == (3, 2)


def test_a_draft_curve_drafts_k_tokens_for_each_row_again_and_again(pair):
    model = pair.draft.model
    got = draft_curve(pair, "model", 2, SETTINGS, CONTEXT, rounds=3)
    # Two rows read the context; then each draft is three forwards of one token, in four rounds.
    assert model.widths == [5, 5] + [1] * (2 * 3 * 4)
    assert (got.k, got.step.n) == (3, 3)
    assert got.per_token_s == pytest.approx(got.step.median_s / 3)
    assert DraftCurve.from_dict(got.as_dict()) == got


def test_prompt_lookup_finds_what_it_looks_for_in_the_curves_context(pair, monkeypatch):
    from engine.drafters.prompt_lookup import PromptLookupDrafter

    prompts = [BenchPrompt("a", [1, 2, 3, 4]), BenchPrompt("a", [5, 6, 7, 8, 9, 10])]
    context = curve_context(pair, prompts, 10, 4)
    assert len(context) == 5 + 5, "the mean prompt and half of the output"
    found = []
    real = PromptLookupDrafter.propose

    def propose(self, *args):
        draft = real(self, *args)
        found.append(len(draft.tokens))
        return draft

    monkeypatch.setattr(PromptLookupDrafter, "propose", propose)
    draft_curve(pair, "prompt_lookup", 1, SETTINGS, context, rounds=2)
    assert found == [3, 3, 3]


def test_the_context_leaves_room_for_the_widest_step(one_thread):
    prompts = [BenchPrompt("a", [*range(8)])]
    assert len(curve_context(pair_of(wanders(16), 16, context=12), prompts, 100, 4)) == 8
    with pytest.raises(engine.EngineError, match="no room"):
        curve_context(pair_of(wanders(16), 16, context=4), prompts, 100, 4)
