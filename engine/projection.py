"""Carry what a run did on one machine to a GPU it was not run on: its steps, each at the roofline's time.

Nothing here is measured but the counts that come in; every second and speed that goes out is projected.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from engine.calibration import fitted_efficiency
from engine.communication import link_gb_s
from engine.draft_cost import Draft
from engine.efficiency import DEFAULT_FORWARD_OVERHEAD_S, Efficiency
from engine.gpu_specs import GpuSpec
from engine.hardware import explain_fit, fits, memory_plan
from engine.labels import Assumption, Label
from engine.precision import BF16, Precision
from engine.projection_notes import projection_notes
from engine.request_time import ArmTime, RequestTimes, request_times
from engine.roofline import Binding, Bound, StepTime
from engine.shape import ModelShape, at_precision
from engine.step_counts import StepCounts
from engine.validation import RANGE_RULE, ErrorBand, shipped_error_band, shipped_speedup_band

__all__ = ["ArmTime", "Assumption", "Draft", "Label", "Projection", "StepCounts", "project"]


@dataclass(frozen=True)
class Projection:
    """Output tokens per second of one replica on `gpus` GPUs, all `batch` rows together, with a derivation.

    Both speeds are output tokens over the time of whole requests, the prompt's reading included. plain and speculative:
    the seconds behind them, prefill and decode apart. `bound_by` and `binding` speak of forwards that verify a draft,
    `plain_bound_by` and `plain_binding` of the plain ones: the higher side of the roofline, and what takes most of all.
    fits and memory: at the end of the longest requests, on the fullest GPU. notes: what a reader must know of this very
    projection, a sentence each. error_band: how far speeds projected of one sequence, or of several at a time, were
    from published ones; speedup_band: the same of speed-ups, None where too few were published. *_range: RANGE_RULE of
    the band.
    """

    gpu: str
    gpus: int
    batch: int
    prompt_tokens: float
    output_tokens: float
    plain: ArmTime
    speculative: ArmTime
    bound_by: Bound
    plain_bound_by: Bound
    binding: Binding
    plain_binding: Binding
    plain_step: StepTime
    verify_step: StepTime
    draft_s: float
    fits: bool
    memory: str
    formula: str
    assumptions: tuple[Assumption, ...]
    error_band: ErrorBand
    speedup_band: ErrorBand | None = None
    notes: tuple[str, ...] = ()
    provenance: Literal["projected"] = "projected"

    @property
    def plain_tokens_per_second(self) -> float:
        return self.plain.tokens_per_second

    @property
    def speculative_tokens_per_second(self) -> float:
        return self.speculative.tokens_per_second

    @property
    def speedup(self) -> float:
        """Plain over speculative seconds; below 1 is a slow-down."""
        return self.plain.seconds / self.speculative.seconds

    @property
    def plain_range(self) -> tuple[float, float]:
        """Lowest and highest tokens/s to be expected."""
        return self.error_band.around(self.plain_tokens_per_second)

    @property
    def speculative_range(self) -> tuple[float, float]:
        return self.error_band.around(self.speculative_tokens_per_second)

    @property
    def speedup_range(self) -> tuple[float, float] | None:
        return None if self.speedup_band is None else self.speedup_band.around(self.speedup)

    @property
    def plain_step_s(self) -> float:
        return self.plain_step.seconds

    @property
    def verify_step_s(self) -> float:
        return self.verify_step.seconds

    @property
    def time_to_first_token_s(self) -> float:
        """Of a plain request that finds the GPU free; `speculative.time_to_first_token_s` has the draft's reading
        too."""
        return self.plain.time_to_first_token_s

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready, seconds and tokens as plain numbers."""
        plain, speculative = (
            {
                "output_tokens_per_second": arm.tokens_per_second,
                "output_tokens_per_second_range": list(self.error_band.around(arm.tokens_per_second)),
                "time_to_first_token_s": arm.time_to_first_token_s,
                "prefill_s_per_request": arm.prefill_s_per_request,
                "decode_s_per_request": arm.decode_s_per_request,
            }
            for arm in (self.plain, self.speculative)
        )
        return {
            "provenance": self.provenance,
            **{name: getattr(self, name) for name in ("gpu", "gpus", "batch", "prompt_tokens", "output_tokens")},
            "plain": plain | {"step_s": self.plain_step.seconds, "binding": self.plain_binding},
            "speculative": speculative
            | {"verify_s": self.verify_step.seconds, "draft_s": self.draft_s, "binding": self.binding},
            "speedup": self.speedup,
            "speedup_range": None if self.speedup_range is None else list(self.speedup_range),
            "plain_step": self.plain_step._asdict(),
            "verify_step": self.verify_step._asdict(),
            "fits": self.fits,
            "memory": self.memory,
            "formula": self.formula,
            "inputs": [a._asdict() for a in self.assumptions],
            "error_band": asdict(self.error_band),
            "speedup_error_band": None if self.speedup_band is None else asdict(self.speedup_band),
            "range_rule": RANGE_RULE,
            "notes": list(self.notes),
        }


