"""Roofline and memory plan against arithmetic; names of the price table against the data sheets."""

import csv
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.efficiency import Efficiency
from engine.errors import EngineError
from engine.gpu_specs import DEFAULT_SPECS, find_gpu
from engine.hardware import (
    ModelShape,
    SpecError,
    decode_step,
    explain_fit,
    fits,
    load_gpu_specs,
    match_price_gpu,
    memory_plan,
)
from engine.precision import PRECISIONS, find_precision, kv_bytes

PRICES = Path(__file__).parents[2] / "pricing" / "data" / "gpu_prices.csv"
SPECS = load_gpu_specs()
H100 = SPECS["H100 SXM"]

LLAMA_8B = {
    "model_type": "llama", "vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "tie_word_embeddings": False,
}  # fmt: skip
SMOL_135M = {
    "model_type": "llama", "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536,
    "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "tie_word_embeddings": True,
}  # fmt: skip
QWEN25_7B = {
    "model_type": "qwen2", "vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944,
    "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "tie_word_embeddings": False,
}  # fmt: skip
MIXTRAL = {
    "model_type": "mixtral", "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "num_local_experts": 8,
    "num_experts_per_tok": 2, "tie_word_embeddings": False,
}  # fmt: skip
QWEN3_30B_A3B = {
    "model_type": "qwen3_moe", "vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144,
    "moe_intermediate_size": 768, "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4,
    "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8, "tie_word_embeddings": False,
}  # fmt: skip
QWEN15_MOE = {
    "model_type": "qwen2_moe", "vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 5632,
    "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632, "num_hidden_layers": 24,
    "num_attention_heads": 16, "num_key_value_heads": 16, "num_experts": 60, "num_experts_per_tok": 4,
    "tie_word_embeddings": False,
}  # fmt: skip

# A model for arithmetic in the head: 1e9 parameters of 2 bytes; KV 2*10*2*100*2 = 8000 bytes a token
ROUND = ModelShape(10**9, 10**9, layers=10, hidden=1000, kv_heads=2, head_dim=100, vocab=1000)
# Half of the parameters in 8 experts, 2 of them used: 0.5e9 dense + 8 * 0.0625e9
ROUND_MOE = ModelShape(
    10**9, 625 * 10**6, 10, 1000, 2, 100, 1000, experts=8, experts_per_token=2, expert_params=62_500_000
)
ROUND_GPU = replace(H100, name="round", mem_gb=10, mem_bw_tb_s=1.0, bf16_dense_tflops=100.0)


@pytest.mark.parametrize(
    ("config", "n_params"),
    [  # the counts of the published weights; each equals what transformers builds from the same config
        (LLAMA_8B, 8_030_261_248),
        (SMOL_135M, 134_515_008),
        (QWEN25_7B, 7_615_616_512),
        (MIXTRAL, 46_702_792_704),
        (QWEN3_30B_A3B, 30_532_122_624),
        (QWEN15_MOE, 14_315_784_192),
    ],
)
def test_parameters_are_counted_as_the_real_models_have_them(config, n_params):
    assert ModelShape.from_config(config).n_params == n_params
    assert ModelShape.from_config(SimpleNamespace(**config)).n_params == n_params
    assert ModelShape.from_config({"text_config": config}).n_params == n_params


def test_a_mixture_of_experts_reads_only_its_active_part_for_one_token():
    shape = ModelShape.from_config(MIXTRAL)
    assert shape.n_active_params == 12_879_925_248  # published as 12.9B
    assert shape.params_read(1) == pytest.approx(shape.matmul_params)
    assert ModelShape.from_config(QWEN3_30B_A3B).n_active_params == pytest.approx(3.3e9, rel=0.02)


def test_an_input_embedding_of_its_own_is_looked_up_and_not_read():
    untied = ModelShape.from_config(LLAMA_8B)
    assert untied.matmul_params == 8_030_261_248 - 128256 * 4096
    tied = ModelShape.from_config(SMOL_135M)
    assert tied.matmul_params == tied.n_params


