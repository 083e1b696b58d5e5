"""`specscope tco` and `specscope cost`: right numbers, one document, one sentence for what is wrong."""

import csv
import io
import json
import re
import threading
from contextlib import contextmanager

import openpyxl
import pytest
from helpers.everything import everything
from helpers.scenarios import scenario
from rich.console import Console
from typer.testing import CliRunner

from app import cli, cli_tco, command, terminal, terminal_tco
from app.tco_report import Asked, work_out
from pricing import load_prices
from pricing.export.told_moved import sentences
from pricing.export.words import Words
from pricing.moved import what_moved
from pricing.scenario import CASES
from pricing.scenario_file import fingerprint, save_scenario
from pricing.sensitivity import monte_carlo, tornado
from pricing.tco import tco


def refuse(number):
    raise AssertionError(f"{number} is no JSON")


@pytest.fixture
def invoke(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECSCOPE_DATA", str(tmp_path / "data"))

    def run(*args):
        return CliRunner().invoke(cli.app, [str(arg) for arg in args])

    return run


@pytest.fixture
def document(invoke):
    """The one JSON document; NaN and infinities are none."""

    def run(*args):
        result = invoke(*args, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout, parse_constant=refuse)

    return run


@pytest.fixture
def file(tmp_path):
    def save(made, name="mine.toml"):
        save_scenario(made, tmp_path / name)
        return tmp_path / name

    return save


# tco


def test_the_document_is_the_calculation(document, file):
    made = everything()
    found = document("tco", file(made))
    whole = tco(made)
    assert found["schema"] == "specscope.tco"
    assert (found["currency"], found["years"], found["case"]) == ("USD", 3, "base")
    assert [option["total"] for option in found["options"]] == [option.total for option in whole.options]
    assert found["speculation"][0]["npv"] == pytest.approx(whole.speculation[0].npv)
    assert len(found["choices"]) == len(whole.choices)
    api = next(option for option in found["options"] if option["kind"] == "api")
    assert api["monthly"][0]["gpus"] is None
    assert api["monthly"][35]["month"] == 36
    assert [year["year"] for year in api["yearly"]] == [1, 2, 3]
    labels = {row["path"]: row["label"] for row in found["inputs"]}
    assert labels["serving.plain.output_tokens_per_second"] == "measured"
    assert found["tornado"] is found["monte_carlo"] is found["moved"] is None
    assert len(found["price_table"]["sha256"]) == len(found["scenario_sha256"]) == 64
    assert {row["instead_of"] for row in found["break_even"]} == {"api", "api without a cached price"}
    assert set(found["break_even"][0]) == {
        "option", "instead_of", "requests_per_day", "tokens_per_month", "busy_share", "arm",
    }  # fmt: skip


def test_a_case_has_its_own_numbers(document, file):
    made = everything()
    best = document("tco", file(made), "--case", "best")
    expected = tco(made.with_values(made.best)).option("rented").total
    assert next(o for o in best["options"] if (o["name"], o["arm"]) == ("rented", "speculative"))["total"] == expected


def test_every_file_of_a_case_names_the_scenario_as_it_was_read(document, file, tmp_path, invoke):
    told = document("tco", file(everything()), "--case", "worst")["scenario_sha256"]
    assert told == fingerprint(everything())
    out = tmp_path / "months.csv"
    assert invoke("tco", file(everything()), "--case", "worst", "--out", out).exit_code == 0
    with out.open(encoding="utf-8") as stream:
        assert {row["scenario_sha256"] for row in csv.DictReader(stream)} == {told}


def test_tornado_draws_and_what_moved_are_in_it(document, file):
    made, before = everything(), everything(workload__peak_factor=4, name="before")
    found = document(
        "tco", file(made), "--tornado", "own", "--monte-carlo", 50, "--seed", 3, "--against", file(before, "b.toml")
    )
    assert [driver["path"] for driver in found["tornado"]] == [driver.path for driver in tornado(made, "own")]
    chances = {chance.option: chance for chance in monte_carlo(made, 50, 3)}
    assert found["monte_carlo"]["draws"] == 50
    for told in found["monte_carlo"]["options"]:
        assert told["p95"] == chances[told["option"]].p95
        assert told["loss_share"] == chances[told["option"]].loss_share
        assert told["missed_share"] == (None if told["option"].startswith("api") else 0)
    moved = what_moved(before, made, "own")
    assert found["moved"][0]["sentence"] == sentences(moved, before, made, Words())[0]
    assert found["moved"][0]["effect"] == moved[0].effect


def test_people_see_the_answer_the_tables_and_the_labels(invoke, file):
    result = invoke("tco", file(everything()), "--tornado", "own", "--monte-carlo", 40)
    assert result.exit_code == 0, result.output
    for told in (
        "costs least", "What each option costs", "What speculation is worth", "Paid for in each year", "Tornado",
        "40 draws", "measured", "projected", "quoted", "assumed", "run 1, H100 SXM", "Left out",
    ):  # fmt: skip
        assert told in result.stdout, told
    assert "sha256" in result.stderr
    turkish = invoke("tco", file(everything()), "--language", "tr")
    assert "En ucuzu" in turkish.stdout
    assert "Taslaklı üretimin değeri" in turkish.stdout


def test_how_often_no_fleet_keeps_the_target_stands_beside_the_draws(invoke, file):
    """0.3 s plain and 0.2 s speculative by themselves, against 0.25 s; nothing is said where there is no target."""
    ranged = {"cloud__0__parts__0__per_gpu_hour": {"value": 2.49, "low": 2, "high": 3}}
    result = invoke("tco", file(scenario(serving__p95_target_s=0.25, **ranged)), "--monte-carlo", 20)
    shares = {row[0]: row[-1] for row in map(cells, result.stdout.splitlines()) if len(row) == 7}
    assert "No fleet keeps P95 in" in shares.values()
    assert (shares["rented, plain"], shares["rented, speculative"]) == ("100%", "0%")
    assert "keeps P95" not in invoke("tco", file(scenario(**ranged)), "--monte-carlo", 20).stdout


def cells(line):
    return [cell.strip() for cell in re.split("[│┃]", line.strip("│┃ \n"))]


def test_a_loss_is_said_first(invoke, file):
    result = invoke("tco", file(scenario(serving__speculative__output_tokens_per_second=500)))
    assert "LOSES" in result.stdout
    assert "a loss" in result.stdout


def test_names_cannot_drive_the_terminal(invoke, file):
    made = scenario(name="a\u200bb", cloud__0__name="[bold]x[/bold]\u200d")
    result = invoke("tco", file(made))
    assert "\u200b" not in result.output
    assert "\u200d" not in result.output
    assert "[bold]x[/bold]" in result.stdout


@pytest.mark.parametrize("language", ["en", "tr"])
def test_every_file_is_written(invoke, file, tmp_path, language):
    made = everything()
    total = tco(made).option("rented").total
    for ending in ("xlsx", "csv", "html", "pdf"):
        out = tmp_path / f"out.{ending}"
        result = invoke("tco", file(made), "--out", out, "--language", language)
        assert result.exit_code == 0, result.output
        assert f"written to {out}" in " ".join(result.stderr.split())
    book = openpyxl.load_workbook(tmp_path / "out.xlsx", data_only=True)
    assert any(
        isinstance(cell.value, float) and cell.value == pytest.approx(total)
        for row in book.worksheets[0].iter_rows() for cell in row
    )  # fmt: skip
    text = (tmp_path / "out.csv").read_bytes().decode("utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text, newline=""), delimiter=";" if language == "tr" else ","))
    own = [row["total"].replace(",", ".") for row in rows if (row["option"], row["arm"]) == ("rented", "speculative")]
    assert sum(map(float, own)) == pytest.approx(total)
    page = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert page.startswith(f'<!doctype html>\n<html lang="{language}">')
    assert (tmp_path / "out.pdf").read_bytes().startswith(b"%PDF-")


def test_a_workbook_of_a_case_and_changes_opens_there(invoke, file, tmp_path):
    before = file(everything(workload__output_tokens=400, name="before"), "b.toml")
    result = invoke("tco", file(everything()), "--case", "worst", "--against", before, "--out", tmp_path / "w.xlsx")
    assert result.exit_code == 0, result.output
    book = openpyxl.load_workbook(tmp_path / "w.xlsx")
    assert book["Summary"]["B5"].value == "worst"
    assert any("goes from 400 to 200 (-50%)" in str(row[1].value) for row in book["Change log"].iter_rows())


def test_ctrl_c_keeps_what_was_drawn(invoke, file, monkeypatch):
    @contextmanager
    def pressed():
        event = threading.Event()
        event.set()
        yield event

    monkeypatch.setattr(command, "interrupt", pressed)
    result = invoke("tco", file(everything()), "--monte-carlo", 9000, "--json")
    assert result.exit_code == command.INTERRUPTED
    assert "stopped after 2,000 of 9,000 draws" in result.stderr
    told = json.loads(result.stdout)["monte_carlo"]
    assert (told["draws"], told["asked"]) == (2000, 9000)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["nothing.toml"], "nothing.toml cannot be read"),
        (["bad.toml"], "there is no such entry"),
        (["curve.toml"], "raise the target or use faster machines"),
        (["mine.toml", "--out", "x.doc"], "--out takes a file that ends in .xlsx, .csv, .html, .pdf"),
        (["mine.toml", "--out", "no/such/x.pdf"], "does not exist"),
        (["mine.toml", "--monte-carlo", "0"], "from 1 to 1,000,000"),
        (["mine.toml", "--monte-carlo", "10"], "gives no number a range"),
        (["mine.toml", "--tornado", "rented"], "gives no number a range"),
        (["mine.toml", "--tornado", "nobody"], "no option is called nobody; there are rented"),
        (["mine.toml", "--against", "nothing.toml"], "nothing.toml cannot be read"),
        (["mine.toml", "--against", "other.toml"], "have no option of one name"),
        (["mine.toml", "--case", "middling"], "'middling' is not one of"),
    ],
)
def test_bad_input_is_one_sentence(invoke, file, tmp_path, monkeypatch, args, told):
    monkeypatch.chdir(tmp_path)
    file(scenario())
    file(scenario(cloud__0__name="another"), "other.toml")
    (tmp_path / "bad.toml").write_text((tmp_path / "mine.toml").read_text() + "\nnonsense = 1\n", encoding="utf-8")
    curve = {arm: [{"busy_share": 0.5, "p95_s": 9}] for arm in ("plain", "speculative")}
    file(scenario(load_curve=curve, serving__p95_target_s=1), "curve.toml")
    result = invoke("tco", *args)
    assert result.exit_code == command.BAD_INPUT
    assert told in " ".join(result.stderr.split())
    assert result.stdout == ""
    assert "Traceback" not in result.output


