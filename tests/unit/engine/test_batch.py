"""Continuous batching: rows of any length join and leave, and each says what it says alone."""

import copy
import random
import threading
import time
from contextlib import suppress

import pytest
import torch
from helpers.models import greedy_continuation, pair_of, tiny_gpt2, tiny_llama, wanders
from test_architectures import CONFIGS, build

import engine
from engine import Batch, BatchError, DecodeSettings, EngineError, Pair, PrefixCache, generate_batch
from engine.cache import BUCKET, SlotCache
from engine.drafters.prompt_lookup import PromptLookupDrafter
from engine.runner import PREFILL_CHUNK, Runner

V = 61
DRAFTERS = ("none", "prompt_lookup", "model")
pytestmark = pytest.mark.usefixtures("one_thread")


def draft_for(target):
    """Right often enough that every step accepts another number of tokens."""
    draft = copy.deepcopy(target)
    with torch.no_grad():
        for p in draft.parameters():
            p.add_(torch.randn(p.shape, generator=torch.Generator().manual_seed(3)) * 0.03)
    return draft


def pair_for(name):
    if name == "fused":
        target = build(CONFIGS["llama"], 1)
        pair = Pair.from_models(target, None, draft=draft_for(target), quantization="none")
        assert pair.target.fused is not None
        return pair
    target = build(CONFIGS[name], 1)
    return Pair.from_models(target, None, draft=draft_for(target))


@pytest.fixture(scope="module", params=["fused", "llama", "gpt2", "mistral-window", "gemma2-windows", "llama4-chunks"])
def pair(request):
    return pair_for(request.param)


@pytest.fixture(scope="module")
def llama():
    return pair_for("fused")


def random_prompts(seed, sizes=(1, 2, 5, 9, 17, 30, 41)):
    chance = random.Random(seed)
    return [[chance.randrange(V) for _ in range(n)] for n in sizes]


def shape(gen):
    """All of a run that no clock has a part in."""
    return [(s.emitted, tuple(p.token.token_id for p in s.proposals), s.draft_note) for s in gen.trace.steps]


def agree(pair, prompts, settings, drafters, verifiers, **how):
    together = generate_batch(pair, prompts, settings, drafters, verifiers, **how)
    alone = [engine.generate(pair, *each) for each in zip(prompts, settings, drafters, verifiers, strict=True)]
    assert [g.token_ids for g in together] == [g.token_ids for g in alone]
    assert [g.finish_reason for g in together] == [g.finish_reason for g in alone]
    assert [shape(g) for g in together] == [shape(g) for g in alone]
    return together


# --- each row says what it says alone ---


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_each_row_equals_its_single_run_from_one_token_to_past_every_window(pair, drafter, temperature):
    """Known faults E9 and E10: rows of several lengths without a pad token, and ragged acceptance."""
    prompts = random_prompts(4)
    settings = [
        DecodeSettings(k=i % 7, max_new_tokens=6 + 3 * i, temperature=temperature, seed=i) for i in range(len(prompts))
    ]
    gens = agree(pair, prompts, settings, [drafter] * 7, ["rejection"] * 7, max_batch=4)
    assert max(s.rows for g in gens for s in g.trace.steps) == 4
    if drafter == "model":
        assert {s.num_accepted for g in gens for s in g.trace.steps} >= {0, 1, 2}, "acceptance was not ragged"


@pytest.mark.parametrize(("max_batch", "seed"), [(1, 0), (2, 1), (3, 2), (16, 3)])
def test_rows_with_settings_drafters_rules_and_lengths_of_their_own_do_not_touch_each_other(pair, max_batch, seed):
    chance = random.Random(seed)
    prompts = random_prompts(seed, [chance.choice((1, 3, 8, 20, 40)) for _ in range(8)])
    settings = [
        DecodeSettings(
            k=chance.randrange(7), max_new_tokens=chance.randrange(18), temperature=chance.choice((0.0, 0.7)), seed=i,
            top_k=chance.choice((0, 5)), repetition_penalty=chance.choice((1.0, 1.3)),
        )
        for i in range(8)
    ]  # fmt: skip
    drafters = [chance.choice(DRAFTERS) for _ in prompts]
    rules = [chance.choice(engine.VERIFIERS) for _ in prompts]
    gens = agree(pair, prompts, settings, drafters, rules, max_batch=max_batch)
    shared = max((s.rows for g in gens for s in g.trace.steps), default=0)
    assert 1 <= shared <= max_batch
    assert shared > 1 or max_batch == 1, "the rows never met"


