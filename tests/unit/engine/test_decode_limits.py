"""The loop at its limits: lengths, contexts, cancelling, seeds, prompt lookup, drafters that pause."""

import itertools
import threading
import time
from collections import Counter

import numpy as np
import pytest
import torch
from helpers.laws import ALPHA, chi_square
from helpers.models import greedy_continuation, one, pair_of, recites, table, tiny_llama, wanders
from hypothesis import given, settings
from hypothesis import strategies as st

import engine
from engine import DecodeSettings, EngineError, Pair
from engine.drafters.base import Draft
from engine.drafters.prompt_lookup import MAX_NGRAM, MIN_NGRAM, PromptLookupDrafter
from engine.runner import PREFILL_CHUNK

DRAFTERS = ("none", "model", "prompt_lookup")
V = 16
pytestmark = pytest.mark.usefixtures("one_thread")


def lookahead(step):
    return len(step.proposals)


# --- how many tokens ---


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("most", [0, 1, 2, 4, 5, 6, 9, 10, 11])
def test_never_more_than_max_new_tokens_are_emitted_or_drafted_for(drafter, most):
    rule = wanders(V)
    pair = pair_of(rule, V, draft=rule)
    gen = engine.generate(pair, [1, 2, 1, 2], DecodeSettings(k=4, max_new_tokens=most), drafter=drafter)
    assert gen.token_ids == greedy_continuation(rule, [1, 2, 1, 2], most)
    assert gen.finish_reason == "length"
    left = most
    for step in gen.trace.steps:
        assert lookahead(step) <= max(left - 1, 0)
        left -= len(step.emitted)
    assert left == 0


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_nothing_asked_for_means_no_forward_at_all(drafter):
    pair = pair_of(wanders(V), V, draft=wanders(V))
    gen = engine.generate(pair, [1, 2, 3], DecodeSettings(max_new_tokens=0), drafter=drafter)
    assert (gen.token_ids, gen.text, gen.finish_reason, gen.trace.steps) == ([], "", "length", ())
    assert pair.target.model.widths == pair.draft.model.widths == []
    assert gen.stats.ttft_s is None
    assert gen.stats.output_tokens_per_second is None
    assert gen.stats.prompt_tokens == 3


def test_one_token_asked_for_means_no_draft():
    pair = pair_of(wanders(V), V, draft=wanders(V))
    gen = engine.generate(pair, [1, 2, 3], DecodeSettings(max_new_tokens=1), drafter="model")
    assert len(gen.token_ids) == 1
    assert pair.draft.model.widths == []
    assert pair.target.model.widths == [3]


@pytest.mark.parametrize("k", [1, 2, 5, 8, 64])
def test_every_step_drafts_exactly_k_but_the_first_and_those_that_the_length_cuts(k):
    pair = pair_of(wanders(V), V, draft=wanders(V, share=0.6))
    gen = engine.generate(pair, [1, 2, 3], DecodeSettings(k=k, max_new_tokens=50), drafter="model")
    first, *later = gen.trace.steps
    assert lookahead(first) == 0
    left = 49
    for step in later:
        assert lookahead(step) == min(k, left - 1)
        left -= len(step.emitted)


def test_k_zero_is_plain_decoding():
    pair = pair_of(wanders(V), V, draft=wanders(V))
    gen = engine.generate(pair, [1, 2], DecodeSettings(k=0, max_new_tokens=5), drafter="model")
    assert [len(s.emitted) for s in gen.trace.steps] == [1] * 5
    assert pair.draft.model.widths == []


def test_a_forward_reads_what_is_new_and_never_the_whole_sequence_again():
    pair = pair_of(wanders(V), V, draft=wanders(V, share=0.7))
    engine.generate(pair, list(range(16)) * 8, DecodeSettings(k=4, max_new_tokens=60), drafter="model")
    prompt, *later = pair.target.model.widths
    assert prompt == 128
    assert max(later) <= 5
    prompt, *later = pair.draft.model.widths
    assert prompt == 128
    assert max(later) <= 2


