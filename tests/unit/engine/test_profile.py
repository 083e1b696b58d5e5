"""The profile's parts add up to the step, and every operation falls to the part that asked for it."""

import time
from types import SimpleNamespace

import pytest
import torch
from helpers.models import tiny_llama

from engine import DecodeSettings, EngineError, Pair
from engine.bench.profile import _kind, _span_of, profile_steps
from engine.drafters.model import ModelDrafter


@pytest.fixture(scope="module")
def parts():
    pair = Pair.from_models(tiny_llama(), None, tiny_llama(seed=1), quantization="none")
    return profile_steps(pair, [[1, 2, 3] * 4], DecodeSettings(max_new_tokens=16, k=3), drafter="model")


def test_both_arms_are_profiled(parts):
    assert [p.arm for p in parts] == ["plain", "model"]
    assert parts[0].steps == 15


def test_the_parts_add_up_to_the_step(parts):
    for p in parts:
        assert p.linear_ms + p.attention_ms + p.rest_ms == pytest.approx(p.verify_ms)
        assert p.draft_ms + p.verify_ms + p.sampling_ms + p.other_ms == pytest.approx(p.step_ms)
        assert min(p.linear_ms, p.attention_ms, p.rest_ms, p.sampling_ms, p.other_ms) > 0


def test_what_a_drafter_takes_is_draft_time_and_plain_decoding_asks_none(monkeypatch):
    """A sleep is never shorter than asked for, whatever else the machine does."""
    asked, propose = [], ModelDrafter.propose

    def slow(self, *args, **kwargs):
        asked.append(1)
        time.sleep(0.02)
        return propose(self, *args, **kwargs)

    monkeypatch.setattr(ModelDrafter, "propose", slow)
    pair = Pair.from_models(tiny_llama(), None, tiny_llama(seed=1), quantization="none")
    settings = DecodeSettings(max_new_tokens=8, k=3)
    (plain,) = profile_steps(pair, [[1, 2, 3] * 4], settings, drafter="none")
    assert not asked
    assert plain.steps == 7
    _, fast = profile_steps(pair, [[1, 2, 3] * 4], settings, drafter="model")
    assert asked
    assert fast.draft_ms >= 10  # a mean over all steps, and the last ones may have no room for a draft


def test_an_operation_belongs_to_whatever_called_it():
    span = SimpleNamespace(name="specscope::verify", cpu_parent=None)
    linear = SimpleNamespace(name="aten::linear", cpu_parent=span)
    inside = SimpleNamespace(name="aten::empty", cpu_parent=linear)
    attention = SimpleNamespace(name="aten::_scaled_dot_product_flash_attention_for_cpu", cpu_parent=span)
    loose = SimpleNamespace(name="aten::mul", cpu_parent=span)
    assert [_kind(e) for e in (linear, inside, attention, loose)] == ["linear", "linear", "attention", "rest"]
    assert _span_of(inside) == "specscope::verify"
    assert _span_of(SimpleNamespace(name="aten::mul", cpu_parent=None)) is None


def test_nothing_to_profile_is_said():
    pair = Pair.from_models(tiny_llama(), None)
    with pytest.raises(EngineError, match="ended with its first token"):
        profile_steps(pair, [[1, 2, 3]], DecodeSettings(max_new_tokens=1))
    assert torch.is_inference_mode_enabled() is False
