"""CUDA graphs without CUDA: which graph a step takes, what it is bound to, and when it is captured anew. The backend is
a tape that repeats the captured operations on the captured memory; tests/gpu does the same with the real one."""

import gc
import threading
import warnings
import weakref
from unittest import mock

import pytest
import torch
from helpers.models import tiny_llama
from helpers.tape import TapeBackend

import engine
from engine import DecodeSettings, Pair, gpu
from engine.buffers import BufferPool, length_bucket
from engine.gpu import GraphedDecoder

V = 64
PROMPT = [1, 2, 3, 4] * 4
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def runner():
    """A runner of its own for each test, with the tape in place of CUDA."""
    return graphed_pair().target


def graphed_pair(fails=None, **extra):
    pair = Pair.from_models(tiny_llama(V, context=2048), None, draft=tiny_llama(V, seed=1), quantization="none")
    for one in (pair.target, pair.draft):
        one.graphs = GraphedDecoder(one.fused, TapeBackend(fails), **extra)
    return pair


def ids(width, rows=1, seed=0):
    return torch.randint(V, (rows, width), generator=torch.Generator().manual_seed(seed))


def eager(runner, tokens, keep):
    with mock.patch.object(runner, "graphs", None):
        return runner.forward(tokens, runner.new_cache(), keep)


def read(runner, cache, tokens):
    """As a step does: all logits of what is read are asked for."""
    return runner.forward(tokens, cache, len(tokens))


def keys(decoder):
    return [key[:3] for key in decoder._graphs]


def close(a, b):
    torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


# --- the answers ---


@pytest.mark.parametrize("drafter", ["none", "prompt_lookup", "model"])
@pytest.mark.parametrize("law", [{}, {"temperature": 1.0, "top_k": 30}], ids=str)
def test_a_run_says_the_same_from_graphs_and_for_any_k(drafter, law):
    pair = graphed_pair()
    for k, count in ((1, 20), (4, 130)):
        settings = DecodeSettings(k=k, max_new_tokens=count, seed=3, **law)
        with mock.patch.object(pair.target, "graphs", None), mock.patch.object(pair.draft, "graphs", None):
            expected = engine.generate(pair, PROMPT, settings, drafter)
        found = engine.generate(pair, PROMPT, settings, drafter)
        assert found.token_ids == expected.token_ids
        assert [len(s.proposals) for s in found.trace.steps] == [len(s.proposals) for s in expected.trace.steps]
    assert pair.target.graphs.backend.replayed > 20


def test_a_ragged_batch_says_what_each_row_says_alone():
    pair = graphed_pair()
    prompts = [[1, 2, 3] * 5, [4, 5] * 4, [6, 7, 8, 9] * 9]
    settings = DecodeSettings(k=4, max_new_tokens=40, seed=0)
    together = engine.generate_batch(pair, prompts, settings, drafter="prompt_lookup", max_batch=3)
    assert any(rows == 3 for rows, _, _ in keys(pair.target.graphs))
    with mock.patch.object(pair.target, "graphs", None):
        alone = [engine.generate(pair, p, settings, "prompt_lookup") for p in prompts]
    assert [g.token_ids for g in together] == [g.token_ids for g in alone]


def test_what_a_replay_returned_is_not_changed_by_the_next(runner):
    cache = runner.new_cache()
    first = read(runner, cache, [1, 2, 3])
    kept = first.clone()
    read(runner, cache, [4, 5, 6])
    assert torch.equal(first, kept)


# --- which graph ---


def test_there_is_one_graph_for_each_row_count_width_and_bucket(runner):
    cache, at = runner.new_cache(), 0
    cache.reserve(512)
    history = ids(300)[0].tolist()
    for width in (1, 4, 1, 4, 4, 1, *[4] * 65):
        found = read(runner, cache, history[at : at + width])
        at += width
        close(found, eager(runner, history[:at], width))
    assert sorted(keys(runner.graphs)) == [(1, 1, 128), (1, 4, 128), (1, 4, 256), (1, 4, 384)]
    assert runner.graphs.captures == 4


