"""The workbook's arithmetic is Python's, its formulas are plain, and its texts are texts."""

import io
import re
import zipfile
from datetime import UTC, date, datetime

import openpyxl
import pytest
from helpers.everything import API, CLOUD, HOSTILE, MIXED, OWNED, everything
from helpers.scenarios import scenario
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from pricing import load_prices
from pricing.export import xlsx, xlsx_demand, xlsx_options
from pricing.export.formula import Formula, round_off
from pricing.export.report import make_report
from pricing.export.told_moved import sentences
from pricing.export.words import LANGUAGES, NO_VALUE, Words, catalogue
from pricing.export.xlsx import build, to_xlsx
from pricing.export.xlsx_cases import of_block
from pricing.moved import what_moved
from pricing.sensitivity import monte_carlo
from pricing.tco import BEHIND, LINES, tco

AT = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)


def built(made, case="base", language="en", **other):
    asked = {"prices": None, "measurements": (), "chances": (), "changes": (), "tornado_of": None, **other}
    return build(made, case, exported_at=AT, language=language, **asked)


def opened(made, **asked):
    return openpyxl.load_workbook(io.BytesIO(to_xlsx(made, exported_at=AT, **asked)))


def value(number):
    """A cell's, with a dash for what is absent."""
    return pytest.approx(number, rel=1e-9, abs=1e-7) if number is not None else NO_VALUE


def assert_same(found, whole):
    """Each option's block and each comparison against Python's own."""
    for block in found.blocks:
        option = of_block(whole, block)
        assert block.flows.whole.value == value(option.total)
        assert block.discounted.whole.value == value(option.npv_of_cost)
        if block.beyond is not None:
            assert block.beyond.value == value(option.beyond_term)
        if block.busy_share is not None:
            busy = [block.busy_share.values[t] for t in range(1, block.busy_share.months + 1)]
            assert busy == value(option.monthly["busy_share"].tolist())
        for line in (*LINES, *BEHIND):
            months = option.monthly[line].tolist()
            kept = block.lines[line].values if line in block.lines else {}
            assert [kept.get(t, 0.0) for t in range(1, len(months) + 1)] == value(months), (block.label, line)
        for name, cell in block.tokens.items():
            assert cell.value == value(getattr(option.tokens, name)), (block.label, name)
    assert len(found.pairs) == len(whole.speculation)
    for pair, choice in zip(found.pairs, whole.speculation, strict=True):
        for name in ("saving", "saving_share", "npv", "irr", "payback_weeks", "discounted_payback_weeks"):
            assert getattr(pair, name).value == value(getattr(choice, name)), (choice.option, name)


@pytest.mark.parametrize("case", ["base", "best", "worst"])
def test_every_line_month_and_comparison_is_pythons(case):
    made = everything()
    values = getattr(made, case) if case != "base" else {}
    assert_same(built(made, case), tco(made.with_values(values)))


@pytest.mark.parametrize("growth", [-0.15, -0.6, 0.4])
def test_what_is_reserved_serves_first_in_the_workbook_too(growth):
    made = scenario(cloud=MIXED, years=4, workload__growth_per_year=growth)
    assert_same(built(made), tco(made))


@settings(max_examples=8, phases=(Phase.explicit, Phase.generate))  # a workbook takes too long to shrink one
@given(
    years=st.integers(1, 2),
    growth=st.floats(-0.5, 2),
    life=st.floats(0.2, 3),
    price=st.floats(0.01, 50),
    speed=st.floats(50, 5000),
    requests=st.floats(100, 1e7),
    spare=st.integers(0, 2),
)
def test_whatever_the_numbers_the_workbook_says_what_python_says(years, growth, life, price, speed, requests, spare):
    made = everything(
        years=years, workload__growth_per_year=growth, owned=[{**OWNED, "life_years": life}],
        cloud__0__parts__0__per_gpu_hour=price, serving__plain__output_tokens_per_second=speed,
        workload__requests_per_day=requests, serving__spare_replicas=spare, cloud=[CLOUD],
        best={}, worst={},
    )  # fmt: skip
    assert_same(built(made), tco(made))


