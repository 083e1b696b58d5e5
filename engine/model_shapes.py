"""Shapes of published models by name, of any config, and of the small heads that draft for them."""

from __future__ import annotations

import csv
import difflib
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from engine.errors import EngineError
from engine.precision import BF16, PRECISIONS, Precision, find_precision
from engine.quantized import Stored, stored_as
from engine.shape import ModelShape

DEFAULT_SHAPES = Path(__file__).parent / "data" / "model_shapes.csv"
# Assumed: the vocabulary that published EAGLE-3 heads draft from, and the heads of published Medusa models.
EAGLE3_DRAFT_VOCAB = 32_000
MEDUSA_HEADS = 5
# More is no config; reading would only make the machine busy.
MOST_BYTES = 5_000_000
# What a name may end with without being another shape.
_SUFFIXES = ("-instruct", "-chat", "-hf", "-it", "-bf16")


class NamedShape(NamedTuple):
    """A model and where its figures are from. intermediate: width of one MLP, 0 where the config has none. stored: how
    its weights are quantized, where its config says so."""

    name: str
    shape: ModelShape
    intermediate: int
    source: str
    stored: Stored | None = None

    def precision(self, asked: str | None) -> Precision:
        """The one that is asked for, else the one that its config states, else bf16. Raises EngineError where the
        config states one that is not known here."""
        if asked is not None:
            return find_precision(asked)
        if self.stored is None:
            return BF16
        if not self.stored.precision:
            raise EngineError(
                f"{self.source} says that its weights are quantized ({self.stored.told}), and not in a way that is "
                f"known here; say with --precision what comes nearest: {', '.join(PRECISIONS)}"
            )
        return PRECISIONS[self.stored.precision]


@lru_cache(maxsize=1)
def _table() -> Mapping[str, NamedShape]:
    """By each name that a model goes by, in `_key`'s form."""
    found: dict[str, NamedShape] = {}
    with DEFAULT_SHAPES.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            named = named_shape(_config_of(row), row["model"], row["source"], int(row["n_params"]))
            found[_key(row["model"])] = named
            for alias in filter(None, row["also"].split("|")):
                name, _, longest = alias.partition("@")  # of the same sizes, but for the longest context
                shape = replace(named.shape, max_context=int(longest)) if longest else named.shape
                found[_key(name)] = named._replace(shape=shape)
    return found


def _config_of(row: Mapping[str, str]) -> dict[str, Any]:
    """A row in the words of a config.json; what a row leaves blank, the config does not have."""
    words = [name for name in row if name.endswith(("_size", "_heads", "_layers")) or name == "head_dim"]
    words.append("max_position_embeddings")
    return {
        "model_type": row["model_type"],
        **{name: int(row[name]) for name in words if row[name]},
        "tie_word_embeddings": row["tied"] == "yes",
        **({"num_local_experts": int(row["experts"]), "num_experts_per_tok": int(row["experts_per_token"])}
           if row["experts"] else {}),
    }  # fmt: skip


def named_shape(config: Any, name: str, source: str, n_params: int | None = None) -> NamedShape:
    """From a transformers config (object or dict). n_params: the real count where it is known. Raises EngineError with
    a sentence where the config is not covered."""
    try:
        shape = ModelShape.from_config(config, n_params=n_params)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise EngineError(f"{name}: {error}") from None
    text = config if isinstance(config, Mapping) else vars(config)
    text = text.get("text_config") or text
    text = text if isinstance(text, Mapping) else vars(text)
    width = text.get("intermediate_size")
    return NamedShape(name, shape, int(width) if isinstance(width, int | float) else 0, source, stored_as(config))


def model_names() -> list[str]:
    """The models of the table, each by its first name."""
    return list(dict.fromkeys(named.name for named in _table().values()))


def find_shape(source: str) -> NamedShape:
    """By a published model's name ("Llama-3.1-8B", also with its owner and "-Instruct"), a config.json, or a folder
    that has one. Raises EngineError with a sentence: no such name (with the near ones), or a config that is not
    covered."""
    path = Path(source).expanduser()
    if path.is_dir() or path.suffix == ".json":
        return _from_file(path / "config.json" if path.is_dir() else path)
    named = _table().get(_key(source))
    if named is None:
        close = difflib.get_close_matches(_key(source), list(_table()), n=4, cutoff=0.5)
        near = list(dict.fromkeys(_table()[key].name for key in close)) or model_names()
        raise EngineError(f"no model {source!r} in the table, give its config.json or one of: {', '.join(near)}")
    return named