def test_a_rollback_needs_no_new_graph(runner):
    cache = runner.new_cache()
    for _ in range(3):
        read(runner, cache, [1, 2, 3, 4])
        cache.rollback(1)
    close(read(runner, cache, [5, 6, 7, 8]), eager(runner, [1, 5, 6, 7, 8], 4))
    assert runner.graphs.captures == 1


def test_a_prompt_is_read_eagerly_and_a_draft_of_two_unread_tokens_is_not(runner):
    cache = runner.new_cache()
    runner.forward(PROMPT, cache, keep=1)
    assert runner.graphs.captures == 0
    found = runner.forward([5, 6], cache, keep=1)
    assert keys(runner.graphs) == [(1, 2, 128)]
    close(found, eager(runner, [*PROMPT, 5, 6], 1))


def test_a_forward_of_very_many_tokens_is_eager(runner, monkeypatch):
    monkeypatch.setattr(gpu, "MOST_TOKENS", 4)
    read(runner, runner.new_cache(), [1, 2, 3, 4, 5])
    assert runner.graphs.captures == 0


@pytest.mark.parametrize(
    ("need", "bucket"),
    [
        (0, 128),
        (1, 128),
        (128, 128),
        (129, 256),
        (257, 384),
        (385, 512),
        (513, 768),
        (769, 1024),
        (1025, 1536),
        (4097, 6144),
    ],
)
def test_length_buckets_are_few_and_hold_what_is_needed(need, bucket):
    assert length_bucket(need) == bucket


def test_no_bucket_is_more_than_half_again_what_it_must_hold():
    sizes = [length_bucket(n) for n in range(1, 20_000)]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) < 20
    assert all(size <= max(128, 2 * n) and (size <= 256 or size < 1.5 * n + 128) for n, size in enumerate(sizes, 1))


# --- what a graph is bound to ---


def test_when_a_cache_outgrows_its_buffer_the_step_takes_a_new_graph_and_the_old_one_is_kept(runner):
    cache = runner.new_cache()
    history = ids(128)[0].tolist()
    for at in range(0, 120, 4):
        read(runner, cache, history[at : at + 4])
    assert runner.graphs.captures == 1
    cache.reserve(200)  # another buffer: the old addresses hold nothing of this run any more
    found = read(runner, cache, history[120:124])
    close(found, eager(runner, history[:124], 4))
    assert runner.graphs.captures == 2


def test_the_next_run_gets_the_buffer_of_the_last_and_its_graphs_but_none_of_its_keys(runner):
    first = runner.new_cache()
    read(runner, first, [1, 2, 3, 4])
    with torch.inference_mode():
        runner.fused.stack(first).fill_(float("nan"))  # as a model that overflowed would leave it
    address = runner.fused.stack(first).data_ptr()
    del first
    second = runner.new_cache()
    found = read(runner, second, [5, 6, 7, 8])
    assert runner.fused.stack(second).data_ptr() == address
    close(found, eager(runner, [5, 6, 7, 8], 4))
    assert runner.graphs.captures == 1


def test_runs_at_the_same_time_have_buffers_and_graphs_of_their_own(runner):
    one, other = runner.new_cache(), runner.new_cache()
    a, b = [1, 2, 3, 4], [9, 8, 7, 6]
    for tokens, cache in ((a, one), (b, other), (a, one), (b, other)):
        found = read(runner, cache, tokens)
    close(found, eager(runner, b + b, 4))
    close(read(runner, one, [3, 3, 3, 3]), eager(runner, [*a, *a, 3, 3, 3, 3], 4))
    assert runner.graphs.captures == 2


def test_a_buffer_that_is_let_go_of_takes_its_graphs_with_it(runner):
    runner.graphs.buffers.most_idle = 1
    caches = [runner.new_cache() for _ in range(3)]
    for cache in caches:
        read(runner, cache, [1, 2, 3])
    assert len(runner.graphs._graphs) == 3
    del cache
    caches.clear()
    assert len(runner.graphs.buffers.idle) == 1
    assert len(runner.graphs._graphs) == 1