def longest_context(counts: StepCounts, context_tokens: float) -> int:
    """Tokens of a row when its output is whole, which is when it has to fit: the prompt and all of the output, or half
    an output more than the average step has cached, where that is said to be more."""
    half = counts.output_tokens / 2
    return math.ceil(max(counts.prompt_tokens + counts.output_tokens, context_tokens + half))


def project(
    shape: ModelShape,
    gpu: GpuSpec,
    counts: StepCounts,
    draft: ModelShape | Draft | None = None,
    *,
    context_tokens: float = 1024,
    batch: int = 1,
    gpus: int = 1,
    precision: Precision | None = None,
    kv_bytes_per_element: float = 2.0,
    efficiency: float | Efficiency | None = None,
    overhead_s: float = DEFAULT_FORWARD_OVERHEAD_S,
    counts_label: Label | None = None,
) -> Projection:
    """What the run's steps would take on `gpu`. Speculation may come out slower; that is shown, not hidden.

    plain: read the prompt, then one forward a token. speculative: read the prompt (with the draft too, where it does),
    then the run's own steps: those that drafted cost the draft and a forward of 1 + width tokens, the others a plain
    forward. draft: a model's shape, or any `Draft`; None is a lookup that takes no time. precision: of the target's
    weights; the shape's own bytes at BF16's arithmetic unless given. efficiency: fitted to published results, or
    assumed where there are none, unless given; one number stands for both shares without further overheads. Raises
    ValueError when a number is out of range, or a draft has more GPUs than its target.
    """
    held = precision or BF16
    if precision is not None:
        shape = at_precision(shape, precision.bytes_per_param)
    if isinstance(draft, ModelShape):
        draft = Draft.model(draft)
    draft = draft or Draft.lookup()
    if draft.shape is not None and draft.gpus > gpus:
        raise ValueError(f"a draft shares the GPUs of its target: {draft.gpus} of {gpus} cannot be")
    share = Efficiency.of(fitted_efficiency(gpu, shape, held) if efficiency is None else efficiency)
    times = request_times(
        shape, gpu, counts, draft, context_tokens=context_tokens, efficiency=share, batch=batch, gpus=gpus,
        precision=held, kv_bytes_per_element=kv_bytes_per_element, overhead_s=overhead_s,
    )  # fmt: skip
    longest = longest_context(counts, context_tokens)
    plan = memory_plan(
        shape, draft.shape, longest, batch, math.ceil(counts.width), kv_bytes_per_element,
        gpus=gpus, draft_gpus=draft.gpus,
    )  # fmt: skip
    band = shipped_error_band(batch)
    plain, verify = times.plain_step, times.verify_step
    given: Label = counts_label or counts.label
    return Projection(
        gpu=gpu.name,
        gpus=gpus,
        batch=batch,
        prompt_tokens=counts.prompt_tokens,
        output_tokens=counts.output_tokens,
        plain=times.plain,
        speculative=times.speculative,
        bound_by=verify.bound_by,
        plain_bound_by=plain.bound_by,
        binding=verify.binding,
        plain_binding=plain.binding,
        plain_step=plain,
        verify_step=verify,
        draft_s=times.draft_s,
        fits=fits(plan, gpu),
        memory=explain_fit(plan, gpu, gpus),
        formula=_formula(shape, gpu, counts, draft, times, share, held, context_tokens, batch, gpus,
                         kv_bytes_per_element),
        assumptions=(
            Assumption("prompt tokens", counts.prompt_tokens, given),
            Assumption("output tokens", counts.output_tokens, given),
            Assumption("steps behind the first", counts.decode_steps, given),
            Assumption("of them with a draft", counts.drafted_steps, given),
            Assumption("proposals a drafted step", counts.width, given),
            Assumption("gpu figures", gpu.source, "quoted"),
            *share.assumptions(),
            Assumption("forward overhead, s", overhead_s, "assumed"),
            *_link(gpu, gpus),
            Assumption("context, tokens", context_tokens, "assumed"),
            Assumption("context that has to fit, tokens a row", longest, "assumed", "whole prompt and output"),
            Assumption("batch", batch, "assumed"),
            Assumption("bytes a parameter", shape.bytes_per_param, "assumed"),
            Assumption("bytes of a key or value", kv_bytes_per_element, "assumed"),
            Assumption("acceptance on the GPU", "as it came in, whatever the precision there", "assumed"),
            Assumption("arithmetic", f"{held.peak(gpu).name}; attention in BF16", "quoted"),
            Assumption("host seconds of a drafted step", draft.seconds, draft.label, draft.name),
            Assumption("experts of different tokens", "drawn independently and evenly", "assumed"),
            Assumption("error band", str(band), "measured", "predicted against published"),
        ),
        error_band=band,
        speedup_band=shipped_speedup_band(batch),
        notes=tuple(projection_notes(shape, gpu, gpus, held, draft, longest)),
    )  # fmt: skip


