"""`specscope claims`: one JSON document, sentences, exit codes, a screen that fits; the engine's bounds behind it."""

import json
import re
from collections import Counter

import pytest
from typer.testing import CliRunner

from app import claims_model, cli, terminal
from engine.errors import EngineError
from engine.published import shipped_results
from engine.validation import shipped_error_band, shipped_speedup_band
from pricing.claims import ClaimInput, shipped_claims

KNOWN = ("--model", "Llama-3.1-8B", "--gpu", "h100 sxm", "--precision", "bf16", "--batch", "1")


def run(*args: object):
    return CliRunner().invoke(cli.app, ["claims", *map(str, args)])


def document(*args: object) -> dict:
    result = run(*args, "--json")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.count("\n") == 1
    return json.loads(result.stdout)


@pytest.fixture(params=[80, 120])
def screen(request, monkeypatch):
    """A terminal of that width; returns what was shown, line by line."""
    monkeypatch.setattr(terminal.out, "width", request.param)
    monkeypatch.setattr(terminal.err, "width", request.param)

    def shown(*args: object) -> list[str]:
        result = run(*args)
        assert result.exit_code == 0, result.stderr
        lines = [line.rstrip() for line in (result.stdout + result.stderr).splitlines()]
        assert max(len(line) for line in lines if "://" not in line) <= request.param
        return lines

    return shown


def test_the_list_has_every_claim_with_its_verdict_and_the_hash_of_the_table():
    listed = document()
    assert listed["schema"] == "specscope.claims"
    assert [claim["id"] for claim in listed["claims"]] == list(shipped_claims().claims)
    assert Counter(claim["verdict"] for claim in listed["claims"])["contradicted"] == 11
    assert {claim["verdict"] for claim in listed["claims"]} <= set(listed["verdicts"])
    assert listed["sha256"] == shipped_claims().sha256


def test_the_list_can_be_narrowed():
    assert [c["id"] for c in document("--verdict", "implausible")["claims"]] == ["e", "m"]
    assert [c["id"] for c in document("--id", "p05", "--id", "a")["claims"]] == ["a", "p05"]
    assert {c["origin"] for c in document("--origin", "published")["claims"]} == {"published"}
    assert document("--id", "a", "--verdict", "outdated")["claims"] == []


def test_a_claim_is_shown_with_its_whole_derivation():
    shown = document("show", "e")
    steps = {step["name"]: step for step in shown["implies"]}
    assert steps["tokens/s that it takes, plain"]["value"] == pytest.approx(151_728.395)
    assert steps["tokens/s that it takes, plain"]["formula"] == "98.32 USD/h / 0.18 USD/1M x 1e6 / 3600"
    assert [finding["voice"] for finding in shown["findings"]] == ["arithmetic", "roofline", "sources"]
    # 8 x 1978.9 TFLOPS of FP8 over twice the 68.7e9 parameters that a token is multiplied with
    assert shown["bounds"][0]["compute_tokens_per_second"] == pytest.approx(115_195, rel=1e-3)
    assert shown["findings"][1]["says"] == "strains"


def test_what_is_absent_is_null():
    shown = document("show", "n")
    assert shown["evidence_url"] is None
    checked = document("check", "--speedup", 2)
    assert checked["bound"] is None
    assert checked["claim"]["tokens_per_second"] is None


def test_the_list_and_a_derivation_fit_the_terminal(screen):
    listed = " ".join(" ".join(screen()).split())
    assert "50 of 50 claims" in listed
    assert "0.18 -> 0.06 USD per 1M tokens" in listed
    shown = " ".join(" ".join(screen("show", "e")).split())
    assert "151,728 tokens/s" in shown
    assert "https://aws.amazon.com/" in shown


def test_a_checked_claim_fits_the_terminal_and_shows_ladder_and_verdict(screen):
    args = ("--k", 5, "--mean-acceptance-length", 3.2, "--tokens-per-second", 300, "--per-hour", 3.99)
    shown = " ".join(" ".join(screen("check", *KNOWN, *args)).split())
    assert "plausible" in shown
    assert "most tokens of a pass" in shown
    assert "3.694 USD/1M" in shown  # 3.99 / (300 x 3600) x 1e6


def test_a_cost_beyond_what_the_gpus_can_multiply_is_contradicted():
    checked = document(
        "check", "--model", "Llama-2-70B", "--gpu", "H100 SXM", "--gpus", 8, "--per-hour", 98.32, "--per-million", 0.06
    )
    assert checked["verdict"] == "contradicted"
    assert checked["decided_by"] == "roofline"
    assert checked["figures"]["tokens_per_second"] == pytest.approx(455_185.185)


