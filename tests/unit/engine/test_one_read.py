"""Sampling, accept tests and draws happen on the device; the host reads it once a step."""

import pytest
import torch
from helpers.host_reads import HostReads
from helpers.models import tiny_llama

import engine
from engine import DecodeSettings, EngineError, Pair
from engine.batch import Batch
from engine.verify import METHODS, Case, judge_case, judge_cases, sampling
from engine.verify.sampling import draw, probabilities

V, K = 64, 4
PROMPT = [1, 2, 3, 4] * 4
LAWS = (
    {},
    {"temperature": 1.0},
    {"temperature": 0.8, "top_k": 20},
    {"temperature": 0.8, "top_p": 0.9, "min_p": 0.02},
    {"temperature": 0.9, "repetition_penalty": 1.2},
    {"repetition_penalty": 1.3},
)
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def pair():
    pair = Pair.from_models(tiny_llama(V), None, draft=tiny_llama(V, seed=1), quantization="none")
    for runner in (pair.target, pair.draft):
        runner.recorded = None  # a CPU's, which reads numbers while it records; a GPU has none
    return pair


def case(seed, law=None, method="rejection", k=K, with_q=True, logits=None):
    g = torch.Generator().manual_seed(seed)
    q = torch.softmax(torch.randn(k, V, generator=g), -1)
    tokens = torch.multinomial(q, 1, generator=g)[:, 0].tolist() if k else []
    logits = torch.randn(k + 1, V, generator=g) * 2 if logits is None else logits
    settings = DecodeSettings(**(law or {}))
    probs = q if with_q and k else None
    return Case(logits, tokens, probs, PROMPT, settings, method, torch.Generator().manual_seed(seed))


def test_the_counter_sees_every_kind_of_read():
    x = torch.tensor([0.0, 2.0])
    readers = (
        x.tolist, x[1].item, lambda: bool(x[1]), lambda: int(x[1]), lambda: float(x[1]), x.numpy, lambda: x[x > 1],
        lambda: x[torch.tensor(1)], x.nonzero, lambda: 1.0 if x[1] > 1 else 0.0, lambda: torch.where(x > 1, x, 0.0),
    )  # fmt: skip
    for read in readers:
        with HostReads() as reads:
            read()
        assert reads.count >= 1
    with HostReads() as reads:
        torch.where(x > 1, x, -x).masked_fill(x > 1, 0.0).gather(0, torch.tensor([1])).cumsum(0)
    assert reads.count == 0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("with_q", [True, False])
def test_a_case_is_judged_with_one_read(method, law, with_q):
    for k in (0, 1, K):
        one = case(3, law, method, k, with_q)
        with HostReads() as reads:
            judge_case(one)
        assert reads.count == 1


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize(("drafter", "expected"), [("none", 1), ("prompt_lookup", 1), ("model", 2)])
def test_a_step_of_a_run_reads_once_and_a_draft_model_once_more_for_all_that_it_drafted(pair, drafter, expected, law):
    run = engine.stream(pair, PROMPT, DecodeSettings(k=K, max_new_tokens=24, seed=0, **law), drafter=drafter)
    next(run)  # reads the prompt
    drafted = 0
    while run.finish_reason is None:
        with HostReads() as reads:
            step = next(run)
        assert reads.count == (expected if step.proposals else 1)
        drafted += len(step.proposals)
    assert drafted or drafter == "none" or law  # a random model repeats itself where it is greedy


def test_alternatives_cost_one_more_read_behind_the_clock(pair):
    run = engine.stream(pair, PROMPT, DecodeSettings(k=K, seed=0), drafter="prompt_lookup", alternatives=3)
    next(run)
    with HostReads() as reads:
        next(run)
    assert reads.count == 2


