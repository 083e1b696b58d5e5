"""Race, compare, tune K and prompt suites: arithmetic on records, and lock-step on tiny models."""

import json
import random
import sys
import threading
from dataclasses import replace

import pytest
from helpers.models import pair_of, wanders
from helpers.records import generation, step
from hypothesis import given
from hypothesis import strategies as st

import engine
from engine.bench.compare import Comparison, Sample
from engine.bench.suites import BenchPrompt, load_prompts, load_suite
from engine.bench.tune import best_point, tune_k
from engine.stats import level, rounds, speedup
from engine.theory import expected_tokens_per_step

SETTINGS = engine.DecodeSettings(k=4, max_new_tokens=30)


def sample(plain_ms, fast_ms, prompt=0, category="chat", tokens=2):
    """plain: `tokens` steps of one token; speculative: one step, drafted."""
    plain = generation(*[step(1, plain_ms / tokens)] * tokens)
    return Sample.of(category, prompt, plain, generation(step(tokens, fast_ms, tokens - 1, tokens - 1)))


def comparison(*samples, complete=True):
    return Comparison(samples, "d", complete, SETTINGS)


@pytest.fixture
def pair():
    return pair_of(wanders(16), 16, draft=wanders(16, seed=1, share=0.7))


@pytest.mark.parametrize("drafter", ["prompt_lookup", "model"])
def test_a_race_keeps_plain_level_with_speculation_after_every_round(pair, drafter):
    both = engine.race(pair, [1, 2, 3, 1, 2], SETTINGS, drafter=drafter)
    emitted = {"speculative": 0, "plain": 0}
    for arm, s in both:
        if arm == "speculative":
            assert emitted["plain"] == emitted["speculative"], "a new round began before plain had caught up"
        emitted[arm] += len(s.emitted)
        assert arm == "speculative" or not s.proposals
    assert emitted == {"speculative": 30, "plain": 30}
    assert both.plain.generation.token_ids == both.speculative.generation.token_ids


def test_a_cancelled_race_ends_both_arms_with_what_they_had(pair):
    cancel = threading.Event()
    both = engine.race(pair, [1, 2, 3], SETTINGS, drafter="model", cancel=cancel)
    next(both)
    cancel.set()
    assert list(both) == []
    assert both.speculative.generation.finish_reason == "cancelled"
    assert len(both.speculative.generation.token_ids) == 1


def test_speedup_is_plain_seconds_over_speculative_seconds_for_the_same_tokens():
    plain = [step(1, 100.0)] + [step(1, 50.0)] * 6
    fast = [step(1, 100.0), step(4, 60.0, 3, 3), step(2, 60.0, 3, 1)]
    assert speedup(plain, fast) == pytest.approx(400 / 220)
    assert rounds(plain, fast) == [(100, 100), (200, 60), (100, 60)]
    assert speedup([], fast) is None
    assert speedup([], []) is None


def test_tokens_that_only_one_arm_has_yet_count_for_neither():
    """Between a speculative step and plain's catching up, the prompt's cost must not be spread over unequal outputs."""
    plain, fast = [step(1, 400.0)], [step(1, 400.0), step(6, 60.0, 5, 5)]
    assert level(plain, fast) == (1, 1)
    assert speedup(plain, fast) == pytest.approx(1.0)


def test_a_sampled_answer_that_ended_earlier_is_compared_up_to_its_end():
    plain = [step(1, 20.0)] * 5
    fast = [step(1, 20.0)] * 128
    assert level(plain, fast) == (5, 5)
    assert speedup(plain, fast) == pytest.approx(1.0)
    assert speedup(fast, plain) == pytest.approx(1.0)


def test_a_ratio_is_of_totals_and_not_a_mean_of_ratios():
    # 300 + 100 over 100 + 100: 2.0. The mean of 3.0 and 1.0 would be 2.0 as well, so weigh one prompt more.
    result = comparison(sample(300, 100, 0), sample(1000, 1000, 1))
    assert result.speedup == pytest.approx(1300 / 1100)
    assert result.plain.ratio == 1.0
    assert result.speculative.spread == (pytest.approx(1.0), pytest.approx(3.0))


