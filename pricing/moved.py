"""What is other in one scenario than in another, and what each difference alone changes of an option's total. As data:
`pricing.export.told_moved` puts it in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ValidationError

from pricing.figure import Figure
from pricing.scenario import Arm, Scenario
from pricing.scenario_options import Cloud, CloudPart
from pricing.sensitivity import total_of, totals_of

Kind = Literal["number", "term", "commitment", "fleet", "curve", "text", "option"]
Mix = tuple[tuple[str, float], ...]
_GROUPS = ("cloud", "owned", "api")
_ALONE = ("serving.requests_at_once",)  # of which draws cannot have several


class NotComparableError(ValueError):
    """Two scenarios whose totals cannot be set beside each other: they are in `before` and `after`."""

    def __init__(self, first: Scenario, second: Scenario) -> None:
        self.before, self.after = first.currency, second.currency
        super().__init__(
            f"{first.name} is in {first.currency} and {second.name} in {second.currency}; their totals cannot be "
            "compared, so give both in one currency"
        )


@dataclass(frozen=True)
class Moved:
    """One difference. path: in the first scenario; of what only the second one has, there. before, after: a number; of
    a "commitment", "text" or "option" its name; of a "fleet" its parts as (commitment, share); of a "curve" how many
    points it has; of the "term" years; None where it is not. effect: what it alone changes of the first scenario's
    total, None where that cannot be told by itself."""

    kind: Kind
    path: str
    before: float | str | Mix | None
    after: float | str | Mix | None
    effect: float | None


def what_moved(before: Scenario, after: Scenario, option: str, arm: Arm = "speculative") -> list[Moved]:
    """The one that changes the option's total most first; effects are each difference's own, so they need not add up to
    the whole. Options are matched by their names, and parts of a fleet by their commitments, wherever they stand.
    Raises ValueError for an option that not both have, and its `NotComparableError` for two currencies."""
    if before.currency != after.currency:
        raise NotComparableError(before, after)
    for scenario in (before, after):
        if option not in [o.name for o in scenario.options]:
            raise ValueError(
                f"{scenario.name} has no option called {option}; it has " + ", ".join(o.name for o in scenario.options)
            )
    return sorted(_Comparison(before, after, option, arm).all(), key=lambda m: -abs(m.effect or 0.0))


class _Comparison:
    def __init__(self, before: Scenario, after: Scenario, option: str, arm: Arm) -> None:
        self.before, self.after, self.option, self.arm = before, after, option, arm
        self.base = total_of(before, option, arm)
        self.places = _places(before, after)

    def all(self) -> Iterator[Moved]:
        before, after = self.before, self.after
        if before.years != after.years:
            longer = before.model_copy(update={"years": after.years})
            yield Moved("term", "years", before.years, after.years, self._effect(lambda: longer))
        for name in ("model", "gpu"):
            was, now = getattr(before.serving, name), getattr(after.serving, name)
            if was != now:
                yield Moved("text", f"serving.{name}", was, now, None)
        yield from self._options()
        for i, j in _matched(before.cloud, after.cloud):
            yield from self._fleet(i, before.cloud[i], after.cloud[j])
        curves = [{arm: len(points) for arm, points in s.load_curve.items()} for s in (before, after)]
        if curves[0] != curves[1]:
            changed = {"load_curve": after.load_curve, "serving": self._with_target()}
            yield Moved(
                "curve", "load_curve", sum(curves[0].values()) or None, sum(curves[1].values()) or None,
                self._effect(lambda: before.model_copy(update=changed)),
            )  # fmt: skip
        yield from self._numbers(without_curve=curves[0] != curves[1])

    def _with_target(self) -> Any:
        target = self.after.serving.p95_target_s or self.before.serving.p95_target_s
        return self.before.serving.model_copy(update={"p95_target_s": target})

    def _effect(self, made: Callable[[], Scenario]) -> float | None:
        """None where the first scenario with this alone could not be served."""
        try:
            return total_of(made(), self.option, self.arm) - self.base
        except ValueError:
            return None

    def _options(self) -> Iterator[Moved]:
        """What is in one of them only. The others' totals do not hang on it."""
        for group in _GROUPS:
            names = [[option.name for option in getattr(s, group)] for s in (self.before, self.after)]
            for i, name in enumerate(names[0]):
                if name not in names[1]:
                    yield Moved("option", f"{group}.{i}", name, None, None)
            for i, name in enumerate(names[1]):
                if name not in names[0]:
                    yield Moved("option", f"{group}.{i}", None, name, None)

    def _fleet(self, i: int, was: Cloud, now: Cloud) -> Iterator[Moved]:
        """How the fleet is bought: the parts' commitments and shares."""
        pairs = _parts(was, now)
        mixes = (_mix(was), _mix(now))
        if len(was.parts) != len(now.parts):
            kept = {j: was.parts[k] for k, j in pairs}
            parts = tuple(_priced(part, kept.get(j)) for j, part in enumerate(now.parts))
            yield Moved("fleet", f"cloud.{i}.parts", *mixes, self._effect(lambda: self._with_parts(i, parts)))
            return
        for k, j in pairs:
            commitment = now.parts[j].commitment
            if was.parts[k].commitment != commitment:
                parts = _put(was.parts, k, was.parts[k].model_copy(update={"commitment": commitment}))
                effect = self._effect(lambda parts=parts: self._with_parts(i, parts))  # type: ignore[misc]
                path = f"cloud.{i}.parts.{k}.commitment"
                yield Moved("commitment", path, was.parts[k].commitment, commitment, effect)
        shares = {k: now.parts[j].fleet_share for k, j in pairs}
        if any(was.parts[k].fleet_share.value != share.value for k, share in shares.items()):
            parts = tuple(p.model_copy(update={"fleet_share": shares[k]}) for k, p in enumerate(was.parts))
            yield Moved("fleet", f"cloud.{i}.parts", *mixes, self._effect(lambda: self._with_parts(i, parts)))

    def _with_parts(self, i: int, parts: tuple[CloudPart, ...]) -> Scenario:
        clouds = self.before.cloud
        return self.before.model_copy(update={"cloud": _put(clouds, i, clouds[i].model_copy(update={"parts": parts}))})

    def _numbers(self, without_curve: bool) -> Iterator[Moved]:
        old = self.before.figures()
        new = {self._place(path): figure for path, figure in self.after.figures().items()}
        changed: dict[str, tuple[float, float]] = {}
        for path in dict.fromkeys((*old, *(p for p in new if p is not None))):
            if path.endswith(".fleet_share") or (without_curve and path.startswith("load_curve.")):
                continue
            was, now = old.get(path), new.get(path)
            if was is not None and now is not None:
                if was.value != now.value:
                    changed[path] = (was.value, now.value)
            elif self._is_in_both(path):
                yield self._come_or_gone(path, was, now)
        for path, effect in self._effects(changed).items():
            yield Moved("number", path, *changed[path], effect)

    def _effects(self, changed: Mapping[str, tuple[float, float]]) -> dict[str, float | None]:
        found: dict[str, float | None] = {
            path: self._effect(lambda path=path: self.before.with_values({path: changed[path][1]}))  # type: ignore[misc]
            for path in changed if path in _ALONE
        }  # fmt: skip
        drawn = [path for path in changed if path not in found]
        own = {path: changed[path][0] for path in drawn}
        try:
            cases = [{**own, path: changed[path][1]} for path in drawn]
            draws = {path: [case[path] for case in cases] for path in drawn}
            totals = totals_of(self.before, self.option, self.arm, draws) if drawn else []
            found |= {path: total - self.base for path, total in zip(drawn, totals, strict=True)}
        except ValueError:  # one of them cannot be served: each by itself
            for path in drawn:
                try:
                    (total,) = totals_of(self.before, self.option, self.arm, {path: [changed[path][1]]})
                    found[path] = total - self.base
                except ValueError:
                    found[path] = None
        return {path: found[path] for path in changed}

    def _come_or_gone(self, path: str, was: Figure | None, now: Figure | None) -> Moved:
        def made() -> Scenario:
            whole = self.before.model_dump() | {"best": {}, "worst": {}}
            *way, last = path.split(".")
            at: Any = whole
            for step in way:
                at = at[int(step)] if isinstance(at, list | tuple) else at[step]
            at[last] = now.model_dump() if now is not None else None
            try:
                return Scenario.model_validate(whole)
            except ValidationError as error:
                raise ValueError(str(error)) from error

        values = [figure.value if figure is not None else None for figure in (was, now)]
        return Moved("number", path, values[0], values[1], self._effect(made))

    def _place(self, path: str) -> str | None:
        """Where a number of the second scenario stands in the first one; None where its owner is not there."""
        steps = path.split(".")
        owner = 2 if steps[0] in _GROUPS else 3 if steps[0] == "load_curve" else 0
        if steps[0] == "cloud" and steps[2] == "parts":
            owner = 4
        known = self.places.get(".".join(steps[:owner])) if owner else ""
        return None if known is None else ".".join([*([known] if known else []), *steps[owner:]])

    def _is_in_both(self, path: str) -> bool:
        """Whether its owner is matched, so that only the number itself has come or gone."""
        steps = path.split(".")
        if steps[0] not in _GROUPS:
            return True
        owner = ".".join(steps[: 4 if steps[0] == "cloud" and steps[2] == "parts" else 2])
        return owner in self.places.values()