def test_grouped_query_attention_makes_the_cache_smaller():
    assert ModelShape.from_config(LLAMA_8B).kv_bytes_per_token() == 2 * 32 * 8 * 128 * 2
    full = {k: v for k, v in LLAMA_8B.items() if k != "num_key_value_heads"}
    assert ModelShape.from_config(full).kv_bytes_per_token() == 2 * 32 * 32 * 128 * 2


def test_a_known_parameter_count_replaces_the_formula():
    shape = ModelShape.from_config(MIXTRAL, n_params=46_702_792_704 + 1000)
    assert shape.n_active_params == 12_879_925_248 + 1000
    opt = LLAMA_8B | {"model_type": "opt", "tie_word_embeddings": True}
    assert ModelShape.from_config(opt, n_params=9 * 10**9).n_params == 9 * 10**9


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"hidden_size": None}, "has no hidden_size"),
        ({"kv_lora_rank": 512}, "MLA"),
        ({"layer_types": ["full_attention", "linear_attention"]}, "linear_attention"),
        ({"model_type": "gpt2"}, "n_params"),
    ],
)
def test_a_model_that_the_formula_does_not_know_is_refused_and_not_guessed(change, says):
    with pytest.raises(ValueError, match=says):
        ModelShape.from_config(LLAMA_8B | change)


@pytest.mark.parametrize(("tokens", "experts"), [(1, 2.0), (2, 3.5), (3, 4.625)])
def test_more_tokens_wake_more_experts(tokens, experts):
    # 8 experts, 2 a token: 8 * (1 - .75^n) = 2, 3.5, 4.625
    assert ROUND_MOE.distinct_experts(tokens) == pytest.approx(experts)


def test_a_decode_step_is_memory_bound_at_width_one():
    # (1e9 * 2 + 1000 * 8000) bytes / (1e12 * 0.5) = 4.016 ms; compute 2e9 / (1e14 * 0.5) = 0.04 ms
    step = decode_step(ROUND, ROUND_GPU, 1, 1000, efficiency=0.5, overhead_s=0.001)
    assert step.memory_s == pytest.approx(4.016e-3)
    assert step.compute_s == pytest.approx(0.04e-3)
    assert step.seconds == pytest.approx(5.016e-3)
    assert step.bound_by == "memory"


def test_a_decode_step_turns_compute_bound_when_width_times_batch_is_large():
    # 200 tokens: compute 2e9 * 200 / 5e13 = 8 ms; memory (2e9 + 50 rows * 1000 * 8000) / 5e11 = 4.8 ms
    step = decode_step(ROUND, ROUND_GPU, 4, 1000, batch=50, efficiency=0.5, overhead_s=0)
    assert step.compute_s == pytest.approx(8e-3)
    assert step.memory_s == pytest.approx(4.8e-3)
    assert step.bound_by == "compute"


def test_llama_8b_takes_as_long_as_its_bytes_do_on_an_h100():
    # 8,030,261,248 parameters without the 128256 x 4096 that are only looked up: 7,504,924,672 x 2 bytes / 3.35 TB/s.
    # Keys of 1000 tokens: 2 x 32 layers x 8 heads x 128 x 2 bytes x 1000 = 131.072 MB.
    step = decode_step(ModelShape.from_config(LLAMA_8B), H100, 1, 1000, efficiency=1.0, overhead_s=0)
    assert step.weights_s == pytest.approx(15_009_849_344 / 3.35e12)
    assert step.kv_s == pytest.approx(131_072_000 / 3.35e12)
    assert step.seconds == pytest.approx(4.51967e-3, rel=1e-5)
    assert step.binding == "weights"
    every_head = 32 / 8  # keys for all query heads: what the rule without grouped-query attention would read
    assert step.kv_s != pytest.approx(every_head * 131_072_000 / 3.35e12)


def test_attention_multiplies_each_query_with_each_key_it_may_see():
    # 4 x 32 layers x 32 heads x 128 = 524,288 a query and key; 9 tokens behind 91 cached: keys 92..100, 96 on average
    shape = ModelShape.from_config(LLAMA_8B)
    step = decode_step(shape, H100, 9, 91, efficiency=1.0, overhead_s=0)
    assert step.attention_s == pytest.approx(524_288 * 9 * 96 / 989.4e12)
    assert step.compute_s - step.attention_s == pytest.approx(2 * 7_504_924_672 * 9 / 989.4e12)


