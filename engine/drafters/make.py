"""A run's drafter by name, with what it needs of the pair."""

from collections.abc import Callable

import torch

from engine.drafters.base import Drafter, Gate, Open
from engine.drafters.composite import CompositeDrafter
from engine.drafters.eagle import EagleDrafter
from engine.drafters.early_exit import EarlyExitDrafter
from engine.drafters.foreign import foreign_drafter
from engine.drafters.medusa import MedusaDrafter
from engine.drafters.model import ModelDrafter
from engine.drafters.prompt_lookup import PromptLookupDrafter
from engine.drafters.recycling import RecyclingDrafter
from engine.drafters.suffix import SuffixDrafter
from engine.errors import EngineError
from engine.memory import OutputMemory
from engine.notice import Notice
from engine.pair import Pair
from engine.settings import DecodeSettings
from engine.shipped import head_of, seed_of

# Tokens of a tree where `tree_nodes` is None. 0: chains.
DEFAULT_NODES = {"recycling": 16, "eagle": 16, "medusa": 16, "composite": 16}
# Under cost-optimal K a tree may be larger, for what does not pay is not sent.
MOST_NODES = 32
# Tokens that a composite asks a head for.
HEAD_NODES = 8
TREES = ("suffix", "recycling", "composite", "eagle", "medusa")
# Which of a pair's heads each reads; the others read none.
READS_HEADS = {
    "eagle": ("eagle",), "medusa": ("medusa",), "recycling": ("recycling",),
    "composite": ("eagle", "medusa", "recycling"),
}  # fmt: skip

Made = tuple[Drafter | None, str | None]


class Order:
    """What a drafter is to be made of. memory: earlier outputs of `tenant`, for those that look things up."""

    def __init__(
        self,
        pair: Pair,
        settings: DecodeSettings,
        generator: torch.Generator,
        gate: Gate,
        nodes: int,
        memory: OutputMemory | None,
        tenant: str,
    ) -> None:
        self.pair, self.settings, self.generator, self.gate, self.nodes = pair, settings, generator, gate, nodes
        self.memory, self.tenant = memory, tenant


def make_drafter(
    name: str,
    pair: Pair,
    settings: DecodeSettings,
    generator: torch.Generator,
    gate: Gate | None = None,
    verifier: str = "rejection",
    memory: OutputMemory | None = None,
    tenant: str = "",
) -> Made:
    """One run's drafter, or None for plain decoding; and what the user should know of it, or None. Raises EngineError
    for an unknown name and for what the pair has not."""
    if name == "none":
        return None, None
    make = _MAKERS.get(name)
    if make is None:
        raise EngineError(f"unknown drafter {name!r}: choose one of {', '.join(DRAFTERS)}")
    nodes, notice = _nodes(name, pair, settings, verifier)
    return make(Order(pair, settings, generator, gate or Open(), nodes, memory, tenant)), notice


def says_how_sure(name: str, pair: Pair) -> bool:
    """Does each token of the drafter come with a chance, for confidence control to go by? Found text has none."""
    written = name == "model" and pair.vocabulary is not None and pair.vocabulary.method == "reencoding"
    return name not in ("none", "prompt_lookup") and not written


def check_nodes(name: str, asked: int | None, verifier: str) -> None:
    """Raises EngineError where trees of `asked` tokens are not to be had of this drafter, or not with this verifier."""
    if asked and name not in TREES:
        raise EngineError(
            f"the drafter {name!r} drafts chains; leave tree_nodes out, or use one of {', '.join(TREES)} for trees"
        )
    if asked and verifier == "block":
        raise EngineError("block verification judges chains; use the verifier 'rejection' for trees, or tree_nodes 0")


def planned_nodes(name: str, asked: int | None, k_control: str, verifier: str) -> int:
    """Tokens of a tree, where the target can read one; 0: chains."""
    default = DEFAULT_NODES.get(name, 0)
    nodes = asked if asked is not None else MOST_NODES if default and k_control == "cost" else default
    return 0 if verifier == "block" else nodes


def _nodes(name: str, pair: Pair, settings: DecodeSettings, verifier: str) -> tuple[int, str | None]:
    check_nodes(name, settings.tree_nodes, verifier)
    nodes = planned_nodes(name, settings.tree_nodes, settings.k_control, verifier)
    if not nodes:
        return 0, None
    if not pair.target.reads_trees:
        name = pair.target.name
        return 0, Notice(
            f"{name} cannot read a tree in one forward, so its drafts are chains", "reads_no_trees", name=name
        )
    return nodes, None


def _prompt_lookup(o: Order) -> Drafter:
    return PromptLookupDrafter(o.pair.target.vocab_size)


def _suffix(o: Order) -> Drafter:
    return SuffixDrafter(o.pair.target.vocab_size, o.nodes, o.memory, o.tenant)


def _recycling(o: Order) -> Drafter:
    return RecyclingDrafter(o.nodes, seed_of(o.pair))


def _early_exit(o: Order) -> Drafter:
    return EarlyExitDrafter(o.pair.target, o.settings, o.generator, gate=o.gate)


def _model(o: Order) -> Drafter:
    pair = o.pair
    if pair.draft is None:
        raise EngineError(
            f"the drafter 'model' needs a draft model and {pair.name} has none; load the pair with draft=, "
            "or use 'prompt_lookup'"
        )
    size = pair.target.vocab_size
    if pair.vocabulary is not None:
        return foreign_drafter(
            pair.draft, pair.vocabulary, pair.tokenizer, pair.draft_tokenizer, o.settings, o.generator, size, o.gate
        )
    return ModelDrafter(pair.draft, o.settings, o.generator, size, pair.unknown_id, o.gate)


def _eagle(o: Order) -> Drafter:
    head = head_of(o.pair, "eagle")
    return EagleDrafter(head, o.pair.target, o.settings, o.generator, o.pair.target.vocab_size, o.nodes, o.gate)


def _medusa(o: Order) -> Drafter:
    head = head_of(o.pair, "medusa")
    return MedusaDrafter(head, o.pair.target, o.settings, o.generator, o.pair.target.vocab_size, o.nodes, o.gate)


def _composite(o: Order) -> Drafter:
    """What the text repeats, then a head where the pair was loaded with one, and what the target ranked before."""
    neural = next((name for name in ("eagle", "medusa") if name in o.pair.heads), None)
    if neural is None:
        return CompositeDrafter([_suffix(o), _recycling(o)], o.nodes)
    # Likeliest tokens alone: parts that sample could not be laid over each other.
    settled = Order(o.pair, o.settings, o.generator, Open(), max(o.nodes, HEAD_NODES), o.memory, o.tenant)
    head = _MAKERS[neural](settled)
    return CompositeDrafter([_suffix(o), head, _recycling(o)], o.nodes, frozenset({neural}))


_MAKERS: dict[str, Callable[[Order], Drafter]] = {
    "prompt_lookup": _prompt_lookup,
    "suffix": _suffix,
    "recycling": _recycling,
    "composite": _composite,
    "model": _model,
    "early_exit": _early_exit,
    "eagle": _eagle,
    "medusa": _medusa,
}
DRAFTERS = ("none", *_MAKERS)