PARTS = [
    {"commitment": "reserved_1yr", "fleet_share": 0.5, "per_gpu_hour": 2},
    {"commitment": "spot", "fleet_share": 0.25, "per_gpu_hour": 1, "interruption_share": 0.2},
    {"commitment": "reserved_3yr", "fleet_share": 0.25, "per_gpu_hour": 1.5},
]


@pytest.mark.parametrize("growth", [-0.6, 0.0, 0.9])
@pytest.mark.parametrize(("requests", "spare"), [(1e-6, 0), (90_000, 1), (864_000, 2)])
def test_a_mixed_fleet_its_terms_and_the_least_one_replica(growth, requests, spare):
    made = scenario(
        years=2, tax_share=0.2, speculation__pilot=10_000, speculation__upkeep_per_month=100,
        workload__growth_per_year=growth, workload__requests_per_day=requests, serving__spare_replicas=spare,
        cloud__0__parts=PARTS, cloud__0__gpus_per_instance=2, owned=[OWNED],
    )  # fmt: skip
    assert_same(built(made), tco(made))


@pytest.mark.parametrize("life", [34.5 / 12, 37.5 / 12, 0.5 / 12, 0.01, 1.0])
def test_half_a_month_of_life_is_rounded_as_python_rounds_it(life):
    made = scenario(owned=[{**OWNED, "life_years": life}], years=4, workload__growth_per_year=0.5)
    assert_same(built(made), tco(made))


def test_a_load_curve_that_keeps_its_target_everywhere_is_used_to_its_end():
    made = everything(serving__p95_target_s=9)
    assert_same(built(made), tco(made))


@pytest.mark.parametrize("places", [1, 4, 32])
@pytest.mark.parametrize("room", [0.9, 1.0, 1.3, 4.0, 50.0])
def test_a_target_without_a_measured_curve_is_held_by_the_queue(places, room):
    """`room`: the target over what a plain request takes by itself, below which it cannot be kept."""
    base = scenario(serving__busy_limit=0.8)
    made = scenario(
        serving__busy_limit=0.8, serving__requests_at_once=places, serving__p95_target_s=room * places * 0.3
    )
    found = built(made)
    assert_same(found, tco(made))
    if room == 50:
        assert_same(found, tco(base))


def test_a_machine_that_does_less_than_its_speeds_does_so_in_the_workbook_too():
    made = everything(serving__speed_factor=0.7)
    assert_same(built(made), tco(made))


def test_wrong_rules_are_seen(monkeypatch):
    """Rounding off in place of up, and paying one-off costs with all else, both change what the workbook says."""
    made = everything()
    with monkeypatch.context() as patch:
        patch.setattr(xlsx_demand, "round_up", round_off)
        with pytest.raises(AssertionError):
            assert_same(built(made), tco(made))
    with monkeypatch.context() as patch:
        queued = scenario(serving__p95_target_s=1.0)
        patch.setattr(xlsx_demand, "poisson", lambda events, mean, upto: Formula("1", 1.0))
        with pytest.raises(AssertionError):
            assert_same(built(queued), tco(queued))
    with monkeypatch.context() as patch:
        patch.setattr(xlsx_options.Options, "_paid", lambda self, lines, running, tax, taxed, taxed_early: (
            self._money("early", lambda t: 0),
            self._money("late", lambda t: xlsx_options.sum_of([line[t] for line in lines.values()])),
        ))  # fmt: skip
        with pytest.raises(AssertionError):
            assert_same(built(made), tco(made))


def test_an_api_alone_and_a_rented_fleet_alone_make_workbooks():
    for made in (scenario(cloud=[], api=[API]), scenario()):
        found = built(made)
        assert_same(found, tco(made))
        assert found.book.close()


# Formulas

REFERENCE = re.compile(r"(?:'[^']+'|[A-Za-z]+)?!?\$?[A-Z]{1,3}\$?[0-9]+")


