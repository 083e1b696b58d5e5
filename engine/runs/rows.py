"""Rows of the three tables: made from values and read back. Each function works inside the caller's transaction."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

from sqlalchemy import Connection, RowMapping, or_, select

from engine.environment import environment as this_machine
from engine.errors import EngineError
from engine.runs import codec, schema
from engine.runs.records import KINDS, Run, check_choice, software_versions
from engine.trace import Trace

LONGEST_NAME = 200  # characters of a key or a trace's name: PostgreSQL's index takes 2704 bytes, escaped
SUMMARY = [column for column in schema.runs.c if column.name != "document"]
_JSON = ("settings", "pair", "environment", "versions", "stats")
_ENDINGS = ("complete", "stopped", "failed")
_SHOWN_CANDIDATES = 5


def run_values(
    kind: str,
    label: str,
    settings: Mapping[str, Any],
    pair: Mapping[str, Any],
    environment: Mapping[str, Any] | None,
    key: Any,
) -> dict[str, Any]:
    """The columns of a run that begins now, without its id."""
    check_choice("kind of run", kind, KINDS)
    where = dict(environment) if environment is not None else this_machine(str(pair.get("device") or "cpu"))
    versions, hardware = software_versions(where), codec.hardware_hash(where)
    # Points that were measured under another of these are not of one series.
    what = {"kind": kind, "key": key, "pair": dict(pair), "hardware": hardware, "threads": where.get("threads"),
            "versions": versions}  # fmt: skip
    now = datetime.now(UTC)
    return {
        "kind": kind,
        "label": _text("the label of a run", label),
        "status": "running",
        "created_at": now,
        "updated_at": now,
        "specscope_version": versions.get("specscope"),
        "configuration": None if key is None else codec.digest(what, "the key of the run"),
        "hardware": hardware,
        "settings": codec.to_json(dict(settings), "the settings"),
        "pair": codec.to_json(dict(pair), "the pair"),
        "environment": codec.to_json(where, "the environment"),
        "versions": codec.to_json(versions, "the environment"),
    }


def ending(status: str, stats: Mapping[str, Any] | None, document: Mapping[str, Any] | None) -> dict[str, Any]:
    """The columns that an end sets."""
    check_choice("ending of a run", status, _ENDINGS)
    now = datetime.now(UTC)
    values: dict[str, Any] = {"status": status, "updated_at": now, "finished_at": now}
    if stats is not None:
        values["stats"] = codec.to_json(dict(stats), "the summary")
    if document is not None:
        values["document"] = codec.to_json(dict(document), "the document")
    return values


def measurement_values(key: str, payload: object) -> dict[str, Any]:
    text = codec.to_json(payload, f"measurement {key!r}")
    return {"key": _name("the key of a measurement", key), "payload": text, "created_at": datetime.now(UTC)}


def trace_values(name: str, trace: Trace | Mapping[str, Any]) -> dict[str, Any]:
    data = codec.pack(trace.as_dict() if isinstance(trace, Trace) else dict(trace), f"trace {name!r}")
    return {"name": _name("the name of a trace", name), "data": data, "created_at": datetime.now(UTC)}


def insert_run(connection: Connection, values: dict[str, Any]) -> str:
    """Returns the id that the run was given."""
    id_ = schema.runs.c.id
    run_id = codec.new_id(values["created_at"])
    while connection.scalar(select(id_).where(id_ == run_id)) is not None:
        run_id = codec.new_id(values["created_at"])
    connection.execute(schema.runs.insert().values(id=run_id, **values))
    return run_id


def lock_open(connection: Connection, run_id: str) -> None:
    """Hold the run's row to the end of the transaction. EngineError when it may not be written to any more."""
    c = schema.runs.c
    status = connection.scalar(select(c.status).where(c.id == run_id).with_for_update())
    if status is None:
        raise _unknown(run_id)
    if status in ("complete", "failed"):
        raise EngineError(f"run {run_id} is {status}, so nothing can be added to it; begin another")


def require(connection: Connection, run_id: str) -> None:
    if connection.scalar(select(schema.runs.c.id).where(schema.runs.c.id == run_id)) is None:
        raise _unknown(run_id)


def find(connection: Connection, part: str) -> Run:
    """By id, the start of one, or its last letters."""
    c, wanted = schema.runs.c, part.strip().lower()
    if not wanted or not all(letter.isascii() and (letter.isalnum() or letter == "-") for letter in wanted):
        raise _unknown(part)
    exact = connection.execute(select(*SUMMARY).where(c.id == wanted)).mappings().first()
    if exact is not None:  # also the quick way: by the index
        return run_of(exact)
    query = select(*SUMMARY).where(or_(c.id.startswith(wanted), c.id.endswith(f"-{wanted}")))
    rows = connection.execute(query.order_by(c.id.desc()).limit(_SHOWN_CANDIDATES + 1)).mappings().all()
    if not rows:
        raise _unknown(part)
    if len(rows) > 1:
        some = ", ".join(row["id"] for row in rows[:_SHOWN_CANDIDATES])
        more = " and others" if len(rows) > _SHOWN_CANDIDATES else ""
        raise EngineError(f"{wanted!r} could be several runs: {some}{more}; give more of the id")
    return run_of(rows[0])


def run_of(row: RowMapping) -> Run:
    values = dict(row)
    for name in _JSON:
        text = values[name]
        values[name] = None if text is None else codec.from_json(text, f"run {values['id']}")
    return Run(**values)


def document_of(connection: Connection, run_id: str) -> dict[str, Any] | None:
    text = connection.scalar(select(schema.runs.c.document).where(schema.runs.c.id == run_id))
    return None if text is None else cast(dict[str, Any], codec.from_json(text, f"the document of run {run_id}"))


def measurements_of(connection: Connection, run_id: str) -> dict[str, Any]:
    m = schema.measurements.c
    query = select(m.key, m.payload).where(m.run_id == run_id).order_by(m.created_at, m.key)
    return {key: codec.from_json(text, f"measurement {key!r}") for key, text in connection.execute(query)}


def _unknown(run_id: str) -> EngineError:
    return EngineError(f"there is no run {run_id!r} in the store; `specscope runs list` shows those there are")


def _name(what: str, value: str) -> str:
    if not _text(what, value) or len(value) > LONGEST_NAME:
        raise EngineError(f"{what} must be 1 to {LONGEST_NAME} characters, not {len(value)}")
    return value


def _text(what: str, value: str) -> str:
    if not isinstance(value, str):
        raise EngineError(f"{what} must be text, not {value!r}")
    return value
