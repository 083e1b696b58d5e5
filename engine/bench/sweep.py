"""K x drafter x tree size x temperature x batch x quantization on a suite, point by point, so that it can be stopped
and gone on with: every point that is finished is in the run store and is not measured again."""

import gc
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import torch

from engine.bench import quantization
from engine.bench.curves import Stopped, curve_context, draft_curve, verify_curve
from engine.bench.suites import BenchPrompt
from engine.bench.sweep_plan import ANCHOR, SweepPlan, Task, configuration
from engine.bench.sweep_point import measure_point
from engine.bench.sweep_report import SweepReport
from engine.decode import Stream
from engine.drafters.make import says_how_sure
from engine.environment import environment
from engine.errors import EngineError, first_line, sentence
from engine.pair import Pair
from engine.runs import RunStore

Load = Callable[[str], Pair]
# What a point may die of without taking the sweep with it. Anything else is a fault of ours and keeps its traceback.
SURVIVABLE = (EngineError, RuntimeError, MemoryError, ValueError)
LONGEST_SENTENCE = 300


def sweep(
    load: Load,
    prompts: Sequence[BenchPrompt],
    plan: SweepPlan | None = None,
    *,
    store: RunStore | None = None,
    label: str = "",
    sources: Mapping[str, Any] | None = None,
    weights: Callable[[], Sequence[str | None]] = tuple,
    fresh: bool = False,
    progress: Callable[[int, int], None] | None = None,
    cancel: threading.Event | None = None,
) -> SweepReport:
    """Measure every point of the plan, or what an earlier run of the same configuration has left of it.

    load(quantization) gives the pair; one is held at a time, or two while quantised weights are held against
    unquantised ones and both fit. store: None keeps nothing. sources: JSON that says which weights these are;
    weights(): their fingerprints, asked for once they are loaded (see `sweep_plan.fingerprint`). fresh: give up what
    was measured before. progress(done, total) counts tasks, those found in the store included. cancel: the point in
    progress is dropped, and the report says complete False. Raises EngineError for what no point could be measured
    with, and, but for `fresh`, where another living process is at the same sweep in the store.
    """
    plan, cancel = plan or SweepPlan(), cancel or threading.Event()
    if not prompts:
        raise EngineError("there are no prompts to sweep over")
    with quantization.Reference() as reference:
        work = _Work(load, prompts, plan, reference, cancel)
        pair = work.hold(plan.order[0])
        _check(pair, prompts, plan)
        about = {k: v for k, v in pair.describe().items() if k != "quantization"} | dict(sources or {})
        book = _Book(store, plan, about, label, configuration(plan, prompts, weights()), pair.device, fresh)
        work.threads = book.threads
        del pair  # `work` holds what is needed, and lets go of it
        with book.let_go_of():
            work.run(book, progress)
            report = SweepReport(
                plan=plan, results=book.done, pair=about, environment=environment(work.device), run_id=book.run_id,
                started_at=book.started_at, label=label, prompts=len(prompts), resumed=book.resumed,
            )  # fmt: skip
            book.close(report)
        return report


def _check(pair: Pair, prompts: Sequence[BenchPrompt], plan: SweepPlan) -> None:
    """What no point could be measured with is said before the work begins."""
    settings = plan.settings(plan.ks[0], plan.temperatures[0])
    for drafter in plan.drafters:
        if plan.k_control == "confidence" and not says_how_sure(drafter, pair):
            raise EngineError(f"the drafter {drafter!r} does not say how sure it is; sweep it with another k_control")
    for at, row in enumerate(prompts):
        for drafter in plan.drafters:
            try:
                Stream(pair, row.prompt, settings, drafter, plan.verifier)
            except EngineError as error:
                raise EngineError(f"prompt {at + 1}: {error}" if len(prompts) > 1 else str(error)) from error


class _Book:
    """What is measured already, by key: in the store, or in memory alone."""

    def __init__(
        self, store: RunStore | None, plan: SweepPlan, about: dict[str, Any], label: str, key: dict[str, Any],
        device: str, fresh: bool,
    ) -> None:  # fmt: skip
        self.store, self.run_id, self.done = store, None, {}  # type: RunStore | None, str | None, dict[str, Any]
        self.started_at = datetime.now(UTC).isoformat(timespec="seconds")
        self.threads = torch.get_num_threads()
        self.resumed = 0
        if store is None:
            return
        # The thread count is chosen anew by each process; the run goes on with the one that it was begun with.
        key = {**key, "threads": os.environ.get("OMP_NUM_THREADS")}
        where = {**environment(device), "threads": None}
        settings = {**plan.as_dict(), "threads": self.threads}
        others: Any = "pass" if fresh else "refuse"
        while True:
            run = store.begin(
                "sweep", label=label, settings=settings, pair=about, environment=where, key=key, others=others
            )
            self.done = store.measurements(run.id)
            if not (fresh and self.done):
                break
            store.finish(run.id, "failed", stats={"verdict": "given up: measured anew from the start"})
        self.run_id, self.threads, self.resumed = run.id, int(run.settings["threads"]), len(self.done)
        self.started_at = run.created_at.isoformat(timespec="seconds")

    def put(self, task: Task, payload: dict[str, Any]) -> None:
        self.done[task.key] = json.loads(json.dumps(payload, allow_nan=False))  # as it will be read back
        if self.store is None or self.run_id is None:
            return
        with self._unless_complete():
            if self.store.put(self.run_id, task.key, payload):
                return
        self.done |= self.store.measurements(self.run_id)  # another process was first, perhaps with more than this

    def close(self, report: SweepReport) -> None:
        if self.store is not None and self.run_id is not None:
            status: Any = "complete" if report.complete else "stopped"
            with self._unless_complete():
                self.store.finish(self.run_id, status, report.as_dict(), {"verdict": report.verdict})

    @contextmanager
    def _unless_complete(self) -> Iterator[None]:
        """A process on another machine may have measured the rest meanwhile: what it has stored stands."""
        assert self.store is not None
        assert self.run_id is not None
        try:
            yield
        except EngineError:
            if self.store.find(self.run_id).status != "complete":
                raise

    @contextmanager
    def let_go_of(self) -> Iterator[None]:
        """Whatever ends the work, the next process need not think that this one is still at it."""
        try:
            yield
        except BaseException:
            if self.store is not None and self.run_id is not None:
                with suppress(EngineError):
                    self.store.finish(self.run_id, "stopped")
            raise


