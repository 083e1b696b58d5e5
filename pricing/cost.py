"""Cost of generated tokens. Pure arithmetic; every name carries its unit.

The rule: a price and a throughput must belong to the same machine. The price table has whole-instance
prices, a throughput belongs to one replica of the model (on one GPU, or on several), so the instance is
filled with as many replicas as its GPUs hold and the two are compared whole. Only output tokens are
counted.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Literal, get_args

from pricing.money import format_unit_price
from pricing.rows import PriceRow, finite, shown
from pricing.tables import PriceTable

Provenance = Literal["measured", "projected", "assumed"]
SECONDS_PER_HOUR = 3600
TOKENS_PER_MILLION = 1e6


def usd_per_million_tokens(
    usd_per_hour: float | None, tokens_per_second: float | None, busy_share: float | None = 1.0
) -> float | None:
    """USD per 1M output tokens: usd_per_hour / (tokens_per_second * 3600 * busy_share) * 1e6, unrounded.

    `busy_share` is the share of the billed hours in which the machine generates, in (0, 1]; idle billed
    hours raise the cost. None, never 0, inf or NaN, when an input is absent, zero, negative, not finite, not a
    number or out of range.
    """
    usd, speed, busy = _positive(usd_per_hour), _positive(tokens_per_second), _positive(busy_share)
    if usd is None or speed is None or busy is None or busy > 1:
        return None
    tokens_per_hour = _positive(speed * SECONDS_PER_HOUR * busy)
    if tokens_per_hour is None:  # a product of tiny or huge inputs can underflow or overflow
        return None
    return _positive(usd / tokens_per_hour * TOKENS_PER_MILLION)


def saving_share(
    plain_usd_per_million_tokens: float | None, speculative_usd_per_million_tokens: float | None
) -> float | None:
    """1 - speculative / plain: 0.25 is a quarter saved, -0.25 a quarter lost. None when either is absent.

    Meaningful only when both costs are for the same machine and the same number of concurrent requests.
    """
    plain, speculative = _positive(plain_usd_per_million_tokens), _positive(speculative_usd_per_million_tokens)
    if plain is None or speculative is None:
        return None
    return finite(1.0 - speculative / plain)


def format_usd(value: float | None, significant: int = 4) -> str:
    """Text for people: `significant` digits, half to even, whole dollars never cut; "n/a" for no value.

    A tiny price is "<$0.000001", never "$0.00".
    """
    return format_unit_price(value, "USD", "en", significant)


@dataclass(frozen=True)
class Throughput:
    """Output tokens per second of one replica of the model on `gpus` GPUs, all its requests together.

    `how` says where the numbers come from (run, hardware and date, or the projection). None means no value; a speed
    that is zero, negative, not finite or not a number is none either, and is kept as None.
    """

    plain_tokens_per_second: float | None
    speculative_tokens_per_second: float | None
    provenance: Provenance
    how: str
    gpus: int = 1

    def __post_init__(self) -> None:
        if self.provenance not in get_args(Provenance):
            known = ", ".join(get_args(Provenance))
            raise ValueError(f"provenance must be one of {known}, not {self.provenance!r}")
        if isinstance(self.gpus, bool) or not isinstance(self.gpus, numbers.Integral) or self.gpus < 1:
            raise ValueError(f"a replica needs at least 1 GPU, as a whole number, not {shown(self.gpus)}")
        for name in ("plain_tokens_per_second", "speculative_tokens_per_second"):
            object.__setattr__(self, name, _positive(getattr(self, name)))


@dataclass(frozen=True)
class CostRow:
    """One price against one throughput. tokens/s are of one replica, prices per hour of the whole instance.

    `per_hour` is in `currency`; the USD figures are None when that is another one: nothing converts a price silently.
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
    currency: str
    per_hour: float
    usd_per_hour: float | None
    usd_per_gpu_hour: float | None
    gpus_per_replica: int
    replicas: int
    usd_per_replica_hour: float | None
    plain_tokens_per_second: float | None
    speculative_tokens_per_second: float | None
    busy_share: float
    tokens_counted: str
    plain_usd_per_million_tokens: float | None
    speculative_usd_per_million_tokens: float | None
    saving_share: float | None
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
) -> list[CostRow]:
    """Every price whose GPU has a throughput, cheapest speculative token first, rows without a value last.

    `throughputs` is keyed by `PriceRow.gpu_key` ("A100 SXM 40 GB": the 40 and 80 GB cards differ in speed);
    a GPU with no entry is not in the result. GPUs of an instance that no replica can use are billed all the
    same. An instance with fewer GPUs than one replica needs has no cost, nor has a price in another currency than
    USD. `today` decides which prices are stale or superseded. Raises ValueError when `busy_share` is not in (0, 1]:
    every row would repeat the nonsense.
    """
    busy = _positive(busy_share)
    if busy is None or busy > 1:
        raise ValueError(f"busy_share must be a number above 0 and at most 1, not {shown(busy_share)}")
    day = today or date.today()
    rows = [
        _cost_row(price, throughput, busy, day, prices)
        for price in prices.select(include_superseded=include_superseded, today=day)
        if (throughput := throughputs.get(price.gpu_key)) is not None
    ]
    return sorted(rows, key=_cheapest_first)


