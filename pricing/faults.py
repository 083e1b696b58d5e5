"""What is wrong with a file: every fault with its line and column, and one sentence over all."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

_FAULTS_SHOWN = 5


@dataclass(frozen=True)
class Fault:
    """One wrong cell. `line` counts from 1 as an editor does (the header is line 1); `column` may be ""."""

    line: int
    column: str
    message: str

    def __str__(self) -> str:
        # A column's name comes from the file: one that cannot be printed is spelt out.
        column = self.column if self.column.isprintable() else repr(self.column)[1:-1]
        where = f"line {self.line}" + (f", column {column}" if column else "")
        return f"{where}: {self.message}"


class PriceError(ValueError):
    """The price file cannot be used. `faults` holds all; the message shows the first few and the count."""

    def __init__(self, file: str, faults: Collection[Fault]) -> None:
        self.file = file
        self.faults = tuple(faults)
        shown = "; ".join(str(fault) for fault in self.faults[:_FAULTS_SHOWN])
        count = len(self.faults)
        more = f"; and {count - _FAULTS_SHOWN} more" if count > _FAULTS_SHOWN else ""
        super().__init__(f"{file} has {count} fault{'' if count == 1 else 's'}: {shown}{more}")


def messages(error: ValidationError) -> list[tuple[str, str]]:
    """(field, sentence) of each thing that a row was refused for; the field is "" when it is the row as a whole."""
    return [(str(e["loc"][0]) if e["loc"] else "", _sentence(e)) for e in error.errors()]


def _sentence(error: Any) -> str:
    cause = error.get("ctx", {}).get("error")
    return str(cause) if cause is not None else str(error["msg"])
