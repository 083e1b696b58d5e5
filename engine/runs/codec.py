"""How values are written: strict JSON in ASCII, traces compressed, ids that sort by time, hashes.

JSON is escaped to ASCII and kept as text, not as JSONB: PostgreSQL's JSONB and text refuse U+0000, and neither it nor
SQLite takes a lone surrogate, which a byte-level tokenizer does produce. So both databases hold the same bytes,
whatever their encoding.
"""

import hashlib
import json
import secrets
import zlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from engine.errors import EngineError

# A measurement on a machine's CPU and one on its GPU are made on different hardware: `gpu` is None for the first.
HARDWARE_PARTS = ("machine", "cpu", "cpu_count", "gpu")
_ID_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"  # no i, l, o, u: none is taken for another


def to_json(value: object, what: str) -> str:
    """ASCII JSON. Tuples become lists. EngineError (naming `what`) for NaN, infinities and what is no JSON."""
    try:
        return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    except ValueError as error:
        loop = "Circular" in str(error)
        why = "holds itself" if loop else "holds NaN or an infinity, which JSON has no word for; use None for absent"
        raise EngineError(f"{what} cannot be stored: it {why}") from None
    except TypeError as error:
        raise EngineError(f"{what} cannot be stored as JSON: {error}") from None
    except RecursionError:
        raise EngineError(f"{what} cannot be stored: it is nested too deeply") from None


def from_json(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise EngineError(f"{what} in the run store is damaged: it is no JSON") from None


def pack(value: object, what: str) -> bytes:
    """Traces repeat themselves: zlib makes them about a tenth."""
    return zlib.compress(to_json(value, what).encode("ascii"))


def unpack(data: bytes, what: str) -> Any:
    try:
        text = zlib.decompress(data).decode("ascii")
    except (zlib.error, UnicodeDecodeError):
        raise EngineError(f"{what} in the run store is damaged: it cannot be unpacked") from None
    return from_json(text, what)


def digest(value: object, what: str) -> str:
    """32 hex digits of the SHA-256 of the JSON with its keys in order: equal for equal values, on every machine."""
    plain = json.loads(to_json(value, what))
    text = json.dumps(plain, ensure_ascii=True, allow_nan=False, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


def hardware_hash(environment: Mapping[str, Any]) -> str:
    """12 hex digits that name the hardware of `engine.environment.environment()`: the same after an upgrade of torch,
    Python or the kernel, and for any number of threads; another for another CPU, core count or GPU."""
    return digest({part: environment.get(part) for part in HARDWARE_PARTS}, "the environment")[:12]


def new_id(now: datetime) -> str:
    """`20261103-094837-k3f9qz`: UTC second and six random letters. Sorts by time; the tail alone names a run."""
    return f"{now:%Y%m%d-%H%M%S}-{''.join(secrets.choice(_ID_LETTERS) for _ in range(6))}"