# cost


@pytest.mark.parametrize(
    ("args", "worked"),
    [
        (["--per-hour", 2.49, "--tokens-per-second", 100], 6.916667),
        (["--per-hour", 2.49, "--gpus", 8, "--tokens-per-second", 100], 55.333333),
        (["--per-hour", 2.00, "--tokens-per-second", 85], 6.535948),
        (["--per-hour", 1.50, "--output-tokens-per-second", 2000], 0.208333),
        (["--per-hour", 2.49, "--tokens-per-second", 100, "--busy", 0.25], 27.666667),
    ],
)
def test_golden_prices_of_output_tokens(document, args, worked):
    found = document("cost", *args)
    assert found["per_million_output_alone"] == pytest.approx(worked, abs=5e-7)
    assert found["per_request"] is found["per_million_input"] is None
    assert "1M output tokens" in " ".join(found["formula"])


SPLIT = (
    "cost", "--per-hour", 2.49, "--input-tokens-per-second", 10_000, "--output-tokens-per-second", 2000,
    "--input-tokens", 1000, "--output-tokens", 200,
)  # fmt: skip


def test_the_parts_add_up_to_the_bill(document):
    """0.07 s of reading, 0.003 of the cache, 0.1 of writing: 0.173 s, and 20,809 requests in an hour of 2.49."""
    found = document(*SPLIT, "--cached-share", 0.3, "--turns", 5, "--turkish-tokens-per-word", 2.4)
    assert found["seconds_per_request"] == pytest.approx(0.173)
    assert found["per_request"] == pytest.approx(2.49 / (3600 / 0.173))
    parts = (
        700 * found["per_million_input"] + 300 * found["per_million_cached_input"] + 200 * found["per_million_output"]
    )
    assert parts / 1e6 == pytest.approx(found["per_request"])
    assert found["blended_per_million"] == pytest.approx(found["per_request"] / 1200 * 1e6)
    assert found["per_conversation"] == pytest.approx(5 * found["per_request"])
    assert found["per_1000_words_turkish"] == pytest.approx(found["per_million_output"] * 2.4e-3)
    assert found["per_1000_words_english"] is None


