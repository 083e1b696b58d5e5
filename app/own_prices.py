"""The user's own prices: one file in the data folder, merged over the shipped table, written whole or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from functools import cache
from pathlib import Path

from app.whole_file import replace
from pricing import PriceError, PriceRow, PriceTable, load_prices, load_prices_with_own, price_file

FILE = "prices.csv"
WAIT_S = 10.0


def own_file() -> Path:
    """Where they are: in `SPECSCOPE_DATA`, else the user's data folder. Raises EngineError where that is no folder."""
    from engine.user_data import data_dir

    return data_dir() / FILE


def load(today: date | None = None) -> PriceTable:
    """The shipped prices with the user's own over them. Raises PriceError when their file is not right."""
    path = own_file()
    try:
        return load_prices_with_own(path, today=today)
    except PriceError as error:
        raise PriceError(str(path) if error.file == FILE else error.file, error.faults) from None


def count_own(table: PriceTable) -> int:
    """How many of its rows do not ship with specscope; one that ships and was closed by a newer price is none."""
    shipped = _shipped()
    return sum(row.model_copy(update={"valid_until": None}) not in shipped for row in table)


@cache
def _shipped() -> frozenset[PriceRow]:
    return frozenset(row.model_copy(update={"valid_until": None}) for row in load_prices())


def keep(table: PriceTable) -> Path:
    """Write what `table` has beyond the shipped one as the user's own file, so that `load` gives `table` again. Raises
    EngineError with one sentence; the file is then what it was."""
    shipped = set(load_prices().rows)
    path = own_file()
    text = price_file.write(row for row in table if row not in shipped)
    with _told(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(path, text.encode("utf-8"), mode=0o600)  # what a user was offered is nobody else's to read
    return path


@contextmanager
def locked() -> Iterator[None]:
    """Nobody else takes prices over between reading the file and writing it."""
    from filelock import FileLock, Timeout

    from engine import EngineError

    path = own_file()
    with _told(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path.with_name(f".{FILE}.lock"), timeout=WAIT_S)
        try:
            lock.acquire()
        except Timeout:
            raise EngineError(f"another specscope is writing {path}; try again when it is done") from None
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _told(path: Path) -> Iterator[None]:
    from engine import EngineError

    try:
        yield
    except OSError as error:
        raise EngineError(
            f"{path} cannot be written ({error.strerror or error}); set SPECSCOPE_DATA to a folder that can"
        ) from None
