"""The Summary sheet: what it costs, what speculation is worth, any option in place of any other, and the checks. It is
laid out for one printed page: charts and what the answer hangs on stand beside the headline and the bill."""

from __future__ import annotations

from collections.abc import Sequence

from pricing.export.formula import Cells, Formula, entry, place_of, place_of_smallest
from pricing.export.told import Conditions
from pricing.export.words import Words
from pricing.export.workbook import Sheet
from pricing.export.xlsx_cases import of_block
from pricing.export.xlsx_charts import cumulative_chart, waterfall_chart
from pricing.export.xlsx_choices import Choices, Compared
from pricing.export.xlsx_inputs import Inputs
from pricing.export.xlsx_options import Block
from pricing.export.xlsx_page import Page
from pricing.export.xlsx_tables import Bill, Tables, known_costs, verdict, write_checks, write_conditions
from pricing.scenario import Scenario
from pricing.tco import Tco

CASE, OWN, OTHER = (4, 1), (5, 1), (6, 1)  # the three cells that a reader chooses in
_RATE = 7  # the row of a second currency's rate, below the pickers
_CHART_ROWS = 17
_RIGHT = 5  # the first column of what stands beside the headline and the bill


def choices_cells(sheet: Sheet, words: Words, case: str, names: Cells) -> Formula:
    """The case's switch, written before all that follows it; its number from 1."""
    sheet.put(CASE[0], 0, words("summary.case"))
    picked = sheet.put(*CASE, words(f"case.{case}"), look="input")
    sheet.made.data_validation(*CASE, *CASE, {"validate": "list", "source": "=" + names.text})
    return place_of(picked, names)


def write_pickers(sheet: Sheet, words: Words, choices: Choices, own: Block, other: Block) -> tuple[Formula, Formula]:
    """The two options that are compared: their labels' cells."""
    cells = []
    for at, key, block in ((OWN, "summary.own", own), (OTHER, "summary.other", other)):
        sheet.put(at[0], 0, words(key))
        sheet.made.merge_range(at[0], at[1], at[0], at[1] + 2, "", sheet.workbook.format("text", "input"))
        cells.append(sheet.put(*at, block.label, look="input"))
        sheet.made.data_validation(*at, *at, {"validate": "list", "source": "=" + choices.labels.text})
    return cells[0], cells[1]


