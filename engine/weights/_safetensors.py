"""Is a safetensors file whole? Read from its header alone: no tensor is loaded."""

from __future__ import annotations

import json
import struct
from pathlib import Path

from engine.weights._common import WeightsError

_AGAIN = "download or copy it again"


def check_safetensors(folder: Path) -> list[Path]:
    """The folder's weight files, each as long as its header says. Raises WeightsError otherwise.

    The format: 8 bytes N little-endian, N bytes of JSON with `data_offsets` [start, end) a tensor, the data.
    """
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        try:
            names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        except (ValueError, KeyError, AttributeError, OSError) as error:
            raise WeightsError(f"{index} is not a valid index of weight files; {_AGAIN}.") from error
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


def _check_file(file: Path) -> None:
    if not file.is_file():
        raise WeightsError(f"{file} is missing though the index names it; {_AGAIN}.")
    size = file.stat().st_size
    try:
        with file.open("rb") as stream:
            (header_length,) = struct.unpack("<Q", stream.read(8))
            if header_length > size:
                raise ValueError("header longer than the file")
            header = json.loads(stream.read(header_length))
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise WeightsError(f"{file} is truncated or is not a safetensors file; {_AGAIN}.") from error
    whole = 8 + header_length + max(ends, default=0)
    if size != whole:
        raise WeightsError(f"{file} is truncated: {size:,} bytes of {whole:,}; {_AGAIN}.")
