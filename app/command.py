"""What every command needs: weights with a bar, sentences for faults, Ctrl-C, JSON, files."""

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from app import terminal

BAD_INPUT = 2
INTERRUPTED = 130


def load(pair: str | None, target: str | None, draft: str | None, device: str, dtype: str, trust: bool) -> Any:
    import engine

    if pair is not None and target is not None:
        raise engine.EngineError("give --pair or --target, not both")
    with terminal.weights_progress() as progress:
        return engine.load_pair(
            (pair or "embedded") if target is None else None, target=target, draft=draft, device=device, dtype=dtype,
            trust_remote_code=trust, progress=progress,
        )  # fmt: skip


def drafter(name: str | None, pair: Any) -> str:
    return name or ("model" if pair.draft is not None else "prompt_lookup")


def check_writable(path: Path | None) -> None:
    """Before the work is done, not after it."""
    from engine import EngineError

    if path is None:
        return
    if not path.parent.is_dir():
        raise EngineError(f"the folder {path.parent} does not exist; create it or give another file for --trace")
    if path.is_dir():
        raise EngineError(f"{path} is a folder; give a file for --trace")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise EngineError(f"{path} cannot be written; give another file for --trace")


def write(path: Path, text: str) -> None:
    from engine import EngineError

    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise EngineError(f"{path} could not be written: {error.strerror or error}; the result is whole") from None


def print_json(document: dict[str, Any]) -> None:
    typer.echo(json.dumps(document, ensure_ascii=True, allow_nan=False))


def exit_if(cancel: threading.Event) -> None:
    if cancel.is_set():
        raise typer.Exit(INTERRUPTED)


@contextmanager
def sentences() -> Iterator[None]:
    """Anything that is the user's to mend is one sentence and exit code 2; a fault of ours keeps its traceback."""
    from engine.errors import EngineError
    from pricing import PriceError

    try:
        yield
    except BrokenPipeError:
        raise
    except (EngineError, PriceError, OSError) as error:
        terminal.fail(" ".join(str(error).split()) or type(error).__name__)
        raise typer.Exit(BAD_INPUT) from None
    except KeyboardInterrupt:
        terminal.note("interrupted")
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def interrupt() -> Iterator[threading.Event]:
    """The first Ctrl-C ends the work at the next step and reports what was done; the second one ends it now."""
    cancel = threading.Event()
    previous: Callable[..., Any] | int | None = signal.getsignal(signal.SIGINT)

    def once(*_: Any) -> None:
        cancel.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, once)
    try:
        yield cancel
    finally:
        signal.signal(signal.SIGINT, previous)
