"""Target and draft must mean the same strings by the same ids; padding past the vocabulary is never read or written."""

import pytest
import torch
from helpers.laws import ALPHA, chi_square
from helpers.models import ScriptedModel, greedy_continuation, tiny_llama, wanders
from helpers.tokenizers import byte_tokenizer, word_tokenizer

import engine
from engine import DecodeSettings, Pair, VocabularyError
from engine.vocabulary import compare

WORDS = ["a", "b", "c", "d", "e", "f", "g"]  # ids 0 to 6; <s> is 7 and </s> is 8
REAL = 9


def check(target, draft):
    """(report or None, notices)"""
    return compare(target, draft, "big", "small", None)


# --- strings, not sizes ---


def test_the_same_vocabulary_passes_in_silence_as_one_object_or_as_two():
    one = word_tokenizer(WORDS)
    assert check(one, one) == (None, ())
    assert check(one, word_tokenizer(WORDS)) == (None, ())
    assert check(byte_tokenizer(), byte_tokenizer()) == (None, ())


def test_two_swapped_ids_are_never_taken_for_the_same_and_both_readings_are_told():
    """F2: equal in size, and every string there."""
    swapped = ["a", "b", "c", "d", "e", "g", "f"]
    report, (notice,) = check(word_tokenizer(WORDS), word_tokenizer(swapped))
    assert not report.same
    first = report.differing[0]
    assert (first.id, first.target, first.draft) == (5, "f", "g")
    # All strings exist; of 7 words, 5 are where they should be.
    assert report.overlap == 100.0
    assert report.same_id == pytest.approx(100 * 5 / 7)
    assert report.words.to_draft[5] == 6
    assert report.words.to_draft[6] == 5
    assert notice.startswith("small drafts for big: ")
    assert "100.0% of the target's 7 tokens" in notice
    assert "\n" not in notice


def test_the_overlap_is_the_share_of_the_targets_strings_that_the_draft_knows():
    report, _ = check(word_tokenizer(WORDS), word_tokenizer(["a", "b", "c", "x", "y", "z", "w"]))
    assert report.overlap == pytest.approx(100 * 3 / 7)
    assert (report.differing[0].target, report.differing[0].draft) == ("d", "x")


def test_a_regular_token_that_only_one_side_has_makes_another_vocabulary():
    longer = [*WORDS, "h"]
    for target, draft in ((WORDS, longer), (longer, WORDS)):
        report, _ = check(
            word_tokenizer(target, specials=(), bos_token=None, eos_token=None),
            word_tokenizer(draft, specials=(), bos_token=None, eos_token=None),
        )
        (only,) = report.differing
        assert only.id == 7
        assert {only.target, only.draft} == {"h", None}


def test_a_regular_token_in_place_of_an_added_one_makes_another_vocabulary():
    """Id 7 is "<s>" on one side and "h" on the other: drafted by id, every "h" would end up as a "<s>"."""
    for target, draft in ((WORDS, [*WORDS, "h"]), ([*WORDS, "h"], WORDS)):
        report, _ = check(word_tokenizer(target), word_tokenizer(draft))
        assert report.differing[0].id == 7


def test_an_added_token_that_only_one_side_has_is_tolerated_with_a_notice():
    more = word_tokenizer(WORDS, specials=("<s>", "</s>", "<|tool|>"))
    for target, draft in ((word_tokenizer(WORDS), more), (more, word_tokenizer(WORDS))):
        report, (notice,) = check(target, draft)
        assert report is None
        assert notice.startswith("1 added token")
        assert "big" in notice
        assert "small" in notice


def test_a_draft_that_has_no_word_and_no_letter_in_common_is_refused_when_the_pair_is_made():
    with pytest.raises(VocabularyError, match="small shares no token with big") as raised:
        Pair.from_models(
            ScriptedModel(wanders(REAL), REAL), word_tokenizer(WORDS),
            ScriptedModel(wanders(300), 300), byte_tokenizer(),
            target_name="big", draft_name="small",
        )  # fmt: skip
    assert "prompt_lookup" in str(raised.value)


def test_a_draft_on_another_device_is_refused_before_anything_runs():
    target, draft = ScriptedModel(wanders(REAL), REAL), ScriptedModel(wanders(REAL), REAL).to("meta")
    with pytest.raises(engine.EngineError, match=r"cpu .*meta.*one device"):
        Pair.from_models(target, None, draft)


# --- padding ---


def tempted(width, by):
    """Wanders over the real vocabulary, but the padded rows always score more."""
    rule = wanders(REAL)

    def padded(history):
        row = torch.zeros(width)
        row[:REAL] = rule(history)
        row[by:] = 99.0
        return row

    return padded


