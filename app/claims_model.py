"""Claims against the roofline: the only place where engine's bounds and projections meet pricing's claims.

A bound is what no software can pass: data-sheet bandwidth and arithmetic in full, no overhead, no talk between GPUs,
and what a claim does not say taken in its favour.
"""

from collections.abc import Collection
from functools import lru_cache
from itertools import chain

from app.claims_projection import machine_words, projections, said_precision
from app.claims_projection import projected_of as projected_of
from engine.efficiency import Efficiency
from engine.gpu_specs import GpuSpec, find_gpu
from engine.model_shapes import find_shape
from engine.precision import PRECISIONS, Precision, find_precision
from engine.roofline import StepTime, decode_step
from engine.shape import ModelShape, at_precision
from pricing.claims import (
    Assessment,
    Bound,
    Checked,
    Claim,
    ClaimInput,
    ClaimTable,
    Verdict,
    assess,
    check_claim,
    shipped_claims,
    speeds,
)

_IN_FULL = Efficiency(1.0, 1.0, all_reduce_s=0.0)
# Bytes of a key or value element: the fewest in use, since claims do not say.
_FEWEST_KV_BYTES = 1.0


def bound_of(
    model: str,
    gpu: str,
    gpus: int = 1,
    precision: str | None = None,
    *,
    batch: int | None = None,
    k: int | None = None,
    context_tokens: int = 0,
) -> Bound:
    """model: a published model's name, a config.json, or a folder that has one. precision None: not said, so the
    model's own or, where its config states none, the smallest weights and the quickest arithmetic that this GPU has.
    batch None: any. context_tokens: cached in each request; 0 leaves keys and values out. Raises EngineError with a
    sentence."""
    named, spec = find_shape(model), find_gpu(gpu)
    precision = said_precision(named, precision)
    held, tflops, peak = _precision(spec, precision)
    shape = at_precision(named.shape, held.bytes_per_param)
    weights, memory = shape.weight_bytes, spec.mem_gb * 1e9 * gpus
    kv = context_tokens * shape.kv_bytes_per_token(_FEWEST_KV_BYTES)
    largest = int(max(0.0, memory - weights) / kv) if kv and weights <= memory else None
    compute = tflops * 1e12 * gpus / (2 * shape.matmul_params)
    rows = batch or largest

    plain, bound_by, line = compute, "compute", "as many requests as arithmetic takes"
    if rows:
        one = _step(shape, spec, 1, context_tokens, rows, gpus, tflops)
        plain, bound_by = rows / _roof(one), one.bound_by
        reading = f"{shape.params_read(rows):.4g} parameters x {held.bytes_per_param:g} bytes"
        line = (
            f"{rows} token{'s' if rows > 1 else ''} / the longer of reading {_ms(one.memory_s)} ({reading}, {gpus} x "
            f"{spec.mem_bw_tb_s:g} TB/s) and multiplying {_ms(one.compute_s)}"
        )
    many = "" if gpus == 1 else f"{gpus} x "
    return Bound(
        machine=machine_words(model, held, spec, gpus),
        gpus=gpus,
        batch=batch,
        plain_tokens_per_second=plain,
        bound_by=bound_by,
        compute_tokens_per_second=compute,
        prefill_tokens_per_second=tflops * 1e12 * gpus / (2 * _without_head(shape)),
        weights_gb=weights / 1e9,
        memory_gb=memory / 1e9,
        verify_over_plain=_verify_over_plain(named.shape, spec, k, context_tokens, rows, gpus, precision)
        if k and rows
        else None,
        largest_batch=largest,
        how=(
            line,
            f"{many}{tflops:g} TFLOPS ({peak}) / (2 x {shape.matmul_params:.4g} parameters a token)",
            f"prompts are read at {many}{tflops:g} TFLOPS / (2 x {_without_head(shape):.4g}) at most",
            "data-sheet figures in full; no overhead, no talk between GPUs"
            + ("" if context_tokens else ", no keys and values"),
        ),
        sources=(spec.source, named.source),
    )  # fmt: skip


