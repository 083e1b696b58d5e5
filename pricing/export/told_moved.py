"""What moved between two scenarios, in sentences of the reader's language: for the terminal, the page and workbooks."""

from __future__ import annotations

from pricing.export.told import Told, told
from pricing.export.words import Words
from pricing.moved import Moved, NotComparableError
from pricing.scenario import Scenario

_UNCHANGED = 0.005  # of money: less has no cent


def sentences(found: list[Moved] | tuple[Moved, ...], before: Scenario, after: Scenario, words: Words) -> list[str]:
    """One each, in their order."""
    labels = [{number.path: number for number in told(scenario, words)} for scenario in (before, after)]
    return [_sentence(moved, before, after, labels[0], labels[1], words) for moved in found]


def refusal(error: NotComparableError, words: Words) -> str:
    return words("moved.currency", before=error.before, after=error.after)


def label(moved: Moved, before: Scenario, after: Scenario, words: Words) -> str:
    """What it is that moved."""
    numbers = [{number.path: number for number in told(scenario, words)} for scenario in (before, after)]
    return _label(moved, before, numbers[0], numbers[1], words)


def value_text(moved: Moved, value: object, before: Scenario, after: Scenario, words: Words) -> str:
    """`before` or `after` of what moved, as its sentence has it."""
    numbers = [{number.path: number for number in told(scenario, words)} for scenario in (before, after)]
    return _value(moved, value, numbers[0].get(moved.path) or numbers[1].get(moved.path), words)


def _sentence(
    moved: Moved, before: Scenario, after: Scenario, old: dict[str, Told], new: dict[str, Told], words: Words
) -> str:
    name = _label(moved, before, old, new, words)
    if moved.kind == "option":
        holder = after if moved.before is None else before
        return words("moved.only", number=name, name=holder.name)
    number = old.get(moved.path) or new.get(moved.path)
    ends = [_value(moved, value, number, words) for value in (moved.before, moved.after)]
    said = words("moved.goes", number=name, before=ends[0], after=f"{ends[1]}{_growth(moved, number, words)}")
    if moved.effect is None:
        return said + words("moved.unknown" if moved.kind != "text" else "moved.end")
    if abs(moved.effect) < _UNCHANGED:
        return said + words("moved.idle")
    effect = words.money(abs(moved.effect), before.currency)
    return said + words("moved.raises" if moved.effect > 0 else "moved.lowers", effect=effect)


def _label(moved: Moved, before: Scenario, old: dict[str, Told], new: dict[str, Told], words: Words) -> str:
    if moved.kind == "option":
        return str(moved.after if moved.before is None else moved.before)
    if moved.kind == "number":
        number = old.get(moved.path) or new[moved.path]
        return f"{number.section}: {number.name}"
    name = words(f"moved.{moved.path.removeprefix('serving.') if moved.kind == 'text' else moved.kind}")
    if moved.path.startswith("cloud."):
        return f"{before.cloud[int(moved.path.split('.')[1])].name}: {name}"
    return name


def _value(moved: Moved, value: object, number: Told | None, words: Words) -> str:
    if value is None:
        return words("moved.nothing")
    if isinstance(value, tuple):
        return " + ".join(f"{words.share(share, 4)} {words(f'commitment.{kind}')}" for kind, share in value)
    if isinstance(value, str):
        return words(f"commitment.{value}") if moved.kind == "commitment" else value
    assert isinstance(value, int | float)
    if moved.kind == "term":
        return words.term(int(value))
    if number is not None and number.kind == "share":
        return words.share(value, 4)
    return words.number(value, 6)


def _growth(moved: Moved, number: Told | None, words: Words) -> str:
    """By how much of itself; a share's change in percent would read as one in points."""
    if moved.kind != "number" or number is None or number.kind == "share" or not moved.before or moved.after is None:
        return ""
    assert isinstance(moved.before, int | float)
    assert isinstance(moved.after, int | float)
    share = moved.after / moved.before - 1
    return f" ({'+' if share > 0 else ''}{words.share(share, 2)})"