def test_a_batch_reads_once_for_all_of_its_rows(pair):
    batch = Batch(pair, 4)
    for seed, law in enumerate(({}, {"temperature": 1.0}, {"temperature": 1.0}, {"temperature": 0.5, "top_k": 9})):
        batch.submit([*PROMPT, seed], DecodeSettings(k=K, max_new_tokens=40, seed=seed, **law), "prompt_lookup")
    while any(not row.steps for row in [*batch._live, *batch._queue]):
        batch.step()
    with HostReads() as reads:
        assert len(batch.step()) == 4
    assert reads.count == 1


@pytest.mark.parametrize("method", METHODS)
def test_cases_judged_together_get_what_each_gets_alone(method):
    """Ten cases of three widths and several laws, with and without q, each with a generator of its own."""

    def make():
        rows = [case(i, {"temperature": 1.0}, method, K if i % 2 else 2, with_q=i % 3 > 0) for i in range(8)]
        return [*rows, case(8, {"temperature": 1.0, "repetition_penalty": 1.5}, method), case(9, {}, method, 0)]

    alone = [judge_case(c) for c in make()]
    together = judge_cases(make())
    assert [j.verdict for j in alone] == [j.verdict for j in together]
    for a, b in zip(alone, together, strict=True):
        assert torch.equal(a.p, b.p)


def test_what_is_judged_is_the_law_and_the_draw_done_one_by_one():
    """By hand, in the order that the generator is asked: k uniforms, then one for the last token."""
    for seed in range(40):
        c = case(seed, {"temperature": 1.0})
        found = judge_case(c)
        p = probabilities(c.logits, c.settings, c.context, c.tokens)
        g = torch.Generator().manual_seed(seed)
        u = torch.rand(K, dtype=torch.float64, generator=g)
        ratio = [float(p[i, t]) / float(c.probs[i, t]) for i, t in enumerate(c.tokens)]
        stands = next((i for i in range(K) if float(u[i]) >= min(1.0, ratio[i])), K)
        rest = p[K] if stands == K else (p[stands] - c.probs[stands]).clamp(min=0)
        token = draw(rest, g)
        assert (found.verdict.num_accepted, found.verdict.next_token) == (stands, token)
        assert found.verdict.next_p == float(p[stands, token])
        assert [t.p for t in found.verdict.tests] == [float(p[i, t]) for i, t in enumerate(c.tokens)]


def test_one_case_without_a_law_fails_alone_and_the_others_are_judged():
    bad = torch.full((K + 1, V), float("nan"))
    cases = [case(0, {"temperature": 1.0}), case(1, {"temperature": 1.0}, logits=bad), case(2, {"temperature": 1.0})]
    first, broken, last = judge_cases(cases)
    assert isinstance(broken, EngineError)
    assert "NaN or no finite logits" in str(broken)
    assert first.verdict == judge_case(case(0, {"temperature": 1.0})).verdict
    assert last.verdict == judge_case(case(2, {"temperature": 1.0})).verdict


def test_a_draft_law_that_did_not_hold_its_token_is_an_error_of_that_case():
    c = case(0, {"temperature": 1.0})
    c.probs[1, c.tokens[1]] = 0.0
    with pytest.raises(EngineError, match="q = 0"):
        judge_case(c)


def test_no_cases_are_no_judgements():
    assert judge_cases([]) == []


@pytest.mark.parametrize("top_p", [0.1, 0.5, 0.9])
def test_a_nucleus_is_the_same_from_a_shortlist_as_from_all_tokens_in_order(top_p, monkeypatch):
    """A GPU orders all of them, which asks nothing back; ties included."""
    logits = torch.randn(4, 3000, generator=torch.Generator().manual_seed(0)).mul(3).round_(decimals=1)
    settings = DecodeSettings(temperature=0.7, top_p=top_p)
    short = probabilities(logits, settings)
    monkeypatch.setattr(sampling, "SHORTLIST", 3000)
    with HostReads() as reads:
        whole = sampling.law(logits, settings)
    assert reads.count == 0
    assert torch.equal(short, whole.p)