def bare(text):
    """A formula without its words and cells: what is left of digits are numbers in it."""
    return REFERENCE.sub("", re.sub(r'"[^"]*"', "", text))


def test_no_formula_holds_a_number_but_nothing_and_one():
    found = built(everything())
    for sheet in found.sheets.values():
        for formula in sheet.formulas.values():
            assert set(re.findall(r"[0-9.]+", bare(formula.text))) <= {"0", "1"}, formula.text
    with pytest.raises(ValueError, match="give it a cell on Inputs"):
        Formula("A1", 3.0) * 12


def test_no_formula_jumps_about_and_none_is_long():
    found = built(everything())
    formulas = [f.text for sheet in found.sheets.values() for f in sheet.formulas.values()]
    assert len(formulas) > 3000
    assert not [f for f in formulas if re.search(r"OFFSET|INDIRECT|NOW|TODAY|RAND", f)]
    assert max(len(f.replace("Calculation!", "")) for f in formulas) < 140
    with zipfile.ZipFile(io.BytesIO(to_xlsx(everything(), exported_at=AT))) as file:
        assert b'definedName name="_xlnm' in file.read("xl/workbook.xml")  # titles to print and a filter, and no other
        names = re.findall(rb'definedName name="([^"]+)"', file.read("xl/workbook.xml"))
    assert {name.split(b".")[0] for name in names} == {b"_xlnm"}


def relative(text, row, column):
    """With what is not anchored told as a distance: the same along a row that is calculated in one way."""

    def told(match):
        anchored_column, letters, anchored_row, digits = match.groups()
        across = openpyxl.utils.column_index_from_string(letters) - 1
        return (letters if anchored_column else f"C[{across - column}]") + (
            digits if anchored_row else f"R[{int(digits) - 1 - row}]"
        )

    return re.sub(r"(\$?)([A-Z]{1,3})(\$?)([0-9]+)", told, text)


def test_a_row_of_months_has_one_formula():
    sheet = built(everything()).sheets["calculation"]
    rows = {}
    for (row, column), formula in sheet.formulas.items():
        if column >= 5:  # from month 1 on
            rows.setdefault(row, set()).add(relative(formula.text, row, column))
    points = [row for row, kinds in rows.items() if len(kinds) > 1]
    assert len(rows) > 150
    assert len(points) == 2, points  # the speculative load curve's three points are links to three cells of Inputs


def test_readers_that_calculate_nothing_see_the_numbers():
    made = everything()
    data = to_xlsx(made, exported_at=AT)
    book = openpyxl.load_workbook(io.BytesIO(data), data_only=True)
    rows = [[cell.value for cell in row] for row in book["Summary"].iter_rows()]
    at = next(i for i, row in enumerate(rows) if row[1] == "Total, USD")
    totals = {row[0]: row[1] for row in rows[at : at + 7]}
    for number, option in enumerate(("plain", "speculative"), 1):
        assert totals[f"{number}. rented, {option}"] == pytest.approx(tco(made).option("rented", option).total)


# What is in it


def test_it_has_all_sheets_in_both_languages_with_names_that_fit():
    assert opened(everything()).sheetnames == [
        "Summary", "Inputs", "Prices with sources", "Measurements", "Calculation", "Sensitivity", "Scenarios",
        "Assumptions and exclusions", "Change log",
    ]  # fmt: skip
    for language in LANGUAGES:
        assert all(len(name) <= 31 for name in opened(everything(), language=language).sheetnames)
    assert opened(everything(), language="tr").sheetnames[0] == "Özet"
    with pytest.raises(ValueError, match="exports speak en and tr"):
        to_xlsx(everything(), language="de")


def test_both_languages_say_the_same_things():
    english, turkish = (catalogue(language) for language in LANGUAGES)
    assert english.keys() == turkish.keys()
    for key, text in english.items():
        assert set(re.findall(r"{\w+}", text)) == set(re.findall(r"{\w+}", turkish[key])), key


