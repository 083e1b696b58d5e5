"""The Inputs sheet: every number of the scenario once, with its label, source and range. All other sheets read it."""

from __future__ import annotations

from pricing.demand import HOURS_PER_YEAR, SECONDS_PER_DAY
from pricing.export.formula import Formula, in_case
from pricing.export.second import Second
from pricing.export.told import Told, told
from pricing.export.words import Words
from pricing.export.workbook import Kind, Sheet
from pricing.export.xlsx_second import SecondCells, write_second
from pricing.finance import LARGEST_DISCOUNT
from pricing.queue import BUSY_SHARES, LATER
from pricing.scenario import Scenario

# What a month, a million and a rounding are, so that no formula hides a number.
CONSTANTS: dict[str, float] = {
    "months_per_year": 12,
    "days_per_year": 365,
    "hours_per_year": HOURS_PER_YEAR,
    "seconds_per_day": SECONDS_PER_DAY,
    "days_per_week": 7,
    "million": 1e6,
    "thousand": 1000,
    "two": 2,
    "tolerance": 1e-9,
    "later": LATER,
    "busy_step": BUSY_SHARES[0],
    # No gain lies beyond e^24: what is paid first is at least `tolerance`, 1 / e^20.7, of the largest flow.
    "rate_span": 24,
    "largest_discount": LARGEST_DISCOUNT,
}
FIRST_ROW = 5
PATH, NAME, BASE, BEST, WORST, USED, UNIT, LABEL, SOURCE, LOW, HIGH = range(11)


