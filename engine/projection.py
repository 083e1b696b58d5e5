"""Carry what a run did on one machine to a GPU it was not run on: its steps, each at the roofline's time.

Nothing here is measured but the counts that come in; every second and speed that goes out is projected.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from engine.gpu_specs import GpuSpec
from engine.hardware import explain_fit, fits, memory_plan
from engine.roofline import DEFAULT_EFFICIENCY, DEFAULT_FORWARD_OVERHEAD_S, Bound, StepTime, decode_step
from engine.shape import ModelShape
from engine.stats import Stats

Label = Literal["measured", "projected", "quoted", "assumed"]


@dataclass(frozen=True, slots=True)
class StepCounts:
    """What a run did, as counts: they depend on the text and the draft, not on the hardware.

    prompt_tokens and output_tokens: a request's, on average. decode_steps: steps behind the first, which reads the
    prompt and emits one token. drafted_steps: those of them that verified a draft. proposed: drafted tokens in all.
    Raises ValueError for counts that no run can have.
    """

    prompt_tokens: float
    output_tokens: float
    decode_steps: float
    drafted_steps: float
    proposed: float

    def __post_init__(self) -> None:
        if not (self.prompt_tokens >= 1 and self.output_tokens >= 1):  # NaN fails too
            raise ValueError("a request has at least one prompt token and one output token")
        if not (0 <= self.drafted_steps <= self.decode_steps <= self.output_tokens - 1):
            raise ValueError("drafted steps are some of the decode steps, and each of those emits a token at least")
        if not (self.drafted_steps <= self.proposed) or (self.proposed > 0) != (self.drafted_steps > 0):
            raise ValueError("a drafted step proposes a token at least, and no other step does")

    @classmethod
    def of(cls, stats: Stats) -> StepCounts:
        """Of a measured run, or the average of the runs that were pooled."""
        runs = stats.runs
        if not runs:
            raise ValueError("nothing was decoded, so there is nothing to carry to another GPU")
        counts = (stats.prompt_tokens, stats.output_tokens, stats.steps - runs, stats.drafted_steps, stats.proposed)
        return cls(*(n / runs for n in counts))

    @property
    def width(self) -> float:
        """Proposals in a drafted step, on average."""
        return self.proposed / self.drafted_steps if self.drafted_steps else 0.0


class Assumption(NamedTuple):
    """One input of a projection; `label` says what kind of number it is."""

    name: str
    value: float | int | str
    label: Label


@dataclass(frozen=True)
class Projection:
    """Output tokens per second of one replica on `gpus` GPUs, all `batch` rows together, with a derivation.

    Both speeds are output tokens over the time of whole requests, the prompt's reading included.
    `bound_by` speaks of forwards that verify a draft, `plain_bound_by` of the plain ones.
    """

    gpu: str
    gpus: int
    batch: int
    plain_tokens_per_second: float
    speculative_tokens_per_second: float
    speedup: float
    bound_by: Bound
    plain_bound_by: Bound
    plain_step_s: float
    verify_step_s: float
    draft_s: float
    fits: bool
    memory: str
    formula: str
    assumptions: tuple[Assumption, ...]
    provenance: Literal["projected"] = "projected"


def project(
    shape: ModelShape,
    gpu: GpuSpec,
    counts: StepCounts,
    draft_shape: ModelShape | None = None,
    *,
    context_tokens: int = 1024,
    batch: int = 1,
    gpus: int = 1,
    efficiency: float = DEFAULT_EFFICIENCY,
    overhead_s: float = DEFAULT_FORWARD_OVERHEAD_S,
    counts_label: Label = "measured",
) -> Projection:
    """What the run's steps would take on `gpu`. Speculation may come out slower; that is shown, not hidden.

    plain: read the prompt, then one forward a token. speculative: read the prompt (with the draft model too, where
    there is one), then the run's own steps: those that drafted cost a forward of 1 + width tokens and `width` forwards
    of the draft, the others a plain forward. Drafting without a draft model (prompt lookup) takes no time.
    Raises ValueError when a number is out of range.
    """

    def forward(model: ModelShape, width: float, on_gpus: int, cached: int = context_tokens) -> StepTime:
        return decode_step(
            model, gpu, width, cached, batch, gpus=on_gpus, efficiency=efficiency, overhead_s=overhead_s
        )  # fmt: skip

    plain, verify = forward(shape, 1, gpus), forward(shape, counts.width + 1, gpus)
    prompt_s = forward(shape, counts.prompt_tokens, gpus, 0).seconds
    draft_s = draft_prompt_s = 0.0
    if draft_shape is not None:
        draft_s = counts.width * forward(draft_shape, 1, 1).seconds
        draft_prompt_s = forward(draft_shape, counts.prompt_tokens, 1, 0).seconds
    undrafted = counts.decode_steps - counts.drafted_steps
    plain_s = prompt_s + (counts.output_tokens - 1) * plain.seconds
    speculative_s = (
        prompt_s + draft_prompt_s + counts.drafted_steps * (draft_s + verify.seconds) + undrafted * plain.seconds
    )
    plain_speed = batch * counts.output_tokens / plain_s
    speculative_speed = batch * counts.output_tokens / speculative_s
    plan = memory_plan(shape, draft_shape, context_tokens, batch, round(counts.width))
    return Projection(
        gpu=gpu.name,
        gpus=gpus,
        batch=batch,
        plain_tokens_per_second=plain_speed,
        speculative_tokens_per_second=speculative_speed,
        speedup=speculative_speed / plain_speed,
        bound_by=verify.bound_by,
        plain_bound_by=plain.bound_by,
        plain_step_s=plain.seconds,
        verify_step_s=verify.seconds,
        draft_s=draft_s,
        fits=fits(plan, gpu, gpus),
        memory=explain_fit(plan, gpu, gpus),
        formula="\n".join(
            [
                f"{gpus} x {gpu.name}: {gpu.mem_bw_tb_s:g} TB/s and {gpu.bf16_dense_tflops:g} BF16 TFLOPS each, "
                f"at {efficiency:g} of both",
                f"weights read by a plain forward: {shape.params_read(batch) * shape.bytes_per_param / 1e9:.4g} GB "
                f"({shape.params_read(batch):.4g} parameters x {shape.bytes_per_param:g} bytes); keys and values: "
                f"{batch * context_tokens * shape.kv_bytes_per_token() / 1e9:.4g} GB",
                f"multiplications: 2 x {shape.matmul_params:.4g} a token",
                f"plain forward, 1 token a row: {_explain(plain)}",
                f"verify forward, {counts.width + 1:.3g} tokens a row: {_explain(verify)}",
                f"draft: {draft_s * 1e3:.4g} ms a drafted step, "
                + ("forwards of the draft model" if draft_shape else "no draft model"),
                f"reading {counts.prompt_tokens:g} prompt tokens: {(prompt_s + draft_prompt_s) * 1e3:.4g} ms",
                f"plain: {counts.output_tokens:g} tokens in {prompt_s * 1e3:.4g} + {counts.output_tokens - 1:g} x "
                f"{plain.seconds * 1e3:.4g} = {plain_s * 1e3:.4g} ms, x {batch} row(s) = {plain_speed:.4g} tok/s",
                f"speculative: {counts.output_tokens:g} tokens in {(prompt_s + draft_prompt_s) * 1e3:.4g} + "
                f"{counts.drafted_steps:g} x {(draft_s + verify.seconds) * 1e3:.4g} + {undrafted:g} x "
                f"{plain.seconds * 1e3:.4g} = {speculative_s * 1e3:.4g} ms, x {batch} row(s) = "
                f"{speculative_speed:.4g} tok/s",
                f"speed-up: {speculative_speed / plain_speed:.4g}",
            ]
        ),
        assumptions=(
            Assumption("prompt tokens", counts.prompt_tokens, counts_label),
            Assumption("output tokens", counts.output_tokens, counts_label),
            Assumption("steps behind the first", counts.decode_steps, counts_label),
            Assumption("of them with a draft", counts.drafted_steps, counts_label),
            Assumption("proposals a drafted step", counts.width, counts_label),
            Assumption("gpu figures", gpu.source, "quoted"),
            Assumption("efficiency", efficiency, "assumed"),
            Assumption("forward overhead, s", overhead_s, "assumed"),
            Assumption("context, tokens", context_tokens, "assumed"),
            Assumption("batch", batch, "assumed"),
            Assumption("bytes a parameter", shape.bytes_per_param, "assumed"),
            Assumption("acceptance on the GPU", "as measured here, whatever the precision there", "assumed"),
            Assumption("arithmetic", "dense BF16; attention arithmetic left out", "assumed"),
            Assumption("drafting without a draft model", "takes no time", "assumed"),
            Assumption("experts of different tokens", "drawn independently and evenly", "assumed"),
            Assumption("several GPUs", "share the target evenly, talk at no cost; the draft uses one", "assumed"),
        ),
    )


def _explain(step: StepTime) -> str:
    return (
        f"max(memory {step.memory_s * 1e3:.4g} ms, compute {step.compute_s * 1e3:.4g} ms) + "
        f"overhead {step.overhead_s * 1e3:.4g} ms = {step.seconds * 1e3:.4g} ms ({step.bound_by}-bound)"
    )
