"""The numbers of a run against steps worked out by hand, and the trace that they are read from."""

import getpass
import json
import math
import os
import socket
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.models import ScriptedModel, pair_of, table, wanders
from helpers.tokenizers import byte_tokenizer, word_tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st

import engine
from engine import Alternative, DecodeSettings, Pair, Proposal, Replacement, Step, TokenText, Trace, compute_stats
from engine.stats import percentile, pool_stats

STATUS = {"a": "accepted", "r": "rejected", "i": "ignored"}


def token(i):
    return TokenText(i, f"t{i}")


def step(marks="", end="bonus", ms=(0.0, 10.0, 0.0), index=0):
    """marks: one letter a proposal, (a)ccepted, (r)ejected or (i)gnored. end: the replacement's kind, None for none."""
    proposals = tuple(Proposal(token(i), 0.5, 0.5, 0.1, 0.5, STATUS[m]) for i, m in enumerate(marks))
    emitted = tuple(range(marks.count("a") + (end is not None)))
    return Step(
        index, emitted, ("x",) * len(emitted), tuple(map(token, emitted)), proposals,
        Replacement(end, token(9), 0.5) if end else None, None, 0, *ms,
    )  # fmt: skip


# Six steps: the prompt's own token; two of three stand; all three and a bonus; none; nothing drafted; and an end of
# sequence that is the second of two accepted, with a third proposal cut off.
RUN = [
    step("", "bonus", (0, 100, 10)),
    step("aar", "recovered", (2, 8, 1)),
    step("aaa", "bonus", (2, 8, 1)),
    step("rrr", "recovered", (2, 8, 1)),
    step("", "bonus", (0, 8, 1)),
    step("aai", None, (2, 8, 2)),
]


def test_the_counts_of_six_steps_by_hand():
    s = compute_stats(RUN, prompt_tokens=20)
    assert (s.prompt_tokens, s.output_tokens, s.steps, s.target_forwards) == (20, 1 + 3 + 4 + 1 + 1 + 2, 6, 6)
    assert (s.drafted_steps, s.proposed, s.accepted, s.rejected, s.ignored) == (4, 12, 7, 4, 1)
    assert (s.recovered, s.bonus) == (2, 1)  # a plain step's own token is no bonus of speculation


def test_the_acceptance_numbers_of_six_steps_by_hand():
    s = compute_stats(RUN)
    assert s.mean_acceptance_length == 1 + 7 / 4
    assert s.draft_acceptance_rate == 7 / 12
    assert s.acceptance_rate_per_position == (3 / 4, 3 / 4, 1 / 4)
    # Position 0 was tested 4 times and stood 3, position 1 3 and 3, position 2 twice and once.
    assert s.conditional_acceptance == (3 / 4, 1.0, 1 / 2)
    assert s.alpha == 7 / 9
    assert s.acceptance_histogram == (1, 0, 2, 1)
    assert s.tokens_per_target_forward == 12 / 6
    assert s.mean_acceptance_length == pytest.approx(1 + sum(s.acceptance_rate_per_position))


def test_the_times_of_six_steps_by_hand():
    s = compute_stats(RUN)
    assert s.ttft_s == pytest.approx(0.110)
    assert s.e2e_s == pytest.approx(0.110 + 3 * 0.011 + 0.009 + 0.012)
    assert s.tpot_s == pytest.approx((0.164 - 0.110) / 11)
    assert s.itl_s == pytest.approx((0.011, 0.011, 0.011, 0.009, 0.012))
    assert s.output_tokens_per_second == pytest.approx(12 / 0.164)
    assert s.decode_tokens_per_second == pytest.approx(11 / 0.054)
    assert (s.draft_s, s.verify_s, s.other_s) == pytest.approx((0.008, 0.040, 0.006))
    assert s.prefill_s == pytest.approx(0.100)


