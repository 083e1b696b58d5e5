"""From logits to the law: the same as transformers' own processors, for every setting alone and in pairs."""

import itertools
from unittest import mock

import numpy as np
import pytest
import torch
from helpers.laws import ALPHA, chi_square
from helpers.models import tiny_llama
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import GenerationConfig

from engine import DecodeSettings, EngineError
from engine.verify.sampling import draw, one_hot, probabilities

V = 64
VALUES = {
    "temperature": (0.3, 0.7, 1.8),
    "top_k": (1, 5, 40),
    "top_p": (0.1, 0.5, 0.9),
    "min_p": (0.02, 0.2, 0.9),
    "repetition_penalty": (0.7, 1.1, 1.9),
}
CONTEXT, DRAFTED = [3, 7, 7, 20, 41], [5, 3, 60]
POSITIONS = len(DRAFTED) + 1
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def transformers_law():
    """The law that transformers samples from: its own list of processors, in its own order."""
    model = tiny_llama(V)

    def law(logits, values, context, drafted):
        config = GenerationConfig(do_sample=True, **{"temperature": 1.0, "top_k": 0, "top_p": 1.0, **values})
        processors = model._get_logits_processor(config, input_ids_seq_length=len(context))
        out = []
        for i, row in enumerate(logits.float()):
            seen = torch.tensor([[*context, *drafted[:i]]])
            out.append(torch.softmax(processors(seen, row[None].clone()), dim=-1)[0])
        return torch.stack(out)

    return law


def random_logits(seed, width=POSITIONS, scale=3.0):
    return torch.randn(width, V, generator=torch.Generator().manual_seed(seed)) * scale


def single_and_paired():
    for name, values in VALUES.items():
        for value in values:
            yield {name: value}
    for a, b in itertools.combinations(VALUES, 2):
        for x, y in itertools.product(VALUES[a], VALUES[b]):
            yield {a: x, b: y}


@pytest.mark.parametrize("values", list(single_and_paired()), ids=lambda v: "-".join(f"{k}={x}" for k, x in v.items()))
def test_the_law_is_that_of_transformers(values, transformers_law):
    for seed in range(3):
        logits = random_logits(seed)
        ours = probabilities(logits, DecodeSettings(**{"temperature": 1.0, **values}), CONTEXT, DRAFTED)
        theirs = transformers_law(logits, values, CONTEXT, DRAFTED)
        torch.testing.assert_close(ours, theirs, atol=2e-6, rtol=1e-4)
        assert torch.equal(ours > 0, theirs > 0)


@given(seed=st.integers(0, 2**32), data=st.data())
@settings(max_examples=150, deadline=None)
def test_all_settings_together_are_those_of_transformers(seed, data, transformers_law):
    values = {
        "temperature": data.draw(st.floats(0.05, 5.0)),
        "top_k": data.draw(st.integers(0, V + 5)),
        "top_p": data.draw(st.floats(0.05, 1.0)),
        "min_p": data.draw(st.floats(0.0, 1.0)),
        "repetition_penalty": data.draw(st.floats(0.5, 2.0)),
    }
    logits = random_logits(seed)
    ours = probabilities(logits, DecodeSettings(**values), CONTEXT, DRAFTED)
    theirs = transformers_law(logits, values, CONTEXT, DRAFTED)
    # A token right at an edge may fall on either side of a rounding; it then carries an edge's worth of mass.
    assert float((ours - theirs).abs().max()) < 1e-4 or _on_an_edge(logits, values)


def _on_an_edge(logits, values):
    """Whether some nucleus or min-p edge of the reference lies within rounding of a token."""
    at = np.float64(logits.double().numpy())
    for i, row in enumerate(at):
        row = row.copy()
        seen = list({*CONTEXT, *DRAFTED[:i]})
        row[seen] = np.where(
            row[seen] < 0, row[seen] * values["repetition_penalty"], row[seen] / values["repetition_penalty"]
        )
        row = np.sort(row / values["temperature"])[::-1]
        row = row[: values["top_k"] or None]
        p = np.exp(row - row[0])
        p /= p.sum()
        if np.abs(np.cumsum(p) - values["top_p"]).min() < 1e-5 or np.abs(p / p[0] - values["min_p"]).min() < 1e-5:
            return True
    return False


