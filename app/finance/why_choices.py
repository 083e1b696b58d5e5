"""Why choosing one option over another is worth what it is: saving, present value, rate, payback, break-even."""

from itertools import accumulate

from app.catalogue import Words
from app.finance import shown
from app.finance.desk import Now
from app.finance.tco_sheets import at_break_even, break_even_text, irr_of, of_speculation, titled, weeks_of
from app.finance.why_record import Record
from pricing.bill import LINES
from pricing.break_even import break_even
from pricing.finance import monthly_rate
from pricing.tco import BEHIND, Choice, Option, tco

FIGURES = ("saving", "npv", "irr", "payback_weeks", "discounted_payback_weeks")
MOST_MONTHS = 14


def of_choice(now: Now, choice: Choice, figure: str, words: Words) -> Record:
    """Raises KeyError for a figure that a choice has not."""
    if figure not in FIGURES:
        raise KeyError(figure)
    option, other = (titled(now, text, words) for text in (choice.option, choice.instead_of))
    record = Record(words("why_choice", what=words(f"choice_{figure}"), option=option, other=other), "")
    currency = now.scenario.currency
    if figure == "saving":
        record.value, record.amount = shown.cents(choice.saving, currency, words), choice.saving
        _saving(record, now, choice, words)
    elif figure == "npv":
        record.value, record.amount = shown.cents(choice.npv, currency, words), choice.npv
        _npv(record, now, choice, words)
    elif figure == "irr":
        record.value = irr_of(choice, words, 2)
        record.told.append(words("why_irr" if choice.irr is not None else "why_irr_none"))
        _years(record, now, choice, 0.0, words)
    else:
        discounted = figure == "discounted_payback_weeks"
        record.value = weeks_of(getattr(choice, figure), words)
        if (getattr(choice, figure) or 0) >= 1:
            record.value += f" {words('unit_weeks')}"
        _payback(record, now, choice, discounted, words)
    if figure in ("npv", "discounted_payback_weeks"):
        record.inputs["cost_of_capital"] = now.scenario.cost_of_capital
    return record


def _named(now: Now, title: str) -> Option:
    return next(option for option in now.made.options if option.title == title)


def _saving(record: Record, now: Now, choice: Choice, words: Words) -> None:
    currency = now.scenario.currency
    record.told.append(words("why_saving"))
    for option in (_named(now, choice.instead_of), _named(now, choice.option)):
        record.line(titled(now, option.title, words), shown.cents(option.total, currency, words), 0)
        for line in (*LINES, *BEHIND):
            amount = float(option.monthly[line].sum())
            if amount:
                record.line(words(f"line_{line}"), shown.cents(amount, currency, words), 1)


def _npv(record: Record, now: Now, choice: Choice, words: Words) -> None:
    rate = now.scenario.cost_of_capital.value
    record.told.append(
        words("why_npv", rate=shown.percent(rate, words), monthly=shown.percent(monthly_rate(rate), words, 4))
    )
    record.line("NPV", shown.cents(choice.npv, now.scenario.currency, words), 0, words("why_npv_formula"))
    _years(record, now, choice, rate, words)


def _years(record: Record, now: Now, choice: Choice, rate: float, words: Words) -> None:
    """The flows by year, each month at its worth today."""
    currency, per_month = now.scenario.currency, monthly_rate(rate)
    worth = [flow / (1 + per_month) ** month for month, flow in enumerate(choice.flows)]
    record.line(words("why_today"), shown.cents(worth[0], currency, words), 1)
    for year in range(now.scenario.years):
        amount = sum(worth[12 * year + 1 : 12 * year + 13])
        record.line(words("col_year", n=year + 1), shown.cents(amount, currency, words), 1)


def _payback(record: Record, now: Now, choice: Choice, discounted: bool, words: Words) -> None:
    """What has come back by each month, up to the one in which all has."""
    rate = now.scenario.cost_of_capital.value if discounted else 0.0
    sums, plain = (
        list(accumulate(flow / (1 + monthly_rate(r)) ** month for month, flow in enumerate(choice.flows)))
        for r in (rate, 0.0)
    )
    record.told.append(words("why_payback_discounted" if discounted else "why_payback"))
    below = [month for month, totals in enumerate(zip(sums, plain, strict=True)) if min(totals) < 0]
    until = min(len(sums) - 1, below[-1] + 1 if below else 0)
    step = max(1, -(-(until + 1) // MOST_MONTHS))
    for month in sorted({*range(0, until + 1, step), max(0, until - 1), until}):
        record.line(words("why_by_month", n=month), shown.cents(sums[month], now.scenario.currency, words), 1)


def of_speculation_in(now: Now, name: str, figure: str, words: Words) -> Record:
    return of_choice(now, of_speculation(now, name), figure, words)


def of_break_even(now: Now, name: str, api: str, words: Words) -> Record:
    """The two totals at the break-even itself and a request below it prove it."""
    found = break_even(now.scenario, name, api)
    record = Record(words("why_break_even", option=name, api=api), break_even_text(found, words, 6))
    if found.requests_per_day:
        record.told.append(at_break_even(found, words))
    record.told.append(words("break_even_why"))
    scales = [("why_own_load", now.scenario.workload.requests_per_day.value)]
    if found.requests_per_day:
        scales.append(("why_at_break_even", found.requests_per_day))
        if found.requests_per_day > 1:
            scales.append(("why_below_break_even", found.requests_per_day - 1))
    for key, requests in scales:
        made = tco(now.scenario.with_values({"workload.requests_per_day": requests}))
        record.line(words(key), f"{shown.number(requests, words, 6)} {words('unit_per_day')}", 0)
        for title in (name, api):
            total = shown.cents(made.option(title).total, now.scenario.currency, words)
            record.line(title, total, 1)
    record.inputs["workload.requests_per_day"] = now.scenario.workload.requests_per_day
    return record
