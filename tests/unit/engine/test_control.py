"""K control: each schedule by hand, decided before anything is drawn, and never more than was asked for."""

import numpy as np
import pytest
import torch
from helpers.laws import ALPHA, chi_square
from helpers.models import pair_of, table, tiny_llama
from hypothesis import given, settings
from hypothesis import strategies as st

import engine
from engine import DecodeSettings, EngineError
from engine.control import QUICKER, UNSURE, Confidence, Control, CostOptimal, Heuristic, make_control, part
from engine.costs import Costs
from engine.drafters.base import Draft, Outcome
from engine.drafters.sampled import Chain

FLAT = Costs(1, (1, 2, 4, 8), (1.0,) * 4, 0.2, 0.2)  # a step costs 1 however wide; each drafted level 0.2
pytestmark = pytest.mark.usefixtures("one_thread")


def outcome(draft, path):
    return Outcome(5, tuple(path), draft, 0, torch.zeros(len(draft.tokens) + 1, 2))


def chain(n, **more):
    return Draft(list(range(n)), **more)


def cost(costs=FLAT):
    control = CostOptimal(lambda rows: costs)
    control.prepare(1)
    return control


# --- fixed and heuristic ---


def test_fixed_k_asks_for_all_there_is_room_for_and_changes_nothing():
    control, draft = Control(), chain(4)
    assert [control.depth(n) for n in (1, 5, 64)] == [1, 5, 64]
    assert control.trim(draft) is draft
    assert not control.asks
    assert control.goes_on(0.0, 3)


def test_the_heuristic_asks_for_two_more_after_a_full_accept_and_one_less_after_a_rejection():
    control = Heuristic(10)
    asked = []
    for accepted in (5, 7, 0, 3, 8, 10, 10):
        asked.append(control.depth(64))
        control.observe(outcome(chain(asked[-1]), range(accepted)))
    assert asked == [5, 7, 9, 8, 7, 6, 5]  # 8 of 7, 10 of 6 never happen: what was cut off is no full accept
    control = Heuristic(8)
    for expected in (5, 7, 8, 8):
        assert control.depth(64) == expected
        control.observe(outcome(chain(expected), range(expected)))
    for expected in (8, 7, 6, 5, 4, 3, 2, 1, 1, 1):
        assert control.depth(64) == expected
        control.observe(outcome(chain(expected), ()))
    assert Heuristic(3).depth(64) == 3
    assert Heuristic(9).depth(2) == 2


def test_the_heuristic_goes_by_the_depth_of_a_tree_and_not_at_all_by_a_step_without_a_draft():
    control, draft = Heuristic(20), Draft([1, 2, 3, 4], parents=(-1, -1, 1, 2))  # three deep
    control.observe(outcome(Draft(), ()))
    assert control.depth(64) == 5
    control.observe(outcome(draft, (1, 2)))
    assert control.depth(64) == 4
    control.observe(outcome(draft, (1, 2, 3)))
    assert control.depth(64) == 6


# --- confidence ---


def test_confidence_stops_at_the_first_unsure_token_and_cuts_a_trees_unsure_branches():
    control = Confidence(0.5)
    assert control.asks
    assert (control.goes_on(0.5, 0), control.goes_on(0.49, 0)) == (True, False)
    assert control.trim(chain(4, confidence=(0.9, 0.6, 0.2, 0.9))).tokens == [0, 1]
    tree = Draft([5, 6, 7, 8], parents=(-1, -1, 0, 1), confidence=(0.7, 0.3, 0.6, 0.9), sources=("a", "b", "c", "d"))
    cut = control.trim(tree)
    assert (cut.tokens, cut.parents, cut.confidence, cut.sources) == ([5, 7], None, (0.7, 0.6), ("a", "c"))
    assert control.trim(chain(2, confidence=(0.1, 0.9))) == Draft(note=UNSURE)
    unknown = chain(3)
    assert control.trim(unknown) is unknown


def test_a_drawn_draft_is_never_cut_for_that_would_change_the_law():
    drawn = Draft([0, 1], torch.full((2, 2), 0.5), confidence=(0.1, 0.1))
    assert Confidence(0.5).trim(drawn) is drawn
    assert cost(Costs(1, (1, 2), (1.0, 9.0), 0.0, 0.0)).trim(drawn) is drawn


class Gate:
    asks = True

    def __init__(self, *answers):
        self.answers, self.asked = answers, []

    def goes_on(self, confidence, depth):
        self.asked.append((round(confidence, 4), depth))
        return self.answers[depth]


