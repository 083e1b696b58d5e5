"""How `specscope bench` looks: speeds, latencies, limits, and where a step's time goes."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.text import Text

from app.terminal import note, number, out, share, span, wide_table


def show_comparison(result: Any, wanted: int) -> None:
    if not result.samples:
        note("stopped before the first prompt was finished: nothing to report")
        return
    table = wide_table("measured here, plain and speculative in lock-step", between=1)
    table.add_column("category", overflow="fold")
    for name in ("runs", "plain\ntok/s", "speculative\ntok/s", "ratio", "95%\ninterval", "lowest to\nhighest",
                 "mean\nacceptance\nlength", "accepted /\nproposed"):  # fmt: skip
        table.add_column(name, justify="right", no_wrap=True)
    for category in result.categories:
        plain, fast = result.arm("plain", category), result.arm(result.drafter, category)
        table.add_row(
            Text(category), str(fast.n), number(plain.output_tokens_per_second, 1),
            number(fast.output_tokens_per_second, 1), number(fast.ratio, 2, "x"), span(fast.interval),
            span(fast.spread), number(fast.stats.mean_acceptance_length),
            share(fast.stats.draft_acceptance_rate),
            style="bold" if category == "all" else "",
        )  # fmt: skip
    out.print(table)
    _show_latency(result)
    for line in _limits(result):
        out.print(Text(line, "dim"))
    out.print(Text(f"{result.drafter}: {result.verdict}"))
    if not result.complete:
        note(f"stopped after {len(result.samples)} of {wanted} runs; the table holds the finished ones")


def _show_latency(result: Any) -> None:
    table = wide_table("latency, all categories; n values each")
    for name in ("", "arm", "P50", "P95", "P99", "n"):
        table.add_column(name, justify="left" if name in ("", "arm") else "right", no_wrap=True)
    for name, what in (
        ("ttft_s", "time to first token"), ("tpot_s", "time per token after it"), ("itl_s", "time per step after it"),
        ("e2e_s", "whole answer"),
    ):  # fmt: skip
        for arm in (result.plain, result.speculative):
            p = getattr(arm.latency, name)
            values = [number(v and v * 1e3, 1, " ms") for v in (p.p50, p.p95, p.p99)]
            # Of a few values the upper percentiles are only the largest.
            table.add_row(what, arm.name, *values, f"{p.n} (few)" if p.few else str(p.n))
            what = ""
    out.print(table)


def _limits(result: Any) -> Iterator[str]:
    """How close each arm comes to what the memory allows, and what a joule buys."""
    plain, fast, limit = result.plain, result.speculative, result.limit
    if limit and plain.limit_fraction and fast.limit_fraction:
        yield (
            f"memory limit: a step reads {limit.target_bytes / 1e6:.0f} MB of weights, and this machine reads "
            f"{limit.bytes_per_second / 1e9:.1f} GB/s (both measured), so plain decoding gives "
            f"{limit.tokens_per_second:.0f} tokens/s at most; plain steps reach {plain.limit_fraction:.0%} of that "
            f"limit, {fast.name} steps {fast.limit_fraction:.0%}"
        )
    if plain.tokens_per_joule and fast.tokens_per_joule:
        yield (
            f"tokens per joule: plain {plain.tokens_per_joule:.3g}, {fast.name} {fast.tokens_per_joule:.3g} "
            f"({result.energy})"
        )
    else:
        yield "tokens per joule: this platform reports no energy"


def show_profile(parts: Sequence[Any]) -> None:
    """Milliseconds a step, and of which share of it."""
    table = wide_table("where a step's time goes, ms a step")
    table.add_column("")
    for part in parts:
        table.add_column(f"{part.arm} ({part.steps} steps)", justify="right")
    for name, what in (
        ("draft_ms", "draft"), ("verify_ms", "verify"), ("linear_ms", "  linear"), ("attention_ms", "  attention"),
        ("rest_ms", "  rest of the forward"), ("sampling_ms", "sampling"), ("other_ms", "other"), ("step_ms", "step"),
    ):  # fmt: skip
        values = [getattr(part, name) for part in parts]
        cells = [f"{v:.2f}  {v / part.step_ms:4.0%}" for v, part in zip(values, parts, strict=True)]
        table.add_row(what, *cells, style="bold" if name == "step_ms" else "")
    out.print(table)
    note(
        "draft, verify, sampling and other are the engine's own clocks; how verify divides comes from a second run "
        "under torch's profiler, which charges small operations more than they cost"
    )
