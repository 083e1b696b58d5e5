"""A draft with a vocabulary of its own: it reads the target's text, and is verified under the law that it drew from."""

import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers.foreign import (
    drafter_of,
    merged_tokenizer,
    permuted,
    plain,
    recites_text,
    speculative,
    wordpiece_tokenizer,
)
from helpers.laws import ALPHA, chi_square, exact_law, first_token, target_law
from helpers.models import ScriptedModel, table, tiny_llama
from helpers.tokenizers import byte_tokenizer, piece_tokenizer, word_tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import DecodeSettings, EngineError, Pair, verify_chain
from engine.drafters.foreign import EMPTY, FULL, INSIDE, IntersectionDrafter, ReencodingDrafter
from engine.drafters.foreign_text import LONG, DraftText, Speller, follow
from engine.drafters.sampled import UNSURE
from engine.token_bytes import joined, token_bytes
from engine.verify.sampling import probabilities
from engine.vocabulary import check_vocabularies

GREEDY = DecodeSettings(k=4, temperature=0.0, ignore_eos=True)
SAMPLED = DecodeSettings(k=4, temperature=1.0, ignore_eos=True)
FAMILY = "👨‍👩‍👧"
BYTES = byte_tokenizer()


def width_of(tokenizer):
    return max(tokenizer.get_vocab().values()) + 1


def llamas(target, draft, method=None, same=False, **more):
    """Two random models, or one and the same where the draft's vocabulary is the target's in another order."""
    model = tiny_llama(width_of(target), seed=1, **more)
    if same:
        other = permuted(tiny_llama(width_of(target), seed=1, **more), same)
    else:
        other = tiny_llama(width_of(draft), seed=2, **more)
    return Pair.from_models(model, target, other, draft, foreign_method=method)


def reciting(target, draft, text, method=None, ends=False, context=4096):
    """Both know what text is to be said, each in its own tokens."""
    models = [
        ScriptedModel(recites_text(t, text, width_of(t), ends), width_of(t), context=n)
        for t, n in ((target, 4096), (draft, context))
    ]
    return Pair.from_models(models[0], target, models[1], draft, foreign_method=method)


def ids_of(tokenizer, text):
    return tokenizer(text, add_special_tokens=False)["input_ids"]


# --- pieces of a text ---


@pytest.mark.parametrize("text", ["Dear", " Dear", "\nDear", "ear Name", "x", " ", "🙂", "ğ ş", "a.b", ""])
@pytest.mark.parametrize(
    "tokenizer",
    [
        piece_tokenizer(["▁Dear", "▁Name", "x", "▁"]),
        byte_tokenizer(bos=True),
        merged_tokenizer(["Dear", " Name", "\n"]),
    ],
    ids=["pieces", "bytes", "merged"],
)
def test_a_piece_from_the_middle_of_a_text_has_no_bos_and_no_space_of_its_own(tokenizer, text):
    pieces = token_bytes(tokenizer)
    ids = Speller(tokenizer, pieces, width_of(tokenizer)).spell(text)
    assert joined(pieces, ids) == text.encode()
    assert tokenizer.bos_token_id not in ids


def test_a_word_that_goes_on_is_spelt_as_one_that_goes_on():
    tokenizer = wordpiece_tokenizer(["walk", "##ing", "ing", "a", "##a", "."])
    vocab = tokenizer.get_vocab()
    speller = Speller(tokenizer, token_bytes(tokenizer), width_of(tokenizer))
    assert speller.spell("ing") == [vocab["##ing"]]
    assert speller.spell(" walking") == [vocab["walk"], vocab["##ing"]]


def test_the_opening_is_what_the_tokenizer_puts_before_a_text():
    for bos in (True, False):
        tokenizer = byte_tokenizer(bos=bos)
        speller = Speller(tokenizer, token_bytes(tokenizer), width_of(tokenizer))
        assert speller.opening() == ([tokenizer.bos_token_id] if bos else [])


def test_ids_without_an_embedding_are_never_given():
    tokenizer = merged_tokenizer(["Dear"])
    assert max(Speller(tokenizer, token_bytes(tokenizer), 256).spell("a Dear b")) < 256


