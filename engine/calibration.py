"""Efficiencies fitted to published speeds: what share of a data sheet real engines reached, and what it leaves out.

A forward is modelled as bytes / (bandwidth * share) + layers * overhead. Plain results of one row at a time give a
share each, once the overhead is chosen that explains all of them best; medians are taken, so that no one result
decides. Then, with those: the host work a row that explains plain batches best, the arithmetic's share from results
that arithmetic binds, and the overhead of a step that runs a draft network from speculative results. Host work is a
software's own: it is known for one that published batches, and another is charged what the middle engine needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import median, median_low
from types import MappingProxyType
from typing import NamedTuple

from engine.efficiency import DEFAULT_EFFICIENCY, DEFAULT_FORWARD_OVERHEAD_S, Efficiency
from engine.gpu_specs import GpuSpec
from engine.labels import Label
from engine.precision import Precision
from engine.published import PublishedResult, shipped_results
from engine.request_time import RequestTimes, request_times
from engine.roofline import decode_step
from engine.shape import ModelShape

_LAYER_OVERHEADS_S = tuple(i * 5e-6 for i in range(25))
_LEAST_SHARE = 0.05
_ENOUGH_ON_ONE_GPU = 2
_IDEAL = Efficiency(1.0, 1.0)
Origin = tuple[Label, str]


class _Plain(NamedTuple):
    """A plain result of one row at a time: seconds of its forward, published and in parts that need no fitting."""

    result: PublishedResult
    seconds: float
    memory_s: float
    fixed_s: float

    @property
    def kind(self) -> tuple[bool, bool]:
        return _kind(self.result.shape, self.result.precision, self.result.gpu)

    def share(self, layer_overhead_s: float) -> float:
        left = self.seconds - self.fixed_s - self.result.shape.layers * layer_overhead_s
        return min(1.0, max(_LEAST_SHARE, self.memory_s / left)) if left > 0 else 1.0

    def predicted(self, share: float, layer_overhead_s: float) -> float:
        return self.memory_s / share + self.fixed_s + self.result.shape.layers * layer_overhead_s


class RowOverhead(NamedTuple):
    """Host work a row and step that explains a software's batches best, or those of all releases of an engine."""

    software: str
    results: int
    seconds: float


@dataclass(frozen=True)
class Fit:
    """What was learnt from some results. shares: (GPU, (experts?, weights read as stored?), share) of each plain
    one."""

    layer_overhead_s: float
    shares: tuple[tuple[str, tuple[bool, bool], float], ...]
    compute_shares: tuple[float, ...] = ()
    row_overheads: tuple[RowOverhead, ...] = ()
    engine_row_overheads: tuple[RowOverhead, ...] = ()
    round_overheads_s: tuple[float, ...] = ()

    def efficiency(
        self, gpu: GpuSpec, shape: ModelShape, precision: Precision, software: str | None = None
    ) -> Efficiency:
        """For a model on a GPU. software: the host work that results in the very same software show; without one, or
        where it published no batches, that of the middle one. What no result speaks of is assumed; so is what only
        other GPUs' results speak of, and both say so."""
        memory, memory_from = self._memory(gpu.name, _kind(shape, precision, gpu))
        compute, compute_from = _median_of(
            self.compute_shares, DEFAULT_EFFICIENCY, "published results that arithmetic binds"
        )
        row_s, row_from = self._row_overhead(software)
        round_s, round_from = _median_of(self.round_overheads_s, 0.0, "published speculative results")
        layer_from: Origin = ("fitted", f"to {len(self.shares)} published plain results") if self.shares else _ASSUMED
        origins = {
            "memory": memory_from,
            "compute": compute_from,
            "layer_overhead_s": layer_from,
            "row_overhead_s": row_from,
            "round_overhead_s": round_from,
        }
        return Efficiency(
            memory,
            compute,
            self.layer_overhead_s,
            row_s,
            max(0.0, round_s),
            origins=MappingProxyType(origins),
        )

    def _row_overhead(self, software: str | None) -> tuple[float, Origin]:
        """Of a software that published batches, its own; else the middle engine's, and of the two in the middle the
        lower: what one engine does for a row in Python, another does in C++ or behind the device's back, so that one
        slow engine must not be charged to all."""
        own = next((found for found in self.row_overheads if found.software == software), None)
        if own is not None:
            return own.seconds, ("fitted", f"to {own.results} published batches in {software}")
        if not self.engine_row_overheads:
            return 0.0, _ASSUMED
        engines = sorted(self.engine_row_overheads, key=lambda found: found.seconds)
        listed = ", ".join(f"{found.software} {found.seconds * 1e6:.3g}" for found in engines)
        basis = (
            f"the middle of {len(engines)} engines, fitted to {sum(found.results for found in engines)} published "
            f"batches, microseconds: {listed}; another software may differ"
        )
        return median_low(found.seconds for found in engines), ("fitted", basis)

    def _memory(self, gpu: str, kind: tuple[bool, bool]) -> tuple[float, Origin]:
        alike = [(name, share) for name, held, share in self.shares if held == kind]
        here = [share for name, share in alike if name == gpu]
        if len(here) >= _ENOUGH_ON_ONE_GPU:
            return median(here), ("fitted", f"median of {len(here)} published results on {gpu}, {_words(kind)}")
        if alike:
            basis = f"median of {len(alike)} published results on {_listed(name for name, _ in alike)}, {_words(kind)}"
            return median(share for _, share in alike), ("fitted" if here else "assumed", basis)
        for other in ((False, kind[1]), (False, True)):  # dense models, then those whose weights are read as stored
            found = [share for _, held, share in self.shares if held == other]
            if found:
                return median(found), ("assumed", f"as {_words(other)}: median of {len(found)} published results")
        return DEFAULT_EFFICIENCY, _ASSUMED


