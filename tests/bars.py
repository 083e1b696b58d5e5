"""Speed bars as ratios of arms interleaved in one run: `python tests/bars.py`. Not a test: machines are noisy."""

import statistics
import time

import torch
from transformers import AutoModelForCausalLM

import engine
from engine.weights import resolve

TOKENS = 48
WIDTHS, CONTEXT, ROUNDS = (1, 6), 128, 60


def transformers_generate(model, ids):
    """(seconds, tokens) of transformers' own greedy `generate` in float32."""
    batch = torch.tensor([ids])
    start = time.perf_counter()
    out = model.generate(
        batch, attention_mask=torch.ones_like(batch), max_new_tokens=TOKENS, min_new_tokens=TOKENS, do_sample=False
    )
    return time.perf_counter() - start, out.shape[1] - batch.shape[1]


def ours(pair, ids):
    start = time.perf_counter()
    result = engine.generate(pair, ids, engine.DecodeSettings(max_new_tokens=TOKENS, ignore_eos=True))
    return time.perf_counter() - start, len(result.token_ids)


def speeds(arms, prompts):
    """tokens/s of each arm over all prompts, the first one twice and its first time dropped."""
    totals = {name: [0.0, 0] for name in arms}
    for warm_up, ids in [(True, prompts[0]), *[(False, p) for p in prompts]]:
        for name, arm in arms.items():
            seconds, tokens = arm(ids)
            if not warm_up:
                totals[name][0] += seconds
                totals[name][1] += tokens
    return {name: tokens / seconds for name, (seconds, tokens) in totals.items()}


def verify_costs(pairs):
    """Median seconds of one forward of each width behind CONTEXT tokens, the pairs and widths in turns."""
    caches = {name: pair.target.new_cache() for name, pair in pairs.items()}
    for name, pair in pairs.items():
        pair.target.forward([5] * CONTEXT, caches[name], keep=1)
    times = {(name, width): [] for name in pairs for width in WIDTHS}
    for _ in range(ROUNDS):
        for name, width in times:
            start = time.perf_counter()
            pairs[name].target.forward([5] * width, caches[name], keep=width)
            times[name, width].append(time.perf_counter() - start)
            caches[name].rollback(CONTEXT)
    return {key: statistics.median(values) for key, values in times.items()}


def main():
    pairs = {"float32": engine.load_pair("embedded"), "int8": engine.load_pair("embedded", quantization="int8")}
    model = AutoModelForCausalLM.from_pretrained(resolve("embedded"), dtype=torch.float32)
    prompts = [list(pairs["int8"].encode(p.prompt).ids) for p in engine.load_suite("default")[::3]]
    arms = {"transformers generate, float32": lambda ids: transformers_generate(model, ids)}
    arms |= {f"specscope plain, {name}": lambda ids, pair=pair: ours(pair, ids) for name, pair in pairs.items()}
    found = speeds(arms, prompts)
    base = found["transformers generate, float32"]
    print(f"{torch.get_num_threads()} threads")
    for name, speed in found.items():
        print(f"{name}: {speed:.1f} tokens/s, {speed / base:.2f}x generate")
    print("bars: float32 >= 1.3x, int8 >= 2.5x")
    costs = verify_costs(pairs)
    for name in pairs:
        one, six = (costs[name, width] for width in WIDTHS)
        print(f"{name}: one token {one * 1e3:.2f} ms, six {six * 1e3:.2f} ms, {six / one:.2f}x (bar: 1.4)")


if __name__ == "__main__":
    main()
