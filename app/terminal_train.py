"""How a training looks in a terminal: its progress, and how good the head is."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from app.terminal import NO_VALUE, err, note, out


@contextmanager
def training_bar() -> Iterator[Callable[[Any], None]]:
    """A bar in a terminal; a line at each evaluation anywhere."""
    columns = (
        TextColumn("training"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        TextColumn("{task.fields[now]}"),
    )  # fmt: skip
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task("training", total=None, now="")

        def watch(now: Any) -> None:
            told = f"loss {now.loss:.3f}, {now.tokens_per_second:.0f} tok/s"
            bar.update(task, completed=now.step, total=now.steps, now=told)
            if now.held_out is not None:
                shares = " ".join(NO_VALUE if a is None else f"{a:.3f}" for a in now.held_out.conditional_acceptance)
                note(
                    f"step {now.step} of {now.steps}, epoch {now.epoch}: {told}; held out {shares}, mean acceptance "
                    f"length {now.held_out.mean_acceptance_length:.3f}"
                )

        yield watch


def show(made: dict[str, Any], folder: Path) -> None:
    if "mean_acceptance_length" not in made:
        _show_table(made, folder)
        return
    table = Table(title="held out, greedy chains as drafted", title_style="dim", title_justify="left")
    for name in ("position", "conditional acceptance", "tested"):
        table.add_column(name, justify="right")
    for row in made["held_out"]:
        share = row["conditional_acceptance"]
        table.add_row(str(row["position"]), NO_VALUE if share is None else f"{share:.3f}", str(row["tested"]))
    out.print(table)
    out.print(f"mean acceptance length {made['mean_acceptance_length']:.3f}; saved in {folder}")


def _show_table(made: dict[str, Any], folder: Path) -> None:
    table = Table(title="held out: was it the next token?", title_style="dim", title_justify="left")
    for name in ("the table's follower", "share"):
        table.add_column(name, justify="right")
    for row in made["held_out"]:
        table.add_row(str(row["rank"]), NO_VALUE if row["share"] is None else f"{row['share']:.3f}")
    out.print(table)
    out.print(f"{made['positions_read']} positions read; saved in {folder}")
