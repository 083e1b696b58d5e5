"""A scenario as one workbook with live formulas: change a blue cell and everything follows.

Sheets are kept apart as the FAST standard asks: Inputs are the only numbers, Calculation the only arithmetic, each done
once, and no formula holds a number but 0 and 1. Every formula is stored with its value, for readers that calculate
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from pricing.exchange import Exchange
from pricing.export.grid import FIRST_ROW, TODAY, Grid
from pricing.export.second import second
from pricing.export.told import conditions
from pricing.export.words import Language, Words
from pricing.export.workbook import Sheet, Workbook
from pricing.export.xlsx_cases import Swings, case_names, of_block, write_scenarios, write_sensitivity
from pricing.export.xlsx_choices import Choices, Compared
from pricing.export.xlsx_demand import Demand
from pricing.export.xlsx_inputs import Inputs
from pricing.export.xlsx_notes import write_assumptions, write_changes, write_measurements, write_prices
from pricing.export.xlsx_options import Block, Options
from pricing.export.xlsx_summary import Summary, choices_cells, write_pickers
from pricing.scenario import CASES, Arm, Case, Scenario
from pricing.sensitivity import Chances, tornado
from pricing.tables import PriceTable
from pricing.tco import Tco, tco

SHEETS = (
    "summary", "inputs", "prices", "measurements", "calculation", "sensitivity", "scenarios", "assumptions", "changes",
)  # fmt: skip
_COLOURS = {"inputs": "#2563EB", "calculation": "#616E7C", "prices": "#2563EB", "measurements": "#2563EB"}


@dataclass(frozen=True)
class Built:
    """A workbook that is not closed yet. sheets by key, inputs by path; pairs: speculative in place of plain."""

    book: Workbook
    sheets: dict[str, Sheet]
    inputs: Inputs
    blocks: list[Block]
    pairs: list[Compared]
    chosen: Compared


def to_xlsx(
    scenario: Scenario,
    *,
    case: Case = "base",
    prices: PriceTable | None = None,
    measurements: Sequence[Mapping[str, object]] = (),
    chances: Sequence[Chances] = (),
    changes: Sequence[str] = (),
    tornado_of: str | None = None,
    tornado_arm: Arm | None = None,
    exported_at: datetime | None = None,
    language: Language = "en",
    to: Exchange | None = None,
) -> bytes:
    """The file's bytes. case: what its switch stands at. prices: the table behind the quoted ones, with its hash.
    measurements: raw runs as flat rows. chances: of a Monte Carlo, and changes: sentences on another scenario, where
    they were made. tornado_of: an option's name, tornado_arm: its way of decoding; default the speculative one, of
    least present value. exported_at: default now. to: another currency, whose rate stands on Inputs and whose amounts
    follow it. Raises ValueError with a sentence where the scenario cannot be served, and for an unknown option,
    RateError where no rate reaches that currency."""
    at = exported_at or datetime.now().astimezone()
    return build(
        scenario, case, prices, measurements, chances, changes, tornado_of, at, language, tornado_arm, to
    ).book.close()  # fmt: skip


def build(
    scenario: Scenario,
    case: Case,
    prices: PriceTable | None,
    measurements: Sequence[Mapping[str, object]],
    chances: Sequence[Chances],
    changes: Sequence[str],
    tornado_of: str | None,
    exported_at: datetime,
    language: Language,
    tornado_arm: Arm | None = None,
    to: Exchange | None = None,
) -> Built:
    """`to_xlsx` with its parts still in hand."""
    words = Words(language)
    all_cases = [tco(scenario.in_case(each)) for each in CASES]
    in_use = all_cases[CASES.index(case)]
    day = words.day(exported_at.date())
    also = second(to, scenario.currency)
    book = Workbook(scenario.currency, exported_at.replace(tzinfo=None), also.currency if also is not None else None)
    sheets = {key: book.add(words(f"sheet.{key}"), _COLOURS.get(key, "#0B3A75")) for key in SHEETS}

    switch = choices_cells(sheets["summary"], words, case, case_names(sheets["scenarios"], words))
    case_cell = sheets["inputs"].put(3, 5, switch, "whole", "bold")
    sheets["inputs"].put(3, 1, words("inputs.case"), look="bold")
    x = Inputs(sheets["inputs"], scenario, words, case_cell, also)

    sheet = sheets["calculation"]
    grid = Grid(sheet, 12 * scenario.years)
    sheet.put(0, 0, words("calc.title", name=scenario.name), look="title")
    sheet.put(1, 0, words("calc.note", currency=scenario.currency), look="about")
    need = Demand(grid, x, scenario, words)
    options = Options(grid, x, need, scenario, words)
    choices = Choices(grid, x, need.time, options.blocks, scenario.currency, words)
    pairs = [
        choices.pair(own, other)
        for other, own in pairwise(options.blocks)
        if own.arm == "speculative" and other.arm == "plain" and own.name == other.name
    ]

    own, other = _default_pair(options.blocks, in_use)
    labels = write_pickers(sheets["summary"], words, choices, own, other)
    places = (
        choices.place(labels[0], words("calc.place_own")),
        choices.place(labels[1], words("calc.place_other")),
    )
    chosen = choices.chosen(*places)
    by_line = choices.by_line()
    sheet.widths({0: 52, 1: 16, 2: 18, 3: 1.5, **dict.fromkeys(range(TODAY, TODAY + grid.months + 1), 14)})
    sheet.made.freeze_panes(FIRST_ROW, TODAY)
    sheet.made.repeat_rows(4, 5)
    sheet.made.repeat_columns(0, 2)
    sheet.made.fit_to_pages(scenario.years, 0)

    Summary(sheets["summary"], scenario, x, choices, words, in_use, own).write(
        pairs, chosen, by_line, places, all_cases, day, grid.months,
        conditions(scenario.in_case(case), own.name, own.arm, words),
    )  # fmt: skip
    write_prices(sheets["prices"], scenario, prices, words, exported_at.date())
    write_measurements(sheets["measurements"], scenario, measurements, words)
    swung = own if tornado_of is None else _named(options.blocks, tornado_of, tornado_arm)
    as_used = scenario.in_case(case)
    drivers = tornado(as_used, swung.name, swung.arm)
    write_sensitivity(sheets["sensitivity"], as_used, Swings(swung, drivers), chances, words, day)
    write_scenarios(sheets["scenarios"], scenario, x, options.blocks, all_cases, words, day)
    write_assumptions(sheets["assumptions"], scenario, words)
    write_changes(sheets["changes"], scenario, prices, changes, words, exported_at)
    sheets["summary"].made.activate()
    return Built(book, sheets, x, options.blocks, pairs, chosen)


def _default_pair(blocks: Sequence[Block], found: Tco) -> tuple[Block, Block]:
    """The cheapest speculative option in place of its own plain decoding; without one, the first in place of the
    last."""
    pairs = [(b, a) for a, b in pairwise(blocks) if b.arm == "speculative"]
    return min(pairs, key=lambda pair: of_block(found, pair[0]).npv_of_cost) if pairs else (blocks[0], blocks[-1])


def _named(blocks: Sequence[Block], name: str, arm: Arm | None) -> Block:
    """Speculative where there are both and none is named."""
    known = [block for block in blocks if block.name == name]
    known = [block for block in known if block.arm == arm] or known
    if not known:
        raise ValueError(f"no option is called {name}; there are " + ", ".join(dict.fromkeys(b.name for b in blocks)))
    return known[-1]
