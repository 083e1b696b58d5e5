"""Where the output ends: at the first end wherever it falls in a block, with text, ids, trace and counts agreeing."""

import itertools
import threading

import pytest
from helpers.models import ScriptedModel, one, pair_of, recites, wanders
from helpers.tokenizers import byte_tokenizer, word_tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st

import engine
from engine import DecodeSettings, Pair
from engine.ending import Ending
from engine.text import Detokenizer

WORDS = word_tokenizer([f"w{i}" for i in range(30)])
EOS = WORDS.eos_token_id
BYTES = byte_tokenizer()
BYTE_EOS = BYTES.eos_token_id
SIZE = 320
PLENTY = 10**6
DRAFTERS = ("none", "model", "prompt_lookup")


def ending(tokenizer=BYTES, stop=(), eos=frozenset({BYTE_EOS}), left=PLENTY):
    return Ending(Detokenizer(tokenizer), stop, eos, left)


def say(text):
    return list(text.encode())


# --- one block ---


def test_an_end_of_sequence_inside_an_accepted_block_ends_the_output_there():
    cut = ending().take([*say("a"), BYTE_EOS, *say("b"), *say("c")])
    assert (cut.ids, cut.texts, cut.finish_reason) == ((97, BYTE_EOS), ("a", ""), "eos")


def test_a_stop_before_the_length_is_a_stop_and_drops_what_follows():
    """[10, 11, STOP, 20, 21, 22] with 5 tokens left: three tokens, and the reason is the stop."""
    cut = ending(WORDS, stop=["w2"], left=5).take([10, 11, 2, 20, 21, 22])
    assert (cut.ids, cut.finish_reason) == ((10, 11, 2), "stop")
    assert "".join(cut.texts) == "w10 w11 "


def test_a_stop_behind_the_length_is_a_length():
    cut = ending(WORDS, stop=["w2"], left=5).take([10, 11, 12, 13, 14, 15, 2])
    assert (cut.ids, cut.finish_reason) == ((10, 11, 12, 13, 14), "length")


def test_a_stop_on_the_very_last_token_is_a_stop_and_an_end_of_sequence_there_is_an_end_of_sequence():
    assert ending(WORDS, stop=["w2"], left=2).take([10, 2]).finish_reason == "stop"
    assert ending(WORDS, eos=frozenset({EOS}), left=2).take([10, EOS]).finish_reason == "eos"


def test_a_stop_early_in_a_long_block_is_found():
    cut = ending(stop=["XY"]).take(say("aXYbcdefghij"))
    assert len(cut.ids) == 3
    assert ("".join(cut.texts), cut.finish_reason) == ("a", "stop")


def test_a_stop_over_two_blocks_is_found_and_its_first_half_was_never_shown():
    e = ending(stop=["STOP"])
    first = e.take(say("go ST"))
    assert ("".join(first.texts), first.finish_reason) == ("go ", None)
    second = e.take(say("OP on"))
    assert (bytes(second.ids), "".join(second.texts), second.finish_reason) == (b"OP", "", "stop")


def test_what_was_held_back_is_shown_when_the_output_ends_without_the_stop():
    for last, reason in ((BYTE_EOS, "eos"), (ord("!"), "length")):
        cut = ending(stop=["STOP"], left=5).take([*say("a ST"), last])
        assert "".join(cut.texts) == ("a ST" if reason == "eos" else "a ST!")
        assert cut.finish_reason == reason


def test_a_stop_string_may_be_a_part_of_a_token_or_a_character_of_several():
    assert "".join(ending(WORDS, stop=["1"]).take([10, 11]).texts) == "w"
    cut = ending(stop=["🙂"]).take(say("a🙂b"))
    assert (len(cut.ids), "".join(cut.texts), cut.finish_reason) == (5, "a", "stop")


def test_the_end_of_sequence_counts_before_a_stop_string_that_is_still_forming():
    cut = ending(stop=["STOP"]).take([*say("STO"), BYTE_EOS, *say("P")])
    assert ("".join(cut.texts), cut.finish_reason) == ("STO", "eos")


def test_a_token_that_is_an_end_of_sequence_and_completes_a_stop_ends_as_the_former_without_the_stops_text():
    cut = ending(WORDS, stop=["w2"], eos=frozenset({2})).take([10, 2, 11])
    assert (cut.ids, "".join(cut.texts), cut.finish_reason) == ((10, 2), "w10 ", "eos")


