"""The database behind the store: opened, its tables made once, its refusals turned into sentences.

SQLite: WAL, so that readers and one writer do not wait for each other, and BEGIN IMMEDIATE for every write, so that
two writers queue (for up to `BUSY_S`) and never meet half-way. PostgreSQL: ordinary transactions; who makes tables
or begins a run under a key holds an advisory lock until it commits.
"""

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, Engine, NullPool, create_engine, event, inspect, select, text
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from engine.errors import EngineError
from engine.runs import schema
from engine.runs.place import VARIABLE, Place

BUSY_S = 30.0
CONNECT_S = 10
_MAKING_TABLES = 0x5350_4543  # any number; the same in every process


class Database:
    """A store that is ready: tables made, version known. Connections live as long as one transaction, so the object
    may be used from any thread and behind a fork. Raises EngineError with one sentence."""

    def __init__(self, place: Place) -> None:
        self.place = place
        with self._explained():
            engine = _engine(place)
            self._writer = engine.execution_options(specscope_write=True)
            # An export reads three tables: all as they were at one moment. SQLite's readers see that anyway.
            self._reader = engine if place.is_sqlite else engine.execution_options(isolation_level="REPEATABLE READ")
            self._prepare()

    @contextlib.contextmanager
    def write(self, lock: int | None = None) -> Iterator[Connection]:
        """One transaction: all of it is stored, or, whatever happens, nothing. lock: PostgreSQL's advisory lock, held
        to the end of it; SQLite has a single writer anyway."""
        with self._explained(), self._writer.begin() as connection:
            if lock is not None and not self.place.is_sqlite:
                connection.execute(text("SELECT pg_advisory_xact_lock(:n)"), {"n": lock})
            yield connection

    @contextlib.contextmanager
    def read(self) -> Iterator[Connection]:
        """One transaction that sees the store as it was at its first query."""
        with self._explained(), self._reader.begin() as connection:
            yield connection

    def _prepare(self) -> None:
        if self.place.is_sqlite:
            _write_ahead(self._reader)
        with self.read() as connection:
            if inspect(connection).has_table(schema.meta.name):
                self._check_version(connection)
                return
        with self.write(_MAKING_TABLES) as connection:
            # Another process may have been first: what is there by now is left alone.
            schema.metadata.create_all(connection)
            if _version(connection) is None:
                connection.execute(schema.meta.insert().values(name="schema_version", value=str(schema.VERSION)))
            self._check_version(connection)

    def _check_version(self, connection: Connection) -> None:
        found = _version(connection)
        if found is None or not found.isdecimal():
            raise EngineError(f"the run store at {self.place.name} is damaged: it does not say its version")
        if int(found) > schema.VERSION:
            raise EngineError(
                f"the run store at {self.place.name} was written by a newer specscope (schema {found}, this one reads "
                f"{schema.VERSION}); update specscope or name another store in {VARIABLE}"
            )

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """What is the user's to mend is one sentence; a fault of ours keeps its traceback. Nothing is chained: a
        driver's message may hold what the URL held."""
        try:
            yield
        except (DBAPIError, sqlite3.Error) as error:
            why = _sqlite_says(self.place, error) if self.place.is_sqlite else _postgresql_says(self.place, error)
            if why is None:
                raise
            raise EngineError(why) from None


def _version(connection: Connection) -> str | None:
    return connection.scalar(select(schema.meta.c.value).where(schema.meta.c.name == "schema_version"))


def _engine(place: Place) -> Engine:
    # No pool: a connection that outlives its transaction breaks behind a fork. hide_parameters: prompts are private.
    common: dict[str, Any] = {"poolclass": NullPool, "hide_parameters": True}
    if place.is_sqlite:
        _make_folder(place)
        engine = create_engine(place.url, connect_args={"timeout": BUSY_S}, **common)
        event.listen(engine, "connect", _on_connect)
        event.listen(engine, "begin", _on_begin)
        return engine
    asked = place.url.query
    ours: dict[str, Any] = {"connect_timeout": CONNECT_S, "application_name": "specscope", "client_encoding": "utf8"}
    try:
        return create_engine(place.url, connect_args={k: v for k, v in ours.items() if k not in asked}, **common)
    except ImportError:
        raise EngineError(
            "a run store in PostgreSQL needs the driver psycopg 3: pip install 'specscope[postgres]'"
        ) from None


def _make_folder(place: Place) -> None:
    folder = place.file.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EngineError(
            f"the folder {folder} of the run store cannot be made ({os.strerror(error.errno or 0)}); "
            "set SPECSCOPE_DATA to a folder that can be written"
        ) from None
    if place.file.is_dir():
        raise EngineError(f"the run store {place.name} is a folder; name a file in it, as {place.name}/runs.db")


def _on_connect(connection: sqlite3.Connection, _: object) -> None:
    # Python's own BEGIN comes late (before the first INSERT, never before DDL): ours are sent by _on_begin.
    connection.isolation_level = None
    connection.execute("PRAGMA foreign_keys = ON")


def _on_begin(connection: Connection) -> None:
    write = connection.get_execution_options().get("specscope_write")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def _write_ahead(engine: Engine) -> None:
    """WAL is a property of the file, set once. SQLite does not wait for a lock here, so we do."""
    connection = engine.raw_connection()
    give_up = time.monotonic() + BUSY_S
    try:
        while True:
            try:
                _set_wal(connection.cursor())
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > give_up:
                    raise
                time.sleep(0.01)
    finally:
        connection.close()


def _set_wal(cursor: Any) -> None:
    if cursor.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        cursor.execute("PRAGMA journal_mode = WAL")


def _sqlite_says(place: Place, error: Exception) -> str | None:
    said = str(getattr(error, "orig", error))
    if "locked" in said:
        return f"the run store {place.name} was held by another process for {BUSY_S:.0f} s; try again"
    if any(words in said for words in ("not a database", "malformed", "no such table", "no such column")):
        return f"{place.name} is damaged or no run store ({said}); move it away and a new one is made"
    if any(words in said for words in ("unable to open", "readonly", "read-only")):
        return f"the run store {place.name} cannot be written ({said}); set SPECSCOPE_DATA to a folder that can"
    if any(words in said for words in ("disk is full", "disk I/O")):
        return f"the run store {place.name} cannot be written ({said}); look after that disk"
    return None


def _postgresql_says(place: Place, error: Exception) -> str | None:
    # psycopg's errors carry SQLSTATE, except where no connection came about.
    original = getattr(error, "orig", error)
    state, said = getattr(original, "sqlstate", None) or "", place.redacted(str(original))
    if state == "28P01" or "password authentication failed" in said:
        return f"the {place.name} refused the user or the password; correct them in {VARIABLE}"
    if state in ("42501", "25006"):
        return f"the {place.name} does not let this user write ({said}); grant CREATE on its schema or use another"
    if state in ("42P01", "42703"):
        return f"the {place.name} holds a damaged run store ({said}); use another"
    if state.startswith("53"):
        return f"the {place.name} has no room ({said})"
    unreachable = not state and (isinstance(error, OperationalError | InterfaceError) or "connection option" in said)
    if unreachable or state.startswith(("08", "28", "57", "3D")):
        return f"the {place.name} cannot be used ({said}); start it or correct {VARIABLE}"
    return None
