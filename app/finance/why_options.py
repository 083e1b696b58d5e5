"""Why an option's own figures are what they are: its bill, its tokens' costs, its years."""

from app.catalogue import Words
from app.finance import shown
from app.finance.cost_sheets import MEASURES, measure_name
from app.finance.desk import Now
from app.finance.tco_sheets import title
from app.finance.why_record import Record, step_name, tree
from app.finance.year_sheet import QUANTITIES
from pricing.bill import LINES
from pricing.scenario import Arm
from pricing.tco import BEHIND, Option
from pricing.tokens import FORMULAS
from pricing.why import Derivation, Step, why

TOKENS = ("input_tokens", "cached_input_tokens", "output_tokens")


def of_option(now: Now, name: str, arm: Arm, figure: str, words: Words) -> Record:
    """figure: a step of `pricing.why`, or of `MEASURES`. Raises KeyError for what there is not."""
    option = now.made.option(name, arm)
    derivation, more = enriched(now, option)
    step = derivation.steps[figure]
    told = measure_name(figure, words) if figure in MEASURES else step_name(figure, words)
    value = step_text(step, now, words)
    amount = step.value if step.unit == "money" else None
    record = Record(f"{title(option, words)}: {told}", value, amount=amount, write=_write(step))
    if option.kind == "api" and figure in MEASURES[:3]:
        record.told.append(words("why_api_price"))
    tree(record, figure, derivation.steps, now.scenario.figures(), now.scenario, words, more)
    return record


def step_text(step: Step, now: Now, words: Words) -> str:
    return _write(step)(step.value, now.scenario.currency, words)


def _write(step: Step) -> shown.Write:
    price = step.name.startswith("per_") or step.name == "blended_per_million"
    return shown.unit_price if price else shown.cents


def enriched(now: Now, option: Option) -> tuple[Derivation, dict[str, list[str]]]:
    """`pricing.why`'s steps and: the total as the sum of its lines, the tokens of the term, every measure. Second: the
    first month's step behind a line's sum, which no formula names."""
    derivation = why(now.made, option.name, option.arm)
    steps, months = dict(derivation.steps), option.monthly
    more: dict[str, list[str]] = {}
    parts = []
    for line in (*LINES, *BEHIND):
        amount = float(months[line].sum())
        if amount:
            parts.append(f"{line}_of_term")
            steps[f"{line}_of_term"] = Step(f"{line}_of_term", amount, "money", "")
            more[f"{line}_of_term"] = [line] if line in derivation.steps else []
    steps["total"] = Step("total", option.total, "money", " + ".join(parts))
    more["npv_of_cost"] = ["total", "cost_of_capital"]
    more["tax_of_term"] = ["tax_share"]
    for name in (*TOKENS, "requests"):
        unit = "tokens" if name in TOKENS else ""
        steps[f"{name}_of_term"] = Step(f"{name}_of_term", float(months[name].sum()), unit, "")
        own = [f"workload.{name}"] if name in ("input_tokens", "output_tokens") else []
        more[f"{name}_of_term"] = [*own, "workload.requests_per_day", "workload.growth_per_year"]
    for measure, formula in FORMULAS.items():
        amount = getattr(option.tokens, measure)
        if amount is not None and measure not in steps:
            steps[measure] = Step(measure, amount, "money", formula)
    if option.kind == "api":
        _list_prices(now, option, steps)
    return Derivation(derivation.option, steps, derivation.inputs), more


def _list_prices(now: Now, option: Option, steps: dict[str, Step]) -> None:
    """An API's tokens cost what its list says."""
    at = next(i for i, api in enumerate(now.scenario.api) if api.name == option.name)
    cached = now.scenario.api[at].cached_input_per_million
    for measure, name in (
        ("per_million_input", "input_per_million"),
        ("per_million_cached_input", "cached_input_per_million" if cached is not None else "input_per_million"),
        ("per_million_output", "output_per_million"),
    ):
        price = getattr(option.tokens, measure)
        if price is not None:
            steps[measure] = Step(measure, price, "money", f"api.{at}.{name} * (1 + tax_share)")


def of_year(now: Now, name: str, arm: Arm, line: str, year: int, words: Words) -> Record:
    """A line of the bill, or a quantity, in a year by its months; year 0: all of them, of what is added up."""
    option = now.made.option(name, arm)
    if (
        (not year and line in QUANTITIES and line != "requests")
        or line not in (*LINES, *BEHIND, *QUANTITIES, "total")
        or not 0 <= year <= now.scenario.years
    ):
        raise KeyError(line)
    money = line not in QUANTITIES
    label = words(f"line_{line}") if money else words(f"year_{line}")
    mean = not money and line != "requests"

    def text(value: float) -> str:
        if money:
            return shown.cents(value, now.scenario.currency, words)
        return shown.percent(value, words, 2) if line == "busy_share" else shown.number(value, words, 8)

    values = [float(v) for v in option.monthly[line]]
    span = words("col_year", n=year) if year else words("col_all_years")
    own = values[12 * (year - 1) : 12 * year] if year else values
    amount = sum(own) / len(own) if mean else sum(own)
    record = Record(f"{title(option, words)}: {label}, {span}", text(amount), amount=amount if money else None)
    record.told.append(words("why_mean" if mean else "why_sum", n=len(own)))
    if year:
        for i, value in enumerate(own):
            record.line(words("why_month", n=12 * (year - 1) + i + 1), text(value), 1)
    else:
        for y in range(now.scenario.years):
            months = values[12 * y : 12 * y + 12]
            record.line(words("col_year", n=y + 1), text(sum(months)), 1)
    derivation = why(now.made, name, option.arm)
    if line in derivation.steps and line != "total":
        record.told.append(words("why_first_month"))
        tree(record, line, derivation.steps, now.scenario.figures(), now.scenario, words)
    return record
