"""KL, agreement and first differences of quantised weights against float64 arithmetic of our own, on tiny models."""

import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.models import pair_of, recites, table, tiny_llama

import engine
from engine.bench import quantization as q
from engine.bench.curves import Stopped
from engine.bench.suites import BenchPrompt

NEVER = threading.Event()
PROMPTS = [BenchPrompt("a", [1, 2, 3]), BenchPrompt("b", [9, 8, 7, 6, 5])]


@pytest.fixture(autouse=True)
def _one_thread(one_thread):
    pass


def tiny(quantization="none", seed=3):
    return engine.Pair.from_models(tiny_llama(seed=seed), None, quantization=quantization)


def held_against(reference, other, max_new_tokens=8, prompts=PROMPTS, **room):
    with q.Reference() as kept:
        kept.measure(reference, prompts, max_new_tokens, NEVER, **room)
        return q.divergence(other, kept, NEVER), kept.texts


def float64_logits(model, ids):
    with torch.inference_mode():
        return model.double()(input_ids=torch.tensor([ids]), use_cache=False).logits[0]


def test_weights_against_themselves_are_at_no_distance():
    pair = tiny()
    got, texts = held_against(pair, pair)
    assert (got["kl_mean"], got["kl_p95"], got["greedy_agreement"]) == (0.0, 0.0, 1.0)
    assert got["greedy_agreement_interval"] == [1.0, 1.0]
    assert got["first_differences"] == {"texts": 0, "median_position": None, "median_margin": None, "near_ties": 0}
    assert (got["texts"], got["positions"]) == (2, 16)
    settings = engine.DecodeSettings(max_new_tokens=8)
    assert [list(t.answer) for t in texts] == [engine.generate(pair, p.prompt, settings).token_ids for p in PROMPTS]


def test_divergence_is_what_float64_says_of_the_two_models():
    one, other = tiny_llama(seed=3), tiny_llama(seed=3)
    with torch.no_grad():
        other.lm_head.weight += 0.05 * torch.randn(
            other.lm_head.weight.shape, generator=torch.Generator().manual_seed(1)
        )
    got, texts = held_against(engine.Pair.from_models(one, None), engine.Pair.from_models(other, None), 12)

    kl, same, parted = [], 0, []
    for text in texts:
        ids = [*text.prompt, *text.answer]
        start = len(text.prompt) - 1
        p, r = (
            np.exp(x - np.logaddexp.reduce(x, axis=-1, keepdims=True))
            for x in (float64_logits(m, ids)[start:-1].numpy() for m in (one, other))
        )
        kl += (p * (np.log(p) - np.log(r))).sum(-1).tolist()
        agree = p.argmax(-1) == r.argmax(-1)
        same += int(agree.sum())
        if not agree.all():
            at = int((~agree).argmax())
            top = np.sort(p[at])[::-1]
            parted.append((at, top[0] - top[1]))
    assert 0 < same < 24, "the example must show both"
    assert got["kl_mean"] == pytest.approx(np.mean(kl), rel=1e-3)
    assert got["kl_p95"] == pytest.approx(sorted(kl)[22], rel=1e-3)  # the 23rd of 24: nearest rank
    assert got["greedy_agreement"] == same / 24
    assert got["first_differences"]["texts"] == len(parted)
    assert got["first_differences"]["median_position"] == np.median([at for at, _ in parted])
    assert got["first_differences"]["median_margin"] == pytest.approx(np.median([m for _, m in parted]), abs=1e-4)


def test_the_first_difference_is_where_free_running_outputs_part():
    script = [3, 4, 5, 6, 7, 8]
    one = pair_of(recites(script, 2, 16), 16)
    other = pair_of(recites([3, 4, 9, 6, 7, 8], 2, 16), 16)
    got, _ = held_against(one, other, 6, [BenchPrompt("a", [1, 2])])
    first = got["first_differences"]
    assert (first["texts"], first["median_position"]) == (1, 2)
    assert first["median_margin"] == pytest.approx(1.0)
    assert got["greedy_agreement"] == 5 / 6
    a, b = (engine.generate(p, [1, 2], engine.DecodeSettings(max_new_tokens=6)).token_ids for p in (one, other))
    assert [x == y for x, y in zip(a, b, strict=True)].index(False) == 2