_ASSUMED: Origin = ("assumed", "")


def fitted_efficiency(gpu: GpuSpec, shape: ModelShape, precision: Precision, software: str | None = None) -> Efficiency:
    """Fitted to all published results that come with the package."""
    return _shipped_fit().efficiency(gpu, shape, precision, software)


@lru_cache(maxsize=1)
def _shipped_fit() -> Fit:
    return fit(shipped_results()[0])


def fit(results: Sequence[PublishedResult]) -> Fit:
    """Fit to these results and no others: who leaves one out gets a fit that knows nothing of it."""
    plain = [_plain(r) for r in results if _is_single_plain(r)]
    overhead_s = min(_LAYER_OVERHEADS_S, key=lambda s: _misfit(plain, s)) if plain else 0.0
    shares = tuple((p.result.gpu.name, p.kind, p.share(overhead_s)) for p in plain)
    known = Fit(overhead_s, shares)
    batches = [r for r in results if _is_in_tokens(r) and not r.speculative and r.batch > 1]
    by_arithmetic = [r for r in batches if _bound_by_arithmetic(r, known)]
    known = replace(known, compute_shares=tuple(_compute_share(r, known) for r in by_arithmetic))
    by_memory = [r for r in batches if r not in by_arithmetic]
    known = replace(
        known,
        row_overheads=_row_overheads(by_memory, known, lambda r: r.software),
        engine_row_overheads=_row_overheads(by_memory, known, lambda r: r.origin),
    )
    networks = [r for r in results if _is_in_tokens(r) and r.draft is not None and r.draft.shape is not None]
    return replace(known, round_overheads_s=tuple(_round_overhead_s(r, known) for r in networks))


def predict(result: PublishedResult, efficiency: Efficiency) -> RequestTimes:
    """The projection's own arithmetic on a published result's conditions."""
    return request_times(
        result.shape, result.gpu, result.counts, result.draft, context_tokens=result.context_tokens,
        efficiency=efficiency, batch=result.batch, gpus=result.gpus, precision=result.precision,
        kv_bytes_per_element=result.kv_bytes_per_element,
    )  # fmt: skip


def _kind(shape: ModelShape, precision: Precision, gpu: GpuSpec) -> tuple[bool, bool]:
    return bool(shape.experts), precision.peak(gpu).native


def _words(kind: tuple[bool, bool]) -> str:
    experts, native = kind
    return f"{'expert' if experts else 'dense'} models, weights {'read as stored' if native else 'dequantised'}"


def _listed(names: Iterable[str]) -> str:
    return " and ".join(sorted(set(names)))


