"""Baseline against speculation: the same prompts, weights and device, interleaved, as a ratio with its interval."""

import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from engine.bench.latency import Latency
from engine.bench.limit import MemoryLimit
from engine.bench.race import race
from engine.bench.suites import ALL, BenchPrompt
from engine.decode import Generation, Stream
from engine.energy import Meter, find_meter
from engine.errors import EngineError
from engine.pair import Pair
from engine.settings import DecodeSettings
from engine.stats import Stats, pool_stats, rounds
from engine.text import Prompt

RESAMPLES = 2000
# A step must be this many times as long as its meter's resolution for its joules to be its own.
STEPS_A_TICK = 5
WARM_UP_TOKENS = 8
# Below this many prompts, or within this share of 1, no verdict is given.
ENOUGH_PROMPTS = 5
SAME = 0.01


@dataclass(frozen=True, slots=True)
class ArmResult:
    """One arm over one category ("all" is the whole suite).

    seconds: the engine's own, prompts read included. ratio: baseline seconds / this arm's for the same tokens; above 1
    is faster. interval: 95% of the ratio when whole prompts are resampled (the rounds of a single prompt); None when
    there is nothing to resample. spread: lowest and highest ratio of a single run. n: runs. latency: percentiles.
    tokens_per_joule: None where the platform counts no energy. limit_fraction: the seconds in which the memory gives
    the weights that the steps behind the first read / the seconds they took; None when that was not measured.
    """

    name: str
    category: str
    n: int
    output_tokens: int
    seconds: float
    output_tokens_per_second: float | None
    ratio: float | None
    interval: tuple[float, float] | None
    spread: tuple[float, float] | None
    stats: Stats
    latency: Latency | None = None
    tokens_per_joule: float | None = None
    limit_fraction: float | None = None

    def as_dict(self) -> dict[str, Any]:
        values = {f: getattr(self, f) for f in self.__slots__}
        return {
            **values,
            "interval": list(self.interval) if self.interval else None,
            "spread": list(self.spread) if self.spread else None,
            "stats": self.stats.as_dict(),
            "latency": self.latency and self.latency.as_dict(),
        }


@dataclass(frozen=True, slots=True)
class Sample:
    """One prompt, decoded both ways in lock-step. rounds: see `engine.stats.rounds`. joules: of plain and of
    speculative decoding, None without a meter."""

    category: str
    prompt: int
    plain: Generation
    speculative: Generation
    rounds: tuple[tuple[float, float], ...]
    joules: tuple[float, float] | None = None

    @classmethod
    def of(
        cls,
        category: str,
        prompt: int,
        plain: Generation,
        speculative: Generation,
        joules: tuple[float, float] | None = None,
    ) -> "Sample":
        both = tuple(rounds(plain.trace.steps, speculative.trace.steps))
        return cls(category, prompt, plain, speculative, both, joules)


