"""Claims: what each implies by arithmetic, which verdict that makes, and that other numbers make another one."""

import json
import math
from dataclasses import replace

import pytest

from pricing.claims import (
    MEANING,
    VERDICTS,
    Bound,
    Claim,
    ClaimError,
    Finding,
    assess,
    assess_all,
    decide,
    shipped_claims,
    speeds,
)
from pricing.claims import formulas as f
from pricing.claims.derivation import half_place
from pricing.claims.worked import best_published

TABLE = shipped_claims()
ARTICLE = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s"]
PUBLISHED = [f"p{i:02d}" for i in range(1, 19)] + [f"s{i:02d}" for i in range(1, 14)]


def changed(claim_id: str, **values: object) -> Claim:
    """The claim with other numbers: name=value, or name={at: value}."""
    claim = TABLE.find(claim_id)
    inputs = {name: dict(series) for name, series in claim.inputs.items()}
    for name, value in values.items():
        for at, number in (value if isinstance(value, dict) else {"": value}).items():
            inputs[name][at] = replace(inputs[name][at], value=float(number), half=half_place(str(number)))
    return Claim(claim.row, inputs)


def arithmetic(claim_id: str, **values: object) -> str:
    return assess(changed(claim_id, **values)).finding("arithmetic").says


def bound(plain: float, compute: float, batch: int | None = 1, **more: object) -> Bound:
    base = Bound("a model on a GPU", 1, batch, plain, "memory", compute, compute, weights_gb=16, memory_gb=80)
    return replace(base, **more)


def test_every_claim_of_the_article_and_every_published_one_is_there():
    assert list(TABLE.claims) == ARTICLE + PUBLISHED
    assert {c.id for c in TABLE if c.row.origin == "article"} == set(ARTICLE)


@pytest.mark.parametrize(
    ("claim_id", "step", "value"),
    [
        ("a", "speed-up that the figures give", 124 / 38),  # 3.263
        ("b", "months between the release and its claimed date", 13),  # 2024-09 to 2025-10
        ("c", "best K in vLLM pull request 32628", 3),  # 336 of 336, 324, 305, 286, 269, 254
        ("c", "speed at K 5, of the best in vLLM pull request 32628", 305 / 336),  # 0.908
        ("c", "best K by formula, c 0.05", 8),
        ("c", "best K by formula, c 0.1", 6),
        ("c", "best K by formula, c 0.2", 4),
        ("d", "speed-up that the figures give, batch 1", 141.33 / 121.27),  # 1.165
        ("d", "speed-up that the figures give, batch 64", 1533.34 / 2275.64),  # 0.674
        ("e", "tokens/s that it takes, plain", 98.32 / 0.18 / 3600 * 1e6),  # 151,728
        ("e", "tokens/s that it takes, speculative", 98.32 / 0.06 / 3600 * 1e6),  # 455,185
        ("e", "measured on such a machine", 84.2 * 294.45),  # 24,793
        ("e", "cost at the measured speed", 98.32 / (84.2 * 294.45 * 3600) * 1e6),  # 1.10
        ("e", "cost at the measured speed, from 2025-06-01", 55.04 / (84.2 * 294.45 * 3600) * 1e6),  # 0.62
        ("g", "change measured, longer drafts", 100 * (44 / 38 - 1)),  # +15.8 %
        ("h", "times cheaper", 20 / 0.07),  # 285.7
        ("h", "fall", 99.65),
        ("k", "tokens a pass, K 3", 2.605),  # 1 + 3 x 0.535
        ("k", "tokens a pass, K 8", 3.056),
        ("l", "cheaper at the lowest gain", 60.0),  # 1 - 1/2.5
        ("m", "speed-up needed for 70 %", 1 / 0.3),  # 3.33
        ("n", "turns a second, average day", 4.8e6 / 86400),  # 55.6
        ("n", "faster at P95", 980 / 380),  # 2.58
        ("o", "speed-up needed for 62 %", 1 / 0.38),  # 2.63
        ("p", "saving needed a week, soonest", 100_000 / 6),
        ("p", "machines running day and night, latest", 10_000 / 0.62 / (55.04 * 168)),  # 1.74
        ("q", "Llama 3.1 70B / Llama 3.2 1B", 70.55 / 1.236),  # 57
        ("r", "cheaper a token, highest", 100 * (1 - 1 / 1.24)),  # 19.4 %
        ("s", "acceptance between the measured neighbours", 25 + (99.4 - 79.8) / 20 * 36),  # 60.3
        ("p01", "tokens a pass by formula", (1 - 0.75**8) / 0.25),  # 3.60
        ("p04", "tokens a pass by formula", (1 - 0.2**4) / 0.8),  # 1.248
        ("p05", "speed-up that the figures give", 14.1 / 7.52),  # 1.875
        ("p08", "gain left, batch 4 of batch 1", 1.40 / 2.01),  # 0.697: gains, not speed-ups
        ("p08", "speed-up, batch 4 of batch 1", 2.40 / 3.01),  # 0.797
        ("p12", "gain left of p11's", 0.38 / 1.36),  # 0.28
        ("p13", "measured length of the paper's", 5.39 / 6.13),  # 0.879
        ("p14", "accepted, tested as a block", 11 / 9),
        ("p14", "accepted, each token tested alone", 10 / 9),
        ("p18", "energy a token, of plain, batch 128", 1.2565),
        ("s01", "cost a token, draft model", -100 / 3),
        ("s02", "cost a token, highest", 80.0),
        ("s03", "plain speed behind K 1, gain", 108 / 1.32),  # 81.8
        ("s03", "plain speed behind K 32, loss", 48 / 0.66),  # 72.7
        ("s04", "gain left in the draft, lowest share", 1 / 0.42),
        ("s08", "gain left, SGLang, batch 64 of SGLang, batch 1", 0.39 / 2.42),  # 0.16
        ("s11", "plain passes that a round costs", 5.71 / 3.02),  # 1.89
        ("s12", "plain passes that a round costs, A100", 1.5),
        ("s13", "accepted a round, were the rate accepted / proposed", 2.84),
    ],
)  # fmt: skip
def test_what_a_claim_implies_is_computed(claim_id, step, value):
    steps = {s.name: s.value for s in assess(TABLE.find(claim_id)).implies}
    assert steps[step] == pytest.approx(value)


