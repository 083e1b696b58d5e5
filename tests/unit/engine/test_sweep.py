"""The sweep: its grid, resuming by counting, failed points, and one real pass over tiny models."""

import itertools
import os
import threading
from dataclasses import replace
from unittest import mock

import pytest
import torch
from helpers.models import pair_of, tiny_llama, wanders

import engine
from engine.bench import sweep as room
from engine.bench.curves import Stopped
from engine.bench.suites import BenchPrompt
from engine.bench.sweep import sweep, told
from engine.bench.sweep_plan import SweepPlan, Task, configuration, fingerprint
from engine.bench.sweep_point import groups_of, measure_point
from engine.runs import RunStore, holder

PROMPTS = [BenchPrompt("a", [1, 2, 3, 1, 2]), BenchPrompt("b", [5, 6, 5, 6]), BenchPrompt("b", [9, 8, 7])]
PLAN = SweepPlan(ks=(1, 2, 3), max_new_tokens=6, rounds=1)


@pytest.fixture
def store(tmp_path):
    return RunStore(f"sqlite:///{tmp_path}/runs.db")


@pytest.fixture
def counted(monkeypatch):
    """What each kind of measuring was called for, with figures that no clock made."""
    calls = []

    def point(pair, prompts, plan, task, cancel):
        calls.append(task.key)
        arm = {
            "category": "all",
            "output_tokens": 10,
            "seconds": 1.0,
            "output_tokens_per_second": 10.0,
            "ratio": 1.0,
            "interval": [0.9, 1.1],
            "n": 1,
            "spread": [1, 1],
            "stats": {"mean_acceptance_length": 2.0, "alpha": 0.5},
        }
        return {
            "arms": [{**arm, "name": "plain"}, {**arm, "name": task.drafter, "ratio": 1.0 + task.k / 10}],
            "verdict": "", "decode_ratio": 1.2, "drafted_share": 1.0, "overhead_s": {"plain": 0.0, "speculative": 0.0},
            "tests": [[4, 2, 2]] * len(prompts),
        }  # fmt: skip

    monkeypatch.setattr(room, "measure_point", point)
    return calls


@pytest.fixture
def pair(one_thread):
    return pair_of(wanders(16), 16, draft=wanders(16, seed=1, share=0.7))


def keys(report):
    return [*report.results]


def test_the_grid_is_the_product_without_duplicates_and_unquantised_weights_come_first():
    plan = SweepPlan(
        ks=(3, 1, 3),
        temperatures=(0.0, 0.8),
        batches=(4, 1),
        quantizations=("int8", "none", "int8"),
        drafters=("model",),
    )
    assert (plan.ks, plan.batches, plan.quantizations) == ((3, 1), (4, 1), ("int8", "none"))
    assert plan.order == ("none", "int8")
    points = [t for t in plan.tasks if t.kind == "point"]
    assert len(points) == plan.points == 2 * 2 * 2 * 2
    grid = itertools.product(("none", "int8"), (4, 1), (0.0, 0.8), (3, 1))
    assert [(t.quantization, t.batch, t.temperature, t.k) for t in points] == [*grid]
    assert [t.key for t in plan.tasks if t.kind in ("drift", "plain")] == ["drift/int8", "plain/int8"]
    assert len({t.key for t in plan.tasks}) == len(plan.tasks)
    assert points[0].key == "point/none/model/t0.0/b4/k3"


def test_tree_sizes_are_a_list_of_the_grid_and_every_point_and_draft_curve_is_named_by_its_own():
    plan = SweepPlan(ks=(1, 2), drafters=("suffix", "recycling"), tree_nodes=(8, 0, 8))
    assert plan.tree_nodes == (8, 0)
    assert plan.points == 2 * 2 * 2
    keys = [t.key for t in plan.tasks]
    assert len({*keys}) == len(keys)
    assert [k for k in keys if "recycling" in k] == [
        "draft/none/recycling/b1/n8", "draft/none/recycling/b1/n0",
        "point/none/recycling/t0.0/b1/k1/n8", "point/none/recycling/t0.0/b1/k2/n8",
        "point/none/recycling/t0.0/b1/k1/n0", "point/none/recycling/t0.0/b1/k2/n0",
    ]  # fmt: skip
    assert (plan.settings(2, 0.0, 8).tree_nodes, plan.settings(2, 0.0).tree_nodes) == (8, None)