def test_the_nucleus_of_a_law_by_hand():
    logits = torch.tensor([[0.5, 0.25, 0.125, 0.125]]).log()
    law = probabilities(logits, DecodeSettings(temperature=1.0, top_p=0.6))[0]
    torch.testing.assert_close(law, torch.tensor([2 / 3, 1 / 3, 0, 0]))
    law = probabilities(logits, DecodeSettings(temperature=1.0, top_p=0.5))[0]
    torch.testing.assert_close(law, torch.tensor([1.0, 0, 0, 0]))  # .5 is reached by the first token alone


def test_a_nucleus_wider_than_the_shortlist_is_whole(transformers_law):
    """2000 nearly even tokens: more than the 512 that are looked at first."""
    logits = torch.randn(2, 2000, generator=torch.Generator().manual_seed(0)) * 0.1
    ours = probabilities(logits, DecodeSettings(temperature=1.0, top_p=0.9))
    theirs = transformers_law(logits, {"top_p": 0.9}, [], [])
    assert (ours > 0).sum(-1).min() > 1500
    assert ((ours > 0) != (theirs > 0)).sum() <= 2  # single precision sums of 2000 may differ by one token at the edge
    torch.testing.assert_close(ours, theirs, atol=1e-3, rtol=0)


# --- greedy, off switches and ties ---


def test_temperature_zero_puts_everything_on_the_largest_logit():
    logits = random_logits(1)
    law = probabilities(logits, DecodeSettings(temperature=0.0))
    assert law.argmax(-1).tolist() == logits.argmax(-1).tolist()
    assert law.sum(-1).tolist() == [1.0] * 4
    assert ((law == 0) | (law == 1)).all()


@pytest.mark.parametrize("temperature", [0.0, 1e-6, 9e-6, 1.1e-5, 1e-4])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_a_tiny_temperature_is_greedy_and_never_overflows(temperature, dtype):
    logits = torch.tensor([[100.0, 900.0, -60000.0, 880.0]]).to(dtype)
    law = probabilities(logits, DecodeSettings(temperature=temperature))
    assert law.tolist() == [[0.0, 1.0, 0.0, 0.0]]


@pytest.mark.parametrize("off", [0, -1])
def test_top_k_of_zero_or_minus_one_is_off(off):
    logits = random_logits(2)
    law = probabilities(logits, DecodeSettings(temperature=1.0, top_k=off))
    torch.testing.assert_close(law, torch.softmax(logits, -1))


def test_top_k_past_the_vocabulary_is_the_vocabulary():
    logits = random_logits(2)
    for k in (V, V + 1, 10**9, 2**70):
        law = probabilities(logits, DecodeSettings(temperature=1.0, top_k=k))
        torch.testing.assert_close(law, torch.softmax(logits, -1))


@pytest.mark.parametrize("top_p", [0, 0.0, 1e-9])
def test_top_p_of_zero_keeps_the_likeliest_token(top_p):
    logits = random_logits(3)
    law = probabilities(logits, DecodeSettings(temperature=1.0, top_p=top_p))
    assert torch.equal(law, one_hot(logits.argmax(-1), V))


def test_top_p_of_one_and_min_p_of_zero_are_off():
    logits = random_logits(3)
    law = probabilities(logits, DecodeSettings(temperature=1.0, top_p=1, min_p=0))
    torch.testing.assert_close(law, torch.softmax(logits, -1))


ONE_TOKEN = (
    {"temperature": 0.0},
    {"temperature": 1.0, "top_k": 1},
    {"temperature": 0.7, "top_k": 1},
    {"temperature": 0.7, "top_p": 0.0},
)


@pytest.mark.parametrize("values", ONE_TOKEN, ids=str)
@pytest.mark.parametrize(("logits", "winner"), [([5.0, 5, 1], 0), ([1.0, 5, 5], 1), ([-3.0, -3, -3], 0)])
def test_a_tie_goes_to_the_lowest_id_at_temperature_zero_top_k_one_and_top_p_zero(values, logits, winner):
    law = probabilities(torch.tensor([logits] * 3), DecodeSettings(**values))
    assert law.argmax(-1).tolist() == [winner] * 3
    assert law.max(-1).values.tolist() == [1.0] * 3


