"""`specscope peers`: the same prompts, token counts and machine, decoded by us and by other engines, in one run."""

from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from app import command, terminal
from app.options import (
    CategoryOption,
    DataOption,
    DeviceOption,
    HeadOption,
    JsonOption,
    PairOption,
    SaveOption,
    SuiteOption,
    TargetOption,
    TrustOption,
)

ALL = "all"
GREEDY = "peers run greedily, past the end of sequence, to exactly the number of tokens asked for"


def peers(
    pair: PairOption = None,
    target: TargetOption = None,
    draft: Annotated[
        str | None, typer.Option(help="Draft model; assisted generation and flashspec's composite need one.")
    ] = None,
    drafter: Annotated[
        list[str] | None, typer.Option(help="Our own drafting method; may be given several times. Default: the pair's.")
    ] = None,
    quantization: Annotated[
        list[str] | None,
        typer.Option(help="Our own weights: none, int8 or int4; may be given several times. Default: none and int8."),
    ] = None,
    suite: SuiteOption = "default",
    data: DataOption = None,
    category: CategoryOption = None,
    max_new_tokens: Annotated[
        int, typer.Option("--max-new-tokens", min=1, help="Every arm emits exactly so many tokens for each prompt.")
    ] = 64,
    repeats: Annotated[int, typer.Option(min=1, help="Times each prompt is decoded by each arm.")] = 1,
    k: Annotated[int, typer.Option("--k", min=1, max=64, help="Draft tokens a step, for every arm that drafts.")] = 5,
    k_control: Annotated[
        str | None,
        typer.Option(help="How our own arms choose K. Default: cost for composite, with K up to 16; else fixed."),
    ] = None,
    head: HeadOption = None,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads of every arm. Default: torch's own.")] = None,
    temperature: Annotated[float, typer.Option(min=0.0, help="Peers run greedily; above 0 this is noted.")] = 0.0,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="ARM", help="Only this arm or engine, and the baseline; may be given several times."),
    ] = None,
    skip: Annotated[
        list[str] | None, typer.Option(metavar="ARM", help="Not this arm or engine; may be given several times.")
    ] = None,
    vllm_url: Annotated[
        str | None, typer.Option("--vllm-url", help="A running vLLM server, for example http://localhost:8000.")
    ] = None,
    save: SaveOption = True,
    device: DeviceOption = "auto",
    dtype: Annotated[
        str, typer.Option(help="Of our arms and transformers': auto (float32 on CPU, bfloat16 on CUDA) or a name.")
    ] = "auto",
    trust_remote_code: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Ours beside transformers, llama.cpp, OpenVINO GenAI, flashspec and a vLLM server: the same prompt ids and token
    counts, greedy, interleaved. Absent engines are skipped with a sentence; get them with the extras peers-llama,
    peers-openvino and peers-flashspec. All arms are loaded at once and each engine holds a copy of the weights, so a
    large model needs memory for several: --only and --skip choose."""
    with command.sentences():
        import engine
        from engine.bench import peers as room
        from engine.bench.suites import load_prompts, load_suite, of_categories
        from engine.environment import environment

        if pair is not None and target is not None:
            raise engine.EngineError("give --pair or --target, not both")
        prompts = of_categories(load_prompts(data) if data else load_suite(suite), category)
        with terminal.weights_progress() as progress:
            setup = room.make_setup(
                target or pair or "embedded", draft=draft, device=device, dtype=dtype, k=k, vllm_url=vllm_url,
                quantizations=tuple(quantization or ("none", "int8")), drafters=tuple(drafter or ()),
                trust_remote_code=trust_remote_code, progress=progress, threads=threads, k_control=k_control,
                heads=command.heads(head),
            )  # fmt: skip
            arms, left = room.choose(room.all_arms(setup), only or (), skip or ())
            encoded = room.encode_prompts(setup, prompts)
        notes = [GREEDY]
        if temperature > 0:
            notes.append(
                f"--temperature {temperature:g} is left aside: engines that sample cannot be held side by side"
            )
        started_at = datetime.now(UTC).isoformat(timespec="seconds")
        with terminal.progress_bar("decoding") as step, command.interrupt() as cancel:
            report = room.measure_peers(
                arms,
                encoded,
                max_new_tokens,
                room.BASELINE,
                repeats,
                step,
                _loading if not as_json else None,
                cancel,
                device=setup.device,
            )
        skipped = [*report.skipped, *left]
        where = environment(str(setup.device))
        document: dict[str, Any] = {
            "schema": "specscope.peers",
            "arms": [arm.as_dict() for arm in report.arms],
            "skipped": [{"name": s.name, "reason": s.reason} for s in skipped],
            "baseline": report.baseline,
            "beside": report.beside,
            "bytes_per_second": {str(n): speed for n, speed in report.bytes_per_second.items()},
            "notes": notes,
            "complete": report.complete,
            "started_at": started_at,
            "settings": {
                "k": k, "ours": room.our_settings(arms), "max_new_tokens": max_new_tokens, "repeats": repeats,
                "temperature": 0.0, "ignore_eos": True,
                "prompts": len(encoded), "dtype": setup.dtype,
            },
            "pair": {"target": setup.target_source, "draft": setup.draft_source},
            "environment": {**where, "versions": {**where["versions"], **room.peer_versions()}},
        }  # fmt: skip
        if as_json:
            command.print_json(document)
        else:
            show_peers(report, report.skipped, notes, len(encoded) * repeats)
        if save and report.samples:
            command.keep(
                "peers", label=str(data.name if data else suite), settings=document["settings"], pair=document["pair"],
                environment=document["environment"], complete=report.complete,
                stats={"beside": report.beside}, document=document,
            )  # fmt: skip
        command.exit_if(cancel)


def _loading(name: str) -> None:
    terminal.note(f"loading {name}")


def show_peers(report: Any, skipped: list[Any], notes: list[str], wanted: int) -> None:
    """A table for the whole suite, one of ratios by category where there are several, and what did not run."""
    if report.samples:
        terminal.out.print(_whole(report))
        if len(report.categories) > 2:
            terminal.out.print(_by_category(report))
        terminal.note("same: ids up to the first one that differs from the baseline's; near ties part other weights")
        if report.bytes_per_second:
            terminal.note(
                "of limit: tokens/s over what the memory allows at one token a step, measured here over as many bytes "
                "as the step's weights; a draft may pass it"
            )
    else:
        terminal.note("stopped before the first prompt was finished: nothing to report")
    if report.beside:
        terminal.out.print(Text(report.beside))
    for arm in report.arms:
        if arm.category == ALL:
            notes = [*notes, *(f"{arm.name}: {note}" for note in arm.stats["notes"])]
    for entry in skipped:
        terminal.note(f"skipped {entry.name}: {entry.reason}")
    for message in notes:
        terminal.note(f"note: {message}")
    if not report.complete:
        terminal.note(f"stopped after {len(report.samples)} of {wanted} rounds; the table holds the finished ones")


def _whole(report: Any) -> Table:
    title = f"measured here, {report.max_new_tokens} tokens a prompt, arms in turns; ratio to {report.baseline}"
    table = _plain_table(title)
    table.add_column("weights", no_wrap=True)
    for name in ("tok/s", "ratio", "95%", "TTFT s", "same", "of limit"):
        table.add_column(name, justify="right", no_wrap=True)
    for arm in report.arms:
        if arm.category == ALL:
            table.add_row(
                Text(arm.name), Text(arm.weights), terminal.number(arm.output_tokens_per_second, 1),
                terminal.number(arm.ratio, 2), terminal.span(arm.interval), terminal.number(arm.stats["ttft_s"], 2),
                terminal.share(arm.stats["share_of_ids_before_first_difference"]), terminal.share(_of_limit(arm)),
                style="bold" if arm.name == report.baseline else "",
            )  # fmt: skip
    return table


def _of_limit(arm: Any) -> float | None:
    speed, limit = arm.output_tokens_per_second, arm.limit_tokens_per_second
    return speed / limit if speed and limit else None


def _by_category(report: Any) -> Table:
    table = _plain_table(f"ratio to {report.baseline}, by category")
    categories = [c for c in report.categories if c != ALL]
    for category in categories:
        table.add_column(Text(category), justify="right")
    for label in report.labels:
        ratios = (terminal.number(report.arm(label.name, c).ratio, 2) for c in categories)
        table.add_row(Text(label.name), *ratios)
    return table


def _plain_table(title: str) -> Table:
    """Without lines between columns: all of it fits into 80 letters."""
    table = Table(
        title=title, title_style="dim", title_justify="left", box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True
    )
    table.add_column("arm", no_wrap=True)
    return table
