"""`specscope train-head`: an EAGLE or Medusa head, or the seed of recycling, made of what a target itself says."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from app import command, terminal, terminal_train
from app.cli_sweep import parse
from app.options import DeviceOption, DtypeOption, JsonOption, TrustOption


def train_head(
    target: Annotated[str, typer.Option(help="What it is for: a preset, a hub id, a folder or a .gguf file.")],
    method: Annotated[str, typer.Option(help="eagle, medusa or recycling.")],
    out: Annotated[Path, typer.Option(help="Folder for the head; a stopped training is gone on with there.")],
    data: Annotated[
        list[Path] | None,
        typer.Option(help="Dialogues as .jsonl (prompt_ids, response_ids) or plain text; may be given several times."),
    ] = None,
    self_generate: Annotated[
        int | None, typer.Option(min=1, help="Let the target write so many dialogues first, into the folder.")
    ] = None,
    form: Annotated[str, typer.Option(help="Of an EAGLE head: eagle3 or eagle.")] = "eagle3",
    taps: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Layers whose input an EAGLE-3 head reads, as 2,15,27."),
    ] = None,
    draft_vocab: Annotated[
        int | None,
        typer.Option(min=0, help="Ids that the head can guess, the data's most frequent; 0 is all. Default: 16384."),
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the data.")] = 8,
    unroll: Annotated[int, typer.Option(min=1, help="Positions ahead that are trained; heads, for Medusa.")] = 4,
    layers: Annotated[int, typer.Option(min=1, help="Residual blocks of each Medusa head.")] = 1,
    lr: Annotated[float, typer.Option(help="The largest learning rate.")] = 1e-3,
    regress: Annotated[float, typer.Option(help="Weight of coming near the target's next hidden state.")] = 0.0,
    batch_tokens: Annotated[int, typer.Option(min=16, help="Tokens a step.")] = 2048,
    minutes: Annotated[float | None, typer.Option(help="Stop after so many; the same command goes on.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the first weights, the order and what is held out.")] = 0,
    fresh: Annotated[bool, typer.Option("--fresh/--resume", help="Begin anew, or go on where it was stopped.")] = False,
    start_from: Annotated[
        Path | None, typer.Option(help="Begin as the head in this folder; its draft vocabulary may differ.")
    ] = None,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "auto",
    trust_remote_code: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train a draft head. Ctrl-C and --minutes leave the best one so far and a checkpoint; the same command goes on.

    recycling is no training: its table takes one pass over the data, and a stopped one begins again."""
    with command.sentences():
        from engine.errors import EngineError
        from engine.train import TrainSettings, train_head, train_table
        from engine.train.target import load_target

        table = method == "recycling"
        settings = TrainSettings(
            method="eagle" if table else method, form=form, draft_vocab=draft_vocab, epochs=epochs, unroll=unroll,
            layers=layers, lr=lr, regress=regress, batch_tokens=batch_tokens, seed=seed,
            taps=None if taps is None else parse("--taps", taps, int, "numbers of layers"),
        )  # fmt: skip
        files = list(data or [])
        if not files and self_generate is None:
            raise EngineError("there is nothing to train on; give --data FILE, or --self-generate N dialogues")
        for file in files:
            if not file.is_file():
                raise EngineError(f"{file} is not a file; give dialogues as .jsonl or plain text for --data")
        load: dict[str, Any] = {"device": device, "dtype": dtype, "trust": trust_remote_code}
        with command.interrupt() as cancel:
            if self_generate is not None:
                files.append(_written(target, self_generate, out, seed, fresh, cancel, load))
            if cancel.is_set():
                terminal.note("stopped while the target was writing; run the same command to go on")
                raise typer.Exit(command.INTERRUPTED)
            with terminal.weights_progress() as progress:
                pair = load_target(target, progress=progress, **load)
            if table:
                with terminal.progress_bar("reading") as read:
                    made = train_table(pair, files, out, seed=seed, command=_command(), cancel=cancel, watch=read)
                _told(made, out, as_json, cancel)
                return
            with terminal_train.training_bar() as watch:
                made = train_head(
                    pair, files, out, settings, minutes=minutes, fresh=fresh, start=start_from, command=_command(),
                    cancel=cancel, watch=watch,
                )  # fmt: skip
        _told(made, out, as_json, cancel)


def _told(made: dict[str, Any], out: Path, as_json: bool, cancel: Any) -> None:
    if as_json:
        command.print_json(made)
    else:
        terminal_train.show(made, out)
    if not made["complete"]:
        terminal.note("stopped before its end; run the same command to go on")
    command.exit_if(cancel)


def _written(target: str, count: int, out: Path, seed: int, fresh: bool, cancel: Any, load: dict[str, Any]) -> Path:
    """The file of the target's own dialogues, written to its end unless cancelled."""
    from engine.train.self_generate import self_generate
    from engine.train.target import load_target

    out.mkdir(parents=True, exist_ok=True)
    file = out / "dialogues.jsonl"
    if fresh:
        file.unlink(missing_ok=True)
    with terminal.weights_progress() as progress:
        pair = load_target(target, progress=progress, fast=True, **load)
    with terminal.progress_bar("the target writes dialogues") as step:
        self_generate(pair, count, file, seed, cancel, step)
    return file


def _command() -> str:
    return shlex.join(["specscope", *sys.argv[1:]])
