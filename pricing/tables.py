"""The price table: what ships with the package, the user's own prices over it, and the prices of a day."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pandas as pd

from pricing import history, price_file
from pricing.faults import Fault as Fault
from pricing.faults import PriceError as PriceError
from pricing.rows import COLUMNS, PriceRow

DEFAULT_PRICES = Path(__file__).parent / "data" / "gpu_prices.csv"
_OF_A_ROW = ("currency", "per_hour", "per_gpu_hour", "usd_per_gpu_hour", "gpu_key")


@dataclass(frozen=True)
class PriceTable:
    """Price rows, superseded ones too, and the sha256 of what they came from: the file, or the rows as a file."""

    rows: tuple[PriceRow, ...]
    sha256: str
    file: str

    @classmethod
    def of(cls, rows: Iterable[PriceRow], file: str) -> PriceTable:
        """A table of rows that no single file holds; its sha256 is that of the rows written as one."""
        held = tuple(rows)
        return cls(held, hashlib.sha256(price_file.write(held).encode()).hexdigest(), file)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[PriceRow]:
        return iter(self.rows)

    def select(
        self,
        *,
        provider: str | Collection[str] | None = None,
        commitment: str | Collection[str] | None = None,
        gpu: str | Collection[str] | None = None,
        currency: str | Collection[str] | None = None,
        include_superseded: bool = False,
        today: date | None = None,
    ) -> PriceTable:
        """Rows that match every given value (one or several). `gpu` is a name ("A100 SXM") or a `gpu_key`.

        Only prices in force on `today` (default: the local day) unless superseded ones are asked for: then every price
        of every day. See `pricing.history.in_force`.
        """
        held = self.rows if include_superseded else history.in_force(self.rows, today or date.today())

        def wanted(row: PriceRow) -> bool:
            return (
                _matches(provider, row.provider)
                and _matches(commitment, row.commitment)
                and _matches(gpu, row.gpu, row.gpu_key)
                and _matches(currency, row.currency)
            )

        return PriceTable(tuple(row for row in held if wanted(row)), self.sha256, self.file)

    def on(self, day: date) -> PriceTable:
        """The prices in force on `day`: see `pricing.history.in_force` for what that means before a price was read."""
        return PriceTable(history.in_force(self.rows, day), self.sha256, self.file)

    def superseded(self, day: date) -> frozenset[PriceRow]:
        """Prices read until `day` that are in force no more: their last day has passed, or they were read anew."""
        return frozenset(row for row in self.rows if row.as_of <= day) - set(history.in_force(self.rows, day))

    def merged(self, other: PriceTable, day: date | None = None) -> PriceTable:
        """Both tables, the older prices closed on the day before the newer ones hold; see `pricing.history.merged`.

        day: the first day on which `other` holds, when it was read later; default: the day it was read.
        """
        rows = history.merged(self.rows, other.rows, day)
        return self if rows == self.rows else PriceTable.of(rows, _both(self.file, other.file))

    def to_frame(self, today: date | None = None) -> pd.DataFrame:
        """A DataFrame: `COLUMNS`, then currency, per_hour, per_gpu_hour, usd_per_gpu_hour, gpu_key, superseded, stale.

        `usd_per_hour` and `usd_per_gpu_hour` are empty for prices in other currencies. today: default the local day.
        """
        day = today or date.today()
        names = (*COLUMNS, *_OF_A_ROW)
        gone = self.superseded(day)
        records = [
            {name: getattr(row, name) for name in names} | {"superseded": row in gone, "stale": row.is_stale(day)}
            for row in self.rows
        ]
        return pd.DataFrame.from_records(records, columns=[*names, "superseded", "stale"])


def _matches(wanted: str | Collection[str] | None, *values: str) -> bool:
    if wanted is None:
        return True
    return any(value == wanted if isinstance(wanted, str) else value in wanted for value in values)


def _both(file: str, other: str) -> str:
    names = file.split(" + ")
    return " + ".join([*names, *(name for name in other.split(" + ") if name not in names)])


def load_prices(path: str | Path | None = None, *, today: date | None = None) -> PriceTable:
    """Read and check a price file (default: the one that ships with the package).

    The file is UTF-8 CSV, with or without a BOM, with exactly the columns of `COLUMNS` (prices in USD) or of
    `NATIVE_COLUMNS` (a currency in each row), in any order; prices are for the whole instance. Raises `PriceError`
    that names file, line and column of every fault. Nothing is repaired or guessed. A price dated after `today`
    (default: the local day) is a fault; the shipped file is held to that only when `today` is given, so that a clock
    set wrong does not stop the program.
    """
    day = today or (date.today() if path is not None else None)
    file = Path(path) if path is not None else DEFAULT_PRICES
    try:
        data = file.read_bytes()
    except OSError as error:
        raise PriceError(file.name, [Fault(1, "", f"cannot be read ({error.strerror})")]) from error
    return PriceTable(price_file.parse(data, file.name, day), hashlib.sha256(data).hexdigest(), file.name)


def load_prices_with_own(own: str | Path | None, *, today: date | None = None) -> PriceTable:
    """The shipped table with the prices of the file `own` merged in; the shipped one alone when there is no such file.

    Raises `PriceError` as `load_prices` does.
    """
    shipped = load_prices(today=today)
    if own is None or not Path(own).exists():
        return shipped
    return shipped.merged(load_prices(own, today=today))
