"""The cache on disk: one folder a model, whole or not there at all.

    <cache>/models/<key>/        config.json, model.safetensors, tokenizer files, specscope.json (manifest)
    <cache>/files/<name>         single files that other engines read, such as a GGUF
    <cache>/partial/<key>/<n>/   work in progress; only the holder of the key's lock writes here
    <cache>/locks/<key>.lock     held by the kernel for a living process: a killed one never leaves it locked

A build happens in `partial/`, its manifest (file sizes) is written last, and one rename moves it to
`models/`. So whatever stops a build (Ctrl-C, SIGKILL, a full disk), a later
call sees either a whole model or none.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from engine.weights._common import Progress, WeightsError, shown
from engine.weights._safetensors import check_safetensors

MANIFEST = "specscope.json"
FORMAT = 1  # raise it when the layout of a converted folder changes: older folders are then built anew


def cache_dir() -> Path:
    """Where converted weights live: `SPECSCOPE_CACHE`, else the user's cache folder."""
    named = os.environ.get("SPECSCOPE_CACHE")
    if named:
        try:
            return Path(named).expanduser().absolute()
        except RuntimeError as error:  # ~name, where no such user is
            raise WeightsError(f"SPECSCOPE_CACHE is {shown(named)}, whose ~ stands for no user; correct it.") from error
    import platformdirs

    return Path(platformdirs.user_cache_dir("specscope", appauthor=False))


def models_dir() -> Path:
    return cache_dir() / "models"


def read_manifest(folder: Path) -> dict[str, Any] | None:
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return manifest if isinstance(manifest, dict) else None


def find(key: str) -> Path | None:
    """The cached folder, if it is whole. Cheap: file sizes by the manifest, and the safetensors header."""
    folder = models_dir() / key
    manifest = read_manifest(folder)
    if manifest is None or manifest.get("format") != FORMAT:
        return None
    sizes = manifest.get("files")
    if not isinstance(sizes, dict) or not sizes:
        return None
    try:
        if any((folder / name).stat().st_size != size for name, size in sizes.items()):
            return None
        check_safetensors(folder)
    except (OSError, WeightsError):
        return None
    return folder


def build(key: str, make: Callable[[Path, Path], dict[str, Any]], needed_bytes: int, progress: Progress) -> Path:
    """The cached folder of `key`, built by `make(out, scratch)` unless it is there already.

    `make` fills `out` with the model's files and may leave anything in `scratch`; what it returns goes into
    the manifest. Two processes at once: the first builds, the other waits here and uses the result.
    """
    if (found := find(key)) is not None:
        return found
    root = cache_dir()
    with _explained(root, needed_bytes):
        for folder in ("models", "partial", "locks"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        with _locked(key, progress):
            _sweep(own=key)
            if (found := find(key)) is not None:
                return found
            (root / "partial" / key).mkdir(exist_ok=True)
            _require_space(root, needed_bytes)
            # A fresh name each time: a child of a killed run (pip) may still be writing into the old one.
            work = Path(tempfile.mkdtemp(dir=root / "partial" / key))
            try:
                out, scratch = work / "out", work / "scratch"
                out.mkdir()
                scratch.mkdir()
                details = make(out, scratch)
                _seal(out, details)
                final = models_dir() / key
                if final.exists():  # damaged, or of an older format
                    final.rename(work / "replaced")
                out.rename(final)
            finally:
                shutil.rmtree(root / "partial" / key, ignore_errors=True)
            if (found := find(key)) is None:
                raise WeightsError(f"The cache at {root} did not keep what was written; check that disk.")
            return found


def keep_file(name: str, size: int, make: Callable[[Path], Path], needed_bytes: int, progress: Progress) -> Path:
    """The cached file `name` of `size` bytes, made by `make(scratch)` unless it is there already: whole or not at all,
    as with `build`."""
    root, key = cache_dir(), f"file-{name}"
    final = root / "files" / name
    with _explained(root, needed_bytes):
        for folder in ("files", "partial", "locks"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        with _locked(key, progress):
            if final.is_file() and final.stat().st_size == size:
                return final
            _sweep(own=key)
            (root / "partial" / key).mkdir(exist_ok=True)
            _require_space(root, needed_bytes)
            try:
                made = make(Path(tempfile.mkdtemp(dir=root / "partial" / key)))
                _sync(made)
                made.replace(final)
            finally:
                shutil.rmtree(root / "partial" / key, ignore_errors=True)
            return final


def _seal(out: Path, details: dict[str, Any]) -> None:
    """Push every file to the disk, then write the manifest: after a power cut, no sizes without contents."""
    files = sorted(path for path in out.rglob("*") if path.is_file())
    mode = out.stat().st_mode & 0o666  # what the umask leaves
    for path in files:
        path.chmod(mode)  # safetensors writes for the owner only; a shared cache is for all
        _sync(path)
    sizes = {path.relative_to(out).as_posix(): path.stat().st_size for path in files}
    manifest = {"format": FORMAT, **details, "files": sizes}
    (out / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    _sync(out / MANIFEST)


def _sync(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


@contextlib.contextmanager
def _locked(key: str, progress: Progress) -> Iterator[None]:
    from filelock import FileLock, Timeout

    lock = FileLock(cache_dir() / "locks" / f"{key}.lock")
    started = time.monotonic()
    while True:
        try:
            lock.acquire(timeout=0.5)
            break
        except Timeout:
            progress("wait", int(time.monotonic() - started), None)
    try:
        yield
    finally:
        lock.release()


def _sweep(own: str) -> None:
    """Delete what killed runs left in `partial/`. A key that another process holds is at work: leave it."""
    from filelock import FileLock, Timeout

    partial = cache_dir() / "partial"
    for leftover in partial.iterdir():
        if leftover.name == own:
            shutil.rmtree(leftover, ignore_errors=True)
            continue
        try:
            with FileLock(cache_dir() / "locks" / f"{leftover.name}.lock", timeout=0):
                shutil.rmtree(leftover, ignore_errors=True)
        except Timeout:
            continue


def _require_space(root: Path, needed: int) -> None:
    free = shutil.disk_usage(root).free
    if free < needed:
        raise WeightsError(_full(root, needed, free))


def _full(root: Path, needed: int, free: int) -> str:
    return (
        f"The disk of the cache at {root} is too full: {needed:,} bytes needed, {free:,} free; "
        "make room, or set SPECSCOPE_CACHE to a folder on another disk."
    )


@contextlib.contextmanager
def _explained(root: Path, needed: int) -> Iterator[None]:
    """Turn the operating system's refusals into one sentence each."""
    try:
        yield
    except WeightsError:
        raise
    except Exception as error:
        # safetensors writes from Rust and wraps the same refusal in an error of its own
        number = error.errno if isinstance(error, OSError) else None
        if number in (errno.ENOSPC, errno.EDQUOT) or "No space left on device" in str(error):
            free = shutil.disk_usage(root).free if root.exists() else 0
            raise WeightsError(_full(root, needed, free)) from error
        refused = number in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST)
        # Any refusal of a path in the cache: /proc says "no such file" to whoever makes a folder there.
        if number is not None and (refused or _within(root, error)):
            raise WeightsError(
                f"The cache at {shown(str(root))} cannot be written ({os.strerror(number)}); "
                "set SPECSCOPE_CACHE to a folder that can."
            ) from error
        raise


def _within(root: Path, error: Exception) -> bool:
    """Whether the operating system refused a path of the cache, or one on the way to it."""
    named = getattr(error, "filename", None)
    return isinstance(named, str) and (Path(named).is_relative_to(root) or root.is_relative_to(named))
