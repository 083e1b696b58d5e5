"""Does speculation cut the time to the first token? Measured beside what does: a shared prompt that is read once.

Every request begins with the same system prompt of exactly N tokens. Four arms answer it in turns: plain decoding and
speculation, each without and with a prefix cache that an earlier request has filled.
"""

import secrets
import statistics
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.bench.suites import BenchPrompt, load_suite, of_categories
from engine.decode import Generation, Stream, generate
from engine.errors import EngineError
from engine.pair import Pair
from engine.prefix import PrefixCache, common_prefix
from engine.settings import DecodeSettings
from engine.stats import Stats, pool_stats

LENGTHS = (2048, 4096, 7168)
SHORTEST = 64
QUESTIONS = 4
# Tokens kept at the end of the shared part, where a chat template closes the system turn.
TAIL = 32
# The measurement's own cache is cleared after each length; what a shared prompt needs, it may have.
NO_BOUND = 2**62
UNASKED = "?"
PLAIN, CACHED = "plain", " + prefix cache"
INTRODUCTION = "You are a helpful assistant. Answer briefly. These are requests that users have sent before:"


@dataclass(frozen=True, slots=True)
class TtftArm:
    """One arm at one length. ttft_ms: one value a request; reused_prompt_tokens: of each request. ratio: plain's
    median TTFT without a cache / this arm's, so above 1 is sooner. tpot_ms: behind the first token."""

    name: str
    length: int
    prefix_cache: bool
    ttft_ms: tuple[float, ...]
    reused_prompt_tokens: tuple[int, ...]
    ratio: float | None
    stats: Stats

    @property
    def n(self) -> int:
        return len(self.ttft_ms)

    @property
    def median_ms(self) -> float:
        return statistics.median(self.ttft_ms)

    @property
    def tpot_ms(self) -> float | None:
        return None if self.stats.tpot_s is None else self.stats.tpot_s * 1e3

    def as_dict(self) -> dict[str, Any]:
        """The keys of a bench arm, and the times to the first token beside them. ratio and spread are of TTFT."""
        return {
            "name": self.name,
            "category": f"prefix {self.length}",
            "length": self.length,
            "prefix_cache": self.prefix_cache,
            "n": self.n,
            "output_tokens": self.stats.output_tokens,
            "seconds": self.stats.e2e_s,
            "output_tokens_per_second": self.stats.output_tokens_per_second,
            "ratio": self.ratio,
            "interval": None,
            "ttft_ms": {"median": self.median_ms, "min": min(self.ttft_ms), "max": max(self.ttft_ms)},
            "tpot_ms": self.tpot_ms,
            "reused_prompt_tokens": statistics.median(self.reused_prompt_tokens),
            "stats": self.stats.as_dict(),
        }


@dataclass(frozen=True, slots=True)
class TtftReport:
    """arms: four for each length, in order. complete: False when it was stopped; lengths are whole or absent."""

    arms: tuple[TtftArm, ...]
    drafter: str
    complete: bool
    settings: DecodeSettings

    @property
    def verdict(self) -> str:
        """One sentence: what speculation does to the first token, and what the cache does, at the longest prompt."""
        if not self.arms:
            return "nothing was measured"
        longest = self.arms[-1].length
        plain, fast, cached, _ = (a for a in self.arms if a.length == longest)
        return (
            f"behind {longest} shared tokens the first token took {plain.median_ms:.0f} ms; with {self.drafter}, which "
            f"reads no prompt for the target, {fast.median_ms:.0f} ms; with the prompt's beginning reused "
            f"{cached.median_ms:.0f} ms"
        )


def measure_ttft(
    pair: Pair,
    lengths: Sequence[int] = LENGTHS,
    questions: Sequence[str | BenchPrompt] | None = None,
    settings: DecodeSettings | None = None,
    drafter: str = "prompt_lookup",
    verifier: str = "rejection",
    repeats: int = 1,
    progress: Callable[[int, int], None] | None = None,
    cancel: threading.Event | None = None,
) -> TtftReport:
    """Each question behind a shared beginning of exactly `length` tokens, by four arms in turns (who goes first
    changes), after a warm-up that is dropped and that fills the cache.

    questions: texts; default: the default suite's chat requests. progress(done, total) counts requests. Raises
    EngineError, before any forward, for a length that does not fit the context, or a pair without a tokenizer.
    """
    settings = settings or DecodeSettings(max_new_tokens=32)
    if settings.seed is None:
        settings = replace(settings, seed=secrets.randbits(32))
    asked = _texts(questions)
    _check(lengths, drafter, repeats)
    cancel = cancel or threading.Event()
    prompts = {n: shared_prompts(pair, n, asked, settings.max_new_tokens) for n in dict.fromkeys(lengths)}
    Stream(pair, prompts[lengths[0]][0], settings, drafter, verifier)  # faults of the others are told now
    total, done = len(prompts) * len(asked) * repeats * 4, 0
    arms: list[TtftArm] = []
    for length, ids in prompts.items():
        kept = PrefixCache(NO_BOUND)
        ways = [(name, cache) for cache in (None, kept) for name in (PLAIN, drafter)]
        runs: dict[int, list[Generation]] = {way: [] for way in range(4)}
        beginning = ids[0][:length]
        generate(pair, beginning, replace(settings, max_new_tokens=2), drafter, verifier, cancel, prefix_cache=kept)
        kept.freeze()  # what is asked later shares the beginning and nothing else
        for turn in range(len(ids) * repeats):
            for way in ((turn + i) % 4 for i in range(4)):
                name, cache = ways[way]
                method = "none" if name == PLAIN else name
                run = generate(pair, ids[turn % len(ids)], settings, method, verifier, cancel, prefix_cache=cache)
                if cancel.is_set():
                    return TtftReport(tuple(arms), drafter, False, settings)
                runs[way].append(run)
                done += 1
                if progress:
                    progress(done, total)
        base = statistics.median(g.stats.ttft_s or 0.0 for g in runs[0])
        arms += [_arm(name, cache is not None, length, runs[way], base) for way, (name, cache) in enumerate(ways)]
    return TtftReport(tuple(arms), drafter, True, settings)


