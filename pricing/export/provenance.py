"""Where a scenario's prices and converted figures come from, in words: each export says it in its own place."""

from __future__ import annotations

from datetime import date

from pricing.export.words import Words
from pricing.fx import Rate
from pricing.price_match import PartPrice, matched_prices
from pricing.scenario import Scenario
from pricing.tables import PriceTable


def told_matches(scenario: Scenario, prices: PriceTable | None, today: date, words: Words) -> dict[str, str]:
    """By the path of each rented price: the row that it is in the table as, or that it is the user's own."""
    if prices is None:
        return {}
    return {part.path: told_match(part, words) for part in matched_prices(scenario, prices, today)}


def told_match(part: PartPrice, words: Words) -> str:
    if part.row is None:
        return words("match.none")
    provider, instance, day = part.found or ("", "", "")
    said = words("match.found", provider=provider, instance=instance, date=day)
    if part.rate is not None:
        said += words("match.at", rate=told_rate(part.rate, words))
    return said + (words("match.more", count=part.more) if part.more else "")


def counted(scenario: Scenario, prices: PriceTable, today: date, words: Words) -> str:
    """How many of the rented prices the table's hash vouches for; "" where nothing is rented."""
    found = matched_prices(scenario, prices, today)
    known = sum(part.row is not None for part in found)
    return words("match.counted", found=known, all=len(found)) if found else ""


def told_rates(scenario: Scenario, words: Words) -> tuple[str, ...]:
    """The rates that the scenario's figures were converted at."""
    return tuple(told_rate(used.rate, words) for used in scenario.rates)


def told_rate(rate: Rate, words: Words) -> str:
    value = words.number(rate.rate, 10)
    return words(
        "rates.one", value=value, quote=rate.quote, base=rate.base, side=words(f"rates.side.{rate.kind}"),
        date=rate.day.isoformat(), source=rate.source,
    )  # fmt: skip
