"""The daily bulletin of the Central Bank of the Republic of Türkiye (TCMB), as its XML file has it.

The bank publishes on business days, so a bulletin holds for the days after it too; its own date stays with each rate.
Nothing is fetched here: the file is the user's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from typing import Any, NoReturn
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from pricing.cells import shown
from pricing.currencies import CURRENCIES, Currency
from pricing.fx import Market, Rate, RateError, Rates, Side

MAX_BYTES = 1_000_000  # a day's bulletin has about 15 000
_MAX_DEPTH = 8
_FIELDS: dict[Market, dict[Side, str]] = {
    "forex": {"buying": "ForexBuying", "selling": "ForexSelling"},
    "banknote": {"buying": "BanknoteBuying", "selling": "BanknoteSelling"},
}
_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")


def read_bulletin(data: bytes, market: Market) -> Rates:
    """The lira rates of one bulletin, buying and selling, for the currencies that prices may be in.

    market: "forex" or "banknote", two different sets of rates in one bulletin; which one is meant is the caller's to
    say. A rate is per one unit, also where the bulletin quotes per 100. A currency or cell that the bulletin leaves
    empty has no rate. Raises RateError with one sentence: not such a bulletin, two dates that differ, a figure that is
    none; a file with a document type or entities, or larger than 1 MB, is not read at all.
    """
    fields = _FIELDS.get(market)
    if fields is None:
        raise RateError(f"{shown(market)} is not a market of the bulletin; name forex or banknote, there is no default")
    root = _parse(data)
    if root.tag != "Tarih_Date":
        raise RateError(f"the file is no TCMB bulletin: its root is {shown(root.tag)}, not Tarih_Date")
    day = _day(root)
    number = root.get("Bulten_No", "").strip()
    source = f"TCMB bulletin {number}, {market}" if number else f"TCMB bulletin, {market}"
    rates = Rates(rate for element in root.iter("Currency") for rate in _rates(element, fields, day, source))
    if not len(rates):
        raise RateError(f"the TCMB bulletin of {day} has no {market} rate for {', '.join(CURRENCIES[:-1])}")
    return rates


def _rates(element: Element, fields: dict[Side, str], day: date, source: str) -> Iterator[Rate]:
    codes = {code.strip() for code in (element.get("Kod"), element.get("CurrencyCode")) if code and code.strip()}
    if len(codes) > 1:
        raise RateError(f"the TCMB bulletin of {day} calls one currency {' and '.join(sorted(codes))}")
    code = next((known for known in CURRENCIES if known in codes), None)
    if code is None or code == "TRY":
        return
    unit = _figure(element, "Unit", code)
    for side, field in fields.items():
        value = _figure(element, field, code)
        if value is None:
            continue
        if unit is None:
            raise RateError(f"the TCMB bulletin of {day} does not say how many {code} its rates are for (Unit)")
        yield Rate(code, "TRY", value / unit, side, day, source)


def _figure(element: Element, field: str, code: Currency) -> float | None:
    found = element.findall(field)
    if len(found) > 1:
        raise RateError(f"the TCMB bulletin has {field} of {code} twice")
    text = (found[0].text or "").strip() if found else ""
    if not text:
        return None
    if not _NUMBER.fullmatch(text) or len(text) > 30 or not float(text):
        raise RateError(f"{field} of {code} in the TCMB bulletin is {shown(text)}, not a number above 0")
    return float(text)


def _day(root: Element) -> date:
    """Both spellings must be there and agree: 01/02/2026 alone would be the first of February to half its readers."""
    turkish = re.fullmatch(r"([0-9]{2})\.([0-9]{2})\.([0-9]{4})", root.get("Tarih", "").strip())
    american = re.fullmatch(r"([0-9]{2})/([0-9]{2})/([0-9]{4})", root.get("Date", "").strip())
    if turkish is None or american is None:
        raise RateError("the TCMB bulletin does not say its day as Tarih DD.MM.YYYY and Date MM/DD/YYYY")
    try:
        day = date(int(turkish[3]), int(turkish[2]), int(turkish[1]))
        same = date(int(american[3]), int(american[1]), int(american[2]))
    except ValueError:
        raise RateError(f"the TCMB bulletin's day, {turkish[0]}, is not a day of the calendar") from None
    if day != same:
        raise RateError(f"the TCMB bulletin has two dates, Tarih {turkish[0]} and Date {american[0]}")
    return day


def _parse(data: bytes) -> Element:
    if len(data) > MAX_BYTES:
        raise RateError(f"the file is larger than {MAX_BYTES // 1_000_000} MB, too large for a TCMB bulletin")
    builder = TreeBuilder()
    depth = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > _MAX_DEPTH:
            raise RateError("the file is no TCMB bulletin: its elements are nested too deep")
        builder.start(tag, attributes)

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(tag)

    def refuse(*_: Any) -> NoReturn:
        # Entities are how a small file becomes an endless one, or reads others; a bulletin has none.
        raise RateError("the file holds a document type definition, which no TCMB bulletin has; it is not read")

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    try:
        parser.Parse(data, True)
        return builder.close()
    except expat.ExpatError as error:
        raise RateError(f"the file is not well-formed XML (line {error.lineno}: {error})") from None
    except (ValueError, LookupError) as error:  # an encoding that is not known
        if isinstance(error, RateError):
            raise
        raise RateError("the file is in an encoding that cannot be read; save it as UTF-8") from None
