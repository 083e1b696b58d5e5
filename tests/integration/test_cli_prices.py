"""`specscope prices`: list, import, live and export; each with a folder of its own and never a network."""

import csv
import io
import json
import os
import socket
import stat
import subprocess
import sys
import threading
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app import cli, live_prices, own_prices
from app.live_prices import read_live
from engine import EngineError
from pricing import PriceRow, PriceTable, load_prices

TODAY = date(2026, 11, 30)
HEADER = "provider;instance;gpu;gpu_count;gpu_mem_gb;price;commitment;region;as_of"
OURS = f"{HEADER}\nBulut;gpu-8;H100 SXM;8;80;₺8.999,90;reserved_1yr;İstanbul;01.09.2026\n"
BULLETIN = """<?xml version="1.0" encoding="UTF-8"?>
<Tarih_Date Tarih="24.04.2026" Date="04/24/2026" Bulten_No="2026/77">
<Currency Kod="USD" CurrencyCode="USD"><Unit>1</Unit>
<ForexBuying>44.9773</ForexBuying><ForexSelling>45.0583</ForexSelling>
<BanknoteBuying></BanknoteBuying><BanknoteSelling/>
</Currency></Tarih_Date>
"""
P5 = ("--provider", "aws", "--gpu", "H100 SXM", "--commitment", "on_demand")