@pytest.mark.parametrize("answers", [(False,), (True, False), (True, True, True)])
def test_the_gate_is_asked_before_a_token_is_drawn_with_the_largest_probability(answers):
    g, spare, gate = torch.Generator().manual_seed(0), torch.Generator().manual_seed(0), Gate(*answers)
    logits = torch.tensor([[0.9, 0.1]]).log()
    draft = Chain(DecodeSettings(temperature=1.0), g, 2, [0], gate).draw(lambda ids: logits, [0], 3)
    drawn = sum(answers)
    assert len(draft.tokens) == drawn
    assert gate.asked == [(0.9, i) for i in range(len(answers))]
    for _ in range(drawn):
        torch.rand(1, dtype=torch.float64, generator=spare)
    assert torch.equal(g.get_state(), spare.get_state()), "nothing was drawn that was not kept"
    assert draft.note == (None if all(answers) else UNSURE)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_a_chain_of_numbers_that_are_none_is_refused_in_the_name_of_what_made_them(temperature, asks, bad):
    gate = Confidence(0.4) if asks else Control()
    g, logits = torch.Generator().manual_seed(0), torch.full((1, 4), bad)
    chain = Chain(DecodeSettings(temperature=temperature), g, 4, [0], gate, "the tiny one")
    with pytest.raises(EngineError, match=r"^the tiny one returned NaN or no finite logits"):
        chain.draw(lambda ids: logits, [0], 3)


def test_a_run_whose_draft_model_diverges_names_the_draft():
    draft = tiny_llama(seed=2)
    with torch.no_grad():
        draft.lm_head.weight.fill_(float("nan"))
    pair = engine.Pair.from_models(tiny_llama(seed=1), None, draft=draft)
    for control in engine.K_CONTROLS:
        with pytest.raises(EngineError, match=r"^the draft model returned NaN"):
            engine.generate(pair, [1, 2, 3], DecodeSettings(k=2, max_new_tokens=4, k_control=control), "model")


def dropping(draft):
    return draft if draft.tokens and float(draft.probs[0, draft.tokens[0]]) >= 0.5 else Draft()


def test_with_p_and_q_nine_to_one_confidence_keeps_the_law_and_dropping_drawn_tokens_does_not():
    law = [0.9, 0.1]
    pair = pair_of(table(lambda h: law, 2), 2, draft=table(lambda h: law, 2))

    def counts(threshold, change=None):
        steps = []
        for seed in range(12):
            values = DecodeSettings(
                k=1,
                max_new_tokens=200,
                temperature=1.0,
                seed=seed,
                k_control="confidence",
                confidence_threshold=threshold,
            )
            run = engine.stream(pair, [0], values, "model")
            if change:
                run.drafter.propose = lambda *args, honest=run.drafter.propose: change(honest(*args))
            steps += run
        return np.bincount([t for s in steps for t in s.emitted], minlength=2), steps

    found, steps = counts(0.5)
    assert chi_square(found, law) > ALPHA
    assert sum(bool(s.proposals) for s in steps) > 1000
    found, steps = counts(0.95)
    assert chi_square(found, law) > ALPHA
    assert {s.draft_note for s in steps} == {None, UNSURE, "nothing left to draft for"}
    assert not any(s.proposals for s in steps)
    assert chi_square(counts(0.5, dropping)[0], law) < 1e-9


# --- cost ---


def test_a_steps_cost_lies_on_the_line_between_its_measured_neighbours():
    costs = Costs(1, (1, 2, 4), (1.0, 2.0, 6.0), 0.5, 0.1)
    assert [costs.step(n) for n in (1, 2, 3, 4, 5)] == pytest.approx([1, 2, 4, 6, 8])
    assert [costs.draft(n) for n in (0, 1, 3)] == pytest.approx([0, 0.5, 0.7])


def test_the_depth_is_the_one_with_the_most_tokens_a_second():
    """A token nobody has a guess for stands with .6: 1.6/1.2 = 1.33, 1.96/1.4 = 1.40, 2.176/1.6 = 1.36 tokens."""
    assert cost().depth(8) == 2
    assert cost().depth(1) == 1
    free = cost(Costs(1, (1, 2), (1.0, 1.0), 0.0, 0.0))
    assert free.depth(7) == 7  # a draft that costs nothing is looked at, and cut afterwards


def test_where_no_draft_pays_it_is_tried_after_ever_longer_pauses():
    """1.6 / 1.9 tokens a second are fewer than 1 / 1."""
    dear = cost(Costs(1, (1, 2), (1.0, 1.0), 0.9, 0.9))
    asked = [dear.depth(5) for _ in range(80)]
    tries = [i for i, k in enumerate(asked) if k]
    assert set(asked) == {0, 1}
    assert np.diff(tries).tolist() == [3, 5, 9, 17, 33]
    for _ in range(60):
        dear.observe(outcome(chain(1), (0,)))  # (6 * .6 + 60) / 66 = .964 stand: 1.964 / 1.9 pays
    for _ in range(40):
        last = dear.depth(5)
    assert last >= 1


def test_a_draft_that_was_paid_for_and_came_back_empty_is_tried_after_ever_longer_pauses():
    control = cost()
    tries = []
    for step in range(60):
        if control.depth(8):
            tries.append(step)
            control.observe(outcome(Draft(note=UNSURE), ()))
    assert np.diff(tries).tolist() == [3, 5, 9, 17]
    control.observe(outcome(chain(1), (0,)))
    assert control._pause == 1, "a draft that brought something ends it"


