"""What a claim's machine is expected to do, at the precision that is said or at those with which it fits."""

from collections.abc import Iterator
from dataclasses import replace

from engine.draft_cost import Draft
from engine.error_band import ErrorBand
from engine.errors import EngineError
from engine.gpu_specs import GpuSpec, find_gpu
from engine.model_shapes import NamedShape, find_shape
from engine.precision import PRECISIONS, Precision, find_precision
from engine.projection import project
from engine.shape import at_precision
from engine.step_counts import StepCounts
from pricing.claims import ClaimInput, Projected

# Assumed, where a claim does not say how long an answer is.
OUTPUT_TOKENS = 256


def projected_of(
    claim: ClaimInput,
    precision: str | None = None,
    *,
    prompt_tokens: int | None = None,
    context_tokens: int | None = None,
    draft: str | None = None,
) -> Projected | None:
    """What the machine is expected to do at the claim's batch; None where model, GPU or batch are not known.
    precision: the model's own, else the widest with which it fits, unless given. prompt_tokens None: not said, so
    reading prompts takes no time. draft: a model's name; without one drafting takes no time. Raises EngineError."""
    made = projections(claim, precision, prompt_tokens=prompt_tokens, context_tokens=context_tokens, draft=draft)
    return next(made, (None, None))[1]


def projections(
    claim: ClaimInput,
    precision: str | None,
    *,
    prompt_tokens: int | None,
    context_tokens: int | None,
    draft: str | None,
) -> Iterator[tuple[str, Projected]]:
    """(precision, projection) of the one that is said or, where none is, of each with which it fits, the widest weights
    first; of the narrowest where it fits with none."""
    if not claim.model or not claim.gpu or claim.batch is None:
        return
    said = said_precision(find_shape(claim.model), precision)
    if said is not None:
        yield said, _projected(claim, find_precision(said), prompt_tokens, context_tokens, draft)
        return
    fitted = False
    found: tuple[str, Projected] | None = None
    for held in sorted(PRECISIONS.values(), key=lambda held: -held.bytes_per_param):
        one = _projected(claim, held, prompt_tokens, context_tokens, draft)
        found = held.name, replace(one, chosen=held.name)
        if one.fits:
            fitted = True
            yield found
    if found is not None and not fitted:
        yield found


def _projected(
    claim: ClaimInput, held: Precision, prompt_tokens: int | None, context_tokens: int | None, draft: str | None
) -> Projected:
    named, spec = find_shape(claim.model), find_gpu(claim.gpu)
    length, k = claim.tokens_per_pass, claim.k
    drafts = length is not None and k is not None
    helper = _draft(find_shape(draft), held) if draft and drafts else None
    prompt = prompt_tokens or 1
    cached = prompt + OUTPUT_TOKENS // 2 if context_tokens is None else context_tokens
    try:
        counts = (
            StepCounts.from_acceptance(length, k, prompt_tokens=prompt, output_tokens=OUTPUT_TOKENS, label="assumed")
            if length is not None and k is not None
            else StepCounts.plain(prompt_tokens=prompt, output_tokens=OUTPUT_TOKENS)
        )
        found = project(
            named.shape, spec, counts, helper, context_tokens=cached, batch=claim.batch or 1, gpus=claim.gpus,
            precision=held,
        )  # fmt: skip
    except ValueError as error:
        raise EngineError(str(error)) from None
    return Projected(
        plain_tokens_per_second=found.plain_tokens_per_second,
        speculative_tokens_per_second=found.speculative_tokens_per_second if drafts else None,
        times_at_most=_times_at_most(found.error_band),
        band=str(found.error_band),
        speedup_times_at_most=None if found.speedup_band is None else _times_at_most(found.speedup_band),
        speedup_band="" if found.speedup_band is None else str(found.speedup_band),
        how=(*found.formula.splitlines(), *found.notes),
        assumptions=tuple(str(a) for a in found.assumptions if a.name != "error band"),
        machine=machine_words(claim.model, held, spec, claim.gpus),
        fits=found.fits,
    )


def _times_at_most(band: ErrorBand) -> float:
    """Nine in ten published results stayed below the projection times this."""
    return max(1.0, 1 / (1 + band.low))


def _draft(named: NamedShape, held: Precision) -> Draft:
    return Draft.model(at_precision(named.shape, held.bytes_per_param), precision=held, name=named.name)


def said_precision(named: NamedShape, precision: str | None) -> str | None:
    """The precision that is given, else the one that the model's config states; None where neither says one."""
    return precision if precision is not None or named.stored is None else named.precision(None).name


def machine_words(model: str, held: Precision, spec: GpuSpec, gpus: int) -> str:
    return f"{model} in {held.name} on {'' if gpus == 1 else f'{gpus} x '}{spec.name}"