def _median_of(values: Sequence[float], otherwise: float, basis: str) -> tuple[float, Origin]:
    if not values:
        return otherwise, _ASSUMED
    return median(values), ("fitted", f"median of {len(values)} {basis}")


def _is_in_tokens(result: PublishedResult) -> bool:
    return result.measure == "tokens_per_second"


def _is_single_plain(result: PublishedResult) -> bool:
    """One row at a time, most of whose time is decoding: reading a prompt longer than its output is no single
    forward's work."""
    alone = _is_in_tokens(result) and not result.speculative and result.batch == 1
    return alone and result.counts.prompt_tokens <= result.counts.output_tokens


def _seconds(result: PublishedResult) -> float:
    """Until all rows of a replica are done, as published."""
    return result.batch * result.replicas * result.counts.output_tokens / result.value


def _plain(result: PublishedResult) -> _Plain:
    """The prompt's reading is counted as one forward more: at these lengths it takes about as long."""
    ideal = decode_step(
        result.shape, result.gpu, 1, result.context_tokens, gpus=result.gpus, efficiency=_IDEAL,
        overhead_s=DEFAULT_FORWARD_OVERHEAD_S, kv_bytes_per_element=result.kv_bytes_per_element,
    )  # fmt: skip
    seconds = _seconds(result) / result.counts.output_tokens
    return _Plain(result, seconds, ideal.memory_s, ideal.communication_s + ideal.overhead_s)


def _misfit(plain: Sequence[_Plain], layer_overhead_s: float) -> float:
    """How far results are from what the median share of their kind predicts: the sum of |log(predicted /
    published)|."""
    by_kind: dict[tuple[bool, bool], list[float]] = {}
    for p in plain:
        by_kind.setdefault(p.kind, []).append(p.share(layer_overhead_s))
    middle = {kind: median(shares) for kind, shares in by_kind.items()}
    return sum(abs(math.log(p.predicted(middle[p.kind], layer_overhead_s) / p.seconds)) for p in plain)


def _efficiency_of(known: Fit, result: PublishedResult) -> Efficiency:
    return known.efficiency(result.gpu, result.shape, result.precision, result.software)


def _bound_by_arithmetic(result: PublishedResult, known: Fit) -> bool:
    return predict(result, _efficiency_of(known, result)).plain_step.bound_by == "compute"


def _row_overheads(
    batches: Sequence[PublishedResult], known: Fit, named: Callable[[PublishedResult], str]
) -> tuple[RowOverhead, ...]:
    by_name: dict[str, list[PublishedResult]] = {}
    for result in batches:
        by_name.setdefault(named(result), []).append(result)
    return tuple(RowOverhead(name, len(found), _row_overhead_s(found, known)) for name, found in by_name.items())


def _row_overhead_s(batches: Sequence[PublishedResult], known: Fit) -> float:
    """The one that makes the sum of |log(predicted / published)| smallest, as the overhead a layer does: a batch in
    which rows take little of the time then says little of them. Tried: none, and what each result alone would have."""
    parts = [(predict(r, _efficiency_of(known, r)).plain.seconds, r.batch * r.counts.output_tokens, _seconds(r))
             for r in batches]  # fmt: skip

    def misfit(seconds: float) -> float:
        return sum(abs(math.log((without + rows * seconds) / published)) for without, rows, published in parts)

    return min(
        sorted({0.0, *(max(0.0, (published - without) / rows) for without, rows, published in parts)}), key=misfit
    )


def _round_overhead_s(result: PublishedResult, known: Fit) -> float:
    predicted = predict(result, _efficiency_of(known, result)).speculative.seconds
    return (_seconds(result) - predicted) / result.counts.drafted_steps


def _compute_share(result: PublishedResult, known: Fit) -> float:
    """The share at which the prediction is what was published; the nearest end where none is."""
    base = _efficiency_of(known, result)
    return _where(
        lambda share: predict(result, replace(base, compute=share)).plain.seconds, _seconds(result), _LEAST_SHARE, 1.0
    )


def _where(falling: Callable[[float], float], wanted: float, low: float, high: float) -> float:
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > wanted else (low, middle)
    return (low + high) / 2
