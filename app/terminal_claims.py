"""How claims look in a terminal: the list with its verdicts, one claim with its whole derivation, a claim of one's
own."""

from collections.abc import Iterable, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from app import terminal

# The word says it; the colour only finds it.
STYLES = {
    "contradicted": "bold red",
    "implausible": "red",
    "outdated": "yellow",
    "unverifiable": "yellow",
    "plausible": "green",
    "supported": "bold green",
    "published": "cyan",
    "published-consistent": "green",
    "published-inconsistent": "bold yellow",
}


def show_list(found: Sequence[Any], of: int) -> None:
    """What is claimed and what is made of it."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True, expand=False)
    table.add_column("id", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("claim", ratio=1, overflow="fold")
    for one in found:
        row = one.claim.row
        table.add_row(Text(row.id), verdict(one.verdict), Text.assemble(row.claim, "\n", (_value(row), "dim")))
    terminal.out.print(table)
    counts = ", ".join(f"{sum(o.verdict == v for o in found)} {v}" for v in dict.fromkeys(o.verdict for o in found))
    terminal.note(f"{len(found)} of {of} claims: {counts}")
    terminal.note("specscope claims show ID has the derivation, specscope claims check looks at one of your own")


def show_one(one: Any, meaning: str, evidence: str) -> None:
    row = one.claim.row
    _heading(f"{row.id}  {row.claim}", one.verdict)
    _sentence(f"{one.why} ({_decided(one.decided_by)})")
    _sentence(f"{one.verdict}: {meaning}", "dim")
    facts = [("claimed", _value(row)), ("by", ", ".join(filter(None, (row.source, row.date)))), ("on", row.conditions)]
    if row.machine == "assumed":
        held = f"{row.model} in {row.precision} on {f'{row.gpus} x ' if row.gpus else ''}{row.gpu}"
        facts.append(("held beside", f"{held} (assumed: the claim does not say)"))
    given = [number for series in one.claim.inputs.values() for number in series.values()]
    _facts(facts)
    _inputs(given)
    _steps("what follows", one.implies)
    _findings(one.findings)
    _bounds(one.bounds)
    _section("evidence")
    _sentence(f"{row.evidence}: {evidence}" if row.evidence else "none")
    if row.evidence_url:
        terminal.out.print(Text(f"  {row.evidence_url}"))
        terminal.note("a reference, not proof that the page still says so")


def show_checked(checked: Any, meaning: str) -> None:
    claim = checked.claim
    where = f"{claim.model} on {f'{claim.gpus} x ' if claim.gpus > 1 else ''}{claim.gpu}".strip()
    _heading(where if claim.model and claim.gpu else "the claim", checked.verdict)
    _sentence(f"{checked.why} ({_decided(checked.decision.decided_by)})")
    _sentence(f"{checked.verdict}: {meaning}", "dim")
    _steps("what follows", checked.implies)
    _ladder(checked.limits)
    _findings(checked.findings)
    _bounds([checked.bound] if checked.bound else [])
    if checked.projected is not None:
        _section("projection")
        bands = [f"error band: {checked.projected.band}"]
        if checked.projected.speedup_band and checked.claim.says_speculative:
            bands.append(f"error band of speed-ups: {checked.projected.speedup_band}")
        for line in (*checked.projected.how, *bands):
            _sentence(line, "dim")
    if checked.missing:
        _section("to say more")
        for sentence in checked.missing:
            _sentence(sentence)


def verdict(word: str) -> Text:
    return Text(word, STYLES.get(word, ""))


def number(value: float | None, unit: str = "") -> str:
    """As much of a figure as its size deserves, with its unit."""
    if value is None:
        return terminal.NO_VALUE
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{text} {unit}".strip()


def _value(row: Any) -> str:
    return f"{row.value} {row.unit}"


def _decided(voice: str | None) -> str:
    return f"decided by {voice}" if voice else "nothing decides it"


def _heading(text: str, word: str) -> None:
    terminal.out.print(Text.assemble(verdict(word), "  ", (text, "bold")), soft_wrap=False)


def _section(name: str) -> None:
    terminal.out.print()
    terminal.out.print(Text(name, "bold"))


def _sentence(text: str, style: str = "") -> None:
    terminal.out.print(Padding(Text(text, style), (0, 0, 0, 2)), soft_wrap=False)


def _facts(rows: Iterable[tuple[str, str]]) -> None:
    table = _grid()
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for name, value in rows:
        if value:
            table.add_row(name, Text(value))
    terminal.out.print(Padding(table, (0, 0, 0, 2)))


def _inputs(given: Sequence[Any]) -> None:
    if not given:
        return
    _section("what went in")
    table = _grid()
    table.add_column(ratio=3)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True, style="dim")
    table.add_column(ratio=3, style="dim")
    for source, numbers in _by_source(given):
        for i, one in enumerate(numbers):
            name = f"{one.name}, {one.at}" if one.at else one.name
            table.add_row(Text(name), Text(str(one)), one.label, Text(source if i == 0 else ""))
    terminal.out.print(Padding(table, (0, 0, 0, 2)))


def _by_source(given: Sequence[Any]) -> list[tuple[str, list[Any]]]:
    sources = dict.fromkeys(one.source for one in given)
    return [(source, [one for one in given if one.source == source]) for source in sources]


def _steps(title: str, steps: Sequence[Any]) -> None:
    """A line with the figure, and under it how it was come by."""
    if not steps:
        return
    _section(title)
    table = _grid()
    table.add_column(ratio=1)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True, style="dim")
    for step in steps:
        told = Text.assemble(step.name, "\n", (f"  {step.formula}", "dim"))
        table.add_row(told, Text(number(step.value, step.unit)), f"from {step.label}")
    terminal.out.print(Padding(table, (0, 0, 0, 2)))


def _ladder(limits: Sequence[Any]) -> None:
    if not limits:
        return
    _section("limits")
    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column("limit", ratio=1)
    for name in ("of", "claimed", "limit", ""):
        table.add_column(name, justify="left" if name == "of" else "right", no_wrap=True)
    for limit in limits:
        unit = "x" if limit.of == "speed-up" else ""
        claimed = None if limit.claimed is None else limit.claimed.value
        soft = "" if limit.hard else f"\n  soft: {limit.assumes}" if limit.assumes else "\n  soft"
        told = Text.assemble(limit.step.name, (f"\n  {limit.step.formula} (from {limit.step.label}){soft}", "dim"))
        mark = Text(terminal.NO_VALUE) if limit.passed is None else _mark(limit)
        table.add_row(told, limit.of, number(claimed, unit), number(limit.value, unit), mark)
    terminal.out.print(table)
    terminal.note("soft: nothing forbids passing it, but nobody has shown it")


def _mark(limit: Any) -> Text:
    return Text("above", "bold red" if limit.hard else "red") if limit.passed else Text("within", "green")


def _findings(findings: Sequence[Any]) -> None:
    _section("what each says")
    table = _grid()
    table.add_column(no_wrap=True, style="dim")
    table.add_column(no_wrap=True)
    table.add_column(ratio=1)
    for finding in findings:
        table.add_row(finding.voice, finding.says, Text(finding.why))
    terminal.out.print(Padding(table, (0, 0, 0, 2)))


def _bounds(bounds: Sequence[Any]) -> None:
    if not bounds:
        return
    _section("roofline (projected)")
    for machine in dict.fromkeys(bound.machine for bound in bounds):
        of_machine = [bound for bound in bounds if bound.machine == machine]
        first = of_machine[0]
        room = "" if first.fits else ", which does not fit"
        _sentence(f"{machine}: weights {first.weights_gb:.1f} GB of {first.memory_gb:.0f} GB{room}")
        for bound in of_machine:
            rows = "any batch" if bound.batch is None else f"batch {bound.batch}"
            _sentence(f"{rows}: plain {number(bound.plain_tokens_per_second)} tokens/s = {bound.how[0]}", "dim")
        limit, prefill = number(first.compute_tokens_per_second), number(first.prefill_tokens_per_second)
        _sentence(f"arithmetic: {limit} tokens/s out, {prefill} tokens/s of prompts read; {first.how[1]}", "dim")
        if first.largest_batch is not None:
            _sentence(f"keys of {first.largest_batch:,} requests fit beside the weights", "dim")
        _sentence(first.how[-1], "dim")


def _grid() -> Table:
    return Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
