"""From a measured run to $/1M tokens: the only place where engine's numbers and pricing's prices meet.

What was measured here stays measured; A100, H100 and B200 are projected from its acceptance by a roofline. Plain
functions and plain records; the panel only draws them.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any

from engine.hardware import ModelShape, Projection, load_gpu_specs, match_price_gpu, project
from engine.stats import Stats
from pricing import CostRow, PriceTable, Throughput, cost_table, saving_share, usd_per_million_tokens

FAMILIES = ("A100", "H100", "B200")
THIS_MACHINE = "this machine"
Record = dict[str, Any]


@dataclass(frozen=True)
class Measured:
    """What one run measured, and the shapes it was measured on. draft_shape: None when drafting runs no model."""

    speculative: Stats
    plain: Stats
    k: int
    shape: ModelShape
    draft_shape: ModelShape | None
    device: str
    where: str


@dataclass(frozen=True)
class Assumed:
    """The user's to choose."""

    provider: str | None = None
    commitment: str | None = None
    busy_share: float = 0.6
    batch: int = 1
    context_tokens: int = 1024
    own_usd_per_hour: float | None = None


def shape_of(runner: Any) -> ModelShape:
    """The model as served on a GPU: bf16, whatever this machine holds it in. Raises ValueError when not covered."""
    return ModelShape.from_config(runner.model.config)


def projections(measured: Measured, assumed: Assumed, prices: PriceTable) -> dict[str, Projection]:
    """One projection a priced GPU of our families, keyed by `PriceRow.gpu_key`. Raises ValueError with a sentence."""
    specs = load_gpu_specs()
    found: dict[str, Projection] = {}
    for price in prices:
        name = match_price_gpu(price.gpu, price.gpu_mem_gb)
        if name is None or price.gpu_key in found or not price.gpu.startswith(FAMILIES):
            continue
        found[price.gpu_key] = project(
            measured.shape,
            specs[name],
            measured.speculative.mean_acceptance_length,
            measured.speculative.tokens_per_target_forward or 1.0,
            measured.k,
            measured.draft_shape,
            context_tokens=assumed.context_tokens,
            batch=assumed.batch,
        )
    return found


def cost_records(measured: Measured, assumed: Assumed, prices: PriceTable, today: date | None = None) -> list[Record]:
    """Rows for the table, the chart and the CSV alike: this machine first, then prices, cheapest token first."""
    selected = prices.select(provider=assumed.provider, commitment=assumed.commitment, today=today)
    projected = projections(measured, assumed, selected)
    drafted = measured.speculative.mean_acceptance_length is not None
    throughputs = {
        key: Throughput(
            p.plain_tokens_per_second if p.fits else None,
            # Without a draft there was no acceptance to carry over: absent, not "equal to plain".
            p.speculative_tokens_per_second if drafted and p.fits else None,
            "projected",
            _explain(p),
        )
        for key, p in projected.items()
    }
    rows = cost_table(selected, throughputs, assumed.busy_share, today=today)
    priced = ({"gpu_label": _gpu_label(row), **asdict(row), "price_label": "quoted"} for row in rows)
    return [_own_record(measured, assumed), *priced]


def _gpu_label(row: CostRow) -> str:
    """The 40 and the 80 GB card share a name and not a speed."""
    return row.gpu if row.gpu_mem_gb is None else f"{row.gpu} {row.gpu_mem_gb:g} GB"


def _own_record(measured: Measured, assumed: Assumed) -> Record:
    """This machine: speeds as measured, at a price that is only ever the user's own."""
    speeds = (measured.plain.output_tokens_per_second, measured.speculative.output_tokens_per_second)
    plain, speculative = (usd_per_million_tokens(assumed.own_usd_per_hour, s, assumed.busy_share) for s in speeds)
    rate = "no price given" if assumed.own_usd_per_hour is None else f"${assumed.own_usd_per_hour:g}/h, assumed"

    def line(name: str, speed: float | None, usd: float | None) -> str:
        if speed is None or usd is None:
            return f"{name}: n/a"
        hourly = f"{assumed.own_usd_per_hour:g}"
        return f"{name}: {hourly} / ({speed:.6g} tok/s x 3600 x {assumed.busy_share:g} busy) x 1e6 = ${usd:.4g} per 1M"

    return {
        "gpu_label": measured.device,
        "provider": THIS_MACHINE,
        "instance": "",
        "gpu": measured.device,
        "commitment": "",
        "region": "",
        "as_of": date.today(),
        "usd_per_hour": assumed.own_usd_per_hour,
        "usd_per_gpu_hour": assumed.own_usd_per_hour,
        "plain_tokens_per_second": speeds[0],
        "speculative_tokens_per_second": speeds[1],
        "busy_share": assumed.busy_share,
        "tokens_counted": "output",
        "plain_usd_per_million_tokens": plain,
        "speculative_usd_per_million_tokens": speculative,
        "saving_share": saving_share(plain, speculative),
        "provenance": "measured",
        "how": f"measured: {measured.where}; output tokens a second, the prompt read included, one sequence",
        "formula": "; ".join([rate, line("plain", speeds[0], plain), line("speculative", speeds[1], speculative)]),
        "price_label": "assumed",
    }


def _explain(p: Projection) -> str:
    """The projection's own derivation and every input with its label, one a line."""
    inputs = [f"{a.name}: {a.value if isinstance(a.value, str) else f'{a.value:g}'} ({a.label})" for a in p.assumptions]
    return "\n".join([p.formula, p.memory, *inputs])


def same_row(records: Sequence[Record], gpu_label: str, instance: str, usd_per_gpu_hour: float) -> Record | None:
    """The record behind a selected table row, whichever way the user has sorted it (and in whichever language)."""
    for record in records:
        if (record["gpu_label"], record["instance"]) == (gpu_label, instance):
            usd = record["usd_per_gpu_hour"]
            if usd is None or abs(usd - usd_per_gpu_hour) <= 1e-3 * usd:  # the table shows four digits
                return record
    return None
