"""Files that people name: read whole, up to a limit, and only where reading comes to an end."""

from __future__ import annotations

import errno
import stat
from pathlib import Path


def read_regular(file: Path, most: int) -> bytes:
    """At most `most` + 1 bytes, so that more than `most` says that it is too large. Raises OSError: a pipe would be
    waited for, and a device has no end."""
    mode = file.stat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise OSError(errno.EINVAL, "it is a pipe or a device; save what it gives as a file and name that")
    with file.open("rb") as stream:
        return stream.read(most + 1)