def check(
    claim: ClaimInput,
    precision: str | None = None,
    *,
    prompt_tokens: int | None = None,
    context_tokens: int | None = None,
    draft: str | None = None,
    table: ClaimTable | None = None,
) -> Checked:
    """A person's claim against bound, projection and published results. Where no precision is said, it is taken in the
    claim's favour to refute it, and plausible is what is within all limits of one precision. Raises EngineError for a
    model, GPU or precision that is not known."""

    def bound(at: str | None) -> Bound | None:
        if not claim.model or not claim.gpu:
            return None
        return bound_of(
            claim.model, claim.gpu, claim.gpus, at, batch=claim.batch, k=claim.k, context_tokens=context_tokens or 0
        )

    made = projections(claim, precision, prompt_tokens=prompt_tokens, context_tokens=context_tokens, draft=draft)
    name, projected = next(made, (None, None))
    found = check_claim(claim, bound(precision), projected, table)
    if found.verdict != "plausible" or projected is None or not projected.chosen:
        return found
    tried = []
    for at, expected in chain([(name, projected)], made):
        tried.append(check_claim(claim, bound(at), expected, table))
        if tried[-1].verdict == "plausible":
            return tried[-1]
    return next((one for one in tried if one.verdict != "contradicted"), tried[0])


def bounds_of(claim: Claim, table: ClaimTable | None = None) -> list[Bound]:
    """Of the machine that a claim of the table names or that is held beside it, one for each batch of its speeds; of
    one GPU where it does not say how many."""
    row = claim.row
    if row.machine is None:
        return []
    batches = dict.fromkeys(speed.batch for speed in speeds(claim, table))
    return [bound_of(row.model, row.gpu, row.gpus or 1, row.precision, batch=batch) for batch in batches]


def assessed(
    ids: Collection[str] = (), verdicts: Collection[Verdict] = (), table: ClaimTable | None = None
) -> list[Assessment]:
    """Claims with their verdicts, the roofline held against those whose machine is known. ids, verdicts: only these;
    all where none is given. Raises ClaimError for an id that there is not."""
    held = table or shipped_claims()
    wanted = {held.find(claim_id).id for claim_id in ids}
    found = _assessed() if table is None else _assess(held)
    return [
        one for one in found if (not wanted or one.claim.id in wanted) and (not verdicts or one.verdict in verdicts)
    ]


@lru_cache(maxsize=1)
def _assessed() -> tuple[Assessment, ...]:
    return _assess(shipped_claims())


def _assess(table: ClaimTable) -> tuple[Assessment, ...]:
    return tuple(assess(claim, table, bounds_of(claim, table)) for claim in table)


def _precision(spec: GpuSpec, name: str | None) -> tuple[Precision, float, str]:
    """The precision, its dense TFLOPS and in words which they are."""
    if name is not None:
        held = find_precision(name)
        peak = held.peak(spec)
        return held, peak.tflops, peak.name
    best = max((precision.peak(spec) for precision in PRECISIONS.values()), key=lambda peak: peak.tflops)
    fewest = min(precision.bytes_per_param for precision in PRECISIONS.values())
    return Precision("any precision", fewest), best.tflops, best.name


def _step(
    shape: ModelShape, spec: GpuSpec, width: int, context_tokens: int, rows: int, gpus: int, tflops: float
) -> StepTime:
    return decode_step(
        shape, spec, width, context_tokens, rows, gpus=gpus, efficiency=_IN_FULL, overhead_s=0.0,
        kv_bytes_per_element=_FEWEST_KV_BYTES, tensor_tflops=tflops,
    )  # fmt: skip


def _verify_over_plain(
    shape: ModelShape, spec: GpuSpec, k: int, context_tokens: int, rows: int, gpus: int, precision: str | None
) -> float:
    """In the precision where it is lowest, when none is said: the quickest reading would make it highest."""
    ratios = []
    for held in PRECISIONS.values() if precision is None else (find_precision(precision),):
        kept, tflops = at_precision(shape, held.bytes_per_param), held.peak(spec).tflops
        verify, plain = (_roof(_step(kept, spec, w, context_tokens, rows, gpus, tflops)) for w in (k + 1, 1))
        ratios.append(verify / plain)
    return min(ratios)


def _without_head(shape: ModelShape) -> int:
    """Parameters that each token of a prompt is multiplied with: its logits are wanted for the last one alone."""
    return max(1, shape.matmul_params - shape.vocab * shape.hidden)


def _roof(step: StepTime) -> float:
    return max(step.memory_s, step.compute_s)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.4g} ms"
