"""`specscope models`: presets, the weights that are here, and whether two models can be a pair."""

from typing import Annotated

import typer

from app import command, terminal
from app.options import JsonOption, TrustOption

app = typer.Typer(no_args_is_help=True, help="Where weights are, and how to get them.")


@app.command("list")
def list_models(as_json: JsonOption = False) -> None:
    """Presets and what is in the cache."""
    with command.sentences():
        from engine import weights

        entries = weights.list_models()
        if as_json:
            command.print_json({"schema": "specscope.models", "models": [terminal.model_row(e) for e in entries]})
        else:
            terminal.show_models(entries, weights.cache_dir())


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="A preset, a hub id, a folder or a .gguf file.")],
    trust_remote_code: TrustOption = False,
) -> None:
    """Get weights and make them ready, so that later starts are quick and need no network."""
    with command.sentences():
        from engine import weights

        with terminal.weights_progress() as progress:
            found = weights.fetch(name, progress=progress, trust_remote_code=trust_remote_code)
        typer.echo(found)


@app.command("path")
def model_path(name: Annotated[str, typer.Argument(help="A preset or a source that has been fetched.")]) -> None:
    """Print the folder that holds the weights."""
    with command.sentences():
        from engine import weights

        typer.echo(weights.path(name))


@app.command()
def check(
    target: Annotated[str, typer.Argument(help="A preset, a hub id, a folder or a .gguf file.")],
    draft: Annotated[str, typer.Argument(help="The same, for the draft.")],
    trust_remote_code: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Could the one draft for the other? Compares what their tokens say, and how many a word needs in each."""
    with command.sentences():
        from engine import check_vocabularies
        from engine.pair import load_tokenizer

        with terminal.weights_progress() as progress:
            tokenizers = [load_tokenizer(name, progress, trust_remote_code) for name in (target, draft)]
        report = check_vocabularies(*tokenizers)
        if as_json:
            command.print_json(
                {"schema": "specscope.vocabularies", "target": target, "draft": draft, **report.as_dict()}
            )
        else:
            terminal.show_vocabularies(report)