def test_a_long_prompt_is_read_in_chunks_and_once():
    pair = pair_of(wanders(V), V)
    prompt = [i % V for i in range(3 * PREFILL_CHUNK + 7)]
    gen = engine.generate(pair, prompt, DecodeSettings(max_new_tokens=2))
    assert pair.target.model.widths == [PREFILL_CHUNK] * 3 + [7, 1]
    assert gen.token_ids == greedy_continuation(wanders(V), prompt, 2)
    assert gen.trace.steps[0].prefill_tokens == len(prompt) - 1
    assert gen.trace.steps[1].prefill_tokens == 0


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_a_short_run_then_a_long_one_on_the_same_pair_are_both_right(drafter):
    model = tiny_llama(V, context=512)
    pair = Pair.from_models(model, None, draft=tiny_llama(V, seed=1, context=512))
    for size in (20, 300, 20):
        prompt = [(i * 7 + 3) % V for i in range(size)]
        gen = engine.generate(pair, prompt, DecodeSettings(k=3, max_new_tokens=20), drafter=drafter)
        ids = torch.tensor([prompt])
        expected = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=20, do_sample=False)
        assert gen.token_ids == expected[0, size:].tolist()


@given(
    seed=st.integers(0, 10**6),
    share=st.sampled_from([0.0, 0.3, 0.8, 1.0]),
    k=st.integers(0, 7),
    most=st.integers(0, 30),
    drafter=st.sampled_from(DRAFTERS),
    verifier=st.sampled_from(engine.VERIFIERS),
    prompt=st.lists(st.integers(0, 5), min_size=1, max_size=12),
)
@settings(max_examples=150, deadline=None)
def test_greedy_output_is_the_targets_own_whatever_the_draft_says(seed, share, k, most, drafter, verifier, prompt):
    rule = wanders(6, seed)
    pair = pair_of(rule, 6, draft=wanders(6, seed, share))
    gen = engine.generate(pair, prompt, DecodeSettings(k=k, max_new_tokens=most), drafter=drafter, verifier=verifier)
    assert gen.token_ids == greedy_continuation(rule, prompt, most)
    if share == 1.0 and drafter == "model":
        assert gen.stats.rejected == 0


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_a_penalty_inside_a_drafted_block_gives_what_token_by_token_decoding_gives(drafter):
    """The target always prefers 5 a little, the draft says 5, 5, 5: after the first one the penalty turns it down."""

    def prefers(history):
        return torch.tensor([0.0, 0, 0, 0, 1.7, 2.0, 1.6, 1.5])

    pair = pair_of(prefers, 8, draft=lambda history: one(5, 8))
    values = DecodeSettings(k=3, max_new_tokens=10, repetition_penalty=1.3)
    gen = engine.generate(pair, [1], values, drafter=drafter)
    said = [1]
    for _ in range(10):  # by hand: a seen token's score is divided by 1.3
        scores = [s / 1.3 if i in said else s for i, s in enumerate(prefers(()).tolist())]
        said.append(scores.index(max(scores)))
    assert gen.token_ids == said[1:]
    assert said[1:4] == [5, 4, 6]


# --- contexts ---


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize(("prompt", "new"), [(32, 0), (31, 1), (30, 2), (20, 12)])
def test_the_output_ends_where_the_context_does(drafter, prompt, new):
    rule = wanders(V)
    pair = pair_of(rule, V, draft=rule, context=32)
    ids = [i % 4 for i in range(prompt)]
    gen = engine.generate(pair, ids, DecodeSettings(k=5, max_new_tokens=100), drafter=drafter)
    assert gen.token_ids == greedy_continuation(rule, ids, new)
    assert gen.finish_reason == "length"
    assert pair.target.model.longest <= 32
    assert bool(pair.target.model.widths) == bool(new)


@pytest.mark.parametrize("size", [33, 1100])
def test_a_prompt_past_the_context_is_refused_with_both_numbers_before_any_forward_and_the_next_run_works(size):
    pair = pair_of(wanders(V), V, draft=wanders(V), context=32)
    for make in (engine.generate, engine.stream):
        with pytest.raises(EngineError, match=rf"\b{size} tokens\b.*\b32\b") as raised:
            make(pair, [1] * size, DecodeSettings(), drafter="model")
        assert "\n" not in str(raised.value)
    assert pair.target.model.widths == pair.draft.model.widths == []
    assert len(engine.generate(pair, [1, 2], DecodeSettings(max_new_tokens=4)).token_ids) == 4


