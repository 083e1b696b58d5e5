"""The workbook's search for a rate of return: each formula's own arithmetic, without a spreadsheet program."""

import re

import pytest
from helpers.flows import KINDS, RateSheet, some_flows

from pricing.export.words import NO_VALUE
from pricing.finance import monthly_irr

# What both Excel 2007 and LibreOffice have and work out alike; IRR looks for a rate in its own way in each.
FUNCTIONS = {"ABS", "AND", "EXP", "IF", "LN", "MAX", "MIN", "OR", "SIGN", "SUM", "SUMPRODUCT"}


def searched(months, rows):
    """The value beside the formula of each row's monthly rate, and the sheet."""
    sheet = RateSheet(months, 0)
    return [sheet.add(flows)[1].value for flows in rows], sheet


@pytest.mark.parametrize("months", [12, 36, 60])
def test_the_formulas_arithmetic_finds_the_rate_that_flows_were_made_for_and_pythons(months):
    made = [row for row in some_flows(8 * len(KINDS) * 4, seed=3) if len(row.flows) == months + 1]
    found, _ = searched(months, [row.flows for row in made])
    assert {row.kind for row in made} == set(KINDS)
    for row, told in zip(made, found, strict=True):
        expected = monthly_irr(row.flows)
        if expected is None:
            assert told == NO_VALUE, row
        else:
            assert 1 + told == pytest.approx(1 + expected, rel=1e-9), row
        if row.yearly is not None:
            assert (1 + told) ** 12 == pytest.approx(1 + row.yearly, rel=1e-7), row


def test_worked_rates_and_dashes():
    """-100 and 50 a month later: half is left. -100, then 121 after two months: 10 % each. A month that leaves a part
    of 2^19 is the largest loss that has a rate; -100, 230, -132 is worth nothing at 10 % and at 20 %."""
    rest = [0.0] * 10
    worked = [([-100, 50, 0], -0.5), ([-100, 0, 121], 0.1), ([-1000, 1, 0], -0.999), ([-100, 100, 0], 0.0)]
    none = [[-100, 230, -132], [100, -110, 0], [-1, -1, 0], [1, 1, 0], [0, 0, 0], [-1e7, 10, 0]]
    found, _ = searched(12, [[*flows, *rest] for flows, _ in worked] + [[*flows, *rest] for flows in none])
    assert found[: len(worked)] == pytest.approx([rate for _, rate in worked], abs=1e-12)
    assert found[len(worked) :] == [NO_VALUE] * len(none)


def test_only_functions_that_every_spreadsheet_works_out_alike():
    _, sheet = searched(12, [[-1.0, *[0.2] * 12]])
    begin = sheet._search._step.index
    texts = [formula.text for (row, _), formula in sheet.calculation.formulas.items() if row >= begin]
    assert len(texts) > 200
    assert {name for text in texts for name in re.findall(r"([A-Z]+)\(", text)} == FUNCTIONS