def test_with_no_end_of_sequence_known_the_length_ends_the_output():
    cut = ending(eos=frozenset(), left=3).take([BYTE_EOS] * 4)
    assert (cut.ids, cut.finish_reason) == ((BYTE_EOS,) * 3, "length")


@given(
    ids=st.lists(st.integers(97, 102) | st.just(BYTE_EOS), min_size=1, max_size=20),
    sizes=st.lists(st.integers(1, 6), min_size=20, max_size=20),
    stop=st.lists(st.text("abcdef", min_size=1, max_size=3), max_size=2),
    left=st.integers(1, 25),
)
@settings(max_examples=300, deadline=None)
def test_blocks_of_any_size_end_like_tokens_one_by_one(ids, sizes, stop, left):
    def run(blocks):
        e, out, texts = ending(stop=stop, left=left), [], []
        for block in blocks:
            cut = e.take(block)
            out += cut.ids
            texts += cut.texts
            if cut.finish_reason:
                return out, texts, cut.finish_reason
        return out, texts, None

    blocks, at = [], 0
    for size in sizes:
        blocks.append(ids[at : at + size])
        at += size
    by_block, by_token = run([b for b in blocks if b]), run([[i] for i in ids])
    assert by_block == by_token
    # And by the definition: the first prefix that ends, and why.
    for n in range(1, len(ids) + 1):
        text = bytes(i for i in ids[:n] if i != BYTE_EOS).decode()
        found = [text.find(s) for s in stop if s in text]
        reason = "eos" if ids[n - 1] == BYTE_EOS else "stop" if found else "length" if n == left else None
        if reason:
            assert by_token == (ids[:n], by_token[1], reason)
            assert "".join(by_token[1]) == (text[: min(found)] if reason == "stop" else text)
            return
    assert by_token[2] is None


# --- a whole run ---


def scripted(script, prompt=3, tokenizer=WORDS, draft=None, eos=None, generation_eos=None, size=SIZE):
    """A pair whose target recites `script`, and whose draft says the same or something else."""
    rule = recites(script, prompt, size)
    return Pair.from_models(
        target=ScriptedModel(rule, size, eos=eos, generation_eos=generation_eos),
        tokenizer=tokenizer,
        draft=ScriptedModel(draft or rule, size),
    )


def agree(gen, tokenizer, stop=False):
    """Text, ids, trace rows and counts are four views of one output."""
    steps = gen.trace.steps
    assert gen.token_ids == [t for s in steps for t in s.emitted] == gen.trace.token_ids
    assert [t.token_id for s in steps for t in s.tokens] == gen.token_ids
    assert gen.stats.output_tokens == len(gen.token_ids)
    assert all(len(s.texts) == len(s.emitted) == len(s.tokens) for s in steps)
    assert gen.text == gen.trace.text == "".join(t for s in steps for t in s.texts)
    assert gen.finish_reason == gen.trace.finish_reason
    for s in steps:
        accepted = [p.token.token_id for p in s.proposals if p.accepted]
        replacement = [s.replacement.token.token_id] if s.replacement else []
        assert [*accepted, *replacement] == list(s.emitted)
    whole = tokenizer.decode(gen.token_ids, skip_special_tokens=True)
    assert whole.startswith(gen.text) if stop else whole == gen.text


@pytest.mark.parametrize("verifier", engine.VERIFIERS)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_an_end_of_sequence_among_accepted_drafts_emits_nothing_behind_it_and_draws_no_bonus(verifier, temperature):
    """The first step emits 5; then [6, EOS, 8, 9] is drafted and agrees with the target throughout."""
    pair = scripted([5, 6, EOS, 8, 9, 10, 11])
    gen = engine.generate(
        pair, [1, 2, 3], DecodeSettings(k=4, temperature=temperature, seed=1), drafter="model", verifier=verifier
    )
    assert gen.token_ids == [5, 6, EOS]
    assert (gen.text, gen.finish_reason) == ("w5 w6", "eos")
    last = gen.trace.steps[-1]
    assert [p.status for p in last.proposals] == ["accepted", "accepted", "ignored", "ignored"]
    assert [p.token.token_id for p in last.proposals] == [6, EOS, 8, 9]
    assert last.replacement is None
    agree(gen, WORDS)
    assert (gen.stats.proposed, gen.stats.accepted, gen.stats.ignored, gen.stats.bonus) == (4, 2, 2, 0)


