"""How the command line looks: steps as they are decoded, tables, progress. Text of a model is never markup."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from app.tree_shape import fallen

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False)

# A mark and a style each, so that no kind is told by its colour alone.
ACCEPTED, REJECTED, IGNORED = "green underline", "red strike", "dim strike"
RECOVERED, BONUS = "yellow bold", "cyan bold"
MARKS = {"recovered": ("↺", RECOVERED), "bonus": ("+", BONUS)}
NO_VALUE = "–"


def note(message: str) -> None:
    err.print(Text(message))


def wide_table(title: str, between: int = 2) -> Table:
    """For many columns: nothing is spent on frames, so that headings stay whole in 80 columns. between: spaces between
    two columns."""
    return Table(
        title=title, title_style="dim", title_justify="left", box=SIMPLE_HEAD, show_edge=False, pad_edge=False,
        padding=(0, between - 1, 0, 0),
    )  # fmt: skip


def fail(message: str) -> None:
    err.print(Text.assemble(("error: ", "red bold"), message), soft_wrap=True)


def show_steps(run: Any, to_stdout: bool) -> Any:
    """Decode to the end and return the generation. In a terminal each step is shown with its marks; into a pipe goes
    the text alone."""
    marked = to_stdout and out.is_terminal
    if marked:
        err.print(legend())
    written = 0
    for step in run:
        if marked:
            out.print(step_text(step), end="")
        elif to_stdout:
            written += sys.stdout.write(step.text)
            sys.stdout.flush()
    result = run.generation
    if marked:
        out.print()
    elif to_stdout:
        # A run that was stopped lets go of text that it had held back.
        sys.stdout.write(result.text[written:] + "\n")
    return result


def legend() -> Text:
    return Text.assemble(
        ("accepted", ACCEPTED), "  ", ("⟨rejected⟩", REJECTED), "  ", ("↺recovered", RECOVERED), "  ",
        ("+bonus", BONUS), "  ", ("⟨ignored⟩", IGNORED), "  plain",
    )  # fmt: skip


def step_text(step: Any) -> Text:
    """One step: accepted tokens, the rejected ones in brackets, what replaced them. Of a tree the guesses that fell
    where the accepted path ends stand in the brackets, a bar between them."""
    line = Text()
    drafted = bool(step.proposals)
    for i in step.path:
        line.append(visible(step.proposals[i].token), ACCEPTED)
    fell = [step.proposals[i] for i in fallen(step)]
    if fell:
        style = REJECTED if any(p.status == "rejected" for p in fell) else IGNORED
        line.append("⟨", "dim")
        for n, p in enumerate(fell):
            line.append("|" if n and step.is_tree else "", "dim").append(visible(p.token, True), style)
        line.append("⟩", "dim")
    if step.replacement is not None:
        mark, style = MARKS[step.replacement.kind] if drafted else ("", "")
        line.append(mark, style).append(visible(step.replacement.token), style)
    return line


def visible(token: Any, inline: bool = False) -> str:
    """A token as the terminal may show it: control characters (which could drive the terminal) in caret form."""
    if token.bytes is not None:
        return f"<{token.bytes}>"
    text = "".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in token.text)
    return text.replace("\n", "⏎").replace("\t", "⇥") if inline else text


def number(value: float | None, digits: int = 2, unit: str = "") -> str:
    return NO_VALUE if value is None else f"{value:.{digits}f}{unit}"


def share(value: float | None) -> str:
    return NO_VALUE if value is None else f"{value:.0%}"


def span(pair: tuple[float, float] | None, between: str = "–") -> str:
    return NO_VALUE if pair is None else f"{pair[0]:.2f}{between}{pair[1]:.2f}"


def show_numbers(result: Any) -> None:
    """The table of one run. On stdout in a terminal; on stderr when stdout is a pipe that wants the text only."""
    s = result.stats
    where = result.trace.environment
    trees = any(step.is_tree for step in result.trace.steps)
    table = Table(title="measured here", title_style="dim", show_header=False, title_justify="left")
    table.add_column(style="dim")
    table.add_column(justify="right")
    rows = [
        ("output tokens", f"{s.output_tokens} ({result.finish_reason})"),
        ("tokens/s after the first", number(s.decode_tokens_per_second, 1)),
        ("time to first token", number(s.ttft_s, 3, " s")),
        ("target forwards", str(s.target_forwards)),
        ("tokens per target forward", number(s.tokens_per_target_forward)),
        ("mean acceptance length (incl. the target's own token)", number(s.mean_acceptance_length)),
        ("accepted / proposed", f"{s.accepted} / {s.proposed}  {share(s.draft_acceptance_rate)}"),
        (
            "accepted at depth 1, 2, …" if trees else "accepted at position 1, 2, …",
            " ".join(share(r) for r in s.acceptance_rate_per_position) or NO_VALUE,
        ),
        ("recovered, bonus, ignored", f"{s.recovered}, {s.bonus}, {s.ignored}"),
        ("draft / verify / other", " / ".join(number(v, 2, " s") for v in (s.draft_s, s.verify_s, s.other_s))),
        ("drafter, verifier", f"{result.trace.drafter}, {named_verifier(result.trace.verifier)}"),
        ("k", _k(result.trace.settings)),
        ("seed", "unused at temperature 0" if _greedy(result) else str(result.trace.settings["seed"])),
        ("weights", _precision(result.trace.pair)),
        ("on", f"{where.get('gpu') or where.get('cpu')}, {_threads(where.get('threads'))}"),
    ]
    for name, value in rows:
        table.add_row(name, Text(value))
    (out if out.is_terminal else err).print(table)
    if trees:
        note("accepted / proposed is low for trees by construction: one branch of each at most can stand")
    for message in result.trace.notices:
        note(f"note: {message}")


def show_lossy(verifier: str) -> None:
    """Above any figure of a rule that does not keep the target's law."""
    from engine.verify import LOSSY

    if verifier in LOSSY:
        err.print(
            Text.assemble(
                ("LOSSY", "bold white on red"),
                f" {verifier} acceptance: above temperature 0 the output no longer follows the target's own law",
            )
        )


