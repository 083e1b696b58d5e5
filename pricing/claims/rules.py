"""Which arithmetic a claim is put to, by the name in its `rule` column."""

from __future__ import annotations

from collections.abc import Mapping

from pricing.claims import rules_money as money
from pricing.claims import rules_published as published
from pricing.claims import rules_speed as speed
from pricing.claims.worked import Rule

RULES: Mapping[str, Rule] = {
    rule.__name__: rule
    for rule in (
        money.average_gain, money.fall_in_price, money.payback, money.saving_everywhere, money.saving_in_one_case,
        money.speed_for_a_cost,
        published.baseline_choice, published.block_verification, published.cost_change, published.energy,
        published.formula_ceiling, published.gain_left, published.gains_apart, published.length_limit,
        published.length_needed, published.range_printed, published.rate_as_alpha, published.reproduction,
        published.two_baselines, published.verify_share,
        speed.acceptance_alarm, speed.best_draft_length, speed.first_token, speed.gain_by_batch, speed.latency,
        speed.lower_acceptance, speed.more_throughput, speed.nothing_to_compute, speed.release_date, speed.size_ratio,
        speed.speedup_from_times, speed.vocabulary_overlap,
    )
}  # fmt: skip
