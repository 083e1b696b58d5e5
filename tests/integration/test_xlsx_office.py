"""The workbook in LibreOffice: recalculated as it is, and after a reader has changed it, it says what Python says."""

import io
from datetime import UTC, datetime

import openpyxl
import pytest
from helpers.everything import MIXED, everything
from helpers.office import convert, soffice
from helpers.scenarios import scenario

from pricing.bill import LINES
from pricing.export.words import NO_VALUE
from pricing.export.xlsx import build
from pricing.export.xlsx_cases import of_block
from pricing.export.xlsx_summary import CASE, OTHER, OWN
from pricing.tco import BEHIND, choose, tco

pytestmark = pytest.mark.office
# What a reader may type into blue cells, one file each. A whole life, a half one, a loss, a fleet that is off at night.
CHANGES = {
    "dear": {
        "cloud.0.parts.0.per_gpu_hour": 3.333, "cloud.0.parts.1.interruption_share": 0.3, "workload.peak_factor": 4.2,
        "cloud.0.gpus_per_instance": 4, "cloud.0.support_share": 0.11, "tax_share": 0.18, "cost_of_capital": 0.21,
    },
    "growing": {
        "workload.growth_per_year": 1.7, "workload.requests_per_day": 250_000, "owned.0.life_years": 34.5 / 12,
        "owned.0.residual_share": 0.4, "owned.0.per_kwh": 0.23, "workload.hours_on_share": 1.0,
    },
    "a loss": {
        "serving.speculative.output_tokens_per_second": 700, "speculation.pilot": 250_000, "serving.spare_replicas": 0,
        "workload.cached_input_share": 0.0, "speculation.capacity_share_taken": 0.2,
    },
    "tight": {
        "serving.p95_target_s": 1.7, "load_curve.plain.0.p95_s": 6, "load_curve.speculative.1.p95_s": 1.6,
        "serving.gpus_per_replica": 2, "workload.output_tokens": 900, "owned.0.gpus_per_server": 4,
    },
    "shrinking": {
        "workload.growth_per_year": -0.6, "owned.0.life_years": 0.5, "speculation.upkeep_per_month": 0,
        "api.0.cached_input_per_million": 0.01, "cloud.0.storage_per_month": 12_345.67,
    },
}  # fmt: skip
CASES = {"best": "best", "worst": "worst"}


@pytest.fixture(scope="module")
def made():
    soffice()
    scenario = everything()
    asked = (None, (), (), (), None, datetime(2026, 11, 30, 9, 0, tzinfo=UTC), "en")
    found = build(scenario, "base", *asked)
    return scenario, found, found.book.close()


def typed(data, cells):
    """The file after somebody has typed into cells: no stored value survives that."""
    book = openpyxl.load_workbook(io.BytesIO(data))
    for reference, value in cells.items():
        sheet, cell = reference.replace("$", "").split("!")
        book[sheet.strip("'")][cell].value = value
    return book


@pytest.fixture(scope="module")
def recalculated(made, tmp_path_factory):
    """Each file as LibreOffice sees it, by its name."""
    _, found, data = made
    folder = tmp_path_factory.mktemp("office")
    case = openpyxl.utils.cell.get_column_letter(CASE[1] + 1) + str(CASE[0] + 1)
    files = []
    for name, values in CHANGES.items():
        book = typed(data, {found.inputs.base[path].text: value for path, value in values.items()})
        files.append((name, book))
    files += [(name, typed(data, {f"Summary!{case}": name})) for name in CASES]
    pick = {f"Summary!B{at[0] + 1}": label for at, label in ((OWN, "4. own, speculative"), (OTHER, "5. api"))}
    files.append(("another pair", typed(data, pick)))
    paths = []
    for name, book in files:
        paths.append(folder / f"{name}.xlsx")
        book.save(paths[-1])
    (folder / "untouched.xlsx").write_bytes(data)
    paths.append(folder / "untouched.xlsx")
    return {path.stem: openpyxl.load_workbook(path, data_only=True) for path in convert(paths, "xlsx", folder)}


def at(book, formula):
    sheet, cell = formula.text.replace("$", "").split("!")
    return book[sheet.strip("'")][cell].value


def cents(number):
    return NO_VALUE if number is None else pytest.approx(number, abs=0.005)


def assert_same(book, found, whole):
    for block in found.blocks:
        option = of_block(whole, block)
        assert at(book, block.flows.whole) == cents(option.total), block.label
        assert at(book, block.discounted.whole) == cents(option.npv_of_cost), block.label
        if block.beyond is not None:
            assert at(book, block.beyond) == cents(option.beyond_term), block.label
        if block.busy_share is not None:
            busy = [at(book, block.busy_share[t]) for t in range(1, block.busy_share.months + 1)]
            assert busy == pytest.approx(option.monthly["busy_share"].tolist()), block.label
        for line in (*LINES, *BEHIND):
            if line in block.lines:
                row = block.lines[line]
                months = [at(book, row[t]) for t in range(1, row.months + 1)]
                assert months == cents(option.monthly[line].tolist()), (block.label, line)
        for name, cell in block.tokens.items():
            number = getattr(option.tokens, name)
            told = at(book, cell)
            assert told == (NO_VALUE if number is None else pytest.approx(number, rel=1e-9)), (block.label, name)
    for pair, choice in zip(found.pairs, whole.speculation, strict=True):
        assert_compared(book, pair, choice)


