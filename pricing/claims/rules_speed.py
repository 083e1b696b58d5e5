"""Arithmetic of the article's claims about speed, drafts and acceptance."""

from __future__ import annotations

from pricing.claims.derivation import Given, Step, named, shown
from pricing.claims.formulas import alpha_from_rate, best_k, saving
from pricing.claims.table import Claim, ClaimTable
from pricing.claims.worked import Speed, Worked, batch_of, number_in, quotient, speedup_steps, within_rounding


def speedup_from_times(claim: Claim, table: ClaimTable) -> Worked:
    """A printed speed-up against the two figures that it is made of."""
    steps, pairs, speeds = speedup_steps(claim)
    wrong = [(printed, low, high) for printed, low, high in pairs if not within_rounding(printed, low, high)]
    if wrong:
        printed, low, high = wrong[0]
        why = (
            f"{named('the printed figures', printed.at)} give {low:.3f} to {high:.3f} within their rounding, "
            f"not {shown(printed.value)}"
        )
        return Worked(tuple(steps), "against", why, tuple(speeds))
    if not pairs:
        return Worked(tuple(steps), "silent", "no speed-up is printed to hold the figures against", tuple(speeds))
    told = ", ".join(f"{shown(printed.value)}x" for printed, _, _ in pairs)
    return Worked(tuple(steps), "agrees", f"the figures give {told} as printed", tuple(speeds))


def release_date(claim: Claim, table: ClaimTable) -> Worked:
    """Months from the release to the month that is claimed for it."""
    year, month = claim.given("claimed_release", "year"), claim.given("claimed_release", "month")
    was_year, was_month = claim.given("release", "year"), claim.given("release", "month")
    months = 12 * (year.value - was_year.value) + month.value - was_month.value
    formula = f"12 x ({year.value:g} - {was_year.value:g}) + {month.value:g} - {was_month.value:g}"
    step = Step("months between the release and its claimed date", formula, months, "months",
                (year, month, was_year, was_month))  # fmt: skip
    if months:
        return Worked((step,), "against", f"the release is {abs(months):g} months off the claimed date")
    return Worked((step,), "agrees", "the release is of the claimed month")


def best_draft_length(claim: Claim, table: ClaimTable) -> Worked:
    """Where measured speeds and the formula have their best K, against the one that is called the best."""
    claimed, loses_from = claim.given("claimed_k"), claim.given("claimed_loss_k")
    steps: list[Step] = []
    bests: list[tuple[str, float]] = []
    for name, best_of in (("tokens_per_second", max), ("ms_per_token", min)):
        series = {at: given for at, given in claim.series(name).items() if at.startswith("K ")}
        if not series:
            continue
        best = best_of(series.values(), key=lambda given: given.value)
        k = number_in(best.at)
        where = best.source.partition(" (")[0]
        bests.append((f"{k:g} in {where}", k))
        listed = ", ".join(f"{number_in(at):g}: {shown(given.value)}" for at, given in series.items())
        inputs = tuple(series.values())
        steps.append(Step(f"best K in {where}", f"best of {{{listed}}} {best.unit}", k, "tokens", inputs))
        for wanted in (claimed, loses_from):
            there = series.get(f"K {wanted.value:g}")
            if there is not None:
                faster = name == "tokens_per_second"
                over, under = (there, best) if faster else (best, there)
                steps.append(quotient(f"speed at K {wanted.value:g}, of the best in {where}", over, under))
    alpha = claim.given("alpha")
    for at, cost in claim.series("cost_ratio").items():
        k = best_k(alpha.value, cost.value)
        bests.append((f"{k} by formula at {at}", k))
        formula = f"the K with the highest (1 - a^(K+1)) / ((1 - a)(K c + 1)), a = {alpha.value:g}, c = {cost.value:g}"
        steps.append(Step(f"best K by formula, {at}", formula, float(k), "tokens", (alpha, cost)))
    others = [told for told, k in bests if k != claimed.value]
    if not bests:
        return Worked(tuple(steps), "silent", "nothing was measured to compare with")
    if 2 * len(others) > len(bests):
        why = (
            f"{claimed.value:g} is the best K in {len(bests) - len(others)} of {len(bests)} cases: {', '.join(others)}"
        )
        return Worked(tuple(steps), "against", why)
    return Worked(tuple(steps), "agrees", f"{claimed.value:g} is the best K in most of the cases")