@pytest.mark.parametrize("prompt", [60, 63, 64, 65, 100])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_draft_with_a_shorter_context_gives_way_to_plain_decoding(prompt, temperature):
    rule = wanders(V)
    pair = pair_of(rule, V, draft=rule, context=256, draft_context=64)
    ids = [i % 5 for i in range(prompt)]
    gen = engine.generate(
        pair, ids, DecodeSettings(k=4, max_new_tokens=100, temperature=temperature, seed=0), drafter="model"
    )
    assert gen.token_ids == greedy_continuation(rule, ids, 100)
    assert pair.draft.model.longest <= 64
    at = prompt + 1
    for step in gen.trace.steps[1:]:
        room = max(0, 64 - at + 1)
        left = prompt + 100 - at
        assert lookahead(step) == min(4, room, left - 1)
        if room < 4 and room < left - 1:
            assert "context is full" in step.draft_note
        at += len(step.emitted)
    assert any("context is full" in (s.draft_note or "") for s in gen.trace.steps)


# --- cancelling ---


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_a_run_cancelled_before_it_began_makes_no_forward(drafter):
    cancel = threading.Event()
    cancel.set()
    pair = pair_of(wanders(V), V, draft=wanders(V))
    gen = engine.generate(pair, [1, 2], DecodeSettings(), drafter=drafter, cancel=cancel)
    assert (gen.token_ids, gen.finish_reason) == ([], "cancelled")
    assert pair.target.model.widths == []


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_a_run_cancelled_in_the_middle_of_a_step_finishes_that_step_and_no_other(drafter):
    cancel, rule = threading.Event(), wanders(V)
    pair = pair_of(rule, V, draft=rule)
    forwards = []

    def before():
        forwards.append(1)
        if len(forwards) == 5:
            cancel.set()

    pair.target.model.before_forward = before
    gen = engine.generate(pair, [1, 2], DecodeSettings(k=3, max_new_tokens=1000), drafter=drafter, cancel=cancel)
    assert len(forwards) == len(gen.trace.steps) == 5
    assert gen.finish_reason == "cancelled"
    assert gen.token_ids == greedy_continuation(rule, [1, 2], len(gen.token_ids))


def test_a_run_cancelled_by_another_thread_ends_and_the_next_one_starts_anew():
    rule = wanders(V)
    pair = pair_of(rule, V)
    pair.target.model.before_forward = lambda: time.sleep(0.002)
    for _ in range(20):
        cancel = threading.Event()
        threading.Timer(0.01, cancel.set).start()
        gen = engine.generate(pair, [1, 2], DecodeSettings(max_new_tokens=100_000), cancel=cancel)
        assert gen.finish_reason == "cancelled"
        assert gen.token_ids == greedy_continuation(rule, [1, 2], len(gen.token_ids))


def test_cancelling_while_a_long_prompt_is_read_waits_for_one_chunk_at_most():
    cancel = threading.Event()
    pair = pair_of(wanders(V), V)
    pair.target.model.before_forward = cancel.set
    gen = engine.generate(pair, [1] * (5 * PREFILL_CHUNK), DecodeSettings(), cancel=cancel)
    assert pair.target.model.widths == [PREFILL_CHUNK]
    assert (gen.token_ids, gen.finish_reason, gen.text) == ([], "cancelled", "")


def test_cancelling_after_the_end_changes_nothing():
    cancel = threading.Event()
    run = engine.stream(pair_of(wanders(V), V), [1], DecodeSettings(max_new_tokens=3), cancel=cancel)
    assert len(list(run)) == 3
    cancel.set()
    assert list(run) == []
    assert run.generation.finish_reason == "length"


def test_a_run_that_is_looked_at_half_way_tells_the_truth_so_far():
    run = engine.stream(pair_of(wanders(V), V), [1], DecodeSettings(max_new_tokens=9))
    next(run)
    next(run)
    gen = run.generation
    assert gen.finish_reason is None
    assert len(gen.token_ids) == gen.stats.output_tokens == 2


def test_a_slow_reader_changes_no_measurement(monkeypatch):
    read, passed = time.perf_counter, 0.0
    monkeypatch.setattr(time, "perf_counter", lambda: read() + passed)
    run = engine.stream(
        pair_of(wanders(V), V, draft=wanders(V)), [1], DecodeSettings(max_new_tokens=8, k=1), drafter="model"
    )
    for _ in run:
        passed += 3600  # an hour over each step, which no machine is slow enough to take itself
    assert run.stats.steps >= 4
    assert run.stats.e2e_s < 3600


