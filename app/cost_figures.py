"""What tokens cost at a price an hour and a speed: the sums of `specscope cost`, each with its formula."""

from dataclasses import dataclass
from typing import Any

from pricing.cells import finite
from pricing.columns import ceiling
from pricing.cost import SECONDS_PER_HOUR, per_million_tokens
from pricing.demand import split_seconds
from pricing.tokens import token_costs


@dataclass(frozen=True)
class Work:
    """One request: tokens, seconds of a replica that each part takes. Parts that nobody gave are None."""

    input_tokens: float | None = None
    output_tokens: float | None = None
    cached_share: float = 0.0
    cached_cost_share: float = 0.1


@dataclass(frozen=True)
class Given:
    """per_hour: of one GPU. *_tokens_per_second: of one replica of `gpus` GPUs, all its requests together. busy: share
    of the billed hours; or requests_per_second, which it follows from. None is what was not given."""

    per_hour: float
    gpus: int
    output_tokens_per_second: float
    input_tokens_per_second: float | None = None
    work: Work = Work()
    busy: float | None = None
    requests_per_second: float | None = None
    peak_factor: float = 1.0
    busy_limit: float = 0.7
    turns: float = 1.0
    english_tokens_per_word: float | None = None
    turkish_tokens_per_word: float | None = None


@dataclass(frozen=True)
class Figures:
    """Money in the currency of the price. None: cannot be told from what was given. busy_share is an output where it
    follows from demand."""

    per_replica_hour: float
    replicas: int
    busy_share: float
    seconds_per_request: float | None
    per_million_input: float | None
    per_million_cached_input: float | None
    per_million_output: float | None
    per_million_output_alone: float | None
    blended_per_million: float | None
    per_request: float | None
    per_conversation: float | None
    per_1000_words_english: float | None
    per_1000_words_turkish: float | None
    formula: tuple[str, ...]


def figures(given: Given) -> Figures:
    """Raises ValueError with a sentence for what no cost follows from."""
    _check(given)
    work = given.work
    hourly = given.per_hour * given.gpus
    formula = [f"a replica costs {given.per_hour:g} x {given.gpus} GPU = {hourly:g} an hour"]
    parts = _seconds(given)
    seconds = sum(parts) if parts is not None else None
    if seconds is not None:
        formula.append(_told_seconds(given, parts or (), seconds))
    replicas, busy = _fleet(given, seconds, formula)
    bill = hourly * replicas
    alone = per_million_tokens(hourly, given.output_tokens_per_second, busy) if parts is None else None
    if parts is None or seconds is None:
        formula.append(
            f"1M output tokens: {hourly:g} / ({given.output_tokens_per_second:g} tokens/s x {SECONDS_PER_HOUR} s x "
            f"{busy:g} busy) x 1,000,000; all of the bill on output"
        )
        by_words = [
            None if each is None or alone is None else alone * each * 1000 / 1e6
            for each in (given.english_tokens_per_word, given.turkish_tokens_per_word)
        ]
        nothing = (None,) * 4  # of a request nothing is known, nor of what else than output it has
        return Figures(hourly, replicas, busy, *nothing, alone, None, None, None, *by_words, tuple(formula))
    requests = replicas * SECONDS_PER_HOUR * busy / seconds
    read, written = work.input_tokens or 0.0, work.output_tokens or 0.0
    cached = read * work.cached_share
    costs = token_costs(
        bill, input_s=parts[0], cached_input_s=parts[1], output_s=parts[2],
        input_tokens=requests * (read - cached), cached_input_tokens=requests * cached,
        output_tokens=requests * written, requests=requests, turns_per_conversation=given.turns,
        english_tokens_per_word=given.english_tokens_per_word, turkish_tokens_per_word=given.turkish_tokens_per_word,
    )  # fmt: skip
    formula.append(
        f"an hour has {requests:g} requests: {replicas} x {SECONDS_PER_HOUR} s x {busy:g} busy / {seconds:g} s"
    )
    formula.append(f"a request: {bill:g} / {requests:g}; a part of it costs what its share of the seconds is")
    return Figures(
        hourly, replicas, busy, seconds, costs.per_million_input, costs.per_million_cached_input,
        costs.per_million_output, costs.per_million_output_alone, costs.blended_per_million, costs.per_request,
        costs.per_conversation if given.turns > 1 else None, costs.per_1000_words_english,
        costs.per_1000_words_turkish, tuple(formula),
    )  # fmt: skip


def _check(given: Given) -> None:
    work = given.work
    positive: dict[str, Any] = {
        "--per-hour": given.per_hour, "--output-tokens-per-second": given.output_tokens_per_second,
        "--input-tokens-per-second": given.input_tokens_per_second, "--input-tokens": work.input_tokens,
        "--output-tokens": work.output_tokens, "--requests-per-second": given.requests_per_second,
        "--english-tokens-per-word": given.english_tokens_per_word,
        "--turkish-tokens-per-word": given.turkish_tokens_per_word,
    }  # fmt: skip
    for name, value in positive.items():
        if value is not None and ((number := finite(value)) is None or number <= 0):
            raise ValueError(f"{name} must be a number above 0, not {value:g}")
    if given.gpus < 1:
        raise ValueError(f"--gpus must be at least 1, not {given.gpus}")
    for name, value in {"--busy": given.busy, "--busy-limit": given.busy_limit}.items():
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


def _told_seconds(given: Given, parts: tuple[float, ...], seconds: float) -> str:
    work = given.work
    told = f"{work.output_tokens:g} output tokens / {given.output_tokens_per_second:g} a second"
    if work.input_tokens is not None:
        told = f"{work.input_tokens:g} input tokens / {given.input_tokens_per_second:g} a second + {told}"
    if work.cached_share:
        told += f", {work.cached_share:g} of the input cached at {work.cached_cost_share:g} of its time"
    return f"a request takes {seconds:g} s of a replica: {told}"


def _fleet(given: Given, seconds: float | None, formula: list[str]) -> tuple[int, float]:
    """Whole replicas for the busiest hour, and how busy they are on the mean."""
    if given.requests_per_second is None:
        busy = 1.0 if given.busy is None else given.busy
        formula.append(f"busy share {busy:g} of the billed hours, " + ("as given" if given.busy else "assumed"))
        return 1, busy
    if seconds is None:
        raise ValueError("--requests-per-second needs --output-tokens: how much work a request is")
    at_work = given.requests_per_second * seconds
    needed = at_work * given.peak_factor / given.busy_limit
    if needed > 1e9:
        raise ValueError("that takes more than a billion replicas; check the requests and the speeds")
    replicas = max(1, int(ceiling(needed)))
    busy = at_work / replicas
    formula.append(
        f"replicas: {given.requests_per_second:g} requests/s x {seconds:g} s x {given.peak_factor:g} (peak) / "
        f"{given.busy_limit:g} (limit) = {needed:g}, so {replicas}; busy share "
        f"{given.requests_per_second:g} x {seconds:g} / {replicas} = {busy:g}"
    )
    return replicas, busy
