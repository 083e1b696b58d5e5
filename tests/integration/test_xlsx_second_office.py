"""The workbook of a second currency in LibreOffice: it follows the rate's cell, and prints its summary on one page."""

import io
import re
from datetime import UTC, datetime

import openpyxl
import pytest
from helpers.everything import everything
from helpers.office import convert, soffice
from helpers.rates import lira

from pricing.export.xlsx import build
from pricing.export.xlsx_cases import of_block
from pricing.tco import tco

pytestmark = pytest.mark.office
PRICE, OTHER_RATE = "cloud.0.parts.0.per_gpu_hour", 51.2345


@pytest.fixture(scope="module")
def made():
    soffice()
    asked = (None, (), (), (), None, datetime(2026, 11, 30, 9, 0, tzinfo=UTC), "en")
    found = build(everything(), "base", *asked, to=lira())
    return found, found.book.close()


@pytest.fixture(scope="module")
def recalculated(made, tmp_path_factory):
    """As it was written, and with another rate and another price typed into their blue cells."""
    found, data = made
    folder = tmp_path_factory.mktemp("office")
    (folder / "untouched.xlsx").write_bytes(data)
    book = openpyxl.load_workbook(io.BytesIO(data))
    sheet = book["Inputs"]
    given = next(row for row in sheet.iter_rows() if row[0].value == "second.rate")
    given[2].value = OTHER_RATE
    sheet[found.inputs.base[PRICE].text.replace("$", "").split("!")[1]].value = 3.333
    book.save(folder / "changed.xlsx")
    paths = convert([folder / "untouched.xlsx", folder / "changed.xlsx"], "xlsx", folder)
    return {path.stem: openpyxl.load_workbook(path, data_only=True)["Summary"] for path in paths}


def table(sheet, head):
    """A table's rows by their first cell, each by the heads of its columns."""
    rows = [[cell.value for cell in row] for row in sheet.iter_rows()]
    at = next(i for i, row in enumerate(rows) if head in row)
    found = {}
    for row in rows[at + 1 :]:
        if row[0] is None:
            return found
        found[row[0]] = dict(zip(rows[at], row, strict=True))
    return found


@pytest.mark.parametrize(
    ("name", "rate", "changes"), [("untouched", 42.5, {}), ("changed", OTHER_RATE, {PRICE: 3.333})]
)
def test_totals_savings_and_present_values_are_pythons_cents_at_the_rates_cell(made, recalculated, name, rate, changes):
    found, _ = made
    whole = tco(everything().with_values(changes))
    options = table(recalculated[name], "Total, TRY")
    for block in found.blocks:
        row, option = options[block.label], of_block(whole, block)
        assert row["Total, USD"] == pytest.approx(option.total, abs=0.005)
        assert row["Total, TRY"] == pytest.approx(option.total * rate, abs=0.005), block.label
        assert row["Present value, TRY"] == pytest.approx(option.npv_of_cost * rate, abs=0.005), block.label
    worth = table(recalculated[name], "Saving, TRY")
    assert len(worth) == len(whole.speculation)
    for row, choice in zip(worth.values(), whole.speculation, strict=True):
        assert row["Saving, TRY"] == pytest.approx(choice.saving * rate, abs=0.005)
        assert row["Net present value, TRY"] == pytest.approx(choice.npv * rate, abs=0.005)


def test_the_summary_says_the_rate_that_stands_on_inputs(recalculated):
    rows = {row[0].value: [cell.value for cell in row[1:4]] for row in recalculated["changed"].iter_rows()}
    assert rows["Also in TRY, at"] == [OTHER_RATE, "TRY per USD", "selling"]
    assert rows["quoted on, by"][:2] == [datetime(2026, 11, 27), "our bank"]


def test_every_stored_value_is_what_the_formula_comes_to(made, recalculated):
    found, _ = made
    sheet, wrong = recalculated["untouched"], []
    for (row, column), formula in found.sheets["summary"].formulas.items():
        told, value = sheet.cell(row + 1, column + 1).value, formula.value
        if isinstance(told, datetime):
            told = (told - datetime(1899, 12, 30)).days
        if not (told == value if isinstance(value, str) else told == pytest.approx(float(value))):
            wrong.append((row + 1, column + 1, formula.text, value, told))
    assert wrong == []


def test_the_printed_summary_is_one_landscape_page(made, tmp_path):
    _, data = made
    (tmp_path / "book.xlsx").write_bytes(data)
    book = openpyxl.load_workbook(tmp_path / "book.xlsx")
    for sheet in book.worksheets[1:]:  # which have pages of their own
        sheet.sheet_state = "hidden"
    book.save(tmp_path / "summary.xlsx")
    (pdf,) = convert([tmp_path / "summary.xlsx"], "pdf", tmp_path)
    content = pdf.read_bytes()
    assert len(re.findall(rb"/Type\s*/Page\b", content)) == 1
    width, height = map(float, re.search(rb"/MediaBox\s*\[\s*0 0 ([\d.]+) ([\d.]+)", content).groups())
    assert (round(width), round(height)) == (842, 595)  # A4
