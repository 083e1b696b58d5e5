"""Rates of return in LibreOffice, of flows that were typed into a workbook: those that the flows were made for."""

import io

import openpyxl
import pytest
from helpers.flows import KINDS, RateSheet, some_flows
from helpers.office import convert, soffice
from helpers.scenarios import scenario

from pricing.export.grid import TODAY
from pricing.export.words import NO_VALUE
from pricing.export.xlsx import to_xlsx
from pricing.finance import monthly_irr
from pricing.tco import tco

pytestmark = pytest.mark.office
TERMS = (12, 24, 36, 60)


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """(flows, the workbook's monthly rate) of each row."""
    soffice()
    folder = tmp_path_factory.mktemp("rates")
    made = some_flows(24 * len(KINDS), seed=11)
    files, cells = [], []
    for months in TERMS:
        rows = [row for row in made if len(row.flows) == months + 1]
        sheet = RateSheet(months, len(rows))
        book = openpyxl.load_workbook(io.BytesIO(sheet.book.close()))
        for row, (saved, rate) in zip(rows, sheet.rows, strict=True):
            for month, flow in enumerate(row.flows):
                book["Calculation"].cell(saved.index + 1, TODAY + month + 1).value = flow
            cells.append((row, str(months), rate.text.split("!")[1].replace("$", "")))
        files.append(folder / f"{months}.xlsx")
        book.save(files[-1])
    books = {path.stem: openpyxl.load_workbook(path, data_only=True) for path in convert(files, "xlsx", folder)}
    return [(row, books[name]["Calculation"][cell].value) for row, name, cell in cells]


def test_a_rate_stands_where_python_has_one_and_a_dash_where_it_has_none(told):
    assert len(told) >= 300
    for row, rate in told:
        expected = monthly_irr(row.flows)
        assert (rate == NO_VALUE) == (expected is None), (row, rate)
        if expected is not None:
            assert 1 + rate == pytest.approx(1 + expected, rel=1e-9), row


def test_it_is_the_rate_that_the_flows_were_made_for(told):
    made = [(row, rate) for row, rate in told if row.yearly is not None]
    assert min(row.yearly for row, _ in made) < -0.99 < 10_000 < max(row.yearly for row, _ in made)
    for row, rate in made:
        assert (1 + rate) ** 12 == pytest.approx(1 + row.yearly, rel=1e-7), row


def test_rows_that_never_turn_and_those_that_turn_often_have_dashes(told):
    assert {rate for row, rate in told if row.kind in ("never", "nothing_left")} == {NO_VALUE}
    assert NO_VALUE in {rate for row, rate in told if row.kind == "many_turns"}


# Clear losses: what speculation saves is soon over, because demand falls to next to nothing.
LOSSES = {
    "soon over": {"workload.growth_per_year": -0.99, "speculation.pilot": 1_000_000},
    "two months": {
        "workload.growth_per_year": -0.9999, "speculation.pilot": 100_000,
        "serving.speculative.output_tokens_per_second": 1200,
    },
    "one machine": {
        "workload.growth_per_year": -0.9, "speculation.pilot": 1e8,
        "serving.speculative.output_tokens_per_second": 1100,
    },
}  # fmt: skip


def test_a_clear_loss_that_a_reader_typed_has_its_rate_in_the_summary(tmp_path):
    """At the rate that the summary tells, the flows are worth nothing."""
    soffice()
    base = scenario(years=3, speculation__pilot=20_000.0, workload__growth_per_year=0.0)
    data, files = to_xlsx(base), []
    for name, values in LOSSES.items():
        book = openpyxl.load_workbook(io.BytesIO(data))
        at = {row[0].value: row[2] for row in book["Inputs"].iter_rows()}
        for path, value in values.items():
            at[path].value = value
        files.append(tmp_path / f"{name}.xlsx")
        book.save(files[-1])
    for path in convert(files, "xlsx", tmp_path):
        book = openpyxl.load_workbook(path, data_only=True)["Calculation"]
        rates = [row[2].value for row in book.iter_rows() if row[0].value == "Rate of return (IRR)"]
        (choice,) = tco(base.with_values(LOSSES[path.stem])).speculation
        discount = (1 + rates[0]) ** (-1 / 12)
        worth = [flow * discount**month for month, flow in enumerate(choice.flows)]
        assert sum(worth) == pytest.approx(0, abs=1e-4 * max(worth)), path.stem
        assert 1 + rates[0] == pytest.approx(1 + choice.irr, rel=1e-6), path.stem