@given(st.floats(0.125, 20.0, width=32), st.sampled_from([0.3, 0.7, 0.8, 0.9, 1.1, 1.7]), st.sampled_from([1.0, 1.3]))
@settings(max_examples=300, deadline=None)
def test_a_difference_of_one_rounding_step_is_no_tie(low, temperature, penalty):
    """Dividing by the temperature may round two different logits to one number; top_k = 1 must still be greedy."""
    high = float(np.nextafter(np.float32(low), np.float32(np.inf)))
    logits = torch.tensor([[low, high, 0.0]])
    greedy = probabilities(logits, DecodeSettings(temperature=0.0, repetition_penalty=penalty), [0, 1])
    for values in ({"top_k": 1}, {"top_p": 0.0}):
        law = probabilities(
            logits, DecodeSettings(temperature=temperature, repetition_penalty=penalty, **values), [0, 1]
        )
        assert torch.equal(law, greedy)


def test_top_k_keeps_exactly_k_of_tied_tokens_the_lowest_ids_first():
    law = probabilities(torch.tensor([[1.0, 2, 2, 2, 2]]), DecodeSettings(temperature=1.0, top_k=2))
    assert law.tolist() == [[0, 0.5, 0.5, 0, 0]]


# --- settings that depend on what was said ---


def test_the_penalty_at_each_position_sees_the_draft_before_it_and_nothing_behind_it():
    logits = torch.tensor([[2.0, 1.9, 0.0]] * 4)
    # 2 / 1.3 = 1.54 < 1.9: once token 0 has been said, token 1 wins; once both have, 0 again.
    law = probabilities(logits, DecodeSettings(repetition_penalty=1.3), [], [0, 1, 0])
    assert law.argmax(-1).tolist() == [0, 1, 0, 0]
    law = probabilities(logits, DecodeSettings(repetition_penalty=1.3), [0], [1, 0, 1])
    assert law.argmax(-1).tolist() == [1, 0, 0, 0]


def test_the_penalty_divides_positive_and_multiplies_negative_logits_once_however_often_a_token_was_said():
    logits = torch.tensor([[2.0, -2.0, 0.5]])
    law = probabilities(logits, DecodeSettings(temperature=1.0, repetition_penalty=2.0), [0, 0, 0, 1, 1])
    torch.testing.assert_close(law, torch.softmax(torch.tensor([[1.0, -4.0, 0.5]]), -1))


def test_the_penalty_ignores_context_ids_that_have_no_logit():
    logits = random_logits(4, 1)
    law = probabilities(logits, DecodeSettings(temperature=1.0, repetition_penalty=1.5), [V, V + 9], [])
    torch.testing.assert_close(law, torch.softmax(logits, -1))


def test_min_p_is_applied_at_every_position():
    logits = torch.tensor([[0.5, 0.3, 0.2]] * 3).log()
    law = probabilities(logits, DecodeSettings(temperature=1.0, min_p=0.5), [], [2, 2])
    torch.testing.assert_close(law, torch.tensor([[0.625, 0.375, 0.0]] * 3))


# --- rows without a law ---

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("bad", [[NAN, 1.0, 2.0], [1.0, NAN, -INF], [-INF] * 3, [NAN] * 3, [INF, 0.0, 0.0]], ids=str)
@pytest.mark.parametrize(
    "values", [{}, {"temperature": 1.0}, {"temperature": 1.0, "top_k": 2, "top_p": 0.9, "min_p": 0.1}]
)
def test_a_row_of_nan_or_no_finite_logit_is_one_sentence(bad, values):
    logits = torch.tensor([[1.0, 2.0, 3.0], bad])
    with pytest.raises(EngineError, match="NaN or no finite logits") as raised:
        probabilities(logits, DecodeSettings(**values), [], [0])
    assert "\n" not in str(raised.value)