def test_the_first_token_is_never_inside_the_time_per_token():
    slow, fast = ([step(ms=(0, first, 0)), step(), step()] for first in (5000, 1))
    assert compute_stats(slow).tpot_s == pytest.approx(compute_stats(fast).tpot_s) == pytest.approx(0.010)


def test_n_emissions_have_n_minus_one_gaps():
    for n in range(4):
        assert len(compute_stats([step()] * n).itl_s) == max(n - 1, 0)


def test_all_of_three_accepted_is_a_rate_of_one_and_a_length_of_four():
    s = compute_stats([step("aaa")])
    assert (s.draft_acceptance_rate, s.mean_acceptance_length, s.alpha) == (1.0, 4.0, 1.0)


def test_a_mask_of_stood_fell_stood_fell_is_one_accepted():
    proposals = tuple(Proposal(token(i), 0.5, 0.5, 0.1, 0.5, STATUS[m]) for i, m in enumerate("arar"))
    odd = Step(
        0,
        (0, 1),
        ("x", "x"),
        (token(0), token(1)),
        proposals,
        Replacement("recovered", token(1), 0.5),
        None,
        0,
        0,
        1,
        0,
    )
    assert odd.num_accepted == 1
    s = compute_stats([odd])
    assert (s.accepted, s.mean_acceptance_length, s.acceptance_histogram) == (1, 2.0, (0, 1, 0, 0, 0))
    assert s.acceptance_rate_per_position == (1.0, 0.0, 0.0, 0.0)


def test_an_end_inside_the_accepted_part_counts_what_was_emitted():
    s = compute_stats([step(""), step("aaaiii", None)])
    assert (s.output_tokens, s.accepted, s.ignored, s.rejected) == (4, 3, 3, 0)
    assert s.mean_acceptance_length == 4.0
    assert s.draft_acceptance_rate == 0.5
    assert s.alpha == 1.0  # what was cut off was not tested


def test_the_mean_is_over_all_rounds_and_not_the_last_one():
    assert compute_stats([step("aaa"), step("r", "recovered")]).mean_acceptance_length == 1 + 3 / 2
    assert compute_stats([step("r", "recovered"), step("aaa")]).mean_acceptance_length == 1 + 3 / 2


def test_a_shorter_draft_counts_against_the_later_positions_only_where_the_definition_says_so():
    s = compute_stats([step("a"), step("aa")])
    assert s.acceptance_rate_per_position == (1.0, 0.5)
    assert s.conditional_acceptance == (1.0, 1.0)
    assert s.mean_acceptance_length == 2.5


def test_a_position_that_was_never_tested_has_no_conditional_rate():
    s = compute_stats([step("rrr", "recovered")])
    assert s.conditional_acceptance == (0.0, None, None)
    assert s.acceptance_rate_per_position == (0.0, 0.0, 0.0)
    assert s.alpha == 0.0


def test_with_no_drafts_there_is_no_acceptance_and_absent_is_not_zero():
    for run in ([], [step()], [step()] * 3):
        s = compute_stats(run)
        assert (s.mean_acceptance_length, s.draft_acceptance_rate, s.alpha) == (None, None, None)
        assert (s.acceptance_rate_per_position, s.conditional_acceptance, s.acceptance_histogram) == ((), (), ())


@pytest.mark.parametrize("n", [0, 1])
def test_below_two_tokens_there_is_no_time_per_token_and_nothing_divides_by_zero(n):
    s = compute_stats([step()] * n)
    assert (s.tpot_s, s.decode_tokens_per_second) == (None, None)
    assert (s.ttft_s is None) == (n == 0)
    json.dumps(s.as_dict(), allow_nan=False)


def test_a_clock_that_stood_still_gives_no_infinite_speed():
    s = compute_stats([step(ms=(0, 0, 0))] * 3)
    assert (s.output_tokens_per_second, s.decode_tokens_per_second) == (None, None)
    json.dumps(s.as_dict(), allow_nan=False)