def _arm(name: str, cached: bool, length: int, runs: Sequence[Generation], base_s: float) -> TtftArm:
    times = [g.stats.ttft_s or 0.0 for g in runs]
    median = statistics.median(times)
    return TtftArm(
        name=name + CACHED * cached,
        length=length,
        prefix_cache=cached,
        ttft_ms=tuple(t * 1e3 for t in times),
        reused_prompt_tokens=tuple(g.stats.reused_prompt_tokens for g in runs),
        ratio=base_s / median if median > 0 else None,
        stats=pool_stats([(g.trace.steps, len(g.trace.prompt_token_ids)) for g in runs]),
    )


def shared_prompts(pair: Pair, length: int, questions: Sequence[str], new_tokens: int) -> list[list[int]]:
    """Token ids of each question behind the same `length` tokens of real text, as a chat with a system turn where the
    model's template knows one. Raises EngineError for what does not fit the context."""
    if pair.tokenizer is None:
        raise EngineError("a shared prompt is made of text, and this pair has no tokenizer")
    if pair.context_length is not None and length > pair.context_length:
        raise EngineError(
            f"{length} shared tokens do not fit the {pair.context_length} that {pair.target.name} reads; "
            "give a shorter length"
        )
    system = _system_text(pair, length)
    whole, common = _encoded(pair, system, questions, chat=True)
    if common < length:  # no template, or one that sends no system turn
        whole, common = _encoded(pair, system, questions, chat=False)
    surplus = common - length
    # Exactly `length`: what is too much goes from the middle of the text, so that the template stays whole.
    prompts = [[*ids[: length - TAIL], *ids[length - TAIL + surplus :]] for ids in whole]
    longest = max(map(len, prompts))
    if pair.context_length is not None and longest + new_tokens > pair.context_length:
        raise EngineError(
            f"{length} shared tokens, a question of {longest - length} and {new_tokens} new tokens do not fit the "
            f"{pair.context_length} that {pair.target.name} reads; give a shorter length"
        )
    return prompts


def _encoded(pair: Pair, system: str, questions: Sequence[str], chat: bool) -> tuple[list[tuple[int, ...]], int]:
    """Ids of each whole prompt, and how many of the first ones all share; none where the template refuses."""
    asked = [*questions, UNASKED]  # one question alone would share all of itself
    try:
        if chat:
            turns = [[{"role": "system", "content": system}, {"role": "user", "content": q}] for q in asked]
            *whole, probe = (pair.encode(messages).ids for messages in turns)
        else:
            *whole, probe = (pair.encode(f"{system}\n\n{q}", chat=False).ids for q in asked)
    except EngineError:
        if not chat:
            raise
        return [], 0
    return whole, min(common_prefix(probe, ids) for ids in whole)


def _system_text(pair: Pair, length: int) -> str:
    """The default suite's requests, numbered, until they are more than `length` tokens."""
    requests, lines, tokens = [p.prompt for p in load_suite()], [INTRODUCTION], 0
    while tokens < length + TAIL:
        more = [f"{len(lines) + i}. {request}" for i, request in enumerate(requests)]
        for line in more:
            lines.append(line)
            tokens += len(pair.tokenizer(line, add_special_tokens=False)["input_ids"])
            if tokens >= length + TAIL:
                break
    return "\n".join(lines)


def _texts(questions: Sequence[str | BenchPrompt] | None) -> list[str]:
    if questions is None:
        questions = of_categories(load_suite(), ["chat"])[:QUESTIONS]
    if isinstance(questions, str):
        raise EngineError("questions is a list of texts; put the one question into a list")
    texts = [q.prompt if isinstance(q, BenchPrompt) else q for q in questions]
    if not texts or not all(isinstance(t, str) and t.strip() for t in texts):
        raise EngineError("give at least one question, each a text that is not empty")
    return texts


def _check(lengths: Sequence[int], drafter: str, repeats: int) -> None:
    whole = all(isinstance(n, int) and not isinstance(n, bool) and n >= SHORTEST for n in lengths)
    if not lengths or not whole:
        raise EngineError(f"lengths must be whole numbers of at least {SHORTEST} shared tokens, not {lengths!r}")
    if drafter == "none":
        raise EngineError("plain decoding is measured anyway; name the drafter to hold beside it")
    if not isinstance(repeats, int) or isinstance(repeats, bool) or repeats < 1:
        raise EngineError(f"repeats must be a whole number of at least 1, not {repeats!r}")