def test_rows_that_join_while_others_decode_and_leave_before_them_change_nothing(pair):
    prompts = random_prompts(9)
    settings = [DecodeSettings(k=3, max_new_tokens=n, temperature=1.0, seed=n) for n in (30, 4, 22, 9, 1, 17, 12)]
    batch = Batch(pair, max_batch=3)
    rows = []
    for at, (prompt, values) in enumerate(zip(prompts, settings, strict=True)):
        rows.append(batch.submit(prompt, values, "model"))
        for _ in range(at % 3):
            batch.step()
    while batch.busy:
        batch.step()
    alone = [engine.generate(pair, p, s, "model").token_ids for p, s in zip(prompts, settings, strict=True)]
    assert [row.generation.token_ids for row in rows] == alone


def test_a_row_at_the_end_of_its_context_beside_a_wide_draft_is_right(pair):
    """The padding of the short row would stand past the last position that a table of positions knows."""
    room = pair.context_length
    prompts = random_prompts(2, (room - 3, room - 9, 7))
    settings = [DecodeSettings(k=6, max_new_tokens=40)] * 3
    gens = agree(pair, prompts, settings, ["none", "model", "model"], ["rejection"] * 3)
    assert [len(g.token_ids) for g in gens] == [3, 9, 40]


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_gpt2_without_a_pad_token_reads_two_lengths_with_an_explicit_mask(attention, monkeypatch):
    """Known fault E9: the pad token stands in for a mask, or a mask is guessed from it."""
    model = build(CONFIGS["gpt2"], 1, attention)
    assert model.config.pad_token_id is None
    pair = Pair.from_models(model, None)
    assert pair.target.reads_rows_together
    seen, forward = [], model.forward

    def spy(*args, **kwargs):
        if kwargs["input_ids"].shape[0] > 1:
            seen.append((kwargs["attention_mask"].tolist(), kwargs["position_ids"].tolist()))
        return forward(*args, **kwargs)

    monkeypatch.setattr(model, "forward", spy)
    settings = [DecodeSettings(max_new_tokens=6)] * 2
    agree(pair, [[5, 6, 7, 8], [9]], settings, ["none"] * 2, ["rejection"] * 2)
    assert seen[0] == ([[1, 1, 1, 1, 1], [0, 0, 0, 1, 1]], [[4], [1]])


def test_the_same_seed_in_every_row_is_the_same_text_and_seeds_do_not_mix(llama):
    """Known fault A11's neighbours: seeded and unseeded requests in one batch."""
    prompt = [3, 4, 5, 3, 4]
    settings = [DecodeSettings(k=3, max_new_tokens=20, temperature=1.0, seed=s) for s in (7, None, 7, 8, None)]
    ids = [g.token_ids for g in generate_batch(llama, [prompt] * 5, settings, "model")]
    assert ids[0] == ids[2] == engine.generate(llama, prompt, settings[0], "model").token_ids
    assert len({*map(tuple, ids)}) == 4


def test_stops_and_ends_are_each_rows_own(llama):
    free = generate_batch(llama, [[1, 2, 3]] * 2, DecodeSettings(max_new_tokens=20))[0].token_ids
    pair = Pair.from_models(build(CONFIGS["llama"], 1), None)
    object.__setattr__(pair, "eos_ids", frozenset({free[4]}))
    first = free.index(free[4])
    ended, ran = generate_batch(
        pair, [[1, 2, 3]] * 2, [DecodeSettings(max_new_tokens=20), DecodeSettings(max_new_tokens=20, ignore_eos=True)]
    )
    assert (ended.token_ids, ended.finish_reason) == (free[: first + 1], "eos")
    assert (ran.token_ids, ran.finish_reason) == (free, "length")


# --- wrong rules fail ---


def leaky(self, live):
    """Rows that are not shifted to their own end: each sees stale keys of its neighbour's length."""
    return live