def test_the_busy_share_follows_from_demand(document):
    """10 requests/s x 0.2 s = 2 at work; twice that in the peak over 0.5 is 8; 2 of 8 is a quarter."""
    found = document(*SPLIT, "--requests-per-second", 10, "--peak-factor", 2, "--busy-limit", 0.5)
    assert (found["replicas"], found["busy_share"]) == (8, pytest.approx(0.25))
    assert found["per_request"] == pytest.approx(8 * 2.49 / 36_000)
    same = document(*SPLIT, "--busy", 0.25)
    assert same["per_million_output"] == pytest.approx(found["per_million_output"])


def test_the_command_offers_the_cases_that_there_are():
    assert tuple(case.value for case in cli_tco.Case) == CASES


def test_spare_replicas_are_on_top_and_make_all_less_busy(document):
    found = document(*SPLIT, "--requests-per-second", 10, "--peak-factor", 2, "--busy-limit", 0.5,
                     "--spare-replicas", 2)  # fmt: skip
    assert (found["replicas"], found["busy_share"]) == (10, pytest.approx(0.2))
    assert found["per_request"] == pytest.approx(10 * 2.49 / 36_000)
    assert "8, and 2 spare" in " ".join(found["formula"])


def test_the_fleet_is_the_one_of_a_scenario(document):
    """The command's options and a scenario's numbers of the same work, on hours and a P95 target among them."""
    made = scenario(
        workload__peak_factor=3, workload__hours_on_share=0.5, serving__busy_limit=0.8, serving__p95_target_s=1.0,
        serving__requests_at_once=2, serving__spare_replicas=1,
    )  # fmt: skip
    option = tco(made).option("rented", "speculative")
    found = document(*SPLIT, "--requests-per-second", 10, "--peak-factor", 3, "--busy-limit", 0.8, "--p95-target", 1,
                     "--requests-at-once", 2, "--spare-replicas", 1, "--billed-hours-share", 0.5)  # fmt: skip
    month = option.monthly.iloc[0]
    assert (found["replicas"], found["busy_share"]) == (month["replicas"], pytest.approx(month["busy_share"]))
    assert found["per_month"] == pytest.approx(month["total"])
    for name in ("per_million_input", "per_million_output", "blended_per_million", "per_request"):
        assert found[name] == pytest.approx(getattr(option.tokens, name))


