"""Arithmetic of the article's claims about cost."""

from __future__ import annotations

from statistics import fmean

from pricing.claims.derivation import Step, shown
from pricing.claims.formulas import needed_speedup, saving
from pricing.claims.table import Claim, ClaimTable
from pricing.claims.worked import (
    Speed,
    Worked,
    best_published,
    needs_step,
    published_speedups,
    quotient,
    saving_step,
)
from pricing.cost import usd_per_million_tokens

# From so many requests at once on, a server is loaded; one request at a time is a demonstration.
LOADED_BATCH = 8


def speed_for_a_cost(claim: Claim, table: ClaimTable) -> Worked:
    """The tokens/s that a cost per million needs at a price per hour, against what was measured on such a machine."""
    price = claim.given("usd_per_hour")
    samples, length = claim.given("measured_samples_per_second"), claim.given("measured_tokens_per_sample")
    measured = samples.value * length.value
    steps = [Step("measured on such a machine", f"{samples} x {length}", measured, "tokens/s", (samples, length))]
    speeds: list[Speed] = []
    factors = []
    for name in ("plain", "speculative"):
        cost = claim.given("usd_per_million", name)
        needed = price.value / cost.value * 1e6 / 3600
        formula = f"{price} / {cost} x 1e6 / 3600"
        steps.append(Step(f"tokens/s that it takes, {name}", formula, needed, "tokens/s", (price, cost)))
        steps.append(
            Step(f"times the measured speed, {name}", f"{needed:,.0f} / {measured:,.0f}", needed / measured, "x",
                 (price, cost, samples, length))
        )  # fmt: skip
        factors.append(needed / measured)
        speeds.append(Speed(f"implied, {name}", needed, None, name == "speculative"))
    for now in (price, *(given for at, given in claim.series("usd_per_hour").items() if at)):
        cost_now = usd_per_million_tokens(now.value, measured)
        formula = f"{now} / ({measured:,.0f} x 3600) x 1e6"
        name = f"cost at the measured speed{f', {now.at}' if now.at else ''}"
        steps.append(Step(name, formula, cost_now, "USD/1M", (now, samples, length)))
    said = f"it takes {factors[0]:.2g} to {factors[1]:.3g} times the speed measured on such a machine"
    return Worked(tuple(steps), "strains" if min(factors) > 1 else "agrees", said, tuple(speeds))


def average_gain(claim: Claim, table: ClaimTable) -> Worked:
    """A claimed average against the mean of what servers published, light load and heavy."""
    low, high = claim.given("speedup_range", "lowest"), claim.given("speedup_range", "highest")
    found = list(published_speedups(table.compared(claim)))
    steps = [saving_step(f"cheaper at the {end.at} gain", end) for end in (low, high)]
    if not found:
        return Worked(tuple(steps), "silent", "no published result to compare with")
    mean = fmean(p.given.value for p in found)
    inputs = tuple(p.given for p in found)
    listed = " + ".join(shown(p.given.value) for p in found)
    steps.append(Step("mean of the published servers", f"({listed}) / {len(found)}", mean, "x", inputs))
    loaded = best_published(table.compared(claim), LOADED_BATCH)
    if loaded is not None:
        name = f"highest of them at batch {LOADED_BATCH} and more"
        steps.append(Step(name, f"the largest: {loaded}", loaded.given.value, "x", (loaded.given,)))
    said = f"published servers average {mean:.3g}x over light and heavy load, the claim says {low.value:g}x at least"
    return Worked(tuple(steps), "against" if mean < low.low else "agrees", said)


def saving_everywhere(claim: Claim, table: ClaimTable) -> Worked:
    """A saving claimed in general must hold at the batches that loaded servers run."""
    return _saving(claim, table, LOADED_BATCH)


def saving_in_one_case(claim: Claim, table: ClaimTable) -> Worked:
    """A saving claimed of one deployment, whose batch is not known, need only have been reached at some batch."""
    return _saving(claim, table, None)


def _saving(claim: Claim, table: ClaimTable, at_least: int | None) -> Worked:
    claimed = claim.series("saving_percent")
    steps = [needs_step(f"speed-up needed for {shown(given.value)} %", given) for given in claimed.values()]
    least = min(claimed.values(), key=lambda given: given.value)
    needed = needed_speedup(least.value / 100)
    best = best_published(table.compared(claim), at_least)
    if best is None:
        return Worked(tuple(steps), "silent", "no published result to compare with")
    where = "at any batch" if at_least is None else f"at batch {at_least} and more"
    steps.append(saving_step(f"highest saving published {where}", best.given))
    said = (
        f"it takes a speed-up of {needed:.2f}, and the highest published {where} is {best}, "
        f"which saves {saving(best.given.value):.0%}"
    )
    return Worked(tuple(steps), "strains" if needed > best.given.high else "silent", said)


def fall_in_price(claim: Claim, table: ClaimTable) -> Worked:
    """A fall in per cent against the two prices that it is of."""
    fall = claim.given("fall_percent")
    before, after = claim.given("usd_per_million", "before"), claim.given("usd_per_million", "after")
    times = before.value / after.value
    real = 100 * saving(times)
    steps = (
        quotient("times cheaper", before, after),
        Step("fall", f"1 - {after} / {before}", real, "%", (before, after)),
    )
    if fall.value > 100:
        why = f"a price cannot fall by more than 100 %; {before} to {after} is {times:.0f} times less"
        return Worked(steps, "against", why)
    said = f"the prices fall by {real:.2f} %"
    return Worked(steps, "agrees" if abs(real - fall.value) <= fall.half else "against", said)


def payback(claim: Claim, table: ClaimTable) -> Worked:
    """The saving a week, and the bill behind it, that a payback needs for a one-off cost."""
    one_off, share, price = claim.given("one_off_usd"), claim.given("saving_percent"), claim.given("usd_per_hour")
    steps = []
    for at, weeks in claim.series("payback_weeks").items():
        saved = one_off.value / weeks.value
        bill = saved / (share.value / 100)
        machines = bill / (price.value * 168)
        steps += [
            Step(f"saving needed a week, {at}", f"{one_off} / {weeks}", saved, "USD/week", (one_off, weeks)),
            Step(f"GPU bill behind it, {at}", f"{saved:,.0f} / {share.value / 100:g}", bill, "USD/week",
                 (one_off, weeks, share)),
            Step(f"machines running day and night, {at}", f"{bill:,.0f} / ({price} x 168)", machines, "machines",
                 (one_off, weeks, share, price)),
        ]  # fmt: skip
    why = "payback = one-off cost / saving a week; neither is named, so it holds for some bills and not for others"
    return Worked(tuple(steps), "silent", why)
