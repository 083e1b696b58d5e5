"""What another GPU would do with a measured acceptance: a roofline, a memory plan and a projection.

Every speed here is projected. The roofline says that a forward takes the longer of reading the weights and
keys, and multiplying; real kernels reach a share of both, so the share is an explicit, assumed input.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

from engine.gpu_specs import GpuSpec, SpecError, load_gpu_specs, match_price_gpu
from engine.roofline import (
    DEFAULT_EFFICIENCY,
    DEFAULT_FORWARD_OVERHEAD_S,
    Bound,
    StepTime,
    check_count,
    decode_step,
    decode_step_seconds,
)
from engine.shape import ModelShape

__all__ = [
    "Assumption",
    "GpuSpec",
    "ModelShape",
    "Projection",
    "SpecError",
    "StepTime",
    "decode_step",
    "decode_step_seconds",
    "explain_fit",
    "fits",
    "load_gpu_specs",
    "match_price_gpu",
    "memory_plan",
    "project",
]

Label = Literal["measured", "projected", "quoted", "assumed"]
# Assumed: the share of a GPU's memory that a model may take; the rest is for activations and the allocator.
DEFAULT_USABLE_SHARE = 0.9


def memory_plan(
    shape: ModelShape,
    draft_shape: ModelShape | None,
    context: int,
    batch: int,
    k: int,
    kv_bytes_per_element: float = 2.0,
) -> dict[str, int]:
    """Bytes to hold: both models, their KV for context + k + 1 tokens a row, verify logits, draft probs.

    Logits are fp32 [batch, k + 1, vocab]; a draft model also leaves its probabilities [batch, k, vocab] for
    the accept test.
    """
    slots = batch * (context + k + 1)
    plan = {
        "target_weights": math.ceil(shape.weight_bytes),
        "target_kv": math.ceil(slots * shape.kv_bytes_per_token(kv_bytes_per_element)),
        "draft_weights": 0,
        "draft_kv": 0,
        "verify_logits": batch * (k + 1) * shape.vocab * 4,
        "draft_probs": 0,
    }
    if draft_shape is not None:
        plan["draft_weights"] = math.ceil(draft_shape.weight_bytes)
        plan["draft_kv"] = math.ceil(slots * draft_shape.kv_bytes_per_token(kv_bytes_per_element))
        plan["draft_probs"] = batch * k * draft_shape.vocab * 4
    plan["total"] = sum(plan.values())
    return plan


def fits(plan: dict[str, int], gpu: GpuSpec, gpus: int = 1, usable_share: float = DEFAULT_USABLE_SHARE) -> bool:
    """Whether the plan's total is within the usable share of the memory of `gpus` such GPUs."""
    return plan["total"] <= gpu.mem_gb * 1e9 * gpus * usable_share


def explain_fit(plan: dict[str, int], gpu: GpuSpec, gpus: int = 1, usable_share: float = DEFAULT_USABLE_SHARE) -> str:
    """One sentence: fits or will not fit, with the parts in GB, largest first."""
    parts = sorted(((n, b) for n, b in plan.items() if n != "total" and b), key=lambda part: -part[1])
    listed = ", ".join(f"{name.replace('_', ' ')} {size / 1e9:.2f}" for name, size in parts)
    verdict = "Fits" if fits(plan, gpu, gpus, usable_share) else "Will not fit"
    usable = gpu.mem_gb * gpus * usable_share
    needed = plan["total"] / 1e9
    return f"{verdict}: {needed:.2f} GB needed ({listed}), {usable:.2f} GB usable on {gpus} x {gpu.name}."


class Assumption(NamedTuple):
    """One input of a projection; `label` says what kind of number it is."""

    name: str
    value: float | int | str
    label: Label


@dataclass(frozen=True)
class Projection:
    """Output tokens per second of one replica on `gpus` GPUs, all `batch` rows together, with a derivation.

    `drafted_share` is the share of target forwards that verify a draft; `bound_by` speaks of those,
    `plain_bound_by` of the plain ones.
    """

    gpu: str
    gpus: int
    batch: int
    k: int
    plain_tokens_per_second: float
    speculative_tokens_per_second: float
    speedup: float
    bound_by: Bound
    plain_bound_by: Bound
    plain_step_s: float
    verify_step_s: float
    draft_s: float
    drafted_share: float
    fits: bool
    memory: str
    formula: str
    assumptions: tuple[Assumption, ...]
    provenance: Literal["projected"] = "projected"