def test_seconds_and_speeds_are_those_of_the_arm():
    result = comparison(sample(300, 100, 0), sample(500, 300, 1))
    assert result.speculative.seconds == pytest.approx(0.4)
    assert result.speculative.output_tokens == 4
    assert result.speculative.output_tokens_per_second == pytest.approx(10.0)
    assert result.plain.output_tokens_per_second == pytest.approx(5.0)


def test_categories_are_kept_apart_and_all_is_the_whole_suite():
    result = comparison(sample(300, 100, 0, "code"), sample(100, 200, 1, "chat"))
    assert [(a.name, a.category) for a in result.arms] == [
        (name, c) for c in ("code", "chat", "all") for name in ("plain", "d")
    ]
    assert result.arm("d", "code").ratio == pytest.approx(3.0)
    assert result.arm("d", "chat").ratio == pytest.approx(0.5)
    assert result.arm("d").n == 2


@given(st.lists(st.tuples(st.floats(10, 1000), st.floats(10, 1000)), min_size=2, max_size=8))
def test_the_interval_lies_between_the_extremes_of_single_prompts(times):
    result = comparison(*[sample(p, f, i) for i, (p, f) in enumerate(times)])
    low, high = result.speculative.interval
    lowest, highest = result.speculative.spread
    assert lowest * (1 - 1e-9) <= low <= high <= highest * (1 + 1e-9)


def test_the_interval_of_a_single_prompt_is_that_of_its_rounds():
    plain = generation(*[step(1, 50.0)] * 9)
    fast = generation(step(1, 50.0), *[step(2, 50.0, 1, 1)] * 4)
    result = comparison(Sample.of("x", 0, plain, fast))
    assert result.speedup == pytest.approx(450 / 250)
    low, high = result.speculative.interval
    assert 1 <= low <= result.speedup <= high <= 2  # single rounds are 1x and 2x
    assert comparison(sample(300, 100)).speculative.interval is None, "one round says nothing of the next"


@pytest.mark.parametrize(
    ("times", "verdict"),
    [
        ([(200, 100)] * 6, "2.00x faster (2.00 to 2.00)"),
        ([(100, 200)] * 6, "0.50x, slower (0.50 to 0.50)"),
        ([(100, 200), (200, 100)] * 3, "no difference: 1.00x (0.64 to 1.57)"),
    ],
)
def test_the_verdict_says_faster_slower_or_no_difference(times, verdict):
    """The last interval by enumeration: of 6 draws from two kinds, 1.6% hold none of the one and 11% at most one, so
    the 2.5% quantile is that of one: (5 * 100 + 200) / (5 * 200 + 100)."""
    result = comparison(*[sample(p, f, i) for i, (p, f) in enumerate(times)])
    assert result.verdict == verdict


def test_too_few_prompts_get_a_ratio_and_no_verdict():
    result = comparison(*[sample(200, 100, i) for i in range(4)])
    assert result.verdict == "2.00x, from too few prompts for a verdict"


def test_no_drafts_are_no_difference_whatever_the_clock_says():
    quick = generation(step(1, 10.0), step(1, 10.0))
    slow = generation(step(1, 12.0), step(1, 12.0))
    result = comparison(*[Sample.of("x", i, slow, quick) for i in range(8)])
    assert result.verdict == "1.20x: no difference, since no drafts were made"


@pytest.mark.parametrize("prompts", [5, 12])
def test_two_arms_of_one_law_are_rarely_told_apart(prompts):
    """The null experiment on simulated clocks: 10% noise a step, 12 rounds a prompt, nothing to find."""
    rng = random.Random(0)

    def noisy(proposed):
        return generation(*[step(1, 20 * rng.gauss(1, 0.1), proposed, 0) for _ in range(12)])

    calls = [comparison(*[Sample.of("x", i, noisy(0), noisy(1)) for i in range(prompts)]).verdict for _ in range(60)]
    assert sum(not v.startswith("no difference") for v in calls) <= 6  # at most twice the nominal 5%


