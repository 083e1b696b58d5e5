"""The suffix automaton answers as a scan of the whole text would, however the text repeats itself."""

import random
import time

import pytest

from engine.drafters.automaton import MOST_FOLLOWERS, ROOT, UPDATED_LINKS, Automaton, Match


def earlier_ends(text, suffix):
    """Where `suffix` ends in `text`, by looking everywhere but at the text's own end."""
    n = len(suffix)
    return [i + n - 1 for i in range(len(text) - n) if text[i : i + n] == suffix]


def scan(text, length):
    """token -> how often, and where last, it followed the text's last `length` tokens."""
    found = {}
    for end in earlier_ends(text, text[len(text) - length :]):
        count, _ = found.get(text[end + 1], (0, 0))
        found[text[end + 1]] = count + 1, end + 1
    return found


def longest_by_scan(text):
    return max((n for n in range(1, len(text)) if earlier_ends(text, text[-n:])), default=0)


def matches(automaton):
    """length -> the match of the text's suffix of that length, for all that occurred before."""
    match, by_length = automaton.longest(), {}
    for length in range(match.length, 0, -1):
        while automaton.shorter(match).length >= length:
            match = automaton.shorter(match)
        by_length[length] = match
    return by_length


def answers(automaton, match):
    return {token: (count, at) for token, count, at, _ in automaton.followers(match)}


def texts(seed, count, longest):
    rng = random.Random(seed)
    for _ in range(count):
        letters = rng.randint(1, 5)
        yield [rng.randrange(letters) for _ in range(rng.randint(1, longest))]


def test_every_suffix_of_every_beginning_of_random_texts_is_answered_as_a_scan_would():
    for text in texts(1, 60, 45):
        automaton = Automaton()
        for size in range(1, len(text) + 1):
            automaton.extend(text[size - 1 : size])
            read = text[:size]
            assert len(automaton) == size
            by_length = matches(automaton)
            assert max(by_length, default=0) == longest_by_scan(read)
            for length, match in by_length.items():
                assert answers(automaton, match) == scan(read, length)


def test_long_random_texts_are_answered_as_a_scan_would():
    for text in texts(2, 12, 1500):
        if len(set(text)) > 1:  # one letter over and over is a text of its own, below
            automaton = Automaton(text)
            for length, match in matches(automaton).items():
                assert answers(automaton, match) == scan(text, length)


def test_a_text_is_not_matched_with_itself():
    for text in ([], [3], [1, 2, 3, 4]):
        assert Automaton(text).longest() == Match(ROOT, 0)
    # Overlapping is another place, though.
    assert Automaton([7, 7, 7]).longest().length == 2


def test_reading_in_pieces_is_reading_at_once():
    for text in texts(3, 30, 60):
        pieces, rest = Automaton(), list(text)
        while rest:
            pieces.extend(rest[:7])
            rest = rest[7:]
        whole = Automaton(text)
        assert pieces.longest() == whole.longest()
        assert [answers(pieces, m) for m in matches(pieces).values()] == [
            answers(whole, m) for m in matches(whole).values()
        ]


def test_following_another_text_finds_its_longest_suffix_that_is_in_this_one():
    rng = random.Random(4)
    for text in texts(4, 40, 60):
        automaton, match, other = Automaton(text), Match(ROOT, 0), []
        for _ in range(60):
            other.append(rng.randrange(6))  # one that no text holds among them
            match = automaton.step(match, other[-1])
            inside = [n for n in range(1, len(other) + 1) if earlier_ends([*text, -9], other[-n:])]
            assert match.length == max(inside, default=0)
            if match.length:
                expected = {}
                for end in earlier_ends(text, other[-match.length :]):
                    expected[text[end + 1]] = expected.get(text[end + 1], 0) + 1
                assert {token: count for token, count, *_ in automaton.followers(match)} == expected


def test_what_stands_only_at_the_end_of_the_text_is_known_to():
    automaton = Automaton([1, 2, 3, 1, 2])
    match = Match(ROOT, 0)
    for token, ends in ((3, False), (1, False), (2, True)):
        match = automaton.step(match, token)
        assert automaton.ends(match) is ends  # 3; 3 1; 3 1 2
    assert not automaton.ends(automaton.longest())  # 1 2 stands at the beginning too


@pytest.mark.parametrize("period", [1, 2, 3])
def test_behind_the_links_that_are_kept_up_counts_are_too_low_and_places_real(period):
    text = [i % period for i in range(5 * UPDATED_LINKS * period)]
    automaton = Automaton(text)
    by_length = matches(automaton)
    assert max(by_length) == len(text) - period
    for length, match in by_length.items():
        found, true = answers(automaton, match), scan(text, length)
        assert found.keys() == true.keys()
        for token, (count, at) in found.items():
            assert 1 <= count <= true[token][0]
            assert text[at] == token
            assert text[at - length : at] == text[len(text) - length :]
        if length > len(text) - UPDATED_LINKS * period:
            assert found == true


def test_of_very_many_followers_those_seen_first_are_given():
    many = 3 * MOST_FOLLOWERS
    text = [x for i in range(many) for x in (0, i + 1)] + [0]
    automaton = Automaton(text)
    followers = automaton.followers(automaton.longest())
    assert [token for token, *_ in followers] == list(range(1, MOST_FOLLOWERS + 1))


def test_there_are_at_most_two_states_a_token():
    for text in (*texts(5, 30, 300), [1] * 1000, [1, 2] * 500, list(range(1000))):
        assert Automaton(text).states <= max(2 * len(text), 2)


@pytest.mark.parametrize(
    "make",
    [
        lambda n: [7] * n,
        lambda n: [1, 2] * (n // 2),
        lambda n: [*range(n // 2)] * 2,
        lambda n: random.Random(0).choices(range(9), k=n),
    ],
    ids=["aaaa", "abab", "said twice", "nine letters"],
)
def test_time_grows_with_the_text_and_no_faster(make):
    def seconds(n):
        text, started = make(n), time.thread_time()
        Automaton(text)
        return time.thread_time() - started

    seconds(2_000)
    small, large = min(seconds(10_000) for _ in range(3)), seconds(100_000)
    assert large < 40 * small  # ten times the text; a scan would take a hundred times as long
    assert large < 10
