"""What a sweep measures: the grid, checked once, and its points in the order in which they are measured."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal

from engine.bench.suites import BenchPrompt
from engine.drafters import DRAFTERS
from engine.drafters.make import check_nodes, planned_nodes
from engine.errors import EngineError
from engine.linear import QUANTIZATIONS
from engine.settings import MAX_K, MAX_NODES, DecodeSettings
from engine.verify import METHODS

MAX_BATCH = 1024
ANCHOR = "none"  # the quantization that the others are held against
_SAMPLED_BYTES = 2**16

Kind = Literal["memory", "verify", "draft", "point", "drift", "plain"]


@dataclass(frozen=True, slots=True)
class Task:
    """One thing to measure. memory: of loaded weights. verify, draft: a cost curve at a batch. point: a place of the
    grid. drift: how far a quantised target is from its unquantised self. plain: its plain speed beside that one's."""

    kind: Kind
    quantization: str
    batch: int | None = None
    drafter: str | None = None
    temperature: float | None = None
    k: int | None = None
    tree_nodes: int | None = None

    @property
    def key(self) -> str:
        """Its name within the run, the same every time."""
        parts = [
            self.kind, self.quantization, self.drafter, None if self.temperature is None else f"t{self.temperature!r}",
            None if self.batch is None else f"b{self.batch}", None if self.k is None else f"k{self.k}",
            None if self.tree_nodes is None else f"n{self.tree_nodes}",
        ]  # fmt: skip
        return "/".join(p for p in parts if p is not None)


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """The grid is the product of the six lists (duplicates are dropped, the order is kept).

    ks: draft tokens a step, from 1; plain decoding is measured beside every one of them. batches: prompts decoded
    together. tree_nodes: tokens of a drafted tree, 0 for chains, None for what the drafter is made for. k_control: of
    every point; K is then the most. max_new_tokens: every arm emits exactly so many for each prompt, past the end of
    sequence. repeats: times each prompt (or batch of prompts) is decoded both ways. rounds: times each width of a curve
    is measured. Raises EngineError with one sentence.
    """

    ks: tuple[int, ...] = (1, 3, 5, 7)
    drafters: tuple[str, ...] = ("prompt_lookup",)
    temperatures: tuple[float, ...] = (0.0,)
    batches: tuple[int, ...] = (1,)
    quantizations: tuple[str, ...] = (ANCHOR,)
    max_new_tokens: int = 48
    repeats: int = 1
    verifier: str = "rejection"
    seed: int = 0
    rounds: int = 7
    tree_nodes: tuple[int | None, ...] = (None,)
    k_control: str = "fixed"

    def __post_init__(self) -> None:
        for name in ("ks", "drafters", "temperatures", "batches", "quantizations", "tree_nodes"):
            values = tuple(dict.fromkeys(getattr(self, name)))
            if not values:
                raise EngineError(f"{name} is empty; give at least one value")
            object.__setattr__(self, name, values)
        _whole("K", self.ks, 1, MAX_K)
        _whole("batch", self.batches, 1, MAX_BATCH)
        _whole("max_new_tokens", (self.max_new_tokens,), 2, 1_000_000)
        _whole("repeats", (self.repeats,), 1, 1_000_000)
        _whole("rounds", (self.rounds,), 1, 1_000_000)
        drafting = [d for d in DRAFTERS if d != "none"]
        _known("drafter", self.drafters, drafting)
        _known("quantization", self.quantizations, QUANTIZATIONS)
        _known("verifier", (self.verifier,), METHODS)
        for temperature in self.temperatures:
            self.settings(self.ks[0], temperature)
        _whole("tree_nodes", (n for n in self.tree_nodes if n is not None), 0, MAX_NODES)
        for drafter in self.drafters:
            for nodes in self.tree_nodes:
                check_nodes(drafter, nodes, self.verifier)

    def settings(self, k: int, temperature: float, tree_nodes: int | None = None) -> DecodeSettings:
        return DecodeSettings(
            k=k, temperature=temperature, max_new_tokens=self.max_new_tokens, seed=self.seed, ignore_eos=True,
            tree_nodes=tree_nodes, k_control=self.k_control,
        )  # fmt: skip

    def drafts_chains(self, drafter: str, tree_nodes: int | None) -> bool:
        """Of a fixed K, at that: what theory speaks of."""
        trees = planned_nodes(drafter, tree_nodes, self.k_control, self.verifier)
        return self.k_control == "fixed" and not trees

    @property
    def order(self) -> tuple[str, ...]:
        """Quantizations as they are loaded: the one that others are held against comes first."""
        return tuple(sorted(self.quantizations, key=lambda q: q != ANCHOR))

    @property
    def compares(self) -> bool:
        """Whether quantised weights are held against unquantised ones."""
        return ANCHOR in self.quantizations and len(self.quantizations) > 1

    @property
    def points(self) -> int:
        lists = (self.ks, self.drafters, self.temperatures, self.batches, self.quantizations, self.tree_nodes)
        count = 1
        for values in lists:
            count *= len(values)
        return count

    @property
    def tasks(self) -> list[Task]:
        return [task for q in self.order for task in self.tasks_of(q)]

    def tasks_of(self, quantization: str) -> list[Task]:
        return [*self._tasks(quantization)]

    def _tasks(self, q: str) -> Iterator[Task]:
        yield Task("memory", q)
        for batch in self.batches:
            yield Task("verify", q, batch)
            for drafter, nodes in product(self.drafters, self.tree_nodes):
                yield Task("draft", q, batch, drafter, tree_nodes=nodes)
            for t, drafter, nodes, k in product(self.temperatures, self.drafters, self.tree_nodes, self.ks):
                yield Task("point", q, batch, drafter, t, k, nodes)
        if self.compares and q != ANCHOR:
            yield Task("drift", q)
            yield Task("plain", q)

    def as_dict(self) -> dict[str, Any]:
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()} | {"ignore_eos": True}