@pytest.mark.parametrize(
    ("verdict", "ids"),
    [
        ("contradicted", "a b c d f g h i k l q"),
        ("implausible", "e m"),
        ("outdated", "j"),
        ("unverifiable", "n o p r s"),
        ("published-inconsistent", "p03 p05 s03 s07"),
        ("published-consistent", "p01 p02 p04 p06 p11 p13 p14 s05 s06 s09 s11 s12 s13"),
        ("published", "p07 p08 p09 p10 p12 p15 p16 p17 p18 s01 s02 s04 s08 s10"),
    ],
)
def test_the_verdicts(verdict, ids):
    assert [a.claim.id for a in assess_all() if a.verdict == verdict] == ids.split()


@pytest.mark.parametrize("claim_id", ["a", "f", "i", "j"])
def test_what_documents_decide_is_said_to_be_decided_by_them_and_has_an_address(claim_id):
    found = assess(TABLE.find(claim_id))
    assert found.decided_by == "sources"
    assert found.why == found.claim.row.sources
    assert found.claim.row.evidence_url.startswith("https://")


@pytest.mark.parametrize(
    ("claim_id", "as_claimed", "values", "otherwise"),
    [
        ("a", "agrees", {"speedup": "3.5"}, "against"),  # 124/38 is not 3.5
        ("b", "against", {"release": {"year": 2025, "month": 10}}, "agrees"),
        ("c", "against", {"claimed_k": 4, "cost_ratio": {"c 0.05": "0.2", "c 0.1": "0.2"}}, "agrees"),  # 4 of 5 cases
        ("d", "against", {"speculative_tokens_per_second": {"batch 32": 3000}}, "agrees"),
        ("e", "strains", {"usd_per_million": {"plain": "1.20", "speculative": "1.15"}}, "agrees"),
        ("g", "against", {"measured_ttft_ms": {"K 8": 20}}, "agrees"),
        ("h", "against", {"fall_percent": "99.65"}, "agrees"),
        ("k", "against", {"alarm_percent": 20}, "silent"),
        ("l", "against", {"speedup_range": {"lowest": "1.5"}}, "agrees"),
        ("m", "strains", {"saving_percent": {"lowest": 50}}, "silent"),  # needs 2.0, 2.09 is published
        ("o", "silent", {"saving_percent": 75}, "strains"),  # needs 4.0, 3.55 is published
        ("q", "against", {"ratio": {"lowest": 5, "highest": 60}}, "agrees"),
        ("p01", "agrees", {"speedup": "3.8"}, "against"),  # 3.65 at alpha 0.755
        ("p03", "against", {"alpha": {"temperature 0": "0.75", "temperature 1": "0.60"}}, "agrees"),
        ("p05", "against", {"speculative_ms_per_token": "7.34"}, "agrees"),  # 14.1/7.34 = 1.92
        ("p06", "agrees", {"speculative_ms_per_token": {"HumanEval": "7.52"}}, "against"),
        ("p13", "agrees", {"speculative_tokens_per_second": {"8 steps": "600"}}, "against"),
        ("s03", "against", {"change_percent": {"K 32, loss": 42}}, "agrees"),  # 48/0.58 = 82.8
        ("s06", "agrees", {"k": 1}, "against"),  # 2.16 from at most 2 tokens
        ("s07", "against", {"mean_acceptance_length": "2.00"}, "agrees"),
        ("s11", "agrees", {"mean_acceptance_length": "2.10"}, "against"),
        ("s13", "agrees", {"speedup": "2.0"}, "against"),
    ],
)
def test_other_numbers_make_another_finding(claim_id, as_claimed, values, otherwise):
    assert arithmetic(claim_id) == as_claimed
    assert arithmetic(claim_id, **values) == otherwise


