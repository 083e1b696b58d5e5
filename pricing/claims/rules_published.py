"""Arithmetic of published results: whether what a source prints follows from its own numbers, and what else follows."""

from __future__ import annotations

from fractions import Fraction

from pricing.claims.derivation import Given, Step, named, shown
from pricing.claims.formulas import (
    accepted_at_most,
    accepted_by_block,
    accepted_token_by_token,
    alpha_from_rate,
    expected_tokens,
    largest_cost_ratio,
)
from pricing.claims.rules_speed import speedup_from_times
from pricing.claims.table import Claim, ClaimTable
from pricing.claims.worked import Speed, Worked, batch_of, quotient, saving_step, within_rounding


def formula_ceiling(claim: Claim, table: ClaimTable) -> Worked:
    """A speed-up cannot pass the tokens of one pass: what the formula gives for the printed alpha, as rounded."""
    steps: list[Step] = []
    beyond: list[str] = []
    dearest: list[str] = []
    for at, alpha in claim.series("alpha").items():
        drafted, printed = claim.given("k", at), claim.given("speedup", at)
        k = int(drafted.value)
        formula = f"(1 - {alpha.value:g}^{k + 1}) / (1 - {alpha.value:g})"
        tokens, most = expected_tokens(alpha.value, k), expected_tokens(min(alpha.high, 1.0), k)
        steps.append(Step(named("tokens a pass by formula", at), formula, tokens, "tokens", (alpha, drafted)))
        ratio = largest_cost_ratio(most, printed.low, k)
        cost = f"({most:.4g} / {printed.low:.4g} - 1) / {k}"
        steps.append(
            Step(named("draft cost ratio at most, figures rounded in its favour", at), cost, ratio, "c",
                 (alpha, drafted, printed))
        )  # fmt: skip
        if ratio < 0:
            beyond.append(named(f"{shown(printed.value)}x is above the {most:.3g} tokens a pass of the formula", at))
        else:
            dearest.append(named(f"a draft pass may cost {ratio:.2g} of a target pass at most", at))
    if beyond:
        why = f"{'; '.join(beyond)}: acceptance is not the same at every token, which the formula takes it to be"
        return Worked(tuple(steps), "against", why)
    return Worked(tuple(steps), "agrees", "; ".join(dearest))


def gains_apart(claim: Claim, table: ClaimTable) -> Worked:
    """How printed speed-ups of one method differ by batch or task: as speed-ups, and as gains (what is above 1)."""
    printed = list(claim.series("speedup").values())
    first = max(printed, key=lambda given: given.value)
    steps = []
    for other in printed:
        if other is first:
            continue
        steps.append(quotient(f"speed-up, {other.at} of {first.at}", other, first))
        left = (other.value - 1) / (first.value - 1)
        formula = f"({shown(other.value)} - 1) / ({shown(first.value)} - 1)"
        steps.append(Step(f"gain left, {other.at} of {first.at}", formula, left, "", (other, first)))
    return Worked(tuple(steps), "silent", "printed without the figures that would give it")


def gain_left(claim: Claim, table: ClaimTable) -> Worked:
    """How much of another claim's gain is left under this one's load."""
    printed = claim.given("speedup")
    steps = []
    for other in table.compared(claim):
        before = next(iter(other.series("speedup").values()))
        formula = f"({shown(printed.value)} - 1) / ({shown(before.value)} - 1)"
        value = (printed.value - 1) / (before.value - 1)
        steps.append(Step(f"gain left of {other.id}'s", formula, value, "", (printed, before)))
    return Worked(tuple(steps), "silent", "printed without the figures that would give it")


