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
LABEL = 80  # characters


def load(
    pair: str | None, target: str | None, draft: str | None, device: str, dtype: str, trust: bool,
    quantization: str | None = None, heads: dict[str, str] | None = None,
) -> Any:  # fmt: skip
    import engine

    if pair is not None and target is not None:
        raise engine.EngineError("give --pair or --target, not both")
    held: dict[str, Any] = {"heads": heads} if heads else {}
    with terminal.weights_progress() as progress:
        return engine.load_pair(
            (pair or "embedded") if target is None else None, target=target, draft=draft, device=device, dtype=dtype,
            quantization=quantization, trust_remote_code=trust, progress=progress, **held,
        )  # fmt: skip


def heads(given: list[str] | None) -> dict[str, str]:
    """--head METHOD=FOLDER as {method: folder}. Raises EngineError with one sentence."""
    from engine import EngineError
    from engine.pair import HEADS

    found: dict[str, str] = {}
    for text in given or ():
        method, separator, folder = text.partition("=")
        if not separator or method not in HEADS or not folder:
            raise EngineError(f"--head takes METHOD=FOLDER with one of {', '.join(HEADS)} as method, not {text!r}")
        if method in found:
            raise EngineError(f"--head names two folders for {method}; give one")
        if not Path(folder).is_dir():
            raise EngineError(
                f"the folder {folder} does not exist; --head {method}= takes the folder of a trained head"
            )
        found[method] = folder
    return found


def check_used(context: typer.Context, name: str, pair: Any, k_control: str, heads: dict[str, str]) -> None:
    """Raises EngineError for what was asked of the drafter `name` and would change nothing: a setting without effect is
    taken for one that has been tried. A default asks for nothing. (Trees of drafters that make chains are the engine's
    to refuse; --k and --verifier are what all drafters are compared under, plain decoding among them.)"""
    from engine import DRAFTERS, EngineError
    from engine.drafters.make import READS_HEADS, says_how_sure

    if name not in DRAFTERS:
        return  # the engine names those that there are

    def given(parameter: str) -> bool:
        source = context.get_parameter_source(parameter)
        return source is not None and source.name == "COMMANDLINE"

    def idle(what: str, why: str) -> EngineError:
        return EngineError(f"{what} has no effect with the drafter {name!r}, {why}")

    for parameter in ("tree_nodes", "k_control", "confidence_threshold"):
        if name == "none" and given(parameter):
            raise idle(f"--{parameter.replace('_', '-')}", "which drafts nothing; leave it out, or choose a drafter")
    if k_control == "confidence" and not says_how_sure(name, pair):
        raise idle("--k-control confidence", "which does not say how sure it is; choose another drafter or K control")
    if k_control != "confidence" and given("confidence_threshold"):
        raise EngineError("--confidence-threshold has no effect without --k-control confidence; give both or neither")
    for method in heads:
        if method not in READS_HEADS.get(name, ()):
            readers = " or ".join(reader for reader, read in READS_HEADS.items() if method in read)
            raise idle(f"--head {method}=", f"which does not read it; leave it out, or give --drafter {readers}")


def can_quantize(device: str, dtype: str) -> bool:
    """Are there int8 and int4 kernels for what this device and dtype would load?"""
    from engine.linear import can_quantize

    return can_quantize(device, dtype)


def page_quantization(device: str, dtype: str) -> str:
    """int8 for the page, where it can be: its first click is what people judge speculation by."""
    return "int8" if can_quantize(device, dtype) else "none"


def drafter(name: str | None, pair: Any) -> str:
    return name or ("model" if pair.draft is not None else "prompt_lookup")


def profiled(pair: Any, prompts: Any, settings: Any, result: Any, verifier: str) -> list[Any]:
    """Where the time of a step of each arm goes, over the first prompt of each category. Its faults are told and cost
    nothing of what was measured before."""
    from engine import EngineError
    from engine.bench.profile import profile_steps

    firsts = list({p.category: p for p in reversed(prompts)}.values())
    try:
        with terminal.progress_bar("profiling") as step, interrupt() as cancel:
            return profile_steps(pair, firsts, settings, result.drafter, verifier, step, cancel)
    except EngineError as error:
        terminal.note(f"no profile: {error}")
        return []


def traces_of(comparison: Any) -> dict[str, Any]:
    """Every run of a comparison, by its place in it."""
    named = ((f"{i:04d} {s.category}", s) for i, s in enumerate(comparison.samples, 1))
    return {f"{name} {arm}": getattr(s, arm).trace for name, s in named for arm in ("plain", "speculative")}


def check_writable(path: Path | None, option: str = "--trace") -> None:
    """Before the work is done, not after it. option: which one named the file."""
    from engine import EngineError

    if path is None:
        return
    if not path.parent.is_dir():
        raise EngineError(f"the folder {path.parent} does not exist; create it or give another file for {option}")
    if path.is_dir():
        raise EngineError(f"{path} is a folder; give a file for {option}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise EngineError(f"{path} cannot be written; give another file for {option}")


def write(path: Path, text: str) -> None:
    from app.whole_file import write_whole

    write_whole(path, text.encode("utf-8"))


def run_store() -> Any:
    from engine.runs import RunStore

    return RunStore()


def keep(kind: Any, *, label: str, complete: bool, **run: Any) -> None:
    """Store a run that has been shown already (arguments: `RunStore.save`'s). What keeps it from being stored is a note
    and no fault: the result stands. label: cut to one short line."""
    from engine import EngineError

    line = " ".join(label.split())
    label = line if len(line) <= LABEL else f"{line[: LABEL - 1]}…"
    try:
        kept = run_store().save(kind, label=label, status="complete" if complete else "stopped", **run)
    except (EngineError, OSError) as error:
        terminal.note(f"note: this run was not kept: {error}")
    else:
        terminal.note(f"kept as {kept.id}: specscope runs show {kept.id}")


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