def _places(before: Scenario, after: Scenario) -> dict[str, str]:
    """From where an option, part or point stands in the second scenario to where in the first."""
    found: dict[str, str] = {}
    for group in _GROUPS:
        for i, j in _matched(getattr(before, group), getattr(after, group)):
            found[f"{group}.{j}"] = f"{group}.{i}"
            if group == "cloud":
                for k, m in _parts(before.cloud[i], after.cloud[j]):
                    found[f"cloud.{j}.parts.{m}"] = f"cloud.{i}.parts.{k}"
    for arm, points in after.load_curve.items():
        orders = [
            sorted(range(len(curve)), key=lambda i, curve=curve: curve[i].busy_share.value)  # type: ignore[misc]
            for curve in (before.load_curve.get(arm, ()), points)
        ]
        for i, j in zip(*orders, strict=False):
            found[f"load_curve.{arm}.{j}"] = f"load_curve.{arm}.{i}"
    return found


def _matched(first: tuple[Any, ...], second: tuple[Any, ...]) -> list[tuple[int, int]]:
    names = {option.name: j for j, option in enumerate(second)}
    return [(i, names[option.name]) for i, option in enumerate(first) if option.name in names]


def _parts(was: Cloud, now: Cloud) -> list[tuple[int, int]]:
    """Parts of one commitment in their order; then, of fleets of equally many, those that are left in theirs."""
    waiting: dict[str, list[int]] = defaultdict(list)
    for j, part in enumerate(now.parts):
        waiting[part.commitment].append(j)
    pairs, left = [], []
    for i, part in enumerate(was.parts):
        if waiting[part.commitment]:
            pairs.append((i, waiting[part.commitment].pop(0)))
        else:
            left.append(i)
    if len(was.parts) == len(now.parts):
        pairs += zip(left, sorted(j for some in waiting.values() for j in some), strict=True)
    return pairs


def _mix(cloud: Cloud) -> Mix:
    return tuple((part.commitment, part.fleet_share.value) for part in cloud.parts)


def _priced(part: CloudPart, like: CloudPart | None) -> CloudPart:
    """At the other's price and losses, which are differences of their own."""
    names = ("per_gpu_hour", "interruption_share")
    return part if like is None else part.model_copy(update={name: getattr(like, name) for name in names})


def _put(items: tuple[Any, ...], at: int, item: Any) -> tuple[Any, ...]:
    return (*items[:at], item, *items[at + 1 :])
