"""Known fault B2: where greedy runs part, with the margin, and a tie only when the margin allows it."""

import pytest
import torch
from helpers.models import pair_of, recites, tiny_llama

import engine
from engine.bench.divergence import HALF_NEAR_TIE, NEAR_TIE

V = 16
SETTINGS = engine.DecodeSettings(k=3, max_new_tokens=12)


def steps_of(rule, prompt=(1, 2), alternatives=5, **extra):
    return engine.generate(pair_of(rule, V), list(prompt), SETTINGS, alternatives=alternatives, **extra).trace.steps


def test_equal_runs_do_not_part_whatever_drafted():
    rule = recites([3, 4, 5, 3, 4, 5, 3, 4, 5, 3, 4, 5], 2, V)
    assert engine.first_divergence(steps_of(rule), steps_of(rule, drafter="prompt_lookup"), "float32") is None
    assert engine.first_divergence(steps_of(rule)[:4], steps_of(rule), "float32") is None


@pytest.mark.parametrize(("gap", "dtype", "near_tie"), [
    (1e-4, "float32", True), (0.5, "float32", False), (0.05, "bfloat16", True), (2.0, "bfloat16", False),
])  # fmt: skip
def test_the_first_differing_position_is_a_tie_only_within_the_margin(gap, dtype, near_tie):
    def says(favourite, second):
        def rule(history):
            row = torch.full((V,), -20.0)
            at = len(history) - 2
            first, other = (favourite, second) if at == 4 else (3 + at % 3, 9)
            row[first], row[other] = 0.0, -gap if at == 4 else -10.0
            return row

        return rule

    got = engine.first_divergence(steps_of(says(7, 8)), steps_of(says(8, 7)), dtype)
    p = torch.softmax(torch.tensor([0.0, -gap]), 0)  # the other logits are negligible
    assert got.position == 4
    assert got.margin == pytest.approx(float(p[0] - p[1]), abs=1e-6)
    assert got.near_tie is near_tie
    assert NEAR_TIE < HALF_NEAR_TIE


def test_without_alternatives_there_is_no_margin_and_no_verdict():
    one, other = (steps_of(recites([3, last, 5], 2, V), alternatives=0) for last in (4, 9))
    assert engine.first_divergence(one, other, "float32") == engine.Divergence(1, None, None)


def test_half_precision_parts_from_plain_only_at_near_ties():
    """Random bf16 weights, several widths: whatever differs is within the margin of its rounding."""
    model = tiny_llama(vocab=64, seed=3).to(torch.bfloat16)
    pair = engine.Pair.from_models(model, None, draft=tiny_llama(vocab=64, seed=4).to(torch.bfloat16))
    settings = engine.DecodeSettings(max_new_tokens=60, ignore_eos=True)
    plain = engine.generate(pair, [5, 6, 7, 5, 6], settings, alternatives=2).trace.steps
    for k in (2, 5):
        fast = engine.generate(
            pair, [5, 6, 7, 5, 6], engine.DecodeSettings(k=k, max_new_tokens=60, ignore_eos=True), "model",
            alternatives=2,
        ).trace.steps  # fmt: skip
        parted = engine.first_divergence(plain, fast, pair.dtype)
        assert parted is None or parted.near_tie
