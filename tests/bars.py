"""Speed bars as ratios of arms interleaved in one run: `python tests/bars.py`. Not a test: machines are noisy."""

import time

import torch

import engine

TOKENS = 48


def transformers_generate(pair, ids):
    """(seconds, tokens) of transformers' own greedy `generate` with the same weights."""
    batch = torch.tensor([ids], device=pair.device)
    start = time.perf_counter()
    out = pair.target.model.generate(
        batch, attention_mask=torch.ones_like(batch), max_new_tokens=TOKENS, min_new_tokens=TOKENS, do_sample=False
    )
    return time.perf_counter() - start, out.shape[1] - batch.shape[1]


def ours(pair, ids):
    start = time.perf_counter()
    result = engine.generate(pair, ids, engine.DecodeSettings(max_new_tokens=TOKENS, ignore_eos=True))
    return time.perf_counter() - start, len(result.token_ids)


def main():
    pair = engine.load_pair("embedded")
    prompts = [list(pair.encode(p.prompt).ids) for p in engine.load_suite("default")[::3]]
    arms = {"specscope plain": ours, "transformers generate": transformers_generate}
    totals = {name: [0.0, 0] for name in arms}
    for warm_up, ids in [(True, prompts[0]), *[(False, p) for p in prompts]]:
        for name, arm in arms.items():
            seconds, tokens = arm(pair, ids)
            if not warm_up:
                totals[name][0] += seconds
                totals[name][1] += tokens
    speeds = {name: tokens / seconds for name, (seconds, tokens) in totals.items()}
    for name, speed in speeds.items():
        print(f"{name}: {speed:.1f} tokens/s")
    print(f"ratio: {speeds['specscope plain'] / speeds['transformers generate']:.3f} (bar: 0.95)")


if __name__ == "__main__":
    main()