# --- several runs ---

COUNTS = (
    "prompt_tokens", "output_tokens", "steps", "drafted_steps", "target_forwards", "proposed", "accepted", "rejected",
    "ignored", "recovered", "bonus", "e2e_s", "draft_s", "verify_s", "other_s", "prefill_s",
)  # fmt: skip
RATES = (
    "mean_acceptance_length", "draft_acceptance_rate", "alpha", "acceptance_rate_per_position",
    "conditional_acceptance", "acceptance_histogram", "tokens_per_target_forward", "output_tokens_per_second",
)  # fmt: skip
marks = st.integers(0, 4).flatmap(
    lambda n: st.tuples(st.integers(0, n), st.just(n)).map(lambda t: "a" * t[0] + "r" * (t[1] - t[0]))
)
some_steps = st.lists(st.tuples(marks, st.floats(0.1, 50), st.floats(0.1, 50)), max_size=6).map(
    lambda rows: [step(m, "bonus" if "r" not in m else "recovered", (d, v, 0.5)) for m, d, v in rows]
)


@given(st.lists(some_steps, max_size=4))
@settings(max_examples=150, deadline=None)
def test_runs_taken_together_are_their_steps_put_end_to_end(runs):
    pooled = pool_stats([(run, 7) for run in runs])
    each = [compute_stats(run, 7) for run in runs]
    for name in COUNTS:
        assert getattr(pooled, name) == pytest.approx(sum(getattr(s, name) for s in each))
    joined = compute_stats([s for run in runs for s in run])
    for name in RATES:
        assert getattr(pooled, name) == pytest.approx(getattr(joined, name))
    firsts = [run[0].total_ms / 1e3 for run in runs if run]
    assert pooled.ttft_s == (pytest.approx(sum(firsts) / len(firsts)) if firsts else None)
    assert len(pooled.itl_s) == sum(max(len(run) - 1, 0) for run in runs)
    later = [s for run in runs for s in run[1:]]
    if later:
        expected = sum(s.total_ms for s in later) / 1e3 / sum(len(s.emitted) for s in later)
        assert pooled.tpot_s == pytest.approx(expected)
    else:
        assert pooled.tpot_s is None


@given(some_steps)
@settings(max_examples=150, deadline=None)
def test_the_numbers_fit_together(run):
    s = compute_stats(run)
    assert s.output_tokens == sum(len(x.emitted) for x in run)
    assert s.proposed == s.accepted + s.rejected + s.ignored
    assert sum(s.acceptance_histogram) == s.drafted_steps
    assert sum(j * n for j, n in enumerate(s.acceptance_histogram)) == s.accepted
    if s.drafted_steps:
        assert s.mean_acceptance_length == pytest.approx(1 + sum(s.acceptance_rate_per_position))
        assert 1 <= s.mean_acceptance_length <= 1 + len(s.acceptance_rate_per_position)
        running = 1.0
        for rate in s.acceptance_rate_per_position:
            assert rate <= running
            running = rate


# --- percentiles ---


def test_the_95th_of_one_and_two_is_two_and_of_one_sample_that_sample():
    assert percentile([1, 2], 0.95) == 2
    assert percentile([7.5], 0.95) == percentile([7.5], 0.01) == 7.5
    assert percentile([], 0.95) is None


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=50), st.floats(0, 1))
@settings(max_examples=200, deadline=None)
def test_a_percentile_is_a_value_that_was_seen_and_most_values_do_not_exceed_it(values, share):
    at = percentile(values, share)
    assert at in values
    assert sum(v <= at for v in values) >= share * len(values) - 1e-6


@pytest.mark.parametrize("share", ["0.01", "0.05", "0.1", "0.25", "0.5", "0.55", "0.75", "0.9", "0.95", "0.99", "1"])
def test_a_percentile_is_the_nearest_rank_by_exact_arithmetic(share):
    for n in range(1, 1001):
        assert percentile(range(1, n + 1), float(share)) == math.ceil(Fraction(share) * n)


