"""`specscope sweep`: K x drafter x tree size x temperature x batch x quantization, measured point by point and gone on
with."""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer

from app import command, terminal, terminal_sweep
from app.options import (
    CategoryOption,
    ControlOption,
    DataOption,
    DeviceOption,
    DraftOption,
    DtypeOption,
    HeadOption,
    JsonOption,
    PairOption,
    SuiteOption,
    TargetOption,
    TrustOption,
)

T = TypeVar("T")


def sweep(
    pair: PairOption = None,
    target: TargetOption = None,
    draft: DraftOption = None,
    head: HeadOption = None,
    k: Annotated[str, typer.Option("--k", metavar="LIST", help="Draft tokens a step, as 1,3,5.")] = "1,3,5,7",
    drafter: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Drafting methods. Default: model with a draft, else prompt_lookup."),
    ] = None,
    tree_nodes: Annotated[
        str | None,
        typer.Option(
            "--tree-nodes",
            metavar="LIST",
            help="Tokens of a drafted tree, as 0,16,32; 0 drafts chains. Default: what suits the drafter.",
        ),
    ] = None,
    k_control: ControlOption = "fixed",
    temperature: Annotated[str, typer.Option(metavar="LIST", help="0 is greedy; as 0,0.8.")] = "0",
    batch: Annotated[str, typer.Option(metavar="LIST", help="Prompts decoded together, as 1,4,16.")] = "1",
    quantization: Annotated[
        str,
        typer.Option(metavar="LIST", help="none, int8, int4; with none and another the trade-off is measured too."),
    ] = "none",
    suite: SuiteOption = "default",
    data: DataOption = None,
    category: CategoryOption = None,
    verifier: Annotated[str, typer.Option(help="rejection, block or match; typical is LOSSY.")] = "rejection",
    max_new_tokens: Annotated[
        int, typer.Option("--max-new-tokens", help="Every arm emits exactly so many tokens for each prompt.")
    ] = 48,
    repeats: Annotated[int, typer.Option(help="Times each prompt is decoded both ways, at each point.")] = 1,
    rounds: Annotated[int, typer.Option(help="Times each width of a cost curve is measured.")] = 7,
    seed: Annotated[int, typer.Option(help="Of sampled points.")] = 0,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Measure all anew; default: go on where the same sweep was stopped.")
    ] = False,
    save: Annotated[
        bool, typer.Option("--save/--no-save", help="Keep what is measured, point by point; see `specscope runs`.")
    ] = True,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "auto",
    trust_remote_code: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Which K, which drafter, up to which batch, and what does quantizing cost? Every point of the grid is plain
    against speculative decoding of the same prompts, interleaved; beside it stands what theory predicts from measured
    cost curves. Ctrl-C ends it at a point; the same command goes on from there."""
    with command.sentences():
        import engine
        from engine.bench.suites import load_prompts, load_suite, of_categories
        from engine.bench.sweep import sweep as run_sweep
        from engine.bench.sweep_plan import SweepPlan

        if pair is not None and target is not None:
            raise engine.EngineError("give --pair or --target, not both")
        source = target or pair or "embedded"
        plan = SweepPlan(
            ks=parse("--k", k, int, "whole numbers"), drafters=_drafters(drafter, source, draft),
            temperatures=parse("--temperature", temperature, float, "numbers"),
            batches=parse("--batch", batch, int, "whole numbers"),
            quantizations=parse("--quantization", quantization, str, "words"), max_new_tokens=max_new_tokens,
            repeats=repeats, verifier=verifier, seed=seed, rounds=rounds, k_control=k_control,
            tree_nodes=(None,) if tree_nodes is None else parse("--tree-nodes", tree_nodes, int, "whole numbers"),
        )  # fmt: skip
        prompts = of_categories(load_prompts(data) if data else load_suite(suite), category)
        heads = command.heads(head)
        named: dict[str, Any] = {"heads": heads} if heads else {}
        store = command.run_store() if save else None
        terminal_sweep.announce(plan, len(prompts))

        def load(name: str) -> Any:
            return engine.load_pair(
                source, draft=draft, device=device, dtype=dtype, quantization=name,
                trust_remote_code=trust_remote_code, **named,
            )  # fmt: skip

        with terminal.weights_progress() as bars:  # what is not here yet is fetched with a bar; loads show none
            for name in _sources(source, draft):
                engine.weights.resolve(name, progress=bars, trust_remote_code=trust_remote_code)
        with terminal.progress_bar("measuring") as step, command.interrupt() as cancel:
            report = run_sweep(
                load, prompts, plan, store=store, label=str(data.name if data else suite), fresh=fresh, progress=step,
                sources={"source": source, "draft_source": draft, **named}, weights=lambda: fingerprints(source, draft),
                cancel=cancel,
            )  # fmt: skip
        if as_json:
            command.print_json(report.as_dict())
        else:
            terminal_sweep.show(report)
        terminal_sweep.ending(report, kept=store is not None)
        command.exit_if(cancel)


def parse(option: str, text: str, kind: Callable[[str], T], what: str) -> tuple[T, ...]:
    """A comma-separated list: duplicates dropped, order kept. Raises EngineError for anything else."""
    from engine import EngineError

    parts = [part.strip() for part in text.split(",")]
    try:
        if not all(parts):
            raise ValueError
        return tuple(dict.fromkeys(kind(part) for part in parts))
    except ValueError:
        raise EngineError(f"{option} takes {what} with commas between them, not {text!r}") from None


def fingerprints(source: str, draft: str | None) -> list[str | None]:
    """Of the target's weights and the draft's, which make a resumed sweep the same one."""
    from engine import weights
    from engine.bench.sweep_plan import fingerprint

    return [fingerprint(weights.path(name)) for name in _sources(source, draft)]


def _sources(source: str, draft: str | None) -> list[str]:
    from engine.weights import PRESETS

    preset = PRESETS.get(source)
    own = draft or (preset.draft if preset else None)
    return [preset.target if preset else source, *([own] if own else [])]


def _drafters(named: str | None, source: str, draft: str | None) -> tuple[str, ...]:
    if named is not None:
        return parse("--drafter", named, str, "names")
    return ("model",) if len(_sources(source, draft)) > 1 else ("prompt_lookup",)
