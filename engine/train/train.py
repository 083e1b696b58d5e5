"""From files and settings to a head in a folder."""

import json
import shutil
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.errors import EngineError
from engine.heads import save_head
from engine.heads.formats import read_folder
from engine.heads.load import load_head
from engine.heads.medusa import MedusaHeads
from engine.heads.save import check_out
from engine.pair import Pair
from engine.shipped import write_target
from engine.train import checkpoint
from engine.train.card import record, with_held_out
from engine.train.held_out import HeldOut, evaluate
from engine.train.loop import Trainer, Watch
from engine.train.make import taps_of
from engine.train.methods import Head
from engine.train.settings import TrainSettings
from engine.train.teacher import Teacher
from engine.train.texts import Source, read_texts

HISTORY = "training.json"


def train_head(
    pair: Pair,
    data: Sequence[Path],
    out: Path,
    settings: TrainSettings | None = None,
    *,
    minutes: float | None = None,
    fresh: bool = False,
    start: Path | None = None,
    command: str = "engine.train.train_head",
    cancel: threading.Event | None = None,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """Trains a head for pair.target, and saves the best one so far with its card and held-out numbers in `out`.

    data: dialogues (.jsonl) and plain texts. minutes: stop after so many; that or `cancel` leaves a checkpoint in
    `out`, from which the same call goes on. fresh: begin anew instead. start: the folder of a head of the same shape to
    begin as; its draft vocabulary may be another where it shares the target's rows. command: for the card. Returns what
    the card says; its "complete" is False where there is more to train. Raises EngineError for what cannot be trained,
    before any work.
    """
    settings, out = settings or TrainSettings(), Path(out)
    check_out(out)
    trainer, sources = _trainer(pair, data, out, settings, minutes, fresh, start)
    complete = trainer.run(cancel or threading.Event(), minutes, watch)
    training = record(trainer, sources, command, complete)
    save_head(trainer.head, out, training)
    # What is reported is measured on what a reader of the folder gets, so that he measures the same.
    found = evaluate(pair.target, _reloaded(out, pair), trainer.held_texts, trainer.depths, settings.batch_tokens)
    training = with_held_out(training, found)
    _carry(trainer.head, found)
    save_head(trainer.head, out, training)
    write_target(out, pair.target)
    history = json.dumps({**training, "history": trainer.state.history}, indent=1)
    (out / HISTORY).write_text(history + "\n", encoding="utf-8")
    return training


def _trainer(
    pair: Pair, data: Sequence[Path], out: Path, settings: TrainSettings, minutes: float | None, fresh: bool,
    start: Path | None,
) -> tuple[Trainer, list[Source]]:  # fmt: skip
    if minutes is not None and not minutes > 0:
        raise EngineError(f"the time limit must be above 0 minutes, not {minutes:g}")
    if not data:
        raise EngineError("there is nothing to train on; give --data FILE, or --self-generate N dialogues")
    teacher = Teacher(pair.target, taps_of(settings, pair.target))
    texts, sources = read_texts(data, pair.tokenizer, pair.target.vocab_size)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EngineError(f"the folder {out} cannot be made: {error.strerror or error}") from None
    if fresh:
        shutil.rmtree(out / checkpoint.FOLDER, ignore_errors=True)
    identity = {**_identity(settings, teacher, sources), "head to start from": start and _weights_of(start)}
    trainer = Trainer(teacher, texts, out, settings, identity)
    if not trainer.resume() and start is not None:
        _begin_as(trainer.head, load_head(start, pair.target, pair.tokenizer), start)
    return trainer, sources


def _begin_as(head: Head, other: Head, folder: Path) -> None:
    mine, theirs = head.state_dict(), other.state_dict()
    if {name: w.shape for name, w in mine.items()} != {name: w.shape for name, w in theirs.items()}:
        raise EngineError(f"the head in {folder} is of another shape than the one to train; begin without --start-from")
    head.load_state_dict({name: w.float() for name, w in theirs.items()})


def _weights_of(folder: Path) -> list[float]:
    """What tells a head's weights from those of its later self."""
    tensors = read_folder(folder).tensors
    return [float(t.double().sum()) for _, t in sorted(tensors.items())]


def _reloaded(out: Path, pair: Pair) -> Head:
    return load_head(out, pair.target, pair.tokenizer)


def _carry(head: Head, found: HeldOut) -> None:
    """A Medusa tree is built from what was measured, so the heads carry it."""
    if isinstance(head, MedusaHeads):
        rounded = tuple(tuple(round(share, 4) for share in row) for row in found.accuracy or ())
        head.shape = replace(head.shape, accuracy=rounded)


def _identity(settings: TrainSettings, teacher: Teacher, sources: Sequence[Source]) -> dict[str, Any]:
    """What a training is, so that its checkpoint is not gone on with by another."""
    runner = teacher.runner
    some = teacher.rows[:: max(1, runner.vocab_size // 256)].double().sum()
    target = f"{runner.num_layers} x {teacher.rows.shape[1]}, {runner.vocab_size}, {float(some):.6f}"
    named = {f"setting {name}": value for name, value in settings.as_dict().items()}
    return {**named, "target": target, "data": [s.sha256 for s in sources]}