# --- real runs, recounted from their JSON ---


def recount(steps):
    """vLLM's definitions over the public JSON, written again from the design's table."""
    drafted = [s for s in steps if s["proposals"]]
    counts = []
    for s in drafted:
        n = 0
        while n < len(s["proposals"]) and s["proposals"][n]["accepted"]:
            n += 1
        counts.append(n)
    if not drafted:
        return None
    return {
        "mean": 1 + sum(counts) / len(drafted),
        "rate": sum(counts) / sum(len(s["proposals"]) for s in drafted),
        "histogram": [counts.count(j) for j in range(max(len(s["proposals"]) for s in drafted) + 1)],
        "emitted": sum(len(s["emitted"]) for s in steps),
    }


def runs(vocab=6):
    rule = wanders(vocab)
    for drafter in ("none", "model", "prompt_lookup"):
        for verifier in engine.VERIFIERS:
            for temperature in (0.0, 1.0):
                pair = pair_of(rule, vocab, draft=wanders(vocab, share=0.6))
                values = DecodeSettings(k=3, max_new_tokens=30, temperature=temperature, seed=5)
                yield engine.generate(pair, [1, 2, 3], values, drafter, verifier, alternatives=3)


def test_the_statistics_of_real_runs_are_what_their_json_says():
    for gen in runs():
        steps = gen.trace.as_dict()["steps"]
        expected, s = recount(steps), gen.stats
        assert s.output_tokens == len(gen.token_ids) == sum(len(x["emitted"]) for x in steps) == 30
        if expected is None:
            assert s.mean_acceptance_length is None
        else:
            assert s.mean_acceptance_length == pytest.approx(expected["mean"])
            assert s.draft_acceptance_rate == pytest.approx(expected["rate"])
            assert list(s.acceptance_histogram) == expected["histogram"]
        assert s.target_forwards == len(steps)


def test_a_step_in_json_has_the_keys_of_the_command_line_contract():
    gen = next(g for g in runs() if g.stats.rejected and g.stats.accepted)
    for s in gen.trace.as_dict()["steps"]:
        assert {"emitted", "proposals", "replacement", "draft_ms", "verify_ms", "other_ms"} <= set(s)
        for p in s["proposals"]:
            assert {"token_id", "text", "p", "q", "u", "accepted"} <= set(p)
            assert isinstance(p["accepted"], bool)
        assert {"kind", "token_id", "p"} <= set(s["replacement"])
        assert s["replacement"]["kind"] in ("recovered", "bonus")


def test_the_json_of_every_run_is_strict_and_comes_back_without_loss():
    def refuse(name):
        raise AssertionError(f"{name} in JSON")

    for gen in runs():
        text = gen.trace.to_json()
        json.loads(text, parse_constant=refuse)
        assert Trace.from_json(text) == gen.trace
        assert Trace.from_json(gen.trace.to_json(indent=2)) == gen.trace
        json.dumps(gen.stats.as_dict(), allow_nan=False)
        assert compute_stats(Trace.from_json(text).steps, 3) == gen.stats


