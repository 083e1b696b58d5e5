"""Peers: ratios by hand, turns, what is told when an arm is absent or breaks, and the arms that need no extra."""

import importlib.util
import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest
import torch
from helpers.models import tiny_llama

import engine
from engine.bench.peers import (
    BASELINE,
    ArmLabel,
    PeerReport,
    PeerRun,
    PeerSetup,
    Sample,
    all_arms,
    choose,
    make_setup,
    measure_peers,
)
from engine.bench.peers.flashspec import FlashSpecArm
from engine.bench.peers.isolated import IsolatedArm
from engine.bench.peers.llama_cpp import llama_cpp_arms
from engine.bench.peers.openvino import openvino_arms
from engine.bench.peers.ours import OursArm
from engine.bench.peers.report import interval_of_ratio
from engine.bench.peers.transformers_arm import TransformersArm
from engine.bench.peers.vllm_server import VllmServerArm
from engine.prefix import common_prefix

PROMPTS = [("chat", (1, 2, 3)), ("code", (4, 5)), ("chat", (6, 7, 8, 9))]


class FakeArm:
    """Takes `seconds[prompt]` (one number for all), emits `wanted` ids unless told otherwise, and keeps a log."""

    weights, threads, step_bytes = "fp32", 2, None

    def __init__(self, name, seconds=1.0, log=None, fails_at=None, short_by=0, absent=None, refuses=None, ids=0):
        self.name, self.seconds, self.log = name, seconds, log if log is not None else []
        self.fails_at, self.short_by, self.absent, self.refuses, self.ids = fails_at, short_by, absent, refuses, ids
        self.calls, self.closed = 0, False

    def available(self):
        return self.absent

    def load(self, context_tokens):
        self.context = context_tokens
        if self.refuses:
            raise self.refuses

    def run(self, prompt_ids, max_new_tokens):
        self.calls += 1
        if self.fails_at is not None and self.calls == self.fails_at:
            raise RuntimeError("out of luck\nat line 3")
        if self.calls > 1:  # the first is the warm-up
            self.log.append((self.name, tuple(prompt_ids)))
        seconds = self.seconds[tuple(prompt_ids)] if isinstance(self.seconds, dict) else self.seconds
        return PeerRun((self.ids,) * (max_new_tokens - self.short_by), seconds, seconds / 4)

    def close(self):
        self.closed = True


def measured(*arms, prompts=PROMPTS, tokens=10, **more):
    return measure_peers(arms, prompts, tokens, "base", settle_s=0, **more)


def reasons(report):
    return {s.name: s.reason for s in report.skipped}


# --- figures


def test_speed_and_ratio_are_of_totals():
    base = FakeArm("base", {(1, 2, 3): 4.0, (4, 5): 1.0, (6, 7, 8, 9): 1.0})
    fast = FakeArm("fast", {(1, 2, 3): 1.0, (4, 5): 1.0, (6, 7, 8, 9): 0.5})
    report = measured(base, fast)
    arm = report.arm("fast")
    assert (arm.output_tokens, arm.seconds, arm.n) == (30, 2.5, 3)
    assert arm.output_tokens_per_second == 12.0
    assert arm.ratio == 6.0 / 2.5  # not the mean of 4, 1 and 2
    assert report.arm("fast", "chat").ratio == 5.0 / 1.5
    assert report.arm("fast", "code").ratio == 1.0
    assert report.arm("base").ratio == 1.0
    assert report.arm("base").interval == (1.0, 1.0)
    assert report.categories == ["chat", "code", "all"]
    assert [(a.name, a.category) for a in report.arms] == [(n, c) for c in report.categories for n in ("base", "fast")]


def test_each_arm_has_the_limit_of_its_own_weights(monkeypatch):
    monkeypatch.setattr("engine.bench.peers.measure.read_bandwidth", lambda size, device: {100: 5e3, 1000: 2e3}[size])
    small, large, silent = FakeArm("small"), FakeArm("large"), FakeArm("base")
    small.step_bytes, large.step_bytes = 100, 1000
    report = measured(silent, small, large, device=torch.device("cpu"))
    assert [report.arm(n).limit_tokens_per_second for n in ("base", "small", "large")] == [None, 50.0, 2.0]
    assert measured(silent, small).arm("small").limit_tokens_per_second is None, "nothing was measured"