def test_without_unquantised_weights_there_is_nothing_to_hold_others_against():
    plan = SweepPlan(quantizations=("int8", "int4"))
    assert not plan.compares
    assert {t.kind for t in plan.tasks} == {"memory", "verify", "draft", "point"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"ks": ()}, "ks is empty"),
        ({"ks": (0,)}, "K must be a whole number from 1 to 64, not 0"),
        ({"ks": (65,)}, "K must be"),
        ({"batches": (0,)}, "batch must be a whole number from 1"),
        ({"batches": (True,)}, "batch must be"),
        ({"temperatures": (-1.0,)}, "temperature must be"),
        ({"temperatures": (float("nan"),)}, "temperature must be"),
        ({"drafters": ("none",)}, "unknown drafter 'none'"),
        ({"drafters": ("eagel",)}, "unknown drafter 'eagel'"),
        ({"quantizations": ("int3",)}, "unknown quantization 'int3'"),
        ({"verifier": "strict"}, "unknown verifier 'strict'"),
        ({"max_new_tokens": 1}, "max_new_tokens must be"),
        ({"repeats": 0}, "repeats must be"),
        ({"rounds": 0}, "rounds must be"),
        ({"seed": -1}, "seed must be"),
        ({"tree_nodes": ()}, "tree_nodes is empty"),
        ({"tree_nodes": (65,), "drafters": ("suffix",)}, "tree_nodes must be a whole number from 0 to 64, not 65"),
        ({"tree_nodes": (True,), "drafters": ("suffix",)}, "tree_nodes must be"),
        ({"tree_nodes": (0, 8)}, "'prompt_lookup' drafts chains"),
        ({"tree_nodes": (8,), "drafters": ("suffix", "model")}, "'model' drafts chains"),
        ({"tree_nodes": (8,), "drafters": ("suffix",), "verifier": "block"}, "block verification judges chains"),
        ({"k_control": "clever"}, "k_control must be one of fixed, heuristic, confidence, cost"),
    ],
)
def test_a_plan_that_means_nothing_is_refused_with_a_sentence(given, says):
    with pytest.raises(engine.EngineError, match=says):
        SweepPlan(**given)


def test_every_option_and_prompt_and_weight_is_part_of_the_configuration():
    base = configuration(PLAN, PROMPTS, ["w"])
    assert configuration(SweepPlan(ks=(1, 2, 3), max_new_tokens=6, rounds=1), [*PROMPTS], ["w"]) == base
    changed = {"ks": (1, 2), "temperatures": (0.5,), "batches": (2,), "quantizations": ("int8",), "max_new_tokens": 7,
               "repeats": 2, "verifier": "match", "seed": 1, "rounds": 2, "drafters": ("model",),
               "tree_nodes": (0,), "k_control": "cost"}  # fmt: skip
    others = [configuration(replace(PLAN, **{name: value}), PROMPTS, ["w"]) for name, value in changed.items()]
    others += [configuration(PLAN, PROMPTS[:2], ["w"]), configuration(PLAN, PROMPTS, ["v"])]
    assert all(other != base for other in others)
    assert set(changed) == set(PLAN.__slots__)