texts = st.text(max_size=6) | st.sampled_from(
    ["\0", "\ufffd", "\ud800", "</s>", "<img src=x onerror=alert(1)>", "\u2028", '"\\']
)
shares, times = st.floats(0, 1), st.floats(0, allow_infinity=False)
tokens = st.builds(
    TokenText, st.integers(0, 2**31), texts, st.none() | st.binary(max_size=4).map(lambda b: b.hex(" ")), st.booleans()
)
tops = st.lists(st.builds(Alternative, tokens, shares), max_size=2).map(tuple)
proposals = st.builds(
    Proposal,
    tokens,
    shares,
    shares,
    st.none() | shares,
    shares,
    st.sampled_from(["accepted", "rejected", "ignored"]),
    tops,
    tops,
)
steps = st.builds(
    Step, st.integers(0, 99), st.lists(st.integers(0, 2**31), max_size=3).map(tuple),
    st.lists(texts, max_size=3).map(tuple),
    st.lists(tokens, max_size=3).map(tuple), st.lists(proposals, max_size=2).map(tuple),
    st.none() | st.builds(Replacement, st.sampled_from(["recovered", "bonus"]), tokens, shares, tops),
    st.none() | texts, st.integers(0, 9), times, times, times, st.integers(0, 9), st.integers(1, 9),
)  # fmt: skip
traces = st.builds(
    Trace, st.lists(steps, max_size=3).map(tuple), st.lists(st.integers(0, 9), max_size=3).map(tuple), texts,
    st.dictionaries(texts, st.none() | st.booleans() | st.integers() | texts | st.lists(texts, max_size=2), max_size=3),
    texts, texts, st.dictionaries(texts, st.none() | texts, max_size=2),
    st.sampled_from(["eos", "stop", "length", "cancelled", None]), texts, st.lists(texts, max_size=2).map(tuple),
    st.dictionaries(texts, st.none() | texts, max_size=2), times,
)  # fmt: skip


@given(traces)
@settings(max_examples=200, deadline=None)
def test_any_trace_at_all_survives_its_json(trace):
    text = trace.to_json()
    text.encode("ascii")
    assert Trace.from_json(text) == trace


def test_a_trace_of_the_first_version_still_reads_and_reused_nothing():
    gen = next(g for g in runs() if g.stats.rejected)
    document = json.loads(gen.trace.to_json())
    assert document["version"] == 3
    document["version"] = 1
    del document["queued_ms"]
    for s in document["steps"]:
        del s["reused_prompt_tokens"], s["rows"]
        for p in s["proposals"]:
            del p["parent"], p["source"]
    assert Trace.from_json(json.dumps(document)) == gen.trace


def test_tokens_that_a_prefix_cache_knew_are_counted_apart():
    first = replace(step(), prefill_tokens=5, reused_prompt_tokens=14)
    s = compute_stats([first, step()], prompt_tokens=20)
    assert (s.prompt_tokens, s.reused_prompt_tokens) == (20, 14)
    assert pool_stats([([first], 20), ([first], 20), ([step()], 9)]).reused_prompt_tokens == 28
    assert compute_stats([step()]).reused_prompt_tokens == 0


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_json_cannot_say_is_never_written(bad):
    trace = Trace((step(ms=(bad, 1, 1)),), (1,), "", {}, "none", "rejection", {}, "eos", "")
    with pytest.raises(ValueError):
        trace.to_json()


@pytest.mark.parametrize(
    "text", ["{}", "[]", "1", "null", '{"schema": "other"}', '{"schema": "specscope.trace", "version": 99}', "{"]
)
def test_what_is_no_trace_of_this_version_is_refused(text):
    with pytest.raises(ValueError):
        Trace.from_json(text)


# --- what a trace tells ---

P = np.array([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.25, 0.25, 0.5]])
Q = np.array([[0.2, 0.5, 0.3], [0.3, 0.3, 0.4], [0.6, 0.2, 0.2]])


