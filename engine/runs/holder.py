"""Which process is at a run, so that two do not measure the same one and a killed one's is gone on with at once."""

import hashlib
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

# Where a run's settings name the process that is at it.
HOLDER = "process"
# Of a process on another machine only its last write is known; a killed one's run is free after so long.
QUIET_S = 60.0


def this_process() -> dict[str, Any]:
    """JSON-ready. The host is a hash: no name is kept."""
    pid = os.getpid()
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"pid": pid, "started": _started(pid), "host": _host(), "since": now}


def held_elsewhere(holder: Mapping[str, Any], heard_at: datetime) -> bool:
    """Is another living process at the run? heard_at: when it last wrote."""
    if holder["host"] == _host() and holder["pid"] == os.getpid():
        return False
    if holder["host"] != _host() or os.name == "nt":  # Windows' os.kill ends what it asks about
        return (datetime.now(UTC) - heard_at).total_seconds() < QUIET_S
    return _lives(holder["pid"], holder["started"])


def _lives(pid: int, started: str | None) -> bool:
    if started is not None:
        return _started(pid) == started  # another process may have got the number since
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True  # somebody else's
    except OSError:
        return False
    return True


def _started(pid: int) -> str | None:
    """When a living process began, in Linux' ticks since the machine did; None where nothing tells."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, *rest = text.rpartition(")")[2].split()  # behind the name, which may hold anything
    return None if state in "ZX" else rest[18]


def _host() -> str:
    return hashlib.sha256(platform.node().encode()).hexdigest()[:12]