def test_the_check_fails_an_unmasked_batch_and_such_a_model_is_read_row_by_row(monkeypatch):
    monkeypatch.setattr("engine.cache._RightAligned.aligned", leaky)
    pair = Pair.from_models(build(CONFIGS["gpt2"], 1), None)
    assert not pair.target.reads_rows_together
    settings = [DecodeSettings(max_new_tokens=12)] * 3
    gens = agree(pair, random_prompts(1, (3, 20, 9)), settings, ["none"] * 3, ["rejection"] * 3)
    assert all(any("one by one" in n for n in g.trace.notices) for g in gens)
    pair.target.reads_rows_together = True
    with pytest.raises(AssertionError):  # and without the check the wrong rule would be seen here
        agree(pair, random_prompts(1, (3, 20, 9)), settings, ["none"] * 3, ["rejection"] * 3)


def test_rows_that_see_each_others_keys_would_be_seen_here(llama, monkeypatch):
    honest = SlotCache.copy_row
    monkeypatch.setattr(SlotCache, "copy_row", lambda self, source, to: honest(self, to, to))  # a row that did not move
    settings = [DecodeSettings(max_new_tokens=n) for n in (3, 20, 25)]
    with suppress(ValueError):
        gens = generate_batch(llama, random_prompts(1, (3, 20, 9)), settings)
        alone = [engine.generate(llama, p, s) for p, s in zip(random_prompts(1, (3, 20, 9)), settings, strict=True)]
        assert [g.token_ids for g in gens] != [g.token_ids for g in alone]


def test_a_model_that_takes_no_mask_is_read_row_by_row_and_says_so():
    rule = wanders(16)
    pair = pair_of(rule, 16, draft=wanders(16, share=0.7))
    prompts = [[1], [1, 2, 3], [4] * 9]
    gens = generate_batch(pair, prompts, DecodeSettings(k=3, max_new_tokens=20), "model")
    assert [g.token_ids for g in gens] == [greedy_continuation(rule, p, 20) for p in prompts]
    assert all("one by one" in g.trace.notices[-1] for g in gens)
    assert generate_batch(pair, prompts[:1], DecodeSettings(max_new_tokens=2))[0].trace.notices == ()


# --- prompts in pieces ---


@pytest.fixture(scope="module")
def long_pair():
    return Pair.from_models(tiny_llama(V, context=4096), None, draft=tiny_llama(V, 1, 4096), quantization="none")


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_a_long_prompt_is_read_in_pieces_between_the_steps_of_the_others(long_pair, drafter):
    long = [i % V for i in range(4 * PREFILL_CHUNK + 9)]
    values = DecodeSettings(k=2, max_new_tokens=60)
    batch = Batch(long_pair)
    short = batch.submit([1, 2, 3], values)
    batch.step()
    late = batch.submit(long, values, drafter)
    told = []
    while not late.steps:
        told.append([row.index for row, _ in batch.step()])
    assert told == [[0]] * 4 + [[1, 0]], "one piece a step, and a token of the other row in each"
    assert late.steps[0].prefill_tokens == len(long) - 1
    while batch.busy:
        batch.step()
    assert short.generation.token_ids == engine.generate(long_pair, [1, 2, 3], values).token_ids
    assert late.generation.token_ids == engine.generate(long_pair, long, values, drafter).token_ids


def test_a_short_prompt_behind_a_long_one_does_not_wait_for_its_end(long_pair):
    values = DecodeSettings(max_new_tokens=4)
    batch = Batch(long_pair)
    long = batch.submit([5] * (6 * PREFILL_CHUNK), values)
    shorts = [batch.submit([i, i + 1], values) for i in range(3)]
    steps = 0
    while not all(row.ended for row in shorts):
        batch.step()
        steps += 1
    assert steps <= 6
    assert not long.steps
    while batch.busy:  # and the long one, overtaken in the cache, is right
        batch.step()
    assert long.generation.token_ids == engine.generate(long_pair, [5] * (6 * PREFILL_CHUNK), values).token_ids


def test_several_short_prompts_join_in_one_step(long_pair):
    batch = Batch(long_pair)
    rows = [batch.submit([i] * 20, DecodeSettings(max_new_tokens=2)) for i in range(8)]
    assert [row.index for row, _ in batch.step()] == [row.index for row in rows]


