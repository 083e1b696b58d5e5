"""The sheets that are read and not calculated: prices, measurements, assumptions, changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime

from pricing.export.provenance import told_matches, told_rates
from pricing.export.told import Told, told
from pricing.export.words import Words
from pricing.export.workbook import Sheet, shown_text
from pricing.scenario import Scenario
from pricing.scenario_file import fingerprint
from pricing.tables import PriceTable

_PRICE_COLUMNS = (  # the source where the scenario's own prices have theirs
    "instance", "provider", "gpu", "currency", "source", "gpu_count", "gpu_mem_gb", "per_hour", "commitment", "region",
    "as_of", "valid_until", "evidence", "notes",
)  # fmt: skip


_SOURCE, _RULE = 50, 100  # characters of a column


def write_prices(sheet: Sheet, scenario: Scenario, prices: PriceTable | None, words: Words, today: date) -> None:
    """Of each rented price also whether it is in the table, whose hash vouches for no other."""
    sheet.put(0, 0, words("prices.title"), look="title")
    sheet.put(1, 0, words("prices.note"), look="about")
    heads = [words(f"inputs.{head}") for head in ("name", "used", "unit", "label", "source", "low", "high")]
    matches = told_matches(scenario, prices, today, words)
    row = 3
    sheet.row(row, 0, [*heads, words("prices.in_table")] if matches else heads, look="head")
    for number in told(scenario, words):
        if number.kind == "rate":
            row += 1
            _figure(sheet, row, number, words)
            if number.path in matches:
                sheet.put(row, 7, matches[number.path])
    row += 2
    if prices is not None:
        held = prices.on(today)
        rows = [price for price in held if scenario.serving.gpu in (price.gpu, price.gpu_key)] or list(held)
        sheet.put(row, 0, words("prices.table", file=prices.file, sha256=prices.sha256), look="section")
        row += 1
        sheet.row(row, 0, [words(f"price.{name}") for name in _PRICE_COLUMNS], look="head")
        sheet.made.set_row(row, 30)
        for price in rows:
            row += 1
            sheet.high_enough(row, {shown_text(str(getattr(price, name, ""))): _SOURCE for name in ("source", "notes")})
            for column, name in enumerate(_PRICE_COLUMNS):
                cell = getattr(price, name, None)
                number_kind = "number" if isinstance(cell, int | float) else "text"
                own = name == "per_hour" and price.currency == scenario.currency
                look = "wrapped" if name in ("source", "notes") else "plain"
                sheet.put(row, column, cell, "rate" if own else number_kind, look)  # type: ignore[arg-type]
    else:
        sheet.put(row, 0, words("prices.no_table"), look="note")
    sheet.widths(
        {0: 46, 1: 18, 2: 18, 3: 11, 4: _SOURCE, 5: 12, 6: 12, 7: 14, 8: 16, 9: 14, 10: 12, 11: 12, 12: 9, 13: _SOURCE}
    )
    sheet.made.freeze_panes(4, 1)
    sheet.print_as()


def _figure(sheet: Sheet, row: int, number: Told, words: Words) -> None:
    figure = number.figure
    kind = number.kind if number.kind in ("share", "rate") else "number"
    sheet.put(row, 0, f"{number.section}: {number.name}")
    sheet.put(row, 1, figure.value, kind)  # type: ignore[arg-type]
    sheet.put(row, 2, number.unit, look="note")
    sheet.put(row, 3, words(f"label.{figure.label}"))
    sheet.put(row, 4, figure.source, look="wrapped")
    sheet.row(row, 5, (figure.low, figure.high), kind)  # type: ignore[arg-type]
    sheet.high_enough(row, {figure.source: _SOURCE})


def write_measurements(
    sheet: Sheet, scenario: Scenario, measurements: Sequence[Mapping[str, object]], words: Words
) -> None:
    """Every measured and projected number with its source; below them raw runs, a row each."""
    sheet.put(0, 0, words("measurements.title"), look="title")
    sheet.put(1, 0, words("measurements.note"), look="about")
    heads = [words(f"inputs.{head}") for head in ("name", "used", "unit", "label", "source", "low", "high")]
    row = 3
    sheet.row(row, 0, heads, look="head")
    known = [number for number in told(scenario, words) if number.figure.label in ("measured", "projected")]
    for number in known:
        row += 1
        _figure(sheet, row, number, words)
    if not known:
        row += 1
        sheet.put(row, 0, words("measurements.none"), look="note")
    row += 2
    if measurements:
        sheet.put(row, 0, words("measurements.runs"), look="section")
        names = list(dict.fromkeys(name for run in measurements for name in run))
        row += 1
        sheet.row(row, 0, names, look="head")
        for run in measurements:
            row += 1
            for column, name in enumerate(names):
                cell = run.get(name)
                sheet.put(row, column, cell, "number" if isinstance(cell, int | float) else "text")
    sheet.widths({0: 46, 1: 20, 2: 20, 3: 12, 4: _SOURCE, 5: 12, 6: 12})
    sheet.made.freeze_panes(4, 1)
    sheet.print_as()


RULES = (
    "fleet", "busy", "rounding", "cloud", "owned", "residual", "timing", "tax", "split", "speculation", "payback",
    "curve", "no_advice",
)  # fmt: skip


def write_assumptions(sheet: Sheet, scenario: Scenario, words: Words) -> None:
    sheet.put(0, 0, words("assumptions.title"), look="title")
    sheet.put(1, 0, words("assumptions.note"), look="about")
    row = 3
    sheet.row(row, 0, [words("assumptions.labels"), None], look="section")
    for label in ("measured", "projected", "quoted", "assumed", "definition"):
        row += 1
        sheet.put(row, 0, words(f"label.{label}"))
        sheet.put(row, 1, words(f"label_about.{label}"), look="wrapped")
        sheet.high_enough(row, {words(f"label_about.{label}"): _RULE})
    if scenario.rates:
        row += 2
        sheet.row(row, 0, [words("rates.title"), None], look="section")
        for rate in told_rates(scenario, words):
            row += 1
            sheet.put(row, 0, "•")
            sheet.put(row, 1, rate, look="wrapped")
            sheet.high_enough(row, {rate: _RULE})
    row += 2
    sheet.row(row, 0, [words("assumptions.excluded"), None], look="section")
    for excluded in scenario.excluded or (words("assumptions.nothing_excluded"),):
        row += 1
        sheet.put(row, 0, "•")
        sheet.put(row, 1, excluded, look="wrapped")
        sheet.high_enough(row, {excluded: _RULE})
    row += 2
    sheet.row(row, 0, [words("assumptions.rules"), None], look="section")
    for rule in RULES:
        row += 1
        sheet.put(row, 0, words(f"rule_name.{rule}"), look="wrapped")
        sheet.put(row, 1, words(f"rule.{rule}"), look="wrapped")
        sheet.high_enough(row, {words(f"rule.{rule}"): _RULE})
    row += 2
    sheet.row(row, 0, [words("assumptions.numbers"), None, None, None, None], look="section")
    for number in told(scenario, words):
        if number.figure.label == "assumed":
            row += 1
            sheet.put(row, 0, f"{number.section}: {number.name}", look="wrapped")
            source = number.figure.source or words("assumptions.no_source")
            sheet.put(row, 1, source, look="wrapped")
            sheet.high_enough(row, {source: _RULE, f"{number.section}: {number.name}": 46})
            sheet.put(row, 2, number.figure.value, number.kind)  # type: ignore[arg-type]
            sheet.put(row, 3, number.unit, look="note")
    sheet.widths({0: 52, 1: _RULE, 2: 16, 3: 20})
    sheet.print_as()


def write_changes(
    sheet: Sheet,
    scenario: Scenario,
    prices: PriceTable | None,
    changes: Sequence[str],
    words: Words,
    written_at: datetime,
) -> None:
    sheet.put(0, 0, words("changes.title"), look="title")
    sheet.put(1, 0, words("changes.note"), look="about")
    row = 3
    sheet.row(row, 0, [words(f"changes.{head}") for head in ("when", "what", "by", "why")], look="head")
    row += 1
    sheet.put(row, 0, f"{written_at:%Y-%m-%d %H:%M} {written_at.tzname() or ''}".strip())
    told_export = words("changes.export", name=scenario.name, sha256=fingerprint(scenario))
    sheet.put(row, 1, told_export, look="wrapped")
    sheet.high_enough(row, {told_export: 84})
    if prices is not None:
        row += 1
        told_table = words("prices.table", file=prices.file, sha256=prices.sha256)
        sheet.put(row, 1, told_table, look="wrapped")
        sheet.high_enough(row, {told_table: 84})
    for rate in told_rates(scenario, words):
        row += 1
        told_converted = f"{words('rates.title')}: {rate}"
        sheet.put(row, 1, told_converted, look="wrapped")
        sheet.high_enough(row, {told_converted: 84})
    for change in changes:
        row += 1
        sheet.put(row, 1, change, look="wrapped")
        sheet.high_enough(row, {change: 84})
    for _ in range(12):
        row += 1
        sheet.row(row, 0, (None, None, None, None), look="input")
    sheet.widths({0: 24, 1: 90, 2: 24, 3: 50})
    sheet.made.freeze_panes(4, 0)
    sheet.print_as()
