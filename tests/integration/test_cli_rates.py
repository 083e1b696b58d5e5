"""`specscope cost` and `specscope tco` in another currency: at a rate that the user gives, and at no other."""

import csv
import io
import json
from datetime import date, timedelta

import openpyxl
import pytest
from helpers.scenarios import scenario
from typer.testing import CliRunner

from app import cli
from pricing.scenario_file import save_scenario
from pricing.tco import tco

BULLETIN = """<?xml version="1.0" encoding="UTF-8"?>
<Tarih_Date Tarih="27.11.2026" Date="11/27/2026" Bulten_No="2026/222">
<Currency Kod="EUR" CurrencyCode="EUR"><Unit>1</Unit>
<ForexBuying>48.1133</ForexBuying><ForexSelling>48.2000</ForexSelling>
<BanknoteBuying/><BanknoteSelling/></Currency></Tarih_Date>
"""
GIVEN = ("--kind", "selling", "--rate-date", "2026-11-27", "--rate-source", "our bank")
EURO = ("cost", "--per-hour", "2.49", "--currency", "EUR", "--tokens-per-second", "100")


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECSCOPE_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("app.price_rates.date", Today)
    return lambda *args: CliRunner().invoke(cli.app, [str(arg) for arg in args])


class Today(date):
    @classmethod
    def today(cls):
        return date(2026, 11, 30)


@pytest.fixture
def document(run):
    def read(*args):
        result = run(*args, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return read


def test_2_49_euro_an_hour_at_100_tokens_a_second_is_333_lira_at_48_20(document):
    found = document(*EURO, "--show-in", "TRY", "--rate", "EUR/TRY=48.20", *GIVEN)
    assert found["currency"] == "EUR"
    assert found["per_million_output_alone"] == pytest.approx(6.9167, abs=5e-5)
    assert found["shown"]["currency"] == "TRY"
    assert found["shown"]["per_million_output_alone"] == pytest.approx(333.3833, abs=5e-5)
    assert found["shown"]["rate"] == {
        "base": "EUR", "quote": "TRY", "value": 48.2, "kind": "selling", "day": "2026-11-27", "source": "our bank",
    }  # fmt: skip


def test_the_bulletins_rate_is_used_and_named(run, tmp_path):
    path = tmp_path / "today.xml"
    path.write_text(BULLETIN, encoding="utf-8")
    told = run(*EURO, "--show-in", "TRY", "--tcmb", path, "--kind", "forex-buying")
    assert "€6.917" in told.stdout
    assert "₺332.8" in told.stdout  # 6.9167 x 48.1133
    assert "48.1133 TRY per EUR, buying, TCMB bulletin 2026/222, forex, 2026-11-27" in told.stdout.replace("\n", " ")


def test_without_a_rate_nothing_is_converted(document):
    assert document(*EURO)["shown"] is None


@pytest.mark.parametrize("command", [EURO, ("tco", "SCENARIO")])
@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--show-in", "TRY"), "there is no rate from"),
        (("--show-in", "TRY", "--rate", "EUR/TRY=0", *GIVEN), "the rate EUR/TRY must be a number above 0, not 0.0"),
        (("--show-in", "TRY", "--rate", "EUR/TRY=-1", *GIVEN), "--rate takes BASE/QUOTE=RATE"),
        (("--show-in", "TRY", "--rate", "EUR/TRY=nan", *GIVEN), "--rate takes BASE/QUOTE=RATE"),
        (("--show-in", "TRY", "--rate", "EUR/TRY=48"), "--rate needs --kind (buying or selling), --rate-date and"),
        (
            ("--show-in", "TRY", "--rate", "EUR/TRY=48", "--kind", "selling", "--rate-date", "2026-12-24",
             "--rate-source", "x"),
            "the rate EUR/TRY of 2026-12-24 is in the future (today is 2026-11-30)",
        ),
        (("--rate", "EUR/TRY=48", *GIVEN), "an exchange rate needs --show-in"),
        (("--show-in", "TRY", "--tcmb", "EVIL", "--kind", "forex-selling"), "holds a document type definition"),
        (("--show-in", "CHF"), "--show-in takes one of USD, EUR, GBP, TRY, not 'CHF'"),
    ],
)  # fmt: skip
def test_a_rate_that_cannot_be_used_is_one_sentence_and_exit_2(run, tmp_path, command, options, says):
    evil = tmp_path / "evil.xml"
    evil.write_text('<!DOCTYPE a [<!ENTITY x "y">]>' + BULLETIN.partition("\n")[2], encoding="utf-8")
    save_scenario(scenario(), tmp_path / "mine.toml")
    names = {"EVIL": evil, "SCENARIO": tmp_path / "mine.toml"}
    result = run(*(names.get(arg, arg) for arg in (*command, *options)))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert says in result.stderr.replace("\n", " ")
    assert "Traceback" not in result.stderr