def _cost_row(price: PriceRow, speed: Throughput, busy_share: float, day: date, prices: PriceTable) -> CostRow:
    replicas = price.gpu_count // speed.gpus
    usd_per_hour = price.usd_per_hour
    usd_per_replica_hour = usd_per_hour / replicas if replicas and usd_per_hour is not None else None
    plain_speed, speculative_speed = speed.plain_tokens_per_second, speed.speculative_tokens_per_second
    plain = usd_per_million_tokens(usd_per_replica_hour, plain_speed, busy_share)
    speculative = usd_per_million_tokens(usd_per_replica_hour, speculative_speed, busy_share)
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
        usd_per_hour=usd_per_hour,
        usd_per_gpu_hour=price.usd_per_gpu_hour,
        gpus_per_replica=speed.gpus,
        replicas=replicas,
        usd_per_replica_hour=usd_per_replica_hour,
        plain_tokens_per_second=plain_speed,
        speculative_tokens_per_second=speculative_speed,
        busy_share=busy_share,
        tokens_counted="output",
        plain_usd_per_million_tokens=plain,
        speculative_usd_per_million_tokens=speculative,
        saving_share=saving_share(plain, speculative),
        provenance=speed.provenance,
        how=speed.how,
        formula=_formula(price, speed, replicas, busy_share, plain, speculative),
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
    if price.usd_per_hour is None:
        return (
            f"no value in USD: the price is {price.per_hour:g} {price.currency}/h; convert it at a rate that you name"
        )
    unused = price.gpu_count - replicas * speed.gpus
    idle = f", {unused} of its GPUs unused but billed" if unused else ""
    replica = f"${price.usd_per_hour:g}/h for {price.gpu_count} x {price.gpu} / {replicas} replica(s){idle}"
    usd = price.usd_per_hour / replicas

    def term(name: str, tokens_per_second: float | None, cost: float | None) -> str:
        if cost is None or tokens_per_second is None:
            return f"{name}: n/a"
        return (
            f"{name}: {usd:.6g} / ({tokens_per_second:.6g} tok/s x 3600 x {busy_share:g} busy) x 1e6 = "
            f"{format_usd(cost)} per 1M output tokens"
        )

    terms = [
        term("plain", speed.plain_tokens_per_second, plain),
        term("speculative", speed.speculative_tokens_per_second, speculative),
    ]
    return f"{replica} = ${usd:.6g}/h a replica; " + "; ".join(terms)


def _cheapest_first(row: CostRow) -> tuple[bool, float, str, str]:
    cost = row.speculative_usd_per_million_tokens
    return (cost is None, cost if cost is not None else 0.0, row.provider, row.instance)


def _positive(value: object) -> float | None:
    """A positive finite float, or None: NaN and infinities would reach JSON, which has no word for them."""
    number = finite(value)
    return number if number is not None and number > 0 else None
