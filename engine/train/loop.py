"""The training loop: lesson -> loss -> step, an evaluation now and then, the best head kept."""

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from engine.errors import EngineError
from engine.train import checkpoint
from engine.train.checkpoint import State
from engine.train.features import FeatureStore
from engine.train.held_out import HeldOut, score
from engine.train.make import make_head
from engine.train.methods import Head, learn
from engine.train.settings import DRAFT_VOCAB, TrainSettings
from engine.train.teacher import Teacher
from engine.train.texts import Text, batches, cut, frequent, split

# Disk for hidden states, of the training's own folder.
CACHE_BYTES = 12e9
# Seconds between checkpoints.
CHECKPOINT_EVERY = 300.0
# Share of the steps at which all depths are trained; up to it their number rises from 1.
RAMP = 0.4
# Greedy texts that are evaluated on; more would cost more time than they tell.
MOST_HELD_OUT = 160


@dataclass(frozen=True, slots=True)
class Progress:
    """step of steps, epoch of epochs, loss and share of tokens guessed at each depth over the last steps, tokens/s;
    held_out: the newest evaluation."""

    step: int
    steps: int
    epoch: int
    epochs: int
    loss: float
    hits: tuple[float, ...]
    tokens_per_second: float
    held_out: HeldOut | None


Watch = Callable[[Progress], None]