@pytest.mark.parametrize("verifier", engine.EXACT)
def test_every_test_can_be_checked_by_hand_from_its_record(verifier):
    """p and q are the models' own laws at that position, and u against accept_probability is the decision."""
    pair = pair_of(table(lambda h: P[h[-1]], 3), 3, draft=table(lambda h: Q[h[-1]], 3))
    values = DecodeSettings(k=3, max_new_tokens=60, temperature=1.0, seed=2)
    gen = engine.generate(pair, [0], values, "model", verifier, alternatives=3)
    context = [0]
    for s in gen.trace.steps:
        at, stood = list(context), True
        for p in s.proposals:
            x = p.token.token_id
            assert p.p == pytest.approx(P[at[-1]][x], abs=1e-6)
            assert p.q == pytest.approx(Q[at[-1]][x], abs=1e-6)
            if verifier != "block":
                expected = P[at[-1]][x] if verifier == "match" else min(1, P[at[-1]][x] / Q[at[-1]][x])
                assert p.accept_probability == pytest.approx(expected, abs=1e-6)
                assert (p.u is None) == (not stood)
                if stood and p.status != "ignored":
                    assert p.accepted == (p.u < p.accept_probability)
                stood = stood and p.accepted
            order = [a.token.token_id for a in p.target_top]
            assert order == sorted(range(3), key=lambda i: (-P[at[-1]][i], i)) or len(set(P[at[-1]])) < 3
            assert [a.probability for a in p.draft_top] == pytest.approx(sorted(Q[at[-1]], reverse=True), abs=1e-6)
            at.append(x)
        if s.replacement:
            r = s.replacement
            assert r.p == pytest.approx(P[at[s.num_accepted - len(s.proposals) - 1]][r.token.token_id], abs=1e-6)
        context += s.emitted
    assert {p.status for s in gen.trace.steps for p in s.proposals} >= {"accepted", "rejected"}


def test_block_verification_records_a_uniform_for_every_prefix_and_keeps_the_longest_that_passed():
    pair = pair_of(table(lambda h: P[h[-1]], 3), 3, draft=table(lambda h: Q[h[-1]], 3))
    gen = engine.generate(pair, [0], DecodeSettings(k=3, max_new_tokens=60, temperature=1.0, seed=2), "model", "block")
    for s in gen.trace.steps[1:-1]:
        passed = [i + 1 for i, p in enumerate(s.proposals) if p.u < p.accept_probability]
        assert s.num_accepted == max(passed, default=0)


def test_at_temperature_zero_there_is_no_uniform_and_the_alternatives_are_the_models_own():
    pair = pair_of(table(lambda h: P[h[-1]], 3), 3, draft=table(lambda h: Q[h[-1]], 3))
    gen = engine.generate(pair, [0], DecodeSettings(k=2, max_new_tokens=9), "model", alternatives=2)
    for s in gen.trace.steps:
        for p in s.proposals:
            assert p.u is None
            assert {p.p, p.q, p.accept_probability} <= {0.0, 1.0}
            assert p.accepted == (p.p == 1.0)
            assert len(p.target_top) == len(p.draft_top) == 2
            assert 0 < p.target_top[1].probability < p.target_top[0].probability < 1
    first = gen.trace.steps[0].replacement
    assert [(a.token.token_id, pytest.approx(a.probability, abs=1e-6)) for a in first.target_top] == [
        (0, 0.5),
        (1, 0.3),
    ]


def test_a_deterministic_drafter_has_a_q_of_one():
    pair = pair_of(table(lambda h: P[h[-1]], 3), 3)
    gen = engine.generate(
        pair, [0, 1, 2, 0, 1], DecodeSettings(max_new_tokens=40, temperature=1.0, seed=1), "prompt_lookup"
    )
    drafted = [p for s in gen.trace.steps for p in s.proposals]
    assert drafted
    assert {p.q for p in drafted} == {1.0}
    assert all(p.accept_probability == pytest.approx(p.p) for p in drafted)
    assert all(p.draft_top == () for p in drafted)


def test_the_record_costs_nothing_when_no_alternatives_are_asked_for():
    gen = engine.generate(pair_of(wanders(6), 6, draft=wanders(6)), [1], DecodeSettings(max_new_tokens=9), "model")
    assert all(p.target_top == p.draft_top == () for s in gen.trace.steps for p in s.proposals)


