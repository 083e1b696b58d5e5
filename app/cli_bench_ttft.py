"""`specscope bench --shared-prefix`: what a long system prompt costs before the first token, and what cuts it."""

from datetime import UTC, datetime
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from app import command, terminal
from app.cli_sweep import parse

HELP = (
    "Time to the first token behind so many shared tokens, as 2048,4096: with and without a prefix cache and a draft."
)


def lengths_of(text: str) -> tuple[int, ...]:
    return parse("--shared-prefix", text, int, "whole numbers")


def shared_prefix(
    pair: Any, lengths: tuple[int, ...], questions: Any, settings: Any, drafter: str, verifier: str, repeats: int,
    save: bool, as_json: bool,
) -> None:  # fmt: skip
    """Measure and show. questions: None is the default suite's chat requests."""
    from engine.bench.ttft import measure_ttft
    from engine.environment import environment

    terminal.show_lossy(verifier)
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    with terminal.progress_bar("decoding") as step, command.interrupt() as cancel:
        report = measure_ttft(pair, lengths, questions, settings, drafter, verifier, repeats, step, cancel)
    document: dict[str, Any] = {
        "schema": "specscope.bench",
        "arms": [arm.as_dict() for arm in report.arms],
        "baseline": "plain",
        "verdict": report.verdict,
        "complete": report.complete,
        "started_at": started_at,
        "verifier": verifier,
        "settings": report.settings.as_dict(),
        "pair": pair.describe(),
        "environment": environment(pair.device),
    }
    if as_json:
        command.print_json(document)
    else:
        show(report)
    if save and report.arms:
        how = {"drafter": drafter, "verifier": verifier, "repeats": repeats, "shared_prefix": list(lengths)}
        command.keep(
            "bench", label=f"shared prefix {','.join(map(str, lengths))}", settings={**document["settings"], **how},
            pair=document["pair"], environment=document["environment"], complete=report.complete,
            stats={"verdict": report.verdict}, document=document,
        )  # fmt: skip
    command.exit_if(cancel)


def show(report: Any) -> None:
    if not report.arms:
        terminal.note("stopped before the first length was finished: nothing to report")
        return
    n = report.arms[0].n
    title = f"measured here, {n} requests an arm, in turns; times in ms; ratio: plain TTFT / this arm's"
    table = Table(title=title, title_style="dim", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("shared", justify="right", no_wrap=True)
    table.add_column("arm", no_wrap=True)
    for name in ("TTFT", "low – high", "ratio", "reused", "TPOT"):
        table.add_column(name, justify="right", no_wrap=True)
    for i, arm in enumerate(report.arms):
        last = i + 1 == len(report.arms) or report.arms[i + 1].length != arm.length
        reused = arm.as_dict()["reused_prompt_tokens"]
        table.add_row(
            str(arm.length), Text(arm.name.removesuffix(" cache")), terminal.number(arm.median_ms, 0),
            f"{min(arm.ttft_ms):.0f}–{max(arm.ttft_ms):.0f}", terminal.number(arm.ratio, 1, "x"),
            f"{reused:.0f}" if arm.prefix_cache else terminal.NO_VALUE, terminal.number(arm.tpot_ms, 1),
            end_section=last,
        )  # fmt: skip
    terminal.out.print(table)
    terminal.out.print(Text(report.verdict))
    if not report.complete:
        terminal.note("stopped early; the table holds the lengths that were finished")
