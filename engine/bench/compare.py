"""Baseline against speculation: the same prompts, weights and device, interleaved, as a ratio with its interval."""

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.bench.race import race
from engine.bench.suites import BenchPrompt
from engine.decode import Generation
from engine.pair import Pair
from engine.settings import DecodeSettings
from engine.stats import Stats, pool_stats
from engine.text import Prompt

RESAMPLES = 2000
WARM_UP_TOKENS = 8
ALL = "all"


@dataclass(frozen=True, slots=True)
class ArmResult:
    """One arm over one category ("all" is the whole suite).

    seconds: the engine's own, prompts read included. ratio: baseline seconds a token / this arm's; above 1 is faster.
    interval: 95% of the ratio under resampling of whole prompts, None below two prompts. spread: lowest and highest
    ratio of a single run. n: runs.
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

    def as_dict(self) -> dict[str, Any]:
        values = {f: getattr(self, f) for f in self.__slots__}
        return {
            **values,
            "interval": list(self.interval) if self.interval else None,
            "spread": list(self.spread) if self.spread else None,
            "stats": self.stats.as_dict(),
        }


@dataclass(frozen=True, slots=True)
class Sample:
    """One prompt, decoded both ways in lock-step."""

    category: str
    prompt: int
    plain: Generation
    speculative: Generation

    @property
    def ratio(self) -> float | None:
        return _ratio([self])


@dataclass(frozen=True, slots=True)
class Comparison:
    """arms: for each category and for "all", plain and speculative. complete: False when it was stopped early."""

    samples: tuple[Sample, ...]
    drafter: str
    complete: bool

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
        """One line in words: faster, slower, or no difference that this many prompts could show."""
        ratio, interval = self.speedup, self.speculative.interval
        if ratio is None:
            return "nothing was measured"
        if interval is None:
            return f"{ratio:.2f}x, from too few prompts for an interval"
        span = f"{ratio:.2f}x ({interval[0]:.2f} to {interval[1]:.2f})"
        if interval[0] > 1:
            return f"{span}: faster"
        return f"{span}: slower" if interval[1] < 1 else f"{span}: no difference"

    def arm(self, name: str, category: str = ALL) -> ArmResult:
        samples = [s for s in self.samples if category in (ALL, s.category)]
        plain = name == "plain"
        runs = [s.plain if plain else s.speculative for s in samples]
        stats = pool_stats([(g.trace.steps, len(g.trace.prompt_token_ids)) for g in runs])
        ratios = [1.0 if plain else r for s in samples if (r := s.ratio) is not None]
        return ArmResult(
            name=name,
            category=category,
            n=len(runs),
            output_tokens=stats.output_tokens,
            seconds=stats.e2e_s,
            output_tokens_per_second=stats.output_tokens_per_second,
            ratio=(1.0 if plain else _ratio(samples)) if stats.output_tokens else None,
            interval=None if plain else _bootstrap(samples),
            spread=(min(ratios), max(ratios)) if ratios else None,
            stats=stats,
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
    both arms emit the same tokens; above it the ratio is per token.
    """
    settings = settings or DecodeSettings()
    cancel = cancel or threading.Event()
    rows = [p if isinstance(p, BenchPrompt) else BenchPrompt(ALL, p) for p in prompts]  # type: ignore[arg-type]
    total = len(rows) * repeats
    samples: list[Sample] = []
    if rows:
        _decode_both(pair, rows[0], replace(settings, max_new_tokens=WARM_UP_TOKENS), drafter, verifier, cancel, 0)
    for repeat in range(repeats):
        for at, row in enumerate(rows):
            seeded = settings if settings.seed is None else replace(settings, seed=settings.seed + repeat)
            sample = _decode_both(pair, row, seeded, drafter, verifier, cancel, at)
            if cancel.is_set():
                return Comparison(tuple(samples), drafter, complete=False)
            samples.append(sample)
            if progress:
                progress(len(samples), total)
    return Comparison(tuple(samples), drafter, complete=True)


def _decode_both(
    pair: Pair,
    row: BenchPrompt,
    settings: DecodeSettings,
    drafter: str,
    verifier: str,
    cancel: threading.Event,
    at: int,
) -> Sample:
    both = race(pair, row.prompt, settings, drafter, verifier, cancel)
    for _ in both:
        pass
    return Sample(row.category, at, both.plain.generation, both.speculative.generation)


def _ratio(samples: Sequence[Sample]) -> float | None:
    """Seconds a token, plain over speculative, of the totals."""
    plain = [s.plain.stats for s in samples]
    fast = [s.speculative.stats for s in samples]
    plain_tokens, fast_tokens = sum(s.output_tokens for s in plain), sum(s.output_tokens for s in fast)
    plain_s, fast_s = sum(s.e2e_s for s in plain), sum(s.e2e_s for s in fast)
    if not plain_tokens or not fast_tokens or fast_s <= 0:
        return None
    return (plain_s / plain_tokens) / (fast_s / fast_tokens)


def _bootstrap(samples: Sequence[Sample]) -> tuple[float, float] | None:
    """95% percentile interval of the ratio of totals, whole prompts resampled (repeats of one prompt are not
    independent of each other)."""
    groups: dict[int, list[Sample]] = {}
    for s in samples:
        groups.setdefault(s.prompt, []).append(s)
    if len(groups) < 2:
        return None
    pools = list(groups.values())
    pick = random.Random(0)
    ratios = sorted(
        r
        for _ in range(RESAMPLES)
        if (r := _ratio([s for group in pick.choices(pools, k=len(pools)) for s in group])) is not None
    )
    return (ratios[int(0.025 * len(ratios))], ratios[int(0.975 * len(ratios))]) if ratios else None