def test_a_trace_names_its_settings_models_and_prompt():
    tokenizer = word_tokenizer([f"w{i}" for i in range(8)])
    pair = Pair.from_models(ScriptedModel(wanders(12), 12), tokenizer, name="tiny", target_name="t")
    values = DecodeSettings(max_new_tokens=3, stop=("zzz",), temperature=1.0)
    trace = engine.generate(pair, "w1 w2", values).trace
    assert trace.prompt_token_ids == (1, 2)
    assert trace.prompt_text == "w1 w2"
    assert trace.settings["stop"] == ["zzz"]
    assert isinstance(trace.settings["seed"], int)
    assert (trace.drafter, trace.verifier, trace.pair["name"], trace.pair["target"]) == (
        "none",
        "rejection",
        "tiny",
        "t",
    )
    assert any("no chat template" in n for n in trace.notices)


def test_a_penalty_in_the_models_own_files_is_named_and_not_applied_in_silence():
    model = ScriptedModel(wanders(6), 6)
    model.generation_config = SimpleNamespace(eos_token_id=None, repetition_penalty=1.1)
    pair = Pair.from_models(model, None)
    assert any("repetition_penalty" in n and "1.1" in n for n in pair.notices)
    gens = [engine.generate(pair, [1], DecodeSettings(max_new_tokens=4), drafter=d) for d in ("none", "prompt_lookup")]
    assert {g.trace.settings["repetition_penalty"] for g in gens} == {1.0}
    assert all(pair.notices[0] in g.trace.notices for g in gens)


def test_a_trace_holds_the_hardware_and_no_name_of_a_person_a_machine_or_a_folder():
    trace = engine.generate(pair_of(wanders(6), 6), [1], DecodeSettings(max_new_tokens=2)).trace
    assert {"cpu", "device", "threads", "versions"} <= set(trace.environment)
    text = json.dumps(trace.environment)
    for private in (getpass.getuser(), socket.gethostname(), os.path.expanduser("~"), os.getcwd()):
        if len(private) > 2:
            assert private not in text


def test_parts_of_characters_and_markup_survive_the_trace():
    tokenizer = byte_tokenizer()
    script = "ğ<img src=x>\0".encode()
    pair = Pair.from_models(
        ScriptedModel(table(lambda h: np.eye(300)[script[min(len(h) - 1, len(script) - 1)]], 300), 300), tokenizer
    )
    gen = engine.generate(pair, [1], DecodeSettings(max_new_tokens=len(script)))
    assert gen.text == "ğ<img src=x>\0"
    back = Trace.from_json(gen.trace.to_json())
    assert back.text == gen.text
    assert [t.bytes for s in back.steps for t in s.tokens][:2] == ["C4", "9F"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d.pop("steps"),
        lambda d: d.update(steps=None),
        lambda d: d.update(extra=1),
        lambda d: d.update(version=1.0),
        lambda d: d.update(version=True),
        lambda d: d.update(finish_reason="zzz"),
        lambda d: d["steps"][0].pop("replacement"),
        lambda d: d["steps"][0].update(emitted="ab"),
    ],
)
def test_a_damaged_trace_is_one_sentence(damage):
    trace = Trace((), (1,), "", {}, "none", "rejection", {}, "length", "2026-01-01")
    step = Step(0, (1,), ("a",), (TokenText(1, "a"),), (), Replacement("bonus", TokenText(1, "a"), 1.0), None, 0, 0.0,
                1.0, 0.0)  # fmt: skip
    document = json.loads(replace(trace, steps=(step,)).to_json())
    assert Trace.from_json(json.dumps(document)).token_ids == [1]
    damage(document)
    with pytest.raises(ValueError, match="trace"):
        Trace.from_json(json.dumps(document))


def written():
    """The document of a run of two steps, the second of which drafted two tokens."""
    top = (Alternative(token(1), 0.5),)
    drafted = replace(step("ar", "recovered", index=1), rows=2)
    drafted = replace(
        drafted,
        proposals=tuple(replace(p, target_top=top, draft_top=top) for p in drafted.proposals),
        replacement=replace(drafted.replacement, target_top=top),
    )
    trace = Trace((step(), drafted), (1, 2), "", {}, "model", "rejection", {}, "length", "2026-01-01")
    return json.loads(trace.to_json())