# --- a model that breaks ---


def test_a_model_that_returns_nan_is_one_sentence_and_the_next_run_works():
    rule = wanders(V)
    broken = [False]
    pair = pair_of(lambda h: torch.full((V,), float("nan")) if broken[0] and len(h) > 6 else rule(h), V)
    broken[0] = True
    run = engine.stream(pair, [1, 2], DecodeSettings(max_new_tokens=20))
    with pytest.raises(EngineError, match="NaN"):
        list(run)
    assert run.generation.token_ids == greedy_continuation(rule, [1, 2], 5)
    broken[0] = False
    assert engine.generate(pair, [1, 2], DecodeSettings(max_new_tokens=9)).token_ids == greedy_continuation(
        rule, [1, 2], 9
    )


# --- seeds ---


def sampled(pair, seed, drafter="model", verifier="rejection", temperature=1.0, most=24):
    return engine.generate(
        pair,
        [1, 2, 1, 2],
        DecodeSettings(k=3, max_new_tokens=most, temperature=temperature, seed=seed),
        drafter,
        verifier,
    )


@pytest.fixture(scope="module")
def random_pair():
    return Pair.from_models(tiny_llama(V), None, draft=tiny_llama(V, seed=1))


@pytest.mark.parametrize(("drafter", "verifier"), list(itertools.product(DRAFTERS, engine.VERIFIERS)))
def test_the_same_seed_gives_the_same_run_and_another_seed_another(random_pair, drafter, verifier):
    first, second = (sampled(random_pair, 7, drafter, verifier) for _ in range(2))
    assert first.token_ids == second.token_ids
    uniforms = [[p.u for s in g.trace.steps for p in s.proposals] for g in (first, second)]
    assert uniforms[0] == uniforms[1]
    assert any(sampled(random_pair, s, drafter, verifier).token_ids != first.token_ids for s in (8, 9))


def test_the_same_seed_gives_the_same_text_while_other_runs_go_on_in_other_threads(random_pair):
    alone = {seed: sampled(random_pair, seed).token_ids for seed in range(4)}
    together = {}

    def work(seed):
        together[seed] = [sampled(random_pair, seed).token_ids for _ in range(3)]

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for t in threads:
        t.start()
    while any(t.is_alive() for t in threads):
        torch.rand(100)  # and somebody uses the global generator
    for t in threads:
        t.join()
    assert together == {seed: [ids] * 3 for seed, ids in alone.items()}


def test_runs_that_take_turns_do_not_disturb_each_other(random_pair):
    values = [DecodeSettings(k=3, max_new_tokens=24, temperature=1.0, seed=s) for s in (1, 2)]
    runs = [engine.stream(random_pair, [1, 2, 1, 2], v, drafter="model") for v in values]
    for _ in itertools.zip_longest(*runs):
        pass
    assert [r.generation.token_ids for r in runs] == [sampled(random_pair, s).token_ids for s in (1, 2)]


def test_a_run_neither_reads_nor_moves_the_global_generator(random_pair):
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = sampled(random_pair, 3).token_ids
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert sampled(random_pair, 3).token_ids == first


@pytest.mark.parametrize(("drafter", "verifier"), list(itertools.product(DRAFTERS, engine.VERIFIERS)))
def test_at_temperature_zero_the_seed_changes_nothing(random_pair, drafter, verifier):
    assert len({tuple(sampled(random_pair, s, drafter, verifier, 0.0).token_ids) for s in (1, 2, 3, None)}) == 1


def test_a_run_without_a_seed_records_the_one_it_drew_and_can_be_repeated(random_pair):
    first, other = sampled(random_pair, None), sampled(random_pair, None)
    seed = first.trace.settings["seed"]
    assert isinstance(seed, int)
    assert seed != other.trace.settings["seed"]
    assert sampled(random_pair, seed).token_ids == first.token_ids


# --- the law of a whole run ---


def target_says(history):
    """A law that depends on the last two tokens."""
    a, b = history[-1], history[-2] if len(history) > 1 else 0
    row = np.array([0.1, 0.2, 0.7])
    return np.roll(row, a + 2 * b)