def test_the_graph_that_was_used_longest_ago_makes_room():
    runner = graphed_pair(most_graphs=2).target
    cache = runner.new_cache()
    for width in (1, 2, 1, 3):
        read(runner, cache, [5] * width)
    assert keys(runner.graphs) == [(1, 1, 128), (1, 3, 128)]
    found = read(runner, cache, [1, 2])  # captured once more
    close(found, eager(runner, [5] * 7 + [1, 2], 2))
    assert runner.graphs.captures == 4


def test_a_larger_table_of_rotations_or_output_leaves_older_graphs_what_they_were_captured_with(runner):
    cache = runner.new_cache()
    cache.reserve(1024)
    history = ids(600)[0].tolist()
    read(runner, cache, history[:1])
    old = runner.fused.rotations
    runner.forward(history[1:600], cache, keep=1)  # eager, past the table's end
    assert runner.fused.rotations is not old
    cache.rollback(1)
    read(runner, cache, history[1:9])  # a wider output
    cache.rollback(1)
    gc.collect()
    close(read(runner, cache, [7]), eager(runner, [history[0], 7], 1))
    assert runner.graphs.captures == 2


def test_memory_comes_back_as_soon_as_it_is_let_go_of_without_a_collection_of_cycles():
    """A GPU's memory cannot wait for one: the next model is loaded before it."""
    gc.disable()
    try:
        pair = graphed_pair()
        run = engine.stream(pair, PROMPT, DecodeSettings(k=4, max_new_tokens=40, seed=0), drafter="model")
        for _ in range(3):
            next(run)
        buffers, decoder = pair.target.graphs.buffers, weakref.ref(pair.target.graphs)
        assert buffers.idle == []
        del run
        assert len(buffers.idle) == 1
        del pair, buffers
        assert decoder() is None
    finally:
        gc.enable()


# --- trouble ---


@pytest.mark.parametrize("fails", [0, 1])
def test_a_capture_that_fails_turns_graphs_off_with_one_sentence_and_the_run_goes_on(fails):
    runner = graphed_pair(fails).target
    cache = runner.new_cache()
    with warnings.catch_warnings(record=True) as caught:
        for width in (1, 4, 4, 1):
            found = read(runner, cache, [5] * width)
    assert ["CUDA graphs are off" in str(w.message) for w in caught] == [True]
    close(found, eager(runner, [5] * 10, 1))
    assert "\n" not in runner.graphs.notice
    assert not runner.graphs._graphs


def test_threads_that_share_a_runner_each_get_their_own_answers():
    pair = graphed_pair()
    prompts = [ids(12, seed=i)[0].tolist() for i in range(4)]
    settings = DecodeSettings(k=3, max_new_tokens=24, seed=0)
    expected = [engine.generate(pair, p, settings, "model").token_ids for p in prompts]
    found, errors = {}, []

    def run(i):
        try:
            for _ in range(2):
                found[i] = engine.generate(pair, prompts[i], settings, "model").token_ids
                assert found[i] == expected[i]
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert [found[i] for i in range(4)] == expected


def test_a_gpu_that_is_full_is_no_reason_to_be_without_graphs_for_good():
    runner = graphed_pair().target
    cache = runner.new_cache()
    full = mock.patch.object(runner.graphs.backend, "capture", side_effect=torch.OutOfMemoryError("full"))
    with full, pytest.raises(torch.OutOfMemoryError):
        read(runner, cache, [1, 2])
    assert (runner.graphs.notice, cache.length) == (None, 0)
    close(read(runner, cache, [1, 2]), eager(runner, [1, 2], 2))
    assert runner.graphs.captures == 1