def test_a_prompt_wants_the_logits_of_its_last_token_alone():
    shape = ModelShape.from_config(LLAMA_8B)
    all_of_them, last = (
        decode_step(shape, H100, 100, 0, efficiency=1.0, logits_per_row=rows).compute_s for rows in (None, 1)
    )
    assert all_of_them - last == pytest.approx(2 * 99 * 128256 * 4096 / 989.4e12)


def test_a_step_is_bound_by_its_largest_part():
    def binding(**change):
        return decode_step(
            **({"shape": ROUND, "gpu": ROUND_GPU, "width": 1, "context_tokens": 0, "efficiency": 1.0} | change)
        ).binding

    assert binding() == "weights"
    assert binding(context_tokens=1_000_000) == "keys and values"  # 8 GB of them, 2 GB of weights
    assert binding(width=1000) == "compute"
    assert binding(overhead_s=1) == "overhead"
    assert binding(gpus=8, efficiency=Efficiency(1, 1, all_reduce_s=1e-3)) == "communication"


def test_fp8_weights_reach_the_fp8_peak_only_where_the_gpu_has_one():
    fp8, a100 = PRECISIONS["fp8"], SPECS["A100 80GB SXM"]
    assert (fp8.bytes_per_param, fp8.peak(H100).tflops, fp8.peak(H100).native) == (1.0, 1978.9, True)
    assert fp8.peak(H100).tflops != 3957.8  # the sparse figure
    assert (fp8.peak(a100).tflops, fp8.peak(a100).native) == (312, False)
    assert "dequantised" in fp8.peak(a100).name
    for name in ("int8", "int4"):
        assert PRECISIONS[name].peak(H100)[0] == 989.4
    shape = replace(ModelShape.from_config(LLAMA_8B), bytes_per_param=1.0)
    bf16, own = (decode_step(shape, H100, 1000, 0, efficiency=1.0, tensor_tflops=tflops) for tflops in (None, 1978.9))
    assert own.compute_s - own.attention_s == pytest.approx((bf16.compute_s - bf16.attention_s) * 989.4 / 1978.9)


def test_int4_counts_the_scales_of_its_groups():
    assert PRECISIONS["int4"].bytes_per_param == pytest.approx(0.53125)  # 4 bits, and 2 x 2 bytes for 128 of them


def test_a_precision_that_nobody_has_is_refused_with_the_names():
    assert find_precision("FP16").name == "bf16"
    assert (kv_bytes("fp8"), kv_bytes("bf16")) == (1.0, 2.0)
    with pytest.raises(EngineError, match="choose from bf16, fp8"):
        find_precision("fp7")
    with pytest.raises(EngineError, match="KV precision"):
        kv_bytes("int2")


def test_each_layer_and_each_row_adds_its_overhead():
    share = Efficiency(1.0, 1.0, layer_overhead_s=1e-3, row_overhead_s=1e-4)
    step = decode_step(ROUND, ROUND_GPU, 1, 0, batch=3, efficiency=share, overhead_s=1e-5)
    assert step.overhead_s == pytest.approx(10 * 1e-3 + 3 * 1e-4 + 1e-5)


@pytest.mark.parametrize(
    "change", [{"memory": 0}, {"compute": 1.01}, {"layer_overhead_s": -1}, {"all_reduce_s": math.nan}]
)
def test_an_efficiency_out_of_range_is_refused(change):
    with pytest.raises(ValueError):
        Efficiency(**({"memory": 0.5, "compute": 0.5} | change))


def test_a_gpu_is_found_by_a_part_of_its_name_that_no_other_has():
    assert find_gpu("h200").name == "H200 SXM"
    assert find_gpu("NVIDIA  h100 sxm").name == "H100 SXM"
    with pytest.raises(EngineError, match=r"several GPUs: A100 40GB SXM, A100 80GB SXM"):
        find_gpu("A100")
    with pytest.raises(EngineError, match="near it: H100"):
        find_gpu("H1O0")
    with pytest.raises(EngineError, match=r"no GPU 'zzzz' in the table; choose from A100"):
        find_gpu("zzzz")