def test_a_speedup_above_its_acceptance_length_is_contradicted():
    checked = document("check", "--speedup", 4, "--k", 5, "--mean-acceptance-length", 3.2)
    assert checked["verdict"] == "contradicted"
    assert "mean acceptance length (3.2x)" in checked["why"]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["show", "z9"], "there is no claim 'z9'"),
        (["--id", "z9"], "there is no claim 'z9'"),
        (["--verdict", "false"], "there is no verdict 'false'; choose from contradicted"),
        (["--origin", "rumour"], "--origin takes article or published"),
        (["--json", "show", "e"], "options in front of show have no effect"),
        (["check"], "nothing is claimed"),
        (["check", "--speedup", "7", "--k", "5"], "no speed-up is 7"),
        (["check", "--speedup", "0"], "speedup must be a finite number above 0"),
        (["check", "--tokens-per-second", "nan"], "tokens per second must be a finite number above 0, not nan"),
        (["check", "--per-million", "0"], "USD per million must be a finite number above 0"),
        (["check", "--tokens-per-second", "-5"], "tokens per second must be a finite number above 0"),
        (["check", "--speedup", "2", "--model", "nobody-1B", "--gpu", "H100 SXM"], "no model 'nobody-1B'"),
        (["check", "--speedup", "2", "--model", "Llama-3.1-8B", "--gpu", "TPU v9"], "no GPU 'TPU v9'"),
        (["check", *KNOWN, "--speedup", "2", "--precision", "int3"], "unknown precision 'int3'"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(args, says):
    result = run(*args)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert says in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


def test_help_names_the_three_ways():
    text = re.sub(r"\x1b\[[0-9;]*m", "", run("--help").stdout)
    assert all(word in text for word in ("show", "check", "--verdict"))


def test_the_bound_is_the_data_sheet_in_full():
    # 7.505e9 parameters of 2 bytes are read in 4.48 ms at 3.35 TB/s; 989.4e12 / (2 x 7.505e9) is 65,917
    one = claims_model.bound_of("Llama-3.1-8B", "H100 SXM", precision="bf16", batch=1)
    assert one.plain_tokens_per_second == pytest.approx(3.35e12 / (2 * 7.505e9), rel=1e-3)
    assert one.compute_tokens_per_second == pytest.approx(989.4e12 / (2 * 7.505e9), rel=1e-3)
    eight = claims_model.bound_of("Llama-3.1-8B", "H100 SXM", 8, "bf16", batch=8)
    assert eight.plain_tokens_per_second == pytest.approx(64 * one.plain_tokens_per_second)
    assert one.bound_by == "memory"
    assert claims_model.bound_of("Llama-3.1-8B", "H100 SXM", precision="bf16", batch=1000).bound_by == "compute"


def test_a_precision_that_is_not_said_is_taken_in_the_claims_favour():
    said = claims_model.bound_of("Llama-3.1-8B", "H100 SXM", precision="bf16", batch=1)
    unsaid = claims_model.bound_of("Llama-3.1-8B", "H100 SXM", batch=1)
    assert unsaid.plain_tokens_per_second > 3 * said.plain_tokens_per_second  # 0.53 bytes a parameter
    assert unsaid.compute_tokens_per_second == pytest.approx(2 * said.compute_tokens_per_second, rel=1e-3)  # FP8


def test_keys_and_values_lower_the_bound_and_limit_the_batch():
    short = claims_model.bound_of("Llama-3.1-8B", "H100 SXM", precision="bf16", batch=64)
    long = claims_model.bound_of("Llama-3.1-8B", "H100 SXM", precision="bf16", batch=64, context_tokens=8192)
    assert long.plain_tokens_per_second < short.plain_tokens_per_second
    # (80 - 16.06) GB over 8192 tokens x 2 x 32 layers x 8 heads x 128 x 1 byte
    assert long.largest_batch == int((80e9 - 2 * 8_030_261_248) / (8192 * 2 * 32 * 8 * 128))


def test_weights_that_do_not_fit_are_told():
    assert not claims_model.bound_of("Llama-3.1-70B", "H100 SXM", precision="bf16", batch=1).fits
    assert claims_model.bound_of("Llama-3.1-70B", "H100 SXM", 2, "bf16", batch=1).fits


def test_a_verify_pass_is_dearer_where_arithmetic_binds():
    alone = claims_model.bound_of("Llama-3.1-8B", "H100 SXM", precision="bf16", batch=1, k=5)
    loaded = claims_model.bound_of("Llama-3.1-8B", "H100 SXM", precision="bf16", batch=256, k=5)
    assert alone.verify_over_plain == pytest.approx(1.0)
    # 6 x 256 tokens are multiplied in 23.3 ms, and the weights are read in 4.48 ms
    assert loaded.verify_over_plain == pytest.approx(6 * 256 * 3.35e12 / 989.4e12, rel=0.01)
    unsaid = claims_model.bound_of("Llama-3.1-8B", "H100 SXM", batch=256, k=5)
    assert unsaid.verify_over_plain <= loaded.verify_over_plain


def test_the_projection_is_made_only_where_the_claim_says_enough():
    claim = ClaimInput(model="Llama-3.1-8B", gpu="H100 SXM", tokens_per_second=100)
    assert claims_model.projected_of(claim) is None  # no batch
    plain = claims_model.projected_of(ClaimInput(model="Llama-3.1-8B", gpu="H100 SXM", tokens_per_second=100, batch=1))
    assert plain is not None
    assert plain.speculative_tokens_per_second is None
    assert plain.times_at_most >= 1
    assert plain.band
    assert plain.times_at_most == pytest.approx(max(1, 1 / (1 + shipped_error_band(1).low)))
    assert plain.speedup_times_at_most == pytest.approx(max(1, 1 / (1 + shipped_speedup_band(1).low)))
    drafted = ClaimInput(model="Llama-3.1-8B", gpu="H100 SXM", speedup=2, k=5, mean_acceptance_length=3, batch=32)
    assert claims_model.projected_of(drafted).speedup_times_at_most is None  # no speed-up of a batch was published
    with pytest.raises(EngineError, match="no model"):
        claims_model.check(ClaimInput(model="nobody", gpu="H100 SXM", speedup=2))


def test_no_published_result_is_contradicted_and_hardly_one_is_implausible():
    """What was measured on known hardware must pass: a rule that refused it would be wrong."""
    verdicts = Counter()
    for result in shipped_results()[0]:
        counts = result.counts
        drafted = (
            {"k": round(counts.width), "mean_acceptance_length": (counts.output_tokens - 1) / counts.decode_steps}
            if result.speculative
            else {}
        )
        value = result.value / result.replicas
        claimed = {"speedup": result.value} if result.measure == "speedup" else {"tokens_per_second": value}
        claim = ClaimInput(
            model=result.model, gpu=result.gpu.name, gpus=result.gpus, batch=result.batch, **claimed, **drafted
        )
        verdicts[claims_model.check(claim, result.precision.name).verdict] += 1
    assert verdicts["contradicted"] == 0
    assert verdicts["plausible"] >= 0.9 * sum(verdicts.values())


def test_a_speed_ten_times_too_high_is_never_plausible():
    """The same results, claimed at ten times what was measured."""
    for result in shipped_results()[0]:
        if result.measure == "tokens_per_second" and not result.speculative:
            claim = ClaimInput(
                model=result.model, gpu=result.gpu.name, gpus=result.gpus, batch=result.batch,
                tokens_per_second=10 * result.value / result.replicas,
            )  # fmt: skip
            # with a long prompt left unsaid, the time of reading it would be taken in the claim's favour
            found = claims_model.check(claim, result.precision.name, prompt_tokens=round(result.counts.prompt_tokens))
            assert found.verdict in ("contradicted", "implausible"), result.id


def test_what_fits_in_no_more_than_fp8_is_plausible_in_fp8_and_says_so():
    """139 GB in bf16 are no machine of 80 GB; one precision for the limits and the projection."""
    model = ("--model", "Llama-3.3-70B", "--gpu", "H100 SXM", "--gpus", 1, "--batch", 1)
    found = document("check", "--tokens-per-second", 20, *model)
    assert found["verdict"] == "plausible"
    assert "with weights in fp8" in found["why"]
    assert (found["projection"]["fits"], found["projection"]["chosen_precision"]) == (True, "fp8")
    assert found["bound"]["machine"] == found["projection"]["machine"] == "Llama-3.3-70B in fp8 on H100 SXM"
    assert document("check", "--tokens-per-second", 20, *model, "--precision", "bf16")["verdict"] == "contradicted"


def test_weights_that_fit_with_no_room_for_anything_else_make_no_claim_plausible():
    model = ("--model", "Vicuna-33B", "--gpu", "H100 SXM", "--batch", 900)
    found = document("check", "--tokens-per-second", 20, *model, "--precision", "bf16")
    assert (found["verdict"], found["decided_by"]) == ("implausible", "projection")
    assert "projected not to fit: Vicuna-33B in bf16 on H100 SXM" in found["why"]


def test_a_claim_of_quantized_weights_is_held_to_their_precision(tmp_path):
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "vocab_size": 128256,
              "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
              "quantization_config": {"quant_method": "gptq", "bits": 4}}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = document("check", "--tokens-per-second", 20, "--model", tmp_path, "--gpu", "H100 SXM", "--batch", 1)
    assert " in int4 on H100 SXM" in found["bound"]["machine"]
    assert found["projection"]["machine"] == found["bound"]["machine"]


def test_numbers_that_no_machine_is_near_are_refused_in_one_sentence():
    for given in (("--speedup", 2, "--k", 20_000_000, "--acceptance-rate", 0.5),
                  ("--per-hour", 1e308, "--per-million", 1e-308)):  # fmt: skip
        result = run("check", *given, "--json")
        assert (result.exit_code, result.stdout) == (2, "")
        assert "must be from" in result.stderr