def test_some_impossible_tokens_are_fine():
    law = probabilities(torch.tensor([[-INF, 1.0, 1.0]]), DecodeSettings(temperature=1.0, top_k=3, top_p=0.99))
    torch.testing.assert_close(law, torch.tensor([[0.0, 0.5, 0.5]]))


@pytest.mark.parametrize("penalty", [1e-30, 1e-37, 1e-300, 100.0])
@pytest.mark.parametrize("temperature", [1e-4, 1.0])
def test_an_extreme_penalty_gives_a_law_or_one_sentence_about_the_penalty(penalty, temperature):
    values = DecodeSettings(temperature=temperature, repetition_penalty=penalty)
    if penalty == 1e-300:  # nothing in single precision
        with pytest.raises(EngineError, match="repetition_penalty 1e-300 overflows"):
            probabilities(random_logits(5, 1), values, [1, 2])
        return
    law = probabilities(random_logits(5, 1), values, [1, 2])
    assert law.sum() == pytest.approx(1, abs=1e-5)


# --- invariants ---


@given(seed=st.integers(0, 2**32), data=st.data())
@settings(max_examples=150, deadline=None)
def test_every_row_is_a_law_and_the_likeliest_token_is_always_in_it(seed, data):
    scale = data.draw(st.sampled_from([0.0, 1e-3, 1.0, 50.0, 1e4]))
    logits = random_logits(seed, 2, scale)
    values = DecodeSettings(
        temperature=data.draw(st.sampled_from([1e-4, 0.5, 1.0, 100.0])),
        top_k=data.draw(st.sampled_from([-1, 0, 1, 3, V, 99])),
        top_p=data.draw(st.sampled_from([0.0, 1e-6, 0.5, 0.999999, 1.0])),
        min_p=data.draw(st.sampled_from([0.0, 1e-6, 0.5, 1.0])),
    )
    law = probabilities(logits, values, [], [0])
    assert torch.isfinite(law).all()
    assert (law >= 0).all()
    assert law.sum(-1).tolist() == pytest.approx([1.0, 1.0], abs=1e-5)
    assert (law.gather(-1, logits.argmax(-1, keepdim=True)) > 0).all()
    if 0 < values.top_k < V:
        assert ((law > 0).sum(-1) <= values.top_k).all()


def test_the_logits_are_left_as_they_were():
    logits = random_logits(6)
    before = logits.clone()
    probabilities(
        logits, DecodeSettings(temperature=0.5, top_k=3, top_p=0.5, min_p=0.1, repetition_penalty=1.5), CONTEXT, DRAFTED
    )
    assert torch.equal(logits, before)


def test_a_token_of_no_probability_is_never_drawn():
    g = torch.Generator().manual_seed(0)
    assert {draw(torch.tensor([0.0, 1e-30, 0.0, 1.0, 0.0]), g) for _ in range(5000)} <= {1, 3}
    for u in (0.0, 0.5, 1 - 2**-53):  # the edges of the uniform
        with mock.patch.object(torch, "rand", lambda *a, u=u, **k: torch.tensor([u], dtype=torch.float64)):
            assert draw(torch.tensor([0.0, 0.0, 0.3, 0.0, 0.7, 0.0]), None) == (2 if u < 0.3 else 4)
            assert draw(torch.tensor([0.0, 0.1, 0.0]), None) == 1


@pytest.mark.parametrize("law", [[0.2, 0.0, 0.5, 0.3], [1.0, 3.0, 0.0, 6.0], [1e-6, 0.25, 0.25, 0.5]], ids=str)
def test_tokens_are_drawn_in_proportion_to_their_probability(law):
    g = torch.Generator().manual_seed(1)
    counts = np.bincount([draw(torch.tensor(law), g) for _ in range(20_000)], minlength=4)
    assert chi_square(counts, np.array(law) / sum(law)) > ALPHA


def test_a_large_vocabulary_is_drawn_from_evenly():
    g = torch.Generator().manual_seed(2)
    law = torch.full((50_000,), 1 / 50_000)
    counts = np.bincount([draw(law, g) // 5000 for _ in range(5000)], minlength=10)
    assert chi_square(counts, [0.1] * 10) > ALPHA