def test_ttft_stays_out_of_tpot():
    stats = measured(FakeArm("base", 4.0), tokens=4).arm("base").stats
    assert stats["ttft_s"] == 1.0
    assert stats["tpot_s"] == 1.0  # (4 - 1) / 3


def test_the_interval_covers_the_ratio_and_shrinks_to_it_when_every_prompt_agrees():
    assert interval_of_ratio([(i, 2.0, 1.0) for i in range(6)]) == (2.0, 2.0)
    low, high = interval_of_ratio([(i, 3.0 if i % 2 else 1.0, 1.0) for i in range(8)])
    assert 1.0 <= low < 2.0 < high <= 3.0


def test_the_interval_is_the_bootstrap_of_two_prompts_worked_by_hand():
    # Resamples of two prompts are {a,a}, {a,b}, {b,b}: ratios 1, 2 and 3 with weights 1/4, 1/2, 1/4.
    assert interval_of_ratio([(0, 1.0, 1.0), (1, 3.0, 1.0)]) == (1.0, 3.0)


def test_repeats_of_one_prompt_are_resampled_and_one_round_has_no_interval():
    assert interval_of_ratio([(0, 1.0, 1.0)]) is None
    low, high = interval_of_ratio([(0, 1.0, 1.0), (0, 3.0, 1.0)])
    assert (low, high) == (1.0, 3.0)


def test_what_an_arm_says_of_its_drafts_is_added_up_and_absent_is_not_zero():
    runs = {
        "base": PeerRun((1, 2, 3, 4), 1.0),
        "own": PeerRun((1, 2, 9, 4), 1.0, counts={"proposed": 4, "accepted": 3}),
    }
    report = PeerReport(
        (Sample.of("chat", 0, runs, 4),), tuple(ArmLabel(n, "fp32", 2) for n in runs), (), "base", True, 4
    )
    own, base = report.arm("own").stats, report.arm("base").stats
    assert (own["proposed"], own["draft_acceptance_rate"], own["target_forwards"]) == (4, 0.75, None)
    assert (base["proposed"], base["draft_acceptance_rate"], base["tokens_per_target_forward"]) == (None, None, None)
    assert own["share_of_ids_before_first_difference"] == 0.5
    assert own["runs_with_ids_of_baseline"] == 0
    assert common_prefix((1, 2), (1, 2, 3)) == 2


def test_an_arm_as_a_document_is_json_and_keeps_a_place_for_the_limit():
    document = json.loads(json.dumps([a.as_dict() for a in measured(FakeArm("base"), FakeArm("own")).arms]))
    assert {
        "name",
        "category",
        "output_tokens",
        "seconds",
        "output_tokens_per_second",
        "ratio",
        "interval",
        "stats",
    } <= (set(document[0]))
    assert document[0]["limit_tokens_per_second"] is None
    assert document[0]["weights"] == "fp32"


def test_llama_cpp_is_put_beside_our_fastest_arm_in_one_sentence():
    report = measured(FakeArm("llama.cpp plain", 0.2), FakeArm("specscope a", 0.5), FakeArm("specscope b", 0.1))
    assert report.beside == ("llama.cpp plain (fp32) decodes 50.0 tokens/s here and specscope b 100.0, 2.00x of it")
    assert measured(FakeArm("base")).beside is None


# --- the race


def test_who_goes_first_rotates_prompt_by_prompt_and_the_warm_up_is_dropped():
    log = []
    report = measured(*(FakeArm(n, log=log) for n in ("base", "b", "c")), repeats=2)
    order = ["".join(n[0] for n, _ in log[i : i + 3]) for i in range(0, len(log), 3)]
    assert order == ["bbc", "bcb", "cbb", "bcb", "cbb", "bbc"]
    assert [p for _, p in log[::3]] == [p for _, p in PROMPTS] * 2
    assert len(report.samples) == 6