def length_limit(claim: Claim, table: ClaimTable) -> Worked:
    """A pass yields its acceptance length, or K + 1, at most, so no decoding speed-up passes that; length over
    speed-up is what a round costs in plain passes."""
    steps: list[Step] = []
    beyond: list[str] = []
    lengths, drafted = claim.series("mean_acceptance_length"), claim.series("k")
    limited = False
    for at, printed in claim.series("speedup").items():
        length = lengths.get(at, lengths.get(""))
        if length is not None:
            steps.append(quotient(named("plain passes that a round costs", at), length, printed))
            limit, inputs = length.high, (length, printed)
        elif (k := drafted.get(at, drafted.get(""))) is not None:
            steps.append(Step(named("most tokens a pass", at), f"{k.value:g} + 1", k.value + 1, "tokens", (k,)))
            limit, inputs = k.value + 1, (k, printed)
        else:
            continue
        limited = True
        if printed.low > limit:
            beyond.append(named(f"{shown(printed.value)}x from {shown(inputs[0].value)} tokens a pass", at))
    printed_all = list(claim.series("speedup").values())
    if len(printed_all) > 1 and not lengths:
        steps += [quotient(f"{b.at} over {a.at or 'the claim'}", b, a) for a, b in [(printed_all[0], printed_all[-1])]]
    if beyond:
        why = f"no decoding speed-up can pass the tokens that a pass yields: {'; '.join(beyond)}"
        return Worked(tuple(steps), "against", why)
    if not limited:
        return Worked(tuple(steps), "silent", "no acceptance length is printed with it")
    return Worked(tuple(steps), "agrees", "the speed-up stays below the tokens that a pass yields")


def length_needed(claim: Claim, table: ClaimTable) -> Worked:
    """What a printed speed-up needs and gives where nothing else is printed."""
    best = max(claim.series("speedup").values(), key=lambda given: given.value)
    steps = (
        Step("tokens a pass that it takes", f"no fewer than {shown(best.value)}", best.value, "tokens", (best,)),
        saving_step("cheaper at equal hardware and load", best),
    )
    return Worked(steps, "silent", "printed without the acceptance or the times that would give it")


def reproduction(claim: Claim, table: ClaimTable) -> Worked:
    """A paper's acceptance length against the one measured elsewhere, and what longer drafts bought."""
    lengths, speeds = claim.series("mean_acceptance_length"), claim.series("speculative_tokens_per_second")
    paper = claim.given("mean_acceptance_length", "paper")
    measured = [given for at, given in lengths.items() if at != "paper"]
    long, short = measured[0], measured[-1]
    steps = [
        quotient("measured length of the paper's", long, paper),
        quotient("length, longer drafts over shorter", long, short),
        quotient("speed, longer drafts over shorter", speeds[long.at], speeds[short.at]),
    ]
    found = [
        Speed(at, given.value, batch_of(claim, at), True, lengths[at].value)
        for at, given in speeds.items() if at in lengths
    ]  # fmt: skip
    gained, longer = steps[2].value or 0.0, steps[1].value or 0.0
    said = f"length grew by {longer - 1:.0%} and speed by {gained - 1:.0%}: a longer round costs more"
    return Worked(tuple(steps), "agrees" if gained <= longer else "against", said, tuple(found))


def block_verification(claim: Claim, table: ClaimTable) -> Worked:
    """The paper's example, by exact enumeration: a whole block tested at once against token by token."""
    k = claim.given("k")
    laws: list[tuple[Fraction, ...]] = []
    inputs: list[Given] = [k]
    for name in ("target_thirds", "draft_thirds"):
        series = claim.series(name)
        inputs += series.values()
        laws.append(tuple(Fraction(int(given.value), 3) for given in series.values()))
    p, q = laws
    depth = int(k.value)
    one, block, most = (rule(p, q, depth) for rule in (accepted_token_by_token, accepted_by_block, accepted_at_most))
    steps = tuple(
        Step(name, f"enumerated: {value.numerator}/{value.denominator}", float(value), "tokens", tuple(inputs))
        for name, value in (
            ("accepted, each token tested alone", one),
            ("accepted, tested as a block", block),
            ("accepted at most by any lossless test", most),
        )
    )
    said = f"of its example {block} drafted tokens stand as a block, {one} one by one, {most} at most"
    return Worked(steps, "agrees" if one <= block <= most else "against", said)


def energy(claim: Claim, table: ClaimTable) -> Worked:
    """Energy a token is power over speed: what saving and loss mean for one against the other."""
    steps = tuple(
        Step(named("energy a token, of plain", at), f"1 {sign} {given.value:g} / 100",
             1 + (given.value if sign == "+" else -given.value) / 100, "x", (given,))
        for sign, name in (("-", "energy_saved_percent"), ("+", "energy_added_percent"))
        for at, given in claim.series(name).items()
    )  # fmt: skip
    why = "energy a token = (power ratio) / (speed-up), and neither is printed with it"
    return Worked(steps, "silent", why)