def test_a_verdict_follows_the_finding():
    assert assess(TABLE.find("m")).verdict == "implausible"
    assert assess(changed("m", saving_percent={"lowest": 50})).verdict == "unverifiable"
    assert assess(changed("q", ratio={"lowest": 5, "highest": 60})).verdict == "unverifiable"
    assert assess(changed("p05", speculative_ms_per_token="7.34")).verdict == "published-consistent"
    # the dollars of e made credible: what is left of it is the old price
    assert assess(changed("e", usd_per_million={"plain": "1.20", "speculative": "1.15"})).verdict == "outdated"


def test_a_printed_number_is_held_to_its_own_rounding_and_no_further():
    assert [half_place(t) for t in ("38", "14.1", "7.52", "0.710")] == [0.5, 0.05, 0.005, 0.0005]
    # 2.6 at alpha 0.62, K 7: the formula's 2.574 is below it, and 0.62 and 2.6 are both rounded
    assert f.expected_tokens(0.62, 7) < 2.6
    assert assess(TABLE.find("p02")).verdict == "published-consistent"
    assert assess(changed("p02", speedup="2.60")).verdict == "published-consistent"
    assert assess(changed("p02", speedup="2.70")).verdict == "published-inconsistent"


def test_the_roofline_is_silent_until_a_bound_is_handed_in():
    claim = TABLE.find("p11")
    assert assess(claim).finding("roofline").says == "silent"
    within = assess(claim, bounds=[bound(223.2, 65_917)])
    assert within.finding("roofline").says == "agrees"
    assert any(step.label == "projected" for step in within.implies)


def test_a_stated_machine_that_could_not_do_it_makes_the_claim_inconsistent():
    slow = assess(TABLE.find("p11"), bounds=[bound(100.0, 65_917)])
    assert slow.finding("roofline").says == "against"
    assert (slow.verdict, slow.decided_by) == ("published-inconsistent", "roofline")
    assert "158.3 tokens/s" in slow.why or "158.34" in slow.why