def test_every_arm_is_told_the_longest_prompt_with_its_output():
    arm = FakeArm("base")
    measured(arm, tokens=10)
    assert arm.context == 14


def test_absent_arms_and_arms_that_will_not_load_are_skipped_with_their_sentence():
    report = measured(
        FakeArm("base"),
        FakeArm("gone", absent="it is not installed"),
        FakeArm("refused", refuses=engine.EngineError("there is no such quantization")),
        FakeArm("broken", refuses=ImportError("no libfoo\nsee the manual")),
        FakeArm("cold", fails_at=1),
    )
    assert reasons(report) == {
        "gone": "it is not installed",
        "refused": "there is no such quantization",
        "broken": "ImportError: no libfoo",
        "cold": "RuntimeError: out of luck",
    }
    assert [a.name for a in report.labels] == ["base"]
    assert report.complete


def test_an_arm_that_breaks_midway_is_dropped_and_the_others_go_on():
    log = []
    report = measured(FakeArm("base", log=log), FakeArm("peer", fails_at=3), FakeArm("own", log=log))
    assert reasons(report) == {"peer": "it failed at prompt 2: RuntimeError: out of luck"}
    assert [a.name for a in report.labels] == ["base", "own"]
    assert len([1 for n, _ in log if n == "own"]) == 3
    assert report.complete


def test_when_the_baseline_breaks_there_is_no_ratio_and_no_made_up_one():
    report = measured(FakeArm("base", refuses=ValueError()), FakeArm("own"))
    arm = report.arm("own")
    assert (arm.ratio, arm.interval) == (None, None)
    assert arm.output_tokens_per_second == 10.0
    assert reasons(report) == {"base": "ValueError"}


def test_another_number_of_ids_is_flagged_and_counts_for_nothing():
    base, odd = FakeArm("base", 2.0), FakeArm("odd", 1.0)
    original = odd.run

    def run(ids, wanted):
        done = original(ids, wanted)
        return PeerRun(done.token_ids[:-1], 0.001) if ids == (4, 5) else done

    odd.run = run
    arm = measured(base, odd).arm("odd")
    assert (arm.n, arm.output_tokens, arm.ratio) == (2, 20, 2.0)
    assert arm.stats["unequal_runs"] == 1
    assert arm.stats["notes"] == ["1 of 3 runs emitted another number of ids and are left out"]


def test_an_arm_that_never_emits_the_number_asked_for_is_skipped():
    report = measured(FakeArm("base"), FakeArm("short", short_by=2))
    assert "asked for 10 ids it emitted 8" in reasons(report)["short"]


def test_cancel_reports_the_whole_rounds_only():
    cancel = threading.Event()
    late = FakeArm("late")
    original = late.run

    def run(ids, wanted):
        if late.calls == 2:
            cancel.set()
        return original(ids, wanted)

    late.run = run
    report = measured(FakeArm("base"), late, cancel=cancel)
    assert not report.complete
    assert len(report.samples) == 1
    assert report.arm("base").n == 1


def test_arms_are_closed_whatever_happens():
    arms = [FakeArm("base"), FakeArm("gone", absent="no"), FakeArm("broken", fails_at=2)]
    measured(*arms)
    assert all(a.closed for a in arms)


def test_progress_counts_rounds():
    seen = []
    measured(FakeArm("base"), repeats=2, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(i, 6) for i in range(1, 7)]


@pytest.mark.parametrize(("tokens", "repeats"), [(0, 1), (4, 0)])
def test_nothing_to_do_is_a_sentence(tokens, repeats):
    with pytest.raises(engine.EngineError, match="at least one"):
        measured(FakeArm("base"), tokens=tokens, repeats=repeats)


# --- the roster


