"""One row of an imported price list: what each cell says, and everything that is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date

from pydantic import ValidationError

from pricing.amounts import DecimalMark, parse_amount
from pricing.cells import finite, shown
from pricing.currencies import Currency, currency
from pricing.faults import Fault, PriceError, messages
from pricing.rows import PriceRow
from pricing.sheets import BLANK, Cell, Line

PRICES = ("per_hour", "price", "usd_per_hour")
TEXTS = ("provider", "instance", "gpu", "commitment", "region", "source_url", "evidence", "notes")
NUMBERS = ("gpu_count", "gpu_mem_gb")
DAYS = ("as_of", "valid_until")
_REQUIRED = ("provider", "instance", "gpu", "gpu_count", "commitment")
KNOWN = frozenset((*PRICES, *TEXTS, *DAYS, *NUMBERS, "currency"))
_DOTTED_DATE = re.compile(r"([0-9]{1,2})\.([0-9]{1,2})\.([0-9]{4})")


@dataclass(frozen=True)
class Reading:
    """What one cell was read as, for a person to look over: `text` as the file has it, `read_as` as it counts."""

    line: int
    column: str
    text: str
    read_as: str


class Header:
    """Where each column is. Raises PriceError for one that is missing, unknown or there twice."""

    def __init__(self, file: str, line: Line, dated: bool) -> None:
        number, cells = line
        # As the file writes them, for messages; and as we do.
        self.names = [cell.text.strip() for cell in cells]
        columns = [re.sub(r"[\s-]+", "_", name.lower()) for name in self.names]
        self.places = {column: i for i, column in enumerate(columns) if column}
        prices = [column for column in PRICES if column in self.places]
        needed = [*_REQUIRED, *([] if dated else ["as_of"])]
        faults = [Fault(number, c, "the column is missing") for c in needed if c not in self.places]
        if len(prices) != 1:
            several = f"there are several prices, {' and '.join(prices)}; keep one"
            faults.append(Fault(number, "price", several if prices else "the column is missing"))
        # Refused, not skipped: an unknown column may change the price, as a discount or a tax does.
        said = f"the column is not known; known are {', '.join(sorted(KNOWN))}"
        faults += [
            Fault(number, name, said) for name, c in zip(self.names, columns, strict=True) if c and c not in KNOWN
        ]
        twice = [c for c in dict.fromkeys(columns) if c and columns.count(c) > 1]
        faults += [Fault(number, self.shown(c), "the column appears twice") for c in twice]
        if faults:
            raise PriceError(file, faults)
        self.price = prices[0]

    def shown(self, column: str) -> str:
        return self.names[self.places[column]] if column in self.places else column


class RowReader:
    """Reads one row. currency: given for the whole file. faults and readings: filled by `row`."""

    def __init__(
        self, header: Header, line: int, cells: list[Cell], currency: Currency | None, decimal: DecimalMark | None
    ) -> None:
        self.header, self.line, self.cells, self.told, self.decimal = header, line, cells, currency, decimal
        self.faults: list[Fault] = []
        self.readings: list[Reading] = []

    def row(self, base: Mapping[str, object], today: date) -> PriceRow | None:
        """The row, or None when something in it is wrong: then `faults` holds all of that. base: what blank or absent
        cells say."""
        for i, cell in enumerate(self.cells):
            if not cell.blank and (i >= len(self.header.names) or not self.header.names[i]):
                self._fault("", f"{shown(cell.text)} stands in a column without a name")
        values = {**base, **dict(self._values())}
        told = {fault.column for fault in self.faults}
        try:
            row = PriceRow.model_validate(values, context={"today": today})
        except ValidationError as error:
            for field, said in messages(error):
                column = self.header.shown(self.header.price if field == "per_hour" else field)
                if field != "currency" and column not in told:  # a cell that could not be read is told once
                    self.faults.append(Fault(self.line, column, said))
            return None
        return None if self.faults else row

    def _values(self) -> Iterator[tuple[str, object]]:
        readers: list[tuple[tuple[str, ...], Callable[[Cell], object]]] = [
            (TEXTS, _text), (NUMBERS, self._plain), (DAYS, _date),
        ]  # fmt: skip
        for columns, read in readers:
            for column in columns:
                cell = self._cell(column)
                if cell is not None and not (cell.blank and column in ("evidence", "source_url", "as_of")):
                    yield column, "" if cell.blank else self._read(column, cell, read)
        price = self._cell(self.header.price)
        if price is not None:
            yield "per_hour", self._read(self.header.price, price, self._price)
            yield "currency", self._currency(price)

    def _cell(self, column: str) -> Cell | None:
        """None when the file has no such column, or the cell cannot be used, which is a fault then."""
        place = self.header.places.get(column)
        if place is None:
            return None
        cell = self.cells[place] if place < len(self.cells) else BLANK
        if cell.fault:
            self._fault(column, cell.fault)
            return None
        return cell

    def _fault(self, column: str, said: str) -> None:
        self.faults.append(Fault(self.line, self.header.shown(column), said))

    def _read(self, column: str, cell: Cell, read: Callable[[Cell], object]) -> object:
        """None when it cannot be: the fault is noted."""
        try:
            value = read(cell)
        except ValueError as error:
            self._fault(column, str(error))
            return None
        if column not in TEXTS:
            echo = f"{value:.15g}" if isinstance(value, float) else str(value)
            self.readings.append(Reading(self.line, self.header.shown(column), cell.text, echo))
        return value

    def _price(self, cell: Cell) -> float:
        if isinstance(cell.value, date):
            raise ValueError(f"{cell.text} is a date and no price")
        written = isinstance(cell.value, str) or cell.blank
        value = finite(parse_amount(cell.text, self.decimal).value if written else cell.value)
        if value is None:
            raise ValueError(f"{shown(cell.text)} is not a finite number")
        return value

    def _plain(self, cell: Cell) -> float:
        if self._currency_of(cell) is not None:
            raise ValueError(f"{shown(cell.text)} is an amount of money, where a plain number belongs")
        return self._price(cell)

    def _currency_of(self, cell: Cell) -> Currency | None:
        return parse_amount(cell.value, self.decimal).currency if isinstance(cell.value, str) else cell.currency

    def _currency(self, price: Cell) -> Currency | None:
        """The one that cell, column, header and argument agree on; None when they do not, or when the price's own cell
        cannot be read: the fault is noted."""
        column = self._cell("currency")
        said: dict[str, Currency | None] = {}
        try:
            said["the cell"] = self._currency_of(price)
        except ValueError:
            return None  # noted where the price was read
        said["the header"] = "USD" if self.header.price == "usd_per_hour" else None
        try:
            said["the currency column"] = currency(column.text) if column is not None and not column.blank else None
        except ValueError as error:
            self._fault("currency", str(error))
            return None
        said["the whole file"] = self.told
        found = {where: name for where, name in said.items() if name is not None}
        if len(set(found.values())) > 1:
            told = " and ".join(f"{name} by {where}" for where, name in found.items())
            self._fault(self.header.price, f"{shown(price.text)} is in two currencies, {told}")
            return None
        if not found:
            if not price.blank:
                how = "write one beside it, add a currency column, or give one for the whole file"
                self._fault(self.header.price, f"{shown(price.text)} has no currency; {how}")
            return None
        name = next(iter(found.values()))
        text = column.text if column is not None and not column.blank else price.text
        self.readings.append(Reading(self.line, "currency", text, name))
        return name


def _text(cell: Cell) -> str:
    if isinstance(cell.value, date):
        raise ValueError(
            f"holds the date {cell.text} where text belongs; a spreadsheet may have turned the text into one"
        )
    return "" if cell.value is None else str(cell.value)


def _date(cell: Cell) -> object:
    """A day: a workbook's own, or text; with dots the day comes first, and slashes are left to the refusal."""
    if isinstance(cell.value, date):
        return cell.value
    if not isinstance(cell.value, str):
        raise ValueError(f"{cell.text} is a number and no date")
    dotted = _DOTTED_DATE.fullmatch(cell.value.strip())
    if dotted is None:
        return cell.value
    try:
        return date(int(dotted[3]), int(dotted[2]), int(dotted[1]))
    except ValueError:
        raise ValueError(f"{shown(cell.value)} is not a day of the calendar") from None