def test_no_forward_reads_more_than_a_piece(long_pair, monkeypatch):
    widths = []
    for runner in (long_pair.target, long_pair.draft):
        read = runner.fused.read
        monkeypatch.setattr(runner.fused, "read", lambda ids, *a, f=read: widths.append(ids.shape[1]) or f(ids, *a))
    generate_batch(long_pair, [[7] * 1500, [8] * 700], DecodeSettings(max_new_tokens=3, k=2), "model")
    assert max(widths) <= PREFILL_CHUNK
    assert sum(w for w in widths if w > 5) == pytest.approx(2 * 2200, abs=20)  # each model, each prompt, once


# --- queue, time, totals ---


def test_rows_wait_in_order_and_their_waiting_is_in_no_step(llama, monkeypatch):
    read, passed = time.perf_counter, 0.0
    monkeypatch.setattr(time, "perf_counter", lambda: read() + passed)
    batch = Batch(llama, max_batch=1)
    rows = [batch.submit([1, 2], DecodeSettings(max_new_tokens=3)) for _ in range(3)]
    order = []
    passed = 3600.0  # an hour in the queue, which no machine is slow enough to take over a step
    while batch.busy:
        order += [row.index for row, _ in batch.step()]
    assert order == [0] * 3 + [1] * 3 + [2] * 3
    waits = [row.generation.trace.queued_ms for row in rows]
    assert waits[0] >= 3_600_000
    assert waits[0] < waits[1] < waits[2]
    assert all(row.stats.ttft_s * 1e3 < waits[1] for row in rows)


def test_a_rows_times_add_up_to_what_passed_from_its_admission_to_its_last_token(llama):
    batch = Batch(llama)
    rows = [batch.submit(p, DecodeSettings(k=3, max_new_tokens=30), "model") for p in random_prompts(3)]
    while batch.busy:
        batch.step()
        time.sleep(0.002)  # a slow reader is on no clock
    totals = batch.totals
    for row in rows:
        assert all(ms >= 0 for s in row.steps for ms in (s.draft_ms, s.verify_ms, s.other_ms))
    longest = max(row.stats.e2e_s for row in rows)
    assert longest <= totals.seconds + 1e-6
    assert longest == pytest.approx(totals.seconds, rel=0.3)


def test_the_totals_count_the_batch_once_and_every_token(llama):
    batch = Batch(llama)
    rows = [batch.submit(p, DecodeSettings(max_new_tokens=10)) for p in random_prompts(5)]
    while batch.busy:
        batch.step()
        half = batch.totals
        assert half.output_tokens == sum(len(row.generation.token_ids) for row in rows)
    totals = batch.totals
    assert (totals.rows, totals.output_tokens, totals.prompt_tokens) == (7, 70, sum(len(r.prompt.ids) for r in rows))
    assert totals.forwards == 9
    assert totals.rows_per_forward == 7
    assert totals.output_tokens_per_second == pytest.approx(70 / totals.seconds)
    assert totals.reused_prompt_tokens == 0


def test_an_empty_batch_has_no_numbers_and_no_step(llama):
    batch = Batch(llama)
    assert not batch.busy
    assert batch.step() == []
    assert (batch.totals.rows_per_forward, batch.totals.output_tokens_per_second) == (None, None)
    assert generate_batch(llama, []) == []


def test_nothing_asked_for_is_nothing_done():
    pair = pair_of(wanders(16), 16)
    gens = generate_batch(pair, [[1], [2]], DecodeSettings(max_new_tokens=0))
    assert [(g.token_ids, g.finish_reason) for g in gens] == [([], "length")] * 2
    assert pair.target.model.widths == []


def test_every_step_and_every_finished_prompt_is_told(llama):
    steps, told = [], []
    gens = generate_batch(
        llama, random_prompts(6), DecodeSettings(k=3, max_new_tokens=9), "prompt_lookup", max_batch=2,
        progress=lambda done, total: told.append((done, total)), on_step=lambda at, step: steps.append((at, step)),
    )  # fmt: skip
    assert told == [(n, 7) for n in range(1, 8)]
    for at, gen in enumerate(gens):
        assert [s for i, s in steps if i == at] == list(gen.trace.steps)


# --- cancelling and failing ---