def test_a_word_names_every_arm_that_begins_with_it_and_the_baseline_stays():
    arms = all_arms(PeerSetup(quantizations=("none",)))
    wanted, left = choose(arms, only=["LLAMA.cpp", "specscope plain"])
    assert [a.name for a in wanted] == [BASELINE, "specscope plain fp32", "llama.cpp plain", "llama.cpp prompt lookup"]
    assert {s.reason for s in left} == {"not among those given with --only"}
    wanted, left = choose(arms, skip=["transformers", "vllm"])
    assert BASELINE not in [a.name for a in wanted]
    assert "vllm server" in [s.name for s in left]


def test_a_word_that_names_no_arm_is_a_sentence_with_the_choices():
    with pytest.raises(engine.EngineError, match="no arm is called 'tgi': choose from transformers generate"):
        choose(all_arms(PeerSetup()), only=["tgi"])


def test_names_of_our_arms_tell_drafter_and_weights():
    names = [a.name for a in all_arms(PeerSetup(quantizations=("none", "int8"), drafters=("prompt_lookup", "model")))]
    ours = [n for n in names if n.startswith("specscope")]
    assert ours == [f"specscope {d} {w}" for w in ("fp32", "int8") for d in ("plain", "prompt_lookup", "model")]
    assert "specscope model fp32" in [a.name for a in all_arms(PeerSetup(draft="some/draft"))]


@pytest.mark.parametrize("wrong", [{"quantizations": ("int3",)}, {"drafters": ("magic",)}, {"dtype": "fp8"}])
def test_a_name_that_is_not_known_is_a_sentence(wrong):
    with pytest.raises(engine.EngineError, match=r"unknown .*: choose from"):
        make_setup("embedded", device="cpu", **wrong)


def test_without_a_draft_assisted_generation_says_what_it_needs():
    arm = TransformersArm(PeerSetup(), None, "transformers assisted", "assisted")
    assert "give one with --draft" in arm.available()
    assert TransformersArm(PeerSetup(draft="x"), None, "transformers assisted", "assisted").available() is None


@pytest.mark.parametrize(
    ("arms", "extra"), [(llama_cpp_arms, "peers-llama"), (openvino_arms, "peers-openvino")], ids=["llama", "openvino"]
)
def test_an_engine_that_is_not_installed_names_its_extra(monkeypatch, arms, extra):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert all(a.available().endswith(f"pip install 'specscope[{extra}]'") for a in arms(PeerSetup()))


def test_without_a_url_the_server_is_skipped():
    assert "--vllm-url" in VllmServerArm(PeerSetup()).available()