class _Work:
    """Holds the pair that is measured and, where both fit, the unquantised one that it is held against."""

    def __init__(
        self, load: Load, prompts: Sequence[BenchPrompt], plan: SweepPlan, reference: quantization.Reference,
        cancel: threading.Event,
    ) -> None:  # fmt: skip
        self.load, self.prompts, self.plan, self.reference, self.cancel = load, prompts, plan, reference, cancel
        self.threads: int | None = None
        self.pair: Pair | None = None
        self.anchor: Pair | None = None
        self.held: str | None = None
        self.grown: int | None = None
        self.device = "cpu"

    def hold(self, name: str) -> Pair:
        """The pair of a quantization; lets go of the one before, but for the unquantised one where another fits."""
        if self.pair is not None and self.held == name:
            return self.pair
        if self.pair is not None and self.held == ANCHOR and quantization.can_hold_another(self.pair):
            self.anchor = self.pair
        self.pair = self.held = None
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        before = quantization.resident_bytes(self.device)
        pair = self.load(name)
        self.device = pair.device
        after = quantization.resident_bytes(self.device)
        self.grown = after - before if before is not None and after is not None else None
        if self.threads is not None:
            torch.set_num_threads(self.threads)
        self.pair, self.held = pair, name
        return pair

    def run(self, book: _Book, progress: Callable[[int, int], None] | None) -> None:
        total = len(self.plan.tasks)
        if progress:
            progress(len(book.done), total)
        if self.threads is not None:
            torch.set_num_threads(self.threads)
        for name in self.plan.order:
            tasks = [t for t in self.plan.tasks_of(name) if t.key not in book.done]
            against = self._needs_anchor(book) if name == ANCHOR else set()
            if self.cancel.is_set() or not (tasks or against):
                continue
            try:
                self.hold(name)
            except SURVIVABLE as error:
                for task in tasks:
                    book.put(task, {"failed": told(error)})
                continue
            if "drift" in against and not self._refer():
                return
            for task in tasks:
                if task.key in book.done:
                    continue
                payload = self._attempt(task)
                if payload is None:
                    return
                book.put(task, payload)
                if progress:
                    progress(len(book.done), total)

    def _needs_anchor(self, book: _Book) -> set[str]:
        kinds = ("drift", "plain")
        return {t.kind for t in self.plan.tasks if t.kind in kinds and t.key not in book.done}

    def _refer(self) -> bool:
        """The reference, while the unquantised pair is here; False when stopped. Where it cannot be made, what would
        be held against it fails by itself."""
        assert self.pair is not None
        try:
            self.reference.measure(self.pair, self.prompts, self.plan.max_new_tokens, self.cancel)
        except Stopped:
            return False
        except SURVIVABLE:
            self.reference.texts = []
        return True

    def _attempt(self, task: Task) -> dict[str, Any] | None:
        """What was measured, or the sentence of what it died of; None when stopped."""
        if self.cancel.is_set():
            return None
        try:
            return self._measure(task)
        except Stopped:
            return None
        except SURVIVABLE as error:
            said = told(error)
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        return {"failed": said}

    def _measure(self, task: Task) -> dict[str, Any]:
        pair, plan = self.pair, self.plan
        assert pair is not None
        widest = max(plan.ks) + 1
        if task.kind == "memory":
            draft = pair.draft.read_bytes if pair.draft else None
            read = pair.target.read_bytes
            return {"weight_bytes": read, "draft_weight_bytes": draft, "resident_bytes": self.grown}
        if task.kind == "drift":
            return quantization.divergence(pair, self.reference, self.cancel)
        if task.kind == "plain":
            if self.anchor is None:
                return {"interleaved": False}  # the report takes both speeds from the grid
            return quantization.plain_speed(
                pair, self.anchor, self.prompts, task.quantization, plan.max_new_tokens, self.cancel
            )
        if task.kind == "point":
            return measure_point(pair, self.prompts, plan, task, self.cancel)
        assert task.batch is not None
        context = curve_context(pair, self.prompts, plan.max_new_tokens, widest)
        if task.kind == "verify":
            return verify_curve(pair, task.batch, widest, context, plan.rounds, self.cancel).as_dict()
        assert task.drafter is not None
        settings = plan.settings(max(plan.ks), plan.temperatures[0], task.tree_nodes)
        return draft_curve(pair, task.drafter, task.batch, settings, context, plan.rounds, self.cancel).as_dict()


def told(error: BaseException) -> str:
    """A point's failure in one sentence: memory is the one with a way out."""
    said = first_line(error)
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in said:
        return f"out of memory{f' ({said})' if said else ''}; try a smaller batch"
    return sentence(error)
