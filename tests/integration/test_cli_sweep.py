"""`specscope sweep`: once on the real embedded pair, and in all its forms on a tiny one."""

import json
import signal

import pytest
from helpers.models import tiny_llama
from helpers.tokenizers import CHATML, byte_tokenizer
from typer.testing import CliRunner

import engine
from app import cli, cli_sweep
from engine.runs import RunStore


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "two.jsonl"
    rows = [
        {"category": "copy", "prompt": "Repeat: one two three one two"},
        {"category": "chat", "prompt": "Say hello."},
    ]
    path.write_text("\n".join(json.dumps(r) for r in rows), encoding="utf-8")
    return path


@pytest.fixture
def tiny(monkeypatch, one_thread):
    """Tiny random weights in the place of those that are asked for; returns what was loaded."""
    loaded = []

    def load_pair(name, *, quantization, **extra):
        loaded.append((name, quantization))
        model = tiny_llama(vocab=258, seed=3)
        return engine.Pair.from_models(model, byte_tokenizer(template=CHATML), quantization=quantization)

    monkeypatch.setattr(engine, "load_pair", load_pair)
    monkeypatch.setattr(engine.weights, "resolve", lambda *args, **extra: None)
    monkeypatch.setattr(cli_sweep, "fingerprints", lambda *args: [None])
    return loaded


def invoke(*args, **extra):
    env = {"COLUMNS": "200", **extra.pop("env", {})}
    return CliRunner().invoke(cli.app, ["sweep", *(str(a) for a in args)], env=env, **extra)


