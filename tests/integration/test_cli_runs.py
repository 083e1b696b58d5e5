"""`specscope runs`, and what `generate --save` and `bench` leave for it; on a tiny random model."""

import csv
import io
import json
import os
import pty
import subprocess
import sys
import threading
from contextlib import nullcontext

import pytest
from helpers.models import tiny_llama
from helpers.tokenizers import CHATML, byte_tokenizer
from typer.testing import CliRunner

import engine
from app import cli, command, terminal
from engine.runs import RunStore
from engine.trace import Trace

RUN = {"settings": {"k": 5}, "pair": {"device": "cpu"}, "environment": {"cpu": "A CPU", "python": "3.11"}}


@pytest.fixture(autouse=True)
def data(monkeypatch, tmp_path):
    monkeypatch.setenv("SPECSCOPE_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def invoke(monkeypatch):
    tokenizer = byte_tokenizer(template=CHATML)
    pair = engine.Pair.from_models(target=tiny_llama(vocab=len(tokenizer)), tokenizer=tokenizer)
    monkeypatch.setattr(engine, "load_pair", lambda *a, **k: pair)

    def run(*args, **kwargs):
        return CliRunner().invoke(cli.app, [str(a) for a in args], **kwargs)

    return run


def listed(invoke, *options):
    return json.loads(invoke("runs", "list", "--json", *options).stdout)["runs"]


def test_generate_is_kept_only_when_asked_with_its_whole_trace(invoke):
    invoke("generate", "Hi", "--max-new-tokens", 4)
    assert listed(invoke) == []
    result = invoke("generate", "Hi  \n there " + "x" * 100, "--max-new-tokens", 4, "--save", "--json")
    printed = json.loads(result.stdout)
    (run,) = listed(invoke)
    assert run["id"] in result.stderr
    assert (run["kind"], run["status"]) == ("generate", "complete")
    assert run["label"].startswith("Hi there xxx")
    assert len(run["label"]) == 80
    assert run["settings"]["drafter"] == "prompt_lookup"
    assert run["stats"] == printed["stats"]
    whole = json.loads(invoke("runs", "export", run["id"]).stdout)
    trace = whole["traces"]["trace"]
    assert trace == printed["trace"]
    assert Trace.from_json(json.dumps(trace)).token_ids == printed["token_ids"]
    assert {**whole["document"], "trace": trace} == printed


@pytest.fixture
def asked(tmp_path):
    """A bench of two short prompts."""
    file = tmp_path / "mine.jsonl"
    file.write_text('{"category": "a", "prompt": "Hi"}\n{"category": "b", "prompt": "Ho"}\n', encoding="utf-8")
    return ("bench", "--data", file, "--max-new-tokens", 4)


def test_a_bench_is_kept_unless_told_otherwise(invoke, asked):
    assert invoke(*asked, "--no-save").exit_code == 0
    assert listed(invoke) == []
    result = invoke(*asked, "--json")
    printed = json.loads(result.stdout)
    (run,) = listed(invoke, "--kind", "bench")
    assert (run["label"], run["status"]) == ("mine.jsonl", "complete")
    assert run["stats"]["verdict"] == printed["verdict"]
    assert json.loads(invoke("runs", "export", run["id"]).stdout)["document"] == printed
    rows = list(csv.DictReader(io.StringIO(invoke("runs", "export", run["id"], "--format", "csv").stdout)))
    assert [(r["name"], r["category"]) for r in rows] == [(a["name"], a["category"]) for a in printed["arms"]]
    assert float(rows[0]["stats.e2e_s"]) == printed["arms"][0]["stats"]["e2e_s"]
    assert printed["verdict"] in " ".join(invoke("runs", "show", run["id"]).stdout.replace("│", " ").split())


def test_a_bench_that_was_stopped_is_kept_as_stopped_and_one_without_a_result_is_not(invoke, asked, monkeypatch):
    cancel = threading.Event()
    monkeypatch.setattr(command, "interrupt", lambda: nullcontext(cancel))
    monkeypatch.setattr(terminal, "progress_bar", lambda what: nullcontext(lambda done, total: cancel.set()))
    for _ in range(2):  # the second time it is cancelled from the start
        assert invoke(*asked).exit_code == 130
        assert [run.status for run in RunStore().runs()] == ["stopped"]


def test_a_store_that_cannot_be_opened_does_not_lose_a_bench(invoke, asked, data):
    data.write_text("a file where the folder should be")
    result = invoke(*asked, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["arms"]
    assert "this run was not kept" in " ".join(result.stderr.split())


def test_a_store_that_cannot_be_opened_is_told_before_a_generation_that_is_to_be_saved(invoke, data):
    data.write_text("a file where the folder should be")
    result = invoke("generate", "Hi", "--max-new-tokens", 2, "--save")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "SPECSCOPE_DATA" in result.stderr


def test_list_shows_the_latest_and_says_where_the_store_is(invoke, data):
    store = RunStore()
    runs = [store.save("bench", label=f"number {n}", **RUN) for n in range(3)]
    result = invoke("runs", "list", "--limit", 2)
    assert [r.id in result.stdout for r in runs] == [False, True, True]
    assert "--limit shows more" in " ".join(result.stderr.split())
    assert str(data) in "".join(result.stderr.split())
    assert len(listed(invoke, "--limit", 2)) == 2
    assert listed(invoke, "--hardware", runs[0].hardware[:4])
    assert listed(invoke, "--hardware", "none") == []


def test_what_a_prompt_holds_cannot_drive_the_terminal(invoke):
    run = RunStore().save("generate", label="\x1b[31m[bold]red[/bold]\0", **RUN)
    for args in (["runs", "list"], ["runs", "show", run.id]):
        shown = invoke(*args).stdout
        assert "\x1b[31m" not in shown
        assert r"\x1b" in shown


def test_show_and_export_take_the_start_of_an_id(invoke, tmp_path):
    store = RunStore()
    run = store.begin("sweep", **RUN)
    store.put(run.id, "k=1", {"ratio": 1.5, "note": "=1+1", "stats": {"alpha": None}, "list": [1, 2]})
    store.put(run.id, "k=2", 2.5)
    shown = json.loads(invoke("runs", "show", run.id[:-2], "--json").stdout)
    assert (shown["id"], shown["measurement_keys"], shown["trace_names"]) == (run.id, ["k=1", "k=2"], [])
    target = tmp_path / "out.csv"
    result = invoke("runs", "export", run.id[:-2], "--format", "csv", "--output", target)
    assert result.stdout == ""
    rows = list(csv.DictReader(io.StringIO(target.read_text(encoding="utf-8"))))
    assert [(r["run_id"], r["key"], r["ratio"], r["value"]) for r in rows] == [
        (run.id, "k=1", "1.5", ""),
        (run.id, "k=2", "", "2.5"),
    ]
    assert (rows[0]["stats.alpha"], rows[0]["list"]) == ("", "[1, 2]")
    assert rows[0]["note"] == "'=1+1", "no cell that a spreadsheet would run"


def test_a_lone_surrogate_is_exported_in_both_forms(invoke, tmp_path):
    run = RunStore().save("sweep", measurements={"\ud83d": {"text": "ğ\ud83d\0"}}, **RUN)
    assert json.loads(invoke("runs", "export", run.id).stdout)["measurements"] == {"\ud83d": {"text": "ğ\ud83d\0"}}
    target = tmp_path / "out.csv"
    assert invoke("runs", "export", run.id, "--format", "csv", "--output", target).exit_code == 0
    assert "ğ\\ud83d" in target.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["runs", "list", "--kind", "swep"], "unknown kind of run 'swep'"),
        (["runs", "show", "nothing"], "there is no run 'nothing'"),
        (["runs", "show", "2"], "could be several runs"),
        (["runs", "export", "nothing"], "there is no run 'nothing'"),
        (["runs", "export", "2", "--output", "/no/such/folder/x"], "give another file for --output"),
        (["runs", "delete", "nothing", "--yes"], "there is no run 'nothing'"),
        (["runs", "delete", "2", "--yes"], "could be several runs"),
    ],
)
def test_bad_input_is_one_sentence_on_stderr_and_exit_2(invoke, args, says):
    for _ in range(2):
        RunStore().save("bench", **RUN)
    result = invoke(*args)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert says in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
    assert len(RunStore().runs()) == 2


