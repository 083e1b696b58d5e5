"""How a sweep looks: the grid beside its predictions, cost curves, the best K, the break-even batch, the trade-off."""

from typing import Any

from rich.table import Table
from rich.text import Text

from app.terminal import NO_VALUE, note, number, out, share, show_lossy, span, wide_table

SHOWN_WIDTHS = 9


def announce(plan: Any, prompts: int) -> None:
    """What is about to be measured, before the work begins."""
    lists = (
        (plan.ks, "K"), (plan.drafters, "drafter"), (plan.temperatures, "temperature"), (plan.batches, "batch"),
        (plan.quantizations, "quantization"), *([(plan.tree_nodes, "tree size")] if _trees(plan) else []),
    )  # fmt: skip
    sizes = " x ".join(f"{len(values)} {name}" for values, name in lists)
    tokens = plan.points * prompts * plan.max_new_tokens * plan.repeats
    show_lossy(plan.verifier)
    others = _count(len(plan.tasks) - plan.points, "other measurement")
    control = "" if plan.k_control == "fixed" else f", K control {plan.k_control}"
    note(
        f"{_count(plan.points, 'point')} ({sizes}{control}) of {_count(prompts, 'prompt')}, "
        f"{plan.max_new_tokens} tokens each: {tokens} tokens plain and as many speculative; {others}"
    )


def show(report: Any) -> None:
    if not report.points:
        note("stopped before the first point was finished: nothing to report")
        return
    for quantization in report.plan.quantizations:
        points = [p for p in report.points if p.quantization == quantization]
        if points:
            out.print(_grid(report, quantization, points))
    for table in _curves(report):
        out.print(table)
    out.print(_best(report))
    for even in report.break_even:
        which = _place(report, even)
        out.print(Text(f"break-even batch{f', {which}' if which else ''}: {even.words}"))
    if len(report.plan.quantizations) > 1:
        out.print(_trade_off(report))
        if any(row.divergence for row in report.quantization):
            out.print(_drift(report))
        for row in report.quantization:
            if row.verdict:
                out.print(Text(row.verdict))
            if row.interleaved is False:
                note(f"note: {row.quantization} and none do not fit in memory together: their plain speeds were "
                     "measured one after the other, so no interval")  # fmt: skip


def ending(report: Any, kept: bool) -> None:
    for what, why in report.failures:
        note(f"failed {what}: {why}")
    if report.resumed:
        note(f"{_count(report.resumed, 'measurement')} of an earlier run were gone on with; --fresh measures all anew")
    if report.run_id:
        note(f"kept as {report.run_id}: specscope runs show {report.run_id}")
    if not report.complete:
        how = "run the same command to go on" if kept else "--no-save kept nothing to go on from"
        note(f"stopped with {_count(report.left, 'measurement')} left; {how}")


def _grid(report: Any, quantization: str, points: list[Any]) -> Table:
    tokens = report.plan.max_new_tokens
    title = f"{quantization}: measured here, plain and speculative interleaved, {tokens} tokens a prompt"
    if report.plan.k_control != "fixed":
        title += f"; K control {report.plan.k_control}, of at most K"
    table = wide_table(title)
    drafters, temperatures = len(report.plan.drafters) > 1, len(report.plan.temperatures) > 1
    if drafters:
        table.add_column("drafter", no_wrap=True)
    if temperatures:
        table.add_column("T", justify="right")
    trees = _trees(report.plan)
    if trees:
        table.add_column("tree", justify="right")
    for name in ("batch", "K", "ratio", "95%", "decode", "predicted", "tau", "alpha", "drafted", "tok/s"):
        table.add_column(name, justify="right")
    best = {(b.quantization, b.drafter, b.temperature, b.batch, b.tree_nodes, b.k) for b in report.best_k}
    for p in points:
        head = [*([p.drafter] if drafters else []), *([f"{p.temperature:g}"] if temperatures else [])]
        head += [_tree(p.tree_nodes)] if trees else []
        if p.failed:
            cells = ["failed", *[NO_VALUE] * 7]
        else:
            cells = [
                number(p.ratio, 2, "x"), span(p.interval), number(p.decode_ratio, 2, "x"), number(p.predicted, 2, "x"),
                number(p.mean_acceptance_length), number(p.alpha), share(p.drafted_share),
                number(p.tokens_per_second, 1),
            ]  # fmt: skip
        here = (p.quantization, p.drafter, p.temperature, p.batch, p.tree_nodes, p.k)
        table.add_row(*map(Text, [*head, str(p.batch), str(p.k), *cells]), style="bold" if here in best else "")
    return table