def _from_file(file: Path) -> NamedShape:
    try:
        if file.exists() and not file.is_file():  # a pipe would be waited for, and a device has no end
            raise EngineError(f"{file} is no file; give a config.json, a folder that has one, or a name")
        with file.open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise EngineError(f"{file} does not exist; give a config.json, a folder that has one, or a name") from None
    except OSError as error:
        raise EngineError(f"{file} could not be read: {error.strerror or error}") from None
    if len(data) > MOST_BYTES:
        raise EngineError(f"{file} is larger than {MOST_BYTES // 1_000_000} MB and no model's config")
    name = file.resolve().parent.name or file.name
    return named_shape(_object(data, file), name, f"config.json of {name}")


def _object(data: bytes, file: Path) -> dict[str, Any]:
    try:
        config = json.loads(data.decode("utf-8"))
    except RecursionError:
        raise EngineError(f"{file} is not a model's config: it is nested too deeply") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise EngineError(f"{file} could not be read as JSON: {error}") from None
    except ValueError:  # Python refuses integers of thousands of digits
        raise EngineError(f"{file} is not a model's config: it holds a number of too many digits") from None
    if not isinstance(config, dict):
        raise EngineError(f"{file} is not a model's config: it holds no JSON object")
    return config


def _key(name: str) -> str:
    key = name.strip().rpartition("/")[2].casefold().replace("_", "-").replace(" ", "-")
    for suffix in _SUFFIXES:
        key = key.removesuffix(suffix)
    return key


def eagle_head(target: NamedShape) -> ModelShape:
    """EAGLE-1 and -2: one layer of the target behind a 2 hidden -> hidden matrix, and the target's own output head,
    which each of its forwards reads (Li et al. 2024, arXiv 2401.15077)."""
    shape = target.shape
    return _one_layer(target, inputs=1, front=2 * shape.hidden**2, vocab=shape.vocab)


def eagle3_head(target: NamedShape, draft_vocab: int = EAGLE3_DRAFT_VOCAB) -> ModelShape:
    """EAGLE-3: one layer whose attention reads token and state side by side, a 3 hidden -> hidden matrix, an output
    head of its own (Li et al. 2025, arXiv 2503.01840). The matrix runs once a step and is counted in every
    forward."""
    return _one_layer(target, inputs=2, front=3 * target.shape.hidden**2, vocab=min(draft_vocab, target.shape.vocab))


def _one_layer(target: NamedShape, inputs: int, front: int, vocab: int) -> ModelShape:
    """inputs: hidden states side by side that queries, keys and values are made of; front: parameters before the
    layer."""
    shape, width = target.shape, _dense_width(target)
    heads = shape.query_heads or shape.hidden // shape.head_dim
    queries, keys = heads * shape.head_dim, shape.kv_heads * shape.head_dim
    attention = inputs * shape.hidden * (queries + 2 * keys) + queries * shape.hidden
    n_params = front + attention + 3 * shape.hidden * width + vocab * shape.hidden
    return ModelShape(
        n_params=n_params, n_active_params=n_params, layers=1, hidden=shape.hidden, kv_heads=shape.kv_heads,
        head_dim=shape.head_dim, vocab=vocab, query_heads=heads,
    )  # fmt: skip


def medusa_heads(target: NamedShape, heads: int = MEDUSA_HEADS) -> ModelShape:
    """Medusa-1's heads, read together in one forward: each a hidden x hidden block and an output head (Cai et al. 2024,
    arXiv 2401.10774). They keep no keys; the shape's one layer of them is what a draft of one token would keep."""
    shape = target.shape
    n_params = heads * (shape.hidden**2 + shape.vocab * shape.hidden)
    return ModelShape(
        n_params=n_params, n_active_params=n_params, layers=1, hidden=shape.hidden, kv_heads=1, head_dim=1,
        vocab=shape.vocab,
    )  # fmt: skip


def _dense_width(target: NamedShape) -> int:
    """Width of the head's MLP: the target's, 4 hidden where its config has none."""
    return target.intermediate or 4 * target.shape.hidden
