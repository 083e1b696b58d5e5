"""What `specscope prices` does, apart from its options: choose prices, compare and keep them, records for JSON."""

from collections.abc import Collection, Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any, get_args

import typer

from app import command, own_prices, price_rates, terminal, terminal_prices
from app.whole_file import write_whole
from engine import EngineError
from pricing import PriceDiff, PriceRow, PriceTable, Reading, accept, diff_tables, import_prices, prices_to_csv
from pricing.rows import Commitment

_LINES_TOLD = 10


def list_prices(chosen: dict[str, Any], to: Any, as_json: bool) -> None:
    table, day = _chosen(**chosen)
    converted = price_rates.shown_in(table, to)
    if not as_json:
        terminal_prices.show_prices(table, converted, day)
        return
    gone = table.superseded(day)
    prices = [{**_record(r, day, r in gone), "converted": c} for r, c in zip(table, converted, strict=True)]
    command.print_json({"schema": "specscope.prices", "on": str(day), "table": _named(table), "prices": prices})


def import_file(
    file: Path, currency: str | None, decimal: str | None, as_of: str | None, sheet: str | None, accepted: bool,
    close_gone: bool, as_json: bool,
) -> None:  # fmt: skip
    _check_close(close_gone, accepted)
    if decimal not in (None, ",", "."):
        raise EngineError(f"--decimal takes , or . and not {decimal!r}")
    read = import_prices(
        file,
        currency=price_rates.known_currency(currency, "--currency") if currency is not None else None,
        decimal=decimal,  # type: ignore[arg-type]
        as_of=price_rates.calendar_day(as_of, "--as-of") if as_of is not None else None,
        sheet=sheet,
    )
    document: dict[str, Any] = {"schema": "specscope.prices.import", "file": read.file, "sha256": read.sha256}
    readings = [{"line": r.line, "column": r.column, "text": r.text, "read_as": r.read_as} for r in read.readings]
    document |= {"readings": readings, "hidden_lines": list(read.hidden)}
    if read.hidden:
        terminal.note(_hidden(read.hidden))
    _compare(read.table, None, accepted, close_gone, document, as_json, read.readings)


def _hidden(lines: Sequence[int]) -> str:
    listed = ", ".join(map(str, lines[:_LINES_TOLD])) + (", ..." if len(lines) > _LINES_TOLD else "")
    rows = "1 row that the workbook hides was" if len(lines) == 1 else f"{len(lines)} rows that the workbook hides were"
    return f"{rows} read like the others (line {listed}); delete them from the file if they are not meant"


def live(provider: str, gpus: list[str] | None, accepted: bool, close_gone: bool, as_json: bool) -> None:
    from app.live_prices import read_live

    _check_close(close_gone, accepted)
    found = read_live(provider, own_prices.load(), gpus=gpus)
    for said in found.left_out:
        terminal.note(f"left out: {said}")
    document = {"schema": "specscope.prices.live", "provider": provider, "left_out": list(found.left_out)}
    _compare(found.table, found.covers, accepted, close_gone, document, as_json)


def export(chosen: dict[str, Any], output: Path | None, form: str, as_json: bool) -> None:
    command.check_writable(output, "--output")
    table, day = _chosen(**chosen)
    text = prices_to_csv(table, form="turkish" if form == "csv-tr" else "plain")
    if output is not None:
        write_whole(output, text.encode("utf-8"))  # as bytes: the line ends are part of the format
        terminal.note(f"{len(table)} prices written to {output}")
    if as_json:
        named = {"on": str(day), "exported_on": str(date.today()), "table": _named(table), "format": form}
        file = str(output) if output is not None else None
        command.print_json({"schema": "specscope.prices.export", **named, "output": file, "text": text})
    elif output is None:
        typer.echo(text, nl=False)