def _curves(report: Any) -> list[Table]:
    """Milliseconds; one table for the target's forwards and one for the drafts."""
    found = []
    if report.verify_curves:
        curve = next(iter(report.verify_curves.values()))
        shown = _spread(list(curve.widths))
        title = f"t_verify(B, w), ms: one target forward behind {curve.context} tokens, median of {curve.times[0].n}"
        table = wide_table(title)
        table.add_column("weights")
        table.add_column("batch", justify="right")
        for width in shown:
            table.add_column(f"w={width}", justify="right")
        for (q, batch), c in report.verify_curves.items():
            cells = (number(None if (s := c.seconds(w)) is None else s * 1e3, 1) for w in shown)
            table.add_row(q, str(batch), *cells)
        found.append(table)
    if report.draft_curves:
        table = wide_table("t_draft(B), ms for each drafted token")
        for name in ("weights", "drafter", *(["tree"] if _trees(report.plan) else [])):
            table.add_column(name)
        for name in ("batch", "median", "lowest to highest", "n"):
            table.add_column(name, justify="right")
        for (q, drafter, batch, nodes), c in report.draft_curves.items():
            low, high = (s * 1e3 / c.k for s in (c.step.low_s, c.step.high_s))
            table.add_row(
                q,
                drafter,
                *([_tree(nodes)] if _trees(report.plan) else []),
                str(batch),
                number(c.per_token_s * 1e3, 3),
                f"{low:.3f} – {high:.3f}",
                str(c.step.n),
            )
        found.append(table)
    return found


def _spread(widths: list[int]) -> list[int]:
    """At most so many, the first and the last among them."""
    if len(widths) <= SHOWN_WIDTHS:
        return widths
    steps = SHOWN_WIDTHS - 1
    return sorted({widths[round(i * (len(widths) - 1) / steps)] for i in range(steps + 1)})


def _best(report: Any) -> Table:
    table = wide_table("best K for each batch")
    trees = _trees(report.plan)
    for name in ("weights", "drafter", "T", *(["tree"] if trees else [])):
        table.add_column(name)
    for name in ("batch", "K", "ratio", "95%", "predicted K", "predicted"):
        table.add_column(name, justify="right")
    for b in report.best_k:
        use = str(b.k) if b.k else f"0 (next: {b.at_k})"
        predicted = NO_VALUE if b.predicted_k is None else str(b.predicted_k)
        table.add_row(
            b.quantization, b.drafter, f"{b.temperature:g}", *([_tree(b.tree_nodes)] if trees else []), str(b.batch),
            use, number(b.ratio, 2, "x"), span(b.interval), predicted, number(b.predicted, 2, "x"),
        )  # fmt: skip
    return table


def _trade_off(report: Any) -> Table:
    table = wide_table("what quantizing gives, at the smallest batch")
    table.add_column("weights")
    for name in ("step reads", "load took", "plain tok/s", "of none", "95%", "speculative", "alpha", "tau"):
        table.add_column(name, justify="right")
    for row in report.quantization:
        first = row.acceptance[0] if row.acceptance else None
        tree = "" if row.best_tree_nodes is None else f", tree {_tree(row.best_tree_nodes)}"
        best = NO_VALUE if row.best_ratio is None else f"{row.best_ratio:.2f}x at K={row.best_k}{tree}"
        table.add_row(
            row.quantization, _megabytes(row.weight_bytes), _megabytes(row.resident_bytes),
            number(row.tokens_per_second, 1), number(row.plain_ratio, 2, "x"), span(row.plain_interval), best,
            _change(first.change.before, first.change.after) if first else NO_VALUE,
            _change(first.tau_before, first.tau) if first else NO_VALUE,
        )  # fmt: skip
    return table


def _drift(report: Any) -> Table:
    title = "how far from none: over none's own greedy answers, each token read behind the same text"
    table = wide_table(title)
    table.add_column("weights")
    for name in ("tokens", "KL mean", "KL P95", "same choice", "95%", "texts that part", "at token", "margin"):
        table.add_column(name, justify="right")
    for row in report.quantization:
        if (d := row.divergence) is not None:
            first, interval = d["first_differences"], d["greedy_agreement_interval"]
            table.add_row(
                row.quantization, str(d["positions"]), number(d["kl_mean"], 4), number(d["kl_p95"], 4),
                f"{d['greedy_agreement']:.1%}",
                NO_VALUE if interval is None else f"{interval[0]:.1%} – {interval[1]:.1%}",
                f"{first['texts']} of {d['texts']}", number(first["median_position"], 0),
                number(first["median_margin"], 3),
            )  # fmt: skip
    return table


def _trees(plan: Any) -> bool:
    """Was a tree size asked for?"""
    return any(nodes is not None for nodes in plan.tree_nodes)


def _tree(nodes: int | None) -> str:
    return "auto" if nodes is None else str(nodes) if nodes else "none"


def _place(report: Any, found: Any) -> str:
    """Of a break-even batch, only what the sweep varies."""
    plan = report.plan
    parts = [
        found.quantization if len(plan.quantizations) > 1 else "",
        found.drafter if len(plan.drafters) > 1 else "",
        f"T={found.temperature:g}" if len(plan.temperatures) > 1 else "",
        f"tree {_tree(found.tree_nodes)}" if len(plan.tree_nodes) > 1 else "",
    ]
    return ", ".join(p for p in parts if p)


def _change(before: float | None, after: float | None) -> str:
    return f"{number(before)} → {number(after)}"


def _megabytes(size: int | None) -> str:
    return NO_VALUE if size is None else f"{size / 1e6:.0f} MB"


def _count(many: int, what: str) -> str:
    return f"{many} {what}" if many == 1 else f"{many} {what}s"
