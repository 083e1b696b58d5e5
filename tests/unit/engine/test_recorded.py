"""A recording of the forward says what the forward says, to the last bit, for every shape it is replayed with."""

import threading

import pytest
import torch
from helpers.models import tiny_llama

from engine import DecodeSettings, Pair, generate
from engine.cache import SlotCache
from engine.fused import FusedDecoder
from engine.linear import linear_maker
from engine.recorded import MOST_TOKENS, RecordedDecoder

CPU = torch.device("cpu")


def decoders(quantization="int8", **extra):
    model = tiny_llama(vocab=96, layers=3, **extra)
    fused = FusedDecoder(model, linear_maker(quantization, CPU, torch.float32), release=False)
    return fused, RecordedDecoder(fused)


def filled(fused, lengths):
    """A cache whose rows hold `lengths` tokens each."""
    cache = SlotCache(3, rows=len(lengths))
    ids = torch.randint(0, 96, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(1))
    cache.reserve(max(lengths))
    fused.forward(ids, cache, 1)
    cache.advance(max(lengths))
    for row, length in enumerate(lengths):
        cache.rollback(length, row)
    return cache


@torch.inference_mode()
@pytest.mark.parametrize("quantization", ["none", "int8", "int4"])
def test_every_width_number_of_rows_and_length_gives_the_same_to_the_last_bit(quantization):
    fused, recorded = decoders(quantization)
    shapes = [
        ([5], 1),
        ([7], 3),
        ([9], 1),
        ([130], 6),
        ([6, 6], 1),
        ([6, 6], 4),
        ([3, 9, 40], 1),
        ([3, 9, 40], 5),
        ([2, 8], 2),
    ]
    for lengths, width in shapes * 2:  # the second time nothing is recorded any more
        ids = torch.randint(0, 96, (len(lengths), width), generator=torch.Generator().manual_seed(width))
        keep = min(2, width)
        own, other = filled(fused, lengths), filled(fused, lengths)
        own.reserve(width)
        other.reserve(width)
        assert torch.equal(fused.forward(ids, own, keep), recorded.forward(ids, other, keep)), (lengths, width)
        assert torch.equal(fused.stack(own), fused.stack(other)), "the same keys are written at the same places"
    assert len(recorded.recordings) == 6  # one token a row or more, one row or several, level or not


@torch.inference_mode()
def test_a_later_step_reads_the_keys_that_a_recorded_one_wrote():
    fused, recorded = decoders()
    own, other = filled(fused, [4]), filled(fused, [4])
    for token in (5, 6, 7, 8):
        for cache in (own, other):
            cache.reserve(1)
        a, b = (d.forward(torch.tensor([[token]]), c, 1) for d, c in ((fused, own), (recorded, other)))
        assert torch.equal(a, b)
        own.advance(1)
        other.advance(1)


@torch.inference_mode()
def test_a_prompt_is_not_recorded():
    _, recorded = decoders()
    cache = SlotCache(3)
    cache.reserve(MOST_TOKENS + 1)
    recorded.forward(torch.zeros(1, MOST_TOKENS + 1, dtype=torch.long), cache, 1)
    assert recorded.recordings == {}


def test_without_the_tracer_everything_runs_as_before(monkeypatch):
    def gone(*args, **kwargs):
        raise RuntimeError("torch.jit.trace was removed")

    monkeypatch.setattr("engine.recorded.trace", gone)
    settings = DecodeSettings(max_new_tokens=12, k=3)
    pair = Pair.from_models(tiny_llama(), None, quantization="int8")
    slow = generate(pair, [1, 2, 3] * 3, settings, "prompt_lookup").token_ids
    assert set(pair.target.recorded.recordings.values()) == {None}
    monkeypatch.undo()
    pair = Pair.from_models(tiny_llama(), None, quantization="int8")
    assert generate(pair, [1, 2, 3] * 3, settings, "prompt_lookup").token_ids == slow
    assert None not in pair.target.recorded.recordings.values()


def test_the_shapes_of_a_run_are_recorded_when_the_model_is_loaded():
    pair = Pair.from_models(tiny_llama(), None, quantization="int8")
    at_load = dict(pair.target.recorded.recordings)
    generate(pair, [1, 2, 3] * 3, DecodeSettings(max_new_tokens=12, k=5), "prompt_lookup")
    assert pair.target.recorded.recordings == at_load


def test_threads_that_ask_at_once_record_once_and_do_not_mix(monkeypatch):
    from engine import recorded as room

    made, trace = [], room.trace
    monkeypatch.setattr(room, "trace", lambda *a, **k: made.append(1) or trace(*a, **k))
    fused, both = decoders()
    with torch.inference_mode():
        expected = [fused.forward(torch.tensor([[t]]), reserved(filled(fused, [n])), 1) for n, t in ((3, 5), (11, 6))]
    got = [None, None]

    @torch.inference_mode()
    def run(i, n, token):
        for _ in range(20):
            got[i] = both.forward(torch.tensor([[token]]), reserved(filled(fused, [n])), 1)

    threads = [threading.Thread(target=run, args=(i, n, t)) for i, (n, t) in enumerate(((3, 5), (11, 6)))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(made) == 1
    assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))


def reserved(cache):
    cache.reserve(1)
    return cache