def _link(gpu: GpuSpec, gpus: int) -> tuple[Assumption, ...]:
    if gpus == 1:
        return ()
    known = gpu.link_gb_s is not None
    basis = f"{gpu.link}, {gpu.link_source}" if known else "PCIe Gen4 x16"
    return (
        Assumption("link, GB/s both ways", link_gb_s(gpu), "quoted" if known else "assumed", basis),
        Assumption("GPUs", "of one server; split every layer evenly, add up twice in each", "assumed"),
    )


def _formula(
    shape: ModelShape, gpu: GpuSpec, counts: StepCounts, draft: Draft, times: RequestTimes, share: Efficiency,
    precision: Precision, context_tokens: float, batch: int, gpus: int, kv_bytes_per_element: float,
) -> str:  # fmt: skip
    plain, fast, peak = times.plain, times.speculative, precision.peak(gpu)
    undrafted = counts.decode_steps - counts.drafted_steps
    read = shape.params_read(batch)
    drafting = f"forwards of the {draft.name}" if draft.shape else "no draft model"
    return "\n".join(
        [
            f"{gpus} x {gpu.name}: {gpu.mem_bw_tb_s:g} TB/s at {share.memory:.3g}, {peak.tflops:g} TFLOPS {peak.name} "
            f"at {share.compute:.3g}, each",
            f"weights read by a plain forward: {read * shape.bytes_per_param / 1e9:.4g} GB ({read:.4g} parameters x "
            f"{shape.bytes_per_param:g} bytes); keys and values: "
            f"{batch * context_tokens * shape.kv_bytes_per_token(kv_bytes_per_element) / 1e9:.4g} GB",
            f"multiplications: 2 x {shape.matmul_params:.4g} a token",
            f"plain forward, 1 token a row: {_explain(times.plain_step)}",
            f"verify forward, {counts.width + 1:.3g} tokens a row: {_explain(times.verify_step)}",
            f"draft: {_ms(times.draft_s)} a drafted step, {drafting}",
            f"reading {counts.prompt_tokens:g} prompt tokens: {_ms(fast.prompts_s)}; of one row alone "
            f"{_ms(fast.time_to_first_token_s)}",
            f"plain: {counts.output_tokens:g} tokens in {plain.prompts_s * 1e3:.4g} + {counts.output_tokens - 1:g} x "
            f"{times.plain_step.seconds * 1e3:.4g} = {_ms(plain.seconds)}, x {batch} row(s) = "
            f"{plain.tokens_per_second:.4g} tok/s",
            f"speculative: {counts.output_tokens:g} tokens in {fast.prompts_s * 1e3:.4g} + {counts.drafted_steps:.4g} "
            f"x {(times.draft_s + times.verify_step.seconds) * 1e3:.4g} + {undrafted:.4g} x "
            f"{times.plain_step.seconds * 1e3:.4g} = {_ms(fast.seconds)}, x {batch} row(s) = "
            f"{fast.tokens_per_second:.4g} tok/s",
            f"speed-up: {plain.seconds / fast.seconds:.4g}",
        ]
    )


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.4g} ms"


def _explain(step: StepTime) -> str:
    talk = f"communication {_ms(step.communication_s)} + " if step.communication_s else ""
    return (
        f"max(memory {_ms(step.memory_s)} of which keys and values {_ms(step.kv_s)}, compute {_ms(step.compute_s)}) + "
        f"{talk}overhead {_ms(step.overhead_s)} = {_ms(step.seconds)} ({step.bound_by}-bound; most goes to "
        f"{step.binding})"
    )
