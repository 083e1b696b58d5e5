"""Two vocabularies side by side: compared by the bytes that tokens stand for, and what a user is told of it."""

import json

import pytest
from helpers.foreign import finish, merged_tokenizer, wordpiece_tokenizer
from helpers.models import ScriptedModel, wanders
from helpers.tokenizers import byte_tokenizer, piece_tokenizer, word_tokenizer
from tokenizers import Tokenizer, models, pre_tokenizers

import engine
from engine import Pair, VocabularyError, check_vocabularies
from engine.fertility import ENGLISH, TURKISH
from engine.token_bytes import encode, token_bytes, unfinished

BYTES = byte_tokenizer()
PIECES = piece_tokenizer(["▁the", "ing", "a"])
WORDPIECES = wordpiece_tokenizer(["the", "##ing"])


def word_of(tokenizer, piece):
    return token_bytes(tokenizer)[tokenizer.get_vocab()[piece]]


# --- what a token stands for ---


def test_a_space_is_a_space_whatever_it_is_written_with():
    merged = merged_tokenizer([" the"])
    assert word_of(merged, "Ġthe") == word_of(PIECES, "▁the") == word_of(WORDPIECES, "the") == b" the"
    assert word_of(word_tokenizer(["the"]), "the") == b" the"  # joined with spaces where there is no decoder


def test_a_piece_that_goes_on_a_word_has_no_space():
    assert word_of(PIECES, "ing") == word_of(WORDPIECES, "##ing") == b"ing"


def test_a_byte_is_a_byte_whatever_it_is_written_with():
    assert word_of(PIECES, "<0x0A>") == word_of(BYTES, "Ċ") == b"\n"
    assert word_of(PIECES, "<0xC4>") == word_of(BYTES, "Ä") == b"\xc4"
    # In a byte-level vocabulary the same letters are no byte.
    assert word_of(merged_tokenizer(["<0x0A>"]), "<0x0A>") == b"<0x0A>"


def test_special_tokens_stand_for_no_text():
    for tokenizer in (BYTES, PIECES, WORDPIECES):
        words = token_bytes(tokenizer)
        assert not {tokenizer.bos_token_id, tokenizer.eos_token_id} & {*words}


def test_an_added_token_that_is_not_special_is_the_text_that_it_is_written_as():
    tokenizer = byte_tokenizer()
    tokenizer.add_tokens(["<think> é"])
    assert token_bytes(tokenizer)[len(tokenizer) - 1] == "<think> é".encode()


@pytest.mark.parametrize("text", ["ğ", "€", "🙂", "a", ""])
def test_unfinished_counts_the_bytes_of_a_character_that_is_not_complete(text):
    data = text.encode()
    assert unfinished(b"x" + data) == 0
    for n in range(1, len(data)):
        assert unfinished(b"x" + data[:n]) == n
    assert unfinished(b"\x9f") == unfinished(b"\xff") == unfinished(b"\xc4a") == 0  # never to be completed


# --- which tokens both have ---


def test_the_overlap_is_the_percentage_of_the_targets_tokens_that_the_draft_has_under_any_id():
    # The target: 256 bytes and " a"; the draft: the bytes, and pieces of its own.
    target, draft = merged_tokenizer([" a"]), piece_tokenizer(["▁a", "▁b"])
    report = check_vocabularies(target, draft)
    assert report.target_tokens == 257
    assert report.draft_tokens == 259  # <unk>, two pieces, 256 bytes; <unk> is not named as special here
    assert report.overlap == 100.0
    # The other way round, "<unk>" and "▁b" are missing.
    assert check_vocabularies(draft, target).overlap == pytest.approx(100 * 257 / 259)
    assert check_vocabularies(draft, target).missing == ("<unk>", " b")


def test_the_map_goes_by_bytes_both_ways():
    target, draft = merged_tokenizer([" a"]), piece_tokenizer(["▁a", "▁b"])
    words = check_vocabularies(target, draft).words
    assert words.to_draft[target.get_vocab()["Ġa"]] == draft.get_vocab()["▁a"]
    assert words.to_target[draft.get_vocab()["▁a"]] == target.get_vocab()["Ġa"]
    assert draft.get_vocab()["▁b"] not in words.to_target