def test_a_scenarios_totals_are_shown_in_lira_beside_their_own(document, run, tmp_path):
    made = scenario()
    save_scenario(made, tmp_path / "mine.toml")
    given = ("tco", tmp_path / "mine.toml", "--show-in", "TRY", "--rate", "USD/TRY=42.5", *GIVEN)
    found = document(*given)
    own = tco(made).options[0]
    assert found["options"][0]["total"] == pytest.approx(own.total)
    shown = found["shown"]["options"][0]
    assert (shown["name"], shown["total"]) == (own.name, pytest.approx(own.total * 42.5))
    assert shown["per_million_output"] == pytest.approx(own.tokens.per_million_output * 42.5)
    told = run(*given).stdout.replace("\n", " ")
    assert "In TRY, at 42.5 TRY per USD, selling, 2026-11-27, our bank" in told


@pytest.mark.parametrize("language", ["en", "tr"])
def test_a_file_of_a_scenario_has_the_rate_and_both_amounts(run, tmp_path, language):
    """13 replicas at 2.49 for 8,760 hours: 283,561.20 dollars, at 42.5 12,051,351 lira."""
    save_scenario(scenario(), tmp_path / "mine.toml")
    given = ("--show-in", "TRY", "--rate", "USD/TRY=42.5", *GIVEN, "--language", language)
    made = {}
    for ending in ("csv", "html", "xlsx", "pdf"):
        out = tmp_path / f"out.{ending}"
        result = run("tco", tmp_path / "mine.toml", "--out", out, *given)
        assert result.exit_code == 0, result.output
        made[ending] = out.read_bytes()
    delimiter = "," if language == "en" else ";"
    rows = list(csv.DictReader(io.StringIO(made["csv"].decode("utf-8-sig")), delimiter=delimiter))
    plain = [float(row["shown_total"].replace(",", ".")) for row in rows if row["arm"] == "plain"]
    assert sum(plain) == pytest.approx(12_051_351)
    assert {(row["shown_currency"], row["rate_kind"], row["rate_day"]) for row in rows} == {
        ("TRY", "selling", "2026-11-27")
    }
    told = "₺12,051,351" if language == "en" else "₺12.051.351"
    assert told in made["html"].decode()
    book = openpyxl.load_workbook(io.BytesIO(made["xlsx"]), data_only=True)
    amounts = [cell for row in book.worksheets[0].iter_rows(values_only=True) for cell in row]
    assert any(isinstance(cell, float) and cell == pytest.approx(12_051_351) for cell in amounts)
    assert made["pdf"].startswith(b"%PDF")


def test_the_document_says_of_each_rented_price_whether_it_is_in_the_table(document, tmp_path):
    save_scenario(scenario(cloud__0__parts__0__per_gpu_hour=9.99), tmp_path / "mine.toml")
    (part,) = document("tco", tmp_path / "mine.toml")["price_table"]["rented_prices"]
    assert (part["per_gpu_hour"], part["in_table"]) == (9.99, None)