def test_the_server_asks_for_no_extra_since_what_it_needs_comes_with_specscope(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert VllmServerArm(PeerSetup(vllm_url="http://localhost:8000")).available() is None


def test_a_target_without_gguf_is_a_sentence(tmp_path):
    arm = llama_cpp_arms(PeerSetup(source=str(tmp_path)))[0]
    with pytest.raises(engine.EngineError, match="it reads GGUF and this target is none"):
        arm.arm.prepare()


# --- arms that need no extra


@pytest.fixture(scope="module")
def tiny():
    """A target whose end-of-sequence token is the first thing that it says, and a draft."""
    first = int(tiny_llama()(torch.tensor([[5, 6, 7, 5, 6]])).logits[0, -1].argmax())
    return SimpleNamespace(
        target=tiny_llama(eos_token_id=first), draft=tiny_llama(seed=1), release=lambda: None, eos=first
    )


def tiny_ours(tiny, drafter="none", setup=None):
    pair = engine.Pair.from_models(tiny_llama(eos_token_id=tiny.eos), None, tiny_llama(seed=1))
    return OursArm(setup or PeerSetup(), drafter, "none", lambda: pair)


@pytest.mark.parametrize("way", ["plain", "assisted", "prompt lookup"])
def test_transformers_goes_on_past_the_end_and_says_what_we_say(one_thread, tiny, way):
    ids = (5, 6, 7, 5, 6)
    ours = tiny_ours(tiny)
    theirs = TransformersArm(PeerSetup(draft="x", k=3), tiny, f"transformers {way}", way)
    theirs.load(64)
    wanted, got = ours.run(ids, 20), theirs.run(ids, 20)
    assert wanted.token_ids[0] == tiny.eos
    assert len(wanted.token_ids) == 20
    assert got.token_ids == wanted.token_ids
    assert 0 < got.ttft_s <= got.seconds


@pytest.mark.parametrize("drafter", ["prompt_lookup", "model"])
def test_our_drafts_say_the_same_and_are_counted(one_thread, tiny, drafter):
    plain, fast = tiny_ours(tiny).run((5, 6, 7, 5, 6), 24), tiny_ours(tiny, drafter).run((5, 6, 7, 5, 6), 24)
    assert fast.token_ids == plain.token_ids
    assert plain.counts["target_forwards"] == 24
    assert fast.counts["target_forwards"] == 24 - fast.counts["accepted"]
    assert 0 < fast.ttft_s <= fast.seconds


def test_a_quantization_that_is_refused_skips_its_arms_with_the_sentence(monkeypatch):
    asked = []

    def load_pair(*args, quantization, **kwargs):
        asked.append(quantization)
        raise engine.EngineError("quantization 'int4' is not available")

    monkeypatch.setattr("engine.bench.peers.ours.load_pair", load_pair)
    arms = [a for a in all_arms(PeerSetup(quantizations=("int4",))) if a.name.startswith("specscope")]
    report = measured(FakeArm("base"), *arms)
    assert set(reasons(report).values()) == {"quantization 'int4' is not available"}
    assert len(reasons(report)) == 3
    assert asked == ["int4"]  # the other arms need not wait for the same refusal


def test_loading_our_pair_leaves_the_number_of_threads_that_all_arms_share(monkeypatch, one_thread):
    pair = engine.Pair.from_models(tiny_llama(), None)

    def load_pair(*args, **kwargs):
        torch.set_num_threads(2)
        return pair

    monkeypatch.setattr("engine.bench.peers.ours.load_pair", load_pair)
    setup = PeerSetup(quantizations=("none",))
    for arm in all_arms(setup):
        if arm.name.startswith("specscope"):
            arm.load(8)
            assert arm.step_bytes == pair.target.read_bytes
        assert arm.threads in (1, None)
    assert torch.get_num_threads() == 1


def test_flashspec_runs_its_lookup_on_the_stock_model(one_thread, tiny):
    pytest.importorskip("flashspec")
    arm = FlashSpecArm(PeerSetup(), tiny, False)
    arm.load(64)
    assert arm.run((5, 6, 7, 5, 6), 20).token_ids == tiny_ours(tiny).run((5, 6, 7, 5, 6), 20).token_ids


@pytest.mark.weights
@pytest.mark.parametrize(("module", "arms"), [("llama_cpp", llama_cpp_arms), ("openvino_genai", openvino_arms)])
def test_engines_that_read_gguf_emit_the_number_asked_for(module, arms):
    pytest.importorskip(module)
    prompt = [("chat", (1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173))]
    report = measure_peers(arms(PeerSetup()), prompt, 12, arms(PeerSetup())[0].name)
    assert not report.skipped
    assert {a.weights for a in report.labels} == {"Q4_1"}


# --- processes of their own


class Native:
    """Stands for native code: it can take its process with it."""

    name, weights, threads = "native", "?", 2
    setup = PeerSetup(progress=lambda *_: None)  # cannot be pickled, and is left behind

    def available(self):
        return None

    def load(self, context_tokens):
        self.weights = f"Q{context_tokens}"

    def run(self, prompt_ids, max_new_tokens):
        if 4 in prompt_ids:
            os.abort()
        if 6 in prompt_ids:
            raise RuntimeError("no such luck")
        print("chatter on standard output")
        return PeerRun(tuple(prompt_ids), float(os.getpid()))

    def close(self):
        pass


def test_an_arm_in_a_process_of_its_own_answers_fails_and_dies_with_a_sentence(capfd):
    arm = IsolatedArm(Native())
    try:
        arm.load(4)
        assert arm.weights == "Q4"
        done = arm.run((1, 2), 2)
        assert done.token_ids == (1, 2)
        assert done.seconds != os.getpid()
        with pytest.raises(engine.EngineError, match="RuntimeError: no such luck"):
            arm.run((6,), 1)
        with pytest.raises(engine.EngineError, match="its process was ended by SIGABRT"):
            arm.run((4,), 1)
    finally:
        arm.close()
    assert "chatter" not in capfd.readouterr().out


# --- a vLLM server


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_GET(self):
        metrics = "vllm:spec_decode_num_drafts_total 3" if self.server.speculates else "vllm:other 1"
        body = metrics if self.path == "/metrics" else json.dumps({"data": self.server.models})
        self.answer(200, body.encode())

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(request)
        if self.server.status != 200:
            return self.answer(self.server.status, b'{"error": "the prompt is too long"}')
        ids = list(range(request["max_tokens"]))
        chunks = [{"choices": [{"text": "x", "token_ids": ids[i : i + 3] if self.server.sends_ids else None}]}
                  for i in range(0, len(ids), 3)]  # fmt: skip
        chunks.append({"choices": [], "usage": {"completion_tokens": len(ids) + self.server.miscounts}})
        if self.server.breaks:
            chunks[1] = {"error": {"message": "out of memory"}}
        lines = [f"data: {json.dumps(c)}\n\n" for c in chunks] + ["data: [DONE]\n\n"]
        return self.answer(200, "".join(lines).encode())

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def server():
    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.models, http.status, http.speculates, http.sends_ids = [{"id": "smol"}], 200, False, True
    http.miscounts, http.breaks, http.requests = 0, False, []
    threading.Thread(target=http.serve_forever, daemon=True).start()
    http.url = f"http://127.0.0.1:{http.server_port}"
    yield http
    http.shutdown()
    http.server_close()


def served(server, suffix=""):
    arm = VllmServerArm(PeerSetup(vllm_url=server.url + suffix))
    assert arm.available() is None
    arm.load(64)
    return arm


def test_the_server_gets_ids_goes_on_past_the_end_and_its_ids_are_counted(server):
    arm = served(server, "/v1/")
    run = arm.run((5, 6, 7), 8)
    assert run.token_ids == tuple(range(8))
    assert 0 < run.ttft_s <= run.seconds
    sent = server.requests[0]
    assert (sent["prompt"], sent["max_tokens"], sent["temperature"]) == ([5, 6, 7], 8, 0.0)
    assert sent["ignore_eos"] is True
    assert sent["return_token_ids"] is True
    arm.run((5, 6, 7), 8)
    assert sent["cache_salt"] != server.requests[1]["cache_salt"]
    arm.close()


def test_the_server_is_named_with_where_it_is_and_whether_it_speculates(server):
    assert served(server).run((5,), 2).note == "it serves smol on this machine, speculation off"
    server.speculates = True
    assert served(server).run((5,), 2).note == "it serves smol on this machine, speculation on"


def test_a_server_without_ids_is_refused_and_its_own_count_is_held_against_them(server):
    server.miscounts = 1
    assert served(server).run((5,), 6).note.endswith("; it counts 7 tokens and sent 6 ids")
    server.sends_ids = False
    with pytest.raises(engine.EngineError, match="sends no token ids"):
        served(server).run((5,), 6)


def test_what_the_server_says_is_passed_on_in_one_sentence(server):
    arm = served(server)
    server.breaks = True
    with pytest.raises(engine.EngineError, match="out of memory"):
        arm.run((5,), 6)
    server.status = 400
    with pytest.raises(engine.EngineError, match=r"HTTP 400: .*the prompt is too long"):
        arm.run((5,), 6)
    server.models = []
    with pytest.raises(engine.EngineError, match="lists no model"):
        served(server)


def test_no_server_and_no_address_are_sentences():
    with pytest.raises(engine.EngineError, match="no server answers there"):
        VllmServerArm(PeerSetup(vllm_url="http://127.0.0.1:9")).load(8)
    with pytest.raises(engine.EngineError, match="must be an address"):
        VllmServerArm(PeerSetup(vllm_url="localhost:8000")).load(8)