def test_the_billed_share_of_hours_is_apart_from_the_busy_one(document):
    """With the busy share of the billed hours given, half the hours make half a month's bill and the same token."""
    whole, half = (document(*SPLIT, "--busy", 0.25, "--billed-hours-share", share) for share in (1, 0.5))
    assert whole["per_month"] == pytest.approx(730 * 2.49)
    assert half["per_month"] == pytest.approx(365 * 2.49)
    assert half["per_million_output"] == whole["per_million_output"]
    assert "so a token costs the same" in half["formula"][-1]
    # From demand: one replica, 0.1 requests/s x 0.2 s; twice as busy in half the hours, so a token costs half.
    whole, half = (document(*SPLIT, "--requests-per-second", 0.1, "--billed-hours-share", share) for share in (1, 0.5))
    assert (whole["busy_share"], half["busy_share"]) == (pytest.approx(0.02), pytest.approx(0.04))
    assert half["per_million_output"] == pytest.approx(whole["per_million_output"] / 2)
    assert half["per_request"] * 0.1 * 3600 * 730 == pytest.approx(half["per_month"])


@pytest.mark.parametrize(
    ("option", "value", "needs"),
    [
        ("--peak-factor", 2, "--requests-per-second"),
        ("--busy-limit", 0.5, "--requests-per-second"),
        ("--spare-replicas", 1, "--requests-per-second"),
        ("--p95-target", 2, "--requests-per-second"),
        ("--requests-at-once", 2, "--p95-target"),
        ("--turns", 3, "--output-tokens"),
        ("--cached-share", 0.3, "--input-tokens"),
        ("--cached-cost-share", 0.3, "--cached-share"),
    ],
)
def test_an_option_that_does_nothing_is_refused(invoke, option, value, needs):
    result = invoke("cost", "--per-hour", 2, "--tokens-per-second", 100, option, value)
    assert result.exit_code == command.BAD_INPUT
    assert f"{option} does nothing without {needs}" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    "args",
    [
        ["--per-hour", 1e308, "--gpus", 10, "--tokens-per-second", 5],
        ["--per-hour", 4, "--tokens-per-second", 1e-320],
        ["--per-hour", 4, "--tokens-per-second", 1e-320, "--output-tokens", 5],
        ["--per-hour", 1e-320, "--tokens-per-second", 1e10],
        ["--per-hour", 1e300, "--tokens-per-second", 1, "--output-tokens", 1e10, "--requests-per-second", 1e-300],
        ["--per-hour", 4, "--tokens-per-second", 5, "--output-tokens", 5, "--requests-per-second", 1e-323],
    ],
)
@pytest.mark.parametrize("as_json", [[], ["--json"]], ids=["table", "json"])
def test_what_floats_do_not_hold_is_never_shown(invoke, args, as_json):
    result = invoke("cost", *args, *as_json)
    assert result.exit_code == command.BAD_INPUT, result.stdout
    assert "beyond what can be calculated" in " ".join(result.stderr.split())


