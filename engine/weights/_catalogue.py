"""The public calls: which source is meant, what is cached, what is on offer."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
from pathlib import Path
from typing import Any

from engine.weights import _embedded, _folder, _hub, _store
from engine.weights._common import PRESETS, ModelEntry, Progress, WeightsError, shown, silent
from engine.weights._gguf_file import gguf_key, open_gguf, unpacked_bytes
from engine.weights._safetensors import check_safetensors

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_TOKENIZER_SLACK = 64 << 20  # bytes


def resolve(source: str, *, progress: Progress | None = None, trust_remote_code: bool = False) -> Path:
    """A local folder with config.json, safetensors and tokenizer files, fetched and converted if need be.

    source: "embedded" | a preset's name (its target) | a local folder | a `.gguf` file | a hub id "org/name".
    Raises WeightsError, one sentence, when there is no such thing or it is not fit to load.
    """
    watch = progress or silent
    name = _target(source)
    if name == "embedded":
        return _store.build(
            _embedded.KEY,
            lambda out, scratch: _embedded.make(out, scratch, watch),
            _embedded.NEEDED_BYTES,
            watch,
        )
    local = _local(name)
    if os.path.isdir(local):
        _folder.check_folder(local, str(local), trust_remote_code=trust_remote_code)
        return local.absolute()
    if os.path.isfile(local):
        return _from_file(local.absolute(), watch)
    if _looks_like_path(name):
        raise WeightsError(f"There is no file or folder {shown(name)}; check the path.")
    if _HUB_ID.fullmatch(name):
        return _hub.download(name, watch, trust_remote_code=trust_remote_code)
    raise WeightsError(_unknown(name))


def is_cached(source: str) -> Path | None:
    """The folder that `resolve` would give without any fetching or converting, or None. Asks no network."""
    name = _target(source)
    if name == "embedded":
        return _store.find(_embedded.KEY)
    local = _local(name)
    if os.path.isdir(local):
        whole = (local / "config.json").is_file() and _weights_whole(local)
        return local.absolute() if whole else None
    if os.path.isfile(local):
        return _store.find(gguf_key(local)) if local.suffix == ".gguf" else None
    if _HUB_ID.fullmatch(name) and not _looks_like_path(name):
        return _hub.cached(name)
    return None


def path(name: str) -> Path:
    """Like `is_cached`, but absence is an error that says how to fetch."""
    found = is_cached(name)
    if found is None:
        target = _target(name)
        if target != "embedded" and not _HUB_ID.fullmatch(target) and not os.path.exists(_local(target)):
            raise WeightsError(_unknown(target))
        said = shown(str(name))
        raise WeightsError(f"{said} is not cached yet; fetch it first (specscope models fetch {said}).")
    return found


def fetch(name: str, *, progress: Progress | None = None, trust_remote_code: bool = False) -> Path:
    """Make everything that `name` needs local: a preset's draft too. Returns the target's folder."""
    target = resolve(name, progress=progress, trust_remote_code=trust_remote_code)
    preset = PRESETS.get(str(name).strip())
    if preset is not None and preset.draft is not None:
        resolve(preset.draft, progress=progress, trust_remote_code=trust_remote_code)
    return target


def list_models() -> list[ModelEntry]:
    """The presets, then the GGUF files that were converted before. Quick: loads no torch, asks no network."""
    entries = []
    for preset in PRESETS.values():
        parts = [is_cached(part) for part in (preset.target, preset.draft) if part is not None]
        folders = [folder for folder in parts if folder is not None]
        cached = len(folders) == len(parts)
        source = preset.target if preset.draft is None else f"{preset.target} + {preset.draft}"
        size = sum(_size(folder) for folder in folders) if folders else None
        entries.append(ModelEntry(preset.name, source, cached, parts[0] if cached else None, size, preset.about))
    for folder, manifest in _converted():
        about = f"Converted from {manifest.get('gguf', 'a GGUF file')}."
        entries.append(ModelEntry(folder.name, str(manifest.get("source", folder)), True, folder, _size(folder), about))
    return entries


def _target(source: str) -> str:
    if not isinstance(source, str | os.PathLike):
        raise WeightsError(f"A model is named by text, not by {type(source).__name__}; {_choices()}.")
    name = str(source).strip()
    if not name:
        raise WeightsError(f"No model was named; {_choices()}.")
    converted = _store.models_dir() / name
    if name.startswith("gguf-") and "/" not in name and _store.find(name) is not None:
        return str(converted)
    preset = PRESETS.get(name)
    return name if preset is None else preset.target


def _local(name: str) -> Path:
    """`name` as a path. Ask `os.path` about it, not `Path`, whose methods (`is_dir`, `expanduser`) raise when a name
    is too long, is unreadable or holds a NUL, or when ~ stands for nobody: to a user, all of these are not there."""
    return Path(os.path.expanduser(name))


def _from_file(file: Path, progress: Progress) -> Path:
    if file.suffix in _folder.PICKLES:
        raise WeightsError(
            f"{file} is a pickle, which can run code when it is opened; give a folder with safetensors, or a GGUF file."
        )
    if file.suffix == ".safetensors":
        raise WeightsError(f"{file} is one file of a model; give the folder that holds it and its config.json.")
    if file.suffix != ".gguf":
        raise WeightsError(f"{file} is neither a folder nor a .gguf file; {_choices()}.")
    try:
        key = gguf_key(file)
    except OSError as error:
        raise WeightsError(f"{file} cannot be read ({error.strerror}); check its permissions.") from error
    if (found := _store.find(key)) is not None:
        return found
    reader = open_gguf(file)

    def make(out: Path, scratch: Path) -> dict[str, Any]:
        from engine.weights import _gguf

        try:
            return {"source": str(file), **_gguf.convert(file, reader, out, progress)}
        except WeightsError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, NotImplementedError) as error:
            # What a library says of metadata it did not expect is often one bare word, such as a missing key.
            raise WeightsError(
                f"{file} holds metadata or tensors that cannot be converted ({type(error).__name__}: "
                f"{shown(str(error))}); give the model's safetensors folder instead."
            ) from error

    return _store.build(key, make, unpacked_bytes(reader) + _TOKENIZER_SLACK, progress)


def _weights_whole(folder: Path) -> bool:
    try:
        return bool(check_safetensors(folder))
    except WeightsError:
        return False


def _converted() -> list[tuple[Path, dict[str, Any]]]:
    found = []
    folders: list[Path] = []
    with contextlib.suppress(OSError):  # a cache that cannot be read holds nothing to list
        folders = sorted(_store.models_dir().glob("gguf-*"))
    for folder in folders:
        manifest = _store.read_manifest(folder)
        if manifest is not None and _store.find(folder.name) is not None:
            found.append((folder, manifest))
    return found


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _looks_like_path(name: str) -> bool:
    return name.startswith((".", "/", "~")) or "\\" in name or name.count("/") > 1 or name.endswith(".gguf")


def _choices() -> str:
    return f"use one of {', '.join(PRESETS)}, a local folder, a .gguf file, or a hub id (organisation/name)"


def _unknown(name: str) -> str:
    known = [*PRESETS, *(folder.name for folder, _ in _converted())]
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    return f'There is no model "{shown(name)}"; ' + (f'did you mean "{near[0]}"?' if near else f"{_choices()}.")