def cost_change(claim: Claim, table: ClaimTable) -> Worked:
    """What a speed-up or a slowdown does to the cost of a token at equal hardware."""
    steps = []
    for at, given in claim.series("speedup").items():
        value = 100 * (1 / given.value - 1)
        steps.append(Step(named("cost a token", at), f"1 / {shown(given.value)} - 1", value, "%", (given,)))
    for at, given in claim.series("slowdown").items():
        steps.append(Step(named("speed-up", at), f"1 / {shown(given.value)}", 1 / given.value, "x", (given,)))
        value = 100 * (given.value - 1)
        steps.append(Step(named("cost a token", at), f"{shown(given.value)} - 1", value, "%", (given,)))
    return Worked(tuple(steps), "silent", "printed without the figures that would give it")


def two_baselines(claim: Claim, table: ClaimTable) -> Worked:
    """Two percentages against plain decoding must rest on one plain speed."""
    steps: list[Step] = []
    spans: list[tuple[float, float]] = []
    found: list[Speed] = []
    lengths = claim.series("mean_acceptance_length")
    for at, percent in claim.series("change_percent").items():
        speed = claim.given("speculative_tokens_per_second", at)
        sign = -1 if at.endswith("loss") else 1
        share, half = sign * percent.value / 100, percent.half / 100
        formula = f"{speed} / {1 + share:g}"
        steps.append(Step(f"plain speed behind {at}", formula, speed.value / (1 + share), "tokens/s", (speed, percent)))
        spans.append((speed.low / (1 + share + half), speed.high / (1 + share - half)))
        length = lengths.get(at)
        found.append(Speed(at, speed.value, batch_of(claim, at), True, length.value if length else None))
        if length is not None:
            steps.append(
                Step(f"plain passes that a round costs, {at}", f"{length} / {1 + share:g}", length.value / (1 + share),
                     "x", (length, percent))
            )  # fmt: skip
    (low, high), (other_low, other_high) = spans
    if low > other_high or other_low > high:
        said = (
            f"the two percentages rest on different plain speeds: {low:.1f} to {high:.1f} and "
            f"{other_low:.1f} to {other_high:.1f} tokens/s"
        )
        return Worked(tuple(steps), "against", said, tuple(found))
    return Worked(tuple(steps), "agrees", "both percentages rest on one plain speed", tuple(found))


def verify_share(claim: Claim, table: ClaimTable) -> Worked:
    """Amdahl: what drafting at no cost at all could still give, where verification takes such a share of the time."""
    steps = tuple(
        Step(f"gain left in the draft, {at}", f"1 / {given.value / 100:g}", 100 / given.value, "x", (given,))
        for at, given in claim.series("verify_percent").items()
    )
    return Worked(steps, "silent", "a share of measured times; it bounds what a faster draft can add")


def baseline_choice(claim: Claim, table: ClaimTable) -> Worked:
    """How much of a speed-up is the choice of what it is measured against."""
    fair, *others = claim.series("speedup").values()
    steps = tuple(quotient(f"from the baseline alone, {other.at}", other, fair) for other in others)
    return Worked(steps, "silent", "its own page prints both baselines; compare with an equally compiled one")


def rate_as_alpha(claim: Claim, table: ClaimTable) -> Worked:
    """A figure called alpha that is accepted / proposed, which two printed figures give away."""
    worked = speedup_from_times(claim, table)
    rate, accepted, drafted = claim.given("rate"), claim.given("accepted_per_round"), claim.given("k")
    k = int(drafted.value)
    product = rate.value * k
    steps = (
        *worked.steps,
        Step("accepted a round, were the rate accepted / proposed", f"{rate.value:g} x {k}", product, "tokens",
             (rate, drafted)),
        Step("alpha behind that rate", f"alpha where (alpha + ... + alpha^{k}) / {k} = {rate.value:g}",
             alpha_from_rate(rate.value, k), "", (rate, drafted)),
    )  # fmt: skip
    if worked.says != "agrees":
        return Worked(steps, worked.says, worked.why, worked.speeds)
    if within_rounding(accepted, rate.low * k, rate.high * k):
        why = f"{worked.why}; its alpha of {rate.value:g} is accepted / proposed, as {accepted.value:g} of {k} tells"
        return Worked(steps, "agrees", why, worked.speeds)
    return Worked(steps, "agrees", worked.why, worked.speeds)


def range_printed(claim: Claim, table: ClaimTable) -> Worked:
    """A range over tasks and models: how far its ends are apart."""
    low, high = claim.given("speedup", "lowest"), claim.given("speedup", "highest")
    return Worked((quotient("highest over lowest", high, low),), "silent", "a range over tasks and models")
