"""The figures: tokens per second, ratio to the baseline with its interval, and what the arms said of themselves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.bench.compare import ratio_interval
from engine.bench.peers.base import PeerRun
from engine.bench.suites import ALL
from engine.prefix import common_prefix


@dataclass(frozen=True, slots=True)
class Skipped:
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class ArmLabel:
    name: str
    weights: str
    threads: int | None
    step_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """One round: one prompt, decoded by every arm. runs: only those with exactly the wanted number of ids. unequal:
    for the others, how many ids there were; they count for nothing."""

    category: str
    prompt: int
    runs: Mapping[str, PeerRun]
    unequal: Mapping[str, int]

    @classmethod
    def of(cls, category: str, prompt: int, runs: Mapping[str, PeerRun], wanted: int) -> "Sample":
        equal = {name: run for name, run in runs.items() if len(run.token_ids) == wanted}
        return cls(category, prompt, equal, {n: len(r.token_ids) for n, r in runs.items() if n not in equal})


@dataclass(frozen=True, slots=True)
class PeerResult:
    """One arm over one category ("all" is the whole suite).

    seconds: its own runs. ratio: the baseline's seconds / this arm's on the rounds that both finished, which is the
    ratio of seconds a token, since each emits equally many; above 1 is faster. interval: 95%, whole prompts resampled.
    limit_tokens_per_second: what the memory allows at one token a step, its bandwidth over the weights that a step
    reads; a good draft may pass it. None where either is not known.
    """

    name: str
    category: str
    weights: str
    threads: int | None
    n: int
    output_tokens: int
    seconds: float
    output_tokens_per_second: float | None
    ratio: float | None
    interval: tuple[float, float] | None
    limit_tokens_per_second: float | None
    stats: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        values = {f: getattr(self, f) for f in self.__slots__}
        return {**values, "interval": list(self.interval) if self.interval else None}


@dataclass(frozen=True, slots=True)
class PeerReport:
    """complete: False when it was stopped early; the finished rounds are reported. bytes_per_second: what was seen to
    be read from memory, for each number of bytes that a step of some arm reads; empty when that was not measured."""

    samples: tuple[Sample, ...]
    labels: tuple[ArmLabel, ...]
    skipped: tuple[Skipped, ...]
    baseline: str
    complete: bool
    max_new_tokens: int
    bytes_per_second: Mapping[int, float] = field(default_factory=dict)

    @property
    def categories(self) -> list[str]:
        return [*dict.fromkeys(s.category for s in self.samples if s.category != ALL), ALL]

    @property
    def arms(self) -> list[PeerResult]:
        return [self.arm(a.name, c) for c in self.categories for a in self.labels] if self.samples else []

    def arm(self, name: str, category: str = ALL) -> PeerResult:
        label = next(a for a in self.labels if a.name == name)
        samples = [s for s in self.samples if category in (ALL, s.category)]
        runs = [s.runs[name] for s in samples if name in s.runs]
        tokens, seconds = sum(len(r.token_ids) for r in runs), sum(r.seconds for r in runs)
        shared = [s for s in samples if name in s.runs and self.baseline in s.runs]
        times = [(s.prompt, s.runs[self.baseline].seconds, s.runs[name].seconds) for s in shared]
        same = name == self.baseline
        return PeerResult(
            name=name,
            category=category,
            weights=label.weights,
            threads=label.threads,
            n=len(runs),
            output_tokens=tokens,
            seconds=seconds,
            output_tokens_per_second=tokens / seconds if tokens and seconds > 0 else None,
            ratio=ratio_of_totals(times),
            interval=((1.0, 1.0) if same else interval_of_ratio(times)) if times else None,
            limit_tokens_per_second=self.bytes_per_second[label.step_bytes] / label.step_bytes
            if label.step_bytes and label.step_bytes in self.bytes_per_second
            else None,
            stats=self._stats(name, samples, runs, shared),
        )

    @property
    def beside(self) -> str | None:
        """What llama.cpp does beside our fastest arm, in one sentence; None unless both ran."""
        speeds = {a.name: (a.output_tokens_per_second or 0.0, a.weights) for a in self.arms if a.category == ALL}
        theirs = {n: v for n, v in speeds.items() if n.startswith("llama.cpp")}
        ours = {n: v for n, v in speeds.items() if n.startswith("specscope")}
        if not theirs or not ours:
            return None
        (their, (their_speed, their_weights)), (our, (our_speed, _)) = (
            max(group.items(), key=lambda item: item[1][0]) for group in (theirs, ours)
        )
        if their_speed <= 0 or our_speed <= 0:
            return None
        return (
            f"{their} ({their_weights}) decodes {their_speed:.1f} tokens/s here and {our} {our_speed:.1f}, "
            f"{our_speed / their_speed:.2f}x of it"
        )

    def _stats(self, name: str, samples: Sequence[Sample], runs: list[PeerRun], shared: list[Sample]) -> dict[str, Any]:
        first = [r.ttft_s for r in runs if r.ttft_s is not None]
        timed = [r for r in runs if r.ttft_s is not None and len(r.token_ids) > 1]
        after = sum(len(r.token_ids) - 1 for r in timed)
        counts = {
            k: sum(r.counts.get(k, 0) for r in runs) if any(k in r.counts for r in runs) else None
            for k in ("proposed", "accepted", "target_forwards")
        }
        tokens = sum(len(r.token_ids) for r in runs)
        pairs = [(s.runs[self.baseline].token_ids, s.runs[name].token_ids) for s in shared]
        alike = sum(common_prefix(a, b) for a, b in pairs)
        notes = [r.note for r in runs if r.note]
        unequal = sum(name in s.unequal for s in samples)
        if unequal:
            notes.append(f"{unequal} of {len(samples)} runs emitted another number of ids and are left out")
        return {
            "ttft_s": sum(first) / len(first) if first else None,
            "tpot_s": sum(r.seconds - (r.ttft_s or 0.0) for r in timed) / after if after else None,
            **counts,
            "draft_acceptance_rate": counts["accepted"] / counts["proposed"]
            if counts["proposed"] and counts["accepted"] is not None
            else None,
            "tokens_per_target_forward": tokens / counts["target_forwards"] if counts["target_forwards"] else None,
            # Other weights or arithmetic part at near ties; a broken engine parts at once.
            "runs_with_ids_of_baseline": sum(a == b for a, b in pairs) if pairs else None,
            "share_of_ids_before_first_difference": alike / sum(len(a) for a, _ in pairs) if pairs else None,
            "unequal_runs": unequal,
            "notes": list(dict.fromkeys(notes)),
        }


def ratio_of_totals(times: Sequence[tuple[int, float, float]]) -> float | None:
    """Baseline seconds / arm seconds, of the totals. times: (prompt, baseline, arm) each round."""
    arm = sum(own for _, _, own in times)
    return sum(base for _, base, _ in times) / arm if arm > 0 else None


def interval_of_ratio(times: Sequence[tuple[int, float, float]]) -> tuple[float, float] | None:
    """95% percentile interval of the ratio of totals. Whole prompts are resampled, and within each its rounds, since
    the repeats of one prompt depend on each other. None with a single round: there is nothing to resample."""
    prompts: dict[int, list[tuple[float, float]]] = {}
    for prompt, base, own in times:
        prompts.setdefault(prompt, []).append((base, own))
    return ratio_interval([*prompts.values()])