def gain_by_batch(claim: Claim, table: ClaimTable) -> Worked:
    """The speed-up at each batch, and whether it is highest where it is said to be."""
    low, high = claim.given("claimed_batch", "lowest"), claim.given("claimed_batch", "highest")
    steps, _, speeds = speedup_steps(claim)
    at = [batch_of(claim, place) or 1 for place in claim.series("plain_tokens_per_second")]
    by_batch = {batch: step.value for batch, step in zip(at, steps, strict=True) if step.value is not None}
    claimed = [gain for batch, gain in by_batch.items() if low.value <= batch <= high.value]
    single = by_batch.get(1)
    if single is None or not claimed:
        return Worked(tuple(steps), "silent", "nothing was measured at both ends", tuple(speeds))
    said = f"speed-up {max(claimed):.3g}x at best in batches of {low.value:g} to {high.value:g}, {single:.3g}x alone"
    return Worked(tuple(steps), "against" if max(claimed) < single else "agrees", said, tuple(speeds))


def lower_acceptance(claim: Claim, table: ClaimTable) -> Worked:
    """What a shorter acceptance length would do to the speed-up, everything else alike."""
    steps = [
        Step(f"speed-up left, {at} case", f"1 - {given.value:g} / 100", 1 - given.value / 100, "of before", (given,))
        for at, given in claim.series("lower_percent").items()
    ]
    why = "both acceptance lengths, on the same prompts, would be needed: (before - after) / before"
    return Worked(tuple(steps), "silent", why)


def first_token(claim: Claim, table: ClaimTable) -> Worked:
    """Whether drafting shortens or lengthens the time to the first token, where it was measured."""
    before, after = claim.given("ttft_s", "before"), claim.given("ttft_s", "after")
    by_k = sorted(claim.series("measured_ttft_ms").values(), key=lambda given: number_in(given.at))
    if len(by_k) < 2:
        return Worked(
            (quotient("shorter by the claim", before, after),), "silent", "nothing was measured to compare with"
        )
    short, long = by_k[0], by_k[-1]
    claimed, measured = after.value / before.value - 1, long.value / short.value - 1
    steps = (
        quotient("shorter by the claim", before, after),
        Step("change by the claim", f"{after} / {before} - 1", 100 * claimed, "%", (after, before)),
        Step("change measured, longer drafts", f"{long} / {short} - 1", 100 * measured, "%", (long, short)),
    )
    if claimed < 0 <= measured:
        why = (
            f"longer drafts took the first token from {short} to {long} ({measured:+.1%}); the claim has {claimed:+.0%}"
        )
        return Worked(steps, "against", why)
    return Worked(
        steps, "agrees" if claimed * measured > 0 else "silent", f"measured {measured:+.1%}, claimed {claimed:+.1%}"
    )


def acceptance_alarm(claim: Claim, table: ClaimTable) -> Worked:
    """Whether a system that works sits below the alarm, and what its rates mean."""
    alarm, low = claim.given("alarm_percent"), claim.given("rate_percent", "lowest")
    steps: list[Step] = []
    measured = claim.series("measured_rate_percent")
    for at, rate in measured.items():
        k = int(number_in(at))
        length = 1 + k * rate.value / 100
        steps.append(Step(f"tokens a pass, {at}", f"1 + {k} x {rate.value / 100:g}", length, "tokens", (rate,)))
        alpha = alpha_from_rate(rate.value / 100, k)
        formula = f"alpha where (alpha + ... + alpha^{k}) / {k} = {rate.value / 100:g}"
        steps.append(Step(f"chance of one token, {at}", formula, alpha, "", (rate,)))
    below = [rate for rate in measured.values() if rate.value < alarm.value]
    if not below:
        return Worked(tuple(steps), "silent", "no measured rate lies below the alarm")
    rates = [shown(value) for value in sorted(rate.value for rate in below)]
    why = (
        f"a system in order shows {rates[-1]} % to {rates[0]} %, below the alarm at {shown(alarm.value)} %: the rate "
        f"falls as K grows, while the tokens of a pass rise; it never came to {shown(low.value)} %"
    )
    return Worked(tuple(steps), "against", why)