def draft_says(history):
    return np.roll([0.6, 0.3, 0.1], history[-1])


def outcomes(length):
    return list(itertools.product(range(3), repeat=length))


def law_of_outcomes(prompt, length):
    law = []
    for path in outcomes(length):
        share, history = 1.0, list(prompt)
        for token in path:
            share *= target_says(history)[token]
            history.append(token)
        law.append(share)
    return law


def counts_of_runs(runs, length, make):
    seen = Counter(tuple(make(seed)) for seed in range(runs))
    return [seen[o] for o in outcomes(length)]


class Lies:
    """A drafter that was drawn from one law and reports another."""

    name = "lies"

    def __init__(self, honest):
        self.honest, self.begin, self.observe = honest, honest.begin, honest.observe

    def propose(self, context, k):
        draft = self.honest.propose(context, k)
        return Draft(draft.tokens, torch.full_like(draft.probs, 1 / 3))


@pytest.mark.parametrize(
    ("drafter", "verifier"),
    [*(("model", v) for v in engine.EXACT), ("prompt_lookup", "rejection"), ("prompt_lookup", "block")],
)
def test_a_sampled_run_has_the_targets_law_over_all_its_tokens(drafter, verifier):
    pair = pair_of(table(target_says, 3), 3, draft=table(draft_says, 3))
    prompt, length = [0, 1, 2, 0, 1], 3

    def run(seed):
        values = DecodeSettings(k=2, max_new_tokens=length, temperature=1.0, seed=seed)
        return engine.generate(pair, prompt, values, drafter, verifier).token_ids

    assert chi_square(counts_of_runs(1200, length, run), law_of_outcomes(prompt, length)) > ALPHA


def test_the_law_check_fails_a_drafter_that_misreports_its_law():
    pair = pair_of(table(target_says, 3), 3, draft=table(draft_says, 3))

    def run(seed):
        values = DecodeSettings(k=2, max_new_tokens=3, temperature=1.0, seed=seed)
        stream = engine.stream(pair, [0, 1], values, "model")
        stream.drafter = Lies(stream.drafter)
        return [t for step in stream for t in step.emitted]

    assert chi_square(counts_of_runs(1200, 3, run), law_of_outcomes([0, 1], 3)) < 1e-9


# --- prompt lookup ---


def looked_up(context, k):
    """The rule in its own words, by brute force: longest suffix first, most recent earlier occurrence, then on."""
    for n in range(MAX_NGRAM, MIN_NGRAM - 1, -1):
        for start in range(len(context) - n - 1, -1, -1):
            if context[start : start + n] == context[-n:]:
                out = list(context)
                at = start + n
                for i in range(k):
                    out.append(out[at + i])
                return out[len(context) :]
    return []


@pytest.mark.parametrize("prompt", [[5], [1, 2], [1, 2, 3, 4, 5, 6], [1, 2, 3, 4], [1, 1]])
def test_with_nothing_to_find_nothing_is_drafted_and_there_is_no_acceptance_rate(prompt):
    assert PromptLookupDrafter().propose(prompt, 4) == Draft(note="no match")
    fresh = recites([7, 8, 9], len(prompt), V)
    gen = engine.generate(pair_of(fresh, V), prompt, DecodeSettings(max_new_tokens=3), drafter="prompt_lookup")
    assert gen.token_ids == [7, 8, 9]
    assert [lookahead(s) for s in gen.trace.steps] == [0, 0, 0]
    assert gen.trace.steps[1].draft_note == "no match"
    s = gen.stats
    assert (s.draft_acceptance_rate, s.mean_acceptance_length, s.alpha) == (None, None, None)
    assert (s.proposed, s.drafted_steps, s.acceptance_histogram, s.acceptance_rate_per_position) == (0, 0, (), ())
    assert s.tokens_per_target_forward == 1.0


def test_the_most_recent_of_equal_matches_wins():
    a, b, c, x, d, y = range(6)
    assert PromptLookupDrafter().propose([a, b, c, x, a, b, d, y, a, b], 3).tokens == [d, y, a]


def test_the_longest_match_wins_over_a_more_recent_shorter_one():
    assert PromptLookupDrafter().propose([1, 2, 3, 7, 9, 2, 3, 8, 1, 2, 3], 1).tokens == [7]


