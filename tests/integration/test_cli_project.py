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


def test_a_draft_beside_a_run_that_drafted_nothing_is_refused():
    stats = {"runs": 1, "prompt_tokens": 10, "output_tokens": 31, "steps": 31, "drafted_steps": 0, "proposed": 0}
    run = RunStore().save(
        "generate", label="a run", settings={}, pair={}, environment={}, status="complete", stats=stats, document={},
        traces={},
    )  # fmt: skip
    assert document("--model", "Llama-3.1-8B", "--run", run.id)["draft"] is None
    done = invoke("--model", "Llama-3.1-8B", "--run", run.id, "--draft", "eagle")
    assert done.exit_code == 2
    assert f"run {run.id} drafted nothing" in " ".join(done.stderr.split())


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
        (("--model", "Llama-3.1-8B", "--batch", 0), "greater than or equal to 1"),
        (("--model", "Llama-3.1-8B", *SPECULATIVE, "--draft-gpus", 2), "2 of 1 cannot be"),
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
    said = " ".join(done.stdout.split())
    verdicts = ((found.band_without_software, found.passes), *((r.unseen, r.passes) for r in found.regimes))
    for band, passes in verdicts:
        assert f"{band}; {'within' if passes else 'falls short of'} the bar of 20%" in said
    assert "of one sequence at a time, unseen:" in said
    assert "of several sequences at a time, unseen:" in said
    said = " ".join(done.stderr.split())
    assert all(" ".join(left.id.split()) in said for left in found.left_out)
    printed = document("--validate")
    assert printed["schema"] == "specscope.validation"
    assert [c["predicted"] for c in printed["checks"]] == [c.predicted for c in found.checks]
    assert printed["passes"] is found.passes
    assert [r["of"] for r in printed["regimes"]] == [r.of for r in found.regimes]
    assert len(printed["speedups"]) == len(found.speedups)


def test_the_range_stands_under_each_figure():
    args = ("--model", "Llama-3.1-8B", *SPECULATIVE)
    (got,) = document(*args)["projections"]
    shown = invoke(*args).stdout
    for low, high in (
        got["plain"]["output_tokens_per_second_range"],
        got["speculative"]["output_tokens_per_second_range"],
    ):
        assert f"{low:.0f}-{high:.0f}" in shown
    low, high = got["speedup_range"]
    assert f"{low:.2f}-{high:.2f}" in shown
    assert "from projected / (1 + highest error)" in " ".join(shown.split())
    many = " ".join(invoke(*args, "--batch", 8).stdout.split())
    assert "Too few speed-ups were published" in many


def test_a_full_batch_that_fits_only_on_average_is_said_not_to_fit():
    done = invoke("--model", "Llama-3.1-8B", "--batch", 80, "--prompt-tokens", 512, "--output-tokens", 8000)
    assert "Will not fit: 105.37 GB needed" in done.stdout
    assert "It fits on 2: --gpus 2." in done.stdout


def test_what_is_odd_about_a_projection_is_said_in_a_sentence():
    odd = ("--model", "Vicuna-33B", "--gpus", 8, "--gpu", "A100 80GB SXM", "--precision", "fp8")
    said = " ".join(invoke(*odd, "--prompt-tokens", 3000).stdout.split())
    assert "takes 2,048 at most" in said
    assert "52 attention heads cannot be split evenly over 8 GPUs" in said
    assert "no FP8 arithmetic" in said
    assert len(document(*odd)["projections"][0]["notes"]) == 3  # 512 + 256 tokens are within its context


def llama_folder(folder, **more):
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "vocab_size": 128256,
              "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
              "num_key_value_heads": 8}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config | more))
    return folder


def test_weights_that_the_config_states_as_quantized_are_counted_so_and_told(tmp_path):
    folder = llama_folder(tmp_path, quantization_config={"quant_method": "gptq", "bits": 4})
    found = document("--model", folder)
    assert found["precision"] == "int4"
    assert any("gptq, 4 bits" in note for note in found["projections"][0]["notes"])
    asked = document("--model", folder, "--precision", "bf16")
    assert (asked["precision"], asked["projections"][0]["notes"]) == ("bf16", [])


def test_a_quantization_that_is_not_known_is_asked_for(tmp_path):
    folder = llama_folder(tmp_path, quantization_config={"quant_method": "spqr"})
    done = invoke("--model", folder)
    assert (done.exit_code, "--precision" in done.stderr) == (2, True)
    assert document("--model", folder, "--precision", "int4")["precision"] == "int4"


@pytest.mark.parametrize(
    "given", [("--draft", "0.05"), ("--draft", "eagle"), ("--draft-seconds", 0.1), ("--draft-gpus", 2)]
)
def test_a_draft_that_changes_nothing_is_refused_and_not_ignored(given):
    done = invoke("--model", "Llama-3.1-8B", "--gpus", 2, *given)
    assert done.exit_code == 2
    assert "no effect without speculation; give --k" in " ".join(done.stderr.split())