def test_half_the_bytes_a_weight_takes_half_the_time_to_read():
    full, half = (
        decode_step(replace(ROUND, bytes_per_param=size), ROUND_GPU, 1, 0, overhead_s=0).seconds for size in (2, 1)
    )
    assert half == full / 2


@given(st.integers(1, 64), st.integers(0, 100_000), st.integers(1, 64))
def test_a_step_never_gets_shorter_with_more_width_context_or_rows(width, context, batch):
    for shape in (ROUND, ROUND_MOE):
        here = decode_step(shape, H100, width, context, batch).seconds
        assert decode_step(shape, H100, width + 1, context, batch).seconds >= here
        assert decode_step(shape, H100, width, context + 1, batch).seconds >= here
        assert decode_step(shape, H100, width, context, batch + 1).seconds >= here


@pytest.mark.parametrize(
    "change", [{"width": 0}, {"context_tokens": -1}, {"batch": 0}, {"efficiency": 0}, {"efficiency": 1.2}]
)
def test_a_step_out_of_range_is_refused(change):
    with pytest.raises(ValueError, match="must be"):
        decode_step(**({"shape": ROUND, "gpu": H100, "width": 1, "context_tokens": 0} | change))


def test_the_memory_plan_counts_draft_weights_draft_cache_and_verify_logits():
    draft = replace(ROUND, n_params=10**8, n_active_params=10**8, layers=5)
    plan = memory_plan(ROUND, draft, context=994, batch=2, k=5)
    slots = 2 * (994 + 6)
    assert plan == {
        "target_weights": 2 * 10**9,
        "target_kv": slots * 8000,
        "draft_weights": 2 * 10**8,
        "draft_kv": slots * 4000,
        "verify_logits": 2 * 6 * 1000 * 4,
        "draft_probs": 2 * 5 * 1000 * 4,
        "total": 2 * 10**9 + slots * 12000 + 2 * 10**8 + 48_000 + 40_000,
    }


def test_a_target_that_just_fits_does_not_fit_with_its_draft():
    # 10 GB, 90 % usable: 9 GB. The target takes 8.9 GB, the draft 0.2 GB (F9)
    target = replace(ROUND, n_params=4_450_000_000, n_active_params=4_450_000_000)
    draft = replace(ROUND, n_params=10**8, n_active_params=10**8)
    alone, together = memory_plan(target, None, 0, 1, 0), memory_plan(target, draft, 0, 1, 5)
    assert fits(alone, ROUND_GPU)
    assert not fits(together, ROUND_GPU)
    split = memory_plan(target, draft, 0, 1, 5, gpus=2)
    assert fits(split, ROUND_GPU)
    assert split["total"] < 5e9  # half of the target, and the draft on one of the two
    assert explain_fit(together, ROUND_GPU).startswith("Will not fit: 9.10 GB needed (target weights 8.90")


def test_each_gpu_holds_its_part_of_the_weights_and_whole_heads_of_the_keys():
    # 2 key heads of 4000 bytes a token each; 1000 slots. On 4 GPUs a head is on two of them.
    alone, two, four = (memory_plan(ROUND, None, 999, 1, 0, gpus=n) for n in (1, 2, 4))
    assert [p["target_weights"] for p in (alone, two, four)] == [2 * 10**9, 10**9, 5 * 10**8]
    assert [p["target_kv"] for p in (alone, two, four)] == [8_000_000, 4_000_000, 4_000_000]
    three_heads = replace(ROUND, kv_heads=3)  # 12,000 bytes; two GPUs hold 2 and 1 of them
    assert memory_plan(three_heads, None, 999, 1, 0, gpus=2)["target_kv"] == 8_000_000