def _chosen(
    provider: Collection[str] | None,
    gpu: Collection[str] | None,
    commitment: Collection[str] | None,
    on: str | None,
    everything: bool,
) -> tuple[PriceTable, date]:
    """The prices that the filters leave, and the day. A name that no price has is the user's to mend, not an empty
    table."""
    if everything and on is not None:
        raise EngineError("--all shows the prices of every day; give it without --on")
    day = price_rates.calendar_day(on, "--on") if on is not None else date.today()
    held = own_prices.load()
    asked = {
        "provider": _known(provider, {row.provider for row in held}, "--provider"),
        "gpu": _known(gpu, {name for row in held for name in (row.gpu, row.gpu_key)}, "--gpu"),
        "commitment": _known(commitment, set(get_args(Commitment)), "--commitment"),
    }
    matching = held.select(**asked, include_superseded=True)  # type: ignore[arg-type]
    table = matching if everything else matching.on(day)
    if not len(table):
        raise EngineError(f"no price that matches was in force on {day}; give other filters, or --all")
    if not everything:
        later = len({(r.provider, r.instance, r.commitment, r.region) for r in matching if r.as_of > day})
        if later:
            terminal.note(f"prices that were first read after {day} are left out ({later}), unless they replaced one")
        if len(table) < len(matching):
            terminal.note(f"{len(table)} of {len(matching)} prices were in force on {day}; --all shows every one")
    return table, day


def _known(asked: Collection[str] | None, names: set[str], option: str) -> list[str] | None:
    if not asked:
        return None
    by_lower = {name.lower(): name for name in names}
    for name in asked:
        if name.lower() not in by_lower:
            raise EngineError(f"{option}: there is no price of {name!r}; there are {', '.join(sorted(names))}")
    return [by_lower[name.lower()] for name in asked]


def _check_close(close_gone: bool, accepted: bool) -> None:
    if close_gone and not accepted:
        raise EngineError("--close-gone changes your own prices; give --accept too")


def _compare(
    new: PriceTable,
    covers: Any,
    accepted: bool,
    close_gone: bool,
    document: dict[str, Any],
    as_json: bool,
    readings: Sequence[Reading] = (),
) -> None:
    """Show what `new` changes and, when that is accepted, keep it."""
    kept: Path | None = None
    if accepted:
        with own_prices.locked():  # read again within: what is shown is what is taken over
            difference = diff_tables(own_prices.load(), new, covers=covers)
            taken = [entry for entry in difference.entries if close_gone or entry.what != "gone"]
            if taken:
                kept = own_prices.keep(accept(difference, taken))
    else:
        difference = diff_tables(own_prices.load(), new, covers=covers)
    if as_json:
        command.print_json({**document, "diff": _diff_record(difference), "kept_in": str(kept) if kept else None})
        return
    if readings:
        terminal_prices.show_readings(readings)
    terminal_prices.show_diff(difference)
    if kept is not None:
        terminal.note(f"taken over into {kept}")
    elif accepted:
        terminal.note("there is nothing to take over")
    elif difference.entries:
        terminal.note("nothing was changed; --accept takes them over")


def _diff_record(difference: PriceDiff) -> dict[str, Any]:
    def record(row: PriceRow | None) -> dict[str, Any] | None:
        return None if row is None else _record(row, difference.day, row.is_superseded(difference.day))

    def records(entries: Iterable[Any]) -> list[dict[str, Any]]:
        return [{"old": record(e.old), "new": record(e.new), "share": e.share} for e in entries]

    parts = ("added", "changed", "confirmed", "older", "gone")
    return {part: records(getattr(difference, part)) for part in parts} | {"unchanged": difference.unchanged}


def _record(row: PriceRow, day: date, superseded: bool) -> dict[str, Any]:
    derived = {"per_gpu_hour": row.per_gpu_hour, "usd_per_hour": row.usd_per_hour, "source": row.source}
    return {**row.model_dump(mode="json"), **derived, "stale": row.is_stale(day), "superseded": superseded}


def _named(table: PriceTable) -> dict[str, str]:
    return {"file": table.file, "sha256": table.sha256}