def test_inputs_have_their_label_source_and_range():
    made = everything()
    sheet = opened(made)["Inputs"]
    rows = {row[0].value: [cell.value for cell in row] for row in sheet.iter_rows(min_row=6)}
    assert set(made.figures()) <= set(rows)
    path = "serving.plain.output_tokens_per_second"
    assert rows[path][1:5] == ["Writing speed of a replica, plain", 1000, None, None]
    assert rows[path][6:] == ["tokens/s", "measured", "run 1, H100 SXM, 1 Nov 2026", 900, 1050]
    assert rows["workload.peak_factor"][2:5] == [2, 1.5, 3]
    assert rows["constant.hours_per_year"][2] == 8760
    assert {row[7] for path, row in rows.items() if path in made.figures()} == {
        "measured", "projected", "quoted", "assumed",
    }  # fmt: skip


def test_prices_carry_the_tables_hash_and_days():
    prices = load_prices()
    sheet = opened(everything(), prices=prices)["Prices with sources"]
    texts = [cell.value for row in sheet.iter_rows() for cell in row if cell.value is not None]
    assert any(prices.sha256 in str(text) for text in texts)
    assert any(isinstance(text, datetime) and text.date() == date(2026, 11, 9) for text in texts)
    assert texts.count("H100 SXM") == sum(row.gpu == "H100 SXM" for row in prices.on(date(2026, 11, 30)))


def test_the_tornado_says_who_worked_it_out_and_its_base_lives():
    made = everything()
    sheet = opened(made, chances=monte_carlo(made, 50), tornado_of="own")["Sensitivity"]
    cells = [cell.value for row in sheet.iter_rows() for cell in row if cell.value is not None]
    texts = [text for text in cells if isinstance(text, str)]
    assert any("computed in Python at export, Nov 30, 2026" in text or "30 Nov 2026" in text for text in texts)
    assert any("own, speculative" in text for text in texts)
    assert sheet["B5"].value.startswith("=Calculation!")
    assert "own: Price of a server" in texts
    assert any("Monte Carlo: 50 draws" in text for text in texts)
    with pytest.raises(ValueError, match="no option is called nobody; there are rented, own"):
        to_xlsx(made, tornado_of="nobody")


def test_draws_in_which_no_fleet_keeps_the_target_stand_beside_their_totals():
    """0.3 s plain and 0.2 s speculative by themselves, against 0.25 s."""
    made = scenario(serving__p95_target_s=0.25, cloud__0__parts__0__per_gpu_hour={"value": 2.49, "low": 2, "high": 3})
    rows = {row[0].value: row for row in opened(made, chances=monte_carlo(made, 50))["Sensitivity"].iter_rows()}
    assert rows["Option"][6].value == "No fleet keeps P95 in"
    assert (rows["rented, plain"][6].value, rows["rented, speculative"][6].value) == (1, 0)
    free = scenario(cloud__0__parts__0__per_gpu_hour={"value": 2.49, "low": 2, "high": 3})
    rows = {row[0].value: row for row in opened(free, chances=monte_carlo(free, 50))["Sensitivity"].iter_rows()}
    assert rows["Option"][6].value is None


def test_changes_against_another_scenario_are_written_down():
    before, after = everything(), everything(workload__peak_factor=4)
    told = sentences(what_moved(before, after, "rented"), before, after, Words())
    sheet = opened(after, changes=told)["Change log"]
    assert any("goes from 2 to 4 (+100%); that alone raises" in str(row[1].value) for row in sheet.iter_rows())


# Texts are texts


def hostile():
    options = {
        "cloud": [{**CLOUD, "name": HOSTILE[0]}, {**CLOUD, "name": "a*b?~c"}, {**CLOUD, "name": "A*B?~C"}],
        "owned": [{**OWNED, "name": HOSTILE[3]}],
        "api": [{**API, "name": HOSTILE[1]}],
    }
    source = {"value": 2, "label": "quoted", "source": '=HYPERLINK("x")'}
    return everything(
        name=HOSTILE[0], about="=1+1\n" + "z" * 40_000, excluded=list(HOSTILE), serving__model=HOSTILE[3],
        serving__gpu="+1", workload__peak_factor=source, best={}, worst={}, **options,
    )  # fmt: skip