def padded_pair(target=10, draft=12, draft_tokenizer=True, rule=tempted):
    tokenizer = word_tokenizer(WORDS)
    return Pair.from_models(
        ScriptedModel(rule(target, REAL), REAL, width=target), tokenizer,
        ScriptedModel(rule(draft, REAL), REAL, width=draft), word_tokenizer(WORDS) if draft_tokenizer else None,
    )  # fmt: skip


@pytest.mark.parametrize(("target", "draft"), [(10, 12), (12, 10), (9, 12), (12, 9)])
@pytest.mark.parametrize("draft_tokenizer", [True, False])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_of_different_widths_are_read_up_to_the_real_vocabulary(target, draft, draft_tokenizer, temperature):
    pair = padded_pair(target, draft, draft_tokenizer)
    assert pair.notices == ()
    for drafter in ("none", "model", "prompt_lookup"):
        values = DecodeSettings(k=3, max_new_tokens=30, temperature=temperature, seed=1, ignore_eos=True)
        gen = engine.generate(pair, [1, 2, 3], values, drafter, alternatives=99)
        assert gen.token_ids == greedy_continuation(wanders(REAL), [1, 2, 3], 30)
        for step in gen.trace.steps:
            shown = [a.token.token_id for p in step.proposals for a in (*p.target_top, *p.draft_top)]
            assert max([*step.emitted, *(p.token.token_id for p in step.proposals), *shown]) < REAL
        if drafter == "model":
            assert gen.stats.draft_acceptance_rate == 1.0


def test_p_and_q_are_laws_over_the_real_vocabulary_alone():
    pair = padded_pair(rule=lambda width, by: lambda h: torch.zeros(width))
    values = DecodeSettings(k=2, max_new_tokens=300, temperature=1.0, seed=3, ignore_eos=True)
    gen = engine.generate(pair, [1], values, "model")
    assert {round(p.p, 6) for s in gen.trace.steps for p in s.proposals} == {round(1 / REAL, 6)}
    assert {round(p.q, 6) for s in gen.trace.steps for p in s.proposals} == {round(1 / REAL, 6)}
    counts = torch.bincount(torch.tensor(gen.token_ids), minlength=REAL)
    assert chi_square(counts, [1 / REAL] * REAL) > ALPHA


@pytest.mark.parametrize("drafter", ["none", "model", "prompt_lookup"])
def test_a_padded_id_in_the_prompt_is_never_proposed_or_emitted(drafter):
    """The prompt holds 1 2 9 (9 has an embedding and no string), and the output says 1 2 again."""
    said = [2, 4, 1, 2, 5]

    def rule(history):
        row = torch.zeros(10)
        row[said[(len(history) - 4) % 5]] = 20.0
        return row

    pair = Pair.from_models(ScriptedModel(rule, 10), word_tokenizer(WORDS), ScriptedModel(rule, 12, width=12))
    gen = engine.generate(pair, [1, 2, 9, 1], DecodeSettings(k=3, max_new_tokens=12, ignore_eos=True), drafter)
    assert gen.token_ids == [*said, *said, 2, 4]
    assert all(p.token.token_id < REAL for s in gen.trace.steps for p in s.proposals)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("named", [{}, {"pad_token": "<|tool|>"}, {"unk_token": "<|tool|>"}], ids=str)
def test_a_draft_that_knows_fewer_ids_than_the_target_never_meets_one_it_has_no_row_for(temperature, named):
    """The target has an added token 9 that the draft, 9 rows wide, has never heard of, and says it often."""

    def rule(history):
        row = torch.full((10,), -30.0)
        row[9 if len(history) % 2 else history[0]] = 30.0
        return row

    target_tokenizer = word_tokenizer(WORDS, specials=("<s>", "</s>", "<|tool|>"), **named)
    draft = ScriptedModel(lambda h: torch.zeros(9), 9)
    pair = Pair.from_models(ScriptedModel(rule, 10), target_tokenizer, draft, word_tokenizer(WORDS))
    values = DecodeSettings(k=3, max_new_tokens=20, temperature=temperature, seed=0)
    gen = engine.generate(pair, [4, 9, 4], values, "model")
    assert gen.token_ids == [9, 4] * 10
    assert gen.stats.proposed > 0
    assert gen.trace.notices


def test_an_id_without_an_embedding_is_refused_in_the_prompt():
    with pytest.raises(engine.EngineError, match=r"token id 10 .*0 to 9"):
        padded_pair(10, 12).encode([1, 10])


def test_a_real_model_padded_past_its_tokenizer_never_says_what_no_string_stands_for():
    pair = Pair.from_models(tiny_llama(64, seed=3), word_tokenizer(WORDS), tiny_llama(80, seed=4))
    for temperature in (0.0, 1.0):
        values = DecodeSettings(k=4, max_new_tokens=60, temperature=temperature, seed=1, ignore_eos=True)
        gen = engine.generate(pair, [1, 2], values, "model")
        assert max(gen.token_ids) < REAL
        assert gen.text
