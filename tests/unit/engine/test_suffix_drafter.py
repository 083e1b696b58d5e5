"""Suffix drafting: which match wins, how far the draft goes, what it says of itself, and whose words it may use."""

import random
import threading
import time

import pytest
import torch
from scipy.stats import binomtest

import engine
from engine.drafters.base import Draft, Outcome
from engine.drafters.prompt_lookup import PromptLookupDrafter
from engine.drafters.suffix import FARTHEST, LEARNING_RATE, TRUST, WINDOW, SuffixDrafter
from engine.memory import OutputMemory

A, B, C, D, X, Y = range(6)
WHOLE = 1e-9  # a floor that ends no draft


def propose(context, k=5, **options):
    drafter = SuffixDrafter(**options)
    drafter.begin(context, threading.Event())
    return drafter.propose(context, k)


def trusted(length):
    """The trust in what followed one earlier occurrence, alone."""
    return length / (length + 2.4)


def path(draft, i):
    """The tokens from the context to the draft's i-th."""
    tokens = []
    while i >= 0:
        tokens.append(draft.tokens[i])
        i = draft.parent(i)
    return tokens[::-1]


def random_texts(seed, count, longest=80):
    rng = random.Random(seed)
    for _ in range(count):
        yield rng.choices(range(rng.randint(1, 6)), k=rng.randint(1, longest))


# --- which match wins ---


@pytest.mark.parametrize("context", [[], [4], [1, 2, 3, 4, 5, 6], [3, 4], [0]])
@pytest.mark.parametrize("nodes", [0, 8])
def test_without_a_match_nothing_is_proposed_and_the_reason_is_said(context, nodes):
    draft = propose(context, nodes=nodes)
    assert draft.tokens == []
    assert draft.note == "no match"
    assert draft.probs is None


def test_the_longest_suffix_wins_over_a_more_recent_shorter_one():
    # "b c" was followed by 8 last; "a b c", longer, by 7.
    draft = propose([A, B, C, 7, X, B, C, 8, Y, A, B, C], k=1)
    assert draft.tokens == [7]


def test_of_equal_occurrences_the_most_recent_wins():
    # Known fault E2: "a b c x a b d y a b".
    draft = propose([A, B, C, X, A, B, D, Y, A, B], k=1)
    assert draft.tokens == [D]
    assert draft.confidence == pytest.approx((0.5 * trusted(2),))  # followed twice, by two different tokens


def test_what_followed_more_often_wins_over_what_followed_last():
    draft = propose([A, B, C, X, A, B, C, Y, A, B, D, 9, A, B], k=1)
    assert draft.tokens == [C]


def test_prompt_and_output_are_searched_alike_as_they_grow():
    drafter = SuffixDrafter(floor=WHOLE)
    drafter.begin([1, 2, 3], threading.Event())
    assert drafter.propose([1, 2, 3, 4], 3).tokens == []
    assert drafter.propose([1, 2, 3, 4, 9, 3], 2).tokens == [4, 9]  # from the prompt into the output
    assert drafter.propose([1, 2, 3, 4, 9, 3, 8, 9], 1).tokens == [3]  # from the output alone


def test_a_prompt_read_in_pieces_drafts_what_one_read_at_once_does():
    for text in random_texts(1, 40):
        pieces = SuffixDrafter(nodes=6)
        for end in range(0, len(text) + 1, 5):
            pieces.begin(text[:end], threading.Event())
        pieces.begin(text, threading.Event())
        assert pieces.propose(text, 4) == propose(text, 4, nodes=6)


def test_a_reading_that_was_cancelled_is_made_good_by_the_next_proposal():
    cancel = threading.Event()
    cancel.set()
    text = [A, B, C, X, A, B]
    drafter = SuffixDrafter()
    drafter.begin(text, cancel)
    assert drafter.propose(text, 3) == propose(text, 3)


def test_a_prompt_of_no_end_token_drafts_what_followed():
    # Known fault D10. By arithmetic: 7 8 | 9, one occurrence of length 2, then 3, 4, 5; at 6 the whole path has 0.076.
    draft = propose([5, 6, 7, 8, 9, 10, 11, 7, 8], k=16)
    assert draft.tokens == [9, 10, 11, 7]
    assert draft.confidence == pytest.approx([trusted(n) for n in (2, 3, 4, 5)])
    assert draft.note == "what followed the match is too unlikely to go on"


# --- how far it goes ---


def test_a_longer_match_drafts_further_and_never_deeper_than_k():
    lengths = []
    for n in (1, 2, 3, 4, 8, 16):
        passage = list(range(100, 140))
        context = [*passage, 7, *passage[:n]]
        lengths.append(len(propose(context, 20).tokens))
        assert len(propose(context, 3).tokens) <= 3
    assert lengths == sorted(lengths)
    assert lengths[0] < 4
    assert lengths[-1] == 20
    assert propose([*range(100, 140), 7, *range(100, 116)], 20).note is None


