"""The speed-up that theory gives for measured costs: what `tune_k` and `sweep` hold beside what they measure."""

from engine.theory import expected_tokens_per_step, speedup_from_curves


def predicted_speedup(
    alpha: float, k: int, drafted_share: float, plain_s: float, drafted_s: float, rows: int = 1
) -> float:
    """Plain / speculative seconds behind the first token.

    alpha: accepted / tested. drafted_share: of a row's steps, those that found something to draft; the others emit
    one token. plain_s, drafted_s: measured seconds (any one unit) of a step without a draft and of one with a full
    draft. rows: sequences that decode together; they wait for each other, so a step of all costs drafted_s as soon
    as one of them drafts, here taken as independent. At rows 1 and drafted_share 1 it is Leviathan (2023, Thm 3.8)
    with measured costs in place of c: E / (drafted_s / plain_s). Raises ValueError outside those ranges.
    """
    if not 0 <= drafted_share <= 1:
        raise ValueError(f"drafted_share must be between 0 and 1, not {drafted_share!r}")
    if rows < 1:
        raise ValueError(f"rows must be at least 1, not {rows!r}")
    any_row = 1 - (1 - drafted_share) ** rows
    tokens = drafted_share * expected_tokens_per_step(alpha, k) + (1 - drafted_share)
    return speedup_from_curves(tokens, plain_s, any_row * drafted_s + (1 - any_row) * plain_s, 0.0)