@pytest.fixture(autouse=True)
def data(monkeypatch, tmp_path):
    """A data folder of the test's own, the day on which the shipped table was made, and no network."""

    class Today(date):
        @classmethod
        def today(cls):
            return TODAY

    for module in ("app.price_commands", "app.live_prices", "pricing.tables", "pricing.imports", "pricing.diff"):
        monkeypatch.setattr(f"{module}.date", Today)

    def refuse(*_):
        raise OSError("the network is not there")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setenv("SPECSCOPE_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("GPUHUNT_CATALOG_DIR", raising=False)
    return tmp_path / "data"


def run(*args):
    return CliRunner().invoke(cli.app, ["prices", *map(str, args)])


def document(*args):
    result = run(*args, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def refused(*args) -> str:
    result = run(*args)
    assert result.exit_code == 2
    assert result.stdout == ""
    return result.stderr


def ours(tmp_path, text=OURS, name="ours.csv") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


# list


def test_the_prices_in_force_on_a_day_are_listed_in_their_own_currency():
    shown = document("list", *P5, "--on", "2025-05-31")
    assert shown["schema"] == "specscope.prices"
    assert shown["table"] == {"file": "gpu_prices.csv", "sha256": load_prices().sha256}
    (row,) = shown["prices"]
    assert (row["per_hour"], row["currency"], row["usd_per_hour"], row["converted"]) == (98.32, "USD", 98.32, None)
    assert (row["as_of"], row["valid_until"], row["stale"], row["superseded"]) == (
        "2025-05-31",
        "2025-05-31",
        False,
        False,
    )
    assert [r["per_hour"] for r in document("list", *P5)["prices"]] == [55.04]
    assert {r["per_hour"] for r in document("list", *P5, "--all")["prices"]} == {98.32, 55.04}


def test_the_table_for_people_says_how_old_the_prices_are_and_which_file_they_are_of():
    result = run("list", "--provider", "oci", "--gpu", "l40s")
    assert result.exit_code == 0
    assert "14 USD" in result.stdout
    assert "2026-01-05 A, stale" in result.stdout
    assert "1 of 1 prices were read more than 90 days before 2026-11-30: stale" in result.stderr
    assert load_prices().sha256 in result.stderr.replace("\n", "")


def test_it_is_said_how_many_prices_of_the_file_were_in_force():
    # AWS's p5.48xlarge stood at 98.32 $ until May 2025 and stands at 55.04 $ since.
    assert "1 of 2 prices were in force on 2026-11-30; --all shows every one" in " ".join(
        run("list", *P5).stderr.split()
    )
    assert "were in force" not in run("list", *P5, "--all").stderr


def test_prices_are_shown_at_a_rate_of_a_bulletin_whose_kind_is_named(tmp_path):
    bulletin = ours(tmp_path, BULLETIN, "today.xml")
    (row,) = document("list", *P5, "--currency", "TL", "--tcmb", bulletin, "--kind", "forex-selling")["prices"]
    assert row["converted"]["per_hour"] == pytest.approx(55.04 * 45.0583)
    assert row["converted"]["per_gpu_hour"] == pytest.approx(6.88 * 45.0583)
    assert row["converted"]["how"] == "at 45.0583 TRY per USD, selling, TCMB bulletin 2026/77, forex, 2026-04-24"
    assert row["per_hour"] == 55.04  # and stays what it is
    told = run("list", *P5, "--currency", "TRY", "--tcmb", bulletin, "--kind", "forex-selling")
    assert "(220 days before 2026-11-30)" in told.stderr.replace("\n", " ")  # 24 April to 30 November


def test_prices_are_shown_at_a_rate_that_is_given_with_kind_day_and_source():
    given = ("--currency", "TRY", "--kind", "selling", "--rate-date", "2026-11-27", "--rate-source", "our bank")
    (row,) = document("list", *P5, *given, "--rate", "USD/TRY=50.5")["prices"]
    assert row["converted"]["per_hour"] == pytest.approx(2779.52)  # 55.04 x 50.5


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--currency", "TRY"), "there is no rate from USD to TRY; give --rate or --tcmb, and --kind"),
        (("--currency", "TRY", "--rate", "USD/TRY=50"), "--rate needs --kind (buying or selling), --rate-date and"),
        (("--currency", "TRY", "--kind", "selling"), "describe a rate; give one with --rate or --tcmb"),
        (("--currency", "CHF"), "--currency takes one of USD, EUR, GBP, TRY, not 'CHF'"),
        (("--rate", "USD/TRY=50"), "an exchange rate needs --currency"),
        (("--currency", "TRY", "--tcmb", "BULLETIN"), "--tcmb needs --kind: forex-buying, forex-selling"),
        (("--currency", "TRY", "--tcmb", "BULLETIN", "--kind", "selling"), "name one of forex_buying"),
        (("--currency", "TRY", "--tcmb", "BULLETIN", "--kind", "banknote-selling"), "has no banknote rate for USD"),
        (("--currency", "TRY", "--tcmb", "BULLETIN", "--rate", "USD/TRY=50"), "give --rate or --tcmb, not both"),
        (("--currency", "TRY", "--tcmb", "none.xml", "--kind", "forex-buying"), "No such file"),
        (("--on", "01.03.2026"), "--on takes a day of the calendar written YYYY-MM-DD, not '01.03.2026'"),
        (("--on", "2020-01-01"), "no price that matches was in force on 2020-01-01"),
        (("--on", "2026-01-01", "--all"), "--all shows the prices of every day"),
        (("--provider", "Akme"), "--provider: there is no price of 'Akme'; there are AWS, Akash"),
        (("--commitment", "weekly"), "--commitment: there is no price of 'weekly'"),
    ],
)
def test_what_cannot_be_listed_is_one_sentence_and_exit_2(tmp_path, options, says):
    bulletin = ours(tmp_path, BULLETIN, "today.xml")
    assert says in refused("list", *(bulletin if o == "BULLETIN" else o for o in options)).replace("\n", " ")


@pytest.mark.parametrize("rate", ["USD/TRY=50,5", "USD=50", "USD/TRY=-1", "USD/TRY=nan", "USD/TRY=1e3", "USD/TRY="])
def test_a_rate_that_is_not_plainly_written_is_refused(rate):
    given = ("--currency", "TRY", "--kind", "selling", "--rate-date", "2026-11-27", "--rate-source", "our bank")
    assert "--rate takes BASE/QUOTE=RATE with a decimal point" in refused("list", *given, "--rate", rate)


# import


def test_an_import_shows_how_it_was_read_and_changes_nothing_until_it_is_accepted(tmp_path, data):
    path = ours(tmp_path)
    shown = document("import", path)
    assert shown["schema"] == "specscope.prices.import"
    assert {"line": 2, "column": "price", "text": "₺8.999,90", "read_as": "8999.9"} in shown["readings"]
    assert {"line": 2, "column": "as_of", "text": "01.09.2026", "read_as": "2026-09-01"} in shown["readings"]
    assert [e["new"]["provider"] for e in shown["diff"]["added"]] == ["Bulut"]
    assert shown["kept_in"] is None
    assert not (data / "prices.csv").exists()
    told = run("import", path)
    assert "₺8.999,90" in told.stdout
    assert "8999.9" in told.stdout
    assert "nothing was changed; --accept takes them over" in told.stderr


