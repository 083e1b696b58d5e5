"""What a report makes of stored results, by hand: predictions, best K, break-even batch, quantised acceptance."""

import json

import pytest

from engine.bench.predict import predicted_speedup
from engine.bench.sweep_plan import SweepPlan
from engine.bench.sweep_report import SweepReport
from engine.theory import break_even_batch, expected_tokens_per_step, leviathan_speedup


def arm(name, ratio, alpha=0.5, tau=2.0, tokens=100, seconds=1.0, interval=None):
    return {
        "name": name, "category": "all", "n": 1, "output_tokens": tokens, "seconds": seconds,
        "output_tokens_per_second": tokens / seconds, "ratio": ratio, "interval": interval, "spread": None,
        "stats": {"mean_acceptance_length": tau, "alpha": alpha},
    }  # fmt: skip


def point(ratio, tests=((4, 2, 2),), interval=(0.9, 1.1), share=1.0, plain_s=0.0, fast_s=0.0, plain_seconds=2.0):
    tested, accepted = sum(t[0] for t in tests), sum(t[1] for t in tests)
    return {
        "arms": [arm("plain", 1.0, None, None, seconds=plain_seconds),
                 arm("prompt_lookup", ratio, accepted / tested if tested else None, interval=list(interval))],
        "verdict": None, "decode_ratio": ratio, "drafted_share": share,
        "overhead_s": {"plain": plain_s, "speculative": fast_s}, "tests": [list(t) for t in tests],
    }  # fmt: skip


def timing(seconds):
    return {"median_s": seconds, "low_s": seconds, "high_s": seconds, "n": 3}


def verify(batch, *seconds):
    return {"batch": batch, "context": 10, "widths": [*range(1, len(seconds) + 1)],
            "times": [timing(s) for s in seconds]}  # fmt: skip


def draft(batch, seconds, k):
    return {"drafter": "prompt_lookup", "batch": batch, "context": 10, "k": k, "step": timing(seconds)}


def report(plan, results, prompts=5):
    return SweepReport(plan, results, {}, {}, None, "2026-01-01", prompts)


def key(batch, k, q="none"):
    return f"point/{q}/prompt_lookup/t0.0/b{batch}/k{k}"


def test_prediction_with_flat_verification_is_leviathans():
    # 1 s a target forward whatever its width, 0.1 s a drafted token: c = 0.1.
    assert predicted_speedup(0.8, 4, 1.0, 1.0, 1.0 + 4 * 0.1) == pytest.approx(leviathan_speedup(0.8, 4, 0.1))


def test_prediction_counts_steps_without_a_draft_at_their_plain_cost():
    # Half of the steps emit E(0.5, 1) = 1.5 tokens for 2 s, half 1 token for 1 s: 1.25 tokens in 1.5 s against 1.25 s.
    assert predicted_speedup(0.5, 1, 0.5, 1.0, 2.0) == pytest.approx(1.25 / 1.5)
    # Two rows: a step is dear unless neither drafts (1/4): 1.75 s.
    assert predicted_speedup(0.5, 1, 0.5, 1.0, 2.0, rows=2) == pytest.approx(1.25 / 1.75)
    assert predicted_speedup(0.9, 3, 0.0, 1.0, 5.0, rows=9) == pytest.approx(1.0)


@pytest.mark.parametrize("wrong", [{"drafted_share": 1.1}, {"drafted_share": float("nan")}, {"rows": 0}])
def test_prediction_outside_its_ranges_is_refused(wrong):
    with pytest.raises(ValueError):
        predicted_speedup(**{"alpha": 0.5, "k": 1, "drafted_share": 1.0, "plain_s": 1.0, "drafted_s": 1.0, **wrong})