# --- the target's context in the draft's ids ---


def text_of(target, draft, one_to_one=True):
    words = check_vocabularies(target, draft).words
    return DraftText(words, Speller(draft, words.draft, width_of(draft)), one_to_one)


CUT = merged_tokenizer([" the", "ing", "ş", "🙂", " de", "x  "])
OTHERS = {
    "bytes": byte_tokenizer(extra=[b"zz"], bos=True),
    "pieces": piece_tokenizer(["▁the", "▁", "in", "g", "ş"]),
    "merged": merged_tokenizer(["the", "ğ", "ng", "  "], base=7),
}


@pytest.mark.parametrize("draft", OTHERS.values(), ids=OTHERS.keys())
@pytest.mark.parametrize("one_to_one", [True, False])
@given(text=st.text(alphabet="the ingşğİ🙂de\nx", max_size=60), data=st.data())
@settings(max_examples=40, deadline=None)
def test_the_draft_reads_the_targets_text_however_it_arrives(draft, one_to_one, text, data):
    ids, mirror = ids_of(CUT, text), text_of(CUT, draft, one_to_one)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(ids)), max_size=6)))
    for end in [*cuts, len(ids)]:
        mirror.extend(ids[:end])
    said = joined(token_bytes(draft), mirror.ids)
    # SentencePiece's own way of beginning a text.
    assert said in (text.encode(), b" " + text.encode())
    assert not mirror.held
    assert mirror.ids.count(draft.bos_token_id) <= 1


def test_tokens_of_both_are_taken_over_and_the_others_are_spelt():
    target, draft = merged_tokenizer([" the", "ing"]), merged_tokenizer([" the", "ng"], base=5)
    mirror = text_of(target, draft)
    mirror.extend(ids_of(target, "a theing"))
    vocab = draft.get_vocab()
    assert mirror.ids == [vocab["a"], vocab["Ġthe"], vocab["i"], vocab["ng"]]


def test_a_run_of_text_is_spelt_anew_when_it_grows():
    # The target says "ab" and "cd", neither of which the draft has: it says "a", "bcd" for both together.
    target, draft = merged_tokenizer(["ab", "cd"]), merged_tokenizer(["bcd"])
    mirror = text_of(target, draft)
    ab, cd, vocab = target.get_vocab()["ab"], target.get_vocab()["cd"], draft.get_vocab()
    mirror.extend([ab])
    assert mirror.ids == [vocab["a"], vocab["b"]]
    mirror.extend([ab, cd])
    assert mirror.ids == [vocab["a"], vocab["bcd"]]


def test_a_part_of_a_character_waits_for_the_rest_of_it():
    data = "🙂".encode()
    target = byte_tokenizer(extra=[data[:3]])
    mirror = text_of(target, merged_tokenizer(["ab"]))
    mirror.extend([ord("x"), 256])
    assert mirror.held
    assert mirror.ids == [ord("x")]
    mirror.extend([ord("x"), 256, data[3]])  # a token of both, but it ends what the other began
    assert not mirror.held
    assert joined(mirror.words.draft, mirror.ids) == "x🙂".encode()
    mirror.extend([ord("x"), 256, data[3], ord("y")])
    assert mirror.ids == [*"x🙂y".encode()]


def test_bytes_that_are_no_text_harm_nothing():
    target = byte_tokenizer(extra=[b"\xf0\x9f", b"\xff\xfe"])
    mirror = text_of(target, merged_tokenizer(["ab"]))
    mirror.extend([256, target.eos_token_id, ord("a"), 257, ord("b")])
    assert joined(mirror.words.draft, mirror.ids).startswith(b"a")
    assert mirror.ids[-1] == ord("b")