def test_a_cancelled_row_ends_alone_and_the_others_go_on(llama):
    events = [threading.Event() for _ in range(4)]
    events[3].set()  # before it began

    def stop(at, step):
        if at == 1 and step.index == 2:
            events[1].set()

    prompts = random_prompts(8, (4, 5, 6, 7))
    values = DecodeSettings(max_new_tokens=12)
    gens = generate_batch(llama, prompts, values, cancel=events, on_step=stop)
    alone = [engine.generate(llama, p, values).token_ids for p in prompts]
    assert [g.finish_reason for g in gens] == ["length", "cancelled", "length", "cancelled"]
    assert [g.token_ids for g in gens] == [alone[0], alone[1][:3], alone[2], []]


def test_one_event_for_all_ends_all_with_what_they_had(llama):
    cancel = threading.Event()
    gens = generate_batch(
        llama, random_prompts(8), DecodeSettings(max_new_tokens=12), max_batch=2, cancel=cancel,
        on_step=lambda at, step: step.index == 3 and cancel.set(),
    )  # fmt: skip
    assert {g.finish_reason for g in gens} == {"cancelled"}
    assert sum(len(g.token_ids) for g in gens) == 8


def test_a_row_cancelled_while_its_long_prompt_is_read_leaves_the_others_right(long_pair):
    cancel = threading.Event()
    batch = Batch(long_pair)
    values = DecodeSettings(max_new_tokens=12)
    long = batch.submit([3] * 2000, values, cancel=cancel)
    rows = [batch.submit([4, i], values) for i in range(3)]
    batch.step()
    batch.step()
    cancel.set()
    while batch.busy:
        batch.step()
    assert (long.finish_reason, long.steps) == ("cancelled", [])
    for i, row in enumerate(rows):
        assert row.generation.token_ids == engine.generate(long_pair, [4, i], values).token_ids


class Breaks(PromptLookupDrafter):
    def propose(self, context, k):
        if len(context) > 8:
            raise RuntimeError("the drafter broke")
        return super().propose(context, k)


def test_a_row_whose_drafter_breaks_ends_alone_and_the_error_carries_all_results(llama, monkeypatch):
    real = PromptLookupDrafter
    made = []

    def some(*args):
        made.append(1)
        return (Breaks if len(made) == 2 else real)(*args)

    monkeypatch.setattr("engine.drafters.make.PromptLookupDrafter", some)
    prompts = [[1, 2, 1, 2, 1]] * 3
    values = DecodeSettings(k=2, max_new_tokens=20)
    with pytest.raises(BatchError, match=r"prompts\[1\] failed: the drafter broke") as raised:
        generate_batch(llama, prompts, values, "prompt_lookup")
    monkeypatch.undo()
    alone = engine.generate(llama, prompts[0], values, "prompt_lookup").token_ids
    first, broken, third = raised.value.generations
    assert first.token_ids == third.token_ids == alone
    assert broken.finish_reason == "cancelled"
    assert 0 < len(broken.token_ids) < 20
    assert broken.token_ids == alone[: len(broken.token_ids)]
    assert [*raised.value.errors] == [1]


def test_a_row_without_a_law_ends_alone_with_one_sentence():
    broken = []
    rule = wanders(16)
    pair = pair_of(lambda h: torch.full((16,), float("nan")) if broken and h[0] == 9 and len(h) > 4 else rule(h), 16)
    broken.append(1)
    with pytest.raises(BatchError, match="NaN") as raised:
        generate_batch(pair, [[1, 2], [9, 2]], DecodeSettings(max_new_tokens=10))
    good, bad = raised.value.generations
    assert good.token_ids == greedy_continuation(rule, [1, 2], 10)
    assert bad.token_ids == greedy_continuation(rule, [9, 2], 3)


@pytest.mark.parametrize("first", [True, False], ids=["moved-into", "dropped"])
@pytest.mark.parametrize("quantization", ["none", None], ids=["fused", "by-layers"])
def test_what_a_row_of_nan_leaves_behind_kills_no_later_row_in_its_place(quantization, first):
    """Ragged attention reads up to the longest row's end, and the weight of a hidden key is 0: 0 * NaN is NaN."""
    pair = Pair.from_models(build(CONFIGS["llama"], 1), None, quantization=quantization)
    long, ill, short, innocent = random_prompts(5, (40, 35, 4, 3))
    values = DecodeSettings(max_new_tokens=12)
    batch = Batch(pair, max_batch=3)
    prompts = [ill, long, short] if first else [long, short, ill]
    rows = [batch.submit(p, values) for p in prompts]
    batch.step()
    poisoned = rows.pop(prompts.index(ill))
    with torch.inference_mode():
        for buffer in batch.cache._row_buffers():
            buffer[batch._live.index(poisoned)][..., : poisoned.cache.length, :] = float("nan")
    batch.step()
    assert "NaN" in str(poisoned.error)
    rows.append(batch.submit(innocent, values))
    while batch.busy:
        batch.step()
    assert [row.error for row in rows] == [None] * 3
    alone = [engine.generate(pair, p, values).token_ids for p in (long, short, innocent)]
    assert [row.generation.token_ids for row in rows] == alone
    assert max(step.rows for step in rows[-1].steps) == 3


