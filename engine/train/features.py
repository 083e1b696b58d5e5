"""What the target said of the texts, kept on disk: each is read once, however many epochs the training takes.

A few kilobytes a token, in the target's dtype. Past the limit texts are read anew each time. A training that was
stopped finds them again; one that has ended leaves none.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from engine.train.teacher import Lesson, Teacher
from engine.train.texts import Text


class FeatureStore:
    """file: states, taken up again where `save` has been called for the same texts and target; what was read since is
    read again. limit_bytes: of disk."""

    def __init__(self, teacher: Teacher, texts: Sequence[Text], file: Path, limit_bytes: float) -> None:
        self.teacher, self.texts = teacher, texts
        hidden = teacher.rows.shape[1]
        self.width = (len(teacher.taps) + 1) * hidden
        itemsize = teacher.rows.element_size()
        self.at: list[int] = []  # where each text begins; those that find no room are read anew
        total = 0
        for text in texts:
            fits = (total + len(text.ids)) * self.width * itemsize <= limit_bytes
            self.at.append(total if fits else -1)
            total += len(text.ids) * fits
        self.file, self.index = file, file.with_suffix(".index")
        rows = max(1, total)
        size = rows * self.width * itemsize
        if not (file.is_file() and file.stat().st_size == size and self.index.is_file()):
            self.remove()
        self.kept = torch.from_file(str(file), shared=True, size=rows * self.width, dtype=teacher.rows.dtype).view(
            rows, self.width
        )
        self.best = torch.empty(rows, dtype=torch.int32)
        self.have = [False] * len(texts)
        if self.index.is_file():
            found = torch.load(self.index, weights_only=True)
            self.best, self.have = found["best"], found["have"]

    def lesson(self, batch: Sequence[int]) -> Lesson:
        """The texts of those indexes."""
        missing = [i for i in batch if not self.have[i]]
        if len(missing) > len(batch) // 2:
            fresh = self.teacher.read([self.texts[i].ids for i in batch])
            self._keep(batch, fresh)
            return fresh
        if missing:
            self._keep(missing, self.teacher.read([self.texts[i].ids for i in missing]))
        if not all(self.have[i] for i in batch):
            return self.teacher.read([self.texts[i].ids for i in batch])
        return self._kept(batch)

    def _keep(self, batch: Sequence[int], lesson: Lesson) -> None:
        for row, i in enumerate(batch):
            if self.at[i] >= 0 and not self.have[i]:
                n = lesson.lengths[row]
                part = slice(self.at[i], self.at[i] + n)
                self.kept[part] = torch.cat([lesson.features[row, :n], lesson.last[row, :n]], -1).to("cpu")
                self.best[part] = lesson.best[row, :n].to("cpu", torch.int32)
                self.have[i] = True

    def _kept(self, batch: Sequence[int]) -> Lesson:
        lengths = tuple(len(self.texts[i].ids) for i in batch)
        width, device = max(lengths), self.teacher.runner.device
        states = torch.zeros(len(batch), width, self.width, dtype=self.kept.dtype)
        best = torch.zeros(len(batch), width, dtype=torch.long)
        ids = torch.zeros(len(batch), width, dtype=torch.long)
        for row, (i, n) in enumerate(zip(batch, lengths, strict=True)):
            part = slice(self.at[i], self.at[i] + n)
            states[row, :n], best[row, :n] = self.kept[part], self.best[part].long()
            ids[row, :n] = torch.tensor(self.texts[i].ids)
        hidden = self.teacher.rows.shape[1]
        on: Tensor = states.to(device)
        return Lesson(ids.to(device), lengths, on[..., :-hidden], on[..., -hidden:], best.to(device))

    def save(self) -> None:
        """What is there so far will be found again."""
        fresh = self.index.with_suffix(".new")
        torch.save({"best": self.best, "have": self.have}, fresh)
        os.replace(fresh, self.index)

    def remove(self) -> None:
        self.index.unlink(missing_ok=True)
        self.file.unlink(missing_ok=True)