def named_verifier(name: str) -> str:
    """A lossy rule is never named without saying so."""
    from engine.verify import LOSSY

    return f"{name} (LOSSY)" if name in LOSSY else name


def _k(settings: dict[str, Any]) -> str:
    control = settings.get("k_control", "fixed")
    return str(settings["k"]) if control == "fixed" else f"{settings['k']} at most, {control}"


def _precision(pair: dict[str, Any]) -> str:
    kept = pair.get("quantization") in (None, "none")
    return str(pair["dtype"] if kept else pair["quantization"])


def _greedy(result: Any) -> bool:
    from engine.settings import GREEDY_BELOW

    return bool(result.trace.settings["temperature"] < GREEDY_BELOW)


def model_row(entry: Any) -> dict[str, Any]:
    return {
        "name": entry.name,
        "source": entry.source,
        "cached": entry.cached,
        "path": str(entry.path) if entry.path else None,
        "size_bytes": entry.size_bytes,
        "about": entry.about,
    }


def show_models(entries: list[Any], cache: Path) -> None:
    table = Table()
    for name in ("name", "cached", "size", "about"):
        table.add_column(name, justify="right" if name == "size" else "left")
    for e in entries:
        size = f"{e.size_bytes / 1e6:.0f} MB" if e.size_bytes else NO_VALUE
        table.add_row(Text(e.name), "yes" if e.cached else "no", size, Text(e.about))
    out.print(table)
    note(f"cache: {cache} (set SPECSCOPE_CACHE to move it)")


def show_vocabularies(report: Any) -> None:
    """Two tokenizers side by side: overlap, what differs, tokens per word."""
    out.print(Text(report.summary[:1].upper() + report.summary[1:] + "."))
    for fertility in report.fertility:
        out.print(Text(str(fertility)))
    if report.differing:
        table = Table(title="the first ids that do not read the same", title_style="dim", title_justify="left")
        for name in ("id", "target", "draft"):
            table.add_column(name, justify="right" if name == "id" else "left")
        for d in report.differing:
            sides = (NO_VALUE if side is None else repr(side) for side in (d.target, d.draft))
            table.add_row(str(d.id), *map(Text, sides))
        out.print(table)
    if report.missing:
        out.print(Text("the draft lacks, among others: " + " ".join(map(repr, report.missing))))


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def weights_progress() -> Iterator[Callable[[str, int, int | None], None]]:
    """Bars for the phases of getting weights; nothing is shown for phases that never come."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[amount]}"))
    with Progress(*columns, console=err, transient=True) as bar:
        tasks: dict[str, Any] = {}

        def report(phase: str, done: int, total: int | None) -> None:
            if phase not in tasks:
                tasks[phase] = bar.add_task(phase, total=total, amount="")
            amount = f"{done} s" if phase == "wait" else f"{done / 1e6:.0f} MB" if done else ""
            bar.update(tasks[phase], completed=done, total=total, amount=amount)

        yield report


def _threads(count: object) -> str:
    return f"{count} thread" if count == 1 else f"{count} threads"