def test_a_speculative_speed_is_held_to_the_tokens_of_a_pass():
    claim = TABLE.find("p13")  # 378.6 tokens/s at 5.39 tokens a pass, 361.7 at 4.68
    assert assess(claim, bounds=[bound(223.2, 65_917)]).finding("roofline").says == "agrees"
    assert assess(claim, bounds=[bound(77.0, 65_917)]).finding("roofline").says == "against"  # 77 x 4.68 = 360
    assert assess(claim, bounds=[bound(223.2, 370.0)]).finding("roofline").says == "against"  # arithmetic binds


def test_an_assumed_machine_makes_a_claim_implausible_and_not_impossible():
    held = [bound(115_195, 115_195, batch=None, gpus=8)]
    found = assess(TABLE.find("e"), bounds=held)
    assert found.finding("roofline").says == "strains"
    assert found.verdict == "implausible"
    assert assess(TABLE.find("e"), bounds=[bound(1e6, 1e6, batch=None)]).finding("roofline").says == "agrees"


def test_where_a_claim_does_not_say_how_many_gpus_the_fewest_are_worked_out():
    # 38 tokens/s at 14.67 a GPU is 2.6 of them; 141 GB in 80 GB cards is 1.8
    found = assess(TABLE.find("a"), bounds=[bound(14.67, 2_000, weights_gb=141.1)])
    needed = [step for step in found.implies if step.unit == "GPUs"]
    assert [step.value for step in needed] == [3.0]
    assert found.finding("roofline").says == "silent"


def test_the_speeds_of_a_claim_name_their_batches():
    assert {s.batch for s in speeds(TABLE.find("d"))} == {1, 2, 4, 8, 16, 32, 64}
    assert {s.batch for s in speeds(TABLE.find("e"))} == {None}


def test_published_results_are_looked_up_at_the_batch_asked_for_and_above():
    everything = list(TABLE)
    assert best_published(everything).given.value == 6.47
    assert best_published(everything, 64).given.value == 2.51  # long contexts (p15), for batches up to 256
    servers = [TABLE.find(i) for i in ("p12", "s08")]
    assert best_published(servers, 64).given.value == 1.39
    assert best_published(servers, 65) is None


@pytest.mark.parametrize(
    ("kind", "says", "verdict"),
    [
        ("article", ["agrees", "silent", "silent"], "unverifiable"),
        ("article", ["agrees", "silent", "against"], "contradicted"),
        ("article", ["strains", "silent", "superseded"], "implausible"),
        ("article", ["silent", "silent", "superseded"], "outdated"),
        ("article", ["silent", "silent", "supports"], "supported"),
        ("article", ["against", "agrees", "supports"], "contradicted"),
        ("published", ["agrees", "silent", "silent"], "published-consistent"),
        ("published", ["strains", "silent", "silent"], "published"),
        ("published", ["agrees", "against", "silent"], "published-inconsistent"),
        ("own", ["agrees", "silent", "silent"], "plausible"),
        ("own", ["agrees", "strains", "silent"], "implausible"),
        ("own", ["silent", "silent", "silent"], "unverifiable"),
    ],
)
def test_one_rule_gives_the_verdict(kind, says, verdict):
    voices = ("arithmetic", "roofline", "sources")
    assert decide(kind, [Finding(v, s, "why") for v, s in zip(voices, says, strict=True)]).verdict == verdict


def test_every_verdict_is_explained():
    assert set(MEANING) == set(VERDICTS)


def test_an_assessment_is_json_with_null_for_what_is_absent():
    for found in assess_all():
        document = json.loads(json.dumps(found.as_dict(), allow_nan=False))
        assert {"inputs", "implies", "findings", "verdict", "decided_by"} <= set(document)
        assert all(step["label"] and math.isfinite(step["value"]) for step in document["implies"])
        assert "" not in (document["date"], document["evidence_url"], document["evidence"])


def test_every_number_says_where_it_is_from_and_what_kind_it_is():
    for claim in TABLE:
        for series in claim.inputs.values():
            for given in series.values():
                assert given.source
                assert given.label in ("quoted", "assumed")


def test_an_unknown_claim_is_named_with_those_that_there_are():
    with pytest.raises(ClaimError, match=r"no claim 'z9'.* a b c"):
        TABLE.find("z9")
    assert TABLE.find(" E ").id == "e"
