"""`specscope peers` on the real embedded pair."""

import json

import pytest
from typer.testing import CliRunner

from app import cli

pytestmark = pytest.mark.weights
ARMS = (
    "transformers generate", "transformers prompt lookup",
    "specscope plain fp32", "specscope prompt_lookup fp32", "specscope composite fp32",
)  # fmt: skip


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "two.jsonl"
    rows = [{"category": "copy", "prompt": "Repeat: one two three"}, {"category": "chat", "prompt": "Say hello."}]
    path.write_text("\n".join(json.dumps(r) for r in rows), encoding="utf-8")
    return path


def invoke(*args):
    return CliRunner().invoke(cli.app, ["peers", *(str(a) for a in args)])


def test_json_holds_every_arm_with_speed_ratio_and_interval_and_the_same_ids(data):
    result = invoke(
        "--data", data, "--max-new-tokens", 8, "--quantization", "none", "--only", "specscope",
        "--only", "transformers", "--temperature", 0.5, "--no-save", "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    whole = {a["name"]: a for a in document["arms"] if a["category"] == "all"}
    assert tuple(sorted(whole)) == tuple(sorted(ARMS))
    for arm in whole.values():
        assert arm["output_tokens"] == 16
        assert arm["output_tokens_per_second"] > 0
        assert arm["interval"][0] <= arm["ratio"] <= arm["interval"][1]
        assert arm["weights"] == "fp32"
        assert arm["limit_tokens_per_second"] > 0
        assert arm["stats"]["runs_with_ids_of_baseline"] == 2
    assert {a["category"] for a in document["arms"]} == {"copy", "chat", "all"}
    assert document["baseline"] == "transformers generate"
    assert whole[document["baseline"]]["ratio"] == 1.0
    skipped = {s["name"]: s["reason"] for s in document["skipped"]}
    assert "--draft" in skipped["transformers assisted"]
    assert skipped["vllm server"] == "not among those given with --only"
    assert any("--temperature 0.5 is left aside" in n for n in document["notes"])
    assert document["complete"] is True
    assert document["environment"]["threads"] > 0
    assert "beside" in document


def test_the_table_names_the_arms_and_what_was_skipped(data):
    result = invoke("--data", data, "--max-new-tokens", 4, "--only", "vllm", "--category", "chat", "--no-save")
    assert result.exit_code == 0, result.output
    assert "transformers generate" in result.stdout
    assert "skipped vllm server: no server was named" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--only", "tgi"), "no arm is called 'tgi'"),
        (("--quantization", "int3"), "unknown quantization 'int3'"),
        (("--category", "poems"), "no category 'poems'"),
        (("--pair", "embedded", "--target", "x"), "not both"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(args, said):
    result = invoke(*args, "--no-save", "--json")
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""