def test_of_two_tokens_that_say_the_same_the_draft_reads_either_and_says_the_one_that_a_tokenizer_writes():
    target, draft = PIECES, merged_tokenizer(["x"])
    a, byte_a = target.get_vocab()["a"], target.get_vocab()["<0x61>"]
    words = check_vocabularies(target, draft).words
    assert words.to_draft[a] == words.to_draft[byte_a] == draft.get_vocab()["a"]
    assert words.to_target[draft.get_vocab()["a"]] == a
    back = check_vocabularies(draft, target).words
    assert back.to_draft[draft.get_vocab()["a"]] == a


def test_swapped_ids_are_mapped_by_what_they_say():
    target, draft = word_tokenizer(["a", "b", "c"]), word_tokenizer(["a", "c", "b"])
    report = check_vocabularies(target, draft)
    assert not report.same
    assert report.overlap == 100.0
    assert report.same_id == pytest.approx(100 / 3)
    assert {i: report.words.to_draft[i] for i in range(3)} == {0: 0, 1: 2, 2: 1}
    first = report.differing[0]
    assert (first.id, first.target, first.draft) == (1, "b", "c")


def test_special_tokens_answer_to_each_other_by_name_and_then_by_role():
    target = byte_tokenizer(specials=("<s>", "</s>", "<|turn|>", "<|mine|>"))
    draft = byte_tokenizer(extra=[b"zz"], specials=("<s>", "</s>", "<|turn|>"))
    named, back = check_vocabularies(target, draft).words, draft.get_vocab()
    for name in ("<s>", "</s>", "<|turn|>"):
        assert named.to_draft[target.get_vocab()[name]] == back[name]
    assert target.get_vocab()["<|mine|>"] not in named.to_draft
    other = byte_tokenizer(extra=[b"zz"], specials=("[B]", "[E]"), bos_token="[B]", eos_token="[E]")
    roles = check_vocabularies(target, other).words
    assert roles.to_draft[target.eos_token_id] == other.eos_token_id
    assert roles.to_draft[target.bos_token_id] == other.bos_token_id
    assert roles.to_target[other.eos_token_id] == target.eos_token_id


def test_a_special_token_is_never_taken_for_text_of_the_same_letters():
    target, draft = byte_tokenizer(), merged_tokenizer(["</s>"], specials=("[B]", "[E]"))
    words = check_vocabularies(target, draft).words
    assert words.to_draft[target.eos_token_id] == draft.eos_token_id
    assert words.to_draft[target.eos_token_id] != draft.get_vocab()["</s>"]


# --- what a user is told ---


def test_fertility_is_tokens_per_word_of_a_turkish_and_an_english_text():
    report = check_vocabularies(BYTES, merged_tokenizer(["the", "lar"]))
    turkish, english = report.fertility
    for found, text, word in ((turkish, TURKISH, "lar"), (english, ENGLISH, "the")):
        count = len(text.split())
        assert found.words == count
        # One token a byte, spaces told apart from words only by the tokenizer's reader: all bytes of the text.
        assert found.target == pytest.approx(len(text.encode()) / count)
        assert found.draft < found.target
        assert text.count(word) > 2
    assert turkish.shared == english.shared == 1.0
    assert str(turkish).startswith("Turkish ")
    assert turkish.target > english.target


def test_the_two_texts_are_short_and_what_they_say_they_are():
    for text in (TURKISH, ENGLISH):
        assert 100 <= len(text.split()) <= 140
    assert {*"çğıöşüİ"} - {*TURKISH} <= {"İ"}
    assert ENGLISH.isascii()


def test_coverage_counts_tokens_of_running_text_and_not_of_the_list():
    # The draft lacks one token of 257, and running text is full of it.
    report = check_vocabularies(merged_tokenizer(["e", "th"]), BYTES)
    words, text = len(ENGLISH.split()), ENGLISH.encode()
    english = report.fertility[1]
    assert report.overlap == pytest.approx(100 * 256 / 257)
    tokens = len(text) - text.count(b"th")
    assert english.target == pytest.approx(tokens / words)
    assert english.shared == pytest.approx(1 - text.count(b"th") / tokens)


