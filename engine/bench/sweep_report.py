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
from engine.bench.sweep_plan import SweepPlan, Task, shape_words
from engine.bench.sweep_records import BestK, BreakEven, Point
from engine.theory import best_k_of, break_even_batch

BASELINE = "plain"
SCHEMA = "specscope.sweep"


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
    def draft_curves(self) -> dict[tuple[str, str, int, int | None], DraftCurve]:
        """By (quantization, drafter, batch, tree_nodes)."""
        found = ((t, self._result(t)) for t in self._tasks("draft"))
        return {
            (t.quantization, t.drafter or "", t.batch or 0, t.tree_nodes): DraftCurve.from_dict(r)
            for t, r in found
            if r
        }

    @cached_property
    def best_k(self) -> list[BestK]:
        places = dict.fromkeys((p.quantization, p.drafter, p.temperature, p.batch, p.tree_nodes) for p in self.points)
        return [best for place in places if (best := self._best(*place)) is not None]

    @cached_property
    def break_even(self) -> list[BreakEven]:
        found = []
        places = [(b.quantization, b.drafter, b.temperature, b.tree_nodes) for b in self.best_k]
        for q, d, t, nodes in dict.fromkeys(places):
            of_all = zip(places, self.best_k, strict=True)
            here = {b.batch: b for place, b in of_all if place == (q, d, t, nodes)}
            theory = {b: best.predicted for b, best in here.items() if best.predicted is not None}
            measured = break_even_batch(lambda b, here=here: here[b].ratio, here)  # type: ignore[misc]
            predicted = break_even_batch(lambda b, theory=theory: theory[b], theory)  # type: ignore[misc]
            deciding = max(here) if measured is None else measured
            unsure = (b for b, best in here.items() if b <= deciding and best.interval and _spans_one(best.interval))
            found.append(BreakEven(q, d, t, measured, predicted, max(here), tuple(sorted(unsure)), nodes, bool(theory)))
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
            place = {
                n: getattr(task, n) for n in ("quantization", "drafter", "temperature", "batch", "k", "tree_nodes")
            }
            place["k_control"] = self.plan.k_control
            name = f"{task.drafter} k={task.k} T={task.temperature:g} batch={task.batch} {task.quantization}"
            name = ", ".join([name, *shape_words(task.tree_nodes, self.plan.k_control)])
            for arm in (self._result(task) or {}).get("arms", []):
                found.append({**arm, "name": BASELINE if arm["name"] == BASELINE else name, **place})
        return found

    @property
    def verdict(self) -> str:
        """One line in words."""
        if not self.best_k:
            return "nothing was measured"
        best = max(self.best_k, key=lambda b: b.ratio)
        where = ", ".join([
            best.quantization, best.drafter, f"T={best.temperature:g}", f"batch {best.batch}",
            *shape_words(best.tree_nodes, self.plan.k_control),
        ])  # fmt: skip
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
                "draft": [
                    {"quantization": q, "tree_nodes": nodes, **c.as_dict()}
                    for (q, _, _, nodes), c in self.draft_curves.items()
                ],
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
        result, nodes = self._result(task), task.tree_nodes
        if result is None:
            return Point(q, d, t, b, k, self.results[task.key]["failed"], tree_nodes=nodes)
        plain, fast = (a for a in result["arms"] if a["category"] == "all")
        predicted = self._predictor(q, d, t, b, nodes, result["drafted_share"], result["overhead_s"])
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
            tree_nodes=nodes,
        )  # fmt: skip

    def _pooled_alpha(self, q: str, d: str, t: float, nodes: int | None) -> float | None:
        """accepted / tested of every point with these weights, drafter, temperature and tree size."""
        tasks = (x for x in self._tasks("point") if (x.quantization, x.drafter, x.temperature) == (q, d, t))
        same = [r for x in tasks if x.tree_nodes == nodes and (r := self._result(x))]
        tested, accepted = (sum(row[i] for r in same for row in r["tests"]) for i in (0, 1))
        return accepted / tested if tested else None

    def _predictor(
        self, q: str, d: str, t: float, batch: int, nodes: int | None, share: float, overhead_s: Mapping[str, float]
    ) -> Callable[[int], float] | None:
        """The speed-up that theory gives for each k on the measured curves; None where one of them is missing, and
        where drafts are no chains of a fixed K."""
        if not self.plan.drafts_chains(d, nodes):
            return None
        alpha = self._pooled_alpha(q, d, t, nodes)
        verify, draft = self.verify_curves.get((q, batch)), self.draft_curves.get((q, d, batch, nodes))
        if alpha is None or verify is None or draft is None:
            return None
        plain_s = (verify.seconds(1) or 0.0) + overhead_s["plain"]

        def at(k: int) -> float:
            drafted_s = (verify.seconds(k + 1) or 0.0) + k * draft.per_token_s + overhead_s["speculative"]
            return predicted_speedup(alpha, k, share, plain_s, drafted_s, batch)

        return at

    def _best(self, q: str, d: str, t: float, batch: int, nodes: int | None) -> BestK | None:
        place = (q, d, t, batch, nodes)
        measured = [p for p in self.points if p.ratio is not None]
        here = [p for p in measured if (p.quantization, p.drafter, p.temperature, p.batch, p.tree_nodes) == place]
        if not here:
            return None
        best = max(here, key=lambda p: p.ratio or 0.0)
        ratio = best.ratio or 0.0
        results = [r for p in here if (r := self._result(Task("point", q, batch, d, t, p.k, nodes)))]
        mean = {n: sum(r["overhead_s"][n] for r in results) / len(results) for n in ("plain", "speculative")}
        share = sum(r["drafted_share"] for r in results) / len(results)
        predictor = self._predictor(q, d, t, batch, nodes, share, mean)
        units = (self._result(Task("point", q, batch, d, t, best.k, nodes)) or {}).get(
            "units", -(-self.prompts // batch)
        )
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
            tree_nodes=nodes,
        )  # fmt: skip


def _spans_one(interval: tuple[float, float]) -> bool:
    return interval[0] <= 1 <= interval[1]