NO_SHARE = ["-0.1", "1.5", "1e999", "-1e999", "true", '"0.5"', "null"]
NO_TIME = ["-1", "1e999", "false", "null", "1" + "0" * 400]
NO_COUNT = ["-1", "1.0", "true", "null", '"1"']
PROPOSAL, LAST = ("steps", 1, "proposals", 1), ("steps", 1, "replacement")
WRONG = [
    *(((*PROPOSAL, name), v) for name in ("p", "q", "accept_probability") for v in NO_SHARE),
    *(((*PROPOSAL, "u"), v) for v in NO_SHARE if v != "null"),  # a token that was not tested has no u
    *(((*PROPOSAL, "target_top", 0, "probability"), v) for v in NO_SHARE),
    *(((*PROPOSAL, "draft_top", 0, "probability"), v) for v in NO_SHARE),
    *(((*PROPOSAL, "draft_top", 0, "token_id"), v) for v in NO_COUNT),
    *(((*PROPOSAL, "token_id"), v) for v in NO_COUNT),
    *(((*PROPOSAL, "parent"), v) for v in ("1", "2", "-2", "0.0", "true", "false")),
    *(((*LAST, "p"), v) for v in NO_SHARE),
    *(((*LAST, "token_id"), v) for v in NO_COUNT),
    *(((*LAST, "target_top", 0, "probability"), v) for v in NO_SHARE),
    *((("steps", 1, name), v) for name in ("draft_ms", "verify_ms", "other_ms") for v in NO_TIME),
    *((("steps", 1, name), v) for name in ("index", "prefill_tokens", "reused_prompt_tokens") for v in NO_COUNT),
    *((("steps", 1, "rows"), v) for v in ("0", *NO_COUNT)),
    *((("steps", 1, "emitted", 0), v) for v in NO_COUNT),
    *((("steps", 1, "tokens", 0, "token_id"), v) for v in NO_COUNT),
]


@pytest.mark.parametrize(("path", "value"), WRONG, ids=lambda v: v[:12] if isinstance(v, str) else v[-1])
def test_a_number_that_no_run_writes_is_refused_with_its_step_and_field(path, value):
    document = written()
    assert Trace.from_json(json.dumps(document)).token_ids == [0, 0, 1]
    place = document
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = "HERE"
    field = next(part for part in reversed(path) if isinstance(part, str))
    with pytest.raises(ValueError, match=rf"^this trace is not whole: in step 1\b.*, {field} must be") as refused:
        Trace.from_json(json.dumps(document).replace('"HERE"', value))
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("queued_ms", -1, "in the run, queued_ms must be"),
        ("prompt_token_ids", [1, -2], "in the prompt, prompt_token_ids must be a whole number of at least 0, not -2"),
        ("prompt_token_ids", [True], "in the prompt, prompt_token_ids must be"),
    ],
)
def test_a_number_outside_the_steps_that_no_run_writes_is_refused_too(name, value, says):
    with pytest.raises(ValueError, match=says):
        Trace.from_json(json.dumps({**written(), name: value}))


def test_a_probability_that_rounding_has_carried_past_one_is_one():
    document = written()
    document["steps"][1]["proposals"][0]["accept_probability"] = 1 + 2e-16
    document["steps"][1]["proposals"][0]["p"] = 1  # JSON knows one kind of number
    assert Trace.from_json(json.dumps(document)).steps[1].proposals[0].p == 1


def test_a_trace_with_nan_or_bottomless_nesting_is_refused():
    for text in ('{"schema": "specscope.trace", "version": NaN}', "[" * 200_000):
        with pytest.raises(ValueError):
            Trace.from_json(text)
