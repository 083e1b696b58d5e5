"""Does quantization lower acceptance? One row for each way of holding the weights, with a verdict in words."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from engine.bench.quantization import Change, acceptance_change
from engine.bench.sweep_plan import ANCHOR, SweepPlan, Task

Result = Callable[[Task], dict[str, Any] | None]


@dataclass(frozen=True, slots=True)
class Acceptance:
    """alpha of these weights against the unquantised ones, the same prompts, drafter and temperature, pooled over K
    and tree sizes. k, tau_before, tau: mean acceptance length at the largest K that both measured."""

    drafter: str
    temperature: float
    batch: int
    change: Change
    k: int
    tau_before: float | None
    tau: float | None


@dataclass(frozen=True, slots=True)
class QuantizationRow:
    """weight_bytes: read by one step of the target. resident_bytes: by how much loading made the process grow.
    tokens_per_second: plain decoding. best_ratio: its own plain / speculative seconds at the best of the K and tree
    sizes that were measured. plain_ratio: unquantised / these seconds of plain decoding; interleaved False: measured
    one after the other, since two do not fit in memory. divergence: see `quantization.divergence`. None: not measured,
    or nothing to compare with."""

    quantization: str
    weight_bytes: int | None
    resident_bytes: int | None
    tokens_per_second: float | None
    best_k: int | None
    best_tree_nodes: int | None
    best_ratio: float | None
    plain_ratio: float | None
    plain_interval: tuple[float, float] | None
    interleaved: bool | None
    divergence: dict[str, Any] | None
    acceptance: tuple[Acceptance, ...]

    @property
    def verdict(self) -> str | None:
        """One line; None for the unquantised weights themselves, or where nothing was compared."""
        parts = []
        if self.divergence:
            kl = self.divergence["kl_mean"]
            far = "without bound" if kl is None else f"{kl:.3f}"
            parts.append(
                f"{self.quantization} keeps {self.divergence['greedy_agreement']:.0%} of greedy choices (KL {far})"
            )
        for a in self.acceptance:
            which = f" with {a.drafter} at T={a.temperature:g}" if len(self.acceptance) > 1 else ""
            before, after = ("–" if v is None else f"{v:.2f}" for v in (a.change.before, a.change.after))
            parts.append(f"acceptance{which} {before} -> {after}: {a.change.word}")
        return "; ".join(parts) or None

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": self.verdict}


def quantization_rows(plan: SweepPlan, result: Result) -> list[QuantizationRow]:
    """In the order of the plan; `result` gives what a task measured, or None."""
    return [_row(plan, q, result) for q in plan.quantizations]


def _row(plan: SweepPlan, q: str, result: Result) -> QuantizationRow:
    compared = plan.compares and q != ANCHOR
    memory = result(Task("memory", q)) or {}
    plain = result(Task("plain", q)) if compared else None
    batch = min(plan.batches)
    own, anchor = _plain_speed(plan, q, batch, result), _plain_speed(plan, ANCHOR, batch, result)
    ratio = plain.get("ratio") if plain else None
    if plain and not plain["interleaved"] and own and anchor:
        ratio = own / anchor
    ratios = [(r, t) for t in _points(plan, q, batch) if (r := _ratio(result(t))) is not None]
    best = max(ratios, key=lambda found: (found[0], found[1].k or 0), default=None)
    return QuantizationRow(
        quantization=q,
        weight_bytes=memory.get("weight_bytes"),
        resident_bytes=memory.get("resident_bytes"),
        tokens_per_second=own,
        best_k=best[1].k if best else None,
        best_tree_nodes=best[1].tree_nodes if best else None,
        best_ratio=best[0] if best else None,
        plain_ratio=ratio,
        plain_interval=tuple(plain["interval"]) if plain and plain.get("interval") else None,
        interleaved=plain["interleaved"] if plain and ratio is not None else None,
        divergence=result(Task("drift", q)) if compared else None,
        acceptance=tuple(_acceptances(plan, q, batch, result)) if compared else (),
    )


def _acceptances(plan: SweepPlan, q: str, batch: int, result: Result) -> list[Acceptance]:
    found = []
    for drafter in plan.drafters:
        for temperature in plan.temperatures:
            whole: list[tuple[int, dict[str, Any], dict[str, Any]]] = []
            for nodes, k in product(plan.tree_nodes, plan.ks):
                was, now = (result(Task("point", name, batch, drafter, temperature, k, nodes)) for name in (ANCHOR, q))
                if was and now:
                    whole.append((k, was, now))
            if not whole:
                continue
            change = acceptance_change(
                _pooled([was["tests"] for _, was, _ in whole]), _pooled([now["tests"] for _, _, now in whole])
            )
            k, before, after = max(whole, key=lambda row: row[0])
            found.append(Acceptance(drafter, temperature, batch, change, k, _tau(before), _tau(after)))
    return found


def _pooled(tests: list[list[list[int]]]) -> list[list[int]]:
    """[point][prompt][count] -> [prompt][count], added up over the points."""
    return [[sum(counts) for counts in zip(*prompt, strict=True)] for prompt in zip(*tests, strict=True)]


def _points(plan: SweepPlan, q: str, batch: int) -> list[Task]:
    return [t for t in plan.tasks if t.kind == "point" and (t.quantization, t.batch) == (q, batch)]


def _whole_arms(point: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    plain, fast = (a for a in point["arms"] if a["category"] == "all")
    return plain, fast


def _ratio(point: dict[str, Any] | None) -> float | None:
    return None if point is None else _whole_arms(point)[1]["ratio"]


def _tau(point: dict[str, Any]) -> float | None:
    tau: float | None = _whole_arms(point)[1]["stats"]["mean_acceptance_length"]
    return tau


def _plain_speed(plan: SweepPlan, q: str, batch: int, result: Result) -> float | None:
    """Tokens/s of the plain arms of all its points at a batch."""
    arms = [_whole_arms(r)[0] for t in _points(plan, q, batch) if (r := result(t))]
    seconds = sum(a["seconds"] for a in arms)
    return sum(a["output_tokens"] for a in arms) / seconds if seconds > 0 else None
