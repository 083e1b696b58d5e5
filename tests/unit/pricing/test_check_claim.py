"""Check my claim: figures each way, the ladder of limits, a verdict that follows from the numbers, nonsense refused."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing.claims import Bound, ClaimError, ClaimInput, Projected, check_claim

H100 = Bound(
    machine="Llama-3.1-8B in bf16 on H100 SXM", gpus=1, batch=1, plain_tokens_per_second=223.2, bound_by="memory",
    compute_tokens_per_second=65_917, prefill_tokens_per_second=70_878, weights_gb=16.1, memory_gb=80,
)  # fmt: skip
EIGHT = Bound(
    machine="Llama-2-70B in fp8 on 8 x H100 SXM", gpus=8, batch=None, plain_tokens_per_second=115_195,
    bound_by="compute", compute_tokens_per_second=115_195, prefill_tokens_per_second=115_637, weights_gb=69,
    memory_gb=640,
)  # fmt: skip
NAMED = {"model": "Llama-3.1-8B", "gpu": "H100 SXM"}


def figures(**claim: object) -> dict[str, float]:
    return check_claim(ClaimInput(**claim)).figures


def limits(checked) -> dict[str, tuple[float, bool | None]]:
    return {limit.step.name: (limit.value, limit.passed) for limit in checked.limits}


def says(checked, voice: str) -> str:
    return next(finding.says for finding in checked.findings if finding.voice == voice)


def test_a_cost_and_a_price_give_the_speed_that_it_takes():
    assert figures(usd_per_hour=98.32, usd_per_million=0.18)["tokens_per_second"] == pytest.approx(151_728.395)
    assert figures(usd_per_hour=98.32, usd_per_million=0.06)["tokens_per_second"] == pytest.approx(455_185.185)


def test_what_nobody_typed_adds_no_doubt_to_what_was_typed():
    """0.18 may be 0.175 to 0.185, 98.32 is within 1 %: at least 98.32 / 0.185 x 1e6 / 3600 x 0.99 = 146,149 tokens/s,
    which is beyond 115,195. That the busy share is 1 when none is given says nothing of how it was rounded."""
    checked = check_claim(ClaimInput(usd_per_hour=98.32, usd_per_million=0.18, gpus=8), bound=EIGHT)
    assert checked.verdict in ("contradicted", "implausible")
    half_busy = check_claim(ClaimInput(usd_per_hour=98.32, usd_per_million=0.36, gpus=8), bound=EIGHT)
    assert half_busy.verdict not in ("contradicted", "implausible")


def test_a_speed_and_a_price_give_the_cost():
    assert figures(usd_per_hour=2.49, tokens_per_second=100)["usd_per_million"] == pytest.approx(6.9167, abs=5e-5)
    half_busy = figures(usd_per_hour=2.49, tokens_per_second=100, busy_share=0.5)
    assert half_busy["usd_per_million"] == pytest.approx(2 * 6.916667)


def test_a_speed_and_a_cost_give_the_price():
    assert figures(tokens_per_second=2000, usd_per_million=0.2083)["usd_per_hour"] == pytest.approx(1.5, abs=1e-3)


def test_a_speedup_gives_the_plain_figures_and_the_saving():
    found = check_claim(ClaimInput(usd_per_hour=2.49, tokens_per_second=263.16, speedup=2.6316))
    assert found.figures["plain_tokens_per_second"] == pytest.approx(100, abs=0.01)
    assert found.figures["plain_usd_per_million"] == pytest.approx(6.9167, abs=5e-4)
    saving = next(s for s in found.implies if s.name == "cheaper at equal hardware and load")
    assert saving.value == pytest.approx(62.0, abs=0.01)  # 1 - 1/2.63


def test_two_costs_give_the_speedup():
    assert figures(plain_usd_per_million=0.18, usd_per_million=0.06)["speedup"] == pytest.approx(3.0)


def test_what_is_not_known_is_absent():
    found = check_claim(ClaimInput(speedup=2.0))
    assert set(found.figures) == {"speedup", "busy_share"}
    document = found.as_dict()
    assert document["claim"]["usd_per_hour"] is None
    assert document["bound"] is None
    assert document["projection"] is None


def test_every_step_has_its_formula_inputs_label_and_source():
    found = check_claim(ClaimInput(usd_per_hour=98.32, usd_per_million=0.06, gpus=8))
    step = found.implies[0]
    assert step.formula == "98.32 / (0.06 x 3600) x 1e6"
    assert {i.name for i in step.inputs} == {"USD per hour", "USD per million", "busy share"}
    assert step.label == "assumed"  # entered by a person
    assert step.sources == ("as entered",)
    bounded = check_claim(ClaimInput(usd_per_hour=98.32, usd_per_million=0.06, gpus=8), EIGHT)
    assert any(limit.step.label == "projected" for limit in bounded.limits)


def test_the_ladder_of_a_speedup():
    claim = ClaimInput(speedup=2.0, k=5, mean_acceptance_length=3.2, cost_ratio=0.1, batch=1)
    found = limits(check_claim(claim, replace(H100, verify_over_plain=1.25)))
    assert found["most tokens of a pass"] == (6, False)  # K + 1
    assert found["mean acceptance length"] == (3.2, False)
    assert found["acceptance length after the draft's cost"] == (pytest.approx(3.2 / 1.5), False)
    assert found["acceptance length over the roofline's verify pass"] == (pytest.approx(3.2 / 1.25), False)
    assert found["highest published"] == (6.47, False)


def test_the_ladder_of_a_speed():
    claim = ClaimInput(tokens_per_second=300, k=5, mean_acceptance_length=3.2, batch=1, **NAMED)
    found = limits(check_claim(claim, H100))
    assert found["memory limit of plain decoding"] == (223.2, None)  # the plain speed is not known
    assert found["plain limit times the tokens of a pass"] == (pytest.approx(223.2 * 3.2), False)
    assert found["arithmetic limit at any batch"] == (65_917, False)
    assert found["arithmetic limit with rejected tokens"] == (pytest.approx(65_917 * 3.2 / 6), False)


def test_no_speedup_passes_the_tokens_of_a_pass():
    cap = {"k": 5, "mean_acceptance_length": 3.2}
    over = check_claim(ClaimInput(speedup=3.3, **cap))
    assert (over.verdict, over.decision.decided_by) == ("contradicted", "arithmetic")
    assert "3.3x is above the mean acceptance length (3.2x)" in over.why
    assert check_claim(ClaimInput(speedup=3.1, **cap)).verdict == "plausible"


def test_accepted_over_proposed_gives_the_acceptance_length():
    found = check_claim(ClaimInput(speedup=3.5, k=5, draft_acceptance_rate=0.44))  # 1 + 5 x 0.44 = 3.2
    assert limits(found)["mean acceptance length"] == (pytest.approx(3.2), True)
    # the wrong reading, the rate as the chance of a token, would allow only 1.77
    assert check_claim(ClaimInput(speedup=3.0, k=5, draft_acceptance_rate=0.44)).verdict == "plausible"


def test_a_draft_that_costs_too_much_cannot_give_the_speedup():
    claim = ClaimInput(speedup=2.5, k=5, mean_acceptance_length=3.2, cost_ratio=0.1)  # 3.2 / 1.5 = 2.13
    assert check_claim(claim).verdict == "contradicted"
    assert check_claim(replace(claim, cost_ratio=0.05)).verdict == "plausible"  # 3.2 / 1.25 = 2.56


def test_a_cost_that_takes_more_than_the_gpus_can_multiply_is_contradicted():
    claim = ClaimInput(model="Llama-2-70B", gpu="H100 SXM", gpus=8, usd_per_hour=98.32, usd_per_million=0.06)
    found = check_claim(claim, EIGHT)
    assert (found.verdict, found.decision.decided_by) == ("contradicted", "roofline")
    assert "455,185 tokens/s is above the arithmetic limit at any batch (115,195)" in found.why
    # 24,828 tokens/s: arithmetic allows it at some number of requests at once, which nobody says.
    left = check_claim(replace(claim, usd_per_million=1.10), EIGHT)
    assert left.verdict == "unverifiable"
    assert "24,828 tokens/s at an unsaid number of requests at once" in left.why
    at_256 = check_claim(replace(claim, usd_per_million=1.10, batch=256), replace(EIGHT, batch=256))
    assert at_256.verdict == "plausible"


def test_without_a_machine_a_cost_is_unverifiable_and_says_what_is_missing():
    found = check_claim(ClaimInput(usd_per_hour=98.32, usd_per_million=0.06))
    assert found.verdict == "unverifiable"
    assert "455,185 tokens/s" in found.why
    assert any("name the model and GPU" in sentence for sentence in found.missing)


def test_a_cost_without_a_price_says_nothing_of_speed():
    found = check_claim(ClaimInput(usd_per_million=0.06, **NAMED), H100)
    assert found.verdict == "unverifiable"
    assert any("give the price per hour" in sentence for sentence in found.missing)


def test_a_speedup_within_reach_does_not_excuse_a_speed_that_nothing_was_held_against():
    claim = ClaimInput(usd_per_hour=98.32, usd_per_million=0.06, plain_usd_per_million=0.18)
    found = check_claim(claim)
    assert says(found, "published") == "agrees"
    assert found.verdict == "unverifiable"


def test_above_plain_decoding_only_a_draft_that_nobody_mentioned_could_be_as_quick():
    claim = ClaimInput(tokens_per_second=373, batch=1, **NAMED)
    found = check_claim(claim, H100)
    assert found.verdict == "implausible"
    assert "1.7 tokens a pass" in found.why  # 373 / 223.2
    # with the draft said it is within reach, and plain decoding so quick is not
    drafted = replace(claim, k=8, mean_acceptance_length=5.39)
    assert check_claim(drafted, H100).verdict == "plausible"
    assert check_claim(replace(claim, plain_tokens_per_second=300), H100).verdict == "contradicted"


def test_a_projection_that_is_passed_by_more_than_its_margin_makes_a_claim_implausible():
    claim = ClaimInput(tokens_per_second=200, batch=1, **NAMED)
    projected = Projected(plain_tokens_per_second=140.0, times_at_most=1.2, band="80% of errors ...")
    found = check_claim(claim, H100, projected)
    assert (found.verdict, found.decision.decided_by) == ("implausible", "projection")  # 168
    assert check_claim(replace(claim, tokens_per_second=165), H100, projected).verdict == "plausible"
    assert check_claim(claim, H100, replace(projected, times_at_most=1.5)).verdict == "plausible"


def test_a_projected_speedup_is_compared_where_acceptance_is_known():
    claim = ClaimInput(speedup=2.4, k=5, mean_acceptance_length=3.2, batch=1, **NAMED)
    projected = Projected(plain_tokens_per_second=140.0, speculative_tokens_per_second=210.0, speedup_times_at_most=1.1)
    found = check_claim(claim, H100, projected)
    assert (found.verdict, found.decision.decided_by) == ("implausible", "projection")  # 1.5 x 1.1 = 1.65
    assert check_claim(replace(claim, speedup=1.6), H100, projected).verdict == "plausible"


def test_the_errors_of_speeds_do_not_judge_a_speedup():
    claim = ClaimInput(speedup=2.4, k=5, mean_acceptance_length=3.2, batch=1, **NAMED)
    known = {"plain_tokens_per_second": 140.0, "speculative_tokens_per_second": 210.0}
    # 1.5 x 2 = 3 would let it pass: tokens/s that are far off are no licence for a ratio
    assert check_claim(claim, H100, Projected(**known, times_at_most=2.0, speedup_times_at_most=1.1)).verdict == (
        "implausible"
    )
    # ... and where no errors of ratios are known, the projection alone refutes none
    found = check_claim(claim, H100, Projected(**known, times_at_most=1.1))
    assert found.verdict == "plausible"
    assert "too few speed-ups were published" in next(f.why for f in found.findings if f.voice == "projection")
    assert limits(found)["projection, its margin not known"] == (pytest.approx(1.5), None)
    # its speed is held to the errors of speeds all the same: 210 x 1.1 = 231
    quick = replace(claim, speedup=None, tokens_per_second=300)
    assert check_claim(quick, H100, Projected(**known, times_at_most=1.1)).decision.decided_by == "projection"


def test_at_a_large_batch_a_speedup_is_held_against_what_was_published_there():
    assert check_claim(ClaimInput(speedup=3.0, batch=1)).verdict == "plausible"
    loaded = check_claim(ClaimInput(speedup=3.0, batch=64))
    assert (loaded.verdict, loaded.decision.decided_by) == ("implausible", "published")


def test_weights_and_keys_must_fit():
    claim = ClaimInput(tokens_per_second=10, batch=1, **NAMED)
    assert check_claim(claim, replace(H100, weights_gb=141.0)).verdict == "contradicted"
    crowded = check_claim(replace(claim, batch=64), replace(H100, batch=64, largest_batch=40))
    assert crowded.verdict == "contradicted"
    assert "40 requests" in crowded.why


def test_figures_that_do_not_belong_together_are_told():
    found = check_claim(ClaimInput(tokens_per_second=300, plain_tokens_per_second=100, speedup=2.0))
    assert found.verdict == "contradicted"
    assert "do not belong together" in found.why
    cost = check_claim(ClaimInput(usd_per_hour=2.49, tokens_per_second=100, usd_per_million=0.69), H100)
    assert cost.verdict == "contradicted"  # a tenth of 6.92: per 1M read as per 100,000


@pytest.mark.parametrize(
    "claim",
    [
        {"tokens_per_second": 124, "plain_tokens_per_second": 38, "speedup": 3.26},
        {"usd_per_hour": 98.32, "usd_per_million": 0.06, "tokens_per_second": 455_000},
        {"usd_per_hour": 1.5, "usd_per_million": 0.21, "tokens_per_second": 2000},
    ],
)
def test_figures_that_were_only_rounded_do(claim):
    assert says(check_claim(ClaimInput(**claim)), "arithmetic") != "against"


@pytest.mark.parametrize(
    "name",
    ["tokens_per_second", "plain_tokens_per_second", "speedup", "usd_per_million", "usd_per_hour", "busy_share",
     "mean_acceptance_length", "batch", "gpus", "k"],
)  # fmt: skip
@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, -math.inf, True, "3"])
def test_nonsense_gets_one_sentence_that_names_it(name, bad):
    with pytest.raises(ClaimError, match=name.replace("_", " ").replace("usd", "USD")) as told:
        ClaimInput(**{"speedup": 1.5, name: bad})
    assert "\n" not in str(told.value)
    assert "must be a finite number above 0" in str(told.value)


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        ({}, "nothing is claimed"),
        ({"usd_per_hour": 3.0, "batch": 4}, "nothing is claimed"),
        ({"speedup": 7, "k": 5}, "no speed-up is 7"),
        ({"speedup": 2, "k": 5, "mean_acceptance_length": 6.5}, "no acceptance length is 6.5"),
        ({"speedup": 2, "mean_acceptance_length": 0.9}, "no acceptance length is 0.9"),
        ({"speedup": 2, "draft_acceptance_rate": 0.5}, "give K"),
        ({"speedup": 2, "cost_ratio": 0.1}, "give K"),
        ({"speedup": 2, "k": 5, "draft_acceptance_rate": 50}, "a share from 0 to 1"),
        (
            {"speedup": 2, "k": 5, "draft_acceptance_rate": 0.5, "mean_acceptance_length": 3},
            "one follows from the other",
        ),
        ({"speedup": 2, "batch": 1.5}, "batch must be a whole number"),
        ({"tokens_per_second": 10, "busy_share": 1.2}, "busy share is a share"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(claim, said):
    with pytest.raises(ClaimError, match=said):
        ClaimInput(**claim)


def test_a_speedup_of_exactly_k_plus_1_is_not_nonsense():
    assert check_claim(ClaimInput(speedup=6, k=5)).verdict == "plausible"


@given(
    price=st.floats(0.1, 1000), cost=st.floats(0.01, 100), speedup=st.floats(0.2, 6), batch=st.integers(1, 256),
)  # fmt: skip
def test_cost_and_speed_are_the_same_claim_in_other_words(price, cost, speedup, batch):
    by_cost = check_claim(ClaimInput(usd_per_hour=price, usd_per_million=cost, speedup=speedup, batch=batch), H100)
    speed = by_cost.figures["tokens_per_second"]
    by_speed = check_claim(ClaimInput(usd_per_hour=price, tokens_per_second=speed, speedup=speedup, batch=batch), H100)
    assert by_speed.figures["usd_per_million"] == pytest.approx(cost)
    assert by_cost.figures["plain_usd_per_million"] == pytest.approx(cost * speedup)
    assert by_cost.figures["plain_tokens_per_second"] == pytest.approx(speed / speedup)
    json.dumps(by_cost.as_dict(), allow_nan=False)


@given(st.floats(10, 1e6), st.floats(1.001, 10))
def test_a_claim_never_looks_better_for_being_quicker(speed, factor):
    order = ["plausible", "implausible", "contradicted"]
    claim = ClaimInput(tokens_per_second=speed, batch=1, k=5, mean_acceptance_length=3.0, **NAMED)
    slower, faster = (check_claim(replace(claim, tokens_per_second=s), H100) for s in (speed, speed * factor))
    assert order.index(faster.verdict) >= order.index(slower.verdict)


def test_a_projection_that_does_not_fit_supports_nothing():
    claim = ClaimInput(tokens_per_second=20, batch=1, **NAMED)
    projected = Projected(plain_tokens_per_second=140.0, machine="Llama-3.1-8B in bf16 on H100 SXM")
    assert check_claim(claim, H100, projected).verdict == "plausible"
    found = check_claim(claim, H100, replace(projected, fits=False))
    assert (found.verdict, found.decision.decided_by) == ("implausible", "projection")
    assert found.why.endswith("are projected not to fit: Llama-3.1-8B in bf16 on H100 SXM")
    assert not any(limit.voice == "projection" for limit in found.limits)


def test_a_plausible_claim_names_the_precision_that_nobody_said():
    claim = ClaimInput(tokens_per_second=20, batch=1, **NAMED)
    found = check_claim(claim, H100, Projected(plain_tokens_per_second=140.0, chosen="fp8"))
    assert found.why.startswith("within every limit, with weights in fp8; the closest: ")
    assert check_claim(claim, H100, Projected(plain_tokens_per_second=140.0)).why.startswith("within every limit; the")


@pytest.mark.parametrize(
    ("claim", "by"),
    [
        ({"speedup": 2.0, "k": 5, "mean_acceptance_length": 2.1}, "arithmetic"),
        ({"speedup": 2.0, "k": 64, "batch": 32}, "published"),
        ({"tokens_per_second": 139.0, "batch": 1, **NAMED}, "projection"),
    ],
)
def test_a_plausible_claim_is_decided_by_the_voice_whose_limit_is_told(claim, by):
    found = check_claim(ClaimInput(**claim), H100, Projected(plain_tokens_per_second=140.0))
    assert (found.verdict, found.decision.decided_by) == ("plausible", by)
    closest = next(limit for limit in found.limits if limit.passed is not None and limit.told in found.why)
    assert closest.voice == by


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"speedup": 2.0, "k": 65}, "k must be from 1 to 64, not 65"),
        ({"speedup": 2.0, "k": 20_000_000, "draft_acceptance_rate": 0.5}, "k must be from 1 to 64"),
        ({"tokens_per_second": 1e308, "plain_tokens_per_second": 1e-308}, "must be from 1e-09 to 1e.15, not 1e.308"),
        ({"usd_per_hour": 1e308, "usd_per_million": 1e-308}, "must be from 1e-09 to 1e.15"),
        ({"speedup": 2.0, "batch": 10**9}, "batch must be from 1 to 1e.07"),
    ],
)
def test_what_no_machine_is_near_is_refused_before_anything_is_worked_out(changes, says):
    with pytest.raises(ClaimError, match=says):
        ClaimInput(**changes)


@given(
    st.lists(st.sampled_from([1e-9, 1e15]), min_size=5, max_size=5), st.integers(0, 31), st.sampled_from([1e-9, 1.0])
)
def test_the_widest_numbers_that_are_taken_still_make_json(numbers, wanted, busy):
    names = ("usd_per_hour", "tokens_per_second", "plain_tokens_per_second", "usd_per_million", "plain_usd_per_million")
    claim = {name: numbers[i] for i, name in enumerate(names) if wanted >> i & 1}
    if set(claim) - {"usd_per_hour"}:
        json.dumps(check_claim(ClaimInput(**claim, busy_share=busy), H100).as_dict(), allow_nan=False)
