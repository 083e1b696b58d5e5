"""What a trained head costs on a GPU: its own size and how often it runs a drafted step, for the roofline."""

from typing import Any

from engine.draft_cost import Draft
from engine.shape import ModelShape

HEADS = ("eagle", "medusa")


def head_draft(pair: Any, method: str, levels: float | None) -> Draft | None:
    """Of the head that the pair drafts with; None where it has none, or one whose size cannot be told. levels: forwards
    of a drafted step where trees are drafted, each level one; None: one a proposal."""
    from engine import EngineError
    from engine.shipped import head_of

    try:
        head = head_of(pair, method)
        shape = head.shape
        return _eagle(shape, levels) if method == "eagle" else _medusa(shape)
    except (AttributeError, EngineError, OSError):
        return None


def _eagle(shape: Any, levels: float | None) -> Draft:
    """One layer behind the matrix that joins token and state, and the rows that it guesses with."""
    hidden, read = shape.hidden_size, 1 if shape.form == "eagle" else 2
    inputs = 2 * hidden if shape.form == "eagle" else len(shape.taps) * shape.feature_size
    queries, keys = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
    attention = read * hidden * (queries + 2 * keys) + queries * hidden
    count = inputs * hidden + attention + 3 * hidden * shape.intermediate_size + shape.draft_vocab_size * hidden
    made = ModelShape(
        n_params=count, n_active_params=count, layers=1, hidden=hidden, kv_heads=shape.num_kv_heads,
        head_dim=shape.head_dim, vocab=shape.draft_vocab_size, query_heads=shape.num_heads,
    )  # fmt: skip
    return Draft.head(made, forwards=levels, name=f"{shape.form} head")


def _medusa(shape: Any) -> Draft:
    """All heads in one forward; rows that they share are read once, and multiplied by each."""
    hidden, heads = shape.hidden_size, shape.num_heads
    rows = (1 if shape.shared_head else heads) * shape.draft_vocab_size * hidden
    count = heads * shape.num_layers * hidden**2 + rows
    made = ModelShape(
        n_params=count, n_active_params=count, layers=1, hidden=hidden, kv_heads=1, head_dim=1,
        vocab=shape.draft_vocab_size,
    )  # fmt: skip
    return Draft.head(made, forwards=1, reads_prompt=False, name="medusa heads")
