"""Speed, speed-up, price and cost hang together: what is not given follows from what is, and what is given twice must
agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pricing.claims.check_input import ClaimInput
from pricing.claims.derivation import WORKED_OUT, Given, Step, rounded

_NAMES = {
    "usd_per_hour": ("price an hour", "USD/h"),
    "tokens_per_second": ("tokens/s", "tokens/s"),
    "plain_tokens_per_second": ("plain tokens/s", "tokens/s"),
    "speedup": ("speed-up", "x"),
    "usd_per_million": ("cost", "USD/1M"),
    "plain_usd_per_million": ("plain cost", "USD/1M"),
}


@dataclass(frozen=True)
class _Relation:
    """The product of each name to its power, 1 or -1, is `constant`. formulas: by the name that is worked out."""

    powers: Mapping[str, int]
    constant: float
    formulas: Mapping[str, str]

    def solve(self, name: str, values: Mapping[str, float]) -> float:
        value = self.constant
        for other, power in self.powers.items():
            if other != name:
                value /= values[other] ** power
        return value if self.powers[name] > 0 else 1 / value


def _cost(speed: str, cost: str) -> _Relation:
    return _Relation(
        {speed: 1, cost: 1, "busy_share": 1, "usd_per_hour": -1}, 1e6 / 3600,
        {
            speed: f"{{usd_per_hour}} / ({{{cost}}} x 3600 x {{busy_share}}) x 1e6",
            cost: f"{{usd_per_hour}} / ({{{speed}}} x 3600 x {{busy_share}}) x 1e6",
            "usd_per_hour": f"{{{cost}}} x {{{speed}}} x 3600 x {{busy_share}} / 1e6",
        },
    )  # fmt: skip


def _ratio(over: str, under: str) -> _Relation:
    return _Relation(
        {"speedup": 1, under: 1, over: -1}, 1.0,
        {
            "speedup": f"{{{over}}} / {{{under}}}",
            over: f"{{{under}}} x {{speedup}}",
            under: f"{{{over}}} / {{speedup}}",
        },
    )  # fmt: skip


_RELATIONS = (
    _cost("tokens_per_second", "usd_per_million"),
    _cost("plain_tokens_per_second", "plain_usd_per_million"),
    _ratio("tokens_per_second", "plain_tokens_per_second"),
    _ratio("plain_usd_per_million", "usd_per_million"),
)


@dataclass(frozen=True)
class Implied:
    """figures: all that is known, given or worked out. steps: how what was not given was. odds: sentences about figures
    that do not belong together."""

    figures: Mapping[str, Given]
    steps: tuple[Step, ...]
    odds: tuple[str, ...]


def implied(claim: ClaimInput) -> Implied:
    """Everything that follows, each by the first relation that gives it; then every relation is held against what came
    out of the others, within the rounding of what went in."""
    figures = {name: given for name in (*_NAMES, "busy_share") if (given := claim.given(name)) is not None}
    steps: list[Step] = []
    used: set[int] = set()
    found = True
    while found:
        found = False
        for number, relation in enumerate(_RELATIONS):
            open_names = [name for name in relation.powers if name not in figures]
            if len(open_names) == 1 and open_names[0] in _NAMES:
                steps.append(_work_out(open_names[0], relation, figures))
                used.add(number)
                found = True
    odds = [
        odd
        for number, relation in enumerate(_RELATIONS)
        if number not in used and set(relation.powers) <= set(figures) and (odd := _odd(relation, figures))
    ]
    return Implied(figures, tuple(steps), tuple(odds))


def _work_out(name: str, relation: _Relation, figures: dict[str, Given]) -> Step:
    """Adds the figure, whose rounding is that of all that it is made of."""
    inputs = tuple(figures[other] for other in relation.powers if other != name)
    value = relation.solve(name, {other: figures[other].value for other in relation.powers if other != name})
    words, unit = _NAMES[name]
    formula = relation.formulas[name].format(**{other: given.digits for other, given in figures.items()})
    step = Step(words, formula.replace(" x 1)", ")").replace(" x 1 /", " /"), value, unit, inputs)
    half = value * sum(given.half / given.value for given in inputs)
    figures[name] = Given(words, value, unit, step.label, WORKED_OUT, half=half)
    return step


def _odd(relation: _Relation, figures: Mapping[str, Given]) -> str:
    name = next(iter(relation.powers))
    others = [figures[other] for other in relation.powers if other != name]
    value = relation.solve(name, {other: figures[other].value for other in relation.powers if other != name})
    half = value * sum(given.half / given.value for given in others)
    held = figures[name]
    if held.low <= value + half and value - half <= held.high:
        return ""
    words, unit = _NAMES[name]
    told = " and ".join(str(given) for given in others if given.unit)
    return f"the figures do not belong together: {told} give {rounded(value)} {unit} as {words}, not {held.digits}"
