"""Is a safetensors file whole? Read from its header alone: no tensor is loaded."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path

from engine.weights._common import WeightsError, shown

_AGAIN = "download or copy it again"


def check_safetensors(folder: Path) -> list[Path]:
    """The folder's weight files, each as long as its header says. Raises WeightsError otherwise.

    The format: 8 bytes N little-endian, N bytes of JSON with `data_offsets` [start, end) a tensor, the data.
    """
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        names = _indexed(index)
    elif (folder / "model.safetensors").is_file():
        names = ["model.safetensors"]
    else:
        names = []
    if not names:
        raise WeightsError(f"{folder} holds no model.safetensors; {_AGAIN}, or give another folder.")
    files = [folder / name for name in names]
    for file in files:
        _check_file(file)
    return files


def _indexed(index: Path) -> list[str]:
    """The files that an index names. It is the user's file: any JSON may be in it, nested past what Python reads."""
    try:
        names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        if not all(isinstance(name, str) for name in names):
            raise TypeError("a file's name is text")
        return sorted(names)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError) as error:
        raise WeightsError(f"{index} is not a valid index of weight files; {_AGAIN}.") from error


def _check_file(file: Path) -> None:
    if not os.path.isfile(file):  # Path.is_file raises for a name that is too long
        raise WeightsError(f"{shown(str(file))} is missing though the index names it; {_AGAIN}.")
    size = file.stat().st_size
    try:
        with file.open("rb") as stream:
            (header_length,) = struct.unpack("<Q", stream.read(8))
            if header_length > size:
                raise ValueError("header longer than the file")
            header = json.loads(stream.read(header_length))
        ends = [_end(entry["data_offsets"]) for name, entry in header.items() if name != "__metadata__"]
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise WeightsError(f"{file} is truncated or is not a safetensors file; {_AGAIN}.") from error
    whole = 8 + header_length + max(ends, default=0)
    if size != whole:
        raise WeightsError(f"{file} is truncated: {size:,} bytes of {whole:,}; {_AGAIN}.")


def _end(offsets: object) -> int:
    """The second of two byte offsets; ValueError for anything else, such as text, which also has a second part."""
    match offsets:
        case [int(start), int(end)] if 0 <= start <= end:
            return end
    raise ValueError("data_offsets is not a start and an end")
