"""The run store. Every method is one transaction: what it writes is whole or not there, whatever stops the process."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, cast

from sqlalchemy import Connection, Table, delete, select, update

from engine.errors import EngineError
from engine.runs import codec, rows, schema
from engine.runs.connection import Database
from engine.runs.holder import HOLDER, held_elsewhere, this_process
from engine.runs.place import default_place, place_of
from engine.runs.records import KINDS, STATUSES, Kind, Run, Status, check_choice
from engine.trace import Trace

EXPORT_SCHEMA = "specscope.run_export"
Others = Literal["share", "refuse", "pass"]


class RunStore:
    """Runs in SQLite or PostgreSQL. url: None is `SPECSCOPE_DATABASE_URL`, else SQLite in the user's data folder.

    Safe with several threads and processes at once. Raises EngineError with one sentence when the store cannot be
    opened (then nothing is made), is busy or damaged, and for values that JSON cannot hold.
    """

    def __init__(self, url: str | None = None) -> None:
        self._db = Database(default_place() if url is None else place_of(url))

    @property
    def place(self) -> str:
        """Where the store is, in words: a file, or a server and database. Holds no password."""
        return self._db.place.name

    def save(
        self,
        kind: Kind,
        *,
        label: str = "",
        settings: Mapping[str, Any],
        pair: Mapping[str, Any],
        environment: Mapping[str, Any] | None = None,
        status: Status = "complete",
        stats: Mapping[str, Any] | None = None,
        document: Mapping[str, Any] | None = None,
        measurements: Mapping[str, Any] | None = None,
        traces: Mapping[str, Trace | Mapping[str, Any]] | None = None,
    ) -> Run:
        """A finished run, all at once. environment: None is this machine's; see `Run` and `begin` for the rest."""
        values = rows.run_values(kind, label, settings, pair, environment, None)
        values |= rows.ending(status, stats, document)
        points = [rows.measurement_values(key, payload) for key, payload in (measurements or {}).items()]
        films = [rows.trace_values(name, trace) for name, trace in (traces or {}).items()]
        with self._db.write() as connection:
            run_id = rows.insert_run(connection, values)
            for table, children in ((schema.measurements, points), (schema.traces, films)):
                if children:
                    connection.execute(table.insert(), [{**child, "run_id": run_id} for child in children])
        return self.find(run_id)

    def begin(
        self,
        kind: Kind,
        *,
        label: str = "",
        settings: Mapping[str, Any],
        pair: Mapping[str, Any],
        environment: Mapping[str, Any] | None = None,
        key: Any = None,
        others: Others = "share",
    ) -> Run:
        """A run to be filled by `put` and ended by `finish`.

        key: JSON that says what is measured (grid, prompts, seed). An unfinished run ("running" or "stopped") of the
        same kind, key, pair, hardware, threads and software versions is taken up again; of several the latest. What
        it already holds is in `measurements`; its own `settings` (with the seed it drew) stand, not those given here.
        None always begins a new run. others: of a run that another living process is at, "share" takes it all the
        same, so that two which begin one key at once get one run; "refuse" raises EngineError; "pass" leaves it alone
        and begins another beside it. The last two keep the process in the run's settings; see `engine.runs.holder`.
        """
        if others != "share":
            settings = {**settings, HOLDER: this_process()}
        values = rows.run_values(kind, label, settings, pair, environment, key)
        configuration = values["configuration"]
        # Behind a lock of this configuration: who asks second finds what the first has begun.
        lock = None if configuration is None else int(configuration[:15], 16)
        with self._db.write(lock) as connection:
            found = _unfinished(connection, configuration, others)
            if found is None:
                run_id = rows.insert_run(connection, values)
            else:
                run_id, own = found
                again = {"status": "running", "finished_at": None, "updated_at": values["updated_at"]}
                if others != "share":
                    again["settings"] = codec.to_json({**own, HOLDER: settings[HOLDER]}, "the settings")
                connection.execute(update(schema.runs).where(schema.runs.c.id == run_id).values(again))
        return self.find(run_id)

    def put(self, run_id: str, key: str, payload: object) -> bool:
        """Store one measurement under a key of its own. The first write wins: a second one under the same key changes
        nothing and returns False. EngineError when the run is unknown, complete or failed."""
        return self._add(run_id, schema.measurements, "key", rows.measurement_values(key, payload))

    def add_trace(self, run_id: str, name: str, trace: Trace | Mapping[str, Any]) -> bool:
        """Store a trace (or its JSON form) under a name; the first write wins, as in `put`."""
        return self._add(run_id, schema.traces, "name", rows.trace_values(name, trace))

    def finish(
        self,
        run_id: str,
        status: Status = "complete",
        document: Mapping[str, Any] | None = None,
        stats: Mapping[str, Any] | None = None,
    ) -> Run:
        """End a run, with its document and summary in the same transaction. A "stopped" one may be resumed by `begin`
        or ended again; EngineError when it is complete or failed already."""
        values = rows.ending(status, stats, document)
        with self._db.write() as connection:
            rows.lock_open(connection, run_id)
            connection.execute(update(schema.runs).where(schema.runs.c.id == run_id).values(values))
        return self.find(run_id)

    def delete(self, run_ids: Iterable[str]) -> int:
        """Delete runs with all they hold: all of them, or none when one is unknown. Returns how many."""
        wanted = sorted(set(run_ids))
        with self._db.write() as connection:
            for run_id in wanted:
                rows.require(connection, run_id)
            connection.execute(delete(schema.runs).where(schema.runs.c.id.in_(wanted)))  # and what hangs on them
        return len(wanted)

    def runs(
        self,
        kind: str | None = None,
        *,
        status: str | None = None,
        hardware: str | None = None,
        limit: int | None = None,
    ) -> list[Run]:
        """The latest first. hardware: `hardware_hash(environment)`, or the start of one."""
        c = schema.runs.c
        query = select(*rows.SUMMARY).order_by(c.created_at.desc(), c.id.desc())
        if kind is not None:
            check_choice("kind of run", kind, KINDS)
            query = query.where(c.kind == kind)
        if status is not None:
            check_choice("status", status, STATUSES)
            query = query.where(c.status == status)
        if hardware is not None:
            query = query.where(c.hardware.startswith(hardware, autoescape=True))
        if limit is not None:
            if limit < 1:
                raise EngineError(f"the limit must be a whole number of at least 1, not {limit}")
            query = query.limit(limit)
        with self._db.read() as connection:
            return [rows.run_of(row) for row in connection.execute(query).mappings()]

    def find(self, part: str) -> Run:
        """The run of an id, of the start of one, or of its last six letters. EngineError when there is none, or
        several (it names them)."""
        with self._db.read() as connection:
            return rows.find(connection, part)

    def document(self, run_id: str) -> dict[str, Any] | None:
        """The JSON document of the command; None while there is none."""
        with self._db.read() as connection:
            rows.require(connection, run_id)
            return rows.document_of(connection, run_id)

    def measurements(self, run_id: str) -> dict[str, Any]:
        """Payloads by key, in the order in which they were stored."""
        with self._db.read() as connection:
            rows.require(connection, run_id)
            return rows.measurements_of(connection, run_id)

    def traces(self, run_id: str) -> list[str]:
        """The names of a run's traces, in the order in which they were stored."""
        t = schema.traces.c
        with self._db.read() as connection:
            rows.require(connection, run_id)
            return list(connection.scalars(select(t.name).where(t.run_id == run_id).order_by(t.created_at, t.name)))

    def trace(self, run_id: str, name: str) -> dict[str, Any]:
        """A trace as JSON, as `Trace.as_dict` gave it (`Trace.from_json(json.dumps(...))` reads it)."""
        t = schema.traces.c
        with self._db.read() as connection:
            rows.require(connection, run_id)
            data = connection.scalar(select(t.data).where(t.run_id == run_id, t.name == name))
        if data is None:
            raise EngineError(f"run {run_id} has no trace {name!r}")
        return cast(dict[str, Any], codec.unpack(data, f"trace {name!r}"))

    def export(self, part: str) -> dict[str, Any]:
        """All of one run as one JSON document, as it was at one moment: the record, its document, measurements
        `{key: payload}` and traces `{name: trace}`."""
        t = schema.traces.c
        with self._db.read() as connection:
            run = rows.find(connection, part)
            films = connection.execute(
                select(t.name, t.data).where(t.run_id == run.id).order_by(t.created_at, t.name)
            ).all()
            return {
                "schema": EXPORT_SCHEMA,
                "run": run.as_dict(),
                "document": rows.document_of(connection, run.id),
                "measurements": rows.measurements_of(connection, run.id),
                "traces": {name: codec.unpack(data, f"trace {name!r}") for name, data in films},
            }

    def _add(self, run_id: str, table: Table, name: str, values: dict[str, Any]) -> bool:
        with self._db.write() as connection:
            rows.lock_open(connection, run_id)
            mine = (table.c.run_id == run_id, table.c[name] == values[name])
            if connection.scalar(select(table.c.run_id).where(*mine)) is not None:
                return False
            connection.execute(table.insert().values(run_id=run_id, **values))
            heard = {"updated_at": values["created_at"]}
            connection.execute(update(schema.runs).where(schema.runs.c.id == run_id).values(heard))
            return True


def _unfinished(connection: Connection, configuration: str | None, others: Others) -> tuple[str, dict[str, Any]] | None:
    """The latest run of this configuration that may be gone on with, and its settings."""
    if configuration is None:
        return None
    c = schema.runs.c
    same = (c.configuration == configuration, c.status.in_(("running", "stopped")))
    query = select(c.id, c.kind, c.status, c.settings, c.updated_at).where(*same)
    # Held to the end of the transaction, so that no other process ends the run while it is taken up.
    latest = query.order_by(c.created_at.desc(), c.id.desc()).with_for_update()
    for row in connection.execute(latest if others == "pass" else latest.limit(1)):
        settings: dict[str, Any] = codec.from_json(row.settings, f"run {row.id}")
        holder = settings.get(HOLDER) if others != "share" and row.status == "running" else None
        if holder is None or not held_elsewhere(holder, row.updated_at):
            return row.id, settings
        if others == "refuse":
            since = datetime.fromisoformat(holder["since"])
            raise EngineError(
                f"another {row.kind} with these options seems to be running since {since:%Y-%m-%d %H:%M} UTC (process "
                f"{holder['pid']}, run {row.id}); wait for it, or use --fresh to measure beside it"
            )
    return None