class Trainer:
    """One training in one folder. identity: what a checkpoint must agree with to be gone on from."""

    def __init__(
        self, teacher: Teacher, texts: Sequence[Text], out: Path, settings: TrainSettings, identity: dict[str, Any]
    ) -> None:
        self.teacher, self.out, self.settings, self.identity = teacher, out, settings, identity
        runner = teacher.runner
        longest = min(settings.max_length, runner.context_length or settings.max_length)
        train, held = split(cut(texts, longest), settings.held_out, settings.seed)
        self.train_texts, self.held_texts = train, held[:MOST_HELD_OUT]
        most = min(DRAFT_VOCAB, runner.vocab_size) if settings.draft_vocab is None else settings.draft_vocab
        count = most or runner.vocab_size
        if count > runner.vocab_size:
            raise EngineError(f"a draft vocabulary of {count} ids is larger than the target's {runner.vocab_size}")
        self.draft_to_target = frequent(train, count, runner.vocab_size)
        self.head: Head = make_head(settings, teacher, self.draft_to_target)
        on = runner.device
        self.rows = teacher.rows[self.draft_to_target.to(on)].contiguous()
        self.index = torch.full((runner.vocab_size,), -1, dtype=torch.long)
        self.index[self.draft_to_target] = torch.arange(count)
        self.index = self.index.to(on)
        self.optimizer = torch.optim.AdamW(
            self.head.parameters(), lr=settings.lr, betas=(0.9, 0.95), weight_decay=settings.weight_decay
        )
        self.state = State()
        self.steps = sum(len(self._batches(e)) for e in range(settings.epochs))

    def _batches(self, epoch: int) -> list[list[int]]:
        return batches(self.train_texts, self.settings.batch_tokens, self.settings.seed, epoch)

    def resume(self) -> bool:
        """Goes on from the folder's checkpoint. Was there one?"""
        kept = checkpoint.load(self.out, self.identity)
        if kept is None:
            return False
        self.state, head, optimizer = kept
        self.head.load_state_dict(head)
        self.optimizer.load_state_dict(optimizer)
        return True

    def _save(self, *stores: FeatureStore) -> None:
        checkpoint.save(self.out, self.identity, self.state, self.head.state_dict(), self.optimizer.state_dict())
        for store in stores:
            store.save()

    def run(self, cancel: threading.Event, minutes: float | None = None, watch: Watch | None = None) -> bool:
        """Trains until the last epoch, the time limit, `cancel` or no further gain. True when there is nothing left to
        do; a checkpoint is written in any case. Leaves the best weights in `head`."""
        if not self.state.done:
            folder = self.out / checkpoint.FOLDER
            folder.mkdir(parents=True, exist_ok=True)
            lessons = FeatureStore(self.teacher, self.train_texts, folder / "states.bin", CACHE_BYTES)
            held = FeatureStore(self.teacher, self.held_texts, folder / "held_out.bin", CACHE_BYTES)
            self._run(lessons, held, cancel, minutes, watch)
            if self.state.done:
                lessons.remove()
                held.remove()
        if self.state.best is not None:
            self.head.load_state_dict(self.state.best)
        return self.state.done

    def _run(
        self, lessons: FeatureStore, held: FeatureStore, cancel: threading.Event, minutes: float | None,
        watch: Watch | None,
    ) -> None:  # fmt: skip
        state, settings = self.state, self.settings
        began, before = time.monotonic(), state.seconds
        meter = _Meter()
        saved = began
        self.head.train()
        while not state.done:
            order = self._batches(state.epoch)
            while state.at < len(order) and not state.done:
                state.seconds = before + time.monotonic() - began
                if cancel.is_set() or (minutes is not None and time.monotonic() - began >= minutes * 60):
                    self._save(lessons, held)
                    return
                batch = order[state.at]
                meter.add(self._step(lessons, batch), sum(len(self.train_texts[i].ids) for i in batch))
                state.at += 1
                found = None
                if state.step % settings.evaluate_every == 0:
                    found = self._evaluate(held, meter)
                if watch:
                    watch(meter.progress(state, self.steps, settings.epochs, found))
                if found or time.monotonic() - saved > CHECKPOINT_EVERY:
                    self._save(lessons, held)
                    saved = time.monotonic()
            if not state.done:
                state.epoch, state.at = state.epoch + 1, 0
                state.done = state.epoch >= settings.epochs
        if not state.history or state.history[-1]["step"] != state.step:
            self._evaluate(held, meter)
        state.seconds = before + time.monotonic() - began
        state.done = True
        self._save(lessons, held)

    def _step(self, lessons: FeatureStore, batch: list[int]) -> tuple[float, list[float]]:
        settings, state = self.settings, self.state
        for group in self.optimizer.param_groups:
            group["lr"] = settings.lr * self._rate(state.step)
        lesson = lessons.lesson(batch)
        depths = settings.unroll  # Medusa's heads know nothing of each other, so all learn from the first step
        if settings.method == "eagle":
            depths = depths_at(state.step / max(1, self.steps), settings.unroll)
        made = learn(self.head, self.rows, self.index, lesson, settings, depths, state.step)
        self.optimizer.zero_grad()
        made.loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.head.parameters(), 1.0)
        self.optimizer.step()
        state.step += 1
        loss = float(made.loss.detach())
        if not math.isfinite(loss):
            raise EngineError("the training's loss is no number any more; give a smaller --lr")
        return loss, [h / max(1, c) for h, c in zip(made.hits, made.counts, strict=True)]

    def _rate(self, step: int) -> float:
        rise = min(1.0, (step + 1) / max(1, self.settings.warmup))
        return rise * (0.5 + 0.5 * math.cos(math.pi * min(1.0, step / max(1, self.steps))))

    def _evaluate(self, held: FeatureStore, meter: "_Meter") -> HeldOut:
        state = self.state
        order = batches(self.held_texts, self.settings.batch_tokens, 0, 0)
        found = score(self.head, (([self.held_texts[i] for i in b], held.lesson(b)) for b in order), self.depths)
        better = found.mean_acceptance_length > state.best_length
        state.bad = 0 if better else state.bad + 1
        if better:
            state.best_length = found.mean_acceptance_length
            state.best = {name: t.detach().clone() for name, t in self.head.state_dict().items()}
        state.done = state.done or state.bad >= self.settings.patience
        entry = {"step": state.step, "epoch": state.epoch, "loss": meter.loss, **found.as_dict()}
        entry.pop("accuracy", None)
        state.history.append(entry)
        return found

    @property
    def depths(self) -> int:
        return max(5, self.settings.unroll)


def depths_at(progress: float, depths: int) -> int:
    """Depths that are trained at this share of the steps: a head that is not yet right about the first token learns
    nothing from the ones behind it, and each costs as much."""
    return depths if progress >= RAMP else min(depths, 1 + int(progress / RAMP * depths))


class _Meter:
    """Means over the last steps."""

    def __init__(self, memory: float = 0.95) -> None:
        self.memory, self.loss, self.hits = memory, 0.0, list[float]()
        self.tokens, self.began, self.held_out = 0, time.monotonic(), None

    def add(self, made: tuple[float, list[float]], tokens: int) -> None:
        loss, hits = made
        first = not self.tokens
        keep = 0.0 if first else self.memory
        self.loss = keep * self.loss + (1 - keep) * loss
        old = [*self.hits, *hits[len(self.hits) :]]
        self.hits = [keep * a + (1 - keep) * b for a, b in zip(old, hits, strict=True)]
        self.tokens += tokens

    def progress(self, state: State, steps: int, epochs: int, found: HeldOut | None) -> Progress:
        speed = self.tokens / max(1e-9, time.monotonic() - self.began)
        return Progress(state.step, steps, state.epoch + 1, epochs, self.loss, tuple(self.hits), speed, found)