def project(
    shape: ModelShape,
    gpu: GpuSpec,
    mean_acceptance_length: float | None,
    tokens_per_target_forward: float,
    k: int,
    draft_shape: ModelShape | None = None,
    *,
    context_tokens: int = 1024,
    batch: int = 1,
    gpus: int = 1,
    efficiency: float = DEFAULT_EFFICIENCY,
    overhead_s: float = DEFAULT_FORWARD_OVERHEAD_S,
    acceptance_label: Label = "measured",
) -> Projection:
    """Carry a measured acceptance to another GPU. Speculation may come out slower; that is shown, not hidden.

    `mean_acceptance_length` (1..k+1, None when no step drafted) and `tokens_per_target_forward` (1..k+1,
    steps without a draft included) come from the same run with the same `k`. Their ratio tells how many
    forwards were k + 1 wide; the others were 1 wide. Drafting costs k forwards of `draft_shape` on one GPU,
    or nothing without one (prompt lookup). Raises ValueError when a number is out of range or the two
    acceptance numbers contradict each other.
    """
    check_count("k", k, at_least=0)
    tau, per_forward = mean_acceptance_length, tokens_per_target_forward
    drafted_share = _drafted_share(tau, per_forward, k)

    def forward(model: ModelShape, width: int, on_gpus: int) -> StepTime:
        return decode_step(
            model,
            gpu,
            width,
            context_tokens,
            batch,
            gpus=on_gpus,
            efficiency=efficiency,
            overhead_s=overhead_s,
        )

    plain, verify = forward(shape, 1, gpus), forward(shape, k + 1, gpus)
    draft_s = k * forward(draft_shape, 1, 1).seconds if draft_shape is not None else 0.0
    step_s = drafted_share * (draft_s + verify.seconds) + (1 - drafted_share) * plain.seconds
    plain_speed = batch / plain.seconds
    speculative_speed = batch * per_forward / step_s
    drafting = f"{k} forwards of the draft model" if draft_shape else "no draft model"
    plan = memory_plan(shape, draft_shape, context_tokens, batch, k)
    return Projection(
        gpu=gpu.name,
        gpus=gpus,
        batch=batch,
        k=k,
        plain_tokens_per_second=plain_speed,
        speculative_tokens_per_second=speculative_speed,
        speedup=speculative_speed / plain_speed,
        bound_by=verify.bound_by,
        plain_bound_by=plain.bound_by,
        plain_step_s=plain.seconds,
        verify_step_s=verify.seconds,
        draft_s=draft_s,
        drafted_share=drafted_share,
        fits=fits(plan, gpu, gpus),
        memory=explain_fit(plan, gpu, gpus),
        formula="\n".join(
            [
                f"{gpus} x {gpu.name}: {gpu.mem_bw_tb_s:g} TB/s, {gpu.bf16_dense_tflops:g} BF16 TFLOPS each",
                f"plain forward, 1 token a row: {_explain(plain)}",
                f"verify forward, {k + 1} tokens a row: {_explain(verify)}",
                f"draft: {draft_s * 1e3:.4g} ms a step, {drafting}",
                f"step: {drafted_share:.4g} x (draft + verify) + {1 - drafted_share:.4g} x plain"
                f" = {step_s * 1e3:.4g} ms",
                f"plain: {batch} row(s) / {plain.seconds * 1e3:.4g} ms = {plain_speed:.4g} tok/s",
                f"speculative: {batch} row(s) x {per_forward:.4g} tokens / {step_s * 1e3:.4g} ms"
                f" = {speculative_speed:.4g} tok/s",
                f"speed-up: {speculative_speed / plain_speed:.4g}",
            ]
        ),
        assumptions=(
            Assumption("mean_acceptance_length", "no drafts" if tau is None else tau, acceptance_label),
            Assumption("tokens_per_target_forward", per_forward, acceptance_label),
            Assumption("gpu figures", gpu.source, "quoted"),
            Assumption("efficiency", efficiency, "assumed"),
            Assumption("forward_overhead_s", overhead_s, "assumed"),
            Assumption("context_tokens", context_tokens, "assumed"),
            Assumption("batch", batch, "assumed"),
            Assumption("arithmetic", "dense BF16; attention arithmetic left out", "assumed"),
            Assumption("drafting without a draft model", "takes no time", "assumed"),
            Assumption("experts of different tokens", "drawn independently and evenly", "assumed"),
            Assumption("several GPUs", "share the target evenly, talk at no cost; the draft uses one", "assumed"),
        ),
    )


def _drafted_share(tau: float | None, per_forward: float, k: int) -> float:
    """Share f of forwards that verified a draft, from per_forward = f * tau + (1 - f) * 1."""
    if tau is not None and not 1 <= tau <= k + 1:  # NaN fails too
        raise ValueError(f"mean_acceptance_length must be between 1 and k + 1 = {k + 1}, not {tau!r}")
    if not 0 < per_forward <= k + 1:
        raise ValueError(f"tokens_per_target_forward must be above 0 and at most k + 1 = {k + 1}, not {per_forward!r}")
    extra, gained = per_forward - 1, (tau or 1.0) - 1
    # A step that was cut short emits fewer tokens than it accepted: `extra` may be small, never large.
    if extra > gained * 1.05 + 1e-9:
        raise ValueError(f"{per_forward!r} tokens a forward is more than {tau!r} a drafted step")
    if k == 0 or tau is None:
        return 0.0
    if gained == 0:  # nothing was ever accepted: assume the dear case, that every forward had a draft
        return 1.0
    return min(max(extra / gained, 0.0), 1.0)


def _explain(step: StepTime) -> str:
    return (
        f"max(memory {step.memory_s * 1e3:.4g} ms, compute {step.compute_s * 1e3:.4g} ms) + "
        f"overhead {step.overhead_s * 1e3:.4g} ms = {step.seconds * 1e3:.4g} ms ({step.bound_by}-bound)"
    )