def test_what_was_generated_is_searched_like_the_prompt():
    script = [5, 6, 7, 8, 5, 6, 7, 8]
    gen = engine.generate(
        pair_of(recites(script, 1, V), V), [1], DecodeSettings(k=2, max_new_tokens=8), drafter="prompt_lookup"
    )
    assert gen.token_ids == script
    assert gen.stats.accepted > 0


def test_a_text_that_repeats_itself_is_drafted_on_past_its_end():
    assert PromptLookupDrafter().propose([1, 2, 1, 2, 1, 2], 5).tokens == [1, 2, 1, 2, 1]
    assert PromptLookupDrafter().propose([4, 4, 4], 4).tokens == [4, 4, 4, 4]


@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=30), st.integers(1, 6), st.lists(st.integers(1, 30), max_size=6)
)
@settings(max_examples=300, deadline=None)
def test_prompt_lookup_is_its_rule_also_when_the_context_grows_in_pieces(context, k, cuts):
    drafter = PromptLookupDrafter()
    for end in sorted({*(c for c in cuts if c < len(context)), len(context)}):
        assert drafter.propose(context[:end], k).tokens == looked_up(context[:end], k)


# --- drafters that pause ---


class Pausing:
    """A drafter whose K goes 3, 0, 0, 3, ..."""

    name = "pausing"

    def __init__(self, inner, pattern):
        self.inner, self.pattern, self.at = inner, pattern, 0

    def begin(self, prompt, cancel):
        self.inner.begin(prompt, cancel)

    def propose(self, context, k):
        k = min(k, self.pattern[self.at % len(self.pattern)])
        self.at += 1
        return self.inner.propose(context, k) if k else Draft(note="paused")

    def observe(self, outcome):
        self.inner.observe(outcome)


@pytest.mark.parametrize("pattern", [[3, 0, 0, 3], [0, 3], [1, 0, 2, 0, 0, 5], [5, 1]])
@pytest.mark.parametrize("share", [1.0, 0.6])
def test_a_pause_leaves_no_stale_token_in_the_drafts_cache(pattern, share):
    rule, draft_rule, prompt = wanders(V), wanders(V, share=share), [1, 2, 3]
    pair = pair_of(rule, V, draft=draft_rule)
    run = engine.stream(pair, prompt, DecodeSettings(k=5, max_new_tokens=60), drafter="model")
    run.drafter = Pausing(run.drafter, pattern)
    context, drafted = list(prompt), 0
    for step in run:
        # What the draft says from the same context with no cache at all.
        expected = greedy_continuation(draft_rule, context, lookahead(step))
        assert [p.token.token_id for p in step.proposals] == expected
        drafted += lookahead(step)
        context += step.emitted
    assert run.generation.token_ids == greedy_continuation(rule, prompt, 60)
    assert drafted > 0
    if share == 1.0:
        assert run.stats.draft_acceptance_rate == 1.0


@pytest.mark.parametrize("k", range(1, 7))
def test_a_draft_that_is_the_target_is_always_right(k):
    gen = engine.generate(
        pair_of(wanders(V), V, draft=wanders(V)), [1, 2, 3], DecodeSettings(k=k, max_new_tokens=61), drafter="model"
    )
    assert gen.stats.draft_acceptance_rate == 1.0
    assert gen.stats.mean_acceptance_length == pytest.approx(1 + gen.stats.proposed / gen.stats.drafted_steps)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.0])
def test_a_draft_that_is_the_target_is_always_right_when_sampling_too(random_pair, temperature):
    model = random_pair.target.model
    pair = Pair.from_models(model, None, draft=model)
    values = DecodeSettings(k=4, max_new_tokens=60, temperature=temperature, top_k=9, seed=1, repetition_penalty=1.2)
    for verifier in ("rejection", "block"):
        gen = engine.generate(pair, [1, 2, 3], values, drafter="model", verifier=verifier)
        assert gen.stats.draft_acceptance_rate == 1.0


# --- the draft's own prompt ---