@dataclass(frozen=True, slots=True)
class Comparison:
    """arms: for each category and for "all", plain and speculative. complete: False when it was stopped early.
    settings: with the seed of the first repeat; each later repeat adds one. limit: what the memory allows. energy:
    what the joules count, in words; None without a meter."""

    samples: tuple[Sample, ...]
    drafter: str
    complete: bool
    settings: DecodeSettings
    limit: MemoryLimit | None = None
    energy: str | None = None

    @property
    def categories(self) -> list[str]:
        return [*dict.fromkeys(s.category for s in self.samples if s.category != ALL), ALL]

    @property
    def arms(self) -> list[ArmResult]:
        return [self.arm(name, c) for c in self.categories for name in ("plain", self.drafter)] if self.samples else []

    @property
    def plain(self) -> ArmResult:
        return self.arm("plain")

    @property
    def speculative(self) -> ArmResult:
        return self.arm(self.drafter)

    @property
    def speedup(self) -> float | None:
        """Plain seconds / speculative seconds for the same tokens; None with nothing measured."""
        return _ratio(self.samples)

    @property
    def verdict(self) -> str:
        """One line in words: faster, slower, or no difference that these prompts can show."""
        arm, ratio = self.speculative, self.speedup
        if ratio is None:
            return "nothing was measured"
        if not arm.stats.proposed:
            return f"{ratio:.2f}x: no difference, since no drafts were made"
        if arm.interval is None or len({s.prompt for s in self.samples}) < ENOUGH_PROMPTS:
            return f"{ratio:.2f}x, from too few prompts for a verdict"
        low, high = arm.interval
        span = f"({low:.2f} to {high:.2f})"
        if low > 1 + SAME:
            return f"{ratio:.2f}x faster {span}"
        return f"{ratio:.2f}x, slower {span}" if high < 1 - SAME else f"no difference: {ratio:.2f}x {span}"

    def arm(self, name: str, category: str = ALL) -> ArmResult:
        samples = [s for s in self.samples if category in (ALL, s.category)]
        plain = name == "plain"
        runs = [s.plain if plain else s.speculative for s in samples]
        stats = pool_stats([(g.trace.steps, len(g.trace.prompt_token_ids)) for g in runs])
        joules = [s.joules[0 if plain else 1] for s in samples if s.joules]
        ratios = [1.0 if plain else r for s in samples if (r := _ratio([s])) is not None]
        return ArmResult(
            name=name,
            category=category,
            n=len(runs),
            output_tokens=stats.output_tokens,
            seconds=stats.e2e_s,
            output_tokens_per_second=stats.output_tokens_per_second,
            ratio=(1.0 if plain else _ratio(samples)) if stats.output_tokens else None,
            interval=((1.0, 1.0) if plain else _bootstrap(samples)) if stats.output_tokens else None,
            spread=(min(ratios), max(ratios)) if ratios else None,
            stats=stats,
            latency=Latency.of([g.trace.steps for g in runs]),
            tokens_per_joule=stats.output_tokens / sum(joules) if sum(joules) > 0 else None,
            limit_fraction=self.limit.fraction(stats) if self.limit else None,
        )


def compare(
    pair: Pair,
    prompts: Sequence[Prompt | BenchPrompt],
    settings: DecodeSettings | None = None,
    drafter: str = "prompt_lookup",
    verifier: str = "rejection",
    repeats: int = 3,
    progress: Callable[[int, int], None] | None = None,
    cancel: threading.Event | None = None,
) -> Comparison:
    """Decode every prompt `repeats` times, plain and speculative in lock-step, after a warm-up that is dropped.

    progress(done, total) is called after each prompt. cancel: what is finished by then is reported. At temperature 0
    both arms emit the same tokens; above it each prompt counts up to where both arms are level.
    """
    if isinstance(prompts, str):
        raise EngineError("prompts is a list of prompts; put the one prompt into a list")
    if not isinstance(repeats, int) or isinstance(repeats, bool) or repeats < 1:
        raise EngineError(f"repeats must be a whole number of at least 1, not {repeats!r}")
    settings = settings or DecodeSettings()
    if settings.seed is None:
        settings = replace(settings, seed=secrets.randbits(32))
    cancel = cancel or threading.Event()
    rows = [p if isinstance(p, BenchPrompt) else BenchPrompt(ALL, p) for p in prompts]  # type: ignore[arg-type]
    for at, row in enumerate(rows):
        _check_prompt(pair, row, settings, drafter, verifier, at)
    samples: list[Sample] = []
    meter, limit = find_meter(pair.target.device), None
    energy = meter.source if meter else None
    if rows:
        _decode_both(pair, rows[0], replace(settings, max_new_tokens=WARM_UP_TOKENS), drafter, verifier, cancel, 0)
        limit = MemoryLimit.of(pair, drafter)
    for repeat in range(repeats):
        seeded = replace(settings, seed=((settings.seed or 0) + repeat) % 2**63)
        for at, row in enumerate(rows):
            sample = _decode_both(pair, row, seeded, drafter, verifier, cancel, at, (at + repeat) % 2 == 1, meter)
            if cancel.is_set():
                return Comparison(tuple(samples), drafter, False, settings, limit, energy)
            samples.append(sample)
            if progress:
                progress(len(samples), len(rows) * repeats)
    return Comparison(tuple(samples), drafter, True, settings, limit, energy)


