"""Many prompts at once: `generate_batch`, a thin loop over `Batch`, which rows join and leave at any step."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

from engine.batch_engine import Batch
from engine.batch_row import BatchRow, BatchTotals
from engine.errors import EngineError
from engine.memory import OutputMemory
from engine.pair import Pair
from engine.prefix import PrefixCache
from engine.sequence import Generation
from engine.settings import DecodeSettings
from engine.text import Prompt
from engine.trace import Step

__all__ = ["Batch", "BatchError", "BatchRow", "BatchTotals", "generate_batch"]


class BatchError(EngineError):
    """Some rows failed. errors: what ended each, by the prompt's index; generations: of all prompts, in order, those
    that failed as far as they came."""

    def __init__(self, errors: dict[int, Exception], generations: list[Generation]) -> None:
        self.errors, self.generations = errors, generations
        first = min(errors)
        more = f" (and {len(errors) - 1} more failed)" if len(errors) > 1 else ""
        super().__init__(
            f"prompts[{first}] failed: {errors[first]}{more}; what was decoded is in this error's generations"
        )


def generate_batch(
    pair: Pair,
    prompts: Sequence[Prompt],
    settings: DecodeSettings | Sequence[DecodeSettings | None] | None = None,
    drafter: str | Sequence[str] = "none",
    verifier: str | Sequence[str] = "rejection",
    max_batch: int = 16,
    cancel: threading.Event | Sequence[threading.Event | None] | None = None,
    alternatives: int = 0,
    chat: bool = True,
    prefix_cache: PrefixCache | None = None,
    memory: OutputMemory | None = None,
    tenant: str = "",
    progress: Callable[[int, int], None] | None = None,
    on_step: Callable[[int, Step], None] | None = None,
) -> list[Generation]:
    """Decode all prompts, up to `max_batch` at once, and return their results in the order of the prompts.

    settings, drafter, verifier, cancel: one for all, or a list with one for each. Each row's tokens are those of
    `generate` with the same settings and seed, in float32; in int8, int4 and half precision near-ties may fall
    differently with the width of a forward, and under k_control "cost", where K depends on how many rows there are, a
    seed's sampled tokens differ (their law does not). memory, tenant: see `engine.stream`. progress(done, total) after
    each prompt; on_step(index, step) with every step; neither is on any clock. Raises EngineError that names the
    prompt's index before any forward, and BatchError at the end, with all results in it, when rows failed on the way.
    """
    if isinstance(prompts, str) or not isinstance(prompts, Sequence):
        raise EngineError("prompts is a list of prompts; put the one prompt into a list")
    batch, prompts = Batch(pair, max_batch, prefix_cache), list(prompts)
    count, rows = len(prompts), []
    batch.max_batch = min(batch.max_batch, max(count, 1))  # no room for rows that will never be
    each = zip(
        prompts, _each("settings", settings, count), _each("drafter", drafter, count),
        _each("verifier", verifier, count), _each("cancel", cancel, count), strict=True,
    )  # fmt: skip
    for at, (prompt, one, method, rule, stop) in enumerate(each):
        try:
            rows.append(batch.submit(prompt, one, method, rule, stop, alternatives, chat, memory, tenant))
        except EngineError as error:
            raise EngineError(f"prompts[{at}]: {error}") from error
    told = 0
    try:
        while batch.busy:
            for row, step in batch.step():
                if on_step:
                    on_step(row.index, step)
            done = sum(row.ended for row in rows)
            while progress and told < done:
                told += 1
                progress(told, count)
    finally:
        batch.close()
    generations = [row.generation for row in rows]
    if errors := {row.index: row.error for row in rows if row.error}:
        raise BatchError(errors, generations) from next(iter(errors.values()))
    return generations


def _each(name: str, value: Any, count: int) -> list[Any]:
    """One value for every prompt: the list that was given, or the one value again and again."""
    if not isinstance(value, list | tuple):
        return [value] * count
    if len(value) != count:
        raise EngineError(f"{name} has {len(value)} entries for {count} prompts; give one for all, or one for each")
    return [*value]
