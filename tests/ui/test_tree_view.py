"""A drafted tree on the page: branches to walk, the accepted path marked, and text that stays text."""

from dataclasses import replace

import pytest
from fakes import FakeRace, plain_step, tree_step
from test_hostile_tokens import HOSTILE

pytestmark = [pytest.mark.browser, pytest.mark.weights]

NODE = ".sv-branches:not([hidden]) .sv-node"


def race(*steps):
    return FakeRace(
        [("speculative", plain_step(0, "a")), ("plain", plain_step(0)), *(("speculative", s) for s in steps)]
    )


def done(serve, visit, *steps, **options):
    page = visit(serve(race(*steps)), **options)
    page.click("#sv-run")
    page.wait_for_selector('.sv-status[data-state="done"]')
    return page


def opened(serve, visit, *steps, **options):
    page = done(serve, visit, *steps, **options)
    page.click(".sv-toggle-button >> nth=1")
    page.click(".sv-branch-button")
    page.wait_for_selector(NODE)
    return page


def texts(page, fate):
    return page.locator(f"{NODE}-{fate} .sv-node-token").all_inner_texts()


def places(page):
    """Of each token's node, by its text: (x, y) of its left upper corner."""
    boxes = "nodes => nodes.map(n => [n.querySelector('.sv-node-token').textContent, n.offsetLeft, n.offsetTop])"
    return {text: (x, y) for text, x, y in page.locator(NODE).evaluate_all(boxes)}


def focused(page):
    return page.evaluate("document.activeElement.querySelector('.sv-node-token')?.textContent")


def test_every_proposal_is_there_and_its_fate_is_told_by_more_than_its_colour(serve, visit):
    page = opened(serve, visit, tree_step(1))
    assert texts(page, "accepted") == ["b", "c"]
    assert texts(page, "recovered") == ["!"]
    assert sorted(texts(page, "rejected")) == ["d", "x"]
    assert texts(page, "unreached") == ["y", "z"]
    assert texts(page, "root") == ["a"]
    words = page.locator(f"{NODE}[aria-label^='b, depth 1']").get_attribute("aria-label")
    assert words == "b, depth 1, accepted, p 0.700, suffix"
    assert "6 tokens proposed, up to 3 deep; 2 accepted" in page.inner_text(".sv-branches-caption")
    assert "suffix 2, recycling 4" in page.inner_text(".sv-branches-caption")
    assert page.locator(f"{NODE} .sv-source").all_inner_texts().count("suffix") == 2


def test_the_accepted_path_is_one_straight_line_that_ends_in_the_replacement(serve, visit):
    at = places(opened(serve, visit, tree_step(1)))
    assert {at[text][1] for text in "abc!"} == {at["a"][1]}
    assert at["a"][0] < at["b"][0] < at["c"][0] < at["!"][0]
    assert at["d"][0] == at["!"][0], "what fell stands in the column of what replaced it"
    assert at["x"][0] == at["b"][0]
    assert at["x"][1] > at["d"][1] > at["c"][1], "each branch hangs below the place where it leaves"
    assert at["x"][1] == at["y"][1] == at["z"][1]


def test_a_row_shows_what_stands_and_how_much_was_proposed(serve, visit):
    page = done(serve, visit, tree_step(1))
    assert page.locator(".sv-text .tk-rejected").all_inner_texts() == ["d"], (
        "the guess at the place where the path ends"
    )
    page.click(".sv-toggle-button >> nth=1")
    row = page.locator(".sv-row").last
    assert row.locator(".sv-row-chips .tk").all_inner_texts() == ["b", "c", "!"]
    assert row.locator(".sv-row-score").inner_text() == "2/6"
    assert row.locator(".sv-branch-button").get_attribute("aria-expanded") == "false"
    assert page.locator(".sv-branches").count() == 0, "drawn when it is first asked for"


def test_the_branches_are_walked_by_the_arrow_keys(serve, visit):
    page = opened(serve, visit, tree_step(1), plain_step(2, "e"))
    assert page.locator("[role=tree] [role=treeitem]").count() == 7
    page.locator(f"{NODE}-accepted").first.focus()
    walked = []
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft", "ArrowLeft", "ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
        walked.append(focused(page))
    assert walked == ["c", "!", "d", "c", "b", "d", "z"]
    assert page.locator(".sv-card").is_visible()
    page.keyboard.press("ArrowDown")  # below the last branch comes the next step
    assert page.evaluate("document.activeElement.textContent") == "e"


def test_keys_alone_open_the_branches_and_come_back(serve, visit):
    page = done(serve, visit, tree_step(1))
    page.click(".sv-toggle-button >> nth=1")
    page.locator(".sv-row").last.locator(".tk").last.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.className") == "sv-branch-button"
    page.keyboard.press("Enter")
    page.wait_for_selector(NODE)
    page.keyboard.press("ArrowRight")
    assert focused(page) == "b"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    assert page.locator(NODE).count() == 0
    # The stream stays one stop of the Tab key.
    assert page.locator('.sv-steps [tabindex="0"]').count() == 1