@pytest.mark.parametrize("staggered", [False, True])
def test_room_for_a_whole_batch_is_made_at_once_so_that_it_has_one_buffer_and_each_graph_once(staggered, monkeypatch):
    pair = graphed_pair()
    assert pair.target.reads_rows_together
    pair.target.graphs.buffers.clear()
    pair.target.graphs.captures, made = 0, []
    new = BufferPool._new
    monkeypatch.setattr(BufferPool, "_new", lambda *args: made.append(args[1]) or new(*args))
    settings = DecodeSettings(k=4, max_new_tokens=150, seed=0, ignore_eos=True)
    batch = engine.Batch(pair, 6)
    for i in range(6):
        batch.submit([1, 2, 3, i + 4] * 3, settings)
        for _ in range(40 * staggered):
            batch.step()
    while batch.busy:
        batch.step()
    assert [shape[1:4:2] for shape in made] == [(6, 256)]
    shapes = keys(pair.target.graphs)
    assert len(set(shapes)) == len(shapes) == pair.target.graphs.captures


def test_room_that_is_set_aside_for_a_batch_is_bounded_and_no_more_than_its_prompts_need():
    runner = graphed_pair().target
    for rows, longest, found in ((1, 10**6, (1, 8192)), (16, 10**6, (16, 2048)), (1024, 10**6, (256, 128))):
        cache = runner.new_cache(0)
        runner.expect(cache, longest, rows)
        assert (cache.row_capacity, cache.capacity) == found
    pair, seen = graphed_pair(), []
    expect = pair.target.expect
    with mock.patch.object(pair.target, "expect", lambda cache, n, rows=1: seen.append(rows) or expect(cache, n, rows)):
        engine.generate_batch(pair, [PROMPT] * 2, DecodeSettings(max_new_tokens=2), max_batch=16)
    assert max(seen) == 2


def test_room_for_a_whole_run_is_made_at_once_so_that_its_buffer_never_moves():
    pair = graphed_pair()
    run = engine.stream(pair, PROMPT, DecodeSettings(k=4, max_new_tokens=600, seed=0), drafter="model")
    next(run), next(run)
    at = [c.of._stack.data_ptr() for c in (run.cache, run.drafter.cache)]
    for _ in range(60):
        next(run)
    assert [c.of._stack.data_ptr() for c in (run.cache, run.drafter.cache)] == at


# --- the pool by itself ---


def zeros(pool, positions, layers=2):
    return pool.zeros((layers, 1, 4, positions, 8), torch.float32, torch.device("cpu"))


def test_a_borrowed_buffer_has_a_buckets_length_and_comes_back_when_nobody_holds_it():
    pool = BufferPool()
    lent = zeros(pool, 130)
    assert lent.shape == (2, 1, 4, 256, 8)
    assert pool.idle == []
    address, part = lent.data_ptr(), lent[:, :, :, :5]
    lent.fill_(float("nan"))
    del lent
    assert [b.data_ptr() for b in pool.idle] == [address]
    assert zeros(pool, 200).data_ptr() == address
    del part


def test_the_same_buffer_is_never_lent_twice_and_comes_back_zeroed():
    pool = BufferPool()
    held = [zeros(pool, 10) for _ in range(5)]
    assert len({b.data_ptr() for b in held}) == 5
    for b in held:
        b.fill_(float("nan"))
    held.clear()
    again = [zeros(pool, 10) for _ in range(5)]
    assert len({b.data_ptr() for b in again}) == 5
    assert all((b == 0).all() for b in again)


def test_other_shapes_get_other_buffers():
    pool = BufferPool()
    zeros(pool, 10)
    other = zeros(pool, 10, layers=3)
    assert other.shape[0] == 3
    assert len(pool.idle) == 1


def test_memory_that_is_short_is_looked_for_among_the_idle_once():
    dropped = []
    pool = BufferPool(dropped.append)
    zeros(pool, 10)
    with mock.patch("torch.zeros", side_effect=[torch.OutOfMemoryError("full"), torch.ones(1, 1, 1, 128, 1)]) as made:
        zeros(pool, 10, layers=9)
    assert made.call_count == 2
    assert len(dropped) == 1
    with mock.patch("torch.zeros", side_effect=torch.OutOfMemoryError("full")):
        with pytest.raises(torch.OutOfMemoryError):
            zeros(pool, 10, layers=9)


def test_a_cpu_has_no_graphs(runner):
    assert gpu.graphed(runner.fused, torch.device("cpu")) is None
    assert gpu.graphed(None, torch.device("cuda")) is None
