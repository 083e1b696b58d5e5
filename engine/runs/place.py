"""Where the run store is: a URL, checked, and a name for it that may be shown. No password is ever in a message."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from engine.errors import EngineError
from engine.user_data import data_dir

VARIABLE = "SPECSCOPE_DATABASE_URL"
_FORMS = "sqlite:////folder/runs.db or postgresql://user:password@host:5432/database"


@dataclass(frozen=True, slots=True)
class Place:
    """url: with the password, so never shown. name: what messages call it."""

    url: URL = field(repr=False)
    name: str

    @property
    def is_sqlite(self) -> bool:
        return self.url.get_backend_name() == "sqlite"

    @property
    def file(self) -> Path:
        return Path(str(self.url.database))

    def redacted(self, text: str) -> str:
        """A driver's own message on one line, without any secret of the URL."""
        text = " ".join(text.split())
        query = self.url.query
        for secret in (self.url.password, *(query.get(n) for n in ("password", "sslpassword", "passfile"))):
            if isinstance(secret, str) and secret:
                text = text.replace(secret, "***")
        return text


def default_place() -> Place:
    """`SPECSCOPE_DATABASE_URL`, else SQLite in the data folder."""
    named = os.environ.get(VARIABLE, "").strip()
    return place_of(named) if named else _file(data_dir() / "runs.db")


def place_of(text: str) -> Place:
    """A checked place from a URL. EngineError with one sentence; the text itself is not repeated, as it may hold a
    password."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):  # ValueError: a port that is no number
        raise EngineError(f"the database URL cannot be read; it looks like {_FORMS} ({VARIABLE})") from None
    kind, _, driver = url.drivername.partition("+")
    if kind == "sqlite" and driver in ("", "pysqlite"):
        return _sqlite(url)
    if kind in ("postgres", "postgresql"):
        return _postgresql(url)
    raise EngineError(f"the run store is kept in SQLite or PostgreSQL; {VARIABLE} looks like {_FORMS}")


def _sqlite(url: URL) -> Place:
    if not url.database or url.database == ":memory:":
        raise EngineError(
            "a run store in memory would be lost with the process; name a file, as sqlite:////folder/runs.db"
        )
    if url.host or url.username or url.query:
        raise EngineError(
            "a SQLite URL holds a path and nothing else: sqlite:////folder/runs.db (four slashes, then the path)"
        )
    return _file(Path(url.database).absolute())


def _file(path: Path) -> Place:
    if "\0" in str(path):
        raise EngineError("the path of the run store holds U+0000, which no file name can")
    return Place(URL.create("sqlite+pysqlite", database=str(path)), _shown(str(path)))


def _postgresql(url: URL) -> Place:
    # With an @ or : left as it is in the password, a part of it would be taken for the host, and shown.
    if any("@" in (part or "") for part in (url.host, url.database)):
        raise EngineError("the user or password in the database URL holds an @ as it is; write it as %40")
    url = url.set(drivername="postgresql+psycopg")
    where = url.query.get("host")
    host = url.host or (where if isinstance(where, str) else None) or "the local socket"
    port = f":{url.port}" if url.port else ""
    return Place(url, _shown(f"PostgreSQL database {url.database or url.username or ''} at {host}{port}"))


def _shown(text: str) -> str:
    return text if text.isprintable() else repr(text)[1:-1]
