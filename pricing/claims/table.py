"""The table of claims: two CSV files, read whole or refused with file, line and column."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from pricing.claims.derivation import Given
from pricing.claims.rows import CLAIM_COLUMNS, INPUT_COLUMNS, ClaimRow, InputRow
from pricing.faults import Fault, PriceError, messages

DEFAULT_CLAIMS = Path(__file__).parents[1] / "data" / "claims.csv"
DEFAULT_INPUTS = Path(__file__).parents[1] / "data" / "claim_inputs.csv"
_Row = TypeVar("_Row", bound=BaseModel)


class ClaimError(ValueError):
    """A claim that cannot be looked at, in one sentence that says what to do."""


@dataclass(frozen=True)
class Claim:
    """A row with its numbers, by name and then by what tells several of one name apart ("" where there is one)."""

    row: ClaimRow
    inputs: Mapping[str, Mapping[str, Given]]

    @property
    def id(self) -> str:
        return self.row.id

    def given(self, name: str, at: str = "") -> Given:
        """Raises ClaimError that names what the claim lacks."""
        found = self.inputs.get(name, {}).get(at)
        if found is None:
            where = f" at {at}" if at else ""
            raise ClaimError(
                f"claim {self.id} has no {name}{where} among its inputs, which its rule reads; add the row"
            )
        return found

    def series(self, name: str) -> Mapping[str, Given]:
        """All numbers of one name, in the file's order; empty where there is none."""
        return self.inputs.get(name, {})


@dataclass(frozen=True)
class ClaimTable:
    """All claims by id, in the file's order. sha256: of both files together."""

    claims: Mapping[str, Claim]
    sha256: str
    file: str

    def __iter__(self) -> Iterator[Claim]:
        return iter(self.claims.values())

    def __len__(self) -> int:
        return len(self.claims)

    def find(self, claim_id: str) -> Claim:
        """Raises ClaimError that lists the ids."""
        found = self.claims.get(claim_id.strip().casefold())
        if found is None:
            raise ClaimError(f"there is no claim {claim_id!r}; the ids are {' '.join(self.claims)}")
        return found

    def compared(self, claim: Claim) -> tuple[Claim, ...]:
        return tuple(self.find(other) for other in claim.row.compares_with)


@lru_cache(maxsize=1)
def shipped_claims() -> ClaimTable:
    """`load_claims` of the files that come with specscope, read once."""
    return load_claims()


def load_claims(claims: str | Path | None = None, inputs: str | Path | None = None) -> ClaimTable:
    """Read and check both files (default: those that come with the package). Each is UTF-8 CSV with exactly its
    columns, in any order. Raises `PriceError` that names file, line and column of every fault; nothing is repaired or
    guessed."""
    from pricing.claims.rules import RULES

    claim_file = Path(claims) if claims is not None else DEFAULT_CLAIMS
    input_file = Path(inputs) if inputs is not None else DEFAULT_INPUTS
    claim_data, input_data = _bytes(claim_file), _bytes(input_file)
    rows = _rows(claim_data, claim_file.name, ClaimRow, CLAIM_COLUMNS)
    _refuse(claim_file.name, list(_claim_faults(rows, RULES)))
    numbers = _rows(input_data, input_file.name, InputRow, INPUT_COLUMNS)
    by_claim: dict[str, dict[str, dict[str, Given]]] = {row.id: {} for _, row in rows}
    sources = {row.id: row.source for _, row in rows}
    faults = []
    for line, number in numbers:
        if number.claim not in by_claim:
            faults.append(Fault(line, "claim", f"there is no claim {number.claim!r} in {claim_file.name}"))
            continue
        named = by_claim[number.claim].setdefault(number.name, {})
        if number.at in named:
            faults.append(Fault(line, "at", f"{number.name} at {number.at!r} is there twice for {number.claim}"))
        named[number.at] = number.given(sources[number.claim])
    _refuse(input_file.name, faults)
    digest = hashlib.sha256(claim_data + b"\0" + input_data).hexdigest()
    held = {row.id: Claim(row, by_claim[row.id]) for _, row in rows}
    table = ClaimTable(held, digest, f"{claim_file.name} + {input_file.name}")
    _refuse(claim_file.name, list(_unworkable(rows, table, RULES)))
    return table


def _claim_faults(rows: list[tuple[int, ClaimRow]], rules: Collection[str]) -> Iterator[Fault]:
    ids = [row.id for _, row in rows]
    first: dict[str, int] = {}
    for line, row in rows:
        if first.setdefault(row.id, line) != line:
            yield Fault(line, "id", f"{row.id} is used on line {first[row.id]} already")
        if row.rule not in rules:
            yield Fault(line, "rule", f"{row.rule!r} is not one of {', '.join(sorted(rules))}")
        for other in row.compares_with:
            if other not in ids:
                yield Fault(line, "compares_with", f"there is no claim {other!r}")


def _unworkable(rows: list[tuple[int, ClaimRow]], table: ClaimTable, rules: Mapping[str, Any]) -> Iterator[Fault]:
    """A claim without the numbers that its rule reads is found when the file is read, not when somebody asks for it."""
    for line, row in rows:
        try:
            rules[row.rule](table.find(row.id), table)
        except ClaimError as error:
            yield Fault(line, "rule", str(error))
        except (ArithmeticError, ValueError, LookupError) as error:
            yield Fault(line, "rule", f"{row.rule} cannot be worked out from the inputs of {row.id} ({error})")


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise PriceError(file.name, [Fault(1, "", f"cannot be read ({error.strerror})")]) from error


def _rows(data: bytes, name: str, kind: type[_Row], columns: Collection[str]) -> list[tuple[int, _Row]]:
    """(line, row) of each; a quoted cell may span lines, so the line is where the row starts."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise PriceError(name, [Fault(line, "", "is not UTF-8 text")]) from error
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    found: list[tuple[int, _Row]] = []
    faults: list[Fault] = []
    line = 1
    try:
        header = [cell.strip() for cell in next(reader, [])]
        _refuse(name, _header_faults(header, columns))
        while True:
            line = reader.line_num + 1
            cells = next(reader, None)
            if cells is None:
                break
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                faults.append(Fault(line, "", f"has {len(cells)} cells where the header has {len(header)}"))
                continue
            given: dict[str, Any] = dict(zip(header, cells, strict=True))
            try:
                found.append((line, kind.model_validate(given)))
            except ValidationError as error:
                faults += [Fault(line, field, said) for field, said in messages(error)]
    except csv.Error as error:
        faults.append(Fault(line, "", f"is not valid CSV ({error})"))
    if not found and not faults:
        faults.append(Fault(line, "", "there is no row after the header"))
    _refuse(name, faults)
    return found


def _header_faults(header: list[str], columns: Collection[str]) -> list[Fault]:
    missing = [Fault(1, column, "the column is missing") for column in columns if column not in header]
    unknown = [Fault(1, column, "the column is not known") for column in header if column not in columns]
    twice = [Fault(1, c, "the column appears twice") for c in dict.fromkeys(header) if header.count(c) > 1]
    return missing + unknown + twice


def _refuse(name: str, faults: list[Fault]) -> None:
    if faults:
        raise PriceError(name, faults)