def _check_prompt(pair: Pair, row: BenchPrompt, settings: DecodeSettings, drafter: str, verifier: str, at: int) -> None:
    """A prompt that cannot be decoded is named before the work begins, not in the middle of it."""
    try:
        Stream(pair, row.prompt, settings, drafter, verifier)
    except EngineError as error:
        raise EngineError(f"prompt {at + 1}: {error}") from error


def _decode_both(
    pair: Pair,
    row: BenchPrompt,
    settings: DecodeSettings,
    drafter: str,
    verifier: str,
    cancel: threading.Event,
    at: int,
    plain_leads: bool = False,
    meter: Meter | None = None,
) -> Sample:
    # Who goes first meets colder caches, so the arms take turns at it.
    both = race(pair, row.prompt, settings, drafter, verifier, cancel, plain_leads=plain_leads)
    joules = {"plain": 0.0, "speculative": 0.0}
    before = meter.read() if meter else 0.0
    for arm, _ in both:
        if meter:  # read at every change of arms: what lies between two readings is one arm's step
            now = meter.read()
            joules[arm] += now - before
            before = now
    plain, fast = both.plain.generation, both.speculative.generation
    # Steps shorter than the meter's own would be charged to whoever is being read when it ticks.
    told = meter is not None and _shortest_step_s(plain, fast) >= STEPS_A_TICK * meter.resolution_s
    return Sample.of(row.category, at, plain, fast, (joules["plain"], joules["speculative"]) if told else None)


def _shortest_step_s(*runs: Generation) -> float:
    return min((step.total_ms / 1e3 for run in runs for step in run.trace.steps), default=0.0)


def _ratio(samples: Sequence[Sample]) -> float | None:
    """Plain over speculative, of the totals for the same tokens."""
    return _of_totals([r for s in samples for r in s.rounds])


def _of_totals(times: Sequence[tuple[float, float]]) -> float | None:
    fast = sum(ms for _, ms in times)
    return sum(ms for ms, _ in times) / fast if fast > 0 else None


def _bootstrap(samples: Sequence[Sample]) -> tuple[float, float] | None:
    """95% percentile interval of the ratio of totals, on two levels: whole prompts are resampled, since repeats and
    rounds of one prompt depend on each other, and within each its rounds, since a few prompts alone would look surer
    than they are. None with a single round."""
    prompts: dict[int, list[tuple[float, float]]] = {}
    for s in samples:
        prompts.setdefault(s.prompt, []).extend(s.rounds)
    return ratio_interval([*prompts.values()])


def ratio_interval(prompts: Sequence[Sequence[tuple[float, float]]]) -> tuple[float, float] | None:
    """See `_bootstrap`. prompts[i]: the rounds of one prompt (or batch of prompts), each (plain, speculative)."""
    if sum(len(times) for times in prompts) < 2:
        return None
    pick = np.random.default_rng(0)
    totals = []  # for each prompt: RESAMPLES of its (plain, speculative) ms
    for times in prompts:
        rows = np.array(times)  # [rounds, 2]
        totals.append(rows[pick.integers(len(rows), size=(RESAMPLES, len(rows)))].sum(1))
    drawn = pick.integers(len(totals), size=(RESAMPLES, len(totals)))  # prompts of each resample
    sums = np.stack(totals)[drawn, np.arange(RESAMPLES)[:, None]].sum(1)  # [RESAMPLES, 2]
    low, high = np.quantile(sums[:, 0] / sums[:, 1], [0.025, 0.975])
    return float(low), float(high)