def test_when_the_last_accepted_draft_is_the_end_of_sequence_no_bonus_follows():
    pair = scripted([5, 6, 7, EOS, 9, 9])
    gen = engine.generate(pair, [1, 2, 3], DecodeSettings(k=3), drafter="model")
    assert gen.token_ids == [5, 6, 7, EOS]
    last = gen.trace.steps[-1]
    assert [p.status for p in last.proposals] == ["accepted"] * 3
    assert last.replacement is None
    agree(gen, WORDS)


@pytest.mark.parametrize("at", range(8))
def test_an_end_of_sequence_is_found_at_every_offset_of_a_block(at):
    script = [5 + i for i in range(12)]
    script[at] = EOS
    for drafter in DRAFTERS:
        gen = engine.generate(scripted(script), [1, 2, 3], DecodeSettings(k=5), drafter=drafter)
        assert gen.token_ids == script[: at + 1]
        assert gen.finish_reason == "eos"
        agree(gen, WORDS)


@pytest.mark.parametrize(("drafter", "verifier"), list(itertools.product(DRAFTERS, engine.VERIFIERS)))
@pytest.mark.parametrize("k", [1, 3, 12])
def test_every_drafter_and_rule_stops_at_the_same_string(drafter, verifier, k):
    text = "one two one two one two STOP three one two"
    for wrong in (False, True):
        script = say(text)
        rule = recites(script, 1, SIZE)

        def off(history, rule=rule):  # a draft that is wrong at every third token
            return one(7, SIZE) if len(history) % 3 == 0 else rule(history)

        pair = scripted(script, 1, BYTES, draft=off if wrong else None)
        gen = engine.generate(
            pair,
            [1],
            DecodeSettings(k=k, max_new_tokens=60, stop=("STOP", "never")),
            drafter=drafter,
            verifier=verifier,
        )
        assert gen.text == "one two one two one two "
        assert bytes(gen.token_ids) == b"one two one two one two STOP"
        assert gen.finish_reason == "stop"
        agree(gen, BYTES, stop=True)


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_a_stop_string_is_never_shown_in_part_while_it_streams(drafter):
    pair = scripted(say("abST abSTOP x"), 1, BYTES)
    shown = ""
    for step in engine.stream(pair, [1], DecodeSettings(k=3, stop="STOP"), drafter=drafter):
        shown += step.text
        assert "abST abSTOP".startswith(shown)
        assert shown in "abST ab"
    assert shown == "abST ab"


def test_special_tokens_are_in_the_trace_and_not_in_the_text():
    start = WORDS.bos_token_id
    pair = scripted([5, start, 6, EOS])
    gen = engine.generate(pair, [1, 2, 3], DecodeSettings(), drafter="model")
    assert gen.text == "w5 w6"
    tokens = [t for s in gen.trace.steps for t in s.tokens]
    assert [(t.text, t.special) for t in tokens] == [("w5", False), ("<s>", True), ("w6", False), ("</s>", True)]


def test_a_stop_string_written_like_a_special_token_does_not_fire_on_the_silent_token():
    """The text never holds it; the token itself ends the output by its id when it is an end of sequence."""
    start = WORDS.bos_token_id
    gen = engine.generate(scripted([5, start, 6, EOS]), [1, 2, 3], DecodeSettings(stop="<s>"))
    assert (gen.token_ids, gen.finish_reason) == ([5, start, 6, EOS], "eos")
    gen = engine.generate(scripted([5, start, 6], generation_eos=start), [1, 2, 3], DecodeSettings())
    assert (gen.token_ids, gen.finish_reason) == ([5, start], "eos")


def test_past_the_end_of_sequence_when_told_to_ignore_it():
    pair = scripted([5, EOS, 6, EOS, 7])
    gen = engine.generate(pair, [1, 2, 3], DecodeSettings(max_new_tokens=5, ignore_eos=True), drafter="model")
    assert gen.token_ids == [5, EOS, 6, EOS, 7]
    assert (gen.text, gen.finish_reason) == ("w5 w6 w7", "length")
    agree(gen, WORDS)


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_characters_in_pieces_stream_whole_through_a_run(drafter):
    text = "ğ ş İ ı 👨‍👩‍👧 客单价 ğ ş İ ı 👨‍👩‍👧"
    script = say(text)
    pair = scripted([*script, BYTE_EOS], 1, BYTES)
    run = engine.stream(pair, [1], DecodeSettings(k=4), drafter=drafter)
    shown = ""
    for step in run:
        assert "\N{REPLACEMENT CHARACTER}" not in step.text
        shown += step.text
        assert text.startswith(shown)
    gen = run.generation
    assert shown == gen.text == text
    agree(gen, BYTES)
    assert [t.bytes for s in gen.trace.steps for t in s.tokens][:2] == ["C4", "9F"]


