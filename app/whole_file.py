"""A file is written whole or not at all: what stood there before is lost only to what takes its place."""

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """As `replace`. Raises EngineError with one sentence that names the file; what stood there is then what it was."""
    from engine import EngineError

    try:
        replace(path, content)
    except OSError as error:
        before = "what it held before is untouched" if path.exists() else "no part of it was left behind"
        raise EngineError(f"{path} could not be written ({error.strerror or error}); {before}") from None


def replace(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Into a new file beside it, which then takes its name. A link stays a link, and a file keeps its permissions;
    mode: of one that is new, less what the user's umask takes. A device or a pipe holds nothing to lose and is written
    to as it is. Raises OSError."""
    held = _status(path)
    if held is not None and not stat.S_ISREG(held.st_mode):
        path.write_bytes(content)
        return
    file = Path(os.path.realpath(path))
    partial = file.with_name(f".{secrets.token_hex(8)}.part")  # short: the file's own name may be as long as one can be
    handle = os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0), mode)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        if held is not None:
            partial.chmod(stat.S_IMODE(held.st_mode))
        partial.replace(file)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise


def _status(path: Path) -> os.stat_result | None:
    """Of what a link leads to; None where nothing is."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None