class Summary:
    """python: in the case in use. swung: the option whose best and worst case are told."""

    def __init__(
        self, sheet: Sheet, scenario: Scenario, x: Inputs, choices: Choices, words: Words, python: Tco, swung: Block
    ) -> None:  # fmt: skip
        self.sheet, self.scenario, self.x, self.choices, self.words = sheet, scenario, x, choices, words
        self.blocks, self.python, self.swung, self.second = choices.blocks, python, swung, x.second
        # Options have the most columns: their amounts, tokens' costs, machines and what is owed.
        self.last = max(14, 7 + len(known_costs(self.blocks)) + (2 if self.second else 0))

    def write(
        self,
        speculation: Sequence[Compared],
        chosen: Compared,
        by_line: dict[str, Cells],
        places: tuple[Formula, Formula],
        cases: Sequence[Tco],
        day: str,
        months: int,
        hangs: Conditions,
    ) -> None:
        """cases: the totals of base, best and worst, in this order."""
        words, scenario, n = self.words, self.scenario, len(self.blocks)
        page = self.page = Page(self.sheet, words, self.last)
        headline = _RATE + (3 if self.second else 1)
        right = max(_RATE + 1, n + 4)  # below the checks
        bill = headline + (10 if self.second else 7) + 1
        hanging = right + _CHART_ROWS + 1
        ends = (bill + 5 + len(by_line), hanging + 2 + len(hangs.numbers) + bool(hangs.left_out))
        about = max(ends) + 1
        options = about + (2 if scenario.about else 0)
        tables = Tables(page, self.x, self.blocks, self.second, scenario.currency, options)
        self._top(day)
        write_checks(page, 1, _RIGHT, self.blocks, self.python, self.x, day)
        page.row = headline
        self._headline(tables.presents, chosen, cases, day)
        page.row = bill
        bars = Bill(page, self.last + 2).write(chosen, by_line, places)
        page.row = hanging
        write_conditions(page, _RIGHT, hangs, self.x, scenario)
        if scenario.about:
            page.paragraph(about, scenario.about)
        page.row = options
        tables.write_options()
        tables.write_speculation(speculation)
        widest = max(option.total for found in cases for option in found.options)
        page.widths(widest, tables.wide, self.second.given.amount(widest) if self.second else None)
        self._charts(bars, months, right)
        page.print(options)

    def _top(self, day: str) -> None:
        sheet, words, scenario = self.sheet, self.words, self.scenario
        self.page.high(0, 27)
        sheet.put(0, 0, scenario.name, look="title")
        term = words.term(scenario.years)
        subtitle = words("summary.subtitle", term=term, currency=scenario.currency, date=day)
        sheet.put(1, 0, subtitle, look="about")
        self.page.merged(2, 0, 4, words("summary.how"), look="how")
        if self.second is not None:
            # Cells and no sentence, so that it says what stands on Inputs now.
            second = self.second
            sheet.put(_RATE, 0, words("second.line", currency=second.given.currency))
            sheet.put(_RATE, 1, second.rate, second.kind, "bold")
            sheet.put(_RATE, 2, second.unit, look="note")
            sheet.put(_RATE, 3, second.side, look="note")
            sheet.put(_RATE + 1, 0, words("second.quoted"))
            sheet.put(_RATE + 1, 1, second.day, "day", "bold")
            sheet.put(_RATE + 1, 2, second.source, look="note")

    def _headline(self, presents: Cells, chosen: Compared, cases: Sequence[Tco], day: str) -> None:
        sheet, words, choices, page = self.sheet, self.words, self.choices, self.page
        page.section(words("summary.headline"), 0, 3)
        cheapest = place_of_smallest(presents)
        self._say("summary.cheapest", (entry(choices.labels, cheapest), "text"))
        row = page.row
        self._both("summary.cheapest_cost", entry(choices.totals, cheapest), entry(presents, cheapest))
        sheet.put(row, 3, words("summary.present"), look="note")
        share, told = (chosen.saving_share, "share"), (verdict(chosen, self.x, words), "note")
        saving = self._say("summary.chosen", (chosen.saving, "money"), share, told)[0]
        self._in_second(saving)
        self._say("summary.payback", (chosen.payback_weeks, "tenth"), (chosen.discounted_payback_weeks, "tenth"))
        sheet.put(page.row - 1, 3, words("summary.discounted"), look="note")
        _, best, worst = (of_block(found, self.swung).total for found in cases)
        self._both("summary.range", best, worst)
        sheet.put(page.row, 0, words("summary.range_of", option=self.swung.title, date=day), look="note")

    def _both(self, key: str, *amounts: object) -> None:
        """Amounts, and under them the same in the second currency."""
        self._in_second(*self._say(key, *((amount, "money") for amount in amounts)))

    def _in_second(self, *own: Formula) -> None:
        if self.second is not None:
            self.sheet.put(self.page.row, 0, self.words("second.in", currency=self.second.given.currency), look="note")
            for i, cell in enumerate(own):
                self.sheet.put(self.page.row, 1 + i, self.second.of(cell), "also", "plain" if i else "bold")
            self.page.row += 1

    def _say(self, key: str, *cells: tuple[object, str]) -> list[Formula]:
        row = self.page.row
        self.sheet.put(row, 0, self.words(key))
        made = []
        for i, (what, kind) in enumerate(cells):
            look = "note" if kind == "note" else "bold" if i == 0 else "plain"
            made.append(self.sheet.put(row, 1 + i, what, "text" if kind == "note" else kind, look))  # type: ignore[arg-type]
        self.page.row += 1
        return made

    def _charts(self, bars: tuple[int, int], months: int, row: int) -> None:
        page, words, book, sheet = self.page, self.words, self.sheet.workbook, self.sheet.made
        gap = 14
        size = ((page.across(_RIGHT, self.last) - gap) // 2, page.down(row, row + _CHART_ROWS - 1))
        sheet.insert_chart(row, _RIGHT, cumulative_chart(book, self.blocks, self.choices.flows, words, months, size))
        helpers = self.last + 2
        chart = waterfall_chart(book, sheet.get_name(), bars, helpers, words, size)
        sheet.insert_chart(row, _RIGHT, chart, {"x_offset": size[0] + gap})
