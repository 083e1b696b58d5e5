"""$/1M of input, cached input and output tokens, split by the time that each takes, so that they add up to the bill."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pricing.rows import finite

_M = 1e6


# What `token_costs` does, as text over the steps of `pricing.why` and a scenario's inputs; a test evaluates each.
FORMULAS: Mapping[str, str] = {
    "per_million_input": "total * input_s / request_s / input_tokens_of_term * 1e6",
    "per_million_cached_input": "total * cached_input_s / request_s / cached_input_tokens_of_term * 1e6",
    "per_million_output": "total * output_s / request_s / output_tokens_of_term * 1e6",
    "per_million_output_alone": "total / output_tokens_of_term * 1e6",
    "blended_per_million": "total / (input_tokens_of_term + cached_input_tokens_of_term + output_tokens_of_term) * 1e6",
    "per_request": "total / requests_of_term",
    "per_conversation": "per_request * workload.turns_per_conversation",
    "per_1000_words_english": "per_million_output * workload.english_tokens_per_word * 1000 / 1e6",
    "per_1000_words_turkish": "per_million_output * workload.turkish_tokens_per_word * 1000 / 1e6",
}


@dataclass(frozen=True)
class TokenCosts:
    """Of one bill. per_million_*: None where there were no such tokens, never 0. blended: over all tokens of the mix.
    per_request, per_conversation; per_1000_words_*: of output, None without a count of tokens per word."""

    total: float
    per_million_input: float | None
    per_million_cached_input: float | None
    per_million_output: float | None
    per_million_output_alone: float | None
    blended_per_million: float | None
    per_request: float | None
    per_conversation: float | None
    per_1000_words_english: float | None
    per_1000_words_turkish: float | None


def token_costs(
    total: float,
    *,
    input_s: float,
    cached_input_s: float,
    output_s: float,
    input_tokens: float,
    cached_input_tokens: float,
    output_tokens: float,
    requests: float,
    turns_per_conversation: float = 1.0,
    english_tokens_per_word: float | None = None,
    turkish_tokens_per_word: float | None = None,
) -> TokenCosts:
    """Splits `total` (any currency) by the seconds that a request's parts take. *_s: of one request, in any one unit
    (or in money, where each part has its own price); *_tokens and requests: all that `total` paid for.
    `per_million_output_alone` charges everything to output tokens, as a price an hour over output tokens/s does."""
    whole_s = input_s + cached_input_s + output_s
    output = _per_million(total * output_s / whole_s, output_tokens) if whole_s > 0 else None

    def words(tokens_per_word: float | None) -> float | None:
        return None if output is None or tokens_per_word is None else output * tokens_per_word * 1000 / _M

    return TokenCosts(
        total=total,
        per_million_input=_per_million(total * input_s / whole_s, input_tokens) if whole_s > 0 else None,
        per_million_cached_input=(
            _per_million(total * cached_input_s / whole_s, cached_input_tokens) if whole_s > 0 else None
        ),
        per_million_output=output,
        per_million_output_alone=_per_million(total, output_tokens),
        blended_per_million=_per_million(total, input_tokens + cached_input_tokens + output_tokens),
        per_request=_over(total, requests),
        per_conversation=_over(total * turns_per_conversation, requests),
        per_1000_words_english=words(english_tokens_per_word),
        per_1000_words_turkish=words(turkish_tokens_per_word),
    )


def _per_million(cost: float, tokens: float) -> float | None:
    return _over(cost * _M, tokens)


def _over(cost: float, count: float) -> float | None:
    return finite(cost / count) if count > 0 else None