@pytest.mark.parametrize("quantization", ["none", None], ids=["fused", "by-layers"])
def test_rows_that_are_copied_swapped_and_dropped_leave_nothing_behind_other_rows(quantization):
    runner = Runner(build(CONFIGS["llama"], 1), "tiny", V, quantization)

    def three(*lengths):
        cache = runner.new_cache(0)
        for n in lengths:
            runner.forward(list(range(1, n + 1)), cache.rows(cache.add_row(), 1), keep=1)
        return cache

    def stale(cache, row, length):
        return any(bool((b[row][..., length:, :] != 0).any()) for b in cache._row_buffers())

    cache = three(4, 9, 30)
    cache.rollback(2, row=2)
    assert stale(cache, 2, 2), "a row's own tail may stay: it is as fit as the row"
    cache.copy_row(0, 2)
    assert not stale(cache, 2, 4)
    cache.swap_rows(0, 1)
    assert cache.lengths == [9, 4, 4]
    assert not stale(cache, 1, 4)
    cache = three(4, 9, 30)
    cache.rollback(2, row=2)
    cache.swap_rows(2, 1)
    assert not stale(cache, 2, 9)
    cache.drop_last_row()
    cache.add_row()
    assert not stale(cache, 2, 0)


def test_a_fault_of_a_shared_forward_is_raised_and_the_batch_can_begin_anew(llama, monkeypatch):
    batch = Batch(llama)
    rows = [batch.submit([1, 2], DecodeSettings(max_new_tokens=9)) for _ in range(2)]
    batch.step()
    with monkeypatch.context() as patch:
        patch.setattr(llama.target, "read_rows", lambda *a: (_ for _ in ()).throw(RuntimeError("device lost")))
        with pytest.raises(RuntimeError, match="device lost"):
            batch.step()
    assert [(row.finish_reason, len(row.generation.token_ids)) for row in rows] == [("cancelled", 1)] * 2
    again = batch.submit([1, 2], DecodeSettings(max_new_tokens=9))
    while batch.busy:
        batch.step()
    assert again.generation.token_ids == engine.generate(llama, [1, 2], DecodeSettings(max_new_tokens=9)).token_ids


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"prompts": [[1], [2], []]}, r"prompts\[2\]: the prompt is empty"),
        ({"prompts": [[1], [999]]}, r"prompts\[1\]: token id 999"),
        ({"prompts": [[1], [1] * 5000]}, r"prompts\[1\]: the prompt has 5000 tokens"),
        ({"prompts": [[1]] * 2, "drafter": ["none", "eagel"]}, r"prompts\[1\]: unknown drafter 'eagel'"),
        ({"prompts": [[1]] * 2, "settings": [None, 3]}, r"prompts\[1\]: settings must be"),
        ({"prompts": [[1]] * 2, "settings": [None]}, "settings has 1 entries for 2 prompts"),
        ({"prompts": "hello"}, "list of prompts"),
        ({"prompts": [[1]], "max_batch": 0}, "max_batch must be a whole number"),
        ({"prompts": [[1]], "max_batch": True}, "max_batch must be a whole number"),
    ],
)
def test_bad_input_is_one_sentence_that_names_the_prompt_before_any_forward(how, says):
    pair = pair_of(wanders(16), 16)
    with pytest.raises(EngineError, match=says) as raised:
        generate_batch(pair, **how)
    assert "\n" not in str(raised.value)
    assert pair.target.model.widths == []


# --- threads ---