def test_the_arms_take_turns_at_going_first(pair, monkeypatch):
    order = []
    advance = engine.Race.__next__

    def spy(both):
        arm, s = advance(both)
        if not s.index:
            order.append(arm)
        return arm, s

    monkeypatch.setattr(engine.Race, "__next__", spy)
    result = engine.compare(pair, [[1, 2], [3, 4]], SETTINGS, drafter="model", repeats=1)
    assert order[2:] == ["speculative", "plain", "plain", "speculative"]  # behind the warm-up
    assert all(s.plain.token_ids == s.speculative.token_ids for s in result.samples)


def test_a_prompt_that_cannot_be_decoded_is_named_before_any_work(pair):
    with pytest.raises(engine.EngineError, match=r"^prompt 2: "):
        engine.compare(pair, [[1, 2], [99], [3]], SETTINGS)
    assert pair.target.model.widths == []


def test_nothing_measured_is_said_and_is_no_number():
    empty = comparison(complete=False)
    assert empty.speedup is None
    assert empty.arms == []
    assert empty.verdict == "nothing was measured"


def test_compare_drops_the_warm_up_and_decodes_each_prompt_both_ways(pair, monkeypatch):
    comparing = sys.modules["engine.bench.compare"]  # the name in the package is the function
    calls = []
    decode_both = comparing._decode_both

    def spy(pair, row, settings, *rest):
        calls.append((row.prompt, settings.max_new_tokens))
        return decode_both(pair, row, settings, *rest)

    monkeypatch.setattr(comparing, "_decode_both", spy)
    told = []
    result = engine.compare(
        pair, [[1, 2], [3, 4]], SETTINGS, drafter="model", repeats=2, progress=lambda *at: told.append(at)
    )
    assert calls == [([1, 2], 8), *[([1, 2], 30), ([3, 4], 30)] * 2]
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert result.complete
    assert result.speculative.n == 4
    assert result.speculative.output_tokens == result.plain.output_tokens == 4 * 30
    json.dumps([a.as_dict() for a in result.arms], allow_nan=False)


def test_a_stopped_comparison_reports_the_prompts_that_were_finished(pair):
    cancel = threading.Event()
    result = engine.compare(
        pair, [[1, 2]] * 5, SETTINGS, drafter="model", repeats=1, cancel=cancel,
        progress=lambda done, total: done == 2 and cancel.set(),
    )  # fmt: skip
    assert not result.complete
    assert result.speculative.n == 2


def test_comparing_no_prompts_measures_nothing(pair):
    assert engine.compare(pair, [], SETTINGS).speedup is None


def test_one_prompt_in_place_of_a_list_and_no_repeats_are_refused(pair):
    with pytest.raises(engine.EngineError, match="list"):
        engine.compare(pair, "hello", SETTINGS)
    with pytest.raises(engine.EngineError, match="repeats"):
        engine.compare(pair, [[1, 2]], SETTINGS, repeats=0)


def test_a_seed_is_drawn_once_and_kept_with_the_result(pair):
    result = engine.compare(pair, [[1, 2]], SETTINGS, drafter="model", repeats=2)
    seeds = [s.plain.trace.settings["seed"] for s in result.samples]
    assert seeds == [result.settings.seed, result.settings.seed + 1]


def test_the_default_suite_has_six_categories_and_at_least_four_prompts_in_each():
    prompts = load_suite("default")
    assert len(prompts) >= 24
    by = {c: [p for p in prompts if p.category == c] for c in {p.category for p in prompts}}
    assert set(by) == {"chat", "code", "copy-edit", "summarise", "translate", "turkish"}
    assert min(map(len, by.values())) >= 4
    assert len({p.prompt for p in prompts}) == len(prompts)


