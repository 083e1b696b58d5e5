"""From a measured run to $/1M tokens: the only place where engine's numbers and pricing's prices meet.

What was measured here stays measured; A100, H100 and B200 are projected from the run's own steps by a roofline. Plain
functions and plain records; the panel only draws them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from typing import Any

from app.cost_money import measured_parts, of_own, projected_parts, split
from engine.draft_cost import Draft
from engine.error_band import RANGE_RULE
from engine.hardware import ModelShape, load_gpu_specs, match_price_gpu
from engine.precision import find_precision
from engine.projection import Projection, StepCounts, project
from engine.stats import Stats
from pricing import CostRow, Exchange, PriceTable, Throughput, cost_table, saving_share, usd_per_million_tokens

FAMILIES = ("A100", "H100", "B200")
THIS_MACHINE = "this machine"
# Assumed: below this many output tokens a run says little of what longer ones would do. The first token costs the
# prompt's reading and the last ones may have no draft, so a short answer is mostly its two ends.
ENOUGH_TOKENS = 16
Record = dict[str, Any]
_SPEEDS = ("plain_tokens_per_second", "speculative_tokens_per_second")


@dataclass(frozen=True)
class Measured:
    """What one run measured, over the same tokens in both arms, and what it was measured on.

    speculative: None when no drafter was chosen. shape: None when the model has none that a roofline knows.
    draft_shape: None when drafting runs no model. hardware: for people. where: that with the model and the day.
    draft_is_known: whether the roofline covers what drafting costs; without it speculation is not projected.
    """

    speculative: Stats | None
    plain: Stats
    shape: ModelShape | None
    draft_shape: ModelShape | Draft | None = None
    device: str = "cpu"
    hardware: str = ""
    where: str = ""
    day: date = field(default_factory=date.today)
    draft_is_known: bool = True

    @property
    def drafted(self) -> bool:
        """Whether there is an acceptance to carry to other hardware."""
        return self.speculative is not None and self.speculative.drafted_steps > 0

    @property
    def few_tokens(self) -> bool:
        return self.plain.output_tokens < ENOUGH_TOKENS

    def rests_on(self) -> Record:
        """How much was measured: it stands beside every figure made from it."""
        return {
            "measured_tokens": self.plain.output_tokens,
            "measured_drafted_steps": self.speculative.drafted_steps if self.speculative else 0,
            "few_tokens": self.few_tokens,
        }


@dataclass(frozen=True)
class Assumed:
    """The user's to choose."""

    provider: str | None = None
    commitment: str | None = None
    busy_share: float = 0.6
    batch: int = 1
    context_tokens: int = 1024
    own_usd_per_hour: float | None = None
    gpus: int = 1
    precision: str = "bf16"


def shape_of(runner: Any) -> ModelShape:
    """The model as served on a GPU: bf16, whatever this machine holds it in. Raises ValueError when not covered."""
    # Counted, not derived: families differ in their layers.
    return ModelShape.from_config(runner.config, n_params=runner.n_params)


def projections(measured: Measured, assumed: Assumed, prices: PriceTable) -> dict[str, Projection]:
    """One projection a priced GPU of our families, keyed by `PriceRow.gpu_key`; none without a shape.
    Raises ValueError with a sentence."""
    if measured.shape is None:
        return {}
    specs = load_gpu_specs()
    counts = StepCounts.of((measured.draft_is_known and measured.speculative) or measured.plain)
    found: dict[str, Projection] = {}
    for price in prices:
        name = match_price_gpu(price.gpu, price.gpu_mem_gb)
        if name is None or price.gpu_key in found or not price.gpu.startswith(FAMILIES):
            continue
        found[price.gpu_key] = project(
            measured.shape,
            specs[name],
            counts,
            measured.draft_shape,
            context_tokens=assumed.context_tokens,
            batch=assumed.batch,
            gpus=assumed.gpus,
            precision=find_precision(assumed.precision),
        )
    return found


def cost_records(
    measured: Measured, assumed: Assumed, prices: PriceTable, today: date | None = None, to: Exchange | None = None
) -> list[Record]:
    """Rows for the table, the chart and the CSV alike: this machine first, then prices, cheapest token first.

    A projected speed has `*_low` and `*_high` beside it, what its error band makes of it. `row` numbers them, so that a
    row is known again however a reader has sorted them.
    """
    selected = prices.select(provider=assumed.provider, commitment=assumed.commitment, today=today)
    projected = projections(measured, assumed, selected)
    throughputs = {
        key: Throughput(
            p.plain_tokens_per_second if p.fits else None,
            # Without a draft there was no acceptance to carry over: absent, not "equal to plain".
            p.speculative_tokens_per_second if measured.drafted and measured.draft_is_known and p.fits else None,
            "projected",
            _explain(p, measured),
            assumed.gpus,
            projected_parts(p, p.plain),
            projected_parts(p, p.speculative),
        )
        for key, p in projected.items()
    }
    rows = cost_table(selected, throughputs, assumed.busy_share, today=today, to=to)
    if not (measured.drafted and measured.draft_is_known):  # the table is sorted by a price that no row has then
        rows.sort(key=_cheapest_plain)
    priced = [
        {"gpu_label": _gpu_label(row), **_with_ranges(asdict(row), projected), "price_label": "quoted",
         "sequences_at_once": assumed.batch}
        for row in rows
    ]  # fmt: skip
    records = [_own_record(measured, assumed, to), *priced]
    return [{"row": i, **record, **measured.rests_on()} for i, record in enumerate(records)]


