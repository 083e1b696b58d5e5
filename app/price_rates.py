"""The exchange rate that a command is given: on the command line, or in a bulletin of the Turkish central bank."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

from pricing import Exchange, PriceTable, Rate, RateError, Rates, cells, read_bulletin, tcmb
from pricing.currencies import CURRENCIES, Currency, currency_named
from pricing.exchange import checked_days
from pricing.fx import Side, checked_side, split_kind

_RATE = re.compile(r"([A-Za-z]{2,3})/([A-Za-z]{2,3})=([0-9]+(?:\.[0-9]+)?)")


def exchange(
    currency: str | None,
    rates: list[str],
    tcmb_file: Path | None,
    kind: str | None,
    day: str | None,
    source: str | None,
    option: str = "--currency",
) -> Exchange | None:
    """None when no currency is asked for. option: the one that names it. Raises EngineError or RateError with one
    sentence; nothing is filled in: a rate without its kind, day and source is refused, as is one of a day to come."""
    from engine import EngineError

    if currency is None:
        if rates or tcmb_file or kind or day or source:
            raise EngineError(f"an exchange rate needs {option}, which says what to show prices in")
        return None
    target = known_currency(currency, option)
    if rates and tcmb_file:
        raise EngineError("give --rate or --tcmb, not both: prices are shown at the rates of one source")
    if tcmb_file is not None:
        if kind is None:
            raise EngineError("--tcmb needs --kind: forex-buying, forex-selling, banknote-buying or banknote-selling")
        if day or source:
            raise EngineError("a bulletin has its own day and source; leave --rate-date and --rate-source out")
        market, side = split_kind(kind)
        return Exchange(target, _not_to_come(read_bulletin(_read(tcmb_file), market)), side)
    if not rates:
        if kind or day or source:
            raise EngineError("--kind, --rate-date and --rate-source describe a rate; give one with --rate or --tcmb")
        return Exchange(target, Rates([]), None)
    if kind is None or day is None or not source:
        raise EngineError("--rate needs --kind (buying or selling), --rate-date and --rate-source")
    side = checked_side(kind)
    given = Rates(_rate(text, side, calendar_day(day, "--rate-date"), source) for text in rates)
    return Exchange(target, _not_to_come(given), side)


def _not_to_come(rates: Rates) -> Rates:
    checked_days(rates, date.today())
    return rates


def known_currency(text: str, option: str) -> Currency:
    from engine import EngineError

    found = currency_named(text)
    if found is None:
        raise EngineError(f"{option} takes one of {', '.join(CURRENCIES)}, not {text!r}")
    return found


def calendar_day(text: str, option: str) -> date:
    from engine import EngineError

    try:
        return cells.day(text)
    except ValueError:
        raise EngineError(f"{option} takes a day of the calendar written YYYY-MM-DD, not {text!r}") from None


def _rate(text: str, side: Side, day: date, source: str) -> Rate:
    from engine import EngineError

    match = _RATE.fullmatch(text.strip())
    if match is None:
        raise EngineError(f"--rate takes BASE/QUOTE=RATE with a decimal point, as USD/TRY=45.03, not {text!r}")
    base, quote = (known_currency(name, "--rate") for name in match.groups()[:2])
    return Rate(base, quote, float(match[3]), side, day, source)


def _read(path: Path) -> bytes:
    from engine import EngineError

    try:
        with path.open("rb") as stream:
            return stream.read(tcmb.MAX_BYTES + 1)
    except OSError as error:
        raise EngineError(
            f"the TCMB bulletin {path} cannot be read ({error.strerror}); it is the XML file of a day's exchange rates "
            "that the Turkish central bank publishes, as today.xml"
        ) from None


def shown_in(table: PriceTable, to: Exchange | None) -> list[dict[str, Any] | None]:
    """Of each row its price per hour and per GPU-hour in the other currency, and how; None where none is asked for, and
    where no rate reaches its currency, as long as one reaches another's. Raises RateError where none reaches any."""
    found: list[dict[str, Any] | None] = []
    if to is not None and len(table) and not any(to.reaches(row.currency) for row in table):
        to.rate(table.rows[0].currency)  # which says what is missing
    for row in table:
        if to is None or not to.reaches(row.currency):
            found.append(None)
            continue
        price = to.price(row.per_hour, row.currency)
        per_gpu_hour = price.amount / row.gpu_count
        day = str(price.rate.day) if price.rate is not None else None
        amounts = {"currency": to.currency, "per_hour": price.amount, "per_gpu_hour": per_gpu_hour}
        found.append({**amounts, "how": price.how, "rate_day": day})
    return found


def rate_record(rate: Rate | None) -> dict[str, Any] | None:
    """For JSON."""
    if rate is None:
        return None
    return {
        "base": rate.base, "quote": rate.quote, "value": rate.rate, "kind": rate.kind, "day": str(rate.day),
        "source": rate.source,
    }  # fmt: skip


@contextmanager
def sentences() -> Iterator[None]:
    """`command.sentences`, for faults of rates too, and with every fault of a price file on a line of its own."""
    from app import command, terminal
    from engine import EngineError
    from pricing import PriceError

    with command.sentences():
        try:
            yield
        except RateError as error:
            raise EngineError(str(error)) from None
        except PriceError as error:
            if len(error.faults) > 1:
                for fault in error.faults:
                    terminal.note(str(fault))
                told = f"{error.file} has {len(error.faults)} faults, listed above; nothing of it was taken"
                raise EngineError(told) from None
            raise