def test_before_each_token_the_gate_asks_whether_one_more_makes_it_quicker():
    """The law that is asked about has been paid for: only what a wider step costs is held against the token."""
    control = cost(Costs(1, (1, 2, 3), (1.0, 1.2, 1.4), 0.2, 0.2))
    control.depth(8)
    assert not control.goes_on(0.1, 0)  # 1.1 / 1.4 = 0.79 against 1 / 1.2 = 0.83
    assert control.goes_on(0.8, 0)  # 1.8 / 1.4 = 1.29
    assert not control.goes_on(0.2, 1)  # 1.96 / 1.8 = 1.09 against 1.8 / 1.6 = 1.13
    assert control.goes_on(0.5, 1)  # 2.2 / 1.8 = 1.22
    control.depth(8)
    assert not control.goes_on(0.1, 0), "each step begins anew"


RISING = Costs(1, (1, 2, 3, 4), (1.0, 1.25, 1.5, 1.75), 0.0, 0.0)
TREE = Draft([5, 6, 7], parents=(-1, -1, 0), confidence=(0.8, 0.3, 0.5), sources=("a", "a", "a"))


def test_of_a_tree_the_tokens_are_sent_that_make_the_quickest_step():
    """Reach .8, .3 and .4: 1.8/1.25 = 1.44, 2.2/1.5 = 1.467, 2.5/1.75 = 1.43."""
    assert cost(RISING).trim(TREE).tokens == [5, 7]
    level = cost(Costs(1, (1, 2), (1.0, 1.0), 0.0, 0.0))
    assert level.trim(TREE) is TREE
    assert cost(Costs(1, (1, 2), (1.0, 2.0), 0.0, 0.0)).trim(TREE) == Draft(note=QUICKER)  # K = 0


def test_what_became_of_such_tokens_corrects_the_guess_and_belongs_to_one_run():
    """(6 * .8 + 0) / (6 + n): .4 after 6 falls, and 1.4 / 1.25 pays; .045 after 100, and 1.045 / 1.25 does not."""
    one, other = cost(RISING), cost(RISING)
    sole = Draft([5], confidence=(0.8,), sources=("a",))
    for _ in range(6):
        one.observe(outcome(sole, ()))
    assert one.trim(sole).tokens == [5]
    for _ in range(94):
        one.observe(outcome(sole, ()))
    assert one.trim(sole) == Draft(note=QUICKER)
    assert one.trim(Draft([5], confidence=(0.8,), sources=("b",))).tokens == [5], "another method's are counted apart"
    assert other.trim(sole).tokens == [5]


@given(
    numbers=st.lists(st.tuples(st.integers(0, 9), st.floats(0.01, 0.99)), min_size=1, max_size=9),
    steps=st.lists(st.floats(0.0, 1.0), min_size=11, max_size=11),
)
@settings(max_examples=80, deadline=None)
def test_what_is_sent_is_the_best_of_all_trees_that_could_be(numbers, steps):
    """By brute force over every part of the draft that is a tree."""
    parents = tuple(n % (i + 1) - 1 for i, (n, _) in enumerate(numbers))
    chances = tuple(c for _, c in numbers)
    draft = Draft(list(range(len(parents))), parents=parents, confidence=chances, sources=("x",) * len(parents))
    costs = Costs(1, tuple(range(1, 12)), tuple(np.cumsum([1.0, *steps[1:]])), 0.0, 0.0)
    reach = []
    for parent, chance in zip(parents, chances, strict=True):
        reach.append(chance * (reach[parent] if parent >= 0 else 1.0))
    parts = [[i for i in range(len(parents)) if bits >> i & 1] for bits in range(2 ** len(parents))]
    trees = [kept for kept in parts if all(parents[i] < 0 or parents[i] in kept for i in kept)]
    best = max((1 + sum(reach[i] for i in kept)) / costs.step(len(kept) + 1) for kept in trees)
    sent = cost(costs).trim(draft)
    assert (1 + sum(reach[i] for i in sent.tokens)) / costs.step(len(sent.tokens) + 1) == pytest.approx(best)


def test_a_part_of_a_draft_keeps_what_belongs_to_its_tokens():
    draft = Draft([5, 6, 7, 8], parents=(-1, -1, 1, 1), confidence=(0.1, 0.2, 0.3, 0.4), ids=torch.tensor([5, 6, 7, 8]))
    cut = part(draft, [1, 2, 3], "why")
    assert (cut.tokens, cut.parents, cut.confidence) == ([6, 7, 8], (-1, 0, 0), (0.2, 0.3, 0.4))
    assert cut.ids.tolist() == [6, 7, 8]
    assert part(draft, [0, 1, 2, 3], "why") is draft
    assert part(draft, [], "why") == Draft(note="why")


def test_each_name_makes_its_own_control():
    kinds = {"fixed": Control, "heuristic": Heuristic, "confidence": Confidence, "cost": CostOptimal}
    for name, kind in kinds.items():
        made = [make_control(DecodeSettings(k_control=name), lambda rows: FLAT) for _ in range(2)]
        assert type(made[0]) is kind
        assert made[0] is not made[1]
    with pytest.raises(EngineError, match="k_control must be one of fixed, heuristic, confidence, cost"):
        DecodeSettings(k_control="best")