def test_enter_on_a_token_of_the_text_shows_its_place_among_the_branches(serve, visit):
    page = done(serve, visit, tree_step(1))
    page.locator(".sv-text .tk-accepted").nth(1).focus()
    assert "Enter shows its branches" in page.inner_text(".sv-card")
    page.keyboard.press("Enter")
    page.wait_for_selector(NODE)
    assert focused(page) == "c"


def test_the_card_of_a_guess_says_where_it_stood_and_why_it_fell(serve, visit):
    page = opened(serve, visit, tree_step(1))
    rules = {
        "b": "The target's own choice is this token: accepted",
        "x": "The target's own choice is another token: rejected",
        "y": "Comes after a token that is not the target's choice, so it was thrown away with it",
    }
    for text, rule in rules.items():
        page.locator(NODE, has=page.get_by_text(text, exact=True)).focus()
        assert page.inner_text(".sv-rule") == rule
    assert "depth 2, 1 of 1 there" in page.inner_text(".sv-card-where >> nth=0")
    page.locator(NODE, has=page.get_by_text("x", exact=True)).focus()
    assert "depth 1, 2 of 2 there" in page.inner_text(".sv-card-where >> nth=0")
    assert "recycling" in page.inner_text(".sv-card-where >> nth=0")


def test_the_hints_say_what_a_position_and_a_low_rate_mean_in_a_tree(serve, visit):
    page = done(serve, visit, tree_step(1))
    assert "in a tree a position is a depth" in page.inner_text(".sv-figure-positions")
    assert "low by construction" in page.inner_text(".sv-figure-tau")
    chains = done(serve, visit, plain_step(1))
    assert "depth" not in chains.inner_text("#sv-figures")


def test_hostile_tokens_in_a_tree_are_text_and_run_nothing(serve, visit):
    page = done(serve, visit, *(tree_step(i, text) for i, text in enumerate(HOSTILE, 1)))
    page.click(".sv-toggle-button >> nth=1")
    for i in range(len(HOSTILE)):
        page.locator(".sv-branch-button").nth(i).click()
    shown = page.locator(f"{NODE}-accepted .sv-node-token").evaluate_all("nodes => nodes.map(n => n.textContent)")
    assert len(shown) == 2 * len(HOSTILE)
    for text in HOSTILE:
        if text.isprintable() and " " not in text:
            assert f"{text}b" in shown
    assert "⟨U+202E⟩gnp.exeb" in shown
    page.locator(NODE).nth(3).focus()
    views = "document.querySelectorAll('.sv-view img, .sv-view script, .sv-view [onerror], .sv-view [onfocus]').length"
    assert page.evaluate(views) == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_wide_tree_scrolls_in_its_own_box_on_a_narrow_screen(serve, visit, scheme):
    page = opened(
        serve, visit, tree_step(1, "a rather long token "), viewport={"width": 390, "height": 844}, color_scheme=scheme
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    box = "(() => { const b = document.querySelector('.sv-branches-scroll'); return b.scrollWidth > b.clientWidth; })()"
    assert page.evaluate(box)
    page.locator(f"{NODE}-recovered").focus()  # focus brings a node into the box's window
    right = page.locator(f"{NODE}-recovered").bounding_box()
    assert 0 <= right["x"] < 390


SAMPLED = {"b": (0.3, 0.7), "x": (None, 0.2), "c": (0.1, 0.6), "d": (0.9, 0.25), "y": (None, 0.9), "z": (None, 0.8)}
RULES = {
    "rejection": {
        "b": "u 0.300 < 0.700: accepted",
        "x": "Another token was accepted in its place before its turn, so it was thrown away without a test",
        "d": "u 0.900 ≥ 0.250: rejected, and taken out of the target's law for those tried after it",
        "y": "Its branch was left before it, so it was thrown away without a test",
    },
    "typical": {
        "b": "The target finds it plausible enough: accepted",
        "x": "Plausible enough, but it does not lie on the longest plausible branch: rejected",
        "d": "The target does not find it plausible enough: rejected",
    },
}


@pytest.mark.parametrize("verifier", RULES)
def test_above_temperature_zero_the_card_states_the_test_that_was_made(serve, visit, verifier):
    step = tree_step(1)

    def with_its_test(p):
        u, accept = SAMPLED[p.token.text]
        if verifier == "typical":
            u, accept = None, float(p.token.text != "d")
        return replace(p, u=u, accept_probability=accept)

    page = visit(serve(race(replace(step, proposals=tuple(map(with_its_test, step.proposals))))))
    page.fill("#sv-temperature input[type=number]", "0.8")
    page.keyboard.press("Tab")
    if verifier == "typical":
        page.click("#sv-verifier input")
        page.get_by_role("option", name="typical").click()
    page.click("#sv-run")
    page.wait_for_selector('.sv-status[data-state="done"]')
    page.click(".sv-toggle-button >> nth=1")
    page.click(".sv-branch-button")
    for text, rule in RULES[verifier].items():
        page.locator(NODE, has=page.get_by_text(text, exact=True)).focus()
        assert page.inner_text(".sv-rule") == rule
    label = "plausible (1: yes)" if verifier == "typical" else "p ÷ what is left"
    assert label in page.inner_text(".sv-facts")
    assert texts(page, "untested") == ([] if verifier == "typical" else ["x"])