def size_ratio(claim: Claim, table: ClaimTable) -> Worked:
    """Target over draft parameters of the article's own pairs, against its range."""
    low, high = claim.given("ratio", "lowest"), claim.given("ratio", "highest")
    steps, outside = [], []
    for at, target in claim.series("target_params_billion").items():
        step = quotient(at, target, claim.given("draft_params_billion", at))
        steps.append(step)
        if step.value is not None and not low.low <= step.value <= high.high:
            outside.append(f"{at}: {step.value:.3g}x")
    if outside:
        return Worked(tuple(steps), "against", f"outside {low.value:g} to {high.value:g}: {'; '.join(outside)}")
    return Worked(tuple(steps), "agrees", f"the pairs lie within {low.value:g} to {high.value:g}")


def vocabulary_overlap(claim: Claim, table: ClaimTable) -> Worked:
    """Acceptance at the two measured overlaps around the claimed one. Other pairs of models: they show that overlap
    alone does not settle acceptance, and no more."""
    claimed, low = claim.given("overlap_percent"), claim.given("rate_percent", "lowest")
    points = sorted((number_in(at), rate) for at, rate in claim.series("measured_rate_percent").items())
    below = [p for p in points if p[0] <= claimed.value]
    above = [p for p in points if p[0] >= claimed.value]
    if not below or not above:
        return Worked((), "silent", "nothing was measured on both sides of the claimed overlap")
    (x0, first), (x1, second) = below[-1], above[0]
    share = (claimed.value - x0) / (x1 - x0) if x1 > x0 else 0.0
    between = first.value + share * (second.value - first.value)
    formula = f"{first} + {share:.3g} x ({second} - {first})"
    step = Step("acceptance between the measured neighbours", formula, between, "%", (claimed, first, second))
    why = (
        f"other pairs reached {shown(first.value)} % at {x0:g} % and {shown(second.value)} % at {x1:g} % overlap, so "
        f"{shown(low.value)} % does not follow from the overlap; they are other models, so it is not ruled out either"
    )
    return Worked((step,), "silent", why)


def latency(claim: Claim, table: ClaimTable) -> Worked:
    """A P95 before and after, and what the traffic and the time mean for one stream."""
    before, after = claim.given("p95_ms", "before"), claim.given("p95_ms", "after")
    turns, tokens = claim.given("turns_per_day"), claim.given("tokens_per_turn")
    per_second = turns.value / 86400
    stream = tokens.value / (after.value / 1000)
    steps = (
        quotient("faster at P95", before, after),
        Step("turns a second, average day", f"{shown(turns.value)} / 86,400", per_second, "turns/s", (turns,)),
        Step("tokens/s of one stream, were a turn so long", f"{tokens} / {after}", stream, "tokens/s", (tokens, after)),
        Step("tokens/s of all, average day", f"{per_second:.4g} x {tokens.value:g}", per_second * tokens.value,
             "tokens/s", (turns, tokens)),
    )  # fmt: skip
    why = "possible as far as the figures go; tokens a turn, batch and hardware would have to be named"
    return Worked(steps, "silent", why, (Speed("one stream", stream, 1, True),))


def more_throughput(claim: Claim, table: ClaimTable) -> Worked:
    """What more throughput at the same price would save."""

    def step(at: str, more: Given) -> Step:
        times = 1 + more.value / 100
        return Step(f"cheaper a token, {at}", f"1 - 1 / {times:g}", 100 * saving(times), "%", (more,))

    steps = tuple(step(at, more) for at, more in claim.series("more_percent").items())
    return Worked(steps, "silent", "release, model, batch and precision are not named, so nothing can be recomputed")


def nothing_to_compute(claim: Claim, table: ClaimTable) -> Worked:
    return Worked((), "silent", "names and options are looked up, not computed")
