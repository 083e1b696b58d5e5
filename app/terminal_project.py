"""How projections and their validation look in a terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from app import terminal


def show_projections(
    model: str, precision: str, projections: Sequence[Any], fits_on: Sequence[int | None], drafts: bool
) -> None:
    """A line a GPU, whether it fits, what each number rests on, and how far such projections have been off."""
    from engine.error_band import RANGE_RULE

    first = projections[0]
    rows = "1 sequence" if first.batch == 1 else f"{first.batch} sequences"
    table = terminal.wide_table(
        f"projected: {model}, {precision}, {rows} of {first.prompt_tokens:g} prompt and {first.output_tokens:g} "
        "output tokens"
    )
    table.add_column("gpu", min_width=8)
    columns = ["plain tok/s", *(["fast tok/s", "ratio"] if drafts else []), "TTFT ms", "step ms"]
    cells = []
    for p in projections:
        fast = [
            _ranged(p.speculative_tokens_per_second, p.speculative_range, 1), _ranged(p.speedup, p.speedup_range, 2),
        ]  # fmt: skip
        parts = [_ms(p.verify_step_s), _ms(p.draft_s)]
        cells.append([
            _ranged(p.plain_tokens_per_second, p.plain_range, 1), *(fast if drafts else []),
            _ms(p.speculative.time_to_first_token_s if drafts else p.time_to_first_token_s), _ms(p.plain_step_s),
            *(parts if drafts else []),
        ])  # fmt: skip
    for i, name in enumerate([*columns, *(["verify ms", "draft ms"] if drafts else [])]):
        widest = max(len(line) for row in cells for line in row[i].splitlines())
        table.add_column(name, justify="right", min_width=widest)  # a head may break in two, a number not
    table.add_column("most goes to")
    for p, row in zip(projections, cells, strict=True):
        gpu, most = (p.gpu if p.gpus == 1 else f"{p.gpus} x {p.gpu}"), (p.binding if drafts else p.plain_binding)
        table.add_row(Text(gpu), *row, Text(most))
    terminal.out.print(table)
    for p, needed in zip(projections, fits_on, strict=True):
        terminal.out.print(Text(f"{p.memory}{_elsewhere(p, needed)}", "" if p.fits else "red bold"))
    for note in dict.fromkeys(note for p in projections for note in p.notes):
        terminal.out.print(Text(note, "yellow"))
    terminal.out.print(Text(f"Error band: {first.error_band}."))
    if drafts and first.speedup_band is not None:
        terminal.out.print(Text(f"Error band of ratios: {first.speedup_band}."))
    elif drafts:
        terminal.out.print(Text("Too few speed-ups were published of so many sequences to give ratios an error band."))
    terminal.out.print(Text(f"Below each figure its range, {RANGE_RULE}."))
    _show_inputs(projections)


def _ranged(value: float, within: tuple[float, float] | None, digits: int) -> str:
    """The projected figure, and on a line of its own where it is to be expected."""
    shown = terminal.number(value, digits)
    low, high = (terminal.number(end, 2 if digits > 1 else 0) for end in within or (0, 0))
    return shown if within is None else f"{shown}\n{low}-{high}"


def _elsewhere(projection: Any, needed: int | None) -> str:
    if projection.fits:
        return ""
    return f" It fits on {needed}: --gpus {needed}." if needed else " Nor does it fit on 8."


def _show_inputs(projections: Sequence[Any]) -> None:
    """Each input with its label: those that all GPUs share once, the others GPU by GPU."""
    lines = [[str(a) for a in p.assumptions if a.name != "error band"] for p in projections]
    shared = [line for line in lines[0] if all(line in other for other in lines)]
    terminal.note("what it rests on:")
    for line in shared:
        terminal.note(f"  {line}")
    for p, own in zip(projections, lines, strict=True):
        differing = [line for line in own if line not in shared]
        if differing and len(projections) > 1:
            terminal.note(f"  on {p.gpu}:")
        for line in differing:
            terminal.note(f"    {line}")


def show_validation(validation: Any) -> None:
    """Predicted, published and error of every result, the worst not hidden; then what could not be predicted, and
    why."""
    table = terminal.wide_table("predicted against published: output tokens/s, x: speed-up")
    table.add_column("result [evidence]", no_wrap=True)
    for name in ("published", "predicted", "error", "unseen"):
        table.add_column(name, justify="right", no_wrap=True)
    for check in validation.checks:
        unit, digits = ("x", 2) if check.result.measure == "speedup" else ("", 1)
        values = (terminal.number(value, digits, unit) for value in (check.published, check.predicted))
        table.add_row(
            Text(f"{check.result.id} [{check.result.evidence}]"), *values,
            _error(check.error), _error(check.error_without_software),
        )  # fmt: skip
    terminal.out.print(table)
    _show_speedups(validation.speedups)
    terminal.out.print(Text(f"error: {validation.band}."))
    judged = _verdict(validation.passes, validation.bar)
    terminal.out.print(Text(f"unseen: {validation.band_without_software}; {judged}."))
    terminal.out.print(Text(f"median error by engine: {_by_engine(validation.median_by_software)}."))
    for regime in validation.regimes:
        judged = _verdict(regime.passes, validation.bar)
        terminal.out.print(Text(f"{regime.of}, unseen: {regime.unseen}; {judged}.", "" if regime.passes else "bold"))
        terminal.out.print(Text(f"  by engine: {_by_engine(regime.by_software)}."))
    terminal.note("evidence: F source file, D documentation, I issue or pull request, S secondary source")
    for left in validation.left_out:
        terminal.note(f"not predicted: {left.id} [{left.evidence}]: {left.reason}")


def _show_speedups(found: Sequence[Any]) -> None:
    """Speed-ups that were printed stand in the table above; these are ratios of two speeds in it."""
    for one in found:
        terminal.note(
            f"speed-up: {one.id}: published {one.published:.2f}x, error {one.error:+.0%}, unseen "
            f"{one.error_without_software:+.0%}"
        )


def _verdict(passes: bool, bar: float) -> str:
    return f"within the bar of {bar:.0%}" if passes else f"falls short of the bar of {bar:.0%}"


def _by_engine(found: Mapping[str, tuple[float, int]]) -> str:
    return ", ".join(f"{name} {error:.0%} of {n}" for name, (error, n) in found.items())


def _error(error: float) -> Text:
    return Text(f"{error:+.0%}", "" if abs(error) <= 0.2 else "bold")


def _ms(seconds: float) -> str:
    return terminal.number(seconds * 1e3, 2)