def test_special_tokens_come_over_by_name_or_role_and_the_others_say_nothing():
    target = byte_tokenizer(specials=("<s>", "</s>", "<|turn|>", "<|mine|>"))
    draft = merged_tokenizer(["ab"], base=3, specials=("[B]", "[E]", "<|turn|>"))
    vocab = draft.get_vocab()
    mirror = text_of(target, draft)
    own = target.get_vocab()
    mirror.extend([own["<s>"], own["<|mine|>"], own["x"], own["</s>"], own["<|turn|>"], 10**6])
    assert mirror.ids == [vocab["[B]"], vocab["x"], vocab["[E]"], vocab["<|turn|>"]]


@pytest.mark.parametrize("first", [[], ["<s>"]], ids=["no BOS", "BOS"])
def test_one_bos_comes_first_and_none_in_the_middle(first):
    """F3: whatever is spelt anew, and however often."""
    target = merged_tokenizer(["ab", "cd"])
    draft = merged_tokenizer(["bcd"], bos=True, specials=("[B]", "[E]"))
    bos, mirror = draft.bos_token_id, text_of(target, draft)
    names = [*first, "ab", "cd", "x", "ab", "ab", "y"]
    ids = [target.get_vocab()[n] for n in names]
    for end in range(1, len(ids) + 1):
        mirror.extend(ids[:end])
        assert mirror.ids.count(bos) == 1
        assert mirror.ids[0] == bos


@pytest.mark.parametrize("text", ["word " * 400, "ğ" * 900, "x" * 2000], ids=["words", "letters", "one word"])
def test_a_long_text_settles_and_loses_nothing(text):
    mirror = text_of(CUT, byte_tokenizer(extra=[b"wor"]), one_to_one=False)
    ids = ids_of(CUT, text)
    for end in range(0, len(ids) + 1, 7):
        mirror.extend(ids[:end])
        assert len(mirror._run) <= LONG
    mirror.extend(ids)
    assert joined(mirror.words.draft, mirror.ids) == text.encode()


# --- the draft's text in the target's ids ---


@given(text=st.text(alphabet="the ingşğ🙂de\n", max_size=40), split=st.floats(0, 1))
@settings(max_examples=100, deadline=None)
def test_what_is_proposed_is_the_beginning_of_what_was_written(text, split):
    words = check_vocabularies(CUT, OTHERS["bytes"]).words
    speller, at = Speller(CUT, words.target, width_of(CUT)), int(split * len(text))
    written = text[at:].encode()
    ids = follow(words, speller, ids_of(CUT, text[:at]), written + "🙂".encode()[:2])
    assert joined(words.target, ids) == written


def test_a_token_at_the_joint_is_what_the_tokenizer_makes_of_both_sides():
    target = merged_tokenizer([" the", "ein", "in"])
    words = check_vocabularies(target, BYTES).words
    speller, vocab = Speller(target, words.target, width_of(target)), target.get_vocab()
    # " the" is behind us, so "in" follows; spelt from the letter on, it would be "ein".
    assert follow(words, speller, [vocab["a"], vocab["Ġthe"]], b"in") == [vocab["in"]]
    assert follow(words, speller, [vocab["a"], vocab["Ġ"], vocab["t"], vocab["h"]], b"ein") == [vocab["ein"]]


def test_a_joint_that_the_tokenizer_would_not_have_made_is_kept():
    target = merged_tokenizer(["ab"])
    words = check_vocabularies(target, BYTES).words
    speller, vocab = Speller(target, words.target, width_of(target)), target.get_vocab()
    assert follow(words, speller, [vocab["Ġ"], vocab["a"]], b"bc") == [vocab["b"], vocab["c"]]


def test_a_tokenizer_that_changes_the_text_proposes_only_what_is_as_it_was():
    target = wordpiece_tokenizer(["walk", "##ing", "a", "."])
    words = check_vocabularies(target, BYTES).words
    speller, vocab = Speller(target, words.target, width_of(target)), target.get_vocab()
    assert follow(words, speller, [vocab["a"]], b" walking nowhere") == [vocab["walk"], vocab["##ing"]]


# --- the same model under other ids ---