def _with_ranges(record: Record, projected: Mapping[str, Projection]) -> Record:
    """The record with the ends of each speed's range behind the speed; None where there is no speed, or one that was
    measured."""
    band = next((p.error_band for p in projected.values()), None)  # of one batch, so of one kind
    found: Record = {}
    for name, value in record.items():
        found[name] = value
        if name in _SPEEDS:
            ends = band.around(value) if band is not None and value is not None else (None, None)
            found[f"{name}_low"], found[f"{name}_high"] = ends
    return found


def _cheapest_plain(row: CostRow) -> tuple[bool, str, float]:
    """As `cost_table` ranks: in the currency that was asked for, the others behind it each by itself."""
    first, shown = row.shown_currency or "USD", row.shown_plain_per_million_tokens
    cost = row.plain_per_million_tokens if shown is None else shown
    return cost is None, "" if shown is not None or row.currency == first else row.currency, cost or 0.0


def _gpu_label(row: CostRow) -> str:
    """The 40 and the 80 GB card share a name and not a speed."""
    return row.gpu if row.gpu_mem_gb is None else f"{row.gpu} {row.gpu_mem_gb:g} GB"


def _own_record(measured: Measured, assumed: Assumed, to: Exchange | None = None) -> Record:
    """This machine: speeds as measured, at a price that is only ever the user's own."""
    fast = measured.speculative
    speeds = (measured.plain.output_tokens_per_second, fast.output_tokens_per_second if fast else None)
    plain, speculative = (usd_per_million_tokens(assumed.own_usd_per_hour, s, assumed.busy_share) for s in speeds)
    rate = "no price given" if assumed.own_usd_per_hour is None else f"${assumed.own_usd_per_hour:g}/h, assumed"

    def line(name: str, speed: float | None, usd: float | None) -> str:
        if speed is None or usd is None:
            return f"{name}: n/a"
        hourly = f"{assumed.own_usd_per_hour:g}"
        return f"{name}: {hourly} / ({speed:.6g} tok/s x 3600 x {assumed.busy_share:g} busy) x 1e6 = ${usd:.4g} per 1M"

    own = {
        "gpu_label": measured.device.upper() if measured.device == "cpu" else measured.device,
        "provider": THIS_MACHINE,
        "instance": measured.hardware,
        "gpu": measured.device,
        "commitment": "",
        "region": "",
        "as_of": measured.day,
        "stale": False,
        "usd_per_hour": assumed.own_usd_per_hour,
        "usd_per_gpu_hour": assumed.own_usd_per_hour,
        "plain_tokens_per_second": speeds[0],
        "speculative_tokens_per_second": speeds[1],
        "busy_share": assumed.busy_share,
        "tokens_counted": "output",
        "plain_usd_per_million_tokens": plain,
        "speculative_usd_per_million_tokens": speculative,
        "saving_share": saving_share(plain, speculative),
        **of_own(assumed.own_usd_per_hour, plain, speculative, to),
        **split("plain", measured_parts(measured.plain), plain),
        **split("speculative", measured_parts(fast), speculative),
        "provenance": "measured",
        "how": f"measured: {measured.where}\n{_basis(measured)}\n"
        "output tokens over the time of whole requests, the prompt's reading included; one sequence at once",
        "formula": "; ".join([rate, line("plain", speeds[0], plain), line("speculative", speeds[1], speculative)]),
        "price_label": "assumed",
        "sequences_at_once": 1,
    }
    return _with_ranges(own, {})


def _basis(measured: Measured) -> str:
    rests = measured.rests_on()
    text = f"rests on {rests['measured_tokens']} output tokens and {rests['measured_drafted_steps']} drafted steps"
    return f"{text}; under {ENOUGH_TOKENS} tokens, not much to go by" if measured.few_tokens else text


def _explain(p: Projection, measured: Measured) -> str:
    """The projection's own derivation and every input with its label, one a line."""
    inputs = [str(a) for a in p.assumptions]
    run = f"the run: measured on {measured.where}; {_basis(measured)}"
    ranges = [f"plain {_within(*p.plain_range)} tok/s"]
    if measured.drafted and measured.draft_is_known:
        ranges.append(f"speculative {_within(*p.speculative_range)} tok/s")
    expected = f"range of the speeds: {', '.join(ranges)}; {RANGE_RULE}"
    return "\n".join([f"sequences at once: {p.batch}", run, p.formula, expected, p.memory, *p.notes, *inputs])


def _within(low: float, high: float) -> str:
    return f"{low:.4g} to {high:.4g}"


def record_of(records: Sequence[Record], row: object) -> Record | None:
    """The record with this row number, as a table's cell gives it; None for anything else."""
    try:
        number = int(float(str(row)))
    except ValueError:
        return None
    return next((record for record in records if record["row"] == number), None)
