"""Drafts that come with specscope, found by the target that they were made for: never by its name.

engine/data/heads/<target>/<method>/ holds what `train-head` makes, with a `target.json` that tells the target.
"""

import json
import threading
from functools import lru_cache, partial
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch

from engine.drafters.recycling import AdjacencyTable
from engine.errors import EngineError
from engine.pair import Pair
from engine.runner import Runner

TARGET = "target.json"
FOLDER = Path(__file__).parent / "data" / "heads"
PROBES = 16
# Of an embedding row's length, what half precision may change.
TOLERANCE = 0.01
_LOADED: "WeakKeyDictionary[Runner, dict[str, Any]]" = WeakKeyDictionary()
_LOCK = threading.RLock()  # loading one thing may ask for another


def fingerprint(runner: Runner) -> dict[str, Any]:
    """What tells a target apart, in any precision: its shape and the lengths of a few of its embedding rows."""
    ids = torch.tensor([i * (runner.vocab_size - 1) // (PROBES - 1) for i in range(PROBES)], device=runner.device)
    lengths = torch.linalg.vector_norm(runner.embed(ids).float(), dim=-1)
    return {
        "vocab_size": runner.vocab_size,
        "hidden_size": int(runner.embed(ids).shape[-1]),
        "num_layers": runner.num_layers,
        "embedding_lengths": [round(x, 5) for x in lengths.tolist()],
    }


def is_made_for(told: dict[str, Any], runner: Runner) -> bool:
    """told: a target's fingerprint."""
    if told.get("vocab_size") != runner.vocab_size or told.get("num_layers") != runner.num_layers:
        return False  # without asking the device
    own = fingerprint(runner)
    if any(own[name] != told.get(name) for name in ("vocab_size", "hidden_size", "num_layers")):
        return False
    pairs = zip(own["embedding_lengths"], told["embedding_lengths"], strict=True)
    return all(abs(a - b) <= TOLERANCE * max(abs(b), 1e-6) for a, b in pairs)


def write_target(folder: Path, runner: Runner, name: str = TARGET) -> None:
    """Puts into a folder what it was made for. name: another file, for what is said of a part of the folder alone."""
    (folder / name).write_text(json.dumps(fingerprint(runner)) + "\n", encoding="utf-8")


def names_target(path: Path, runner: Runner) -> bool:
    """Does what `write_target` wrote tell of this target? Raises EngineError for a file that cannot be read."""
    try:
        return is_made_for(json.loads(path.read_text("utf-8")), runner)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise EngineError(f"{path} cannot be read; copy the folder again") from None


def check_target(folder: Path, runner: Runner) -> None:
    """Raises EngineError where the folder says that it was made for another target. Many say nothing."""
    path = folder / TARGET
    if path.is_file() and not names_target(path, runner):
        raise EngineError(f"{folder} was made for another target than {runner.name}; train one for it")


@lru_cache(maxsize=1)
def _targets() -> tuple[tuple[Path, dict[str, Any]], ...]:
    return tuple((path.parent, json.loads(path.read_text("utf-8"))) for path in sorted(FOLDER.glob(f"*/*/{TARGET}")))


def shipped(runner: Runner, method: str) -> Path | None:
    """The folder of the draft that comes with specscope for this target, or None."""
    found = (folder for folder, told in _targets() if folder.name == method and is_made_for(told, runner))
    return next(found, None)


def head_of(pair: Pair, method: str) -> Any:
    """The pair's own head for "eagle" or "medusa": the folder that it was loaded with, else the one that comes with
    specscope. Loaded once a target. Raises EngineError where there is none, and says how to get one."""
    folder = pair.heads.get(method) or shipped(pair.target, method)
    if folder is None:
        raise EngineError(
            f"the drafter {method!r} needs a head that was trained for {pair.target.name}, and there is none; name its "
            f"folder with --head (heads= in load_pair), or train one with `specscope train-head --method {method}`"
        )
    return _loaded(pair.target, _key(method, Path(folder)), partial(_load_head, Path(folder), pair, method))


def seed_of(pair: Pair) -> AdjacencyTable | None:
    """What the drafter "recycling" knows before a run: the table that the pair was loaded with, else the one that comes
    with specscope, else None."""
    named, runner = pair.heads.get("recycling"), pair.target
    folder = Path(named) if named else shipped(runner, "recycling")
    if folder is None:
        return None
    table: AdjacencyTable = _loaded(runner, _key("recycling", folder), partial(_load_table, folder, runner))
    return table


def _load_table(folder: Path, runner: Runner) -> AdjacencyTable:
    check_target(folder, runner)
    return AdjacencyTable.load(folder, runner.vocab_size)


def _key(method: str, folder: Path) -> str:
    """Another one for a folder that has been written again."""
    times = [path.stat().st_mtime_ns for path in folder.glob("*") if path.is_file()]
    return f"{method} {folder} {max(times, default=0)}"


def _load_head(folder: Path, pair: Pair, method: str) -> Any:
    from engine.heads import MedusaHeads, load_head

    check_target(folder, pair.target)
    head = load_head(folder, pair.target, pair.tokenizer)
    if isinstance(head, MedusaHeads) != (method == "medusa"):
        raise EngineError(f"{folder} holds no {method} head; choose the drafter that it was trained for")
    return head


def _loaded(runner: Runner, key: str, load: Any) -> Any:
    with _LOCK:
        found = _LOADED.setdefault(runner, {})
        if key not in found:
            found[key] = load()
        return found[key]