@pytest.mark.parametrize(
    "values", [GREEDY, SAMPLED, DecodeSettings(k=3, temperature=0.8, top_p=0.9, top_k=20)], ids=str
)
@pytest.mark.parametrize("penalty", [1.0, 1.3])
def test_the_same_model_with_its_ids_in_another_order_is_accepted_every_time(values, penalty):
    """F2: told apart by strings, and put right by them."""
    target, draft = merged_tokenizer(["ab"]), merged_tokenizer(["ab"], base=100)
    order = [draft.get_vocab()[t] for t, _ in sorted(target.get_vocab().items(), key=lambda entry: entry[1])]
    assert order != sorted(order)
    pair = llamas(target, draft, same=order)
    assert isinstance(drafter_of(pair), IntersectionDrafter)
    ids, steps = speculative(pair, [1, 200, 256, 3], replace(values, repetition_penalty=penalty), 40, seed=3)
    assert len(steps) <= 40 // values.k
    for draft, verdict in steps:
        assert len(draft.tokens) == values.k
        assert verdict.num_accepted == values.k
        assert verdict.accept_probs.tolist() == pytest.approx([1.0] * values.k, abs=1e-4)
    assert len(ids) == 40


# --- greedy text is the target's own ---

PAIRS = {
    "intersection": (merged_tokenizer([" the", "ing"]), merged_tokenizer(["th", "ğ"], base=9, bos=True), None),
    "re-encoding": (merged_tokenizer([" the", "ing"]), merged_tokenizer(["th", "ğ"], base=9, bos=True), "reencoding"),
    "pieces": (merged_tokenizer([" the", "ing"]), piece_tokenizer(["▁the", "▁", "a", "in"]), None),
    "pieces, re-encoding": (piece_tokenizer(["▁the", "▁", "a", "in"]), merged_tokenizer([" the"]), "reencoding"),
    "whole words": (merged_tokenizer([" the"]), word_tokenizer(["the", "a", "in"]), "intersection"),
    "word pieces": (byte_tokenizer(), wordpiece_tokenizer(["walk", "##ing", "##a", "##b"]), "intersection"),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("penalty", [1.0, 1.2])
def test_greedy_text_is_what_the_target_says_alone(name, penalty):
    target, draft, method = PAIRS[name]
    pair = llamas(target, draft, method)
    values = DecodeSettings(k=3, repetition_penalty=penalty, ignore_eos=True)
    prompt = ids_of(target, "a the ing") or [1, 2]
    ids, steps = speculative(pair, prompt, values, 50)
    assert ids == plain(pair, prompt, values, 50)
    assert sum(len(d.tokens) for d, _ in steps) > 0


TEXT = "the king is dethroned; çağrı şöyle: 🙂 " + FAMILY + " the xing.\n\n the end of it, thing"


@pytest.mark.parametrize(
    "draft", [byte_tokenizer(extra=[b"zz"], bos=True), piece_tokenizer(["▁", "zz"])], ids=["BPE", "pieces"]
)
def test_mapped_tokens_of_a_draft_that_agrees_all_stand_but_where_the_target_says_one_that_it_lacks(draft):
    """The draft says the text byte by byte. The target joins some of them; behind each of those the draft must have
    read what it could not have said, or nothing more would stand."""
    pair = reciting(CUT, draft, TEXT, "intersection")
    whole = _said(pair, TEXT)
    ids, steps = speculative(pair, whole[:2], GREEDY, len(whole) - 2 - GREEDY.k)
    assert ids == whole[2 : -GREEDY.k]
    known, lacking = pair.vocabulary.words.to_draft, 0
    for drafted, verdict in steps:
        if verdict.kind == "recovered":
            assert verdict.next_token not in known
            lacking += 1
        # Some of what the target joins ends inside a character.
        assert len(drafted.tokens) == (0 if drafted.note == INSIDE else GREEDY.k)
    assert lacking > 5


def _said(pair, text):
    """The text as the scripted target says it."""
    words, rule, ids = pair.vocabulary.words.target, pair.target.model.rule, []
    while joined(words, ids) != text.encode():
        ids.append(int(rule(tuple(ids)).argmax()))
    return ids


@pytest.mark.parametrize("draft", OTHERS.values(), ids=OTHERS.keys())
def test_re_encoded_text_of_a_draft_that_agrees_all_stands(draft):
    """Turkish letters, an emoji of three people, blank lines: what the draft writes is the text, so every proposal that
    is cut as the target cuts it stands."""
    pair = reciting(CUT, draft, TEXT, "reencoding")
    assert isinstance(drafter_of(pair), ReencodingDrafter)
    whole = _said(pair, TEXT)
    ids, steps = speculative(pair, whole[:2], GREEDY, len(whole) - 2)
    assert ids == whole[2:]
    drafted = [(d, v) for d, v in steps if d.tokens]
    assert all(d.probs is None for d, _ in drafted)
    rate = sum(v.num_accepted for _, v in drafted) / sum(len(d.tokens) for d, _ in drafted)
    assert rate > 0.9
    assert len(drafted) < len(whole) / 3


def test_nothing_is_drafted_inside_a_character_that_the_draft_cannot_spell():
    data = "🙂".encode()
    target = byte_tokenizer(extra=[data[:2]])
    for method in ("intersection", "reencoding"):
        pair = reciting(target, byte_tokenizer(extra=[b"zz"]), "ab🙂abcd", method)
        drafter = drafter_of(pair, GREEDY)
        drafter.begin([ord("a")], threading.Event())
        assert drafter.propose([ord("a"), ord("b"), 256], 4).note == INSIDE
        # The rest of it has come.
        draft = drafter.propose([ord("a"), ord("b"), 256, data[2], data[3]], 1)
        assert draft.tokens[:1] == [ord("a")]


# --- what stays in the draft's cache ---


def test_every_context_that_a_draft_reads_is_the_text_so_far_and_begins_with_its_bos():
    """F3, and no unknown token among the keys: the model itself looks at all that it is shown."""
    target = merged_tokenizer([" the", "ing", "ş"])
    draft = merged_tokenizer(["th", "ğ"], base=9, bos=True, specials=("[B]", "[E]"))
    words, seen = token_bytes(draft), []

    def watches(history):
        seen.append(history)
        return recites_text(draft, TEXT, width_of(draft))(history)

    for method in ("intersection", "reencoding"):
        pair = Pair.from_models(
            ScriptedModel(recites_text(target, TEXT, width_of(target)), width_of(target)), target,
            ScriptedModel(watches, width_of(draft)), draft, foreign_method=method,
        )  # fmt: skip
        seen.clear()
        whole = _said(pair, TEXT)
        speculative(pair, whole[:3], GREEDY, len(whole) - 15)
        assert len(seen) > 40
        for history in seen:
            assert history[0] == draft.bos_token_id
            assert draft.bos_token_id not in history[1:]
            said = joined(words, history)
            # What it is shown is the text, and behind it at most a guess of its own that has yet to be judged.
            assert TEXT.encode().startswith(said[: -4 * GREEDY.k])


def test_a_rejected_guess_leaves_nothing_behind():
    """The target says what the draft never would; the draft says what depends on all that it has read."""
    target, draft = merged_tokenizer(["ab"]), merged_tokenizer(["cd"], base=31)
    for method in ("intersection", "reencoding"):
        pair = llamas(target, draft, method)
        drafter, fresh = drafter_of(pair, GREEDY), None
        context = [5, 6, 256]
        drafter.begin(context, threading.Event())
        for token in plain(pair, context, SAMPLED, 25, seed=4):
            context = [*context, token]
            fresh = drafter_of(pair, GREEDY)
            fresh.begin(context[:1], threading.Event())
            again, first = drafter.propose(context, 4), fresh.propose(context, 4)
            assert again.tokens == first.tokens
            assert again.note == first.note
            if first.probs is not None:
                torch.testing.assert_close(again.logits, first.logits, rtol=1e-3, atol=1e-3)


def test_a_prompt_may_be_read_in_pieces():
    pair = reciting(CUT, OTHERS["merged"], TEXT, "reencoding")
    whole = _said(pair, TEXT)
    drafter = drafter_of(pair, GREEDY)
    assert drafter.begins_in_pieces
    for end in (1, 4, 5, 12):
        drafter.begin(whole[:end], threading.Event())
    once = drafter_of(pair, GREEDY)
    once.begin(whole[:12], threading.Event())
    assert drafter.propose(whole[:13], 4).tokens == once.propose(whole[:13], 4).tokens == whole[13:17]


def test_a_draft_with_a_short_context_stops_where_it_ends():
    for method in ("intersection", "reencoding"):
        pair = reciting(CUT, OTHERS["bytes"], TEXT, method, context=20)
        whole = _said(pair, TEXT)
        ids, steps = speculative(pair, whole[:2], GREEDY, len(whole) - 2)
        assert ids == whole[2:]
        assert steps[-1][0].note == FULL
        assert not steps[-1][0].tokens
        assert any(d.tokens for d, _ in steps)


def test_a_long_prompt_is_refused_by_a_draft_that_cannot_hold_it():
    pair = reciting(CUT, OTHERS["bytes"], TEXT, "intersection", context=20)
    drafter = drafter_of(pair, GREEDY)
    drafter.begin(_said(pair, TEXT), threading.Event())
    assert pair.draft.model.longest <= 20


def test_a_stopped_run_stops_reading():
    pair = reciting(CUT, OTHERS["bytes"], TEXT, "intersection")
    stopped = threading.Event()
    stopped.set()
    drafter = drafter_of(pair, GREEDY)
    drafter.begin(_said(pair, TEXT), stopped)
    assert drafter.cache.length == 0


def test_a_draft_with_nothing_to_read_says_so():
    target = byte_tokenizer(specials=("<s>", "</s>", "<|mine|>"))
    pair = reciting(target, merged_tokenizer(["ab"]), "ab", "intersection")
    mine = target.get_vocab()["<|mine|>"]
    drafter = drafter_of(pair, GREEDY)
    drafter.begin([mine], threading.Event())
    assert drafter.propose([mine, mine], 3).note == EMPTY


@pytest.mark.parametrize("method", ["intersection", "reencoding"])
def test_the_end_of_the_text_is_drafted_too(method):
    target = merged_tokenizer(["ab"])
    draft = merged_tokenizer(["cd"], base=31, specials=("[B]", "[E]"))
    pair = reciting(target, draft, "abcd", method, ends=True)
    drafter = drafter_of(pair, GREEDY)
    drafter.begin(ids_of(target, "ab"), threading.Event())
    tokens = drafter.propose(ids_of(target, "abc"), 4).tokens
    assert tokens[:2] == [target.get_vocab()["d"], target.eos_token_id]


def test_of_what_is_written_the_last_token_is_not_proposed():
    """The text goes on " the…": "th" at its end would be a token that the target never says there."""
    target = merged_tokenizer([" theme"])
    pair = reciting(target, BYTES, "abcdefg theme", "reencoding")
    drafter = drafter_of(pair, GREEDY)
    drafter.begin([ord("a")], threading.Event())
    for k in (1, 2, 3, 4, 5):
        draft = drafter.propose([ord("a"), ord("b")], k)
        assert draft.tokens == _said(pair, "abcdefg theme")[2 : 2 + k][: len(draft.tokens)]
        assert draft.tokens


# --- K control ---


class Stops:
    asks = True

    def __init__(self, at):
        self.at, self.asked = at, []

    def goes_on(self, confidence, depth):
        self.asked.append((confidence, depth))
        return depth < self.at


@pytest.mark.parametrize("at", [0, 2])
@pytest.mark.parametrize("values", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_a_controller_is_asked_before_each_token_and_stops_the_draft(at, values):
    pair = llamas(merged_tokenizer(["ab"]), merged_tokenizer(["cd"], base=31))
    control = Stops(at)
    drafter = drafter_of(pair, values, gate=control)
    drafter.begin([1, 2], threading.Event())
    draft = drafter.propose([1, 2, 3], 4)
    assert len(draft.tokens) == at
    assert draft.note == UNSURE  # fewer than the four that were asked for
    assert [depth for _, depth in control.asked] == list(range(at + 1))
    for confidence, _ in control.asked:
        assert 0 < confidence < 1
    # What it has read since is known to it: nothing is read twice, and nothing is taken for what it is not.
    free = drafter_of(pair, values, seed=9)
    free.begin([1, 2], threading.Event())
    after, fresh = drafter.propose([1, 2, 3, *draft.tokens, 7], 4), free.propose([1, 2, 3, *draft.tokens, 7], 4)
    torch.testing.assert_close(after.logits[0] if after.tokens else fresh.logits[0], fresh.logits[0])


# --- the law ---

LAWS = [
    DecodeSettings(temperature=1.0),
    DecodeSettings(temperature=0.7, top_k=5),
    DecodeSettings(temperature=1.3, top_p=0.8),
    DecodeSettings(temperature=1.0, min_p=0.1, repetition_penalty=1.4),
]


def small_pair(seed=0):
    """Words a to f and x against b, d, f, y, a in another order: four or five in common, laws random."""
    rng = np.random.default_rng(seed)
    target, draft = word_tokenizer([*"abcdefx"]), word_tokenizer([*"ybdfa"])
    sizes = width_of(target), width_of(draft)

    def rule(size):
        rows = {}
        return table(lambda h: rows.setdefault(h, rng.dirichlet(np.ones(size))), size)

    models = [ScriptedModel(rule(size), size) for size in sizes]
    return Pair.from_models(models[0], target, models[1], draft, foreign_method="intersection")


@pytest.mark.parametrize("values", LAWS, ids=str)
def test_q_is_the_drafts_law_confined_to_what_both_have_and_in_the_targets_ids(values):
    pair = small_pair()
    drafter = drafter_of(pair, values)
    context = [0, 1, 5]  # a b f
    drafter.begin(context[:2], threading.Event())
    draft = drafter.propose(context, 1)
    names = {"a": (0, 4), "b": (1, 1), "d": (3, 2), "f": (5, 3), "<s>": (7, 5), "</s>": (8, 6)}
    history = tuple(names[n][1] for n in ("a", "b", "f"))
    logits = torch.full((1, 9), -torch.inf)
    for ours, theirs in names.values():
        logits[0, ours] = pair.draft.model.rule(history)[theirs]
    torch.testing.assert_close(draft.probs, probabilities(logits, values, context))
    assert draft.probs.shape == (1, 9)
    assert draft.probs[0, [2, 4, 6]].sum() == 0


def test_tokens_are_drawn_from_the_very_law_that_is_given():
    pair = small_pair()
    drafter, counts = drafter_of(pair, DecodeSettings(temperature=1.0), seed=5), np.zeros(9, dtype=int)
    drafter.begin([0], threading.Event())
    for _ in range(2000):
        draft = drafter.propose([0, 1], 1)
        counts[draft.tokens[0]] += 1
    assert chi_square(counts, draft.probs[0].double().numpy()) > ALPHA


def laws_of(pair, values, context):
    """p and q as functions of what has been drafted behind the context."""

    def p(prefix):
        logits = pair.target.forward([*context, *prefix], pair.target.new_cache(), keep=1)
        return probabilities(logits, values, [*context, *prefix])[0].double().numpy()

    def q(prefix):
        drafter = drafter_of(pair, values)
        drafter.begin(context[:1], threading.Event())
        return drafter.propose([*context, *prefix], 1).probs[0].double().numpy()

    return p, q


@pytest.mark.parametrize("method", ["rejection", "block", "match"])
@pytest.mark.parametrize("values", LAWS[:3], ids=str)
def test_the_law_of_what_is_emitted_is_the_targets_exactly(method, values):
    """By enumeration of every draft and every outcome, K = 1."""
    pair = small_pair(seed=1)
    p, q = laws_of(pair, values, [0, 3])
    emitted, _ = exact_law(p, q, 9, 1, method)
    wanted = first_token(target_law(p, 9, 2), 9)
    assert np.abs(first_token(emitted, 9) - wanted).max() < 1e-6


def test_the_drafts_raw_law_in_place_of_the_one_that_it_draws_from_would_give_another():
    """A1: the same enumeration, and a verifier that is told q at another temperature."""
    pair, values = small_pair(seed=1), DecodeSettings(temperature=0.4)
    p, q = laws_of(pair, values, [0, 3])
    raw = laws_of(pair, DecodeSettings(temperature=1.0), [0, 3])[1]
    emitted, _ = exact_law(p, q, 9, 1, "rejection", used_q=raw)
    assert np.abs(first_token(emitted, 9) - first_token(target_law(p, 9, 2), 9)).max() > 0.02


def emitted_first(pair, values, trials, told=None):
    """Counts of the token behind a fixed context, of the real drafter and the real verifier at K = 2."""
    context, generator = [0, 3], torch.Generator().manual_seed(11)
    drafter, counts = drafter_of(pair, values), np.zeros(9, dtype=int)
    drafter.generator = generator
    drafter.begin(context[:1], threading.Event())
    rows = {}
    for _ in range(trials):
        draft = drafter.propose(context, 2)
        key = tuple(draft.tokens)
        if key not in rows:
            logits = pair.target.forward([*context, *key], pair.target.new_cache(), keep=3)
            rows[key] = probabilities(logits, values, context, key)
        q = draft.probs if told is None else told(draft)
        v = verify_chain(rows[key], draft.tokens, q, generator=generator)
        counts[draft.tokens[0] if v.num_accepted else v.next_token] += 1
    return counts, probabilities(pair.target.forward(context, pair.target.new_cache(), keep=1), values, context)[0]


@pytest.mark.parametrize("values", LAWS, ids=str)
def test_what_is_emitted_cannot_be_told_from_the_target_alone(values):
    counts, p = emitted_first(small_pair(seed=2), values, 1000)
    assert chi_square(counts, p.double().numpy()) > ALPHA


@pytest.mark.parametrize("values", [SAMPLED, DecodeSettings(k=3, temperature=0.9, top_p=0.9, repetition_penalty=1.2)])
def test_re_encoded_proposals_keep_the_targets_law_under_sampling(values):
    """Deterministic, so each is verified as one that was sure: against the target's own law of the first token."""
    target, draft = byte_tokenizer(), merged_tokenizer(["ba"])
    rng = np.random.default_rng(3)
    rows, letters = {}, [*b"abcdef"]

    def law(history):
        return rows.setdefault(history, np.bincount(letters, rng.dirichlet(np.ones(6)), minlength=258))

    other = ScriptedModel(recites_text(draft, "adbacbac", width_of(draft)), width_of(draft))
    pair = Pair.from_models(ScriptedModel(table(law, 258), 258), target, other, draft, foreign_method="reencoding")
    context, generator = [*b"ad"], torch.Generator().manual_seed(7)
    drafter, counts, proposed = drafter_of(pair, values), np.zeros(258, dtype=int), 0
    drafter.begin(context[:1], threading.Event())
    drafted = drafter.propose(context, 2)
    p = probabilities(
        pair.target.forward([*context, *drafted.tokens], pair.target.new_cache(), keep=len(drafted.tokens) + 1),
        values, context, drafted.tokens,
    )  # fmt: skip
    for _ in range(2000):
        v = verify_chain(p, drafted.tokens, None, generator=generator)
        counts[drafted.tokens[0] if v.num_accepted else v.next_token] += 1
        proposed += v.num_accepted
    assert drafted.tokens == [*b"ba"]
    assert proposed > 0
    assert chi_square(counts, p[0].double().numpy()) > ALPHA


@pytest.mark.parametrize("method", ["intersection", "reencoding"])
def test_a_draft_that_returns_no_numbers_is_refused_in_words(method):
    pair = reciting(CUT, OTHERS["bytes"], TEXT, method)
    pair.draft.model.rule = lambda history: torch.full((width_of(OTHERS["bytes"]),), torch.nan)
    drafter = drafter_of(pair)
    drafter.begin([1], threading.Event())
    with pytest.raises(EngineError, match="NaN"):
        drafter.propose([1, 2], 2)
