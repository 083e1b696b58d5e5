"""Time to the first token behind a shared prompt: exactly as many shared tokens as asked for, four arms, no bias."""

import itertools
import json
import threading

import pytest
from helpers.models import tiny_llama
from helpers.tokenizers import CHATML, STRICT, byte_tokenizer
from typer.testing import CliRunner

import engine
from app import cli
from engine import DecodeSettings, EngineError, Pair, PrefixCache
from engine.bench import ttft
from engine.bench.ttft import measure_ttft, shared_prompts
from engine.runner import Runner

QUESTIONS = ["Why is the sky blue?", "Who?", "Why is the sky blue?"]
pytestmark = pytest.mark.usefixtures("one_thread")


def text_pair(template=CHATML, context=2048, **extra):
    tokenizer = byte_tokenizer(template=template)
    model = tiny_llama(len(tokenizer), context=context)
    return Pair.from_models(model, tokenizer, quantization="none", target_name="tiny", **extra)


@pytest.fixture(scope="module")
def pair():
    return text_pair()


@pytest.mark.parametrize("template", [CHATML, STRICT, None], ids=["chat", "no-system-turn", "no-template"])
@pytest.mark.parametrize("length", [64, 200, 777])
def test_all_questions_share_exactly_so_many_tokens_and_no_more(template, length):
    pair = text_pair(template)
    asked = ["Alpha?", "beta?", "gamma?"]
    prompts = shared_prompts(pair, length, asked, 4)
    for a, b in itertools.pairwise(prompts):
        assert a[:length] == b[:length]
        assert a[length] != b[length]
    for ids, question in zip(prompts, asked, strict=True):
        text = pair.tokenizer.decode(ids)
        assert question in text
        assert "You are a helpful" in text, "the shared part is text that somebody could read"
        assert ("assistant:" in text[-12:]) == (template == CHATML)


def test_one_question_alone_is_no_part_of_what_is_shared(pair):
    (ids,) = shared_prompts(pair, 100, ["Why?"], 4)
    assert pair.tokenizer.decode(ids[100:]).startswith("Why?")


@pytest.fixture(scope="module")
def report(pair):
    told = []
    found = measure_ttft(
        pair, (320, 640), QUESTIONS, DecodeSettings(max_new_tokens=6, seed=1), repeats=2,
        progress=lambda done, total: told.append((done, total)),
    )  # fmt: skip
    assert told == [(n, 48) for n in range(1, 49)]
    return found


def test_there_are_four_arms_for_each_length_with_every_request_in_each(report):
    names = ["plain", "prompt_lookup", "plain + prefix cache", "prompt_lookup + prefix cache"]
    assert [(a.length, a.name) for a in report.arms] == [(n, name) for n in (320, 640) for name in names]
    assert {a.n for a in report.arms} == {6}
    assert report.complete


def test_the_arms_with_a_cache_reuse_exactly_the_shared_part_and_the_others_nothing(report):
    """A question that was asked before, by another arm or in an earlier repeat, must not be found in the cache."""
    for arm in report.arms:
        assert set(arm.reused_prompt_tokens) == {arm.length if arm.prefix_cache else 0}


def test_an_arm_that_finds_earlier_questions_in_the_cache_would_be_seen_here(pair, monkeypatch):
    monkeypatch.setattr(PrefixCache, "freeze", lambda self: None)
    arms = measure_ttft(pair, (320,), QUESTIONS, DecodeSettings(max_new_tokens=2, seed=1)).arms
    assert max(arms[3].reused_prompt_tokens) > 320


def test_the_ratio_is_of_medians_to_plain_without_a_cache(report):
    for at in (0, 4):
        plain, *others = report.arms[at : at + 4]
        assert plain.ratio == 1.0
        assert all(a.ratio == pytest.approx(plain.median_ms / a.median_ms) for a in others)
        assert all(min(a.ttft_ms) <= a.median_ms <= max(a.ttft_ms) for a in others)


def test_all_arms_read_the_same_prompts_and_emit_the_same_tokens(pair, monkeypatch):
    kept, honest = [], ttft.generate

    def spy(*args, **kwargs):
        kept.append(honest(*args, **kwargs))
        return kept[-1]

    monkeypatch.setattr(ttft, "generate", spy)
    measure_ttft(pair, (320,), QUESTIONS, DecodeSettings(max_new_tokens=8, seed=1))
    warm, *runs = kept
    assert len(warm.trace.prompt_token_ids) == 320
    by_prompt = {}
    for run in runs:
        by_prompt.setdefault(run.trace.prompt_token_ids, []).append(run.token_ids)
    assert sorted(map(len, by_prompt.values())) == [4, 8]  # one question was asked twice
    assert all(ids == one[0] for one in by_prompt.values() for ids in one)