def test_points_are_predicted_from_pooled_alpha_and_the_measured_curves():
    plan = SweepPlan(ks=(1, 3))
    got = report(plan, {
        "memory/none": {}, "verify/none/b1": verify(1, 1.0, 1.1, 1.2, 1.6),
        "draft/none/prompt_lookup/b1": draft(1, 0.3, 3),
        key(1, 1): point(1.2, [(10, 5, 10)], share=0.5, plain_s=0.2, fast_s=0.4), key(1, 3): point(1.5, [(10, 9, 5)]),
    })  # fmt: skip
    one, three = got.points
    alpha = 14 / 20
    # K = 1: plain 1.0 + 0.2; drafted t_v(2) 1.1 + 0.1 a token + 0.4; half of the steps draft.
    tokens = 0.5 * (1 + alpha) + 0.5
    assert one.predicted == pytest.approx(tokens * 1.2 / (0.5 * (1.1 + 0.1 + 0.4) + 0.5 * 1.2))
    assert three.predicted == pytest.approx(expected_tokens_per_step(alpha, 3) * 1.0 / (1.6 + 3 * 0.1))
    assert (one.alpha, three.alpha) == (0.5, 0.9)
    assert got.complete


def test_without_a_curve_or_a_draft_there_is_no_prediction():
    plan = SweepPlan(ks=(1,))
    failed = {
        "verify/none/b1": {"failed": "why"},
        "draft/none/prompt_lookup/b1": draft(1, 0.1, 1),
        key(1, 1): point(1.2),
    }
    assert report(plan, failed).points[0].predicted is None
    nothing = {"verify/none/b1": verify(1, 1.0, 1.1), "draft/none/prompt_lookup/b1": draft(1, 0.1, 1),
               key(1, 1): point(1.0, [(0, 0, 0)])}  # fmt: skip
    got = report(plan, nothing)
    assert (got.points[0].predicted, got.points[0].alpha) == (None, None)
    assert got.best_k[0].predicted_k is None


def test_trees_and_a_controlled_k_have_no_prediction_for_theory_speaks_of_neither():
    def found(drafter, **more):
        plan = SweepPlan(ks=(1,), drafters=(drafter,), **more)
        nodes = f"/n{plan.tree_nodes[0]}" if plan.tree_nodes[0] is not None else ""
        got = report(plan, {
            "verify/none/b1": verify(1, 1.0, 1.1), f"draft/none/{drafter}/b1{nodes}": draft(1, 0.1, 1),
            f"point/none/{drafter}/t0.0/b1/k1{nodes}": point(1.2),
        })  # fmt: skip
        assert len(got.points) == 1
        return got

    assert found("suffix").points[0].predicted is not None
    assert found("recycling", tree_nodes=(0,)).points[0].predicted is not None
    assert found("recycling", verifier="block").points[0].predicted is not None
    for drafter, more in (
        ("suffix", {"tree_nodes": (4,)}), ("recycling", {}), ("suffix", {"k_control": "cost"}),
    ):  # fmt: skip
        got = found(drafter, **more)
        assert got.points[0].predicted is None
        assert (got.best_k[0].predicted, got.best_k[0].predicted_k) == (None, None)
        assert got.break_even[0].words == "not reached up to batch 1; the 95% interval spans 1 at batch 1"


