"""How `specscope generate --branches` looks: a block for each step, a drafted tree as indented branches."""

from typing import Any

from rich.text import Text

from app.terminal import ACCEPTED, IGNORED, MARKS, REJECTED, err, legend, out, step_text, visible
from app.tree_shape import branches

UNREACHED = "dim"


def show_blocks(run: Any) -> Any:
    """Decode to the end, a block for each step, and return the generation."""
    err.print(legend())
    for step in run:
        for line in step_block(step):
            out.print(line)
    return run.generation


def step_block(step: Any) -> list[Text]:
    """A head line, then the step's tokens: a chain on one line, a tree in a line for each branch."""
    n = len(step.proposals)
    drafted = f"{step.num_accepted} of {n} accepted" if n else step.draft_note or "no draft"
    head = Text(f"step {step.index + 1}  {drafted}  {step.total_ms:.0f} ms", "dim")
    if not step.is_tree:
        return [head, Text("  ").append(step_text(step))]
    return [head, *(_branch(step, indent, found) for indent, found in branches(step))]


def _branch(step: Any, indent: str, found: list[int | None]) -> Text:
    """Its tokens, and behind them where they came from, when a draft mixes several methods."""
    line = Text("  ").append(indent, "dim")
    for i in found:
        if i is None:
            mark, style = MARKS[step.replacement.kind]
            line.append(mark, style).append(visible(step.replacement.token, True), style)
            continue
        opening, closing, style = _marks(step, i)
        line.append(opening, "dim").append(visible(step.proposals[i].token, True), style).append(closing, "dim")
    sources = dict.fromkeys(step.proposals[i].source for i in found if i is not None and step.proposals[i].source)
    return line.append(f"  {' '.join(map(str, sources))}" if sources else "", "dim italic")


def _marks(step: Any, i: int) -> tuple[str, str, str]:
    """Brackets and a style: tokens behind what fell were never reached and are only fainter."""
    proposal, parent = step.proposals[i], step.parents[i]
    if proposal.accepted:
        return "", "", ACCEPTED
    if proposal.status == "ignored":
        return "⟨", "⟩", IGNORED
    return ("⟨", "⟩", REJECTED) if parent in (-1, *step.path) else ("", "", UNREACHED)