def assert_compared(book, pair, choice):
    assert at(book, pair.saving) == cents(choice.saving)
    assert at(book, pair.npv) == cents(choice.npv)
    for name in ("saving_share", "irr", "payback_weeks", "discounted_payback_weeks"):
        number = getattr(choice, name)
        told = NO_VALUE if number is None else pytest.approx(number, rel=1e-6, abs=1e-9)
        assert at(book, getattr(pair, name)) == told, (choice.option, name)


def test_recalculated_as_it_is_it_gives_pythons_cents(made, recalculated):
    scenario, found, _ = made
    assert_same(recalculated["untouched"], found, tco(scenario))


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_reader_types_gives_pythons_cents(made, recalculated, name):
    scenario, found, _ = made
    assert_same(recalculated[name], found, tco(scenario.with_values(CHANGES[name])))


@pytest.mark.parametrize("case", CASES)
def test_the_switch_makes_it_the_other_case(made, recalculated, case):
    scenario, found, _ = made
    assert_same(recalculated[case], found, tco(scenario.with_values(getattr(scenario, case))))


@pytest.mark.parametrize("changes", [
    {}, {"serving.p95_target_s": 1.31}, {"serving.p95_target_s": 0.9}, {"serving.requests_at_once": 9},
    {"serving.speculative.output_tokens_per_second": 5000, "serving.requests_at_once": 1},
])  # fmt: skip
def test_a_queue_is_worked_out_again(tmp_path, changes):
    """Four at once take 1.2 s (plain) and 0.8 s by themselves; 0.9 s cannot be kept plain, and says so."""
    soffice()
    base = scenario(serving__p95_target_s=1.5, serving__requests_at_once=4, serving__busy_limit=0.9)
    found = build(base, "base", None, (), (), (), None, datetime(2026, 11, 30, 9, 0, tzinfo=UTC), "en")
    book = typed(found.book.close(), {found.inputs.base[path].text: value for path, value in changes.items()})
    book.save(tmp_path / "queue.xlsx")
    (made,) = convert([tmp_path / "queue.xlsx"], "xlsx", tmp_path / "out")
    assert_same(openpyxl.load_workbook(made, data_only=True), found, tco(base.with_values(changes)))


def test_what_is_reserved_serves_first_when_demand_falls(tmp_path):
    """Exported without growth; that demand falls by 60 % a year is typed into it."""
    soffice()
    base, falling = scenario(cloud=MIXED[1:3], years=4), {"workload.growth_per_year": -0.6}
    found = build(base, "base", None, (), (), (), None, datetime(2026, 11, 30, 9, 0, tzinfo=UTC), "en")
    book = typed(found.book.close(), {found.inputs.base[path].text: value for path, value in falling.items()})
    book.save(tmp_path / "falling.xlsx")
    (made,) = convert([tmp_path / "falling.xlsx"], "xlsx", tmp_path / "out")
    assert_same(openpyxl.load_workbook(made, data_only=True), found, tco(base.with_values(falling)))


def test_any_two_options_can_be_compared(made, recalculated):
    scenario, found, _ = made
    whole = tco(scenario)
    choice = choose(whole.option("own"), whole.option("api", "plain"), scenario.cost_of_capital.value)
    assert_compared(recalculated["another pair"], found.chosen, choice)
    change = {row[0].value: row[3].value for row in recalculated["another pair"]["Summary"].iter_rows()}
    assert change["Tokens"] == cents(-whole.option("api", "plain").total / 1.2)  # the tax has its own line
    assert change["Total after"] == cents(-choice.saving)


def test_every_stored_value_is_what_the_formula_comes_to(made, recalculated):
    """All of them: cell by cell, without a change."""
    _, found, _ = made
    book = recalculated["untouched"]
    wrong = []
    for sheet in found.sheets.values():
        for (row, column), formula in sheet.formulas.items():
            told = book[sheet.made.get_name()].cell(row + 1, column + 1).value
            same = (
                told == formula.value if isinstance(formula.value, str) else told == pytest.approx(float(formula.value))
            )
            if not same:
                wrong.append((sheet.name, row + 1, column + 1, formula.text, formula.value, told))
    assert wrong == []


def test_a_number_that_was_typed_is_not_what_was_stored(made, recalculated):
    """The comparison above would be worth nothing if LibreOffice had kept what stood there."""
    _, found, _ = made
    block = found.blocks[0]
    assert at(recalculated["dear"], block.flows.whole) != pytest.approx(block.flows.whole.value, rel=0.05)
