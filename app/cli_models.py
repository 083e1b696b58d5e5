"""`specscope models`: presets, and the weights that are here."""

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
