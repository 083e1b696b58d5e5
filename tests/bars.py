"""Every speed bar, as ratios of arms in turns in one run: `python tests/bars.py`. Not a test: machines are noisy.

Takes some ten minutes on two cores. Each line says what was seen and whether the bar is met.
"""

import statistics
import subprocess
import sys
import time

import torch

import engine
from engine.bench.peers import BASELINE, all_arms, choose, encode_prompts, make_setup, measure_peers
from engine.environment import environment
from engine.stats import pool_stats

TOKENS = 64
WIDTHS, CONTEXT, ROUNDS = (1, 6), 128, 80
FORMS = {"fp32": "none", "int8": "int8"}


def bar(what, seen, limit, at_least=True):
    met = seen >= limit if at_least else seen <= limit
    sign = ">=" if at_least else "<="
    print(f"{'met ' if met else 'SHORT'} {what}: {seen:.3g} (bar {sign} {limit:g})", flush=True)


def beside_generate():
    """Plain decoding beside transformers' `generate`, prompt by prompt, who goes first rotating."""
    setup = make_setup("embedded", quantizations=tuple(FORMS.values()))
    wanted = [f"specscope plain {name}" for name in FORMS]
    arms, _ = choose(all_arms(setup), wanted)
    report = measure_peers(arms, encode_prompts(setup, engine.load_suite("default")), TOKENS, BASELINE)
    for name, limit in zip(wanted, (1.3, 2.5), strict=True):
        arm = report.arm(name)
        low, high = arm.interval
        what = f"{name} over {BASELINE} ({arm.output_tokens_per_second:.1f} tokens/s; {low:.2f} to {high:.2f})"
        bar(what, arm.ratio, limit)


def verify_costs(pairs):
    """Median seconds of a forward of one token and of six behind CONTEXT tokens, pairs and widths in turns."""
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
    for name in pairs:
        one, six = (statistics.median(times[name, width]) for width in WIDTHS)
        bar(f"verifying 6 tokens over 1, {name} ({six * 1e3:.1f} over {one * 1e3:.1f} ms)", six / one, 1.4, False)


def suite(name, pair):
    """Prompt lookup over its own plain decoding, and what lies outside the forwards."""
    result = engine.compare(pair, engine.load_suite("default"), engine.DecodeSettings(max_new_tokens=TOKENS), repeats=1)
    ratios = {c: result.arm("prompt_lookup", c).ratio for c in result.categories}
    bar(f"copy-edit, prompt lookup over plain, {name}", ratios["copy-edit"], 1.3)
    worst = min((c for c in ratios if c != "all"), key=ratios.get)
    bar(f"the slowest category ({worst}), {name}", ratios[worst], 0.95)
    print(f"      all: {result.verdict}; {', '.join(f'{c} {r:.2f}x' for c, r in ratios.items() if c != 'all')}")
    for arm in (result.plain, result.speculative):
        speed = f"{arm.output_tokens_per_second:.1f} tokens/s"
        print(f"      {arm.name}: {speed}, {arm.limit_fraction:.0%} of the memory's limit")
    runs = [(g.trace.steps, 0) for s in result.samples for g in (s.plain, s.speculative)]
    s = pool_stats(runs)
    outside = (s.draft_s + s.other_s) / (s.draft_s + s.verify_s + s.other_s)
    bar(f"share of a step outside the forwards, {name}", outside, 0.10, False)


def start():
    seconds = []
    for _ in range(3):
        before = time.perf_counter()
        command = [sys.executable, "-m", "app.cli", "generate", "Hi", "--max-new-tokens", "1", "--json"]
        subprocess.run(command, check=True, capture_output=True)
        seconds.append(time.perf_counter() - before)
    bar("cached start to the first token and out again, s", statistics.median(seconds), 10, False)


def main():
    pairs = {name: engine.load_pair("embedded", quantization=form) for name, form in FORMS.items()}
    print(f"{environment()['cpu']}, {torch.get_num_threads()} threads")
    verify_costs(pairs)
    for name, pair in pairs.items():
        suite(name, pair)
    beside_generate()
    start()


if __name__ == "__main__":
    main()
