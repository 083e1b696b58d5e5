"""Seconds of whole requests on a GPU, plain and speculative: a run's own steps, each at the roofline's time."""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.draft_cost import Draft
from engine.efficiency import DEFAULT_FORWARD_OVERHEAD_S, Efficiency
from engine.gpu_specs import GpuSpec
from engine.precision import BF16, Precision
from engine.roofline import StepTime, decode_step
from engine.shape import ModelShape
from engine.step_counts import StepCounts


@dataclass(frozen=True, slots=True)
class ArmTime:
    """One way of decoding. Seconds of one replica.

    time_to_first_token_s: of a request whose prompt is read alone. prompts_s: of reading all `batch` prompts,
    decode_s: of all steps behind them. prefill_s_per_request + decode_s_per_request: the replica's time that one
    request takes up, so that requests times their sum is what a bill pays for.
    """

    time_to_first_token_s: float
    prompts_s: float
    decode_s: float
    batch: int
    output_tokens: float

    @property
    def seconds(self) -> float:
        """Until all rows are done."""
        return self.prompts_s + self.decode_s

    @property
    def tokens_per_second(self) -> float:
        """Output tokens of all rows, over the time of whole requests."""
        return self.batch * self.output_tokens / self.seconds

    @property
    def prefill_s_per_request(self) -> float:
        return self.prompts_s / self.batch

    @property
    def decode_s_per_request(self) -> float:
        return self.decode_s / self.batch


@dataclass(frozen=True, slots=True)
class RequestTimes:
    """Both ways, and the forwards that they are made of. draft_s: of one drafted step, its overhead included."""

    plain: ArmTime
    speculative: ArmTime
    plain_step: StepTime
    verify_step: StepTime
    draft_s: float


def request_times(
    shape: ModelShape,
    gpu: GpuSpec,
    counts: StepCounts,
    draft: Draft | None = None,
    *,
    context_tokens: float,
    efficiency: float | Efficiency,
    batch: int = 1,
    gpus: int = 1,
    precision: Precision = BF16,
    kv_bytes_per_element: float = 2.0,
    overhead_s: float = DEFAULT_FORWARD_OVERHEAD_S,
) -> RequestTimes:
    """plain: read the prompt, then one forward a token. speculative: read the prompt (the draft too, where it does),
    then the run's own steps: those that drafted cost the draft, its overhead and a forward of 1 + width tokens, the
    others a plain forward. Host work for rows is a step's, so a draft's own forwards have none. The shapes' own bytes
    a parameter count; `precision` says which tensor peak they reach. Raises ValueError when a number is out of range.
    """
    share = Efficiency.of(efficiency)
    of_draft = replace(share, row_overhead_s=0.0)

    def forward(
        model: ModelShape, held: Precision, width: float, on: int, rows: int = batch, cached: float = context_tokens,
        logits: float | None = None, efficiency: Efficiency = share,
    ) -> StepTime:  # fmt: skip
        return decode_step(
            model, gpu, width, cached, rows, gpus=on, efficiency=efficiency, overhead_s=overhead_s,
            kv_bytes_per_element=kv_bytes_per_element, tensor_tflops=held.peak(gpu).tflops, logits_per_row=logits,
        )  # fmt: skip

    def prompt_s(model: ModelShape, held: Precision, on: int, rows: int) -> float:
        return forward(model, held, counts.prompt_tokens, on, rows, 0, logits=1).seconds

    plain, verify = forward(shape, precision, 1, gpus), forward(shape, precision, counts.width + 1, gpus)
    first_s, prompts_s = (prompt_s(shape, precision, gpus, rows) for rows in (1, batch))
    draft_s = draft_first_s = draft_prompts_s = 0.0
    if draft is not None and draft.shape is not None and draft.reads_prompt:
        held, on = draft.precision, draft.gpus
        draft_first_s, draft_prompts_s = (prompt_s(draft.shape, held, on, rows) for rows in (1, batch))
    if draft is not None and counts.drafted_steps:
        draft_s = draft.seconds
        if draft.shape is not None:
            times = counts.width if draft.forwards is None else draft.forwards
            one = forward(draft.shape, draft.precision, 1, draft.gpus, efficiency=of_draft)
            draft_s += times * one.seconds + share.round_overhead_s
    undrafted = counts.decode_steps - counts.drafted_steps
    drafted_s = counts.drafted_steps * (draft_s + verify.seconds)
    tokens = counts.output_tokens
    return RequestTimes(
        plain=ArmTime(first_s, prompts_s, (tokens - 1) * plain.seconds, batch, tokens),
        speculative=ArmTime(
            first_s + draft_first_s, prompts_s + draft_prompts_s, drafted_s + undrafted * plain.seconds, batch, tokens
        ),
        plain_step=plain,
        verify_step=verify,
        draft_s=draft_s,
    )