def test_a_users_own_prompts_are_read_with_and_without_a_byte_order_mark(tmp_path):
    rows = [{"category": "çeviri", "prompt": "Merhaba"}, {"prompt": "no category"}]
    for encoding in ("utf-8", "utf-8-sig"):
        path = tmp_path / "p.jsonl"
        path.write_text("\n\n".join(json.dumps(r, ensure_ascii=False) for r in rows), encoding=encoding)
        assert load_prompts(path) == [BenchPrompt("çeviri", "Merhaba"), BenchPrompt("prompts", "no category")]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"prompt": "ok"}\nnot json', "line 2"),
        ('{"category": "x"}', "line 1"),
        ('{"prompt": ""}', "line 1"),
        ('{"prompt": 5}', "line 1"),
        ('["prompt"]', "line 1"),
        ("\n\n", "holds no prompts"),
        ('{"prompt": "x", "category": "all"}', "choose another name"),
        ("[" * 100_000, "line 1"),
        ('{"prompt": ' + "1" * 6000 + "}", "line 1"),
    ],
)
def test_a_faulty_prompt_file_is_refused_with_its_line(tmp_path, text, says):
    path = tmp_path / "p.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(engine.EngineError, match=says):
        load_prompts(path)


def test_other_line_separators_inside_a_prompt_are_text(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text('{"prompt": "a\u2028b\u0085c"}\r\n{"prompt": "d"}', encoding="utf-8", newline="")
    assert [p.prompt for p in load_prompts(path)] == ["a\u2028b\u0085c", "d"]


def test_a_missing_prompt_file_and_an_unknown_suite_are_refused(tmp_path):
    with pytest.raises(engine.EngineError, match="does not exist"):
        load_prompts(tmp_path / "none.jsonl")
    with pytest.raises(engine.EngineError, match="default"):
        load_suite("defualt")


def test_the_predicted_speed_up_is_the_formula_with_measured_costs(monkeypatch):
    """K = 2: 4 drafted steps of 60 ms, 4 plain ones of 40 ms; 6 tested, 4 stood: alpha 2/3."""
    drafted = [step(3, 60, 2, 2), step(3, 60, 2, 2), step(1, 60, 2, 0), step(1, 60, 2, 0)]
    fast = generation(step(1, 90), *drafted, *[step(1, 40)] * 4)
    plain = generation(step(1, 90), *[step(1, 40)] * 12)
    fixed = comparison(Sample.of("all", 0, plain, fast))
    monkeypatch.setattr("engine.bench.tune.compare", lambda *a, **k: fixed)
    (point,) = tune_k(None, [], SETTINGS, ks=[2])
    assert point.alpha == pytest.approx(4 / 6)
    assert point.verify_cost == pytest.approx(60 / 40)
    assert point.drafted_share == pytest.approx(0.5)
    tokens = 0.5 * (1 + 2 / 3 + 4 / 9) + 0.5
    assert expected_tokens_per_step(2 / 3, 2) == pytest.approx(1 + 2 / 3 + 4 / 9)
    # Behind the first token: 12 tokens of 40 ms against 4 of 60 ms and 4 of 40 ms.
    assert point.decode_ratio == pytest.approx((12 * 40 / 12) / (400 / 12))
    assert point.predicted == pytest.approx(tokens * 40 / (0.5 * 60 + 0.5 * 40))


def test_the_best_k_is_the_fastest_and_none_when_every_k_loses(pair):
    points = tune_k(pair, [[1, 2, 3]], SETTINGS, drafter="model", ks=[1, 2])
    assert [p.k for p in points] == [1, 2]
    fast = [replace(points[0], ratio=1.2), replace(points[1], ratio=1.5)]
    assert best_point(fast).k == 2
    assert best_point([replace(p, ratio=0.9) for p in points]) is None
    assert best_point([]) is None
