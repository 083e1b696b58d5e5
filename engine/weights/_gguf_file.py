"""What a GGUF file says about itself: whole or cut, which dtype holds it, how large it is unpacked."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from engine.weights._common import WeightsError

_FP32_LIMIT = 2_000_000_000  # parameters; above it an unpacked quantised file is kept in bf16


def gguf_key(path: Path) -> str:
    """A cache key for a user's file: name, size, time, and its first and last MiB.

    Not a hash of the whole file: that would read tens of GB on every start. Not the path: a moved file is the
    same file. The time is in it because a repaired download may share both ends and the size with a broken
    one.
    """
    stat = path.stat()
    mebibyte = 1 << 20
    with path.open("rb") as file:
        head = file.read(mebibyte)
        file.seek(max(0, stat.st_size - mebibyte))
        tail = file.read(mebibyte)
    digest = hashlib.sha256(f"{stat.st_size}:{stat.st_mtime_ns}:".encode() + head + tail).hexdigest()
    stem = "".join(c if c.isalnum() or c in "-_." else "-" for c in path.stem).strip(".")[:60]
    return f"gguf-{stem}-{digest[:16]}"


def open_gguf(path: Path) -> Any:
    """A `gguf.GGUFReader` on a whole file, or a WeightsError."""
    from gguf import GGUFReader

    with path.open("rb") as file:
        magic = file.read(4)
    if magic != b"GGUF":
        raise WeightsError(f"{path} is not a GGUF file; give a .gguf file or a folder with safetensors.")
    try:
        reader = GGUFReader(path)
        whole = max((int(t.data_offset) + int(t.n_bytes) for t in reader.tensors), default=0)
    except Exception as error:  # the reader indexes a memory map: a cut file fails in many ways
        raise WeightsError(f"{path} is truncated or damaged; download or copy it again.") from error
    if path.stat().st_size < whole:
        raise WeightsError(f"{path} is truncated or damaged; download or copy it again.")
    if not reader.tensors or field(reader, "general.architecture") is None:
        raise WeightsError(f"{path} holds no model (a vocabulary only?); give a GGUF file with weights.")
    return reader


def field(reader: Any, name: str) -> Any:
    """A metadata value, or None."""
    found = reader.fields.get(name)
    return None if found is None else found.contents()


def unpacked_dtype(reader: Any) -> str:
    """The dtype to keep: the smallest that loses nothing, unless the model is large.

    A Q4_1 value is d*q + m with half-precision d and m: 11 + 4 bits of d*q, then a sum, so neither bf16
    (8 bits) nor fp16 (11 bits) holds it; fp32 keeps the loader's own value. For the embedded model that is
    538 MB, which a laptop has. Above 2e9 parameters fp32 would be 8 GB and more, while such models run in
    bf16 on a GPU anyway: there values are rounded, below the error that the quantisation had already made.
    """
    types = {tensor.tensor_type.name for tensor in reader.tensors}
    if types <= {"F32", "F16"} and "F16" in types:  # only the norms are F32 beside F16
        return "float16"
    if types <= {"F32", "BF16"} and "BF16" in types:
        return "bfloat16"
    return "float32" if elements(reader) <= _FP32_LIMIT or types == {"F32"} else "bfloat16"


def unpacked_bytes(reader: Any) -> int:
    width = 4 if unpacked_dtype(reader) == "float32" else 2
    return width * elements(reader)


def elements(reader: Any) -> int:
    return sum(int(tensor.n_elements) for tensor in reader.tensors)
