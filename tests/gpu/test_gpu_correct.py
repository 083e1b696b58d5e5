"""On a GPU the engine says what it says on a CPU, from graphs what it says without, and waits once a step."""

import gc
import threading
import warnings
from unittest import mock

import pytest
import torch
from helpers.models import tiny_llama
from helpers.synthetic import config_of, random_decoder

import engine
from engine import DecodeSettings, Pair
from engine.cache import SlotCache
from engine.gpu import CudaGraphs, GraphedDecoder
from engine.linear import PlainLinear
from engine.linear_cuda import CAPABILITY, Fp8Linear, fp8_rows, make_fp8
from engine.transfer import download, upload
from engine.verify import EXACT
from engine.verify.chain import decide
from engine.verify.sampling import law

V = 64
PROMPT = [1, 2, 3, 4] * 4
SMALL = {"hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 8}
# Of the logits' standard deviation; a wrong key makes a whole one.
TOLERANCE = {torch.float32: 2e-4, torch.bfloat16: 0.2}


def decoder(device, dtype, make=PlainLinear):
    config = config_of(SMALL, vocab_size=1024, num_key_value_heads=2)
    fused = random_decoder(config, make, device, dtype)
    return fused, GraphedDecoder(fused, CudaGraphs(device))


def pair_on(device, dtype=torch.float32, context=2048):
    models = [tiny_llama(V, context=context, seed=seed).to(device, dtype) for seed in (0, 1)]
    return Pair.from_models(models[0], None, draft=models[1], quantization="none")


def without_graphs(pair):
    return mock.patch.multiple(pair.target, graphs=None), mock.patch.multiple(pair.draft, graphs=None)


def ids(rows, width, vocab, device, seed=0):
    return torch.randint(vocab, (rows, width), generator=torch.Generator().manual_seed(seed)).to(device)


def close(found, expected, dtype):
    found, expected = found.float(), expected.float()
    assert torch.isfinite(found).all()
    assert (found - expected).abs().max() <= TOLERANCE[dtype] * expected.std()


# --- graphs ---


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("lengths", [[9], [9, 9, 9], [3, 40, 0, 127]], ids=str)
@torch.inference_mode()
def test_logits_from_graphs_are_the_eager_ones(device, dtype, lengths):
    fused, graphed = decoder(device, dtype)
    caches = [SlotCache(fused.num_layers, len(lengths), zeros) for zeros in (torch.zeros, graphed.buffers.zeros)]
    before = ids(len(lengths), max(lengths), 1024, device)
    for cache in caches:
        cache.reserve(300)
        fused.forward(before, cache, 1)
        cache.advance(max(lengths))
        for row, length in enumerate(lengths):
            cache.rollback(length, row)
    for at, width in enumerate((1, 5, 5, 1, 9, 5)):
        fresh = ids(len(lengths), width, 1024, device, seed=at)
        expected, found = fused.forward(fresh, caches[0], width), graphed.forward(fresh, caches[1], width)
        close(found, expected, dtype)
        for cache in caches:
            cache.advance(width)
            for row, length in enumerate(cache.lengths):  # as rejections do, row by row
                cache.rollback(length - row % width, row)
    assert graphed.notice is None
    assert graphed.captures >= 3


@torch.inference_mode()
def test_a_cache_that_outgrows_its_buffer_goes_on_from_graphs(device):
    fused, graphed = decoder(device, torch.float32)
    cache, plain = SlotCache(fused.num_layers, 1, graphed.buffers.zeros), SlotCache(fused.num_layers, 1)
    for step in range(90):
        fresh = ids(1, 4, 1024, device, seed=step)
        for c in (cache, plain):
            c.reserve(4)
        close(graphed.forward(fresh, cache, 4), fused.forward(fresh, plain, 4), torch.float32)
        for c in (cache, plain):
            c.advance(4)
    assert graphed.notice is None


@pytest.mark.parametrize("drafter", ["prompt_lookup", "model"])
def test_greedy_tokens_are_the_same_for_every_k_with_graphs_and_without(device, drafter):
    pair = pair_on(device)
    expected = engine.generate(pair, PROMPT, DecodeSettings(max_new_tokens=200, seed=0)).token_ids
    first, second = without_graphs(pair)
    with first, second:
        assert engine.generate(pair, PROMPT, DecodeSettings(max_new_tokens=200, seed=0)).token_ids == expected
    for k in range(1, 9):
        settings = DecodeSettings(k=k, max_new_tokens=200, seed=0)
        assert engine.generate(pair, PROMPT, settings, drafter).token_ids == expected
    assert pair.target.graphs.notice is None
    assert pair.target.graphs.captures > 0


def test_a_sampled_run_repeats_with_its_seed(device):
    pair, settings = pair_on(device), DecodeSettings(k=4, max_new_tokens=80, temperature=1.0, top_p=0.9, seed=5)
    first, second = (engine.generate(pair, PROMPT, settings, "model").token_ids for _ in range(2))
    assert first == second


def test_a_ragged_batch_says_what_each_row_says_alone(device):
    pair = pair_on(device)
    prompts = [[1, 2, 3] * 5, [4, 5] * 4, [6, 7, 8, 9] * 40]
    settings = DecodeSettings(k=4, max_new_tokens=60, seed=0)
    together = engine.generate_batch(pair, prompts, settings, drafter="prompt_lookup", max_batch=3)
    alone = [engine.generate(pair, p, settings, "prompt_lookup") for p in prompts]
    assert [g.token_ids for g in together] == [g.token_ids for g in alone]


def test_two_threads_share_a_pair_and_each_gets_its_own_answer(device):
    pair = pair_on(device)
    prompts = [[1, 2, 3] * 5, [9, 8, 7, 6] * 5]
    settings = DecodeSettings(k=4, max_new_tokens=100, seed=0)
    expected = [engine.generate(pair, p, settings, "model").token_ids for p in prompts]
    fresh = pair_on(device)  # whose graphs are captured while the other thread decodes
    found, errors = {}, []

    def run(i):
        try:
            with torch.cuda.stream(torch.cuda.Stream(device)):
                found[i] = [engine.generate(fresh, prompts[i], settings, "model").token_ids for _ in range(3)]
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert [found[i] for i in range(2)] == [[e] * 3 for e in expected]
    assert fresh.target.graphs.notice is None


# --- one wait a step ---


@pytest.mark.parametrize(("drafter", "waits"), [("none", 1), ("prompt_lookup", 1), ("model", 2)])
@pytest.mark.parametrize("law", [{}, {"temperature": 0.8, "top_p": 0.9}, {"repetition_penalty": 1.2}], ids=str)
def test_a_step_waits_for_the_device_once_and_a_draft_model_once_more(device, drafter, waits, law):
    pair, settings = pair_on(device), DecodeSettings(k=4, max_new_tokens=60, seed=0, **law)
    engine.generate(pair, PROMPT, settings, drafter)  # captures what the next run replays
    gc.collect()
    run = engine.stream(pair, PROMPT, settings, drafter=drafter)
    next(run)
    for _ in range(5):
        torch.cuda.synchronize()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                step = next(run)
            finally:
                torch.cuda.set_sync_debug_mode("default")
        found = [w for w in caught if "synchronizing CUDA operation" in str(w.message)]
        assert len(found) == (waits if step.proposals else 1), [f"{w.filename}:{w.lineno}" for w in found]


# --- the device's arithmetic is the host's ---


@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize("with_q", [True, False])
def test_verdicts_are_those_of_a_cpu_for_the_same_chances(device, method, with_q):
    rows, k, vocab = 16, 5, 5000
    g = torch.Generator().manual_seed(0)
    p = torch.softmax(torch.randn(rows, k + 1, vocab, generator=g) * 3, -1)
    q = torch.softmax(p[:, :k].log() + torch.randn(rows, k, vocab, generator=g), -1)
    x = torch.stack([torch.multinomial(row, 1, generator=g)[:, 0] for row in q])
    seeds = lambda: [torch.Generator().manual_seed(i) for i in range(rows)]  # noqa: E731  # on the host, for both
    here = decide(p, x, q if with_q else None, method, seeds())
    there = decide(p.to(device), x.to(device), q.to(device) if with_q else None, method, seeds())
    torch.testing.assert_close(there.cpu()[:, 3:], here[:, 3:], atol=1e-6, rtol=1e-5)
    same = (there.cpu()[:, :2] == here[:, :2]).all(1)  # a sum in another order may move a token across an edge
    assert same.sum() >= rows - 1


@pytest.mark.parametrize(
    "values",
    [{}, {"temperature": 0.7}, {"temperature": 0.7, "top_k": 40}, {"temperature": 0.9, "top_p": 0.9},
     {"temperature": 0.9, "min_p": 0.05, "repetition_penalty": 1.2}],
    ids=str,
)  # fmt: skip
def test_laws_are_those_of_a_cpu(device, values):
    logits = torch.randn(4, 5000, generator=torch.Generator().manual_seed(0)) * 3
    here = law(logits, DecodeSettings(**values), [1, 2, 3], [4, 5, 6])
    there = law(logits.to(device), DecodeSettings(**values), [1, 2, 3], [4, 5, 6])
    assert ((there.p.cpu() > 0) != (here.p > 0)).sum() <= 4  # an edge of a nucleus, by rounding
    torch.testing.assert_close(there.p.cpu(), here.p, atol=1e-4, rtol=1e-3)


def test_what_is_uploaded_arrives_while_the_device_is_busy(device):
    busy = torch.randn(2000, 2000, device=device)
    for i in range(50):
        busy = busy @ busy * 1e-3
        assert download(upload([i, i + 1, 2**40], device).double()) == [i, i + 1, 2**40]


# --- fp8 ---


@pytest.fixture
def fp8(device):
    if torch.cuda.get_device_capability(device) < CAPABILITY:
        pytest.skip("this GPU does not multiply fp8")


@pytest.mark.parametrize("rows", [1, 6, 16, 17, 64, 200])
def test_an_fp8_product_is_that_of_the_rounded_numbers(device, fp8, rows):
    g = torch.Generator(device).manual_seed(0)
    weight = torch.randn(1024, 512, device=device, generator=g).bfloat16() * 0.05
    x = torch.randn(rows, 512, device=device, generator=g).bfloat16()
    out = Fp8Linear(weight, None)(x).double()
    (qw, sw), (qx, sx) = fp8_rows(weight), fp8_rows(x)
    expected = (qx.double() * sx.double()) @ (qw.double() * sw.double()).T
    assert (out - expected).abs().max() <= 0.02 * expected.abs().max()
    exact = x.double() @ weight.double().T
    assert (out - exact).norm() / exact.norm() < 0.06


@torch.inference_mode()
def test_a_model_in_fp8_says_about_what_it_says_in_bf16_from_graphs_too(device, fp8):
    plain, _ = decoder(device, torch.bfloat16)
    small, graphed = decoder(device, torch.bfloat16, make_fp8)
    fresh = ids(2, 12, 1024, device)
    logits = []
    for one, forward in ((plain, plain.forward), (small, small.forward), (small, graphed.forward)):
        cache = SlotCache(one.num_layers, 2)
        cache.reserve(20)
        logits.append(forward(fresh, cache, 12).float().flatten(0, 1))
    bf16, eager, replayed = logits
    # Rounding to eight bits makes more of a difference between two attention kernels than bf16 does.
    assert torch.cosine_similarity(replayed, eager).min() > 0.98
    assert torch.cosine_similarity(bf16, eager).min() > 0.95
    assert graphed.notice is None


def test_fp8_can_be_asked_for_by_name(device, fp8):
    config_model = tiny_llama(V).to(device, torch.bfloat16)
    pair = Pair.from_models(config_model, None, quantization="fp8")
    assert pair.quantization == "fp8"
    assert len(engine.generate(pair, PROMPT, DecodeSettings(max_new_tokens=8, seed=0)).token_ids) == 8