@pytest.mark.parametrize("period", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("times", [2, 3, 9])
def test_a_text_that_repeats_itself_is_gone_on_with_through_the_drafts_own_tokens(period, times):
    for cut in range(period):
        context = list(range(10, 10 + period)) * times + list(range(10, 10 + cut))
        if times == 2 and cut == 0 and period == 1:
            continue  # prompt lookup wants two tokens
        draft = propose(context, 16, floor=WHOLE)
        assert draft.tokens == PromptLookupDrafter().propose(context, 16).tokens
        assert draft.tokens == [10 + (len(context) + i) % period for i in range(16)]


def test_the_longer_the_repetition_goes_on_the_surer_it_is():
    draft = propose([1, 2, 3, 1, 2], 9, floor=WHOLE)
    assert draft.tokens == [3, 1, 2] * 3
    # Behind the draft's first token the match is 3 long, then 4, and so on: its own tokens count.
    assert all(chance >= trusted(n) for n, chance in enumerate(draft.confidence, start=2))


def test_each_branch_of_a_tree_goes_on_through_its_own_tokens():
    # "a b" was followed by "d y a b" last and by "c x a b" before that: behind either, the text ends at "a b".
    draft = propose([A, B, C, X, A, B, D, Y, A, B], k=6, nodes=60, floor=WHOLE)
    found = {tuple(path(draft, i)) for i in range(len(draft.tokens))}
    assert (D, Y, A, B, D, Y) in found
    assert (C, X, A, B) in found


# --- trees ---


@pytest.mark.parametrize("nodes", [1, 3, 8, 32])
def test_a_tree_has_parents_first_different_siblings_no_more_than_its_nodes_and_no_more_depth_than_k(nodes):
    for text in random_texts(2, 60):
        for k in (1, 2, 5):
            draft = propose(text, k, nodes=nodes, floor=0.001)
            if not draft.tokens:
                continue
            n = len(draft.tokens)
            assert n == len(draft.parents) == len(draft.confidence) == len(draft.sources)
            assert n <= nodes
            assert all(-1 <= draft.parents[i] < i for i in range(n))
            assert len({(draft.parents[i], draft.tokens[i]) for i in range(n)}) == n
            assert max(len(path(draft, i)) for i in range(n)) <= k
            assert draft.probs is None
            for parent in {*draft.parents}:
                assert sum(c for c, p in zip(draft.confidence, draft.parents, strict=True) if p == parent) < 1


def test_a_trees_tokens_are_the_likeliest_first():
    for text in random_texts(3, 60):
        draft = propose(text, 5, nodes=12, floor=0.001)
        chances = []
        for i, own in enumerate(draft.confidence or ()):
            chances.append(own * (chances[draft.parents[i]] if draft.parents[i] >= 0 else 1.0))
        assert chances == sorted(chances, reverse=True)


def test_branches_come_from_the_followers_of_the_longest_match_and_of_shorter_ones():
    # "a b" went on with c and d, "b" alone with 9 too.
    draft = propose([A, B, C, X, A, B, D, Y, X, B, 9, Y, A, B], k=1, nodes=8)
    assert sorted(draft.tokens) == [C, D, 9]
    by_token = dict(zip(draft.tokens, draft.confidence, strict=True))
    both = 0.5 * trusted(2)
    shorter = (1 - trusted(2)) * trusted(1) / 3  # one of three occurrences of length 1
    assert by_token == pytest.approx({C: both + shorter, D: both + shorter, 9: shorter})


def test_a_chain_is_a_chain_and_a_tree_of_its_size_begins_alike():
    for text in random_texts(4, 60):
        chain, tree = propose(text, 4, floor=0.001), propose(text, 4, nodes=4, floor=0.001)
        assert chain.parents is None
        assert chain.tokens[:1] == tree.tokens[:1]
        assert chain.confidence[:1] == tree.confidence[:1] if chain.tokens else not tree.tokens


# --- what it says of itself ---


def test_q_is_one_hot_so_the_output_law_is_the_targets():
    # Known fault A2: a looked-up token with a soft q. p = [.5, .5], always token 0: emitted [.5, .5], not [.556, .444].
    draft = propose([0, 1, 0, 1, 0, 1], k=1)
    assert draft.tokens == [0]
    assert draft.probs is None
    generator, p, trials = torch.Generator().manual_seed(0), torch.full((2, 2), 0.5), 2000
    zeros = 0
    for _ in range(trials):
        v = engine.verify_chain(p, torch.tensor(draft.tokens), draft.probs, method="rejection", generator=generator)
        zeros += v.num_accepted == 1 or v.next_token == 0
    assert binomtest(zeros, trials, 0.5).pvalue > 1e-4
    assert binomtest(round(0.556 * trials), trials, 0.5).pvalue < 1e-4  # the fault would be seen


def test_it_is_surer_of_longer_matches_of_more_occurrences_and_of_fewer_kinds():
    passage = list(range(100, 120))
    one = [propose([*passage, 7, *passage[:n]], 1).confidence[0] for n in (1, 2, 3, 4, 8, 16)]
    assert one == pytest.approx([trusted(n) for n in (1, 2, 3, 4, 8, 16)])
    thrice = propose([A, B, C, 11, A, B, C, 12, A, B, C, 13, A, B], 1).confidence[0]
    assert thrice == pytest.approx(2 * 3**1.5 / (2 * 3**1.5 + 2.4))
    assert thrice > one[1] > propose([A, B, C, 11, A, B, D, 12, A, B], 1).confidence[0]


def test_every_token_is_said_to_come_from_suffix():
    draft = propose([1, 2, 3] * 3, 4)
    assert set(draft.sources) == {"suffix"}


def outcome(draft, path, context_length=9):
    return Outcome(context_length, path, draft, 0, torch.empty(0))


def test_within_a_run_trust_follows_what_is_accepted():
    draft = propose([5, 6, 7, 8, 9, 10, 11, 7, 8], 2)
    first, second = draft.confidence
    for taken, surprise in (((), -first), ((0,), 1 - first - second), ((0, 1), 2 - first - second)):
        drafter = SuffixDrafter()
        drafter.observe(outcome(draft, taken))
        assert torch.log(torch.tensor(TRUST / drafter.trust)).item() == pytest.approx(
            LEARNING_RATE * surprise, abs=1e-6
        )


def test_of_a_tree_what_counts_is_whether_any_child_was_right():
    tree = Draft([1, 2], parents=(-1, -1), confidence=(0.5, 0.3), sources=("suffix", "suffix"))
    for taken, sign in (((1,), 1), ((0,), 1), ((), -1)):
        drafter = SuffixDrafter()
        drafter.observe(outcome(tree, taken))
        assert (drafter.trust < TRUST) == (sign > 0)


def test_trust_stays_within_bounds_and_is_not_moved_by_others_tokens_or_by_steps_without_a_draft():
    mine = Draft([1], confidence=(0.5,), sources=("suffix",))
    for taken, bound in (((0,), TRUST / FARTHEST), ((), TRUST * FARTHEST)):
        drafter = SuffixDrafter()
        for _ in range(500):
            drafter.observe(outcome(mine, taken))
        assert drafter.trust == pytest.approx(bound)
    for draft in (
        Draft(),
        Draft([1]),
        Draft([1], confidence=(0.5,)),
        Draft([1], confidence=(0.5,), sources=("eagle",)),
    ):
        drafter = SuffixDrafter()
        drafter.observe(outcome(draft, ()))
        assert drafter.trust == TRUST


def test_anothers_right_guess_beside_its_own_counts_as_its_own_being_wrong():
    mixed = Draft([1, 2], parents=(-1, -1), confidence=(0.5, 0.3), sources=("suffix", "eagle"))
    drafter = SuffixDrafter()
    drafter.observe(outcome(mixed, (1,)))
    assert drafter.trust > TRUST


def test_one_runs_trust_is_not_anothers():
    draft = propose([1, 2, 3] * 3, 4)
    SuffixDrafter().observe(outcome(draft, ()))
    assert SuffixDrafter().trust == TRUST


# --- hostile and very long texts ---


@pytest.mark.parametrize("odd", [100, 101, 2**40, -1, -7])
@pytest.mark.parametrize("nodes", [0, 8])
def test_ids_that_the_target_cannot_say_are_read_and_never_proposed(odd, nodes):
    draft = propose([1, 2, odd, 4, 5, 1, 2], k=4, vocab_size=100, nodes=nodes)
    assert draft.tokens == []
    assert draft.note == "the match goes on with an id past the vocabulary"
    within = propose([1, 2, 3, odd, 4, 5, 1, 2], k=4, vocab_size=100, nodes=nodes)
    assert within.tokens == [3]
    assert within.note == "the match goes on with an id past the vocabulary"
    assert propose([1, 2, 3, odd, 5, 3, odd], k=1, vocab_size=100, nodes=nodes).tokens == [5]  # but matched


def test_the_last_id_of_the_vocabulary_may_be_proposed():
    assert propose([1, 2, 99, 4, 1, 2], k=1, vocab_size=100).tokens == [99]


@pytest.mark.parametrize(
    "text",
    [[7] * 20_000, [1, 2] * 50_000, random.Random(0).choices(range(4), k=100_000), list(range(50_000)) * 2],
    ids=["aaaa", "abab", "four letters", "a book twice"],
)
def test_very_long_and_very_repetitive_texts_stay_fast(text):
    started = time.thread_time()
    drafter = SuffixDrafter(nodes=16)
    drafter.begin(text, threading.Event())
    assert time.thread_time() - started < 10
    context = list(text)
    started = time.thread_time()
    for _ in range(50):
        draft = drafter.propose(context, 16)
        context += draft.tokens[:3]
        assert draft.tokens
    assert time.thread_time() - started < 50 * 0.02  # measured: under a millisecond each


# --- earlier outputs ---


def remembering(*outputs, tenant="ada"):
    memory = OutputMemory()
    for ids in outputs:
        memory.add(tenant, ids)
    return memory


def test_an_earlier_output_of_the_tenant_is_drafted_from():
    memory = remembering([1, 2, 3, 4, 5])
    assert propose([9, 8, 2, 3], 2, memory=memory, tenant="ada", floor=WHOLE).tokens == [4, 5]
    assert propose([9, 8, 2, 3], 2, memory=memory, tenant="alan").note == "no match"
    assert propose([9, 8, 2, 3], 2).note == "no match"


def test_the_longer_match_wins_and_on_a_tie_the_runs_own_text():
    memory = remembering([1, 2, 3, 40])
    options = {"k": 1, "memory": memory, "tenant": "ada"}
    assert propose([2, 3, 50, 1, 2, 3], **options).tokens == [40]  # 1 2 3 there, 2 3 here
    assert propose([2, 3, 50, 9, 2, 3], **options).tokens == [50]  # 2 3 in both
    assert propose([9, 2, 3, 50, 9, 2, 3], **options).tokens == [50]


def test_a_match_in_an_earlier_output_is_followed_as_the_run_goes_on():
    drafter = SuffixDrafter(memory=remembering(list(range(100, 160))), tenant="ada")
    drafter.begin([1, 100], threading.Event())
    context = [1, 100]
    lengths = []
    for token in range(101, 110):
        context.append(token)
        draft = drafter.propose(context, 8)
        assert draft.tokens == list(range(token + 1, token + 1 + len(draft.tokens)))
        lengths.append(len(draft.tokens))
    assert lengths == sorted(lengths)
    context.append(5)  # it leaves the passage, and comes back to it
    assert drafter.propose(context, 8).note == "no match"
    assert drafter.propose([*context, 120, 121], 1).tokens == [122]


def test_a_long_prompt_is_matched_by_its_end():
    memory = remembering(list(range(100, 160)))
    assert propose([*range(200, 5000), 130, 131, 132], 1, memory=memory, tenant="ada").tokens == [133]


def test_a_prompt_in_pieces_is_matched_by_its_end_alone():
    drafter = SuffixDrafter(memory=remembering(list(range(100, 500))), tenant="ada")
    drafter.begin(range(100, 111), threading.Event())
    prompt = [*range(100, 111), *[7] * 50, *range(111, 111 + WINDOW)]  # the two stretches do not meet
    drafter.begin(prompt, threading.Event())
    draft = drafter.propose(prompt, 1)
    assert draft.tokens == [111 + WINDOW]
    assert draft.confidence == pytest.approx((trusted(WINDOW),))


def test_a_run_sees_the_memory_as_it_stood_when_it_began_and_adds_nothing_to_it():
    memory = remembering([1, 2, 3])
    drafter = SuffixDrafter(memory=memory, tenant="ada")
    drafter.begin([7], threading.Event())
    memory.add("ada", [5, 6, 7])
    drafter.begin([7, 5], threading.Event())
    assert drafter.propose([7, 5, 6], 1).note == "no match"
    assert drafter.propose([7, 5, 6, 1, 2], 1).tokens == [3]
    assert memory.outputs("ada") == [(1, 2, 3), (5, 6, 7)]
    assert propose([9, 5, 6], 1, memory=memory, tenant="ada").tokens == [7]


def test_a_draft_ends_where_an_earlier_output_ended():
    draft = propose([9, 2, 3], 8, memory=remembering([1, 2, 3, 4], [5, 6, 7]), tenant="ada", floor=WHOLE)
    assert draft.tokens == [4]
    assert propose([9, 2, 3], 8, memory=remembering([1, 2, 3], [5, 6, 7]), tenant="ada", floor=WHOLE).tokens == []


def test_an_id_past_the_vocabulary_in_an_earlier_output_is_not_proposed():
    draft = propose([9, 2, 3], 8, memory=remembering([1, 2, 3, 4, 5]), tenant="ada", vocab_size=4)
    assert draft.tokens == []