def shape_words(tree_nodes: int | None, k_control: str) -> list[str]:
    """What was asked of a draft beside its K, in words; nothing where nothing was."""
    tree = "" if tree_nodes is None else f"tree {tree_nodes}" if tree_nodes else "no tree"
    return [part for part in (tree, "" if k_control == "fixed" else f"K control {k_control}") if part]


def configuration(plan: SweepPlan, prompts: Sequence[BenchPrompt], weights: Sequence[str | None]) -> dict[str, Any]:
    """What makes two sweeps the same one, beside the pair, the hardware and the software versions that the run store
    adds. weights: `fingerprint` of the target and of the draft."""
    suite = hashlib.sha256(repr([(p.category, p.prompt) for p in prompts]).encode("utf-8", "surrogatepass"))
    return {"plan": plan.as_dict(), "suite": suite.hexdigest()[:32], "weights": list(weights)}


def fingerprint(folder: Path) -> str:
    """32 hex digits of a folder of weights: names, sizes, and the beginning and end of each file. Another checkpoint
    under the same name is told apart without reading gigabytes. Raises OSError."""
    found = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix in (".safetensors", ".json", ".gguf")):
        size = path.stat().st_size
        found.update(f"{path.relative_to(folder).as_posix()}\0{size}\0".encode("utf-8", "surrogateescape"))
        with path.open("rb") as file:
            found.update(file.read(_SAMPLED_BYTES))
            file.seek(max(0, size - _SAMPLED_BYTES))
            found.update(file.read(_SAMPLED_BYTES))
    return found.hexdigest()[:32]


def _whole(name: str, values: Iterable[object], low: int, high: int) -> None:
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise EngineError(f"{name} must be a whole number from {low} to {high}, not {value!r}")


def _known(name: str, values: Iterable[str], choices: Sequence[str]) -> None:
    for value in values:
        if value not in choices:
            raise EngineError(f"unknown {name} {value!r}: choose from {', '.join(choices)}")