def test_kl_by_hand_and_of_laws_with_zeros():
    half, skew = torch.tensor([[0.5, 0.5, 0.0]]).double(), torch.tensor([[0.25, 0.75, 0.0]]).double()
    assert float(q.kl_divergence(half.log(), skew.log())) == pytest.approx(0.5 * np.log(2) + 0.5 * np.log(2 / 3))
    assert float(q.kl_divergence(half.log(), half.log())) == 0.0
    assert torch.isinf(q.kl_divergence(half.log(), torch.tensor([[1.0, 0.0, 0.0]]).double().log()))


def test_a_law_without_bound_is_absent_and_not_infinite():
    one = pair_of(table(lambda h: [0.5, 0.5, 0.0, 0.0], 4), 4)
    other = pair_of(table(lambda h: [1.0, 0.0, 0.0, 0.0], 4), 4)
    got, _ = held_against(one, other, 3, [BenchPrompt("a", [1])])
    assert got["kl_mean"] is None


def test_only_as_many_positions_are_kept_as_there_is_room_for():
    pair = tiny()
    got, texts = held_against(pair, pair, room_bytes=2 * 3 * 64 * 4)
    assert [len(t.answer) for t in texts] == [3, 3]
    assert got["positions"] == 6
    assert held_against(pair, pair, room_bytes=1)[0]["positions"] == 2, "at least one of each text"
    assert not Path(texts[0].log_probs).exists(), "nothing is left on the disk"


def test_a_stop_leaves_no_half_reference():
    cancel = threading.Event()
    cancel.set()
    with q.Reference() as kept:
        with pytest.raises(Stopped):
            kept.measure(tiny(), PROMPTS, 4, cancel)
        assert kept.texts == []
        with pytest.raises(engine.EngineError, match="has said nothing"):
            q.divergence(tiny(), kept, NEVER)
        kept.measure(tiny(), PROMPTS, 4, NEVER)
        with pytest.raises(Stopped):
            q.divergence(tiny(), kept, cancel)


def test_int8_is_nearer_than_other_weights_and_reads_fewer_bytes():
    none, int8 = tiny(), tiny("int8")
    far = engine.Pair.from_models(tiny_llama(seed=4), None, quantization="none")
    near, _ = held_against(none, int8)
    other, _ = held_against(none, far)
    assert 0 < near["kl_mean"] < other["kl_mean"]
    assert int8.target.read_bytes < none.target.read_bytes


def test_plain_speed_is_seconds_of_the_anchor_over_ones_own_for_as_many_tokens():
    got = q.plain_speed(tiny("int8"), tiny(), PROMPTS, "int8", 6, NEVER)
    assert got["interleaved"] is True
    assert got["ratio"] == pytest.approx(got["tokens_per_second"] / got["anchor_tokens_per_second"])
    assert got["interval"][0] <= got["ratio"] <= got["interval"][1]


def test_acceptance_change_resamples_both_of_a_prompt_together():
    # Prompts differ far more from each other than before from after: only pairing can see the step.
    before = [(100, a, 0) for a in (10, 30, 50, 70, 90, 20)]
    after = [(t, a - 5, 0) for t, a, _ in before]
    got = q.acceptance_change(before, after)
    assert (got.before, got.after) == (270 / 600, 240 / 600)
    assert got.interval == pytest.approx((-0.05, -0.05))
    assert got.word == "lower"


def test_the_interval_of_a_share_resamples_texts():
    assert q.share_interval([(5, 10)]) is None
    low, high = q.share_interval([(0, 10), (10, 10)] * 5)
    assert 0.1 <= low < 0.5 < high <= 0.9


def test_memory_is_read_from_the_systems_own_accounts():
    held = q.resident_bytes()
    assert held is None or held > 50 * 2**20
    assert q.can_hold_another(tiny()) in (True, False)
