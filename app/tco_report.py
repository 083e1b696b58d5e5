"""What `specscope tco` works out, and its JSON document. Absent is null."""

import math
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any

from app.price_rates import rate_record
from pricing import Exchange, PriceTable, load_scenario
from pricing.break_even import break_evens
from pricing.export.told_moved import sentences
from pricing.export.words import Words
from pricing.moved import Moved, what_moved
from pricing.price_match import PartPrice, matched_prices
from pricing.scenario import Case, Scenario
from pricing.scenario_file import fingerprint
from pricing.sensitivity import Chances, Driver, tornado
from pricing.tco import Choice, Option, Tco, tco


@dataclass(frozen=True)
class Asked:
    scenario: str
    case: Case
    language: Any
    tornado: str | None = None
    against: str | None = None


@dataclass(frozen=True)
class Found:
    """scenario: as it was read; used: with the numbers of the case. moved_told: `moved` in words."""

    asked: Asked
    scenario: Scenario
    used: Scenario
    tco: Tco
    drivers: tuple[Driver, ...]
    moved: tuple[Moved, ...]
    moved_told: tuple[str, ...]
    against: Tco | None


@dataclass(frozen=True)
class Drawn:
    """asked: how many draws; made: how many there were time for."""

    chances: tuple[Chances, ...]
    asked: int
    made: int
    seed: int

    @property
    def stopped(self) -> bool:
        return self.made < self.asked


def work_out(asked: Asked) -> Found:
    """Raises ValueError with a sentence for a scenario that cannot be read or served, and for an unknown option."""
    scenario = load_scenario(asked.scenario)
    used = scenario.in_case(asked.case)
    found = tco(used)
    drivers: tuple[Driver, ...] = ()
    if asked.tornado is not None:
        drivers = tuple(tornado(used, asked.tornado))
        if not drivers:
            raise ValueError(f"{scenario.name} gives no number a range; write one as {{value = 3, low = 2, high = 5}}")
    moved: tuple[Moved, ...] = ()
    moved_told: tuple[str, ...] = ()
    other = None
    if asked.against is not None:
        before = load_scenario(asked.against).in_case(asked.case)
        other = tco(before)
        moved = tuple(what_moved(before, used, _in_both(asked.tornado, found, other)))
        moved_told = tuple(sentences(moved, before, used, Words(asked.language)))
    return Found(asked, scenario, used, found, drivers, moved, moved_told, other)


def _in_both(named: str | None, found: Tco, other: Tco) -> str:
    """The option whose total is followed: the one named, or the cheapest that both have."""
    known = {option.name for option in other.options}
    names = [option.name for option in found.options if option.name in known]
    if named is not None and named not in names:
        raise ValueError(f"{other.scenario.name} has no option called {named}; it has {', '.join(sorted(known))}")
    if not names:
        raise ValueError(f"{found.scenario.name} and {other.scenario.name} have no option of one name to compare")
    return named or names[0]


def document(found: Found, drawn: Drawn | None, prices: PriceTable, to: Exchange | None = None) -> dict[str, Any]:
    used = found.used
    return {
        "schema": "specscope.tco",
        "scenario": used.name,
        "scenario_sha256": fingerprint(found.scenario),
        "case": found.asked.case,
        "currency": used.currency,
        "years": used.years,
        "label": "calculated from the inputs, each with its own label",
        "price_table": {
            "file": prices.file,
            "sha256": prices.sha256,
            "rented_prices": [_part(part) for part in matched_prices(used, prices, date.today())],
        },
        "converted_at": [rate_record(given.rate) for given in used.rates],
        "shown": None if to is None else shown(found.tco, to),
        "options": [_option(option) for option in found.tco.options],
        "speculation": [_choice(choice) for choice in found.tco.speculation],
        "choices": [_choice(choice) for choice in found.tco.choices],
        "break_even": [asdict(even) for even in break_evens(used)],
        "tornado": [{**asdict(driver), "swing": driver.swing} for driver in found.drivers] or None,
        "monte_carlo": None if drawn is None else _drawn(drawn),
        "moved": _moved(found) if found.against is not None else None,
        "inputs": [{"path": path, **figure.model_dump()} for path, figure in used.figures().items()],
        "excluded": list(used.excluded),
    }


# Of an option's tokens, shown in another currency too.
UNIT_PRICES = ("per_million_input", "per_million_output", "blended_per_million", "per_request")


def shown(found: Tco, to: Exchange) -> dict[str, Any]:
    """The options' money in the other currency, unrounded. Raises RateError without a rate."""
    own = found.scenario.currency

    def price(value: float | None) -> float | None:
        return None if value is None else to.price(value, own).amount

    options = [
        {
            "name": option.name,
            "arm": option.arm,
            "total": price(option.total),
            "npv_of_cost": price(option.npv_of_cost),
            **{name: price(getattr(option.tokens, name)) for name in UNIT_PRICES},
        }
        for option in found.options
    ]
    told = to.price(1.0, own)
    return {"currency": to.currency, "rate": rate_record(told.rate), "how": told.how, "options": options}


def _part(part: PartPrice) -> dict[str, Any]:
    row = part.row
    named = None
    if row is not None:
        named = {"provider": row.provider, "instance": row.instance, "as_of": str(row.as_of), "source": row.source}
    return {"option": part.option, "path": part.path, "per_gpu_hour": part.value, "in_table": named}


def _option(option: Option) -> dict[str, Any]:
    return {
        "name": option.name,
        "kind": option.kind,
        "arm": option.arm,
        "total": option.total,
        "npv_of_cost": option.npv_of_cost,
        "tokens": asdict(option.tokens),
        "yearly": _records(option.yearly),
        "monthly": _records(option.monthly),
        "flows": list(option.flows),
        "beyond_term": option.beyond_term,
    }


def _records(frame: Any) -> list[dict[str, Any]]:
    whole = ("month", "year")
    return [
        {name: int(value) if name in whole else _number(value) for name, value in row.items()}
        for row in frame.to_dict(orient="records")
    ]


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _choice(choice: Choice) -> dict[str, Any]:
    return {**asdict(choice), "flows": list(choice.flows)}


def _moved(found: Found) -> list[dict[str, Any]]:
    return [{**asdict(moved), "sentence": told} for moved, told in zip(found.moved, found.moved_told, strict=True)]


def _drawn(drawn: Drawn) -> dict[str, Any]:
    names = ("option", "p05", "p50", "p95", "mean", "loss_share", "missed_share")
    options = [{name: getattr(chance, name) for name in names} for chance in drawn.chances]
    return {"draws": drawn.made, "asked": drawn.asked, "seed": drawn.seed, "options": options}
