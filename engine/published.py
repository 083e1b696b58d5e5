"""Published speeds with the conditions that they were measured under: what projections are fitted to and judged by."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, get_args

from engine.draft_cost import Draft
from engine.errors import EngineError
from engine.gpu_specs import GpuSpec, load_gpu_specs
from engine.model_shapes import NamedShape, eagle3_head, eagle_head, find_shape, medusa_heads
from engine.precision import Precision, find_precision, kv_bytes
from engine.shape import ModelShape, at_precision
from engine.step_counts import StepCounts

DEFAULT_RESULTS = Path(__file__).parent / "data" / "published_results.csv"
Measure = Literal["tokens_per_second", "speedup"]
_HEADS: dict[str, Callable[[NamedShape], ModelShape]] = {
    "eagle": eagle_head,
    "eagle3": eagle3_head,
    "medusa": medusa_heads,
}


@dataclass(frozen=True)
class PublishedResult:
    """One published figure. value: output tokens/s of all `replicas` together, or plain over speculative seconds.

    claim: its id in the table of claims, or "". evidence: F a source file, D a documentation page, I an issue or pull
    request, S a secondary source. software: what it ran in. conditions: what the source states; assumed: what it does
    not and was filled in. gpus and batch: of one replica.
    """

    id: str
    claim: str
    source_url: str
    evidence: str
    software: str
    gpu: GpuSpec
    gpus: int
    replicas: int
    model: str
    shape: ModelShape
    precision: Precision
    kv_bytes_per_element: float
    batch: int
    counts: StepCounts
    draft: Draft | None
    measure: Measure
    value: float
    conditions: str
    assumed: str

    @property
    def speculative(self) -> bool:
        return self.counts.drafted_steps > 0

    @property
    def context_tokens(self) -> float:
        """Cached by the average step: the prompt and half of the output."""
        return self.counts.prompt_tokens + self.counts.output_tokens / 2

    @property
    def origin(self) -> str:
        """The software's family, its release aside: "vLLM"."""
        return self.software.split()[0]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A published figure that cannot be predicted because the reason names a condition that is missing."""

    id: str
    claim: str
    source_url: str
    evidence: str
    value: float
    measure: str
    conditions: str
    reason: str


@lru_cache(maxsize=1)
def shipped_results() -> tuple[tuple[PublishedResult, ...], tuple[LeftOut, ...]]:
    """`load_results` of the file that comes with the package, read once."""
    return load_results()


def load_results(path: str | Path | None = None) -> tuple[tuple[PublishedResult, ...], tuple[LeftOut, ...]]:
    """(results that can be predicted, those that cannot). Raises EngineError that names file and line for what is
    missing or out of range, a source above all."""
    file = Path(path) if path is not None else DEFAULT_RESULTS
    specs = load_gpu_specs()
    kept: list[PublishedResult] = []
    left: list[LeftOut] = []
    with file.open(encoding="utf-8", newline="") as stream:
        reader = csv.DictReader(stream)
        for row in reader:
            try:
                if not row["source_url"] or not row["evidence"]:
                    raise ValueError("a result without source and evidence is not usable")
                if row["left_out"]:
                    left.append(_left_out(row))
                else:
                    kept.append(_result(row, specs))
            except (KeyError, ValueError) as error:
                raise EngineError(f"{file.name}, line {reader.line_num}: {error}") from None
    return tuple(kept), tuple(left)


def _left_out(row: dict[str, str]) -> LeftOut:
    return LeftOut(
        row["id"], row["claim"], row["source_url"], row["evidence"], float(row["value"]), row["measure"],
        row["conditions"], row["left_out"],
    )  # fmt: skip


def _result(row: dict[str, str], specs: dict[str, GpuSpec]) -> PublishedResult:
    value = float(row["value"])
    if not 0 < value < float("inf"):
        raise ValueError(f"value: {row['value']!r} must be a finite number above 0")
    if row["measure"] not in get_args(Measure):
        raise ValueError(f"measure: {row['measure']!r} is none of {', '.join(get_args(Measure))}")
    if row["gpu"] not in specs:
        raise ValueError(f"gpu: {row['gpu']!r} is not in the GPU table")
    target, precision = find_shape(row["model"]), find_precision(row["precision"])
    draft = _draft(row, target)
    return PublishedResult(
        id=row["id"],
        claim=row["claim"],
        source_url=row["source_url"],
        evidence=row["evidence"],
        software=row["software"],
        gpu=specs[row["gpu"]],
        gpus=int(row["gpus"]),
        replicas=int(row["replicas"]),
        model=target.name,
        shape=at_precision(target.shape, float(row["bytes_per_param"] or precision.bytes_per_param)),
        precision=precision,
        kv_bytes_per_element=kv_bytes(row["kv_precision"]),
        batch=int(row["batch"]),
        counts=_counts(row),
        draft=draft,
        measure="speedup" if row["measure"] == "speedup" else "tokens_per_second",
        value=value,
        conditions=row["conditions"],
        assumed=row["assumed"],
    )


def _counts(row: dict[str, str]) -> StepCounts:
    prompt, output = float(row["prompt_tokens"]), float(row["output_tokens"])
    if not row["draft"]:
        return StepCounts.plain(prompt_tokens=prompt, output_tokens=output)
    return StepCounts.from_acceptance(
        float(row["mean_acceptance_length"]),
        float(row["k"]),
        prompt_tokens=prompt,
        output_tokens=output,
        depth=float(row["depth"]) if row["depth"] else None,
    )


def _draft(row: dict[str, str], target: NamedShape) -> Draft | None:
    kind = row["draft"]
    if not kind:
        return None
    if kind == "lookup":
        return Draft.lookup()
    if kind not in _HEADS:
        raise ValueError(f"draft: {kind!r} is none of lookup, {', '.join(_HEADS)}")
    forwards = float(row["forwards"]) if row["forwards"] else None
    return Draft.head(
        _HEADS[kind](target), forwards=forwards, gpus=int(row["draft_gpus"]), reads_prompt=kind != "medusa", name=kind
    )
