"""Continuous batching: the loop of `decode` for many runs that share the target's forwards.

Each step admits what waits, reads a piece of the joining prompts, and verifies one step of every row that decodes in
one forward. Rows are ragged: each has its own length, draft, settings, seed and end, and none can see another.
"""

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from engine.batch_row import BatchRow, BatchTotals, Ready
from engine.clock import Stopwatch
from engine.decode import Emission, case_of, propose, record, settle
from engine.drafters import Draft
from engine.errors import EngineError
from engine.memory import OutputMemory
from engine.pair import Pair
from engine.prefix import PrefixCache
from engine.runner import PREFILL_CHUNK
from engine.settings import DecodeSettings
from engine.text import Prompt
from engine.trace import Step
from engine.verify import judge_cases

MAX_BATCH = 1024
ONE_BY_ONE = "rows of {name} are read one by one: read together they do not say what each says alone"


class Batch:
    """Rows join with `submit` and leave at any step; each emits the tokens of its run alone (up to rounding: forwards
    of other widths add up in another order; and under k_control "cost", where K depends on the rows, a seed's sampled
    tokens are others of the same law).

    `submit` may be called from any thread, also while another one is in `step`; `step` by one thread at a time. A row
    whose drafter fails, or whose logits hold no law, ends alone with its `error`; a fault of a shared forward ends
    all rows and is raised. prefix_cache: rows then read a shared beginning once; see `PrefixCache` for who may know.
    """

    def __init__(self, pair: Pair, max_batch: int = 16, prefix_cache: PrefixCache | None = None) -> None:
        if not isinstance(max_batch, int) or isinstance(max_batch, bool) or not 1 <= max_batch <= MAX_BATCH:
            raise EngineError(f"max_batch must be a whole number from 1 to {MAX_BATCH}, not {max_batch!r}")
        if prefix_cache is not None:
            prefix_cache.check(pair.target)
        self.pair, self.target, self.max_batch, self.prefix_cache = pair, pair.target, max_batch, prefix_cache
        self.cache = self.target.new_cache(0)
        self._submitted = 0
        self._counts = [0, 0, 0]  # of the rows that have ended: tokens of prompts, those reused, those emitted
        self._queue: deque[BatchRow] = deque()
        # In the cache's order: those that decode, then those whose prompts are being read.
        self._live: list[BatchRow] = []
        self._decoding = 0
        self._turns: deque[BatchRow] = deque()  # of the joining rows at reading
        self._submitting, self._stepping = threading.Lock(), threading.Lock()
        # The batch's clock runs inside `step` alone: the time of day less what passed outside.
        self._idle = self._left_at = time.perf_counter()
        self._steps = self._forwards = self._shared = 0

    def submit(
        self,
        prompt: Prompt,
        settings: DecodeSettings | None = None,
        drafter: str = "none",
        verifier: str = "rejection",
        cancel: threading.Event | None = None,
        alternatives: int = 0,
        chat: bool = True,
        memory: OutputMemory | None = None,
        tenant: str = "",
    ) -> BatchRow:
        """Puts a prompt behind those that wait; arguments as in `engine.generate`. Raises EngineError for one that
        cannot be decoded, and the batch goes on without it. cancel: ends this row alone, within one step."""
        args = (self.pair, prompt, settings, drafter, verifier, cancel, alternatives, chat, self.prefix_cache)
        row = BatchRow(0, *args, memory, tenant)
        with self._submitting:
            row.index = self._submitted
            self._submitted += 1
            if row.ended:
                self._count(row)
            else:
                self._queue.append(row)
        return row

    @property
    def busy(self) -> bool:
        """Is there a row that has not ended?"""
        return bool(self._live or self._queue)

    def step(self) -> list[tuple[BatchRow, Step]]:
        """One step of every row that decodes, and a piece of the prompts that join. Returns the steps that came of it:
        none where only a piece of a long prompt was read."""
        if not self._stepping.acquire(blocking=False):
            raise EngineError("this batch is being stepped by another thread; submit from any, step from one")
        try:
            with self._submitting:
                rows = [*self._live, *self._queue]
            if len(rows) > 1:
                _ = self.target.reads_rows_together  # asked once, before the clock runs
            for row in rows:
                with self._alone(row):
                    row.control.prepare(min(len(rows), self.max_batch))
            self._idle += time.perf_counter() - self._left_at
            return self._step()
        except BaseException:
            # Half a step may be in the cache: nothing true can follow. What was done stays readable.
            self._end_all()
            raise
        finally:
            self._left_at = time.perf_counter()
            self._stepping.release()

    @torch.inference_mode()
    def _step(self) -> list[tuple[BatchRow, Step]]:
        self._admit()
        ready = self._read_prompts()
        front = self._live[: self._decoding]
        drafts = {row: draft for row in front if (draft := self._draft(row)) is not None}
        front = self._live[: self._decoding]  # without those that failed; a row that leaves moves others
        if front:
            ready += self._verify(front, [drafts[row] for row in front])
        emissions = self._emit(ready)
        done = self._now()
        # Showing a step costs nothing that any row is charged for.
        recording = time.perf_counter()
        steps = [(row, self._record(row, e, rows, done)) for row, e, rows in emissions]
        self._idle += time.perf_counter() - recording
        for row, _, _ in emissions:
            if row in self._turns and not row.ended:
                self._promote(row)
            elif row.ended:
                self._leave(row)
        self._steps += 1
        return steps

    def _admit(self) -> None:
        with self._submitting:
            rows = [*self._live, *self._queue]
        for row in rows:
            if row.cancel.is_set():
                row.cancelled()
                self._leave(row)
        longest = max((row.longest for row in rows if not row.ended), default=0)
        self.target.expect(self.cache, longest, self.max_batch)
        while len(self._live) < self.max_batch and (joins := self._next()) is not None:
            joins.cache = self.cache.rows(self.cache.add_row(), 1)
            self._live.append(joins)
            self._turns.append(joins)
            joins.since = self._now()
            joins.queued_ms = (time.perf_counter() - joins.submitted) * 1e3

    def _next(self) -> BatchRow | None:
        with self._submitting:
            return self._queue.popleft() if self._queue else None

    def _read_prompts(self) -> list[Ready]:
        """At most PREFILL_CHUNK prompt tokens, by the joining rows in turn, so that none waits for a long prompt to end
        and decoding rows for one piece at most. Returns the rows whose prompt has been read, with their logits."""
        left = PREFILL_CHUNK
        ready: list[Ready] = []
        for row in [*self._turns]:
            if left < 1:
                break
            with self._alone(row):
                read, reading = row.read_prompt(left)
                left -= read
                self._turns.remove(row)
                self._turns.append(row)  # behind the others
                if reading is not None and (draft := self._draft(row)) is not None:
                    ready.append(Ready(row, draft, reading, 1))
        return ready

    def _draft(self, row: BatchRow) -> Draft | None:
        with self._alone(row), row.drafting.running():
            return propose(row)
        return None

    def _verify(self, front: list[BatchRow], drafts: list[Draft]) -> list[Ready]:
        shared = Stopwatch(self.target.device)
        ids = [[*row.unread, *draft.tokens] for row, draft in zip(front, drafts, strict=True)]
        keep = [len(draft.tokens) + 1 for draft in drafts]
        trees = [draft.parents for draft in drafts]
        taps = tuple(sorted({tap for row in front for tap in row.taps}))
        with shared.running():
            readings = self.target.read_rows(ids, self.cache.rows(0, len(front)), keep, trees, taps)
        self._forwards += 1
        self._shared += len(front)
        for row in front:
            row.verifying.laps += shared.laps
            if len(front) > 1 and not self.target.reads_rows_together:
                row.notices = (ONE_BY_ONE.format(name=self.target.name),)
        return [Ready(row, d, x, len(front)) for row, d, x in zip(front, drafts, readings, strict=True)]

    def _emit(self, ready: list[Ready]) -> list[tuple[BatchRow, Emission, int]]:
        """All rows are judged together: one host read for the batch."""
        emissions = []
        judged = judge_cases([case_of(r.row, r.draft, r.reading.logits) for r in ready]) if ready else []
        for r, found in zip(ready, judged, strict=True):
            with self._alone(r.row):
                if isinstance(found, EngineError):
                    raise found
                emission = settle(r.row, r.draft, r.reading, found, r.row.drafting)
                emissions.append((r.row, emission, r.rows))
        return emissions

    def _record(self, row: BatchRow, emission: Emission, rows: int, done: float) -> Step:
        draft_s, verify_s = row.drafting.take(), row.verifying.take()
        step = record(row, emission, (draft_s, verify_s, max(done - row.since - draft_s - verify_s, 0.0)), rows)
        row.since = done
        return step

    @contextmanager
    def _alone(self, row: BatchRow) -> Iterator[None]:
        """What fails for one row ends that row; the others cannot be touched by it."""
        try:
            yield
        except Exception as error:
            row.error = error
            self._leave(row)

    def _promote(self, row: BatchRow) -> None:
        """A joining row whose prompt has been read moves behind those that decode."""
        self._turns.remove(row)
        at = self._live.index(row)
        self._swap(at, self._decoding)
        self._decoding += 1

    def _leave(self, row: BatchRow) -> None:
        """Its place is taken by the last row that decodes, and that one's by the last of all: one copy each."""
        if row in self._live:
            at, last = self._live.index(row), len(self._live) - 1
            if at < self._decoding:
                self._decoding -= 1
                self._put(self._decoding, at)
                at = self._decoding
            else:
                self._turns.remove(row)
            self._put(last, at)
            self._live.pop()
            self.cache.drop_last_row()
        else:
            with self._submitting:
                self._queue.remove(row)
        self._end(row)

    def _end(self, row: BatchRow) -> None:
        row.end()
        with self._submitting:
            self._count(row)

    def _count(self, row: BatchRow) -> None:
        self._counts = [a + b for a, b in zip(self._counts, row.counts, strict=True)]

    def _put(self, source: int, to: int) -> None:
        if source != to:
            self.cache.copy_row(source, to)
            self._live[to] = self._live[source]
            self._live[to].cache = self.cache.rows(to, 1)

    def _swap(self, one: int, other: int) -> None:
        if one != other:
            self.cache.swap_rows(one, other)
            self._live[one], self._live[other] = self._live[other], self._live[one]
            for at in (one, other):
                self._live[at].cache = self.cache.rows(at, 1)

    def close(self) -> None:
        """End all rows where they are and let go of the cache; what they did stays readable."""
        with self._stepping:
            self._end_all()

    def _end_all(self) -> None:
        with self._submitting:
            rest = [*self._live, *self._queue]
            self._queue.clear()
        self._live, self._decoding = [], 0
        self._turns.clear()
        for row in rest:
            self._end(row)
        self.cache = self.target.new_cache(0)

    def _now(self) -> float:
        return time.perf_counter() - self._idle

    @property
    def totals(self) -> BatchTotals:
        """The numbers so far."""
        with self._submitting:
            going = [row.counts for row in (*self._live, *self._queue)]
            prompt, reused, output = (sum(column) for column in zip(self._counts, *going, strict=True))
        seconds = self._left_at - self._idle
        return BatchTotals(
            rows=self._submitted,
            steps=self._steps,
            forwards=self._forwards,
            rows_per_forward=self._shared / self._forwards if self._forwards else None,
            prompt_tokens=prompt,
            reused_prompt_tokens=reused,
            output_tokens=output,
            seconds=seconds,
            output_tokens_per_second=output / seconds if output and seconds > 0 else None,
        )
