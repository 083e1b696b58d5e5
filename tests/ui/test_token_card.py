"""The card states the test that was really made: each verifier has its own number and its own rule."""

from dataclasses import replace

import pytest
from fakes import FakeRace, plain_step, token

from engine.trace import Proposal, Replacement, Step

pytestmark = [pytest.mark.browser, pytest.mark.weights]


def proposal(text, u, accept, status):
    return Proposal(token(text), accept, 1.0, u, accept, status)


def step(*proposals):
    kept = [p.token for p in proposals if p.status == "accepted"]
    tokens = (*kept, token("!"))
    end = Replacement("recovered", token("!"), 0.5)
    ids, texts = tuple(t.token_id for t in tokens), tuple(t.text for t in tokens)
    return Step(1, ids, texts, tokens, proposals, end, None, 0, 1.0, 20.0, 1.0)


# Block verification: position 1 fails its own test (0.7 >= 0.4), position 3 is the last that passes: tau = 3.
BLOCK = step(
    proposal("a", 0.7, 0.4, "accepted"),
    proposal("b", 0.1, 0.5, "accepted"),
    proposal("c", 0.2, 0.3, "accepted"),
    proposal("d", 0.9, 0.2, "rejected"),
    proposal("e", 0.8, 0.1, "rejected"),
)
CHAIN = step(
    proposal("a", 0.3, 0.6, "accepted"),
    proposal("b", 0.123456, 0.123444, "rejected"),
    proposal("c", None, 0.5, "rejected"),
)
NONE_KEPT = step(proposal("a", 0.7, 0.4, "rejected"), proposal("b", 0.8, 0.5, "rejected"))
KEPT = "The longest prefix whose own test passed is kept (τ = 3)"
CASES = {
    "block": (
        BLOCK,
        "h of prefix",
        [
            f"u 0.700 ≥ h 0.400: the prefix up to here fails its own test. {KEPT}: accepted.",
            f"u 0.100 < h 0.500: the prefix up to here passes its own test. {KEPT}: accepted.",
            f"u 0.200 < h 0.300: the prefix up to here passes its own test. {KEPT}: accepted.",
            f"u 0.900 ≥ h 0.200: the prefix up to here fails its own test. {KEPT}: rejected.",
            f"u 0.800 ≥ h 0.100: the prefix up to here fails its own test. {KEPT}: rejected.",
        ],
    ),
    "rejection": (
        CHAIN,
        "min(1, p/q)",
        [
            "u 0.300 < 0.600: accepted",
            "u 0.1235 ≥ 0.1234: rejected",  # as many digits as tell them apart
            "Came after the first rejection, so it was thrown away without a test",
        ],
    ),
    "match": (
        CHAIN,
        "held against: p",
        [
            "u 0.300 < p 0.600: the target's own draw is this token: accepted",
            "u 0.1235 ≥ p 0.1234: the target's own draw is another token: rejected",
            "Came after the first rejection, so it was thrown away without a test",
        ],
    ),
}


def rules(page):
    page.click(".sv-toggle-button >> nth=1")
    chips = page.locator(".sv-row:last-child .tk")
    found = []
    for i in range(chips.count() - 1):  # the last one is the replacement
        chips.nth(i).focus()
        found.append((page.inner_text(".sv-facts dt:last-of-type"), page.inner_text(".sv-rule")))
    return found


def run_with(serve, visit, verifier, made, temperature="0.8"):
    page = visit(serve(FakeRace([("speculative", plain_step(0)), ("plain", plain_step(0)), ("speculative", made)])))
    names = {"block": "block verification", "rejection": "rejection sampling", "match": "exact match"}
    if verifier != "rejection":
        page.click("#sv-verifier input")
        page.get_by_role("option", name=names[verifier]).click()
    page.fill("#sv-temperature input[type=number]", temperature)
    page.keyboard.press("Tab")
    page.click("#sv-run")
    page.wait_for_selector('.sv-status[data-state="done"]')
    return page


@pytest.mark.parametrize("verifier", CASES)
def test_a_card_states_its_verifiers_own_test(serve, visit, verifier):
    made, label, expected = CASES[verifier]
    page = run_with(serve, visit, verifier, made)
    assert rules(page) == [(label, text) for text in expected]
    # What was never tested is shown fainter, and only that.
    untested = sum(p.u is None for p in made.proposals)
    assert page.locator(".sv-row:last-child .tk-untested").count() == untested


def test_a_block_of_which_no_prefix_passed_says_so(serve, visit):
    page = run_with(serve, visit, "block", NONE_KEPT)
    assert [text for _, text in rules(page)] == [
        "u 0.700 ≥ h 0.400: the prefix up to here fails its own test. No prefix passed its own test (τ = 0): rejected.",
        "u 0.800 ≥ h 0.500: the prefix up to here fails its own test. No prefix passed its own test (τ = 0): rejected.",
    ]


def test_at_temperature_zero_the_rule_is_the_targets_own_choice(serve, visit):
    untested = tuple(replace(p, u=None) for p in BLOCK.proposals)
    page = run_with(serve, visit, "block", replace(BLOCK, proposals=untested), temperature="0")
    assert [text for _, text in rules(page)] == [
        *["The target's own choice is this token: accepted"] * 3,
        "The target's own choice is another token: rejected",
        "Comes after a token that is not the target's choice, so it was thrown away with it",
    ]