@pytest.mark.weights
def test_json_on_the_real_pair_holds_the_grid_the_curves_and_the_price_of_quantizing(data, embedded_pair, monkeypatch):
    load = engine.load_pair
    monkeypatch.setattr(
        engine, "load_pair", lambda *a, quantization, **kw: embedded_pair if quantization == "none"
        else load(*a, quantization=quantization, **kw),
    )  # fmt: skip
    result = invoke(
        "--data", data, "--k", "2", "--quantization", "none,int8", "--max-new-tokens", 4, "--rounds", 1, "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["complete"] is True
    assert document["failed"] == []
    assert document["baseline"] == "plain"
    for arm in document["arms"]:
        assert {"name", "category", "output_tokens", "seconds", "output_tokens_per_second", "ratio", "interval",
                "stats"} <= set(arm)  # fmt: skip
        assert arm["ratio"] == 1.0 or arm["name"] != "plain"
        assert arm["output_tokens"] == (8 if arm["category"] == "all" else 4)
    assert {a["category"] for a in document["arms"]} == {"copy", "chat", "all"}
    assert len(document["points"]) == 2
    verify = {(c["quantization"], c["batch"]): c for c in document["curves"]["verify"]}
    assert set(verify) == {("none", 1), ("int8", 1)}
    assert verify["none", 1]["widths"] == [1, 2, 3]
    assert len(document["curves"]["draft"]) == 2
    assert {(b["quantization"], b["batch"]) for b in document["best_k"]} == set(verify)
    assert [b["up_to"] for b in document["break_even_batch"]] == [1, 1]
    none, int8 = document["quantization"]
    assert none["weight_bytes"] > 3.9 * int8["weight_bytes"]
    assert 0 < int8["divergence"]["kl_mean"] < 1
    assert int8["divergence"]["positions"] == 8
    assert int8["interleaved"] is True
    assert int8["verdict"].startswith("int8 keeps ")
    assert document["environment"]["threads"] > 0
    assert RunStore().document(document["run_id"]) == document


def test_lists_reach_the_plan_in_their_order_without_duplicates(data, tiny):
    result = invoke(
        "--data", data, "--k", "3, 1,3", "--temperature", "0,0.8", "--batch", "2,1", "--max-new-tokens", 3,
        "--rounds", 1, "--seed", 7, "--category", "chat", "--no-save", "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    settings = document["settings"]
    assert (settings["ks"], settings["temperatures"], settings["batches"]) == ([3, 1], [0.0, 0.8], [2, 1])
    assert (settings["seed"], settings["drafters"], document["prompts"]) == (7, ["prompt_lookup"], 1)
    assert document["run_id"] is None
    told = " ".join(result.stderr.split())  # lines end where the terminal does
    assert "8 points (2 K x 1 drafter x 2 temperature x 2 batch x 1 quantization) of 1 prompt" in told


def test_the_tables_show_the_grid_the_curves_the_best_k_and_the_trade_off(data, tiny):
    result = invoke(
        "--data", data, "--k", "1,2", "--batch", "1,2", "--quantization", "none,int8", "--max-new-tokens", 4,
        "--rounds", 1,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    for said in (
        "none: measured here", "int8: measured here", "t_verify(B, w)", "t_draft(B)", "best K for each batch",
        "break-even batch, int8: ", "what quantizing gives", "how far from none", "int8 keeps ",
    ):  # fmt: skip
        assert said in result.stdout, said
    assert tiny == [("embedded", "none"), ("embedded", "int8")]
    assert "kept as " in result.stderr


def test_tree_sizes_and_k_control_reach_the_plan_and_every_table(data, tiny):
    args = ("--data", data, "--k", "2", "--drafter", "recycling", "--tree-nodes", "0, 6", "--k-control", "heuristic",
            "--max-new-tokens", 4, "--rounds", 1, "--no-save")  # fmt: skip
    result = invoke(*args, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert (document["settings"]["tree_nodes"], document["settings"]["k_control"]) == ([0, 6], "heuristic")
    assert [p["tree_nodes"] for p in document["points"]] == [0, 6]
    assert document["failed"] == []
    assert "1 quantization x 2 tree size, K control heuristic) of 2 prompts" in " ".join(result.stderr.split())
    shown = invoke(*args).stdout
    for table in ("none: measured here", "t_draft(B)", "best K for each batch"):
        assert "tree" in shown[shown.index(table) :].split("┡")[0], table
    assert "K control heuristic, of at most K" in shown
    assert "break-even batch, tree 6: " in shown
    assert "tree" not in invoke(*args[:4], *args[8:]).stdout, "what was not asked for is not shown"


def test_ctrl_c_ends_at_a_point_and_the_same_command_goes_on(data, tiny, monkeypatch):
    from engine.bench import sweep as room

    measured, real = [], room.measure_point

    def point(pair, prompts, plan, task, cancel):
        found = real(pair, prompts, plan, task, cancel)
        measured.append(task.k)
        if len(measured) == 2:
            signal.raise_signal(signal.SIGINT)
        return found

    monkeypatch.setattr(room, "measure_point", point)
    args = ("--data", data, "--k", "1,2,3", "--max-new-tokens", 4, "--rounds", 1, "--json")
    first = invoke(*args)
    assert first.exit_code == 130
    document = json.loads(first.stdout)
    assert (document["complete"], document["left"], len(document["points"])) == (False, 1, 2)
    assert "run the same command to go on" in " ".join(first.stderr.split())

    second = invoke(*args)
    assert second.exit_code == 0, second.output
    assert measured == [1, 2, 3]
    again = json.loads(second.stdout)
    assert (again["run_id"], again["complete"], again["resumed"]) == (document["run_id"], True, 5)
    assert again["points"][:2] == document["points"]
    assert "--fresh" in second.stderr


def test_a_stop_that_kept_nothing_says_so(data, tiny, monkeypatch):
    from engine.bench import sweep as room

    def stop(*_):
        signal.raise_signal(signal.SIGINT)
        raise engine.EngineError("unused")

    monkeypatch.setattr(room, "verify_curve", stop)
    result = invoke("--data", data, "--max-new-tokens", 4, "--rounds", 1, "--no-save")
    assert result.exit_code == 130
    assert "nothing to report" in result.stderr
    assert "--no-save kept nothing to go on from" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--k", "1,,3"), "--k takes whole numbers with commas between them, not '1,,3'"),
        (("--k", "2.5"), "--k takes whole numbers"),
        (("--k", ""), "--k takes whole numbers"),
        (("--k", "0"), "K must be a whole number from 1"),
        (("--temperature", "warm"), "--temperature takes numbers"),
        (("--temperature", "nan"), "temperature must be"),
        (("--batch", "1;4"), "--batch takes whole numbers"),
        (("--batch", "-1"), "batch must be"),
        (("--quantization", "int3"), "unknown quantization 'int3'"),
        (("--drafter", "eagel"), "unknown drafter 'eagel'"),
        (("--drafter", "none"), "unknown drafter 'none'"),
        (("--drafter", "model"), "needs a draft model"),
        (("--verifier", "strict"), "unknown verifier"),
        (("--tree-nodes", "8;16"), "--tree-nodes takes whole numbers with commas between them"),
        (("--tree-nodes", "8"), "'prompt_lookup' drafts chains"),
        (("--tree-nodes", "65", "--drafter", "suffix"), "tree_nodes must be a whole number from 0 to 64"),
        (("--k-control", "clever"), "k_control must be one of"),
        (("--k-control", "confidence"), "'prompt_lookup' does not say how sure it is"),
        (("--max-new-tokens", "0"), "max_new_tokens must be"),
        (("--suite", "defualt"), "unknown suite"),
        (("--category", "poems"), "no category 'poems'"),
        (("--pair", "embedded", "--target", "x"), "not both"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(args, says, tiny):
    result = invoke(*args, "--no-save", "--json")
    assert result.exit_code == 2
    assert says in " ".join(result.stderr.split())
    assert result.stdout == ""
