"""Dialogues that the target writes with itself: a user turn that it goes on with from a few words, then its answer.

A head is to guess what the target says, so nothing teaches it better than what the target has said.
"""

import json
import random
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.errors import EngineError
from engine.pair import Pair
from engine.runner import PREFILL_CHUNK, Runner
from engine.shipped import names_target, write_target
from engine.train.openings import OPENINGS

# Dialogues that are written together. Memory: their keys and values.
ROWS = 48
TURN, ANSWER = 48, 192  # most tokens of each
GREEDY_SHARE, WARM = 0.75, 0.7
# A batch ends when so many of its rows have: the last ones would keep all waiting.
ENOUGH = 0.94
MARK = "@@"


def self_generate(
    pair: Pair, count: int, file: Path, seed: int = 0, cancel: threading.Event | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> bool:  # fmt: skip
    """Writes `count` dialogues to `file`, one JSON object a line: prompt_ids, response_ids, temperature (0 is greedy).

    Goes on behind what the file holds of an earlier call with the same seed. A file beside it tells which target wrote
    it. progress(written, count). False where `cancel` ended it early. Raises EngineError for a count below 1, a context
    too short for a dialogue, or a file that another target wrote, or nobody knows who.
    """
    if count < 1:
        raise EngineError(f"the target must write at least 1 dialogue, not {count}")
    limit = pair.target.context_length
    if limit is not None and limit < 64:
        raise EngineError(f"{pair.target.name} has a context of {limit} tokens, too short to write dialogues in")
    _sign(file, pair.target)
    done = _whole_batches(file)
    while done < count:
        if progress:
            progress(done, count)
        rows = _batch(pair, min(ROWS, count - done), f"{seed} {done}", cancel or threading.Event())
        if rows is None:
            return False
        with file.open("a", encoding="utf-8") as out:
            out.write("".join(json.dumps(row) + "\n" for row in rows))
        done += len(rows)
    if progress:
        progress(done, count)
    return True


def _sign(file: Path, runner: Runner) -> None:
    """A head learns what its own target says: dialogues of two targets in one file would teach it neither."""
    signature = file.with_name(f"{file.stem}.target.json")
    if not file.is_file() or not file.stat().st_size:
        write_target(file.parent, runner, signature.name)
    elif not signature.is_file():
        raise EngineError(
            f"{file} does not say which target wrote it; give --fresh to write it anew, or another --out, or the file "
            "itself with --data and without --self-generate"
        )
    elif not names_target(signature, runner):
        raise EngineError(
            f"{file} was written by another target than {runner.name}; give --fresh to write it anew, or another --out"
        )


def _whole_batches(file: Path) -> int:
    """Dialogues in the file, which is cut behind its last whole batch: a seed belongs to where a batch begins."""
    if not file.is_file():
        return 0
    lines = file.read_bytes().split(b"\n")[:-1]
    whole = len(lines) - len(lines) % ROWS
    file.write_bytes(b"".join(line + b"\n" for line in lines[:whole]))
    return whole


def _batch(pair: Pair, count: int, seed: str, cancel: threading.Event) -> list[dict[str, Any]] | None:
    chance = random.Random(seed)
    generator = torch.Generator().manual_seed(chance.getrandbits(60))
    before, after = _template(pair)
    openings = [chance.choice(OPENINGS) for _ in range(count)]
    prompts = [before + _ids(pair, opening) for opening in openings]
    turns = _write(pair, prompts, [1.0] * count, _room(pair, TURN), generator, cancel)
    prompts = [p + _without_end(pair, t) + after for p, t in zip(prompts, turns, strict=True)]
    temperatures = [0.0 if chance.random() < GREEDY_SHARE else WARM for _ in prompts]
    answers = _write(pair, prompts, temperatures, _room(pair, ANSWER), generator, cancel)
    if cancel.is_set():
        return None
    return [
        {"prompt_ids": p, "response_ids": a, "temperature": t}
        for p, a, t in zip(prompts, answers, temperatures, strict=True)
    ]


def _room(pair: Pair, wanted: int) -> int:
    limit = pair.target.context_length
    return wanted if limit is None else max(4, min(wanted, limit // 3))


def _ids(pair: Pair, text: str) -> list[int]:
    return [int(t) for t in pair.tokenizer(text, add_special_tokens=False)["input_ids"]]


def _template(pair: Pair) -> tuple[list[int], list[int]]:
    """What the chat template puts before and behind a user turn; nothing where there is no template."""
    if not getattr(pair.tokenizer, "chat_template", None):
        return [], []
    message = [{"role": "user", "content": MARK}]
    shown = pair.tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
    before, _, after = shown.partition(MARK)
    return _ids(pair, before), _ids(pair, after)


def _without_end(pair: Pair, ids: list[int]) -> list[int]:
    return ids[:-1] if ids and ids[-1] in pair.eos_ids else ids


@torch.inference_mode()
def _write(
    pair: Pair, prompts: Sequence[list[int]], temperatures: Sequence[float], most: int, generator: torch.Generator,
    cancel: threading.Event,
) -> list[list[int]]:  # fmt: skip
    """At most `most` tokens behind each prompt, its end included."""
    runner, count = pair.target, len(prompts)
    cache = runner.new_cache(count)
    runner.expect(cache, max(map(len, prompts)) + most, count)
    first = []
    for r, prompt in enumerate(prompts):
        row = cache.rows(r, 1)
        for at in range(0, len(prompt), PREFILL_CHUNK):
            logits = runner.forward(prompt[at : at + PREFILL_CHUNK], row, keep=1)
        first.append(logits)
    written: list[list[int]] = [[] for _ in prompts]
    done = [False] * count
    logits = torch.cat(first)
    for step in range(most):
        for r, token in enumerate(_draw(logits, temperatures, generator)):
            if not done[r]:
                written[r].append(token)
                done[r] = token in pair.eos_ids
        if cancel.is_set() or sum(done) >= ENOUGH * count or step == most - 1:
            break
        logits = torch.cat(runner.forward_rows([w[-1:] for w in written], cache, [1] * count))
        for r, over in enumerate(done):
            if over:  # its place is read over again: a row that has ended makes nobody's attention longer
                cache.rollback(len(prompts[r]), r)
    return written


def _draw(logits: Tensor, temperatures: Sequence[float], generator: torch.Generator) -> list[int]:
    """logits [rows, V] -> a token a row."""
    logits = logits.float().cpu()
    chosen = logits.max(-1).indices
    warm = [r for r, t in enumerate(temperatures) if t > 0]
    if warm:
        heat = torch.tensor([temperatures[r] for r in warm])[:, None]
        chosen[warm] = torch.multinomial(torch.softmax(logits[warm] / heat, -1), 1, generator=generator)[:, 0]
    return [int(t) for t in chosen]