def test_no_text_is_a_formula_and_every_formula_is_ours():
    made = hostile()
    runs = [{"=prompt": "=2+5", "model": "@x", "tokens/s": 12.5, "none": None}]
    found = built(made, measurements=runs)
    ours = {(sheet.made.get_name(), at) for sheet in found.sheets.values() for at in sheet.formulas}
    book = openpyxl.load_workbook(io.BytesIO(found.book.close()))
    seen = set()
    for sheet in book.worksheets:
        for row in sheet.iter_rows():
            for cell in row:
                if cell.data_type == "f":
                    seen.add((sheet.title, (cell.row - 1, cell.column - 1)))
                elif isinstance(cell.value, str):
                    assert not re.match(r"\s*[=+@-]", cell.value), cell.value
    assert seen == ours
    with zipfile.ZipFile(io.BytesIO(to_xlsx(made, measurements=runs, exported_at=AT))) as file:
        assert not [name for name in file.namelist() if "externalLink" in name]
        assert b"hyperlink" not in b"".join(file.read(n) for n in file.namelist() if "worksheets/" in n)


def test_numbers_of_a_run_stay_numbers():
    sheet = opened(scenario(), measurements=[{"prompt": "=2+5", "tokens/s": 12.5}])["Measurements"]
    cells = [cell.value for row in sheet.iter_rows() for cell in row if cell.value is not None]
    assert "'=2+5" in cells
    assert 12.5 in cells


def test_options_whose_names_read_as_wildcards_are_not_taken_for_each_other():
    made = hostile()
    found = built(made)
    assert_same(found, tco(made))
    labels = [block.label for block in found.blocks]
    assert len(set(labels)) == len(labels)
    assert "EXACT(" in found.sheets["calculation"].formulas[_place_cell(found)].text


def _place_cell(found):
    """Where the number of the chosen option is looked up."""
    return next(at for at, f in found.sheets["calculation"].formulas.items() if f.text.startswith("SUMPRODUCT(EXACT"))


def test_a_scenario_that_cannot_be_served_is_told():
    with pytest.raises(ValueError, match="raise the target or use faster machines"):
        to_xlsx(everything(serving__p95_target_s=0.1))
    assert xlsx.SHEETS[0] == "summary"


def test_the_summary_gives_the_best_case_first_and_colours_a_saving_green():
    price = "cloud.0.parts.0.per_gpu_hour"
    book = opened(scenario(best={price: 3.0}, worst={price: 2.0}))
    rows = {row[0].value: row for row in book["Summary"].iter_rows()}
    ends = rows["From best to worst case"]
    assert [ends[1].value, ends[2].value] == [pytest.approx(236_520), pytest.approx(157_680)]
    rules = [rule for found in book["Summary"].conditional_formatting for rule in found.rules]
    colours = {rule.operator: rule.dxf.font.color.rgb for rule in rules}
    assert colours == {"lessThan": "FF1B7F4B", "greaterThan": "FFB42318"}
    assert "Red" not in rows["Compute"][3].number_format


def test_definitions_do_not_look_as_if_they_were_to_be_changed():
    made = scenario()
    cells = {row[0].value: row[2] for row in opened(made)["Inputs"].iter_rows()}
    assert cells["constant.thousand"].font.color.rgb != cells["serving.busy_limit"].font.color.rgb == "FF0000FF"


def test_the_summary_has_what_moves_most_first():
    rows = [row[5].value for row in opened(everything())["Summary"].iter_rows()]
    at = next(i for i, text in enumerate(rows) if text and text.startswith("What it hangs on most"))
    assert rows[at + 2 : at + 4] == [row[0] for row in _conditions_of_the_page()[:2]]
    assert "What it rests on" in [row[5].value for row in opened(scenario())["Summary"].iter_rows()]


def _conditions_of_the_page():
    return [row for row in make_report(everything()).conditions.rows if ":" in row[0]]