def test_the_best_k_and_the_break_even_are_each_tree_sizes_own_and_every_label_says_which():
    plan = SweepPlan(
        ks=(1, 2), drafters=("suffix",), batches=(1, 2), tree_nodes=(None, 0, 8), k_control="cost",
        quantizations=("none", "int8"),
    )  # fmt: skip
    ratios = {None: (1.1, 0.9), 0: (1.3, 1.2), 8: (1.5, 0.7)}
    results = {
        f"point/{q}/suffix/t0.0/b{batch}/k{k}{'' if n is None else f'/n{n}'}": point(ratio - 0.05 * (k == 1))
        for q in plan.quantizations for n, of in ratios.items() for batch, ratio in zip((1, 2), of, strict=True)
        for k in plan.ks
    }  # fmt: skip
    got = report(plan, results, prompts=10)
    best = {(b.tree_nodes, b.batch): (b.k, b.ratio) for b in got.best_k if b.quantization == "none"}
    assert best == {(None, 1): (2, 1.1), (None, 2): (0, 0.9), (0, 1): (2, 1.3), (0, 2): (2, 1.2),
                    (8, 1): (2, 1.5), (8, 2): (0, 0.7)}  # fmt: skip
    evens = {e.tree_nodes: e.batch for e in got.break_even if e.quantization == "none"}
    assert evens == {None: 2, 0: None, 8: 2}
    assert got.verdict.startswith("1.50x at K=2 (none, suffix, T=0, batch 1, tree 8, K control cost)")
    row = got.quantization[0]
    assert (row.best_ratio, row.best_k, row.best_tree_nodes) == (1.5, 2, 8)
    document = json.loads(json.dumps(got.as_dict(), allow_nan=False))
    names = [a["name"] for a in document["arms"] if a["name"] != "plain"]
    assert len({*names}) == len(names) == got.plan.points
    assert names[:4:2] == ["suffix k=1 T=0 batch=1 none, K control cost",
                           "suffix k=1 T=0 batch=1 none, no tree, K control cost"]  # fmt: skip
    assert {(a["tree_nodes"], a["k_control"]) for a in document["arms"]} == {(n, "cost") for n in ratios}
    assert {p["tree_nodes"] for p in document["points"]} == {b["tree_nodes"] for b in document["best_k"]} == {*ratios}
    assert document["settings"]["tree_nodes"] == [None, 0, 8]
    assert document["settings"]["k_control"] == "cost"


def batches(*best):
    """Points of batches 1, 2, 4, ... whose better K has that ratio; theory says the same of the curves."""
    plan = SweepPlan(ks=(1, 2), batches=tuple(2**i for i in range(len(best))))
    results = {}
    for batch, ratio in zip(plan.batches, best, strict=True):
        results[key(batch, 1)] = point(ratio - 0.1)
        results[key(batch, 2)] = point(ratio, interval=(ratio - 0.05, ratio + 0.05))
        # alpha 0.5: E(1) = 1.5, E(2) = 1.75; K = 1 at the plain cost of 1.5 / 2 of a step that gains nothing.
        results[f"verify/none/b{batch}"] = verify(batch, 1.0, 2.0, 1.75 / (ratio + 0.1))
        results[f"draft/none/prompt_lookup/b{batch}"] = draft(batch, 0.0, 2)
    return report(plan, results, prompts=10)


def test_best_k_is_the_fastest_measured_or_none_at_all():
    got = batches(1.5, 0.8)
    first, second = got.best_k
    assert (first.k, first.at_k, first.ratio, first.sure) == (2, 2, 1.5, True)
    assert (second.k, second.at_k, second.ratio, second.sure) == (0, 2, 0.8, True)
    assert (first.predicted_k, first.predicted) == (2, pytest.approx(1.6))
    assert (second.predicted_k, second.predicted) == (0, 1.0)
    assert "1.50x at K=2" in got.verdict
    assert batches(1.02).best_k[0].sure is False
    assert report(got.plan, got.results, prompts=4).best_k[0].sure is False
    assert second.batch == 2
    assert [b.sure for b in report(got.plan, got.results, prompts=9).best_k] == [True, True]
    assert [b.sure for b in report(got.plan, got.results, prompts=8).best_k] == [True, False], "four batches of two"
    counted = {k: {**r, "units": 4 if "/b1/" in k else 5} if k.startswith("point") else r
               for k, r in got.results.items()}  # fmt: skip
    assert [b.sure for b in report(got.plan, counted, prompts=99).best_k] == [False, True], "what was resampled counts"
    assert "no K was faster" in batches(0.9).verdict


def test_break_even_is_the_smallest_batch_at_which_nothing_is_gained():
    (even,) = batches(1.5, 1.2, 1.0, 0.7).break_even
    assert (even.batch, even.predicted, even.up_to) == (4, 8, 8)
    assert even.words == "batch 4 (predicted: batch 8); the 95% interval spans 1 at batch 4"
    assert batches(1.5, 1.2, 0.9, 1.0).break_even[0].words == "batch 4 (predicted: batch 4)"
    assert batches(1.02, 1.2, 1.03, 1.3).break_even[0].words == (
        "not reached up to batch 8 (predicted: not up to batch 8); the 95% interval spans 1 at batch 1, 4"
    )
    (even,) = batches(1.5, 1.2).break_even
    assert (even.batch, even.predicted) == (None, None)
    assert even.words == "not reached up to batch 2 (predicted: not up to batch 2)"
    assert break_even_batch(lambda b: 3 / b, [8, 4, 2, 3]) == 3
    assert break_even_batch(lambda b: 2.0, [1, 2]) is None