def test_a_fingerprint_sees_other_weights_of_the_same_size(tmp_path):
    for name, last in (("a", b"1"), ("b", b"1"), ("c", b"2")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        (folder / "model.safetensors").write_bytes(b"\0" * 300_000 + last)
    a, b, c = (fingerprint(tmp_path / n) for n in "abc")
    assert a == b != c
    (tmp_path / "b" / "notes.txt").write_text("not weights")
    assert fingerprint(tmp_path / "b") == a


def test_a_sweep_stopped_after_two_points_measures_only_the_rest(pair, store, counted):
    cancel = threading.Event()

    def stop(done, total):
        if len(counted) == 2:
            cancel.set()

    first = sweep(lambda q: pair, PROMPTS, PLAN, store=store, progress=stop, cancel=cancel)
    assert (first.complete, first.left, len(first.points)) == (False, 1, 2)
    assert store.find(first.run_id).status == "stopped"
    assert store.document(first.run_id)["complete"] is False

    told = []
    second = sweep(lambda q: pair, PROMPTS, PLAN, store=store, progress=lambda *at: told.append(at))
    assert second.run_id == first.run_id
    assert counted == [f"point/none/prompt_lookup/t0.0/b1/k{k}" for k in (1, 2, 3)], "each once, over both runs"
    assert told[0] == (5, 6)
    assert (second.complete, second.resumed, len(second.points)) == (True, 5, 3)
    for key in keys(first):
        assert second.results[key] == first.results[key]
    assert store.find(first.run_id).status == "complete"
    assert second.as_dict() == store.document(second.run_id)

    third = sweep(lambda q: pair, PROMPTS, PLAN, store=store)
    assert third.run_id != first.run_id, "a finished sweep is measured anew"
    assert len(counted) == 6


def test_the_point_in_progress_when_stopped_is_dropped_and_not_half_kept(pair, store, monkeypatch):
    cancel = threading.Event()
    real = room.measure_point

    def slow(pair, prompts, plan, task, stop):
        if task.k == 2:
            cancel.set()
        return real(pair, prompts, plan, task, stop)

    monkeypatch.setattr(room, "measure_point", slow)
    report = sweep(lambda q: pair, PROMPTS, PLAN, store=store, cancel=cancel)
    assert [p.k for p in report.points] == [1]
    assert report.left == 2


def test_a_killed_sweep_is_gone_on_with_too(pair, store, counted):
    def die(done, total):
        if len(counted) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(lambda q: pair, PROMPTS, PLAN, store=store, progress=die)
    report = sweep(lambda q: pair, PROMPTS, PLAN, store=store)
    assert len(counted) == 3
    assert report.complete


def as_another_process():
    them = {**holder.this_process(), "pid": os.getppid(), "started": holder._started(os.getppid())}
    return mock.patch("engine.runs.store.this_process", return_value=them)


def test_a_second_process_at_the_same_sweep_is_told_so_and_fresh_measures_beside_it(pair, store, counted):
    told, beside = [], []

    def meanwhile(done, total):
        if len(counted) == 1 and not told:
            with pytest.raises(engine.EngineError) as refused:
                sweep(lambda q: pair, PROMPTS, PLAN, store=store)
            told.append(str(refused.value))
            beside.append(sweep(lambda q: pair, PROMPTS, PLAN, store=store, fresh=True))

    begin = store.begin

    def first_begin(*args, **how):
        store.begin = begin
        with as_another_process():
            return begin(*args, **how)

    store.begin = first_begin
    first = sweep(lambda q: pair, PROMPTS, PLAN, store=store, progress=meanwhile)
    assert told[0].startswith("another sweep with these options seems to be running since ")
    assert first.complete
    assert beside[0].complete
    assert first.run_id != beside[0].run_id
    assert beside[0].resumed == 0
    assert {store.find(r.run_id).status for r in (first, *beside)} == {"complete"}


def test_a_sweep_that_died_with_its_process_alive_is_no_living_one(pair, store, counted):
    with as_another_process(), pytest.raises(KeyboardInterrupt):
        sweep(lambda q: pair, PROMPTS, PLAN, store=store, progress=mock.Mock(side_effect=[None, KeyboardInterrupt]))
    report = sweep(lambda q: pair, PROMPTS, PLAN, store=store)
    assert (report.complete, report.resumed) == (True, 1)


def test_what_another_machine_has_measured_and_ended_meanwhile_is_taken_as_it_is(pair, store, counted, monkeypatch):
    """Nothing here can tell that it is at it, when its points are long."""
    theirs = {}

    def meanwhile(done, total):
        if len(counted) == 1 and not theirs:
            (run,) = store.runs()
            theirs.update({t.key: {"failed": "theirs"} for t in PLAN.tasks if t.kind == "point" and t.k > 1})
            for key, payload in theirs.items():
                if not key.endswith("k3"):
                    store.put(run.id, key, payload)

    def ending(pair, prompts, plan, task, cancel):
        if task.k == 3:
            (run,) = store.runs()
            store.put(run.id, task.key, theirs[task.key])
            store.finish(run.id, "complete", {"theirs": True})
        return fake(pair, prompts, plan, task, cancel)

    fake = room.measure_point
    monkeypatch.setattr(room, "measure_point", ending)
    report = sweep(lambda q: pair, PROMPTS, PLAN, store=store, progress=meanwhile)
    assert report.complete
    assert [p.failed for p in report.points] == [None, "theirs", "theirs"]
    assert counted == [f"point/none/prompt_lookup/t0.0/b1/k{k}" for k in (1, 2, 3)]
    assert store.document(report.run_id) == {"theirs": True}


def test_a_changed_option_is_a_new_run_and_fresh_starts_anew(pair, store, counted):
    def one_point(**extra):
        cancel = threading.Event()
        before = len(counted)
        progress = lambda *_: cancel.set() if len(counted) > before else None  # noqa: E731
        return sweep(lambda q: pair, PROMPTS, progress=progress, cancel=cancel, store=store, **extra)

    first = one_point(plan=PLAN)
    other = one_point(plan=replace(PLAN, seed=1))
    weights = one_point(plan=PLAN, weights=lambda: ["other"])
    fresh = one_point(plan=PLAN, fresh=True)
    assert len({first.run_id, other.run_id, weights.run_id, fresh.run_id}) == 4
    assert fresh.resumed == 0
    assert store.find(first.run_id).status == "failed"
    again = one_point(plan=PLAN)
    assert again.run_id == fresh.run_id, "of what was begun anew the next one goes on"
    assert counted.count("point/none/prompt_lookup/t0.0/b1/k2") == 1


def test_one_point_that_fails_is_kept_with_its_sentence_and_the_sweep_goes_on(pair, store, counted, monkeypatch):
    whole = room.measure_point

    def point(pair, prompts, plan, task, cancel):
        if task.k == 2:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.\nmore lines")
        return whole(pair, prompts, plan, task, cancel)

    monkeypatch.setattr(room, "measure_point", point)
    report = sweep(lambda q: pair, PROMPTS, PLAN, store=store)
    assert report.complete
    assert [p.k for p in report.points if p.failed is None] == [1, 3]
    (why,) = (p.failed for p in report.points if p.failed)
    assert why == "out of memory (CUDA out of memory. Tried to allocate 2 GiB.); try a smaller batch"
    assert report.as_dict()["failed"] == [{"what": "point/none/prompt_lookup/t0.0/b1/k2", "why": why}]
    assert [b.at_k for b in report.best_k] == [3]


def test_a_fault_of_ours_is_not_taken_for_a_failed_point(pair, store, monkeypatch):
    monkeypatch.setattr(room, "measure_point", lambda *_: {}["missing"])
    with pytest.raises(KeyError):
        sweep(lambda q: pair, PROMPTS, PLAN, store=store)


def test_a_quantization_that_cannot_be_loaded_fails_alone(pair, counted):
    def load(name):
        if name == "int8":
            raise engine.EngineError("quantization 'int8' runs on a CPU here")
        return pair

    report = sweep(load, PROMPTS, replace(PLAN, quantizations=("none", "int8")))
    assert report.complete
    assert {p.failed for p in report.points if p.quantization == "int8"} == {"quantization 'int8' runs on a CPU here"}
    assert all(p.failed is None for p in report.points if p.quantization == "none")
    assert [row.verdict for row in report.quantization] == [None, None]


def test_what_no_point_can_be_measured_with_is_said_before_the_work(store, one_thread):
    alone = pair_of(wanders(16), 16)
    with pytest.raises(engine.EngineError, match="prompt 1: the drafter 'model' needs a draft model"):
        sweep(lambda q: alone, PROMPTS, replace(PLAN, drafters=("model",)), store=store)
    with pytest.raises(engine.EngineError, match="no prompts"):
        sweep(lambda q: alone, [], PLAN)
    assert store.runs() == []


def test_each_quantization_is_loaded_once_and_two_are_held_only_to_be_compared(counted, one_thread, monkeypatch):
    loads, held = [], []

    def load(name):
        loads.append(name)
        return engine.Pair.from_models(tiny_llama(seed=3), None, quantization=name)

    monkeypatch.setattr(room.quantization, "can_hold_another", lambda pair: held.append(pair.quantization) or True)
    plan = replace(PLAN, quantizations=("int8", "none"))
    report = sweep(load, PROMPTS, plan)
    assert loads == ["none", "int8"]
    assert held == ["none"]
    none, int8 = (next(r for r in report.quantization if r.quantization == q) for q in ("none", "int8"))
    assert none.divergence is None
    assert int8.divergence["positions"] == 18
    assert int8.interleaved is True
    assert int8.plain_ratio > 0
    assert int8.weight_bytes < none.weight_bytes
    assert int8.acceptance[0].change.before == int8.acceptance[0].change.after == 0.5
    assert "from too few prompts" in int8.verdict

    monkeypatch.setattr(room.quantization, "can_hold_another", lambda pair: False)
    row = next(r for r in sweep(load, PROMPTS, plan).quantization if r.quantization == "int8")
    assert (row.interleaved, row.plain_ratio, row.plain_interval) == (False, 1.0, None)
    assert row.divergence == int8.divergence, "the reference outlives the weights"


def test_a_sweep_stopped_at_one_tree_size_or_k_control_is_not_gone_on_with_at_another(pair, store, counted):
    cancel = threading.Event()
    plan = replace(PLAN, drafters=("recycling",), tree_nodes=(4,))
    first = sweep(
        lambda q: pair, PROMPTS, plan, store=store, progress=lambda *_: counted and cancel.set(), cancel=cancel
    )
    assert (first.complete, len(first.points)) == (False, 1)
    others = [replace(plan, tree_nodes=(8,)), replace(plan, tree_nodes=(None,)), replace(plan, k_control="heuristic")]
    for other in others:
        report = sweep(lambda q: pair, PROMPTS, other, store=store)
        assert (report.run_id != first.run_id, report.resumed) == (True, 0)
    own = sweep(lambda q: pair, PROMPTS, plan, store=store)
    assert (own.run_id, own.complete) == (first.run_id, True)
    assert counted.count("point/none/recycling/t0.0/b1/k1/n4") == 2, "its own, and the one under another K control"


def test_k_control_by_confidence_is_refused_for_a_drafter_that_has_none(pair, store):
    plan = replace(PLAN, k_control="confidence", drafters=("suffix", "prompt_lookup"))
    with pytest.raises(engine.EngineError, match="'prompt_lookup' does not say how sure it is"):
        sweep(lambda q: pair, PROMPTS, plan, store=store)
    assert store.runs() == []


def test_a_point_decodes_with_the_tree_and_the_k_control_that_were_asked_for(pair, monkeypatch, one_thread):
    seen = []
    run = engine.sequence.make_drafter

    def made(name, pair, settings, *rest):
        seen.append((name, settings.tree_nodes, settings.k_control))
        return run(name, pair, settings, *rest)

    monkeypatch.setattr(engine.sequence, "make_drafter", made)
    target = engine.Pair.from_models(tiny_llama(seed=3), None)
    plan = SweepPlan(
        ks=(2,), drafters=("recycling",), tree_nodes=(0, 6), k_control="heuristic", max_new_tokens=6, rounds=1,
    )  # fmt: skip
    report = sweep(lambda q: target, PROMPTS, plan)
    assert report.failures == []
    assert [p.tree_nodes for p in report.points] == [0, 6]
    assert {asked for asked in seen if asked[0] == "recycling"} == {
        ("recycling", None, "heuristic"), ("recycling", 0, "heuristic"), ("recycling", 6, "heuristic"),
    }  # fmt: skip
    for batch in (1, 2):
        task = Task("point", "none", batch, "recycling", 0.0, 2, 6)
        seen.clear()
        measure_point(target, PROMPTS, plan, task, threading.Event())
        assert {asked for asked in seen if asked[0] == "recycling"} == {("recycling", 6, "heuristic")}


def test_a_point_of_batch_one_counts_what_compare_counts(pair):
    task = Task("point", "none", 1, "model", 0.0, 3)
    got = measure_point(pair, PROMPTS, PLAN, task, threading.Event())
    plain, fast = (a for a in got["arms"] if a["category"] == "all")
    assert {a["category"] for a in got["arms"]} == {"a", "b", "all"}
    assert plain["output_tokens"] == fast["output_tokens"] == 18
    alone = [engine.generate(pair, p.prompt, PLAN.settings(3, 0.0), drafter="model").stats for p in PROMPTS]
    assert got["tests"] == [[s.tested, s.accepted, s.drafted_steps] for s in alone]
    assert got["units"] == 3
    assert "itl_s" not in fast["stats"]
    assert fast["stats"]["itl_p50_s"] > 0


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_point_of_a_larger_batch_says_the_same_tokens_and_times_whole_batches(pair, temperature):
    task = Task("point", "none", 2, "model", temperature, 3)
    got = measure_point(pair, PROMPTS, replace(PLAN, repeats=2), task, threading.Event())
    plain, fast = got["arms"]
    assert (plain["name"], fast["name"], plain["category"]) == ("plain", "model", "all")
    assert plain["n"] == fast["n"] == 4  # two batches, twice
    assert got["units"] == 2
    assert plain["output_tokens"] == fast["output_tokens"] == 4 * 2 * 6
    assert fast["ratio"] == pytest.approx(plain["seconds"] / fast["seconds"])
    assert fast["interval"][0] <= fast["ratio"] <= fast["interval"][1]
    if temperature == 0.0:
        alone = [engine.generate(pair, p.prompt, PLAN.settings(3, 0.0), drafter="model").stats for p in PROMPTS]
        times = (4, 2, 2)  # the first prompt fills the second batch up
        assert got["tests"] == [
            [n * t for n in (s.tested, s.accepted, s.drafted_steps)] for s, t in zip(alone, times, strict=True)
        ]


def test_a_single_batch_is_measured_often_enough_for_an_interval(pair):
    task = Task("point", "none", 8, "prompt_lookup", 0.0, 2)
    got = measure_point(pair, PROMPTS, PLAN, task, threading.Event())
    plain, fast = got["arms"]
    assert plain["n"] == fast["n"] == 3
    assert got["units"] == 1, "three rounds of one batch are one"
    assert fast["interval"] is not None
    assert fast["output_tokens"] == 3 * 8 * 6


def test_a_batch_that_is_stopped_on_the_way_is_dropped(pair, monkeypatch):
    cancel = threading.Event()
    pair.target.model.before_forward = cancel.set
    with pytest.raises(Stopped):
        measure_point(pair, PROMPTS, PLAN, Task("point", "none", 2, "model", 0.0, 2), cancel)


def test_batches_hold_every_prompt_and_are_all_full():
    assert groups_of(5, 2) == [[0, 1], [2, 3], [4, 0]]
    assert groups_of(2, 5) == [[0, 1, 0, 1, 0]]
    assert groups_of(4, 4) == [[0, 1, 2, 3]]


def test_sentences_of_errors():
    assert told(engine.EngineError("too long\nfor it")) == "too long"
    assert told(MemoryError()) == "out of memory; try a smaller batch"
    assert told(RuntimeError("a bad shape")) == "RuntimeError: a bad shape"
    assert "out of memory" in told(RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 8 GB"))