def test_the_draft_reads_its_prompt_in_the_first_step_and_not_in_a_later_ones_time():
    pair = pair_of(wanders(V), V, draft=wanders(V))
    run = engine.stream(pair, list(range(16)) * 40, DecodeSettings(k=3, max_new_tokens=9), drafter="model")
    first = next(run)
    assert (first.proposals, sum(pair.draft.model.widths)) == ((), 640)
    second = next(run)
    assert pair.draft.model.widths[-3:] == [1, 1, 1]
    assert len(second.proposals) == 3


def test_a_draft_whose_context_the_prompt_fills_reads_nothing_and_says_so():
    pair = pair_of(wanders(V), V, draft=wanders(V), draft_context=64)
    gen = engine.generate(pair, list(range(16)) * 5, DecodeSettings(k=3, max_new_tokens=4), drafter="model")
    assert pair.draft.model.widths == []
    assert [s.draft_note for s in gen.trace.steps[1:3]] == ["the draft's context is full"] * 2


def test_one_token_needs_no_draft_to_read_the_prompt():
    pair = pair_of(wanders(V), V, draft=wanders(V))
    engine.generate(pair, [1, 2, 3], DecodeSettings(k=3, max_new_tokens=1), drafter="model")
    assert pair.draft.model.widths == []


def test_a_closed_run_keeps_what_it_did_and_lets_go_of_its_cache():
    pair = pair_of(wanders(V), V, draft=wanders(V))
    both = engine.race(pair, [1, 2, 3], DecodeSettings(k=3, max_new_tokens=30), drafter="model")
    for _ in range(5):
        next(both)
    done = both.speculative.generation.token_ids
    both.close()
    assert list(both) == []
    assert both.speculative.generation.token_ids == done
    assert both.speculative.generation.finish_reason == both.plain.generation.finish_reason == "cancelled"
    assert both.speculative.cache.length == 0


# --- misuse ---


def test_a_stream_whose_forward_failed_ends_and_keeps_what_it_had_done():
    pair = pair_of(wanders(V), V, draft=wanders(V))
    run = engine.stream(pair, [1, 2, 3], DecodeSettings(k=3, max_new_tokens=30), drafter="model")
    done = [t for _ in range(3) for t in next(run).emitted]
    forward, pair.target.model.forward = pair.target.model.forward, None
    with pytest.raises(TypeError):
        next(run)
    pair.target.model.forward = forward
    assert next(run, None) is None
    assert run.generation.token_ids == done
    assert run.generation.finish_reason == "cancelled"
    again = engine.generate(pair, [1, 2, 3], DecodeSettings(k=3, max_new_tokens=30), drafter="model")
    assert again.token_ids[: len(done)] == done


def test_a_second_thread_that_reads_the_same_stream_is_told_so():
    pair = pair_of(wanders(V), V)
    run = engine.stream(pair, [1, 2, 3], DecodeSettings(max_new_tokens=30))
    forward, told = pair.target.model.forward, []

    def read():
        try:
            next(run)
        except engine.EngineError as error:
            told.append(str(error))

    def meanwhile(*args, **kwargs):
        worker = threading.Thread(target=read)
        worker.start()
        worker.join()
        return forward(*args, **kwargs)

    pair.target.model.forward = meanwhile
    next(run)
    assert "another thread" in told[0]
    assert len(run.generation.token_ids) == 1


@pytest.mark.parametrize("prompt", [b"hello", bytearray(b"x"), {1, 2}, [-1], [2**70], [V], {"role": "user"}])
def test_a_prompt_that_is_no_sequence_of_known_ids_is_refused(prompt):
    with pytest.raises(engine.EngineError):
        engine.generate(pair_of(wanders(V), V), prompt)


def test_numpy_integers_are_token_ids():
    import numpy as np

    pair, settings = pair_of(wanders(V), V), DecodeSettings(max_new_tokens=4)
    expected = engine.generate(pair, [1, 2], settings).token_ids
    for prompt in (np.array([1, 2]), [np.int64(1), np.int32(2)], torch.tensor([1, 2]), (1, 2)):
        assert engine.generate(pair, prompt, settings).token_ids == expected


@pytest.mark.parametrize(
    "wrong", [{"alternatives": -1}, {"alternatives": True}, {"cancel": True}, {"settings": {"k": 3}}]
)
def test_wrong_types_are_one_sentence(wrong):
    with pytest.raises(engine.EngineError):
        engine.generate(pair_of(wanders(V), V), [1], **wrong)
