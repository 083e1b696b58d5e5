"""The `specscope` command. Results go to stdout, everything else to stderr; bad input is one sentence and exit 2."""

import io
import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from app import (
    cli_bench_ttft,
    cli_claims,
    cli_cost,
    cli_models,
    cli_peers,
    cli_prices,
    cli_project,
    cli_runs,
    cli_sweep,
    cli_tco,
    cli_train,
    command,
    terminal,
    terminal_bench,
    terminal_tree,
)
from app.options import (
    CategoryOption,
    ControlOption,
    DataOption,
    DeviceOption,
    DrafterOption,
    DraftOption,
    DtypeOption,
    HeadOption,
    JsonOption,
    KOption,
    PairOption,
    QuantizationOption,
    SaveOption,
    SeedOption,
    SuiteOption,
    TargetOption,
    TemperatureOption,
    ThresholdOption,
    TokensOption,
    TreeOption,
    TrustOption,
    VerifierOption,
)

app = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None,
    help="See, tune and price speculative decoding.",
)  # fmt: skip
app.add_typer(cli_models.app, name="models")
app.add_typer(cli_runs.app, name="runs")
app.add_typer(cli_prices.app, name="prices")
app.add_typer(cli_claims.app, name="claims")


@app.command()
def generate(
    context: typer.Context,
    prompt: Annotated[str, typer.Argument(help="The prompt; - reads it from standard input.")],
    pair: PairOption = None,
    target: TargetOption = None,
    draft: DraftOption = None,
    head: HeadOption = None,
    drafter: DrafterOption = None,
    verifier: VerifierOption = "rejection",
    k: KOption = 5,
    tree_nodes: TreeOption = None,
    k_control: ControlOption = "fixed",
    confidence_threshold: ThresholdOption = 0.4,
    temperature: TemperatureOption = 0.0,
    top_k: Annotated[int, typer.Option(help="Keep the k likeliest tokens; 0 is off.")] = 0,
    top_p: Annotated[float, typer.Option(help="Keep the likeliest tokens up to this share; 1 is off.")] = 1.0,
    min_p: Annotated[float, typer.Option(help="Drop tokens below this share of the likeliest; 0 is off.")] = 0.0,
    repetition_penalty: Annotated[float, typer.Option(help="Above 1 discourages repeats; 1 is off.")] = 1.0,
    max_new_tokens: TokensOption = 128,
    stop: Annotated[list[str] | None, typer.Option(help="End at this string; may be given several times.")] = None,
    seed: SeedOption = None,
    ignore_eos: Annotated[bool, typer.Option("--ignore-eos", help="Go on past the end-of-sequence token.")] = False,
    chat: Annotated[
        bool, typer.Option("--chat/--raw", help="As a user turn of the chat template, or as it is.")
    ] = True,
    alternatives: Annotated[
        int, typer.Option(min=0, max=1000, help="Record this many likeliest tokens at each position.")
    ] = 0,
    branches: Annotated[
        bool, typer.Option("--branches", help="A block for each step, drafted trees as indented branches.")
    ] = False,
    trace: Annotated[Path | None, typer.Option(help="Write the whole trace to this file as JSON.")] = None,
    save: SaveOption = False,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "auto",
    quantization: QuantizationOption = None,
    trust_remote_code: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Decode one prompt with a draft and show what was accepted, rejected, recovered and added."""
    with command.sentences():
        import engine

        settings = engine.DecodeSettings(
            k=k, max_new_tokens=max_new_tokens, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p,
            repetition_penalty=repetition_penalty, stop=tuple(stop or ()), seed=seed, ignore_eos=ignore_eos,
            tree_nodes=tree_nodes, k_control=k_control, confidence_threshold=confidence_threshold,
        )  # fmt: skip
        command.check_writable(trace)
        if branches and as_json:
            raise engine.EngineError("give --branches or --json, not both; the JSON's proposals name their parents")
        if save:
            command.run_store()  # one that cannot be opened is told before the work
        if prompt == "-" and sys.stdin is None:
            raise engine.EngineError("there is no standard input to read the prompt from; give it as an argument")
        text = sys.stdin.read() if prompt == "-" else prompt
        heads = command.heads(head)
        loaded = command.load(pair, target, draft, device, dtype, trust_remote_code, quantization, heads)
        name = command.drafter(drafter, loaded)
        command.check_used(context, name, loaded, k_control, heads)
        terminal.show_lossy(verifier)
        with command.interrupt() as cancel:
            run = engine.stream(loaded, text, settings, name, verifier, cancel, alternatives, chat)
            result = terminal_tree.show_blocks(run) if branches else terminal.show_steps(run, to_stdout=not as_json)
        document = {
            "schema": "specscope.generation",
            "text": result.text,
            "token_ids": result.token_ids,
            "finish_reason": result.finish_reason,
            "stats": result.stats.as_dict(),
            "environment": result.trace.environment,
        }
        if as_json:
            command.print_json({**document, "trace": result.trace.as_dict()})
        else:
            terminal.show_numbers(result)
        if save:
            command.keep(
                "generate", label=text, settings={**result.trace.settings, "drafter": name, "verifier": verifier},
                pair=result.trace.pair, environment=result.trace.environment, complete=not cancel.is_set(),
                stats=result.stats.as_dict(), document=document, traces={"trace": result.trace},
            )  # fmt: skip
        if trace:
            command.write(trace, result.trace.to_json(indent=1))
        command.exit_if(cancel)


@app.command()
def bench(
    context: typer.Context,
    pair: PairOption = None,
    target: TargetOption = None,
    draft: DraftOption = None,
    head: HeadOption = None,
    drafter: DrafterOption = None,
    verifier: VerifierOption = "rejection",
    suite: SuiteOption = "default",
    data: DataOption = None,
    category: CategoryOption = None,
    k: KOption = 5,
    tree_nodes: TreeOption = None,
    k_control: ControlOption = "fixed",
    confidence_threshold: ThresholdOption = 0.4,
    temperature: TemperatureOption = 0.0,
    max_new_tokens: TokensOption = 64,
    repeats: Annotated[int, typer.Option(min=1, help="Times each prompt is decoded, both ways.")] = 1,
    seed: SeedOption = None,
    shared_prefix: Annotated[str | None, typer.Option(metavar="LIST", help=cli_bench_ttft.HELP)] = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="Where a step's time goes: draft, verify, attention, linear, sampling.")
    ] = False,
    save: SaveOption = True,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "auto",
    quantization: QuantizationOption = None,
    trust_remote_code: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Plain against speculative decoding, interleaved, over a prompt suite; one line a category."""
    with command.sentences():
        import engine
        from engine.bench.suites import load_prompts, load_suite, of_categories
        from engine.environment import environment

        settings = engine.DecodeSettings(
            k=k, max_new_tokens=max_new_tokens, temperature=temperature, seed=seed, tree_nodes=tree_nodes,
            k_control=k_control, confidence_threshold=confidence_threshold,
        )  # fmt: skip
        prompts = of_categories(load_prompts(data) if data else load_suite(suite), category)
        if profile and shared_prefix is not None:
            raise engine.EngineError("--profile looks at a suite's steps; give it without --shared-prefix")
        lengths = cli_bench_ttft.lengths_of(shared_prefix) if shared_prefix is not None else ()
        heads = command.heads(head)
        loaded = command.load(pair, target, draft, device, dtype, trust_remote_code, quantization, heads)
        name = command.drafter(drafter, loaded)
        command.check_used(context, name, loaded, k_control, heads)
        if lengths:
            cli_bench_ttft.shared_prefix(
                loaded, lengths, prompts if data or category else None, settings, name, verifier, repeats, save,
                as_json,
            )  # fmt: skip
            return
        terminal.show_lossy(verifier)
        started_at = datetime.now(UTC).isoformat(timespec="seconds")
        with terminal.progress_bar("decoding") as step, command.interrupt() as cancel:
            result = engine.compare(loaded, prompts, settings, name, verifier, repeats, step, cancel)
        if not as_json:
            terminal_bench.show_comparison(result, len(prompts) * repeats)
        parts = command.profiled(loaded, prompts, settings, result, verifier) if profile and result.complete else []
        document = {
            "schema": "specscope.bench",
            "arms": [arm.as_dict() for arm in result.arms],
            "baseline": "plain",
            "verdict": result.verdict,
            "complete": result.complete,
            "started_at": started_at,
            "verifier": verifier,
            "settings": result.settings.as_dict(),
            "limit": result.limit and result.limit.as_dict(),
            "energy": result.energy,
            "profile": [part.as_dict() for part in parts],
            "pair": loaded.describe(),
            "environment": environment(loaded.device),
        }
        if as_json:
            command.print_json(document)
        elif parts:
            terminal_bench.show_profile(parts)
        if save and result.samples:
            how = {"drafter": result.drafter, "verifier": verifier, "repeats": repeats}
            command.keep(
                "bench", label=str(data.name if data else suite), settings={**document["settings"], **how},
                pair=document["pair"], environment=document["environment"], complete=result.complete,
                stats={"verdict": result.verdict, **result.speculative.as_dict()}, document=document,
                traces=command.traces_of(result),
            )  # fmt: skip
        command.exit_if(cancel)


@app.command("app")
def serve(
    pair: PairOption = None,
    target: TargetOption = None,
    draft: DraftOption = None,
    head: HeadOption = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 lets others on your network in.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port; default: the first free one from 7860.")
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = False,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "auto",
    quantization: QuantizationOption = None,
    trust_remote_code: TrustOption = False,
) -> None:
    """Serve the explorer page. Ctrl-C ends it."""
    with command.sentences():
        load = partial(
            command.load, pair, target, draft, device, dtype, trust_remote_code, heads=command.heads(head)
        )  # fmt: skip
        from app import own_prices

        prices = own_prices.load()  # before the weights: what is wrong with the user's file is told at once
        loaded = load(quantization or command.page_quantization(device, dtype))
        from app.main import launch

        choose = load if command.can_quantize(device, dtype) else None
        page, url = launch(
            loaded, host=host, port=port, open_browser=open_browser, prevent_thread_lock=True, prices=prices,
            load=choose,
        )  # fmt: skip
        terminal.note(f"specscope runs {loaded.name} on {loaded.device}, {loaded.precision}, at {url} (Ctrl-C ends it)")
        page.block_thread()


app.command()(cli_peers.peers)
app.command()(cli_project.project)
app.command()(cli_sweep.sweep)
app.command()(cli_cost.cost)
app.command()(cli_tco.tco)
app.command()(cli_train.train_head)


def main() -> None:
    if sys.stdout is None:
        sys.exit("error: standard output is closed, so there is nowhere to print the result")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show a letter gets its code, not a traceback.
            stream.reconfigure(errors="backslashreplace")
    app()


if __name__ == "__main__":
    main()
