"""A drafted tree in a terminal: branches as lines, and no more of it in the running text than fits there."""

from dataclasses import replace

import pytest
from fakes import drafted_step, plain_step, tree_step

from app.notebook import tokens_html
from app.terminal import step_text
from app.terminal_tree import step_block
from app.tree_shape import branches, fallen
from engine.trace import Trace


def block(step):
    return [line.plain for line in step_block(step)]


def trace_of(*steps):
    return Trace(steps, (1,), "", {}, "composite", "rejection", {}, "length", "2026-01-01T00:00:00+00:00")


def test_a_line_for_each_branch_what_stands_first_and_what_fell_in_brackets():
    assert block(tree_step(3)) == [
        "step 4  2 of 6 accepted  22 ms",
        "  ├ bc  suffix",
        "  │ ├ ↺!",
        "  │ └ ⟨d⟩  recycling",
        "  └ ⟨x⟩yz  recycling",
    ]


def test_kinds_differ_by_style_too():
    styles = {span.style for line in step_block(tree_step(3)) for span in line.spans}
    assert {"green underline", "red strike", "yellow bold", "dim"} <= styles


def test_a_chain_is_one_line_and_a_step_without_a_draft_says_so():
    assert block(drafted_step(0)) == ["step 1  1 of 3 accepted  22 ms", "  b⟨xy⟩↺d"]
    assert block(plain_step(1)) == ["step 2  no draft  21 ms", "  a"]
    assert block(replace(plain_step(1), draft_note="no match"))[0] == "step 2  no match  21 ms"


def test_in_the_running_text_a_tree_shows_its_path_and_the_guesses_that_fell_where_it_ends():
    assert step_text(tree_step(3)).plain == "bc⟨d⟩↺!"
    one_more = tree_step(3).proposals[3]
    wider = replace(
        tree_step(3), proposals=(*tree_step(3).proposals, replace(one_more, token=one_more.token, parent=2))
    )
    assert step_text(wider).plain == "bc⟨d|d⟩↺!"


def test_what_stands_is_the_path_and_not_the_first_proposals():
    step = tree_step(0)
    assert [step.proposals[i].token.text for i in step.path] == ["b", "c"]
    assert fallen(step) == [3]
    assert [i for _, found in branches(step) for i in found if i is not None] == [0, 2, 3, 1, 4, 5]
    page = tokens_html(trace_of(step)).data
    assert [page.count(f">{letter}<") for letter in "bcdxyz"] == [1, 1, 1, 0, 0, 0]


@pytest.mark.parametrize("hostile", ["\x1b[31m", "a\nb", "[bold]x[/bold]"])
def test_a_tokens_text_neither_drives_the_terminal_nor_is_read_as_markup(hostile):
    lines = block(tree_step(3, hostile))
    assert len(lines) == 5
    assert not any("\x1b" in line or "\n" in line for line in lines)
    if hostile.startswith("["):
        assert f"⟨{hostile}d⟩" in lines[3]
