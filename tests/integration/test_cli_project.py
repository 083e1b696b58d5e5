"""`specscope project`: what it prints, what it refuses, and that its numbers are the engine's."""

import json

import pytest
from typer.testing import CliRunner

from app import cli
from engine.runs import RunStore
from engine.validation import shipped_validation


@pytest.fixture(autouse=True)
def data(monkeypatch, tmp_path):
    monkeypatch.setenv("SPECSCOPE_DATA", str(tmp_path / "data"))


def invoke(*args):
    return CliRunner().invoke(cli.app, ["project", *(str(a) for a in args)])


def document(*args):
    done = invoke(*args, "--json")
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


SPECULATIVE = ("--k", 5, "--mean-acceptance-length", 3.2, "--draft", "eagle3")


def test_a_projection_shows_speed_binding_side_error_band_and_labels():
    done = invoke("--model", "Llama-3.1-8B", "--gpu", "h100 sxm", "--gpu", "h200", *SPECULATIVE)
    assert done.exit_code == 0, done.stderr
    for part in ("projected: Llama-3.1-8B", "H100 SXM", "H200 SXM", "weights", "Error band: median error", "Fits:"):
        assert part in done.stdout, part
    said = " ".join(done.stderr.split())
    for label in ("(assumed)", "(quoted)", "(fitted: "):
        assert label in said, label


def test_json_is_one_document_with_prefill_and_decode_apart():
    printed = document("--model", "Llama-3.1-8B", *SPECULATIVE, "--prompt-tokens", 1000, "--output-tokens", 200)
    assert printed["schema"] == "specscope.projection"
    (got,) = printed["projections"]
    assert (got["prompt_tokens"], got["output_tokens"], got["provenance"]) == (1000, 200, "projected")
    for arm in ("plain", "speculative"):
        seconds = got[arm]["prefill_s_per_request"] + got[arm]["decode_s_per_request"]
        assert 200 / seconds == pytest.approx(got[arm]["output_tokens_per_second"])
    assert got["speedup"] == pytest.approx(
        got["speculative"]["output_tokens_per_second"] / got["plain"]["output_tokens_per_second"]
    )
    assert {i["label"] for i in got["inputs"]} >= {"assumed", "quoted", "fitted"}


def test_without_an_acceptance_only_plain_decoding_is_shown():
    done = invoke("--model", "Llama-3.1-8B")
    assert done.exit_code == 0
    assert "fast tok/s" not in done.stdout
    assert document("--model", "Llama-3.1-8B")["draft"] is None


def test_more_gpus_of_the_same_kind_read_faster_and_talk():
    one, two = (document("--model", "Llama-2-13B", "--gpus", n)["projections"][0] for n in (1, 2))
    assert one["plain_step"]["communication_s"] == 0
    assert two["plain_step"]["communication_s"] > 0
    assert two["plain_step"]["memory_s"] == pytest.approx(one["plain_step"]["memory_s"] / 2)


def test_a_model_that_does_not_fit_is_said_with_what_would():
    done = invoke("--model", "Llama-3.3-70B", "--gpu", "A100 80GB SXM")
    assert done.exit_code == 0
    assert "Will not fit: 141.3" in done.stdout
    assert "It fits on 2: --gpus 2." in done.stdout
    assert "Nor does it fit on 8." in invoke("--model", "Llama-3.1-405B", "--gpu", "l40s").stdout


def test_drafts_of_every_kind_are_projected():
    plain = ("--model", "Llama-3.3-70B", "--gpus", 8, "--k", 4, "--mean-acceptance-length", 2.5)
    drafts = ("Llama-3.2-1B", "eagle", "eagle3", "medusa", "0.05", "lookup")
    found = {d: document(*plain, "--draft", d)["projections"][0]["speculative"]["draft_s"] for d in drafts}
    assert found["lookup"] == 0 < found["medusa"] < found["eagle"]
    assert found["eagle3"] < found["eagle"]
    measured = document(*plain, "--draft-seconds", 0.001)["projections"][0]
    assert measured["speculative"]["draft_s"] == pytest.approx(0.001)


def test_a_kept_run_lends_its_acceptance():
    stats = {"runs": 2, "prompt_tokens": 20, "output_tokens": 62, "steps": 22, "drafted_steps": 20, "proposed": 100}
    run = RunStore().save(
        "generate", label="a run", settings={}, pair={}, environment={}, status="complete", stats=stats, document={},
        traces={},
    )  # fmt: skip
    (got,) = document("--model", "Llama-3.1-8B", "--run", run.id, "--draft", "lookup")["projections"]
    assert (got["prompt_tokens"], got["output_tokens"]) == (10, 31)
    inputs = {i["name"]: i for i in got["inputs"]}
    assert (inputs["steps behind the first"]["value"], inputs["steps behind the first"]["label"]) == (10, "measured")
    assert "not both" in invoke("--model", "Llama-3.1-8B", "--run", run.id, "--k", 3).stderr


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((), "--model is needed"),
        (("--model", "Llama-9"), "no model 'Llama-9'"),
        (("--model", "Llama-3.1-8B", "--gpu", "H1O0"), "near it: H100 SXM"),
        (("--model", "Llama-3.1-8B", "--gpu", "A100"), "several GPUs"),
        (("--model", "Llama-3.1-8B", "--precision", "fp7"), "unknown precision"),
        (("--model", "Llama-3.1-8B", "--k", 5), "needs both"),
        (("--model", "Llama-3.1-8B", "--k", 5, "--mean-acceptance-length", 7), "1 to 6"),
        (("--model", "Llama-3.1-8B", *SPECULATIVE, "--output-tokens", 1), "at least 2"),
        (("--model", "Llama-3.1-8B", "--draft", "1.5", "--k", 2, "--mean-acceptance-length", 2), "share"),
        (("--model", "Llama-3.1-8B", "--draft", "eagle", "--draft-seconds", 1), "for a lookup"),
        (("--model", "Llama-3.1-8B", "--run", "nothing"), "nothing"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(args, says):
    done = invoke(*args)
    assert done.exit_code == 2
    assert says in " ".join(done.stderr.split())
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_validate_shows_every_result_and_every_reason():
    done = invoke("--validate")
    assert done.exit_code == 0
    found = shipped_validation()
    for check in found.checks:
        assert check.result.id in done.stdout
    assert "within the bar of 20%" in done.stdout
    said = " ".join(done.stderr.split())
    assert all(" ".join(left.id.split()) in said for left in found.left_out)
    printed = document("--validate")
    assert printed["schema"] == "specscope.validation"
    assert [c["predicted"] for c in printed["checks"]] == [c.predicted for c in found.checks]
    assert printed["passes"] is True