def test_delete_without_a_terminal_asks_for_yes_and_deletes_nothing(invoke):
    run = RunStore().save("bench", **RUN)
    result = invoke("runs", "delete", run.id)
    assert result.exit_code == 2
    assert "--yes" in result.stderr
    assert RunStore().find(run.id)
    assert invoke("runs", "delete", run.id[-6:], run.id, "--yes").exit_code == 0
    assert RunStore().runs() == []


def test_delete_in_a_terminal_asks_and_does_as_answered():
    run = RunStore().save("bench", **RUN)
    leader, follower = pty.openpty()
    twice = f"from app import cli\nfor _ in range(2): cli.app(['runs', 'delete', '{run.id}'], standalone_mode=False)"
    worker = subprocess.Popen(
        [sys.executable, "-c", twice], stdin=follower, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    os.close(follower)
    os.write(leader, b"n\ny\n")
    out, err = worker.communicate(timeout=600)
    os.close(leader)
    assert worker.returncode == 0, err
    assert out.strip() == ""
    asked, refused, asked_again, done = "Delete 1 run?", "nothing was deleted", "Delete 1 run?", "deleted 1 run"
    at = 0
    for words in (asked, refused, asked_again, done):
        at = err.index(words, at) + 1
    assert RunStore().runs() == []


@pytest.mark.parametrize("words", [[], ["list"], ["show"], ["export"], ["delete"]])
def test_help_works_for_every_command(invoke, words):
    result = invoke("runs", *words, "--help")
    assert result.exit_code == 0
    assert "Usage" in result.stdout