def test_a_scenario_of_a_rate_that_has_not_come_is_one_sentence(run, tmp_path):
    text = (
        '\n[[rates]]\nbase = "USD"\nquote = "TRY"\nvalue = 42.5\nside = "selling"\nsource = "x"\n'
        f"day = {date.today() + timedelta(days=9)}\n"
    )
    save_scenario(scenario(), tmp_path / "mine.toml")
    with (tmp_path / "mine.toml").open("a", encoding="utf-8") as file:
        file.write(text)
    result = run("tco", tmp_path / "mine.toml")
    assert result.exit_code == 2
    assert "is in the future" in result.stderr


def test_a_kept_run_is_in_the_workbook(run, tmp_path):
    from engine.runs import RunStore

    stats = {"output_tokens": 321, "decode_tokens_per_second": 47.5}
    kept = RunStore().save(
        "generate", label="hello", settings={"k": 5}, pair={"name": "a pair"}, environment={"cpu": "x"}, stats=stats
    )
    save_scenario(scenario(), tmp_path / "mine.toml")
    out = tmp_path / "out.xlsx"
    result = run("tco", tmp_path / "mine.toml", "--out", out, "--run", kept.id)
    assert result.exit_code == 0, result.output
    sheet = openpyxl.load_workbook(io.BytesIO(out.read_bytes()))["Measurements"]
    rows = [[cell for cell in line if cell is not None] for line in sheet.iter_rows(values_only=True)]
    heads = next(i for i, line in enumerate(rows) if "run_id" in line)
    found = dict(zip(rows[heads], rows[heads + 1], strict=True))
    assert found == {"run_id": kept.id, "kind": "generate", **stats}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--run", "nothing", "--out", "OUT.xlsx"), "nothing"),
        (("--run", "x"), "--run puts a kept run's measurements in a workbook"),
        (("--run", "x", "--out", "OUT.csv"), "give --out with a file that ends in .xlsx"),
    ],
)
def test_a_run_that_cannot_be_put_in_a_file_is_one_sentence(run, tmp_path, options, says):
    save_scenario(scenario(), tmp_path / "mine.toml")
    options = [tmp_path / option if option.startswith("OUT") else option for option in options]
    result = run("tco", tmp_path / "mine.toml", *options)
    assert result.exit_code == 2
    assert says in result.stderr.replace("\n", " ")
    assert not list(tmp_path.glob("OUT*"))


def test_the_csv_of_a_price_of_the_table_carries_its_hash(run, tmp_path):
    out = tmp_path / "out.csv"
    assert run("tco", "ecommerce_chat", "--out", out).exit_code == 0
    rows = list(csv.DictReader(io.StringIO(out.read_text(encoding="utf-8"))))
    stamped = {row["option"]: row["price_table_sha256"] for row in rows}
    assert len(stamped["AWS on demand"]) == 64
    assert stamped["API by the token"] == ""


def test_a_price_that_no_rate_reaches_leaves_the_others_shown(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECSCOPE_DATA", str(tmp_path))
    own = tmp_path / "own.csv"
    own.write_text(
        "provider,instance,gpu,gpu_count,commitment,price,currency,as_of\n"
        "Ours,rack,H100 SXM,1,on_demand,2.5,GBP,2026-11-01\n"
    )
    runner = CliRunner()
    assert runner.invoke(cli.app, ["prices", "import", str(own), "--accept"]).exit_code == 0
    rate = ["--rate", "USD/TRY=45", "--kind", "selling", "--rate-date", "2026-11-20", "--rate-source", "a bank"]
    result = runner.invoke(cli.app, ["prices", "list", "--gpu", "H100 SXM", "--show-in", "TRY", *rate])
    assert result.exit_code == 0
    assert "no rate was given from GBP to TRY: 1 of the prices" in result.stderr
    assert "₺" in result.stdout
    alone = runner.invoke(cli.app, ["prices", "list", "--provider", "Ours", "--show-in", "TRY", *rate])
    assert alone.exit_code == 2
    assert "GBP" in alone.stderr