class Inputs:
    """Cells by what is in them. `inputs(path)`: the scenario's number as the case in use has it; `constant(name)`;
    `by_the_hour(option, part)`: 1 where a part is billed for the hours of service only, else 0. `second`: the rate of a
    second currency, None without one."""

    def __init__(
        self, sheet: Sheet, scenario: Scenario, words: Words, case: Formula, also: Second | None = None
    ) -> None:
        self._sheet, self._scenario, self._words, self._case = sheet, scenario, words, case
        self._used: dict[str, Formula] = {}
        self._constants: dict[str, Formula] = {}
        self._switches: dict[tuple[int, int], Formula] = {}
        self._terms: dict[tuple[int, int], Formula] = {}
        self.base: dict[str, Formula] = {}
        self.cases: dict[str, tuple[Formula | None, Formula | None]] = {}
        self.second: SecondCells | None = None
        self._row = FIRST_ROW
        self._write(also)

    def __call__(self, path: str) -> Formula:
        return self._used[path]

    def __contains__(self, path: str) -> bool:
        return path in self._used

    def constant(self, name: str) -> Formula:
        return self._constants[name]

    def by_the_hour(self, option: int, part: int) -> Formula:
        return self._switches[option, part]

    def term_months(self, option: int, part: int) -> Formula:
        """Months for which a part's GPUs are paid once they are rented."""
        return self._terms[option, part]

    def _write(self, also: Second | None) -> None:
        sheet, words = self._sheet, self._words
        sheet.put(0, 0, words("inputs.title"), look="title")
        sheet.put(1, 0, words("inputs.note"), look="about")
        sheet.put(2, 0, words("inputs.fixed", term=words.term(self._scenario.years)), look="about")
        heads = ("path", "name", "base", "best", "worst", "used", "unit", "label", "source", "low", "high")
        for column, head in enumerate(heads):
            numeric = column in (BASE, BEST, WORST, USED, LOW, HIGH)
            sheet.put(FIRST_ROW - 1, column, words(f"inputs.{head}"), "number" if numeric else "text", "head")
        section = None
        for number in told(self._scenario, words):
            if number.section != section:
                section = number.section
                self._section(section)
            self._figure(number)
        self._section(words("section.switches"))
        for i, option in enumerate(self._scenario.cloud):
            for j, part in enumerate(option.parts):
                name = words("input.by_the_hour", option=option.name, commitment=words(f"commitment.{part.commitment}"))
                path, source = f"cloud.{i}.parts.{j}.by_the_hour", words("source.commitment")
                made = self._plain(path, name, float(part.by_the_hour), words("unit.switch"), source)
                self._switches[i, j] = made
                name = words("input.term_months", option=option.name, commitment=words(f"commitment.{part.commitment}"))
                path, months = f"cloud.{i}.parts.{j}.term_months", float(part.term_months)
                self._terms[i, j] = self._plain(path, name, months, words("unit.months"), source)
        if also is not None:
            self._section(words("section.second", currency=also.currency))
            self.second = write_second(sheet, also, words, self._told)
        self._section(words("section.constants"))
        for constant, value in CONSTANTS.items():
            name, unit = words(f"constant.{constant}"), words(f"constant_unit.{constant}")
            self._constants[constant] = self._plain(
                f"constant.{constant}", name, value, unit, words("source.definition")
            )
        sheet.widths({0: 44, 1: 48, 2: 14, 3: 12, 4: 12, 5: 14, 6: 20, 7: 11, 8: 52, 9: 12, 10: 12})
        sheet.made.freeze_panes(FIRST_ROW, 2)
        sheet.made.autofilter(FIRST_ROW - 1, 0, self._row - 1, HIGH)
        sheet.print_as(repeat_rows=FIRST_ROW - 1)

    def _section(self, title: str) -> None:
        for column in range(HIGH + 1):
            self._sheet.put(self._row, column, title if column == 0 else None, look="section")
        self._row += 1

    def _figure(self, number: Told) -> None:
        sheet, row, figure = self._sheet, self._row, number.figure
        kind: Kind = {"share": "share", "rate": "rate"}.get(number.kind, "number")  # type: ignore[assignment]
        sheet.put(row, PATH, number.path, look="about")
        sheet.put(row, NAME, number.name)
        base = sheet.put(row, BASE, figure.value, kind, "input")
        others = []
        for column, case in ((BEST, self._scenario.best), (WORST, self._scenario.worst)):
            told_there = case.get(number.path)
            others.append((sheet.put(row, column, told_there, kind, "input"), told_there is None))
        self._used[number.path] = sheet.put(row, USED, in_case(self._case, base, *others), kind)
        self.base[number.path] = base
        self.cases[number.path] = (None if others[0][1] else others[0][0], None if others[1][1] else others[1][0])
        sheet.put(row, UNIT, number.unit, look="note")
        sheet.put(row, LABEL, self._words(f"label.{figure.label}"))
        sheet.put(row, SOURCE, figure.source, look="wrapped")
        sheet.high_enough(row, {figure.source: 56})
        sheet.put(row, LOW, figure.low, kind)
        sheet.put(row, HIGH, figure.high, kind)
        self._row += 1

    def _plain(self, path: str, name: str, value: float, unit: str, source: str) -> Formula:
        """Without a case and a range: what follows from words, or holds by definition."""
        kind: Kind = "number" if value == 0 or value >= 1 else "text"
        definition = path.startswith("constant.")
        label = self._words("label.definition" if definition else "label.assumed")
        return self._told(path, name, value, kind, unit, label, source, "fixed" if definition else "input")

    def _told(
        self, path: str, name: str, value: object, kind: Kind, unit: str, label: str, source: str, look: str = "input"
    ) -> Formula:
        sheet, row = self._sheet, self._row
        sheet.put(row, PATH, path, look="about")
        sheet.put(row, NAME, name)
        base = sheet.put(row, BASE, value, kind, look)
        used = sheet.put(row, USED, base, kind)
        sheet.put(row, UNIT, unit, look="note")
        sheet.put(row, LABEL, label)
        sheet.put(row, SOURCE, source, look="wrapped")
        sheet.high_enough(row, {source: 56})
        self._row += 1
        return used
