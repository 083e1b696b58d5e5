"""Every bar on drafters, on the embedded model and the default suite: `python tests/bars_drafters.py`. Not a test.

Takes some ten minutes on two quiet cores. Acceptance needs no quiet machine; ratios are of arms in lock-step.
"""

import sys

import torch
from bars import TOKENS, bar

import engine
from engine.environment import environment
from engine.stats import pool_stats

NODES = 48
COST = {"k": 16, "k_control": "cost"}


def lengths(pair, drafter, **settings):
    """Mean acceptance length of the whole suite ("all") and of each category."""
    runs = {}
    for prompt in engine.load_suite("default"):
        done = engine.generate(pair, prompt.prompt, engine.DecodeSettings(max_new_tokens=TOKENS, **settings), drafter)
        for category in ("all", prompt.category):
            runs.setdefault(category, []).append((done.trace.steps, 0))
    return {category: pool_stats(r).mean_acceptance_length for category, r in runs.items()}


def shown(found):
    return ", ".join(f"{c} {tau:.2f}" for c, tau in found.items() if c != "all")


def trees(pair, names):
    best = {}
    for name in names:
        chain = lengths(pair, name, tree_nodes=0)
        for nodes in (16, NODES):
            tree = lengths(pair, name, tree_nodes=nodes, k=12 if name == "composite" else 5)
            print(f"      {name}, {nodes} nodes: {tree['all']:.2f} ({shown(tree)}); its chain {chain['all']:.2f}")
            bar(f"{name}: a tree of {nodes} over its own chain", tree["all"] / chain["all"], 1.15)
        best[name] = tree
    name = max(best, key=lambda n: best[n]["all"])
    bar(f"best drafter's mean acceptance length ({name})", best[name]["all"], 1.8)
    bar(f"the same on copy-edit ({name})", best[name]["copy-edit"], 2.5)


def speed(pair, name):
    settings = engine.DecodeSettings(max_new_tokens=TOKENS, **COST)
    result = engine.compare(pair, engine.load_suite("default"), settings, drafter=name, repeats=1)
    arm = result.arm(name, "all")
    low, high = arm.interval
    bar(f"{name}, cost-optimal K, over own plain, {pair.precision} ({low:.2f} to {high:.2f})", arm.ratio, 1.3)
    ratios = {c: result.arm(name, c).ratio for c in result.categories if c != "all"}
    bar(f"{name} on copy-edit", ratios["copy-edit"], 2.0)
    worst = min(ratios, key=ratios.get)
    bar(f"{name}, the slowest category ({worst})", ratios[worst], 0.95)
    print(f"      {', '.join(f'{c} {r:.2f}x' for c, r in ratios.items())}")


def main():
    pair = engine.load_pair("embedded", quantization="int8")
    print(f"{environment()['cpu']}, {torch.get_num_threads()} threads")
    names = sys.argv[1:] or ["recycling", "composite", "eagle", "medusa"]
    for name in names:
        speed(pair, name)
    trees(pair, names)


if __name__ == "__main__":
    main()