def test_the_report_is_json_and_its_summary_one_sentence():
    report = check_vocabularies(merged_tokenizer([" the"]), PIECES)
    shown = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    assert shown["overlap_percent"] == report.overlap
    assert shown["fertility"][0]["language"] == "Turkish"
    assert shown["method"] == report.method
    summary = report.summary
    assert "\n" not in summary
    assert ". " not in summary
    assert f"{report.overlap:.1f}%" in summary
    assert "Turkish" in summary
    assert "English" in summary
    assert report.method in summary


def test_the_same_vocabulary_says_so():
    report = check_vocabularies(byte_tokenizer(), byte_tokenizer())
    assert report.same
    assert report.overlap == report.same_id == 100.0
    assert report.missing == report.differing == ()
    assert "same vocabulary" in report.summary


# --- how the draft is to draft ---


def test_tokens_are_mapped_where_the_draft_has_those_of_running_text_and_re_encoded_where_it_has_not():
    assert check_vocabularies(BYTES, merged_tokenizer(["the"])).method == "intersection"
    # 94% of the list, but hardly anything of what is written with it.
    letters = [f" {a}{b}" for a in "abcdefghiklmnoprstuvwy" for b in "aehioru"]
    report = check_vocabularies(
        merged_tokenizer([*letters, *(w[1:] for w in letters), "th", "he", "an", "in", "er"]), BYTES
    )
    assert report.coverage < 0.9
    assert report.method == "reencoding"


def test_the_way_can_be_forced():
    pair = BYTES, merged_tokenizer(["the"])
    for method in ("intersection", "reencoding"):
        assert check_vocabularies(*pair, method).method == method
    with pytest.raises(VocabularyError, match=r"'both'.*intersection or reencoding"):
        check_vocabularies(*pair, "both")


def test_a_way_that_these_two_cannot_be_used_by_is_refused_when_forced():
    words, other = word_tokenizer(["x1", "x2"]), word_tokenizer(["y1", "y2"])
    with pytest.raises(VocabularyError, match="no token is in both"):
        check_vocabularies(words, BYTES, "intersection")
    with pytest.raises(VocabularyError, match="cannot be re-encoded"):
        check_vocabularies(words, other, "reencoding")


def test_a_tokenizer_that_cannot_spell_a_text_is_asked_no_more_of():
    tok = Tokenizer(models.WordLevel({"x": 0, "y": 1}, unk_token="[none]"))
    tok.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    strict = finish(tok)
    assert encode(strict, "z") == []
    report = check_vocabularies(strict, word_tokenizer(["x", "z"]))
    assert report.fertility == ()
    assert report.coverage is None
    assert report.method == "intersection"


# --- the pair ---


def pair_of(target, draft, **more):
    sizes = [max(t.get_vocab().values()) + 1 for t in (target, draft)]
    return Pair.from_models(
        ScriptedModel(wanders(sizes[0]), sizes[0]), target, ScriptedModel(wanders(sizes[1]), sizes[1]), draft,
        target_name="big", draft_name="small", **more,
    )  # fmt: skip


def test_a_draft_of_another_family_is_taken_with_a_notice():
    draft = merged_tokenizer(["the"])
    pair = pair_of(BYTES, draft)
    assert pair.draft_tokenizer is draft
    assert pair.vocabulary.method == "intersection"
    (notice,) = pair.notices
    assert notice == f"small drafts for big: {pair.vocabulary.summary}"
    shown = pair.describe()["vocabulary"]
    assert shown == pair.vocabulary.as_dict()
    json.dumps(shown, allow_nan=False)


def test_the_same_vocabulary_leaves_no_report_behind():
    pair = pair_of(byte_tokenizer(), byte_tokenizer())
    assert pair.vocabulary is None
    assert pair.notices == ()
    assert pair.describe()["vocabulary"] is None


def test_a_pair_can_be_told_how_to_draft():
    assert pair_of(BYTES, merged_tokenizer(["the"]), foreign_method="reencoding").vocabulary.method == "reencoding"


def test_a_draft_that_has_no_way_to_draft_is_refused_in_one_sentence():
    with pytest.raises(VocabularyError) as raised:
        pair_of(word_tokenizer(["x1", "x2"]), word_tokenizer(["y1", "y2"]))
    message = str(raised.value)
    for part in ("small shares no token with big", "prompt_lookup"):
        assert part in message
    assert "\n" not in message


def test_the_check_is_public():
    assert engine.check_vocabularies is check_vocabularies
    assert isinstance(check_vocabularies(BYTES, PIECES), engine.VocabularyReport)
