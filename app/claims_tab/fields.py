"""The fields of "check my claim", in the order of the form, and two claims to fill it with."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["model", "gpu", "precision", "count", "number", "share"]


@dataclass(frozen=True)
class Field:
    """name: as in ClaimInput, or what `claims_model.check` takes besides. label, info: of the catalogue."""

    name: str
    kind: Kind
    label: str
    info: str = ""
    unit: str = ""


GROUPS: tuple[tuple[str, tuple[Field, ...]], ...] = (
    ("claim_group_machine", (
        Field("model", "model", "claim_in_model", "claim_in_model_told"),
        Field("gpu", "gpu", "claim_in_gpu"),
        Field("gpus", "count", "claim_in_gpus", unit="GPUs"),
        Field("precision", "precision", "claim_in_precision"),
        Field("usd_per_hour", "number", "claim_in_price", "claim_in_price_told", "USD/h"),
    )),
    ("claim_group_claimed", (
        Field("tokens_per_second", "number", "claim_in_speed", unit="tokens/s"),
        Field("speedup", "number", "claim_in_speedup", unit="x"),
        Field("usd_per_million", "number", "claim_in_cost", unit="USD/1M"),
    )),
    ("claim_group_draft", (
        Field("batch", "count", "claim_in_batch", unit="requests"),
        Field("k", "count", "claim_in_k", unit="tokens"),
        Field("mean_acceptance_length", "number", "claim_in_length", "claim_in_length_told", "tokens"),
        Field("draft_acceptance_rate", "share", "claim_in_rate", "claim_in_rate_told"),
    )),
    ("claim_group_more", (
        Field("plain_tokens_per_second", "number", "claim_in_plain_speed", unit="tokens/s"),
        Field("plain_usd_per_million", "number", "claim_in_plain_cost", unit="USD/1M"),
        Field("cost_ratio", "number", "claim_in_cost_ratio", "claim_in_cost_ratio_told"),
        Field("busy_share", "share", "claim_in_busy"),
        Field("context_tokens", "count", "claim_in_context", unit="tokens"),
        Field("prompt_tokens", "count", "claim_in_prompt", unit="tokens"),
        Field("draft", "model", "claim_in_draft", "claim_in_draft_told"),
    )),
)  # fmt: skip
FIELDS = {one.name: one for _, group in GROUPS for one in group}
BESIDES = ("precision", "context_tokens", "prompt_tokens", "draft")
# The article's own figures, and a draft that cannot give what is claimed of it.
EXAMPLES: tuple[tuple[str, dict[str, str | float]], ...] = (
    ("claim_example_cost", {"model": "Llama-2-70B", "gpu": "H100 SXM", "gpus": 8, "precision": "fp8",
                            "usd_per_hour": 98.32, "usd_per_million": 0.18}),
    ("claim_example_speedup", {"model": "Llama-3.1-8B", "gpu": "H100 SXM", "speedup": 3.5, "batch": 1, "k": 5,
                               "mean_acceptance_length": 3.2}),
)  # fmt: skip
