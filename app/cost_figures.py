"""What tokens cost at a price an hour and a speed: the sums of `specscope cost`, each with its formula."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from pricing.cells import finite
from pricing.columns import column
from pricing.cost import SECONDS_PER_HOUR
from pricing.demand import HOURS_PER_MONTH, first, fleet, split_seconds
from pricing.service_level import TOLERANCE, queue_limit
from pricing.tokens import TokenCosts, token_costs

# What does nothing without another, by the command's names.
_NEEDS = {
    "--peak-factor": "--requests-per-second", "--busy-limit": "--requests-per-second",
    "--spare-replicas": "--requests-per-second", "--p95-target": "--requests-per-second",
    "--requests-at-once": "--p95-target", "--turns": "--output-tokens", "--cached-share": "--input-tokens",
    "--cached-cost-share": "--cached-share",
}  # fmt: skip
_MOST_REPLICAS = 1e9


@dataclass(frozen=True)
class Work:
    """One request: tokens, seconds of a replica that each part takes. Parts that nobody gave are None."""

    input_tokens: float | None = None
    output_tokens: float | None = None
    cached_share: float = 0.0
    cached_cost_share: float = 0.1


@dataclass(frozen=True)
class Given:
    """per_hour: of one GPU. *_tokens_per_second: of one replica of `gpus` GPUs, all its requests together.
    billed_hours_share: share of all hours that are billed; all work is done in them. busy: share of the billed hours;
    or requests_per_second, a mean over all hours, which it follows from. p95_target_s: may lower busy_limit, as in a
    scenario. None is what was not given."""

    per_hour: float
    gpus: int
    output_tokens_per_second: float
    input_tokens_per_second: float | None = None
    work: Work = Work()
    busy: float | None = None
    requests_per_second: float | None = None
    peak_factor: float = 1.0
    busy_limit: float = 0.7
    spare_replicas: int = 0
    p95_target_s: float | None = None
    requests_at_once: int = 1
    billed_hours_share: float = 1.0
    turns: float = 1.0
    english_tokens_per_word: float | None = None
    turkish_tokens_per_word: float | None = None


@dataclass(frozen=True)
class Figures:
    """Money in the currency of the price. None: cannot be told from what was given. busy_share, of all replicas in the
    billed hours, is an output where it follows from demand. per_month: of all replicas. costs: of one billed hour."""

    per_replica_hour: float
    replicas: int
    busy_share: float
    seconds_per_request: float | None
    per_month: float
    costs: TokenCosts
    formula: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """All on one level."""
        told = asdict(self)
        costs = told.pop("costs")
        del costs["total"]
        return {**told, **costs}


def figures(given: Given) -> Figures:
    """Raises ValueError with a sentence for what no cost follows from, OverflowError for what floats do not hold."""
    _check(given)
    hourly = _held(given.per_hour * given.gpus)
    formula = [f"a replica costs {given.per_hour:g} x {given.gpus} GPU = {hourly:g} an hour"]
    parts = _seconds(given)
    seconds = _held(sum(parts)) if parts is not None else None
    if parts is not None and seconds is not None:
        formula.append(_told_seconds(given, seconds))
    replicas, busy = _fleet(given, seconds, formula)
    bill = _held(hourly * replicas)
    words = (given.english_tokens_per_word, given.turkish_tokens_per_word)
    if parts is None or seconds is None:
        written = _held(given.output_tokens_per_second * SECONDS_PER_HOUR * busy)
        formula.append(
            f"1M output tokens: {hourly:g} / ({given.output_tokens_per_second:g} tokens/s x {SECONDS_PER_HOUR} s x "
            f"{busy:g} busy) x 1,000,000; all of the bill on output"
        )
        costs = _costs(bill, (0.0, 0.0, 1.0), (0.0, 0.0, written), 0.0, given.turns, words)
        # Nothing is known of a request, nor of what else than output it has.
        costs = replace(costs, per_million_output=None, blended_per_million=None)
    else:
        work, requests = given.work, _held(replicas * SECONDS_PER_HOUR * busy / seconds)
        read, written = work.input_tokens or 0.0, work.output_tokens or 0.0
        cached = read * work.cached_share
        tokens = (requests * (read - cached), requests * cached, requests * written)
        costs = _costs(bill, parts, tokens, requests, given.turns, words)
        if given.turns == 1:
            costs = replace(costs, per_conversation=None)
        formula.append(
            f"a billed hour has {requests:g} requests: {replicas} x {SECONDS_PER_HOUR} s x {busy:g} busy / "
            f"{seconds:g} s"
        )
        formula.append(f"a request: {bill:g} / {requests:g}; a part of it costs what its share of the seconds is")
    _held(costs.per_million_output_alone)
    month = _held(bill * HOURS_PER_MONTH * given.billed_hours_share)
    formula.append(
        f"a month: {hourly:g} x {replicas} x {HOURS_PER_MONTH:g} hours x {given.billed_hours_share:g} billed = "
        f"{month:g}" + _told_share(given)
    )
    return Figures(hourly, replicas, busy, seconds, month, costs, tuple(formula))


def check_used(options: Mapping[str, object]) -> None:
    """options: by name, None where one was not given. Raises ValueError for one that does nothing without another."""
    for name, needed in _NEEDS.items():
        if options.get(name) is not None and options.get(needed) is None:
            raise ValueError(f"{name} does nothing without {needed}; give both, or leave it out")


def _held(value: float | None) -> float:
    if value is None or not math.isfinite(value) or value <= 0:
        raise OverflowError
    return value


def _costs(
    bill: float,
    seconds: tuple[float, float, float],
    tokens: tuple[float, float, float],
    requests: float,
    turns: float,
    words: tuple[float | None, float | None],
) -> TokenCosts:
    """seconds, tokens: of input, cached input, output."""
    return token_costs(
        bill, input_s=seconds[0], cached_input_s=seconds[1], output_s=seconds[2], input_tokens=tokens[0],
        cached_input_tokens=tokens[1], output_tokens=tokens[2], requests=requests, turns_per_conversation=turns,
        english_tokens_per_word=words[0], turkish_tokens_per_word=words[1],
    )  # fmt: skip


def _told_share(given: Given) -> str:
    if given.billed_hours_share == 1:
        return ""
    if given.requests_per_second is None:
        return "; the busy share is of the billed hours, so a token costs the same"
    return "; all requests come in the billed hours, so a token costs less where the fleet is busier"


def _check(given: Given) -> None:
    work = given.work
    positive: dict[str, Any] = {
        "--per-hour": given.per_hour, "--output-tokens-per-second": given.output_tokens_per_second,
        "--input-tokens-per-second": given.input_tokens_per_second, "--input-tokens": work.input_tokens,
        "--output-tokens": work.output_tokens, "--requests-per-second": given.requests_per_second,
        "--english-tokens-per-word": given.english_tokens_per_word,
        "--turkish-tokens-per-word": given.turkish_tokens_per_word, "--p95-target": given.p95_target_s,
    }  # fmt: skip
    for name, value in positive.items():
        if value is not None and ((number := finite(value)) is None or number <= 0):
            raise ValueError(f"{name} must be a number above 0, not {value:g}")
    whole = {"--gpus": (given.gpus, 1), "--spare-replicas": (given.spare_replicas, 0),
             "--requests-at-once": (given.requests_at_once, 1)}  # fmt: skip
    for name, (number, least) in whole.items():
        if not least <= number <= _MOST_REPLICAS:
            raise ValueError(f"{name} must be at least {least} and at most a billion, not {number}")
    shares = {"--busy": given.busy, "--busy-limit": given.busy_limit, "--billed-hours-share": given.billed_hours_share}
    for name, value in shares.items():
        if value is not None and not 0 < value <= 1:
            raise ValueError(f"{name} is a share above 0 and at most 1 (0.25 is a quarter), not {value:g}")
    for name, value in {"--cached-share": work.cached_share, "--cached-cost-share": work.cached_cost_share}.items():
        if not 0 <= value <= 1:
            raise ValueError(f"{name} is a share from 0 to 1 (0.25 is a quarter), not {value:g}")
    for name, value in {"--peak-factor": given.peak_factor, "--turns": given.turns}.items():
        if finite(value) is None or value < 1:
            raise ValueError(f"{name} must be a number of at least 1, not {value:g}")
    if given.busy is not None and given.requests_per_second is not None:
        raise ValueError("give --busy or --requests-per-second, not both: the busy share follows from the requests")
    if (work.input_tokens is None) != (given.input_tokens_per_second is None):
        raise ValueError("--input-tokens and --input-tokens-per-second go together; give both or neither")
    if work.input_tokens is not None and work.output_tokens is None:
        raise ValueError("--input-tokens needs --output-tokens: the bill is split by the time of both")


def _seconds(given: Given) -> tuple[float, float, float] | None:
    """Of a replica, that a request takes: input, cached input, output. None without the tokens of a request."""
    work = given.work
    if work.output_tokens is None:
        return None
    made = split_seconds(
        work.input_tokens or 0.0, work.cached_share, work.cached_cost_share,
        given.input_tokens_per_second or 1.0,  # without input tokens there is no reading speed, and nothing to read
        work.output_tokens, given.output_tokens_per_second,
    )  # fmt: skip
    return made.input, made.cached_input, made.output


def _told_seconds(given: Given, seconds: float) -> str:
    work = given.work
    told = f"{work.output_tokens:g} output tokens / {given.output_tokens_per_second:g} a second"
    if work.input_tokens is not None:
        told = f"{work.input_tokens:g} input tokens / {given.input_tokens_per_second:g} a second + {told}"
    if work.cached_share:
        told += f", {work.cached_share:g} of the input cached at {work.cached_cost_share:g} of its time"
    return f"a request takes {seconds:g} s of a replica: {told}"


def _fleet(given: Given, seconds: float | None, formula: list[str]) -> tuple[int, float]:
    """Whole replicas, and how busy they are on the mean of the billed hours."""
    if given.requests_per_second is None:
        busy = 1.0 if given.busy is None else given.busy
        formula.append(f"busy share {busy:g} of the billed hours, " + ("as given" if given.busy else "assumed"))
        return 1, busy
    if seconds is None:
        raise ValueError("--requests-per-second needs --output-tokens: how much work a request is")
    limit = _limit(given, seconds, formula)
    rate = _held(given.requests_per_second / given.billed_hours_share)
    if given.billed_hours_share < 1:
        formula.append(
            f"in the billed hours: {given.requests_per_second:g} requests/s / {given.billed_hours_share:g} of all "
            f"hours = {rate:g} requests/s"
        )
    found = fleet(_held(rate * seconds), given.peak_factor, limit, given.spare_replicas)
    if not found.replicas <= _MOST_REPLICAS:
        raise ValueError("that takes more than a billion replicas; check the requests and the speeds")
    replicas, spare = int(found.replicas), f", and {given.spare_replicas} spare" if given.spare_replicas else ""
    formula.append(
        f"replicas: {rate:g} requests/s x {seconds:g} s x {given.peak_factor:g} (peak) / {limit:g} (limit), rounded up "
        f"to {int(found.serving)}{spare}; busy share {rate:g} x {seconds:g} / {replicas} = {found.busy_share:g}"
    )
    return replicas, _held(found.busy_share)


def _limit(given: Given, seconds: float, formula: list[str]) -> float:
    """How busy a replica may be in the busiest hour."""
    target, places = given.p95_target_s, given.requests_at_once
    if target is None:
        return given.busy_limit
    alone = places * seconds
    if alone > target * (1 + TOLERANCE):
        raise ValueError(
            f"at {given.output_tokens_per_second:g} output tokens/s a request takes {alone:g} s where it waits for "
            f"nobody, so no fleet keeps P95 in {target:g} s"
        )
    limit = first(queue_limit(column([target]), places, column([seconds]), column([given.busy_limit])))
    formula.append(
        f"limit {limit:g}: {given.busy_limit:g} at most, and by Erlang's formula 95 % of the requests, {places} at "
        f"once and {alone:g} s each, take no longer than {target:g} s"
    )
    return limit
