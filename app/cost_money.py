"""The money of a cost record as the panel shows it: in the reader's currency where a rate reaches it, else its own."""

from typing import Any

from pricing import Exchange
from pricing.cost_shown import Shown
from pricing.currencies import Currency
from pricing.money import format_unit_price
from pricing.throughput import RequestParts

MONEY = (
    "per_gpu_hour", "plain_per_million_tokens", "speculative_per_million_tokens", "plain_per_million_input",
    "plain_per_million_output", "speculative_per_million_input", "speculative_per_million_output",
)  # fmt: skip
Record = dict[str, Any]


def currency_of(record: Record) -> str:
    """In what the record's money is shown."""
    reached = record.get("shown_currency") and record.get("shown_per_gpu_hour") is not None
    return str(record["shown_currency"] if reached else record["currency"])


def amount(record: Record, key: str) -> float | None:
    """One of MONEY, in `currency_of` the record."""
    value = record.get(key)
    if value is None or currency_of(record) == record["currency"]:
        return None if value is None else float(value)
    return float(value * record["shown_per_gpu_hour"] / record["per_gpu_hour"])


def axis(records: list[Record]) -> str:
    """The one currency of a chart: the one that most are shown in; of two with equally many what the reader asked for,
    else USD."""
    asked = next((r["shown_currency"] for r in records if r.get("shown_currency")), "USD")
    known = [currency_of(r) for r in records]
    return max(sorted({*known, asked}), key=lambda one: (known.count(one), one == asked))


def native(record: Record) -> str:
    """The price as it was quoted, where the table shows another currency."""
    if currency_of(record) == record["currency"]:
        return ""
    return format_unit_price(record["per_gpu_hour"], record["currency"])


def of_own(per_hour: float | None, plain: float | None, speculative: float | None, to: Exchange | None) -> Record:
    """Of this machine, whose price is in USD: the fields that a priced row has of `pricing.cost_table`."""
    own: Currency = "USD"
    made = Shown.of(own, (per_hour, plain, speculative), to)
    rate = made.rate
    return {
        "currency": own,
        "per_hour": per_hour,
        "per_gpu_hour": per_hour,
        "plain_per_million_tokens": plain,
        "speculative_per_million_tokens": speculative,
        "shown_currency": made.currency,
        "shown_per_gpu_hour": made.amounts[0],
        "shown_plain_per_million_tokens": made.amounts[1],
        "shown_speculative_per_million_tokens": made.amounts[2],
        "rate": None if rate is None else rate.rate,
        "rate_pair": None if rate is None else f"{rate.base}/{rate.quote}",
        "rate_kind": None if rate is None else rate.kind,
        "rate_day": None if rate is None else rate.day,
        "rate_source": None if rate is None else rate.source,
        "shown_how": made.how,
    }


def projected_parts(projection: Any, arm: Any) -> RequestParts:
    """How a request's time divides on the GPU."""
    return RequestParts(
        projection.prompt_tokens, projection.output_tokens, arm.prefill_s_per_request, arm.decode_s_per_request
    )


def measured_parts(stats: Any) -> RequestParts | None:
    """How it divided in a measured run: until the first token, and from then on. None where that was not measured."""
    if stats is None or not stats.runs or not stats.ttft_s or not stats.output_tokens_per_second:
        return None
    runs = stats.runs
    whole_s = stats.output_tokens / stats.output_tokens_per_second / runs
    written_s = whole_s - stats.ttft_s
    if written_s <= 0 or not stats.prompt_tokens:
        return None
    return RequestParts(stats.prompt_tokens / runs, stats.output_tokens / runs, stats.ttft_s, written_s)


def split(name: str, parts: RequestParts | None, alone: float | None) -> Record:
    """{name}_per_million_input and _output of a bill that is `alone` a 1M output tokens with all of it on them."""
    of_input, of_output = (None, None) if parts is None else parts.per_million(alone)
    return {f"{name}_per_million_input": of_input, f"{name}_per_million_output": of_output}


def split_told(record: Record, arm: str) -> str:
    """As a line of the derivation; "" where nothing is known of it."""
    of_input, of_output = (record.get(f"{arm}_per_million_{part}") for part in ("input", "output"))
    if of_input is None or of_output is None:
        return ""
    money = record["currency"]
    return (
        f"{arm}, the bill split by the seconds of reading and writing: {format_unit_price(of_input, money)} per 1M "
        f"input, {format_unit_price(of_output, money)} per 1M output tokens"
    )