def test_a_run_that_ends_in_the_middle_of_a_character_says_so_and_still_agrees_with_its_ids():
    gen = engine.generate(scripted(say("ağ"), 1, BYTES), [1], DecodeSettings(max_new_tokens=2))
    assert bytes(gen.token_ids) == b"a\xc4"
    assert gen.text == "a\N{REPLACEMENT CHARACTER}"
    agree(gen, BYTES)


@pytest.mark.parametrize(("stop", "script"), [("STOP", "abcST"), ("", "abcğ")], ids=["held stop", "half character"])
def test_a_cancelled_run_has_the_text_of_all_its_ids(stop, script):
    cancel = threading.Event()
    pair = scripted(say(script), 1, BYTES)
    run = engine.stream(pair, [1], DecodeSettings(stop=stop or ()), cancel=cancel)
    for _ in range(4 if not stop else 5):
        next(run)
    cancel.set()
    assert list(run) == []
    gen = run.generation
    assert gen.finish_reason == "cancelled"
    agree(gen, BYTES)


@given(
    script=st.lists(st.integers(97, 100) | st.just(BYTE_EOS), min_size=30, max_size=30),
    drafted=st.lists(st.integers(97, 100) | st.just(BYTE_EOS), min_size=30, max_size=30),
    k=st.integers(0, 6),
    most=st.integers(0, 25),
    stop=st.lists(st.text("abcd", min_size=1, max_size=3), max_size=2),
    drafter=st.sampled_from(DRAFTERS),
    verifier=st.sampled_from(engine.VERIFIERS),
)
@settings(max_examples=120, deadline=None)
def test_speculation_ends_like_plain_decoding_whatever_is_drafted(script, drafted, k, most, stop, drafter, verifier):
    def run(drafter):
        pair = scripted(script, 2, BYTES, draft=recites(drafted, 2, SIZE))
        values = DecodeSettings(k=k, max_new_tokens=most, stop=tuple(stop))
        return engine.generate(pair, [97, 98], values, drafter=drafter, verifier=verifier)

    plain, fast = run("none"), run(drafter)
    assert (fast.token_ids, fast.text, fast.finish_reason) == (plain.token_ids, plain.text, plain.finish_reason)
    assert len(fast.token_ids) <= most
    agree(fast, BYTES, stop=True)


# --- which tokens are an end ---


@pytest.mark.parametrize("end", [7, 9])
def test_any_id_of_a_list_of_ends_stops(end):
    for holder in (
        {"eos": [7, 9]},
        {"generation_eos": [7, 9]},
        {"eos": 7, "generation_eos": 9},
        {"eos": 9, "generation_eos": [7]},
    ):
        pair = scripted([5, 6, end, 8], **holder)
        for drafter in DRAFTERS:
            gen = engine.generate(pair, [1, 2, 3], DecodeSettings(k=4), drafter=drafter)
            assert (gen.token_ids, gen.finish_reason) == ([5, 6, end], "eos")


def test_an_end_in_the_models_files_and_another_in_the_tokenizer_both_stop():
    """A GGUF file whose metadata say 9 and a tokenizer that says </s>."""
    for end in (9, EOS):
        gen = engine.generate(scripted([5, end, 6], eos=9), [1, 2, 3], DecodeSettings(), drafter="model")
        assert gen.token_ids == [5, end]


def test_with_no_end_anywhere_prompt_lookup_runs_to_the_length():
    """No EOS configured, and an n-gram that matches at once: [7, 8] was followed by 9."""
    pair = pair_of(wanders(16), 16)
    assert pair.eos_ids == frozenset()
    gen = engine.generate(
        pair, [5, 6, 7, 8, 9, 10, 11, 7, 8], DecodeSettings(max_new_tokens=20), drafter="prompt_lookup"
    )
    assert (len(gen.token_ids), gen.finish_reason) == (20, "length")
