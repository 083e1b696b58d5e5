"""Cost of generated tokens. Pure arithmetic; every name carries its unit.

The rule: a price and a throughput must belong to the same machine. The price table has whole-instance
prices, a throughput belongs to one replica of the model (on one GPU, or on several), so the instance is
filled with as many replicas as its GPUs hold and the two are compared whole. Only output tokens are
counted. A cost is in its price's own currency; in another one it stands beside it, at a rate that somebody gave.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from pricing.cost_shown import Shown
from pricing.currencies import SYMBOLS, Currency
from pricing.exchange import Exchange
from pricing.money import format_unit_price
from pricing.rows import PriceRow, finite, shown
from pricing.tables import PriceTable
from pricing.throughput import Provenance as Provenance
from pricing.throughput import RequestParts as RequestParts
from pricing.throughput import Throughput as Throughput
from pricing.throughput import positive

SECONDS_PER_HOUR = 3600
TOKENS_PER_MILLION = 1e6


def per_million_tokens(
    per_hour: float | None, tokens_per_second: float | None, busy_share: float | None = 1.0
) -> float | None:
    """Cost of 1M output tokens in the currency of the price: per_hour / (tokens_per_second * 3600 * busy_share) * 1e6,
    unrounded.

    `busy_share` is the share of the billed hours in which the machine generates, in (0, 1]; idle billed
    hours raise the cost. None, never 0, inf or NaN, when an input is absent, zero, negative, not finite, not a
    number or out of range.
    """
    price, speed, busy = positive(per_hour), positive(tokens_per_second), positive(busy_share)
    if price is None or speed is None or busy is None or busy > 1:
        return None
    tokens_per_hour = positive(speed * SECONDS_PER_HOUR * busy)
    if tokens_per_hour is None:  # a product of tiny or huge inputs can underflow or overflow
        return None
    return positive(price / tokens_per_hour * TOKENS_PER_MILLION)


def usd_per_million_tokens(
    usd_per_hour: float | None, tokens_per_second: float | None, busy_share: float | None = 1.0
) -> float | None:
    """`per_million_tokens` of a price in USD."""
    return per_million_tokens(usd_per_hour, tokens_per_second, busy_share)


def saving_share(
    plain_usd_per_million_tokens: float | None, speculative_usd_per_million_tokens: float | None
) -> float | None:
    """1 - speculative / plain: 0.25 is a quarter saved, -0.25 a quarter lost. None when either is absent.

    Meaningful only when both costs are for the same machine and the same number of concurrent requests.
    """
    plain, speculative = positive(plain_usd_per_million_tokens), positive(speculative_usd_per_million_tokens)
    if plain is None or speculative is None:
        return None
    return finite(1.0 - speculative / plain)


@dataclass(frozen=True)
class CostRow:
    """One price against one throughput. tokens/s are of one replica, prices per hour of the whole instance.

    `per_*` and `*_per_million_*` are in `currency`, the price's own; the USD figures are None when that is another one:
    nothing converts a price silently. `shown_*` are the same in the currency that was asked for, at `rate`
    (`rate_pair`: what it is of, `rate_kind`: the bank's side), and None without one; `shown_how` says it in words.
    *_input and *_output split the bill by the time of reading and writing, where the throughput knows it.
    """

    provider: str
    instance: str
    gpu: str
    gpu_mem_gb: float | None
    gpu_count: int
    commitment: str
    region: str
    as_of: date
    stale: bool
    evidence: str
    source_url: str
    currency: Currency
    per_hour: float
    per_gpu_hour: float
    usd_per_hour: float | None
    usd_per_gpu_hour: float | None
    gpus_per_replica: int
    replicas: int
    per_replica_hour: float | None
    usd_per_replica_hour: float | None
    plain_tokens_per_second: float | None
    speculative_tokens_per_second: float | None
    busy_share: float
    tokens_counted: str
    plain_per_million_tokens: float | None
    speculative_per_million_tokens: float | None
    plain_usd_per_million_tokens: float | None
    speculative_usd_per_million_tokens: float | None
    plain_per_million_input: float | None
    plain_per_million_output: float | None
    speculative_per_million_input: float | None
    speculative_per_million_output: float | None
    saving_share: float | None
    shown_currency: Currency | None
    shown_per_gpu_hour: float | None
    shown_plain_per_million_tokens: float | None
    shown_speculative_per_million_tokens: float | None
    rate: float | None
    rate_pair: str | None
    rate_kind: str | None
    rate_day: date | None
    rate_source: str | None
    shown_how: str
    provenance: Provenance
    how: str
    formula: str
    price_notes: str
    price_table_sha256: str
    price_table_file: str


def cost_table(
    prices: PriceTable,
    throughputs: Mapping[str, Throughput],
    busy_share: float = 1.0,
    *,
    today: date | None = None,
    include_superseded: bool = False,
    to: Exchange | None = None,
) -> list[CostRow]:
    """Every price whose GPU has a throughput, cheapest speculative token first, rows without a value last.

    `throughputs` is keyed by `PriceRow.gpu_key` ("A100 SXM 40 GB": the 40 and 80 GB cards differ in speed);
    a GPU with no entry is not in the result. GPUs of an instance that no replica can use are billed all the
    same. An instance with fewer GPUs than one replica needs has no cost. `today` decides which prices are stale or
    superseded. `to`: the currency that costs are shown in too, with its `Rates` and their side; a price that they do
    not reach has no figure there, and `shown_how` says why. Costs are ranked there, and without `to` in USD: those of
    another currency follow, each with its own. Raises ValueError when `busy_share` is not in (0, 1]: every row would
    repeat the nonsense.
    """
    busy = positive(busy_share)
    if busy is None or busy > 1:
        raise ValueError(f"busy_share must be a number above 0 and at most 1, not {shown(busy_share)}")
    day = today or date.today()
    rows = [
        _cost_row(price, throughput, busy, day, prices, to)
        for price in prices.select(include_superseded=include_superseded, today=day)
        if (throughput := throughputs.get(price.gpu_key)) is not None
    ]
    return sorted(rows, key=_cheapest_first)


def _cost_row(
    price: PriceRow, speed: Throughput, busy_share: float, day: date, prices: PriceTable, to: Exchange | None
) -> CostRow:
    replicas = price.gpu_count // speed.gpus
    per_replica_hour = price.per_hour / replicas if replicas else None
    plain_speed, speculative_speed = speed.plain_tokens_per_second, speed.speculative_tokens_per_second
    plain = per_million_tokens(per_replica_hour, plain_speed, busy_share)
    speculative = per_million_tokens(per_replica_hour, speculative_speed, busy_share)
    parts = [
        (None, None) if known is None else known.per_million(alone)
        for known, alone in ((speed.plain_parts, plain), (speed.speculative_parts, speculative))
    ]
    usd = price.currency == "USD"
    also = Shown.of(price.currency, (price.per_gpu_hour, plain, speculative), to)
    return CostRow(
        provider=price.provider,
        instance=price.instance,
        gpu=price.gpu,
        gpu_mem_gb=price.gpu_mem_gb,
        gpu_count=price.gpu_count,
        commitment=price.commitment,
        region=price.region,
        as_of=price.as_of,
        stale=price.is_stale(day),
        evidence=price.evidence,
        source_url=price.source,
        currency=price.currency,
        per_hour=price.per_hour,
        per_gpu_hour=price.per_gpu_hour,
        usd_per_hour=price.usd_per_hour,
        usd_per_gpu_hour=price.usd_per_gpu_hour,
        gpus_per_replica=speed.gpus,
        replicas=replicas,
        per_replica_hour=per_replica_hour,
        usd_per_replica_hour=per_replica_hour if usd else None,
        plain_tokens_per_second=plain_speed,
        speculative_tokens_per_second=speculative_speed,
        busy_share=busy_share,
        tokens_counted="output",
        plain_per_million_tokens=plain,
        speculative_per_million_tokens=speculative,
        plain_usd_per_million_tokens=plain if usd else None,
        speculative_usd_per_million_tokens=speculative if usd else None,
        plain_per_million_input=parts[0][0],
        plain_per_million_output=parts[0][1],
        speculative_per_million_input=parts[1][0],
        speculative_per_million_output=parts[1][1],
        saving_share=saving_share(plain, speculative),
        shown_currency=to.currency if to is not None else None,
        shown_per_gpu_hour=also.amounts[0],
        shown_plain_per_million_tokens=also.amounts[1],
        shown_speculative_per_million_tokens=also.amounts[2],
        rate=also.rate.rate if also.rate is not None else None,
        rate_pair=f"{also.rate.base}/{also.rate.quote}" if also.rate is not None else None,
        rate_kind=also.rate.kind if also.rate is not None else None,
        rate_day=also.rate.day if also.rate is not None else None,
        rate_source=also.rate.source if also.rate is not None else None,
        shown_how=also.how,
        provenance=speed.provenance,
        how=speed.how,
        formula=_formula(price, speed, replicas, busy_share, plain, speculative) + also.told(price.currency),
        price_notes=price.notes,
        price_table_sha256=prices.sha256,
        price_table_file=prices.file,
    )


def _formula(
    price: PriceRow,
    speed: Throughput,
    replicas: int,
    busy_share: float,
    plain: float | None,
    speculative: float | None,
) -> str:
    if not replicas:
        return f"no value: one replica needs {speed.gpus} GPUs and the instance has {price.gpu_count}"
    unused = price.gpu_count - replicas * speed.gpus
    idle = f", {unused} of its GPUs unused but billed" if unused else ""
    sign = SYMBOLS[price.currency]
    replica = f"{sign}{price.per_hour:g}/h for {price.gpu_count} x {price.gpu} / {replicas} replica(s){idle}"
    hourly = price.per_hour / replicas

    def term(name: str, tokens_per_second: float | None, cost: float | None) -> str:
        if cost is None or tokens_per_second is None:
            return f"{name}: n/a"
        return (
            f"{name}: {hourly:.6g} / ({tokens_per_second:.6g} tok/s x 3600 x {busy_share:g} busy) x 1e6 = "
            f"{format_unit_price(cost, price.currency)} per 1M output tokens"
        )

    terms = [
        term("plain", speed.plain_tokens_per_second, plain),
        term("speculative", speed.speculative_tokens_per_second, speculative),
    ]
    return f"{replica} = {sign}{hourly:.6g}/h a replica; " + "; ".join(terms)


def _cheapest_first(row: CostRow) -> tuple[bool, str, float, str, str]:
    """Costs of one currency are ranked; of several, each currency by itself, behind what the reader asked for."""
    cost, first = row.shown_speculative_per_million_tokens, row.shown_currency or "USD"
    group = "" if cost is not None or row.currency == first else row.currency
    cost = row.speculative_per_million_tokens if cost is None else cost
    return (cost is None, group, cost if cost is not None else 0.0, row.provider, row.instance)
