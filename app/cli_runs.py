"""`specscope runs`: what the run store holds."""

import json
import sys
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from app import command, terminal

app = typer.Typer(no_args_is_help=True, help="Runs that were kept: list, show, export, delete.")

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="A run's id, the start of one, or its last letters.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout and nothing else.")]


class Format(StrEnum):
    JSON = "json"
    CSV = "csv"


@app.command("list")
def list_runs(
    kind: Annotated[str | None, typer.Option(help="Only this kind: generate, bench, sweep or peers.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="The latest so many.")] = 20,
    hardware: Annotated[str | None, typer.Option(help="Only of this machine: the hash that `show` prints.")] = None,
    as_json: JsonOption = False,
) -> None:
    """The latest runs first."""
    with command.sentences():
        store = command.run_store()
        # One more than is shown tells whether there are more.
        found = store.runs(kind, hardware=hardware, limit=limit + 1)
        if as_json:
            command.print_json({"schema": "specscope.runs", "runs": [run.as_dict() for run in found[:limit]]})
            return
        _show_list(found[:limit])
        more = f"; the latest {limit}, --limit shows more" if len(found) > limit else ""
        terminal.note(f"run store: {store.place}{more}")


@app.command()
def show(run_id: IdArgument, as_json: JsonOption = False) -> None:
    """One run: settings, hardware, versions, summary, and what else is stored of it."""
    with command.sentences():
        store = command.run_store()
        run = store.find(run_id)
        held = {"measurement_keys": list(store.measurements(run.id)), "trace_names": store.traces(run.id)}
        if as_json:
            command.print_json({**run.as_dict(), **held})
        else:
            _show_one(run, held)


@app.command()
def export(
    run_id: IdArgument,
    output: Annotated[Path | None, typer.Option(help="Write to this file in place of stdout.")] = None,
    form: Annotated[
        Format, typer.Option("--format", help="json: everything; csv: a row a measurement, or a row an arm.")
    ] = Format.JSON,
) -> None:
    """A whole run as one document, with its measurements and traces."""
    with command.sentences():
        command.check_writable(output, "--output")
        document = command.run_store().export(run_id)
        if form is Format.CSV:
            from pricing import to_csv

            # No lone surrogate can be written as UTF-8; its code can.
            text = to_csv(table_rows(document)).encode("utf-8", "backslashreplace").decode("utf-8")
        else:
            text = json.dumps(document, ensure_ascii=True, allow_nan=False) + "\n"
        if output is None:
            typer.echo(text, nl=False)
        else:
            command.write(output, text)
            terminal.note(f"written to {output}")


@app.command()
def delete(
    run_ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids, or the starts of ids.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete runs with all that is stored of them: all of those named, or, when one is unknown, none."""
    with command.sentences():
        from engine import EngineError

        store = command.run_store()
        wanted = {run.id: run for run in map(store.find, run_ids)}
        if not yes:
            if sys.stdin is None or not sys.stdin.isatty():
                raise EngineError("there is no terminal to ask in; --yes deletes without asking")
            for run in wanted.values():
                terminal.note(f"{run.id}  {run.kind}  {run.status}  {_printable(run.label)}")
            if not typer.confirm(f"Delete {_count(len(wanted))}?", err=True):
                terminal.note("nothing was deleted")
                return
        terminal.note(f"deleted {_count(store.delete(wanted))}")


def _show_list(runs: list[Any]) -> None:
    table = Table()
    for name in ("id (begun, UTC)", "kind", "status"):
        table.add_column(name, no_wrap=True)
    for name in ("label", "result", "on"):
        table.add_column(name)
    for run in runs:
        cells = (run.id, run.kind, run.status, run.label, _result(run), _machine(run))
        table.add_row(*(Text(_printable(cell)) for cell in cells))
    terminal.out.print(table)


def _show_one(run: Any, held: dict[str, list[str]]) -> None:
    table = Table(show_header=False)
    table.add_column(style="dim")
    table.add_column()
    times = {"begun": run.created_at, "last written": run.updated_at, "ended": run.finished_at}
    record = run.as_dict()
    rows: list[tuple[str, object]] = [("id", run.id), ("kind", run.kind), ("status", run.status), ("label", run.label)]
    rows += [(name, f"{at:%Y-%m-%d %H:%M:%S} UTC" if at else terminal.NO_VALUE) for name, at in times.items()]
    rows += [("on", f"{_machine(run)} (hardware {run.hardware})"), ("result", _result(run))]
    for part in ("versions", "pair", "settings", "stats"):
        rows += _flat(record[part] or {}, f"{part}.")
    rows += [("measurements", len(held["measurement_keys"])), ("traces", ", ".join(held["trace_names"]) or None)]
    for name, value in rows:
        table.add_row(Text(_printable(name)), Text(terminal.NO_VALUE if value is None else _printable(str(value))))
    terminal.out.print(table)


def _machine(run: Any) -> str:
    return str(run.environment.get("gpu") or run.environment.get("cpu") or terminal.NO_VALUE)


def _result(run: Any) -> str:
    from engine.verify import LOSSY

    stats = run.stats or {}
    speed = stats.get("decode_tokens_per_second")
    result = f"{speed:.1f} tokens/s" if isinstance(speed, int | float) else terminal.NO_VALUE
    result = str(stats.get("verdict", result))
    return f"LOSSY: {result}" if (run.settings or {}).get("verifier") in LOSSY else result


def _printable(text: str) -> str:
    """Text of a prompt may hold what would drive the terminal."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def table_rows(document: Mapping[str, Any]) -> list[dict[str, object]]:
    """The export as flat rows: of its measurements, else of the arms, else its summary; `stats.alpha` names a value
    in a value. Each row says of which run it is."""
    run, command_document = document["run"], document["document"] or {}
    head = {"run_id": run["id"], "kind": run["kind"]}
    if document["measurements"]:
        found = [{"key": key, **_record(payload)} for key, payload in document["measurements"].items()]
    else:
        found = [_record(arm) for arm in command_document.get("arms") or []] or [_record(run["stats"] or {})]
    return [{**head, **dict(_flat(row))} for row in found]


def _record(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {"value": value}


def _flat(record: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in record.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", json.dumps(value) if isinstance(value, list) else value


def _count(number: int) -> str:
    return f"{number} run" if number == 1 else f"{number} runs"
