"""Speeds from the Explore tab's run into a scenario: what was measured, and what that means."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.catalogue import Words
from app.finance.shown import number

if TYPE_CHECKING:  # the finance tabs run without torch
    from app.session import Run, Session
from pricing.scenario import Scenario


@dataclass(frozen=True)
class Taken:
    """scenario: with what was taken. told: what that is, and what a reader must know of it."""

    scenario: Scenario
    told: str


def take(scenario: Scenario, session: Session, words: Words) -> Taken:
    """The speeds as they are where the run was of the scenario's own model and machine; of another's, only how much
    faster drafts made it. Raises ValueError with a sentence where there is nothing to take."""
    run = session.run
    fast, plain = run.compared() if run is not None and run.speculative.steps else (None, None)
    if run is None or plain is None or plain.decode_tokens_per_second is None or not plain.ttft_s:
        raise ValueError(words("take_nothing"))
    arms = {"plain": plain}
    if run.drafts and fast is not None and fast.decode_tokens_per_second is not None and fast.ttft_s:
        arms["speculative"] = fast
    if not _alike(scenario, run):
        return _ratio(scenario, run, arms, words)
    if "speculative" not in arms and (scenario.load_curve or scenario.serving.requests_at_once.value != 1):
        raise ValueError(words("take_both"))  # one arm alone and the other among many would be no comparison
    whole = scenario.model_dump()
    for arm, stats in arms.items():
        whole["serving"][arm] = {
            "input_tokens_per_second": _figure(run.prompt_tokens / stats.ttft_s, run, stats, words),
            "output_tokens_per_second": _figure(stats.decode_tokens_per_second, run, stats, words),
        }
    alone = _one_at_once(whole, run, words)
    told = [
        words(
            "take_done", plain=number(plain.decode_tokens_per_second, words),
            fast=number(arms["speculative"].decode_tokens_per_second, words) if "speculative" in arms else "–",
        ),
        words("take_means"),
        *([words("take_alone")] if alone else []),
    ]  # fmt: skip
    if "speculative" not in arms:
        told.append(words("take_plain_only"))
    elif not run.speculative.stats() or not fast or not fast.drafted_steps:
        told.append(words("take_no_drafts"))
    if run.lossy:
        told.append(words("take_lossy"))
    return Taken(Scenario.model_validate(whole), " ".join(told))


def _one_at_once(whole: dict[str, Any], run: Run, words: Words) -> bool:
    """What the scenario said of speeds with many requests at once, and of how far projected ones may be off, holds no
    more for a speed that one sequence was measured at. Whether anything of that kind was there."""
    serving, source = whole["serving"], words("take_source_alone", where=run.where)
    found = bool(whole["load_curve"])
    whole["load_curve"] = {}
    for name in ("requests_at_once", "speed_factor"):
        was = serving[name]
        if was["value"] != 1 or was["low"] is not None:
            serving[name] = {"value": 1.0, "label": "measured", "source": source}
            found = True
            for case in ("best", "worst"):
                whole[case] = {path: v for path, v in whole[case].items() if path != f"serving.{name}"}
    return found


def _ratio(scenario: Scenario, run: Run, arms: dict[str, Any], words: Words) -> Taken:
    """The scenario's plain speeds stay; its speculative writing speed is plain times what was measured."""
    serving, fast = scenario.serving, arms.get("speculative")
    known = {
        "measured": _model(run), "hardware": run.hardware, "model": serving.model, "gpu": serving.gpu,
        "n": number(serving.gpus_per_replica.value, words),
    }  # fmt: skip
    if fast is None or not fast.drafted_steps:
        raise ValueError(words("take_none_alike", **known))
    ratio = fast.decode_tokens_per_second / arms["plain"].decode_tokens_per_second
    said = number(ratio, words, 3)
    whole = scenario.model_dump()
    whole["serving"]["speculative"]["output_tokens_per_second"] = {
        "value": float(f"{serving.plain.output_tokens_per_second.value * ratio:.6g}"),
        "label": "projected",
        "source": words("take_source_ratio", ratio=said, run=_source(run, fast, words)),
    }
    told = [words("take_ratio", ratio=said, **known)] + ([words("take_lossy")] if run.lossy else [])
    return Taken(Scenario.model_validate(whole), " ".join(told))


def _model(run: Run) -> str:
    return run.where.split(" · ")[0]


def _alike(scenario: Scenario, run: Run) -> bool:
    """Whether the run was of the scenario's model on one machine such as it has."""
    serving = scenario.serving
    if _name(_model(run)) != _name(serving.model) or serving.gpus_per_replica.value != 1:
        return False
    return _same_gpu(serving.gpu, run.hardware)


def _name(model: str) -> list[str]:
    """A model's name without its owner and without what its weights were trained for: that changes no speed."""
    parts = re.findall(r"[a-z0-9.]+", model.rsplit("/", 1)[-1].casefold())
    return [part for part in parts if part not in ("instruct", "chat", "it", "base", "hf")]


# What names of one GPU differ in, from a price list to its driver: "NVIDIA H100 80GB HBM3" is "H100 SXM".
_SELLERS = {"nvidia", "amd", "instinct", "geforce", "tesla", "hgx"}
_FORMS = {"sxm", "pcie", "nvl"}


def _same_gpu(one: str, other: str) -> bool:
    """The same chip; its form and its memory the same where both names have them."""
    if one.casefold() == other.casefold():
        return True
    (chip, form, memory), (chip_too, form_too, memory_too) = _gpu(one), _gpu(other)
    said = [(form, form_too), (memory, memory_too)]
    return bool(chip) and chip == chip_too and all(a == b for a, b in said if a and b)


def _gpu(name: str) -> tuple[set[str], set[str], set[str]]:
    parts = set(re.findall(r"[a-z0-9]+", re.sub(r"sxm\d", "sxm", name.casefold())))
    memory = {part for part in parts if re.fullmatch(r"\d+gb", part)}
    stacks = {part for part in parts if part.startswith("hbm")}
    form = parts & _FORMS or ({"sxm"} if stacks else set())
    return parts - memory - stacks - form - _SELLERS, form, memory


def rows(session: Session | None) -> list[dict[str, object]]:
    """The session's run as the workbook lists raw runs: a row an arm; nothing where there is no run."""
    run = session.run if session is not None else None
    if run is None or not run.speculative.steps:
        return []
    fast, plain = run.compared()
    head: dict[str, object] = {
        "run": run.id, "where": run.where, "hardware": run.hardware, "precision": run.precision, "day": str(run.day),
        "drafter": run.drafter, "verifier": run.verifier, "k": run.k, "temperature": run.temperature, "seed": run.seed,
        "prompt_tokens": run.prompt_tokens,
    }  # fmt: skip
    arms = {"plain": plain, "speculative": fast if run.drafts else None}
    return [
        {**head, "arm": arm, **{k: v for k, v in stats.as_dict().items() if isinstance(v, int | float | None)}}
        for arm, stats in arms.items()
        if stats is not None
    ]


def _figure(value: float, run: Run, stats: Any, words: Words) -> dict[str, Any]:
    """Six digits: more than a clock can tell."""
    return {"value": float(f"{value:.6g}"), "label": "measured", "source": _source(run, stats, words)}


def _source(run: Run, stats: Any, words: Words) -> str:
    how = words.name("drafter", run.drafter)
    return words("take_source", where=run.where, how=how, k=run.k, tokens=stats.output_tokens, prompt=run.prompt_tokens)
