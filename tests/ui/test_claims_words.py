"""What pricing says of claims, in Turkish: every sentence has its words, and its figures keep their values."""

import re

from claims_sheets import TR

from app.claims_model import assessed, check
from app.claims_tab import phrases
from pricing.claims import EVIDENCE, MEANING, ClaimInput

# Names of models, tasks and units, which are the same in every language.
NAMES = re.compile(r"ms|HumanEval|Medusa-\d|Vicuna-13B, (MT-bench|HumanEval)|(Llama|Mixtral) .+ / (Llama|Mistral) .+")
CLAIMS = [
    {"usd_per_hour": 98.32, "usd_per_million": 0.06, "gpus": 8}, {"speedup": 3.0, "batch": 4}, {"speedup": 9.0},
    {"tokens_per_second": 500.0, "plain_tokens_per_second": 200.0, "usd_per_hour": 20.0, "batch": 4, "k": 5,
     "mean_acceptance_length": 3.2, "cost_ratio": 0.05, "gpus": 8},
    {"usd_per_million": 0.2}, {"usd_per_hour": 2.0, "usd_per_million": 0.06, "tokens_per_second": 10.0},
    {"tokens_per_second": 100.0, "plain_tokens_per_second": 50.0, "speedup": 3.0},
    {"tokens_per_second": 1e4, "batch": 1},
    {"speedup": 3.5, "k": 5, "draft_acceptance_rate": 0.44}, {"tokens_per_second": 10.0, "speedup": 2.0},
]  # fmt: skip


def said():
    """Everything that pricing says of the shipped claims, and of many that a person might enter."""
    yield from (*MEANING.values(), *EVIDENCE.values())
    steps = []
    for one in assessed():
        steps += one.implies
        yield from (finding.why for finding in one.findings if finding.voice != "sources")
        for bound in one.bounds:
            yield from (bound.machine, *bound.how)
        for series in one.claim.inputs.values():
            for given in series.values():
                yield from (given.name, given.unit)
    for claim in CLAIMS:
        for machine in ({}, {"gpu": "H100 SXM"}, {"model": "Llama-3.1-70B", "gpu": "H100 SXM"}):
            found = check(ClaimInput(**claim, **machine))
            steps += [*found.implies, *(limit.step for limit in found.limits)]
            yield from (found.why, *found.missing, *(finding.why for finding in found.findings))
            yield from (limit.assumes for limit in found.limits if limit.voice == "roofline")
            if found.projected:
                yield found.projected.band
    for model, batch in (("Llama-3.3-70B", 1), ("Vicuna-33B", 900)):  # fits in fp8 at most; has no room for its keys
        tight = ClaimInput(tokens_per_second=20.0, model=model, gpu="H100 SXM", batch=batch)
        for precision in (None, "bf16"):
            yield check(tight, precision).why
    for step in steps:
        yield from (step.name, step.unit, *(given.name for given in step.inputs))


def test_all_that_pricing_says_of_claims_has_turkish_words():
    lacking = [text for text in dict.fromkeys(said()) if text and not phrases.known(text, "tr")]
    assert [text for text in lacking if not NAMES.fullmatch(text)] == []


def test_an_english_phrase_and_its_turkish_hold_the_same_values():
    for english, turkish in phrases.catalogue("tr").items():
        assert sorted(re.findall(r"\{(\w+)\}", english)) == sorted(set(re.findall(r"\{(\w+)\}", turkish))), english


def test_a_figure_of_a_sentence_keeps_its_value_in_turkish():
    assert phrases.tell("it takes 6.1 to 18.4 times the speed measured on such a machine", TR) == (
        "böyle bir makinede ölçülen hızın 6,1 ila 18,4 katını gerektiriyor"
    )
    assert phrases.tell("1,234.5 tokens/s is above the mean acceptance length (3.2)", TR).startswith("1.234,5 token/s")
    # Names, versions and dates are no figures.
    for name in ("Llama-3.1-70B", "Llama 3.1 70B", "0.6.0", "2025-06-01", "p5.48xlarge"):
        assert phrases.tell(name, TR) == name