def test_every_arm_goes_first_in_turn(pair, monkeypatch):
    order, honest = [], ttft.generate

    def spy(*args, **kwargs):
        order.append((args[3], kwargs["prefix_cache"] is not None))
        return honest(*args, **kwargs)

    monkeypatch.setattr(ttft, "generate", spy)
    measure_ttft(pair, (320,), ["a?", "b?"], DecodeSettings(max_new_tokens=2, seed=1), repeats=2)
    firsts = order[1::4]
    assert len(firsts) == len({*firsts}) == 4


def test_the_document_has_the_keys_of_a_bench_arm_and_is_strict_json(report):
    for arm in report.arms:
        row = json.loads(json.dumps(arm.as_dict(), allow_nan=False))
        assert {"name", "category", "output_tokens", "seconds", "output_tokens_per_second", "ratio", "interval",
                "stats"} <= set(row)  # fmt: skip
        assert row["category"] == f"prefix {arm.length}"
        assert row["stats"]["reused_prompt_tokens"] == arm.n * (arm.length if arm.prefix_cache else 0)
        assert row["ttft_ms"]["median"] > 0
        assert row["tpot_ms"] > 0


def test_the_verdict_names_the_times_of_the_longest_prompt(report):
    plain, fast, cached, _ = report.arms[4:]
    for arm in (plain, fast, cached):
        assert f"{arm.median_ms:.0f} ms" in report.verdict
    assert "640 shared tokens" in report.verdict


def test_a_stopped_measurement_reports_the_lengths_that_were_finished(pair):
    cancel = threading.Event()
    report = measure_ttft(
        pair, (320, 640), QUESTIONS[:1], DecodeSettings(max_new_tokens=3), cancel=cancel,
        progress=lambda done, total: done == 5 and cancel.set(),
    )  # fmt: skip
    assert not report.complete
    assert {a.length for a in report.arms} == {320}


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"lengths": (2048,)}, r"2048 shared tokens.* do not fit the 2048 that tiny reads"),
        ({"lengths": (320, 4096)}, r"4096 shared tokens"),
        ({"lengths": (10,)}, "at least 64"),
        ({"lengths": ()}, "at least 64"),
        ({"lengths": (128.0,)}, "at least 64"),
        ({"drafter": "none"}, "plain decoding is measured anyway"),
        ({"drafter": "eagel"}, "unknown drafter"),
        ({"questions": []}, "at least one question"),
        ({"questions": "Why?"}, "list of texts"),
        ({"questions": [" "]}, "at least one question"),
        ({"repeats": 0}, "repeats"),
    ],
)
def test_what_cannot_be_measured_is_one_sentence_before_any_forward(pair, how, says, monkeypatch):
    monkeypatch.setattr(Runner, "forward", lambda *a, **k: pytest.fail("a forward was made"))
    with pytest.raises(EngineError, match=says) as refused:
        measure_ttft(pair, **{"lengths": (320,), "questions": QUESTIONS, **how})
    assert "\n" not in str(refused.value)


def test_token_ids_alone_make_no_system_prompt():
    with pytest.raises(EngineError, match="no tokenizer"):
        measure_ttft(Pair.from_models(tiny_llama(64), None), (64,), QUESTIONS)


# --- the command ---


@pytest.fixture
def invoke(monkeypatch, pair):
    monkeypatch.setattr(engine, "load_pair", lambda *a, **k: pair)

    def run(*args):
        return CliRunner().invoke(cli.app, [str(a) for a in args])

    return run


def test_the_command_prints_a_table_and_the_answer(invoke):
    result = invoke("bench", "--shared-prefix", "320,640", "--max-new-tokens", 3, "--no-save")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.count("plain + prefix ") == 2
    assert "behind 640 shared tokens the first token took" in " ".join(result.stdout.split())


def test_the_command_as_json_is_one_document_with_an_arm_for_each_way_and_length(invoke, tmp_path):
    data = tmp_path / "mine.jsonl"
    data.write_text('{"category": "a", "prompt": "Why?"}', encoding="utf-8")
    result = invoke("bench", "--shared-prefix", "320", "--data", data, "--max-new-tokens", 3, "--json", "--no-save")
    document = json.loads(result.stdout)
    assert (document["schema"], document["baseline"], document["complete"]) == ("specscope.bench", "plain", True)
    assert [(a["category"], a["n"]) for a in document["arms"]] == [("prefix 320", 1)] * 4
    assert document["environment"]["device"] == "cpu"


@pytest.mark.parametrize(
    ("text", "says"), [("2k", "whole numbers"), ("", "whole numbers"), ("5000", "do not fit"), ("1", "at least 64")]
)
def test_a_wrong_length_is_one_sentence_and_exit_2(invoke, text, says):
    result = invoke("bench", "--shared-prefix", text, "--max-new-tokens", 3, "--no-save")
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in " ".join(result.stderr.split())