def test_both_fleets_have_their_formula(invoke):
    shown = " ".join(
        invoke(*SPLIT, "--requests-per-second", 10, "--plain-tokens-per-second", 1000).stdout.split()
    )  # fmt: skip
    assert "plain: replicas: 10 requests/s x 0.3 s" in shown
    assert "speculative: replicas: 10 requests/s x 0.2 s" in shown
    assert shown.count("a replica costs") == 1


def test_a_target_that_no_fleet_keeps_is_said(invoke):
    result = invoke(*SPLIT, "--requests-per-second", 10, "--p95-target", 0.1)
    assert result.exit_code == command.BAD_INPUT
    assert "at 2000 output tokens/s a request takes 0.2 s where it waits for nobody" in " ".join(result.stderr.split())


def test_plain_and_speculative_stand_side_by_side_and_a_loss_is_one(invoke, document):
    gain = document("cost", "--per-hour", 2, "--tokens-per-second", 200, "--plain-tokens-per-second", 100)
    assert gain["saving_share"] == pytest.approx(0.5)
    args = ("cost", "--per-hour", 2, "--tokens-per-second", 100, "--plain-tokens-per-second", 120)
    assert document(*args)["saving_share"] == pytest.approx(-0.2)
    shown = invoke(*args)
    assert "-20.0% (a loss)" in shown.stdout
    assert "a replica costs 2 x 1 GPU" in shown.stdout
    assert "assumed" in shown.stdout