def test_rows_may_be_submitted_from_any_thread_and_only_one_may_step(llama):
    batch, rows, problems = Batch(llama, max_batch=3), [], []
    values = DecodeSettings(max_new_tokens=15)

    def submit(i):
        try:
            rows.append((i, batch.submit([i, i + 1], values)))
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=submit, args=(i,)) for i in range(12)]
    for t in threads:
        t.start()
        batch.step()
    for t in threads:
        t.join()
    while batch.busy:
        batch.step()
    assert not problems
    for i, row in rows:
        assert row.generation.token_ids == engine.generate(llama, [i, i + 1], values).token_ids


def test_a_second_thread_that_steps_is_told_so():
    inside, go_on = threading.Event(), threading.Event()
    pair = pair_of(wanders(16), 16)

    def wait():
        inside.set()
        go_on.wait(600)

    pair.target.model.before_forward = wait
    batch = Batch(pair)
    batch.submit([1], DecodeSettings(max_new_tokens=1))
    thread = threading.Thread(target=batch.step)
    thread.start()
    assert inside.wait(600)
    with pytest.raises(EngineError, match="another thread"):
        batch.step()
    go_on.set()
    thread.join()


# --- the cache under it ---


def test_rows_of_a_cache_share_its_buffers_and_its_lengths():
    runner = Runner(tiny_llama(V), "tiny", V)
    cache = runner.new_cache(3)
    runner.forward([1, 2, 3], cache.rows(1, 1), keep=1)
    assert cache.lengths == [0, 3, 0]
    assert cache.rows(1, 2).lengths == [3, 0]
    cache.rows(1, 2).rollback(2, 0)
    assert cache.lengths == [0, 2, 0]
    with pytest.raises(ValueError, match="row 1 holds 0"):
        cache.rows(1, 2).rollback(1, 1)


@pytest.mark.parametrize("quantization", [None, "none"])
def test_growing_in_rows_and_in_positions_keeps_every_live_row(quantization):
    runner = Runner(tiny_llama(V, context=4096), "tiny", V, quantization)
    cache, held = runner.new_cache(0), []
    for size in (3, BUCKET + 5, 1, 2 * BUCKET, 40):
        row = cache.add_row()
        ids = random_prompts(size, (size,))[0]
        held.append(ids)
        runner.forward(ids, cache.rows(row, 1), keep=1)
    assert cache.lengths == [len(ids) for ids in held]
    cache.swap_rows(0, 3)
    cache.copy_row(4, 1)
    cache.drop_last_row()
    held[0], held[3], held[1] = held[3], held[0], held.pop()
    assert cache.lengths == [len(ids) for ids in held]
    logits = runner.forward_rows([[7], [8, 9], [10], [11]], cache, [1, 2, 1, 1])
    for ids, fresh, got in zip(held, ([7], [8, 9], [10], [11]), logits, strict=True):
        expected = runner.forward([*ids, *fresh], runner.new_cache(), keep=len(fresh))
        torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-3)


def test_a_batch_lets_go_of_its_rows_when_they_leave(llama):
    batch = Batch(llama)
    for _ in range(3):
        row = batch.submit([1, 2, 3], DecodeSettings(max_new_tokens=4))
        while batch.busy:
            batch.step()
        assert batch.cache.lengths == []
        assert row.cache.of is not batch.cache
    assert batch.totals.rows == 3
    assert batch.cache.row_capacity == 1


def test_a_shared_beginning_is_read_once_by_rows_that_start_together(long_pair):
    system = random_prompts(11, (3 * PREFILL_CHUNK,))[0]
    prompts = [[*system, i, i + 1] for i in range(5)]
    values = DecodeSettings(max_new_tokens=5)
    gens = generate_batch(long_pair, prompts, values, prefix_cache=PrefixCache())
    assert [g.token_ids for g in gens] == [engine.generate(long_pair, p, values).token_ids for p in prompts]
    read = sum(len(p) - g.stats.reused_prompt_tokens for p, g in zip(prompts, gens, strict=True))
    assert read <= len(system) + 5 * 2 + PREFILL_CHUNK


def test_gpt2_rows_agree_too_when_the_model_is_larger_than_a_bucket():
    pair = Pair.from_models(tiny_gpt2(V, context=512), None)
    prompts = random_prompts(12, (BUCKET - 2, 3, BUCKET + 9))
    gens = agree(pair, prompts, [DecodeSettings(max_new_tokens=20)] * 3, ["prompt_lookup"] * 3, ["rejection"] * 3)
    assert max(s.rows for g in gens for s in g.trace.steps) == 3, "the rows never met"