def test_a_draft_on_one_gpu_is_not_spread_over_all():
    # 4 GPUs of 9 GB usable: 4 x 4 GB of the target and 6 GB of draft are less than 36 GB, and more than one GPU has
    target = replace(ROUND, n_params=8 * 10**9, n_active_params=8 * 10**9)
    draft = replace(ROUND, n_params=3 * 10**9, n_active_params=3 * 10**9)
    on_one, on_all = (memory_plan(target, draft, 0, 1, 1, gpus=4, draft_gpus=n) for n in (1, 4))
    assert (on_one["draft_weights"], on_all["draft_weights"]) == (6 * 10**9, 15 * 10**8)
    assert not fits(on_one, ROUND_GPU)
    assert fits(on_all, ROUND_GPU)
    assert "on the fullest GPU" in explain_fit(on_one, ROUND_GPU, 4)
    assert "9.00 GB usable on each of 4 x round" in explain_fit(on_one, ROUND_GPU, 4)


@pytest.mark.parametrize("count", [{"batch": 0}, {"gpus": 0}, {"draft_gpus": 0}])
def test_a_memory_plan_of_nothing_is_refused(count):
    with pytest.raises(ValueError, match=f"{next(iter(count))} must be at least 1, not 0"):
        memory_plan(**({"shape": ROUND, "draft_shape": None, "context": 10, "batch": 1, "k": 0} | count))


def test_the_gpu_figures_are_dense_and_have_a_source():
    assert H100.bf16_dense_tflops == 989.4  # the sparse 1,979 would be twice that
    assert SPECS["A100 80GB SXM"].fp8_dense_tflops is None
    assert all(spec.source for spec in SPECS.values())


@pytest.mark.parametrize(
    ("column", "text", "says"),
    [
        ("mem_bw_tb_s", "0", "above 0"),
        ("mem_gb", "", "not a number"),
        ("tdp_w", "nan", "finite"),
        ("fp8_dense_tflops", "-1", "above 0"),
        ("source", "", "without a source"),
        ("link_gb_s", "-900", "above 0"),
        ("link_source", "", "without a source"),
        ("gpu", "", "blank or used twice"),
    ],
)
def test_a_wrong_gpu_figure_is_refused_with_line_and_column(tmp_path, column, text, says):
    with DEFAULT_SPECS.open(newline="") as stream:
        reader = csv.DictReader(stream)
        rows, names = list(reader), list(reader.fieldnames or ())
    rows[1][column] = text
    path = tmp_path / "specs.csv"
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, names)
        writer.writeheader()
        writer.writerows(rows)
    with pytest.raises(SpecError, match=rf"^specs\.csv, line 3, column {column}: .*{says}"):
        load_gpu_specs(path)
    path.write_text("gpu,mem_gb\n")
    with pytest.raises(SpecError, match=r"line 1: the column \w+ is missing"):
        load_gpu_specs(path)


# GPUs of the price table that no data sheet row covers, with the reason. Empty: all are covered.
UNMAPPED: dict[tuple[str, str], str] = {}


def test_every_gpu_of_the_price_table_has_a_data_sheet_or_a_reason():
    with PRICES.open(encoding="utf-8-sig", newline="") as stream:
        sold = {(row["gpu"], row["gpu_mem_gb"]) for row in csv.DictReader(stream)}
    assert {name.split()[0] for name, _ in sold} >= {"A100", "H100", "B200"}
    for name, memory in sold - UNMAPPED.keys():
        spec = match_price_gpu(name, float(memory) if memory else None)
        assert spec in SPECS, (name, memory)
        assert name.split()[0] in spec  # an A100 is never served the figures of an H100


@pytest.mark.parametrize(
    ("name", "memory", "spec"),
    [
        ("A100 SXM", 40, "A100 40GB SXM"),
        ("A100 SXM", 80, "A100 80GB SXM"),
        ("A100 SXM", None, None),
        ("A100 SXM", math.nan, None),
        ("NVIDIA H100  sxm", 80, "H100 SXM"),
        ("H100 SXM", None, "H100 SXM"),
        ("H100 SXM", 94, None),
        ("H100", 80, None),
        ("B300 SXM", None, "B300 SXM (HGX, Blackwell Ultra)"),
        ("RTX 4090", 24, None),
        ("", None, None),
    ],
)
def test_a_gpu_is_matched_for_sure_or_not_at_all(name, memory, spec):
    assert match_price_gpu(name, memory) == spec
