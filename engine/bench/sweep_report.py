"""What a sweep found: predictions beside measurements, the best K of each batch, and where speculation stops paying.

Everything is made from the stored results, so a report read back says what the first one said.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from engine.bench.compare import ENOUGH_PROMPTS
from engine.bench.curves import DraftCurve, VerifyCurve
from engine.bench.predict import predicted_speedup
from engine.bench.quantization_report import QuantizationRow, quantization_rows
from engine.bench.sweep_plan import SweepPlan, Task
from engine.theory import best_k_of, break_even_batch

BASELINE = "plain"
SCHEMA = "specscope.sweep"


@dataclass(frozen=True, slots=True)
class Point:
    """One place of the grid. ratio: plain / speculative seconds for the same tokens, prompts read included;
    decode_ratio: the same behind the first token, the one that `predicted` speaks of. failed: what it died of."""

    quantization: str
    drafter: str
    temperature: float
    batch: int
    k: int
    failed: str | None
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    decode_ratio: float | None = None
    predicted: float | None = None
    mean_acceptance_length: float | None = None
    alpha: float | None = None
    drafted_share: float | None = None
    tokens_per_second: float | None = None
    plain_tokens_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class BestK:
    """k: what to use at this batch; 0 is plain decoding, where nothing was faster. at_k: the fastest K that was
    measured, with its ratio. sure: the interval leaves out 1, and what it resamples (prompts, or whole batches) is
    enough to say so. predicted_k, predicted: the best of every K up to the widest measured, by theory on the measured
    curves, behind the first token."""

    quantization: str
    drafter: str
    temperature: float
    batch: int
    k: int
    at_k: int
    ratio: float
    interval: tuple[float, float] | None
    sure: bool
    predicted_k: int | None
    predicted: float | None


@dataclass(frozen=True, slots=True)
class BreakEven:
    """batch: the smallest measured at which no K is faster than plain decoding; None: not reached. predicted: the
    same by theory on the measured curves. up_to: the largest batch that was measured. unsure: batches, up to the one
    that decides, whose fastest K may be faster than plain decoding or not: its interval spans 1."""

    quantization: str
    drafter: str
    temperature: float
    batch: int | None
    predicted: int | None
    up_to: int
    unsure: tuple[int, ...] = ()

    @property
    def words(self) -> str:
        found = f"not reached up to batch {self.up_to}" if self.batch is None else f"batch {self.batch}"
        theory = f"not up to batch {self.up_to}" if self.predicted is None else f"batch {self.predicted}"
        doubt = f"; the 95% interval spans 1 at batch {', '.join(map(str, self.unsure))}" if self.unsure else ""
        return f"{found} (predicted: {theory}){doubt}"


@dataclass(frozen=True)
class SweepReport:
    """results: payloads by `Task.key`. resumed: how many of them were found in the store. prompts: how many."""

    plan: SweepPlan
    results: Mapping[str, Any]
    pair: dict[str, Any]
    environment: dict[str, Any]
    run_id: str | None
    started_at: str
    prompts: int
    label: str = ""
    resumed: int = 0
    points: list[Point] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "points", [self._point(t) for t in self._tasks("point") if t.key in self.results])

    @property
    def complete(self) -> bool:
        return all(t.key in self.results for t in self.plan.tasks)

    @property
    def left(self) -> int:
        return sum(t.key not in self.results for t in self.plan.tasks)

    @property
    def failures(self) -> list[tuple[str, str]]:
        """(what, the sentence that it died of)."""
        return [(key, r["failed"]) for key, r in self.results.items() if r.get("failed")]

    @cached_property
    def verify_curves(self) -> dict[tuple[str, int], VerifyCurve]:
        """By (quantization, batch)."""
        found = ((t, self._result(t)) for t in self._tasks("verify"))
        return {(t.quantization, t.batch or 0): VerifyCurve.from_dict(r) for t, r in found if r}

    @cached_property
    def draft_curves(self) -> dict[tuple[str, str, int], DraftCurve]:
        """By (quantization, drafter, batch)."""
        found = ((t, self._result(t)) for t in self._tasks("draft"))
        return {(t.quantization, t.drafter or "", t.batch or 0): DraftCurve.from_dict(r) for t, r in found if r}

    @cached_property
    def best_k(self) -> list[BestK]:
        places = dict.fromkeys((p.quantization, p.drafter, p.temperature, p.batch) for p in self.points)
        return [best for place in places if (best := self._best(*place)) is not None]

    @cached_property
    def break_even(self) -> list[BreakEven]:
        found = []
        for q, d, t in dict.fromkeys((b.quantization, b.drafter, b.temperature) for b in self.best_k):
            here = {b.batch: b for b in self.best_k if (b.quantization, b.drafter, b.temperature) == (q, d, t)}
            theory = {b: best.predicted for b, best in here.items() if best.predicted is not None}
            measured = break_even_batch(lambda b, here=here: here[b].ratio, here)  # type: ignore[misc]
            predicted = break_even_batch(lambda b, theory=theory: theory[b], theory)  # type: ignore[misc]
            deciding = max(here) if measured is None else measured
            unsure = (b for b, best in here.items() if b <= deciding and best.interval and _spans_one(best.interval))
            found.append(BreakEven(q, d, t, measured, predicted, max(here), tuple(sorted(unsure))))
        return found

    @cached_property
    def quantization(self) -> list[QuantizationRow]:
        return quantization_rows(self.plan, self._result)

    @property
    def arms(self) -> list[dict[str, Any]]:
        """Of every point its plain arm, which is its baseline, and its speculative one, by category. Each says which
        point it is of."""
        found = []
        for task in self._tasks("point"):
            place = {n: getattr(task, n) for n in ("quantization", "drafter", "temperature", "batch", "k")}
            name = f"{task.drafter} k={task.k} T={task.temperature:g} batch={task.batch} {task.quantization}"
            for arm in (self._result(task) or {}).get("arms", []):
                found.append({**arm, "name": BASELINE if arm["name"] == BASELINE else name, **place})
        return found

    @property
    def verdict(self) -> str:
        """One line in words."""
        if not self.best_k:
            return "nothing was measured"
        best = max(self.best_k, key=lambda b: b.ratio)
        where = f"{best.quantization}, {best.drafter}, T={best.temperature:g}, batch {best.batch}"
        if best.k == 0:
            return f"no K was faster than plain decoding; the nearest was {best.ratio:.2f}x at K={best.at_k} ({where})"
        doubt = "" if best.sure else ", which these prompts cannot tell from 1"
        return f"{best.ratio:.2f}x at K={best.k} ({where}){doubt}"

    def as_dict(self) -> dict[str, Any]:
        """The JSON document of `specscope sweep`, as it will be read back."""
        document = {
            "schema": SCHEMA,
            "arms": self.arms,
            "baseline": BASELINE,
            "points": [asdict(p) for p in self.points],
            "curves": {
                "verify": [{"quantization": q, **c.as_dict()} for (q, _), c in self.verify_curves.items()],
                "draft": [{"quantization": q, **c.as_dict()} for (q, _, _), c in self.draft_curves.items()],
            },
            "best_k": [asdict(b) for b in self.best_k],
            "break_even_batch": [{**asdict(b), "words": b.words} for b in self.break_even],
            "quantization": [row.as_dict() for row in self.quantization],
            "failed": [{"what": what, "why": why} for what, why in self.failures],
            "verdict": self.verdict,
            "complete": self.complete,
            "left": self.left,
            "run_id": self.run_id,
            "started_at": self.started_at,
            "resumed": self.resumed,
            "label": self.label,
            "prompts": self.prompts,
            "settings": self.plan.as_dict(),
            "pair": self.pair,
            "environment": self.environment,
        }
        found: dict[str, Any] = json.loads(json.dumps(document, allow_nan=False))
        return found

    def _tasks(self, kind: str) -> list[Task]:
        return [t for t in self.plan.tasks if t.kind == kind]

    def _result(self, task: Task) -> dict[str, Any] | None:
        """What was measured; None when it was not, or failed."""
        found = self.results.get(task.key)
        return None if found is None or found.get("failed") else found

    def _point(self, task: Task) -> Point:
        q, d, t, b, k = task.quantization, task.drafter or "", task.temperature or 0.0, task.batch or 1, task.k or 1
        result = self._result(task)
        if result is None:
            return Point(q, d, t, b, k, self.results[task.key]["failed"])
        plain, fast = (a for a in result["arms"] if a["category"] == "all")
        predicted = self._predictor(q, d, t, b, result["drafted_share"], result["overhead_s"])
        return Point(
            q, d, t, b, k, None,
            ratio=fast["ratio"],
            interval=tuple(fast["interval"]) if fast["interval"] else None,
            decode_ratio=result["decode_ratio"],
            predicted=predicted(k) if predicted else None,
            mean_acceptance_length=fast["stats"]["mean_acceptance_length"],
            alpha=fast["stats"]["alpha"],
            drafted_share=result["drafted_share"],
            tokens_per_second=fast["output_tokens_per_second"],
            plain_tokens_per_second=plain["output_tokens_per_second"],
        )  # fmt: skip

    def _pooled_alpha(self, q: str, d: str, t: float) -> float | None:
        """accepted / tested of every point with these weights, drafter and temperature."""
        same = [r for x in self._tasks("point") if (x.quantization, x.drafter, x.temperature) == (q, d, t)
                if (r := self._result(x))]  # fmt: skip
        tested, accepted = (sum(row[i] for r in same for row in r["tests"]) for i in (0, 1))
        return accepted / tested if tested else None

    def _predictor(
        self, q: str, d: str, t: float, batch: int, share: float, overhead_s: Mapping[str, float]
    ) -> Callable[[int], float] | None:
        """The speed-up that theory gives for each k on the measured curves; None where one of them is missing."""
        alpha = self._pooled_alpha(q, d, t)
        verify, draft = self.verify_curves.get((q, batch)), self.draft_curves.get((q, d, batch))
        if alpha is None or verify is None or draft is None:
            return None
        plain_s = (verify.seconds(1) or 0.0) + overhead_s["plain"]

        def at(k: int) -> float:
            drafted_s = (verify.seconds(k + 1) or 0.0) + k * draft.per_token_s + overhead_s["speculative"]
            return predicted_speedup(alpha, k, share, plain_s, drafted_s, batch)

        return at

    def _best(self, q: str, d: str, t: float, batch: int) -> BestK | None:
        place = (q, d, t, batch)
        measured = [p for p in self.points if p.ratio is not None]
        here = [p for p in measured if (p.quantization, p.drafter, p.temperature, p.batch) == place]
        if not here:
            return None
        best = max(here, key=lambda p: p.ratio or 0.0)
        ratio = best.ratio or 0.0
        results = [r for p in here if (r := self._result(Task("point", q, batch, d, t, p.k)))]
        mean = {n: sum(r["overhead_s"][n] for r in results) / len(results) for n in ("plain", "speculative")}
        share = sum(r["drafted_share"] for r in results) / len(results)
        predictor = self._predictor(q, d, t, batch, share, mean)
        units = (self._result(Task("point", q, batch, d, t, best.k)) or {}).get("units", -(-self.prompts // batch))
        theory = best_k_of(predictor, max(self.plan.ks)) if predictor else None
        return BestK(
            q, d, t, batch,
            k=best.k if ratio > 1 else 0,
            at_k=best.k,
            ratio=ratio,
            interval=best.interval,
            sure=units >= ENOUGH_PROMPTS and best.interval is not None and not _spans_one(best.interval),
            predicted_k=theory.k if theory else None,
            predicted=theory.speedup if theory else None,
        )  # fmt: skip


def _spans_one(interval: tuple[float, float]) -> bool:
    return interval[0] <= 1 <= interval[1]
