"""Tokens are text wherever they go: markup, template syntax and control characters change nothing on the page."""

import pytest
from fakes import FakeRace

from engine.trace import Alternative, Proposal, Replacement, Step, TokenText

pytestmark = [pytest.mark.browser, pytest.mark.weights]

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</span><script>alert(2)</script>",
    "<scr",
    "ipt>alert(3)</script>",
    "${alert(4)}",
    "{{x}}",
    "{{#each value}}",
    "`",
    "\\u",
    "C:\\users\\new",
    "\x00",
    "\u202egnp.exe",
    "\u200f",
    "$&$1",
    '"onfocus="alert(5)',
    "&lt;b&gt;",
    "=1+1",
]


def hostile_step(index: int, text: str) -> Step:
    token = TokenText(index, text)
    tops = (Alternative(token, 0.5), Alternative(TokenText(99, text), 0.2))
    kept = Proposal(token, 0.9, 1.0, 0.1, 0.9, "accepted", tops, tops)
    lost = Proposal(token, 0.1, 1.0, 0.9, 0.1, "rejected", tops, tops)
    end = Replacement("recovered", token, 0.5, tops)
    return Step(index, (index, index), (text, text), (token, token), (kept, lost), end, text, 0, 1.0, 2.0, 0.1)


def hostile_race(*args, **kwargs):
    """Emits every hostile token as proposal, replacement, alternative, draft note, notice and prompt."""
    turns = [(arm, hostile_step(i, text)) for i, text in enumerate(HOSTILE) for arm in ("speculative", "plain")]
    return FakeRace(turns, notices=tuple(HOSTILE), prompt="\n".join(HOSTILE))(*args, **kwargs)


def fail_with_markup(*args, **kwargs):
    from engine import EngineError

    raise EngineError("no model <img src=x onerror=alert(6)> ${alert(7)} {{x}}")


def test_hostile_tokens_are_shown_as_text_and_run_nothing(serve, visit):
    page = visit(serve(hostile_race))
    page.click("#sv-run")
    page.wait_for_selector('.sv-status[data-state="done"]')
    for view in (0, 1):
        page.locator(".sv-toggle-button").nth(view).click()
        tokens = page.locator(".sv-pane:not([hidden]) .tk")
        assert tokens.count() == 3 * len(HOSTILE)
        for i in range(0, tokens.count(), 3):
            tokens.nth(i).focus()  # the card shows the token and its alternatives, too
            assert page.locator(".sv-card").is_visible()
    shown = page.evaluate("() => [...document.querySelectorAll('.sv-text .tk-accepted')].map(n => n.textContent)")
    plain = [t for t in HOSTILE if t.isprintable()]
    assert [t for t in shown if t in HOSTILE] == plain
    assert "␀" in shown
    assert "⟨U+202E⟩gnp.exe" in shown
    assert "⟨U+200F⟩" in shown
    views = "document.querySelectorAll('.sv-view img, .sv-view script, .sv-view [onerror], .sv-view [onfocus]').length"
    assert page.evaluate(views) == 0
    assert "<img src=x" in page.inner_text(".sv-notices")
    page.click("#sv-sent-box button")
    assert "${alert(4)}" in page.inner_text("#sv-sent")
    assert "␀" in page.inner_text("#sv-sent")
    assert page.evaluate(views) == 0
    assert page.locator(".error-container").count() == 0


def test_an_error_sentence_with_markup_is_text_too(serve, visit):
    page = visit(serve(fail_with_markup))
    page.click("#sv-run")
    page.wait_for_selector('.sv-status[data-state="failed"]')
    assert "<img src=x onerror=alert(6)> ${alert(7)} {{x}}" in page.inner_text(".sv-status")
