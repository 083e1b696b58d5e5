"""What a stored run is, as the program sees it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, get_args

from engine.errors import EngineError

SCHEMA = "specscope.run"

Kind = Literal["generate", "bench", "sweep", "peers"]
Status = Literal["running", "complete", "stopped", "failed"]
KINDS: tuple[str, ...] = get_args(Kind)
STATUSES: tuple[str, ...] = get_args(Status)


@dataclass(frozen=True, slots=True)
class Run:
    """One run, without its document, measurements and traces, which may be large: the store has them by id.

    status: "running" until `finish` (also when the process was killed: `updated_at` tells how long nothing was
    heard of it); "stopped" was cut short and may be resumed; "complete" and "failed" are final. Times are UTC.
    hardware: `hardware_hash(environment)`. configuration: the hash under which `begin` resumes, None without a key.
    stats: the summary, None until there is one.
    """

    id: str
    kind: Kind
    label: str
    status: Status
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None
    specscope_version: str | None
    settings: dict[str, Any]
    pair: dict[str, Any]
    environment: dict[str, Any]
    hardware: str
    versions: dict[str, Any]
    configuration: str | None
    stats: dict[str, Any] | None

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready; times in ISO 8601."""
        values = {name: getattr(self, name) for name in self.__slots__}
        times = {n: v.isoformat() for n, v in values.items() if isinstance(v, datetime)}
        return {"schema": SCHEMA, **values, **times}


def software_versions(environment: Mapping[str, Any]) -> dict[str, Any]:
    return {"python": environment.get("python"), **(environment.get("versions") or {})}


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise EngineError(f"unknown {name} {value!r}: choose from {', '.join(choices)}")
