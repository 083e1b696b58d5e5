"""Rows of a batch whose settings only look alike."""

import pytest
from helpers.models import tiny_llama

from engine import DecodeSettings, Pair, generate, generate_batch


@pytest.mark.parametrize("temperatures", [(0.0, 1.0), (1.0, 0.0), (1.0, 1e-9, 0.5)])
def test_a_greedy_row_beside_one_at_temperature_1_keeps_its_own_rule(temperatures):
    """`True == 1.0`: a key made of `greedy or temperature` would put both under whichever comes first."""
    model = tiny_llama()
    model.lm_head.weight.data *= 0.1  # flat laws, so a draw is rarely the favourite
    pair = Pair.from_models(model, None)
    settings = [DecodeSettings(temperature=t, max_new_tokens=12, seed=7) for t in temperatures]
    together = generate_batch(pair, [[1, 2, 3]] * len(settings), settings)
    alone = [generate(pair, [1, 2, 3], s) for s in settings]
    assert [g.token_ids for g in together] == [g.token_ids for g in alone]
    greedy, sampled = (
        next(g for g, t in zip(alone, temperatures, strict=True) if (t < 1e-3) is k) for k in (True, False)
    )
    assert greedy.token_ids != sampled.token_ids, "else the test could not tell"
