"""What a head is trained on: dialogues with their token ids, or plain text that is cut into pieces."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from engine.errors import EngineError

# Tokens of a piece of plain text.
PIECE = 256
# Batches whose texts are sorted by length together, so that little is spent on padding.
GROUP = 16


@dataclass(frozen=True, slots=True)
class Text:
    """ids: of the whole text. answer: where the target's own words begin; len(ids) where none of it is its own.
    greedy: whether those are its likeliest tokens throughout."""

    ids: tuple[int, ...]
    answer: int
    greedy: bool


@dataclass(frozen=True, slots=True)
class Source:
    """One file that was read: its name without folders, sha256, texts and tokens."""

    name: str
    sha256: str
    texts: int
    tokens: int

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "sha256": self.sha256, "texts": self.texts, "tokens": self.tokens}


def read_texts(files: Sequence[Path], tokenizer: Any, vocab_size: int) -> tuple[list[Text], list[Source]]:
    """Dialogues from .jsonl ({"prompt_ids", "response_ids", "temperature"} a line), pieces of anything else.

    Raises EngineError with the file and the line where one cannot be read or holds an id that the target lacks."""
    texts: list[Text] = []
    sources = []
    for file in files:
        try:
            raw = file.read_bytes()
            content = raw.decode()
        except OSError as error:
            raise EngineError(f"{file} cannot be read: {error.strerror or error}") from None
        except UnicodeDecodeError:
            raise EngineError(f"{file} is not UTF-8 text; give dialogues as .jsonl or plain text") from None
        if file.suffix == ".jsonl":
            found = list(_dialogues(file, content, vocab_size))
        else:
            found = list(_pieces(content, tokenizer))
        if not found:
            raise EngineError(f"{file} holds no text of at least 3 tokens")
        sources.append(Source(file.name, hashlib.sha256(raw).hexdigest(), len(found), sum(len(t.ids) for t in found)))
        texts += found
    return texts, sources


def _dialogues(file: Path, content: str, vocab_size: int) -> Iterator[Text]:
    lines = content.split("\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            prompt, response = [int(t) for t in row["prompt_ids"]], [int(t) for t in row["response_ids"]]
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            if number == len(lines):
                return  # a file that is still being written ends within a line
            raise EngineError(
                f'line {number} of {file.name} is no dialogue: each is {{"prompt_ids": [...], "response_ids": [...]}}'
            ) from None
        ids = prompt + response
        if bad := next((t for t in ids if not 0 <= t < vocab_size), None):
            raise EngineError(
                f"line {number} of {file.name} holds token {bad}, and the target knows 0 to {vocab_size - 1}; the file "
                "was made with another tokenizer"
            )
        if len(ids) > 2:
            yield Text(tuple(ids), len(prompt), row.get("temperature") == 0)


def _pieces(content: str, tokenizer: Any) -> Iterator[Text]:
    # Paragraph by paragraph: a tokenizer may need time that grows with the square of what it is given at once.
    held: list[int] = []
    for paragraph in content.split("\n\n"):
        if paragraph.strip():
            held += tokenizer(paragraph + "\n\n", add_special_tokens=False)["input_ids"]
        while len(held) >= PIECE:
            yield Text(tuple(held[:PIECE]), PIECE, False)
            held = held[PIECE:]
    if len(held) > 2:
        yield Text(tuple(held), len(held), False)


def cut(texts: Sequence[Text], length: int) -> list[Text]:
    return [Text(t.ids[:length], min(t.answer, length), t.greedy) for t in texts]


def split(texts: Sequence[Text], share: float, seed: int) -> tuple[list[Text], list[Text]]:
    """(trained on, held out): by what a text says and the seed, so that twins fall on one side and files may be added
    without moving a line across. Greedy answers alone are held out where there are any: theirs is the number that is
    reported."""
    has_greedy = any(t.greedy for t in texts)
    train, held = [], []
    for text in texts:
        digest = hashlib.sha256(f"{seed} {text.ids[: text.answer or 1]}".encode()).digest()
        chosen = int.from_bytes(digest[:8], "big") < share * 2**64
        if not chosen:
            train.append(text)
        elif text.greedy or not has_greedy:
            held.append(text)
    if not train or not held:
        raise EngineError(
            f"{len(texts)} texts are too few to hold {share:.0%} of them out and train on the rest; give more --data "
            "or --self-generate more"
        )
    return train, held


def frequent(texts: Sequence[Text], count: int, vocab_size: int) -> torch.Tensor:
    """[count] ids in order: the most frequent of the texts, then the lowest ids. The target's own words count twice."""
    seen: Counter[int] = Counter()
    for text in texts:
        seen.update(text.ids)
        seen.update(text.ids[text.answer :])
    chosen = [t for t, _ in sorted(seen.items(), key=lambda item: (-item[1], item[0]))[:count]]
    have = set(chosen)
    chosen += [t for t in range(vocab_size) if t not in have][: count - len(chosen)]
    return torch.tensor(sorted(chosen), dtype=torch.long)


def batches(texts: Sequence[Text], tokens: int, seed: int, epoch: int) -> list[list[int]]:
    """Indexes into `texts`, batch by batch, each at most `tokens` with its padding (one text at least). The order hangs
    on the seed and the epoch alone, so that a training which was stopped finds its place again."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    order: list[int] = torch.randperm(len(texts), generator=generator).tolist()
    made: list[list[int]] = []
    mean = sum(len(t.ids) for t in texts) / len(texts)
    group = max(1, int(GROUP * tokens / mean))
    for at in range(0, len(order), group):
        batch: list[int] = []
        for i in sorted(order[at : at + group], key=lambda i: -len(texts[i].ids)):
            if batch and (len(batch) + 1) * len(texts[batch[0]].ids) > tokens:
                made.append(batch)
                batch = []
            batch.append(i)
        made.append(batch)
    mixed: list[int] = torch.randperm(len(made), generator=generator).tolist()
    return [made[i] for i in mixed]