def test_accepted_prices_are_in_the_users_own_file_and_in_every_list_after_that(tmp_path, data):
    assert document("import", ours(tmp_path), "--accept")["kept_in"] == str(data / "prices.csv")
    (row,) = document("list", "--provider", "Bulut")["prices"]
    assert (row["per_hour"], row["currency"], row["usd_per_hour"], row["evidence"]) == (8999.9, "TRY", None, "contract")
    assert row["source"].startswith("ours.csv (sha256 ")
    table = document("list")["table"]
    assert table["file"] == "gpu_prices.csv + prices.csv"
    assert table["sha256"] != load_prices().sha256
    assert len(load_prices()) == 129  # without a path it is the shipped table all the same
    again = run("import", ours(tmp_path), "--accept")
    assert "there is nothing to take over" in again.stderr


def test_a_new_contract_closes_the_one_before_and_a_missing_one_only_when_asked(tmp_path, data):
    second = OURS.replace("8.999,90", "7.999,90").replace("01.09.2026", "15.11.2026")
    other = OURS.splitlines()[1].replace("İstanbul", "Ankara") + "\n"
    document("import", ours(tmp_path, OURS + other), "--accept")
    shown = document("import", ours(tmp_path, second), "--accept")["diff"]
    assert [(e["old"]["per_hour"], e["new"]["per_hour"]) for e in shown["changed"]] == [(8999.9, 7999.9)]
    assert shown["changed"][0]["share"] == pytest.approx(7999.9 / 8999.9 - 1)
    assert [e["old"]["region"] for e in shown["gone"]] == ["Ankara"]
    mine = ("list", "--provider", "Bulut")
    assert {(r["region"], r["per_hour"]) for r in document(*mine)["prices"]} == {
        ("İstanbul", 7999.9),
        ("Ankara", 8999.9),
    }
    assert {r["per_hour"] for r in document(*mine, "--on", "2026-11-14")["prices"]} == {8999.9}
    document("import", ours(tmp_path, second), "--accept", "--close-gone")
    assert [r["region"] for r in document(*mine)["prices"]] == ["İstanbul"]
    assert len(document(*mine, "--all")["prices"]) == 3  # nothing is lost


def test_every_fault_of_a_file_is_told_on_a_line_of_its_own_and_nothing_is_kept(tmp_path, data):
    rows = [OURS.splitlines()[1].replace("₺8.999,90", "1,234").replace("gpu-8", f"gpu-{i}") for i in range(7)]
    said = refused("import", ours(tmp_path, "\n".join([HEADER, *rows])), "--accept", "--currency", "TRY")
    for line in range(2, 9):
        assert f"line {line}, column price: '1,234' is ambiguous, 1.234 or 1234" in said
    assert "ours.csv has 7 faults" in said
    assert not (data / "prices.csv").exists()
    assert document("import", tmp_path / "ours.csv", "--currency", "TRY", "--decimal", ".")["diff"]["added"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("none.csv",), "none.csv has 1 fault: line 1: cannot be read"),
        (("OURS", "--currency", "CHF"), "--currency takes one of USD, EUR, GBP, TRY"),
        (("OURS", "--currency", "USD"), "is in two currencies, TRY by the cell and USD by the whole file"),
        (("OURS", "--decimal", ";"), "--decimal takes , or . and not ';'"),
        (("OURS", "--as-of", "soon"), "--as-of takes a day of the calendar"),
        (("OURS", "--sheet", "x"), "is no workbook"),
        (("OURS", "--close-gone"), "--close-gone changes your own prices; give --accept too"),
    ],
)
def test_bad_options_of_an_import_are_one_sentence_and_exit_2(tmp_path, options, says):
    path = ours(tmp_path)
    assert says in refused("import", *(path if o == "OURS" else o for o in options)).replace("\n", " ")


def test_a_broken_own_file_is_told_and_left_as_it_is(tmp_path, data):
    data.mkdir()
    (data / "prices.csv").write_text("nonsense\n")
    said = refused("import", ours(tmp_path), "--accept")
    assert f"{data / 'prices.csv'} has 14 faults" in said
    assert said.count("line 1, column provider: the column is missing") == 1
    assert (data / "prices.csv").read_text() == "nonsense\n"