def quantised(none_tests, int8_tests):
    plan = SweepPlan(ks=(1,), quantizations=("none", "int8"))
    drift = {"texts": 9, "positions": 90, "kl_mean": 0.0123, "kl_p95": 0.1, "greedy_agreement": 0.967,
             "greedy_agreement_interval": [0.9, 1.0], "first_differences": {}}  # fmt: skip
    results = {
        "memory/none": {"weight_bytes": 400, "draft_weight_bytes": None, "resident_bytes": 1},
        "memory/int8": {"weight_bytes": 100, "draft_weight_bytes": None, "resident_bytes": None},
        key(1, 1): point(1.3, none_tests), key(1, 1, "int8"): point(1.1, int8_tests, plain_seconds=0.5),
        "drift/int8": drift, "plain/int8": {"interleaved": False},
    }  # fmt: skip
    return report(plan, results).quantization


def test_the_interval_decides_whether_quantization_lowers_acceptance():
    same = [(100, 50, 40), (100, 52, 40), (100, 48, 40), (100, 51, 40), (100, 49, 40), (100, 50, 40)]
    shuffled = [same[i] for i in (1, 0, 3, 2, 5, 4)]
    lower = [(t, a - 20, d) for t, a, d in same]
    assert quantised(same, shuffled)[1].acceptance[0].change.word == "no difference that these prompts can show"
    assert quantised(same, lower)[1].acceptance[0].change.word == "lower"
    assert quantised(lower, same)[1].acceptance[0].change.word == "higher"
    assert quantised(same[:4], lower[:4])[1].acceptance[0].change.word == "from too few prompts for a verdict"
    nothing = quantised([(0, 0, 0)] * 6, same)[1].acceptance[0].change
    assert (nothing.before, nothing.after, nothing.interval) == (None, 0.5, None)
    assert quantised(same, lower)[1].verdict == (
        "int8 keeps 97% of greedy choices (KL 0.012); acceptance 0.50 -> 0.30: lower"
    )


def test_a_row_a_quantization_with_memory_and_both_speeds():
    none, int8 = quantised([(4, 2, 2)] * 5, [(4, 2, 2)] * 5)
    assert (none.weight_bytes, int8.weight_bytes, int8.resident_bytes) == (400, 100, None)
    assert (none.tokens_per_second, int8.tokens_per_second) == (50, 200)
    assert (int8.plain_ratio, int8.interleaved, int8.plain_interval) == (4.0, False, None)
    assert (int8.best_ratio, int8.best_k) == (1.1, 1)
    assert (none.verdict, none.divergence, none.plain_ratio) == (None, None, None)


def test_the_document_has_the_promised_keys_and_only_json():
    got = batches(1.5, 0.8)
    document = json.loads(json.dumps(got.as_dict(), allow_nan=False))
    promised = {"arms", "baseline", "environment", "curves", "best_k", "break_even_batch", "quantization", "complete",
                "run_id"}  # fmt: skip
    assert promised <= set(document)
    assert document["baseline"] in {a["name"] for a in document["arms"]}
    speculative = [a for a in document["arms"] if a["name"] != "plain"]
    assert len({a["name"] for a in speculative}) == len(speculative) == 4
    assert speculative[0]["name"] == "prompt_lookup k=1 T=0 batch=1 none"
    assert (speculative[0]["batch"], speculative[0]["k"], speculative[0]["quantization"]) == (1, 1, "none")
    assert {"category", "output_tokens", "seconds", "output_tokens_per_second", "ratio", "interval", "stats"} <= set(
        speculative[0]
    )
