"""Every drafter on the real embedded weights: what a step emits has the law of plain sampling, by chi-square."""

import numpy as np
import pytest
import torch
from helpers.laws import ALPHA, chi_square

import engine
from engine import DecodeSettings
from engine.decode import case_of, propose
from engine.shipped import FOLDER
from engine.verify import judge_case
from engine.verify.sampling import draw, probabilities

pytestmark = pytest.mark.weights

# It repeats itself, so that lookups find something too, and leaves the target a choice.
TEXT = (
    "The three largest cities of Turkey are Istanbul, Ankara and Izmir. The largest lake is Lake Van. "
    "The three largest cities of Turkey are Istanbul,"
)
TRIALS = 400
CELLS = 6  # the likeliest tokens; all others are one more
# The embedded pair has no draft model; of heads, those that come with specscope for it.
HEADS = [d for d in ("eagle", "medusa") if any(FOLDER.glob(f"smollm2_135m/{d}"))]
TREES = ["suffix", "recycling", "composite", *HEADS]
DRAFTERS = ["prompt_lookup", "early_exit", *TREES]
CASES = [(d, 0, v) for d in DRAFTERS for v in engine.EXACT]
CASES += [(d, 12, v) for d in TREES for v in ("rejection", "match")]


class Behind:
    """The target's law behind a context and some tokens, each computed once."""

    def __init__(self, pair, settings, context):
        self.pair, self.settings, self.context, self.known = pair, settings, context, {}

    def __call__(self, *tokens):
        if tokens not in self.known:
            ids = [*self.context, *tokens]
            logits = self.pair.target.forward(ids, self.pair.target.new_cache(), keep=1)
            self.known[tokens] = probabilities(logits, self.settings, ids)[0]
        return self.known[tokens]


@pytest.fixture(scope="module")
def started(embedded_pair):
    """drafter -> a run that has read the text, and whose next step drafts. All have emitted the same first token."""
    runs = {}

    def start(drafter, nodes):
        if (drafter, nodes) not in runs:
            settings = DecodeSettings(k=2, temperature=1.0, top_p=0.9, seed=5, max_new_tokens=40, tree_nodes=nodes)
            run = engine.stream(embedded_pair, TEXT, settings, drafter, chat=False)
            next(run)
            runs[drafter, nodes] = run
        return runs[drafter, nodes]

    return start


@pytest.fixture(scope="module")
def behind(embedded_pair, started):
    run = started("prompt_lookup", 0)
    return Behind(embedded_pair, run.settings, list(run.context))


@torch.inference_mode()
def emitted(run, verifier, logits_of):
    """The tokens of one step from where the run stands, which it then still does."""
    run.verifier = verifier
    draft = propose(run)
    key = (tuple(draft.tokens), draft.parents)
    if key not in logits_of:
        held = run.cache.length
        ids = [*run.unread, *draft.tokens]
        reading = run.target.read(ids, run.cache, len(draft.tokens) + 1, draft.parents, run.taps)
        logits_of[key] = reading.logits.clone()
        run.cache.rollback(held)
    verdict = judge_case(case_of(run, draft, logits_of[key])).verdict
    return [*(draft.tokens[i] for i in verdict.path), verdict.next_token], len(draft.tokens)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(("drafter", "nodes", "verifier"), CASES)
def test_the_first_and_the_second_token_of_a_step_have_the_law_of_plain_sampling(
    started, behind, drafter, nodes, verifier
):
    run = started(drafter, nodes)
    assert run.context == behind.context
    generator, logits_of, drafted = torch.Generator().manual_seed(1), {}, 0
    firsts, seconds = [], []
    for _ in range(TRIALS):
        tokens, count = emitted(run, verifier, logits_of)
        drafted += count
        firsts.append(tokens[0])
        seconds.append(tokens[1] if len(tokens) > 1 else draw(behind(tokens[0]), generator))
    assert drafted > 0, "nothing was drafted, so nothing was tested"
    first = behind()
    second = sum(first[t] * behind(int(t)) for t in torch.nonzero(first).flatten())
    for seen, law in ((firsts, first), (seconds, second)):
        cells, counts = np.zeros(CELLS + 1), np.zeros(CELLS + 1)
        top = torch.topk(law, CELLS).indices.tolist()
        cells[:CELLS] = law[top].double().numpy()
        cells[CELLS] = max(1 - cells[:CELLS].sum(), 0.0)
        for token in seen:
            counts[top.index(token) if token in top else CELLS] += 1
        assert chi_square(counts, cells) > ALPHA