def test_money_is_shown_in_its_own_currency(invoke, document):
    assert "₺" in invoke("cost", "--per-hour", 90, "--tokens-per-second", 100, "--currency", "TL").stdout
    assert document("cost", "--per-hour", 90, "--tokens-per-second", 100, "--currency", "TL")["currency"] == "TRY"


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--per-hour", "nan", "--tokens-per-second", 1], "--per-hour must be a number above 0"),
        (["--per-hour", "inf", "--tokens-per-second", 1], "--per-hour must be a number above 0"),
        (["--per-hour", 0, "--tokens-per-second", 1], "--per-hour must be a number above 0"),
        (["--per-hour", 1, "--tokens-per-second", -1], "--output-tokens-per-second must be a number above 0"),
        (["--per-hour", 1], "give --tokens-per-second"),
        (["--per-hour", 1, "--tokens-per-second", 1, "--busy", 2], "--busy is a share above 0"),
        (["--per-hour", 1, "--tokens-per-second", 1, "--gpus", 0], "--gpus must be at least 1"),
        (["--per-hour", 1, "--tokens-per-second", 1, "--cached-share", 40], "a share from 0 to 1"),
        (["--per-hour", 1, "--tokens-per-second", 1, "--peak-factor", 0.5], "of at least 1"),
        (["--per-hour", 1, "--tokens-per-second", 1, "--input-tokens", 5], "go together"),
        (["--per-hour", 1, "--tokens-per-second", 1, "--requests-per-second", 5], "needs --output-tokens"),
        (["--per-hour", 1, "--tokens-per-second", 1, "--output-tokens-per-second", 5], "not both"),
        (["--per-hour", 1, "--tokens-per-second", 1, "--currency", "JPY"], "is not one of the currencies"),
        (
            ["--per-hour", 1, "--tokens-per-second", 1, "--output-tokens", 9, "--busy", 1, "--requests-per-second", 1],
            "the busy share follows from the requests",
        ),
    ],
)
def test_what_gives_no_cost_is_one_sentence(invoke, args, told):
    result = invoke("cost", *args)
    assert result.exit_code == command.BAD_INPUT
    assert told in " ".join(result.stderr.split())
    assert result.stdout == ""


def test_a_file_that_cannot_be_written_is_what_it_was(invoke, file, tmp_path, monkeypatch):
    out = tmp_path / "out.csv"
    out.write_text("what was there")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("app.whole_file.os.fsync", full)
    result = invoke("tco", file(scenario()), "--out", out)
    assert result.exit_code == 2
    assert "No space left on device" in result.stderr
    assert out.read_text() == "what was there"
    assert [p.name for p in tmp_path.iterdir() if p.name.endswith(".part")] == []


def test_in_a_narrow_terminal_only_words_are_folded(monkeypatch, file):
    out = io.StringIO()
    narrow = Console(file=out, width=80, force_terminal=True, color_system=None, highlight=False)
    monkeypatch.setattr(terminal, "out", narrow)
    found = work_out(Asked(str(file(everything())), "base", "en"))
    terminal_tco.show(found, None, load_prices())
    said = out.getvalue()
    assert max(map(len, said.splitlines())) <= 80
    assert said.count("What each option costs") == said.count("What a token and a request cost") == 1
    for word in ("Discounted", "Verdict", "Payback,", "present"):
        assert re.search(rf"\b{word}", said), word
    for choice in found.tco.speculation:
        assert Words().money(choice.saving, "USD", 0) in said
