"""From a number on the page to its derivation. What a number is goes to the browser as a short list of texts and comes
back when it is clicked; whatever else comes back has no derivation."""

from collections.abc import Callable
from typing import Any

from app.catalogue import Words
from app.finance import fields, shown, why_choices, why_options
from app.finance.cost_sheets import MEASURES, SPLIT, measure_name
from app.finance.desk import Desk, Now
from app.finance.load_curve import load_lines
from app.finance.tco_charts import value
from app.finance.tco_sheets import titled
from app.finance.two_way import axes, in_both, picked_option
from app.finance.why_record import Record, also_in, panel
from app.shown_in import told_rate
from pricing import PriceTable
from pricing.export.told_moved import label, value_text
from pricing.export.words import Words as ExportWords
from pricing.moved import what_moved
from pricing.scenario import ARMS
from pricing.sensitivity import ranges, tornado, two_way

SHARES = ("loss_share", "missed_share")


def explain(desk: Desk, asked: Any, prices: PriceTable, words: Words) -> dict[str, Any] | None:
    """The panel's value, or None for what is no number of this page."""
    now = desk.now
    if now is None or not isinstance(asked, list) or not asked or not all(isinstance(a, str) for a in asked):
        return None
    kind, *given = asked
    known = _KINDS.get(kind)
    if known is None:
        return None
    try:
        record = known(desk, now, prices, words, *given)
    except (KeyError, ValueError, IndexError, StopIteration, TypeError, ArithmeticError):
        return None  # of a scenario that is no longer on the desk, or not ours at all
    also_in(record, now.scenario.currency, desk.to, words)
    return panel(record, now.scenario, words)


def _option(desk: Desk, now: Now, prices: PriceTable, words: Words, name: str, arm: str, figure: str) -> Record:
    return why_options.of_option(now, name, _arm(arm), figure, words)


def _year(desk: Desk, now: Now, prices: PriceTable, words: Words, name: str, arm: str, line: str, year: str) -> Record:
    return why_options.of_year(now, name, _arm(arm), line, int(year), words)


def _speculation(desk: Desk, now: Now, prices: PriceTable, words: Words, name: str, figure: str) -> Record:
    return why_choices.of_speculation_in(now, name, figure, words)


def _choice(desk: Desk, now: Now, prices: PriceTable, words: Words, at: str, figure: str) -> Record:
    return why_choices.of_choice(now, now.made.choices[int(at)], figure, words)


def _break_even(desk: Desk, now: Now, prices: PriceTable, words: Words, name: str, api: str) -> Record:
    return why_choices.of_break_even(now, name, api, words)


def _input(desk: Desk, now: Now, prices: PriceTable, words: Words, path: str) -> Record:
    figure = now.scenario.figures()[path]
    unit = fields.unit(path, now.scenario, words)
    record = Record(fields.full_label(now.scenario, path, words), f"{value(path, figure.value, words)} {unit}".strip())
    record.inputs[path] = figure
    return record


def _driver(desk: Desk, now: Now, prices: PriceTable, words: Words, path: str, end: str) -> Record:
    name, arm = picked_option(desk, now)
    driver = next(d for d in tornado(now.scenario, name, arm) if d.path == path)
    label, currency = fields.full_label(now.scenario, path, words), now.scenario.currency
    costs = {"low": driver.low_cost, "high": driver.high_cost, "swing": driver.swing}
    title = words("why_swing", number=label)
    if end != "swing":
        title = words("why_driver", number=label, value=value(path, getattr(driver, end), words))
    record = Record(title, shown.cents(costs[end], currency, words), amount=costs[end])
    record.told.append(words("why_driver_told", name=titled(now, now.made.option(name, arm).title, words)))
    record.line(words("why_base"), shown.cents(driver.base_cost, currency, words), 1)
    for name_of, cost in (("tornado_low", driver.low_cost), ("tornado_high", driver.high_cost)):
        record.line(words("why_total_at", where=words(name_of)), shown.cents(cost, currency, words), 1)
    record.inputs[path] = now.scenario.figures()[path]
    return record


def _two_way(desk: Desk, now: Now, prices: PriceTable, words: Words, row: str, across: str, i: str, j: str) -> Record:
    name, arm = picked_option(desk, now)
    figures = now.scenario.figures()
    down, right = axes(now.scenario, row)[int(i)], axes(now.scenario, across)[int(j)]
    total = two_way(now.scenario, name, (row, [down]), (across, [right]), arm)[0][0]
    option = now.made.option(name, arm)
    record = Record(
        words("why_two_way", name=titled(now, option.title, words)),
        shown.cents(total, now.scenario.currency, words),
        amount=total,
    )
    record.told.append(words("why_two_way_told"))
    for path, number in ((row, down), (across, right)):
        label = fields.full_label(now.scenario, path, words)
        record.line(label, f"{value(path, number, words)} {fields.unit(path, now.scenario, words)}".strip(), 1)
        record.inputs[path] = figures[path]
    record.line(words("why_base"), shown.cents(option.total, now.scenario.currency, words), 1)
    return record


