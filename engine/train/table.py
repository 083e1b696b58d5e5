"""The seed of the drafter "recycling" made from files, with a card: what `train-head --method recycling` does."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.drafters.recycling import WIDTH, AdjacencyTable
from engine.errors import EngineError
from engine.heads.card import plain_card
from engine.heads.save import check_out
from engine.pair import Pair
from engine.shipped import write_target
from engine.train.card import made_on
from engine.train.recycle import adjacency_table
from engine.train.texts import Text, read_texts, split

CARD, HISTORY = "README.md", "training.json"
METHOD = "the mean of the target's own next-token law over every place where the token stood; its eight likeliest"


def train_table(
    pair: Pair,
    data: Sequence[Path],
    out: Path,
    *,
    seed: int = 0,
    held_out: float = 0.05,
    command: str = "engine.train.train_table",
    cancel: threading.Event | None = None,
    watch: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Reads every text with pair.target and saves the table in `out` with its card. Returns what the card says.

    data: dialogues (.jsonl) and plain texts; in dialogues the answers alone count. held_out: share of the texts that
    are not read, and on which the table is measured. cancel: ends the reading; what was read so far is saved, and
    "complete" is False. watch: told the positions read, and of how many.
    """
    cancel = cancel or threading.Event()
    check_out(out)
    if not data:
        raise EngineError("there is nothing to read; give --data FILE, or --self-generate N dialogues")
    texts, sources = read_texts(data, pair.tokenizer, pair.target.vocab_size)
    train, held = split(texts, held_out, seed)
    total = sum(len(t.ids) - _first(t) for t in train)
    read = 0

    def told(positions: int) -> None:
        nonlocal read
        read = positions
        if watch:
            watch(positions, total)

    def counted() -> Iterator[tuple[Sequence[int], int]]:
        for text in train:
            if cancel.is_set():
                return
            yield text.ids, _first(text)

    started = datetime.now(UTC)
    table = adjacency_table(pair.target, counted(), progress=told)
    if not read:
        raise EngineError("stopped before anything was read; run the same command again")
    made: dict[str, Any] = {
        "title": f"Adjacency table for {pair.target.name}",
        "target": pair.target.name,
        "made_by": command,
        "method": METHOD,
        "hours": round((datetime.now(UTC) - started).total_seconds() / 3600, 3),
        "positions_read": read,
        "complete": read >= total,
        "seed": seed,
        "finished_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "data": [source.as_dict() for source in sources],
        "held_out_texts": len(held),
        "held_out": held_out_shares(table, held),
        "environment": made_on(pair.target),
    }
    table.save(out, {"specscope": json.dumps({k: made[k] for k in ("target", "made_by", "seed", "finished_at")})})
    write_target(out, pair.target)
    (out / CARD).write_text(plain_card(made), encoding="utf-8")
    (out / HISTORY).write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    return made


def held_out_shares(table: AdjacencyTable, texts: Sequence[Text]) -> list[dict[str, Any]]:
    """For each rank: how often the token that came next in an answer was the table's follower of that rank."""
    hits, tested = [0] * WIDTH, 0
    for text in texts:
        for token, following in zip(text.ids[_first(text) :], text.ids[_first(text) + 1 :], strict=False):
            tested += 1
            ranks = [i for i, (t, _) in enumerate(table.of(token)) if t == following]
            if ranks:
                hits[ranks[0]] += 1
    return [{"rank": i + 1, "share": round(h / tested, 4) if tested else None} for i, h in enumerate(hits)]


def _first(text: Text) -> int:
    """From where on a text counts: its answer, and the token before it; all of a text that has none."""
    return max(text.answer - 1, 0) if text.answer < len(text.ids) else 0