def test_the_own_file_is_written_whole_or_not_at_all(tmp_path, data, monkeypatch):
    document("import", ours(tmp_path), "--accept")
    before = (data / "prices.csv").read_bytes()

    def full(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    said = refused("import", ours(tmp_path, OURS.replace("İstanbul", "Ankara")), "--accept", "--json")
    assert "cannot be written (No space left on device); set SPECSCOPE_DATA" in said.replace("\n", " ")
    assert (data / "prices.csv").read_bytes() == before
    assert [p.name for p in data.iterdir() if p.name.endswith(".part")] == []


def test_a_data_folder_that_cannot_be_is_told(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SPECSCOPE_DATA", str(tmp_path / "file"))
    assert "set SPECSCOPE_DATA to a folder that can" in refused("import", ours(tmp_path), "--accept").replace("\n", " ")


def test_two_imports_at_once_both_arrive(tmp_path, data, monkeypatch):
    from pricing import PriceTable as Table

    load = own_prices.load

    def slow(today=None):
        found = load(today)
        threading.Event().wait(0.2)  # long enough for the other one to read the same file
        return found

    monkeypatch.setattr(own_prices, "load", slow)
    files = [ours(tmp_path, OURS.replace("İstanbul", city), f"{city}.csv") for city in ("Ankara", "Bursa")]
    from app import price_commands

    def work(path):
        price_commands.import_file(path, None, None, None, None, True, False, True)

    threads = [threading.Thread(target=work, args=(path,)) for path in files]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    table = load()
    assert isinstance(table, Table)
    assert {row.region for row in table if row.provider == "Bulut"} == {"Ankara", "Bursa"}


def test_what_is_kept_loads_to_the_very_table_that_was_accepted(tmp_path, data):
    shipped = load_prices()
    first = shipped.rows[1]
    newer = first.model_copy(update={"per_hour": 50.0, "as_of": TODAY})
    accepted = shipped.merged(PriceTable.of([newer], "x"))
    own_prices.keep(accepted)
    assert own_prices.load().rows == accepted.rows
    kept = list(csv.DictReader((data / "prices.csv").open(encoding="utf-8")))
    assert [(r["per_hour"], r["valid_until"]) for r in kept] == [("55.04", "2026-11-29"), ("50.0", "")]
    assert stat.S_IMODE((data / "prices.csv").stat().st_mode) & 0o077 == 0  # a contract is nobody else's to read


# live


@dataclass
class Offer:
    """The fields of gpuhunt's CatalogItem that are read."""

    instance_name: str
    location: str
    price: float
    gpu_name: str | None = "H100"
    gpu_count: int = 8
    gpu_memory: float | None = 80
    spot: bool = False


class Catalogue:
    def __init__(self, *offers, error=None):
        self.offers, self.error, self.asked = offers, error, []

    def query(self, *, provider, min_gpu_count):
        self.asked.append((provider, min_gpu_count))
        if self.error is not None:
            raise self.error
        return list(self.offers)


def live(*offers, provider="AWS", **options) -> list[PriceRow]:
    return list(read_live(provider, load_prices(), catalogue=Catalogue(*offers), today=TODAY, **options).table)


def test_a_live_price_is_a_dated_list_price_in_dollars_for_the_whole_instance():
    (row,) = live(Offer("p5.48xlarge", "us-east-1", 50.0))
    assert (row.provider, row.per_hour, row.currency, row.commitment) == ("AWS", 50.0, "USD", "on_demand")
    assert (row.gpu, row.gpu_mem_gb) == ("H100 SXM", 80)  # as the table names the GPU of that instance
    assert (row.as_of, row.evidence, row.source_url) == (TODAY, "B", live_prices.SOURCE)
    (row,) = live(Offer("new.48xlarge", "us-east-1", 50.0, spot=True))
    assert (row.gpu, row.commitment) == ("H100", "spot")  # no form factor is guessed


def test_only_gpus_that_the_table_knows_are_taken_unless_others_are_asked_for():
    offers = (Offer("p5.48xlarge", "us-east-1", 50.0), Offer("g4dn.xlarge", "us-east-1", 0.526, "T4", 1, 16))
    assert [row.gpu for row in live(*offers)] == ["H100 SXM"]
    assert [row.gpu for row in live(*offers, gpus=["t4"])] == ["T4"]


def test_zones_of_one_price_are_one_region_and_zones_of_several_keep_their_own():
    offers = (
        Offer("a3-highgpu-8g", "us-central1-a", 88.0),
        Offer("a3-highgpu-8g", "us-central1-b", 88.0),
        Offer("a3-highgpu-8g", "us-central1-a", 50.0, spot=True),
        Offer("a3-highgpu-8g", "us-central1-b", 51.0, spot=True),
    )
    assert [(r.region, r.per_hour) for r in live(*offers, provider="gcp")] == [
        ("us-central1", 88.0), ("us-central1-a", 50.0), ("us-central1-b", 51.0),
    ]  # fmt: skip


def test_an_offer_that_is_no_price_is_left_out_with_the_reason_and_never_free():
    found = read_live(
        "AWS", load_prices(), today=TODAY,
        catalogue=Catalogue(Offer("p5.48xlarge", "us-east-1", 0.0), Offer("p5.48xlarge", "us-west-2", 50.0)),
    )  # fmt: skip
    assert [row.region for row in found.table] == ["us-west-2"]
    assert found.left_out == ("p5.48xlarge in us-east-1: 0.0 must be above 0; a missing figure is never 0",)


@pytest.mark.parametrize(
    ("provider", "catalogue", "says"),
    [
        ("AWS", Catalogue(), "the live catalogue has no price of AWS; try another provider"),
        ("AWS", Catalogue(Offer("t", "r", 1.0, "T4")), "has no price of AWS of A100, B200"),
        ("AWS", Catalogue(error=OSError("timed out")), r"cannot be read \(timed out\); it needs a network"),
        ("AWS", Catalogue(error=KeyError()), r"cannot be read \(KeyError\)"),
        ("Akme", Catalogue(), "has no provider 'Akme'; it has AWS, Azure"),
    ],
)
def test_what_the_catalogue_cannot_say_is_one_sentence(provider, catalogue, says):
    with pytest.raises(EngineError, match=says):
        read_live(provider, load_prices(), catalogue=catalogue, today=TODAY)


def test_without_gpuhunt_the_command_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "gpuhunt", None)
    assert "pip install 'specscope[live-prices]'" in refused("live", "--provider", "aws")


def test_live_prices_are_a_difference_until_they_are_accepted(monkeypatch):
    offers = (Offer("p5.48xlarge", "us-east-1", 50.0), Offer("p4d.24xlarge", "us-east-1", 21.957642, "A100", 8, 40))
    monkeypatch.setattr(live_prices, "_gpuhunt", lambda: Catalogue(*offers))
    shown = document("live", "--provider", "aws")
    assert [(e["old"]["per_hour"], e["new"]["per_hour"]) for e in shown["diff"]["changed"]] == [(55.04, 50.0)]
    assert [e["new"]["instance"] for e in shown["diff"]["confirmed"]] == ["p4d.24xlarge"]
    # What the catalogue names nowhere may only have another name there, and reserved prices it never has.
    assert shown["diff"]["gone"] == []
    assert [r["per_hour"] for r in document("list", *P5)["prices"]] == [55.04]
    told = run("live", "--provider", "aws", "--accept")
    assert "-9.2%" in told.stdout  # 50 / 55.04 - 1
    assert "taken over into" in told.stderr
    assert [r["per_hour"] for r in document("list", *P5)["prices"]] == [50.0]
    assert [r["per_hour"] for r in document("list", *P5, "--on", "2026-11-29")["prices"]] == [55.04]


CATALOGUE = (
    "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size,gpu_vendor,flags,cpu_arch,"
    "provider_data\n"
    "p5.48xlarge,us-east-1,54.0,192,2048,8,H100,80,False,,nvidia,,x86,{}\n"
    "p5.48xlarge,us-east-1,20.5,192,2048,8,H100,80,True,,nvidia,,x86,{}\n"
    "m5.large,us-east-1,0.1,2,8,0,,,False,,,,x86,{}\n"
)


def test_gpuhunts_own_reader_gives_the_prices_of_a_folder_without_a_network(tmp_path, monkeypatch):
    pytest.importorskip("gpuhunt", reason="the extra live-prices is not installed")
    (tmp_path / "aws.csv").write_text(CATALOGUE)
    monkeypatch.setenv("GPUHUNT_CATALOG_DIR", str(tmp_path))
    shown = document("live", "--provider", "aws")["diff"]
    assert [e["new"]["per_hour"] for e in shown["changed"]] == [54.0]
    assert [(e["new"]["commitment"], e["new"]["per_hour"]) for e in shown["added"]] == [("spot", 20.5)]
    assert "cannot be read" in refused("live", "--provider", "gcp")  # no such file


def test_gpuhunt_without_a_network_is_one_sentence(monkeypatch):
    pytest.importorskip("gpuhunt", reason="the extra live-prices is not installed")
    said = refused("live", "--provider", "aws")
    assert "the live catalogue cannot be read" in said
    assert "Traceback" not in said


# export


def test_an_export_carries_the_hash_of_the_table_in_both_forms(tmp_path):
    plain = run("export", *P5)
    (row,) = csv.DictReader(io.StringIO(plain.stdout, newline=""))
    assert (row["per_hour"], row["currency"]) == ("55.04", "USD")
    assert (row["price_table_sha256"], row["price_table_file"]) == (load_prices().sha256, "gpu_prices.csv")
    assert date.fromisoformat(row["exported_on"])
    path = tmp_path / "tr.csv"
    assert run("export", *P5, "--format", "csv-tr", "--output", path).stdout == ""
    data = path.read_bytes()
    assert data.startswith(b"\xef\xbb\xbfprovider;instance;")
    assert b";55,04;" in data
    assert data.count(b"\r\n") == 2
    assert b"\r\r\n" not in data


def test_an_export_as_one_json_document_holds_the_text():
    shown = document("export", *P5, "--on", "2025-05-31")
    assert (shown["schema"], shown["on"], shown["format"]) == ("specscope.prices.export", "2025-05-31", "csv")
    assert "98.32" in shown["text"]
    assert shown["table"]["sha256"] == load_prices().sha256


def test_an_export_to_a_folder_that_is_not_there_is_one_sentence(tmp_path):
    assert "does not exist; create it or give another file for --output" in refused(
        "export", "--output", tmp_path / "no" / "x.csv"
    ).replace("\n", " ")


def test_the_commands_are_there_for_a_real_shell_and_write_nothing_but_the_document(data):
    done = subprocess.run(
        [sys.executable, "-m", "app.cli", "prices", "list", *P5, "--on", "2026-11-30", "--json"],
        capture_output=True, text=True, env={**os.environ, "SPECSCOPE_DATA": str(data)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["prices"][0]["per_hour"] == 55.04
    assert not data.exists()


def test_an_export_that_fails_leaves_the_file_that_was_there(tmp_path, monkeypatch):
    held = tmp_path / "prices.csv"
    held.write_text("mine")

    def full(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    said = " ".join(refused("export", "--output", held).split())
    assert f"{held} could not be written (No space left on device); what it held before is untouched" in said
    assert held.read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".part"] == []


def test_hidden_rows_of_a_workbook_are_told(tmp_path):
    import openpyxl

    book = openpyxl.Workbook()
    for line in OURS.splitlines():
        book.active.append(line.split(";"))
    book.active.append([*(cell.value for cell in book.active[2])])
    book.active.cell(3, 8).value = "Ankara"
    book.active.row_dimensions[3].hidden = True
    book.save(tmp_path / "ours.xlsx")
    done = run("import", tmp_path / "ours.xlsx")
    assert "1 row that the workbook hides was read like the others (line 3)" in " ".join(done.stderr.split())
    assert document("import", tmp_path / "ours.xlsx")["hidden_lines"] == [3]
    assert "hides" not in run("import", ours(tmp_path)).stderr


@pytest.mark.parametrize("day", ["0001-01-01", "2005-12-31"])
def test_a_price_of_a_day_before_there_were_prices_is_refused(tmp_path, data, day):
    document("import", ours(tmp_path), "--accept")
    text = OURS.replace("01.09.2026", day).replace("8.999,90", "9.999,90")
    said = " ".join(refused("import", ours(tmp_path, text), "--accept").split())
    assert f"column as_of: {day} is before 2006-01-01" in said


def test_the_help_names_every_column_that_a_file_must_have():
    from pricing.import_row import KNOWN

    said = " ".join(run("import", "--help").output.split())
    for column in KNOWN - {"per_hour", "usd_per_hour"}:  # other names for the price
        assert column in said, column