def _chance(desk: Desk, now: Now, prices: PriceTable, words: Words, title: str, figure: str) -> Record:
    if desk.chances is None:
        raise KeyError(title)
    one = next(c for c in desk.chances.found if c.option == title)
    if figure not in ("p05", "p50", "p95", "mean", *SHARES):
        raise KeyError(figure)
    amount = getattr(one, figure)
    if figure in SHARES:
        told = shown.percent(amount, words, 2)
    else:
        told = shown.cents(amount, now.scenario.currency, words)
    record = Record(f"{titled(now, title, words)}: {words(f'chance_{figure}')}", told)
    record.amount = amount if figure not in SHARES else None
    n = shown.number(len(one.totals), words, 8)
    record.told += [
        words(f"why_{figure}" if figure != "mean" else "why_mean_total", n=n),
        words("why_drawn", n=n, seed=desk.chances.seed),
    ]
    record.inputs.update(ranges(now.scenario))
    return record


def _moved(desk: Desk, now: Now, prices: PriceTable, words: Words, kind: str, path: str) -> Record:
    before, after = desk.compared()
    picked, arm = picked_option(desk, now)
    name = in_both(before, after, picked)
    if name is None:
        raise KeyError(picked)
    one = next(m for m in what_moved(before, after, name, arm) if (m.kind, m.path) == (kind, path))
    text = shown.NOTHING if one.effect is None else shown.cents(one.effect, before.currency, words)
    export = ExportWords(words.language)
    record = Record(label(one, before, after, export), text, amount=one.effect)
    record.told.append(words("why_moved", name=name))
    for key, amount in (("moved_before", one.before), ("moved_after", one.after)):
        record.line(words(key), value_text(one, amount, before, after, export), 1)
    return record


def _change(desk: Desk, now: Now, prices: PriceTable, words: Words, name: str, measure: str) -> Record:
    if measure not in MEASURES:
        raise KeyError(measure)
    plain, fast = (getattr(now.made.option(name, arm).tokens, measure) for arm in ARMS)
    told = f"{measure_name(measure, words)}, {words('col_change')}"
    record = Record(f"{name}: {told}", shown.percent(fast / plain - 1, words, 2, signed=True))
    record.line(words("col_change"), record.value, 0, words("why_change_formula"))
    for arm, cost in zip(ARMS, (plain, fast), strict=True):
        record.line(words(f"arm_{arm}"), shown.unit_price(cost, now.scenario.currency, words), 1)
    if measure in SPLIT:
        record.told.append(words("why_split"))
    return record


def _load(desk: Desk, now: Now, prices: PriceTable, words: Words, name: str, arm: str, at: str) -> Record:
    line = next(line for line in load_lines(now, name) if line.arm == arm)
    point, currency = line.points[int(at)], now.scenario.currency
    title = words("why_load", name=name, arm=words(f"arm_{arm}"), busy=shown.percent(point.busy_share, words, 1))
    cost = point.per_million_output_tokens
    record = Record(title, shown.unit_price(cost, currency, words), amount=cost, write=shown.unit_price)
    output = now.scenario.workload.output_tokens
    record.line(words("col_output_cost"), record.value, 0, words("why_load_formula"))
    record.line(
        words("why_replica_hour"),
        shown.unit_price(line.per_replica_hour, currency, words),
        1,
        words("why_replica_hour_formula"),
    )
    record.line(words("step_request_s"), f"{shown.number(line.request_s, words, 6)} {words('unit_seconds')}", 1)
    record.line(words("col_busy"), shown.percent(point.busy_share, words, 2), 1, words("why_busy_formula"))
    record.line(
        words("col_offered"), f"{shown.number(point.requests_per_second, words, 6)} {words('unit_per_second')}", 2
    )
    places = round(now.scenario.serving.requests_at_once.value)
    alone = f"{shown.number(places * line.request_s, words, 4)} {words('unit_seconds')}"
    measured = bool(now.scenario.load_curve)
    origin = words("why_load_curve") if measured else words("why_queue", places=str(places), alone=alone)
    for name_of, seconds in (("P50", point.p50_s), ("P95", point.p95_s)):
        if seconds is not None:
            record.line(name_of, f"{shown.number(seconds, words)} {words('unit_seconds')}", 1, note=origin)
    record.inputs["workload.output_tokens"] = output
    return record


def _price(desk: Desk, now: Now, prices: PriceTable, words: Words, at: str) -> Record:
    row = prices.rows[int(at)]
    title = " · ".join(
        filter(None, (row.provider, row.instance, row.gpu_key, words.name("commitment", row.commitment)))
    )
    record = Record(title, f"{shown.unit_price(row.per_gpu_hour, row.currency, words)} / GPU-h")
    record.line(words("price_instance"), shown.unit_price(row.per_hour, row.currency, words), 0)
    record.line(words("price_gpus"), str(row.gpu_count), 0)
    if desk.to is not None and desk.to.reaches(row.currency):
        made = desk.to.price(row.per_gpu_hour, row.currency)
        if made.rate is not None:
            price, rate = shown.unit_price(made.amount, made.currency, words), told_rate(made.rate, words)
            record.line(words("why_rate", currency=made.currency), price, 0, note=words("why_rate_how", rate=rate))
    record.told += [words("price_read", day=row.as_of.isoformat(), grade=row.evidence), row.source]
    return record


def _arm(arm: str) -> Any:
    if arm not in ARMS:
        raise KeyError(arm)
    return arm


_KINDS: dict[str, Callable[..., Record]] = {
    "option": _option, "token": _option, "year": _year, "speculation": _speculation, "choice": _choice,
    "break_even": _break_even, "input": _input, "driver": _driver, "two_way": _two_way, "chance": _chance,
    "moved": _moved, "load": _load, "price": _price, "change": _change,
}  # fmt: skip
