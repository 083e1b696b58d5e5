"""The `specscope` command: JSON documents, sentences and exit codes, on the real embedded weights."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

import engine
from app import cli, terminal

pytestmark = pytest.mark.weights

FOX = "Repeat this sentence three times: The quick brown fox jumps over the lazy dog near the river bank."
COMMAND = [sys.executable, "-m", "app.cli"]


@pytest.fixture
def invoke(monkeypatch, embedded_pair):
    """The command in this process, on weights that are already loaded."""
    loaded = []

    def load(*args, **kwargs):
        loaded.append((args, kwargs))
        return embedded_pair

    monkeypatch.setattr(engine, "load_pair", load)

    def run(*args, **kwargs):
        return CliRunner().invoke(cli.app, [str(a) for a in args], **kwargs)

    run.loaded = loaded
    return run


def test_generate_json_is_one_document_with_the_promised_keys(invoke):
    result = invoke("generate", FOX, "--max-new-tokens", 24, "--alternatives", 3, "--json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert {"schema", "text", "token_ids", "finish_reason", "stats", "trace", "environment"} <= set(document)
    steps = document["trace"]["steps"]
    assert [t for s in steps for t in s["emitted"]] == document["token_ids"]
    proposals = [p for s in steps for p in s["proposals"]]
    assert {p["accepted"] for p in proposals} == {True, False}
    assert all({"token_id", "text", "p", "q", "u", "accepted"} <= set(p) for p in proposals)
    kinds = {s["replacement"]["kind"] for s in steps if s["replacement"]}
    assert kinds == {"recovered", "bonus"}
    assert all(s[ms] >= 0 for s in steps for ms in ("draft_ms", "verify_ms", "other_ms"))
    assert len(proposals[0]["target_top"]) == 3
    assert document["environment"]["versions"]["torch"]


def test_into_a_pipe_goes_the_text_alone(invoke):
    result = invoke("generate", FOX, "--max-new-tokens", 24)
    assert result.stdout == "The quick brown fox jumps over the lazy dog.\n"
    assert "tokens/s" in result.stderr


def test_the_prompt_can_come_from_standard_input(invoke):
    result = invoke("generate", "-", "--max-new-tokens", 24, input=FOX)
    assert result.stdout == "The quick brown fox jumps over the lazy dog.\n"


def test_every_drafter_and_verifier_says_the_same_at_temperature_zero(invoke):
    for drafter in ("none", "prompt_lookup", "suffix", "recycling", "composite", "early_exit"):
        for verifier in engine.VERIFIERS if drafter in ("prompt_lookup", "composite") else ("rejection",):
            result = invoke("generate", FOX, "--drafter", drafter, "--verifier", verifier, "--max-new-tokens", 12)
            assert result.stdout == "The quick brown fox jumps over the lazy dog.\n", (drafter, verifier)


def test_the_trace_file_reads_back_as_what_json_printed(invoke, tmp_path):
    path = tmp_path / "trace.json"
    result = invoke("generate", FOX, "--max-new-tokens", 12, "--trace", path, "--json")
    trace = engine.Trace.from_json(path.read_text(encoding="utf-8"))
    assert trace.as_dict() == json.loads(result.stdout)["trace"]


def test_raw_sends_the_prompt_without_the_chat_template(invoke):
    result = invoke("generate", "Once upon a time", "--raw", "--max-new-tokens", 2, "--json")
    assert json.loads(result.stdout)["trace"]["prompt_text"] == "Once upon a time"
    result = invoke("generate", "Once upon a time", "--chat", "--max-new-tokens", 2, "--json")
    assert "<|im_start|>user\nOnce upon a time<|im_end|>" in json.loads(result.stdout)["trace"]["prompt_text"]


def test_settings_reach_the_run(invoke):
    result = invoke(
        "generate", FOX, "--k", 3, "--temperature", 0.7, "--top-k", 20, "--top-p", 0.9, "--min-p", 0.05,
        "--repetition-penalty", 1.1, "--seed", 7, "--stop", "zebra", "--ignore-eos", "--max-new-tokens", 5, "--json",
        "--drafter", "recycling", "--tree-nodes", 8, "--k-control", "confidence", "--confidence-threshold", 0.2,
    )  # fmt: skip
    assert json.loads(result.stdout)["trace"]["settings"] == {
        "k": 3, "max_new_tokens": 5, "temperature": 0.7, "top_k": 20, "top_p": 0.9, "min_p": 0.05,
        "repetition_penalty": 1.1, "stop": ["zebra"], "seed": 7, "ignore_eos": True, "tree_nodes": 8,
        "k_control": "confidence", "confidence_threshold": 0.2,
    }  # fmt: skip


def test_the_pair_that_is_loaded_is_the_one_that_was_named(invoke):
    invoke("generate", "x", "--target", "some/where", "--draft", "else/where", "--dtype", "float32",
           "--max-new-tokens", 1)  # fmt: skip
    (args, kwargs) = invoke.loaded[-1]
    assert args == (None,)
    assert (kwargs["target"], kwargs["draft"], kwargs["dtype"]) == ("some/where", "else/where", "float32")
    assert kwargs["trust_remote_code"] is False
    assert "heads" not in kwargs


def test_heads_reach_the_pair_by_method(invoke, tmp_path):
    (tmp_path / "e").mkdir()
    (tmp_path / "m=2").mkdir()
    invoke("generate", "x", "--head", f"eagle={tmp_path / 'e'}", "--head", f"medusa={tmp_path / 'm=2'}",
           "--drafter", "composite", "--max-new-tokens", 1)  # fmt: skip
    assert invoke.loaded[-1][1]["heads"] == {"eagle": str(tmp_path / "e"), "medusa": str(tmp_path / "m=2")}


def test_json_proposals_of_a_tree_name_their_parents(invoke):
    result = invoke("generate", FOX, "--drafter", "composite", "--max-new-tokens", 40, "--ignore-eos", "--json")
    steps = json.loads(result.stdout)["trace"]["steps"]
    trees = [s for s in steps if any(p["parent"] != i - 1 for i, p in enumerate(s["proposals"]))]
    assert trees
    for step in trees:
        assert all(-1 <= p["parent"] < i for i, p in enumerate(step["proposals"]))
        assert {p["source"] for p in step["proposals"]} <= {"suffix", "recycling"}


def test_branches_are_shown_as_indented_lines(invoke):
    result = invoke("generate", FOX, "--drafter", "composite", "--max-new-tokens", 40, "--ignore-eos", "--branches")
    assert result.exit_code == 0
    assert re.search(r"^step \d+  \d+ of \d+ accepted", result.stdout, re.MULTILINE)
    assert re.search(r"^  (│ |  )*[├└] ", result.stdout, re.MULTILINE)
    assert "accepted at depth 1, 2" in result.stderr
    assert "low for trees by construction" in " ".join(result.stderr.split())


def test_the_headings_of_a_bench_are_whole_in_eighty_columns(invoke, monkeypatch, tmp_path):
    data = tmp_path / "p.jsonl"
    data.write_text(json.dumps({"category": "copy-edit", "prompt": FOX}), encoding="utf-8")
    monkeypatch.setattr(terminal.out, "width", 80)
    shown = invoke("bench", "--data", data, "--max-new-tokens", 8, "--repeats", 2, "--no-save").stdout
    table = shown[: shown.index("memory limit")]
    for heading in ("category", "runs", "speculative", "interval", "lowest to", "acceptance", "accepted /", "proposed"):
        assert heading in table
    assert "…" not in table
    assert max(map(len, table.splitlines())) <= 80


def test_typical_acceptance_is_called_lossy_wherever_it_is_shown(invoke, tmp_path):
    shown = invoke("generate", FOX, "--verifier", "typical", "--max-new-tokens", 8, "--save")
    assert "LOSSY typical acceptance" in " ".join(shown.stderr.split())
    assert "typical (LOSSY)" in shown.stderr
    data = tmp_path / "p.jsonl"
    data.write_text(json.dumps({"prompt": FOX}), encoding="utf-8")
    assert "LOSSY" in invoke("bench", "--data", data, "--verifier", "typical", "--max-new-tokens", 4).stderr
    assert "LOSSY: " in invoke("runs", "list").stdout
    assert "LOSSY" not in invoke("generate", FOX, "--max-new-tokens", 8).stderr


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["generate", "x", "--k", "-1"], "k must be"),
        (["generate", "x", "--temperature", "nan"], "temperature must be"),
        (["generate", "x", "--top-p", "1.5"], "top_p must be"),
        (["generate", "x", "--repetition-penalty", "0"], "repetition_penalty must be"),
        (["generate", "x", "--drafter", "eagel"], "unknown drafter 'eagel'"),
        (["generate", "x", "--verifier", "strict"], "unknown verifier 'strict'"),
        (["generate", "x", "--drafter", "model"], "needs a draft model"),
        (["generate", "x", "--drafter", "model", "--tree-nodes", "8"], "drafts chains"),
        (["generate", "x", "--tree-nodes", "65"], "tree_nodes must be"),
        (["generate", "x", "--k-control", "clever"], "k_control must be one of"),
        (["generate", "x", "--confidence-threshold", "2"], "confidence_threshold must be"),
        (["generate", "x", "--head", "eagle"], "--head takes METHOD=FOLDER"),
        (["generate", "x", "--head", "hydra=/"], "--head takes METHOD=FOLDER"),
        (["generate", "x", "--head", "eagle=/no/such/folder"], "does not exist"),
        (["generate", "x", "--head", "eagle=/", "--head", "eagle=/tmp"], "two folders for eagle"),
        (["generate", "x", "--branches", "--json"], "not both"),
        (["generate", ""], "prompt is empty"),
        (["generate", "x", "--trace", "/no/such/folder/t.json"], "does not exist"),
        (["generate", "x", "--trace", "/"], "is a folder"),
        (["generate", "x", "--pair", "embedded", "--target", "y"], "not both"),
        (["bench", "--suite", "defualt"], "unknown suite"),
        (["bench", "--data", "/no/such/file.jsonl"], "does not exist"),
        (["bench", "--category", "poetry"], "no category 'poetry'"),
    ],
)
def test_bad_input_is_one_sentence_on_stderr_and_exit_2(invoke, args, says):
    result = invoke(*args)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert says in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--drafter", "none", "--tree-nodes", "8"], "--tree-nodes has no effect with the drafter 'none'"),
        (["--drafter", "none", "--tree-nodes", "0"], "--tree-nodes has no effect with the drafter 'none'"),
        (["--drafter", "none", "--k-control", "fixed"], "--k-control has no effect with the drafter 'none'"),
        (["--drafter", "none", "--confidence-threshold", "0.4"], "--confidence-threshold has no effect with the"),
        (["--drafter", "none", "--head", "eagle=/"], "--head eagle= has no effect with the drafter 'none'"),
        (["--drafter", "prompt_lookup", "--tree-nodes", "8"], "the drafter 'prompt_lookup' drafts chains"),
        (["--drafter", "early_exit", "--tree-nodes", "8"], "the drafter 'early_exit' drafts chains"),
        (["--k-control", "confidence"], "--k-control confidence has no effect with the drafter 'prompt_lookup'"),
        (["--drafter", "suffix", "--confidence-threshold", "0.4"], "no effect without --k-control confidence"),
        (["--head", "eagle=/"], "--head eagle= has no effect with the drafter 'prompt_lookup', which does not read it; "
                                "leave it out, or give --drafter eagle or composite"),
        (["--drafter", "eagle", "--head", "medusa=/"], "--head medusa= has no effect with the drafter 'eagle'"),
        (["--drafter", "suffix", "--head", "recycling=/"], "--head recycling= has no effect with the drafter 'suffix'"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("asked", ["generate", "bench"])
def test_what_would_change_nothing_for_the_drafter_is_refused_and_not_taken_in_silence(invoke, asked, args, says):
    result = invoke(asked, *(["x"] if asked == "generate" else []), *args, "--max-new-tokens", 2)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert says in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "args",
    [
        ["--drafter", "none", "--k", "3", "--verifier", "rejection"],  # what all drafters are compared under
        ["--drafter", "prompt_lookup", "--tree-nodes", "0", "--k-control", "heuristic"],
        ["--drafter", "suffix", "--k-control", "confidence", "--confidence-threshold", "0.4"],
    ],
)
def test_what_is_not_asked_for_is_never_refused(invoke, args):
    assert invoke("generate", "x", *args, "--max-new-tokens", 2).exit_code == 0


def test_a_terminal_that_cannot_show_a_letter_gets_its_code():
    done = subprocess.run(
        [*COMMAND, "models", "list"], capture_output=True, text=True, env={**os.environ, "PYTHONIOENCODING": "ascii"},
        timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "embedded" in done.stdout


def test_bench_json_holds_both_arms_of_every_category(invoke, tmp_path):
    data = tmp_path / "mine.jsonl"
    rows = [{"category": "a", "prompt": FOX}, {"category": "b", "prompt": "Say hello."}]
    data.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    result = invoke("bench", "--data", data, "--max-new-tokens", 16, "--json")
    document = json.loads(result.stdout)
    assert document["baseline"] == "plain"
    arms = {(a["name"], a["category"]): a for a in document["arms"]}
    assert set(arms) == {(n, c) for n in ("plain", "prompt_lookup") for c in ("a", "b", "all")}
    keys = {"name", "category", "output_tokens", "seconds", "output_tokens_per_second", "ratio", "interval", "stats"}
    assert all(keys <= set(a) for a in arms.values())
    whole, plain = arms["prompt_lookup", "all"], arms["plain", "all"]
    assert whole["output_tokens"] == plain["output_tokens"]
    assert whole["ratio"] == pytest.approx(plain["seconds"] / whole["seconds"])
    assert plain["ratio"] == 1.0
    assert plain["stats"]["mean_acceptance_length"] is None, "no draft, no acceptance: absent, not zero"
    low, high = whole["interval"]
    assert low <= whole["ratio"] <= high
    assert document["settings"]["seed"] is not None


def test_bench_prints_a_table_and_a_verdict(invoke):
    result = invoke("bench", "--category", "copy-edit", "--max-new-tokens", 16)
    assert result.exit_code == 0
    assert re.search(r"prompt_lookup: \d\.\d\dx, from too few prompts", result.stdout)


def test_help_works_for_every_command():
    runner = CliRunner()
    for words in ([], ["generate"], ["bench"], ["app"], ["models"], ["models", "list"], ["models", "fetch"],
                  ["models", "path"]):  # fmt: skip
        result = runner.invoke(cli.app, [*words, "--help"])
        assert result.exit_code == 0, words
        assert "Usage" in result.stdout


def test_models_list_names_the_embedded_model_and_path_finds_it():
    runner = CliRunner()
    rows = json.loads(runner.invoke(cli.app, ["models", "list", "--json"]).stdout)["models"]
    embedded = next(r for r in rows if r["name"] == "embedded")
    assert embedded["cached"]
    assert runner.invoke(cli.app, ["models", "path", "embedded"]).stdout.strip() == embedded["path"]
    refused = runner.invoke(cli.app, ["models", "path", "embeded"])
    assert refused.exit_code == 2
    assert "embedded" in refused.stderr


def test_a_real_process_keeps_json_apart_from_what_it_tells():
    done = subprocess.run(
        [*COMMAND, "generate", "Hi", "--max-new-tokens", "3", "--json"], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["token_ids"]) == 3


def test_ctrl_c_ends_a_bench_cleanly_and_reports_what_was_done(invoke, monkeypatch, tmp_path):
    @contextmanager
    def press_after_two(what):
        def step(done, total):
            if done == 2:
                os.kill(os.getpid(), signal.SIGINT)

        yield step

    monkeypatch.setattr(terminal, "progress_bar", press_after_two)
    before = signal.getsignal(signal.SIGINT)
    data = tmp_path / "p.jsonl"
    data.write_text("\n".join(json.dumps({"prompt": f"Count to {n}."}) for n in range(3, 9)), encoding="utf-8")
    result = invoke("bench", "--data", data, "--max-new-tokens", 4, "--json")
    assert result.exit_code == 130
    document = json.loads(result.stdout)
    assert document["complete"] is False
    assert {(a["name"], a["n"]) for a in document["arms"]} == {("plain", 2), ("prompt_lookup", 2)}
    assert signal.getsignal(signal.SIGINT) is before, "the handler is put back"


def test_ctrl_c_during_a_generation_shows_the_text_so_far(invoke, monkeypatch):
    step = engine.Stream.__next__

    def press_at_the_third(run):
        if len(run.steps) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return step(run)

    monkeypatch.setattr(engine.Stream, "__next__", press_at_the_third)
    result = invoke("generate", FOX, "--drafter", "none", "--json")
    assert result.exit_code == 130
    document = json.loads(result.stdout)
    assert document["finish_reason"] == "cancelled"
    assert document["text"] == "The quick brown"


def test_a_terminal_tells_the_kinds_apart_by_marks_and_hides_control_characters():
    """In a real terminal: brackets round rejected tokens, signs on recovered and bonus ones."""
    leader, follower = pty.openpty()
    worker = subprocess.Popen(
        [*COMMAND, "generate", FOX, "--max-new-tokens", "24"], stdout=follower, stderr=follower,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "120"},
    )  # fmt: skip
    os.close(follower)
    seen = b""
    while True:
        try:
            chunk = os.read(leader, 4096)
        except OSError:  # the follower is closed: the process has ended
            break
        if not chunk:
            break
        seen += chunk
    assert worker.wait(timeout=600) == 0
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())
    assert "⟨" in plain
    assert "↺." in plain
    assert "+ dog" in plain
    assert "\x1b[4;32m" in seen.decode(), "accepted tokens are underlined, not only green"
