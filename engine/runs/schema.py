"""The tables. Times, names and JSON are ASCII text, so that SQLite and PostgreSQL hold and sort the same."""

import json
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Column, Dialect, ForeignKey, Index, LargeBinary, MetaData, String, Table, Text, TypeDecorator

# Raise it when a table changes: an older specscope then refuses the store, and a newer one brings it up to date.
VERSION = 1
# PostgreSQL sorts by its locale unless it is told otherwise; ids and times are to sort by their letters.
_Ascii = Text().with_variant(Text(collation="C"), "postgresql")


class AnyText(TypeDecorator[str]):
    """Text with whatever in it (U+0000, lone surrogates), as the inside of an ASCII JSON string."""

    impl = String
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> Any:
        return dialect.type_descriptor(_Ascii)

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else json.dumps(value, ensure_ascii=True)[1:-1]

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else str(json.loads(f'"{value}"'))


class Moment(TypeDecorator[datetime]):
    """An aware time, as ISO 8601 text in UTC with microseconds: sorts as it reads. SQLite would drop the zone."""

    impl = String
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> Any:
        return dialect.type_descriptor(_Ascii)

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:
        return None if value is None else value.astimezone(UTC).isoformat(timespec="microseconds")

    def process_result_value(self, value: str | None, dialect: Dialect) -> datetime | None:
        return None if value is None else datetime.fromisoformat(value)


# The prefix: a PostgreSQL database may hold other people's tables too.
metadata = MetaData()
meta = Table(
    "specscope_meta", metadata,
    Column("name", _Ascii, primary_key=True),
    Column("value", Text, nullable=False),
)  # fmt: skip
runs = Table(
    "specscope_runs", metadata,
    Column("id", _Ascii, primary_key=True),
    Column("kind", _Ascii, nullable=False),
    Column("label", AnyText, nullable=False),
    Column("status", _Ascii, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
    Column("finished_at", Moment),
    Column("specscope_version", AnyText),
    Column("configuration", _Ascii),
    Column("hardware", _Ascii, nullable=False),
    Column("settings", Text, nullable=False),
    Column("pair", Text, nullable=False),
    Column("environment", Text, nullable=False),
    Column("versions", Text, nullable=False),
    Column("stats", Text),
    Column("document", Text),
    Index("specscope_runs_by_time", "created_at"),
    Index("specscope_runs_by_configuration", "configuration"),
)  # fmt: skip
measurements = Table(
    "specscope_measurements", metadata,
    Column("run_id", _Ascii, ForeignKey("specscope_runs.id", ondelete="CASCADE"), primary_key=True),
    Column("key", AnyText, primary_key=True),
    Column("payload", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
)  # fmt: skip
traces = Table(
    "specscope_traces", metadata,
    Column("run_id", _Ascii, ForeignKey("specscope_runs.id", ondelete="CASCADE"), primary_key=True),
    Column("name", AnyText, primary_key=True),
    Column("data", LargeBinary, nullable=False),
    Column("created_at", Moment, nullable=False),
)  # fmt: skip
