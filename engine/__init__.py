"""Decode with a draft, watch every step, measure it. Knows nothing of pages, prices or money."""

from engine.batch import Batch, BatchError, BatchRow, BatchTotals, generate_batch
from engine.bench import (
    Comparison,
    Divergence,
    Race,
    TunePoint,
    best_point,
    compare,
    first_divergence,
    load_suite,
    race,
    tune_k,
)
from engine.decode import Generation, Stream, generate, stream
from engine.drafters import DRAFTERS
from engine.errors import EngineError, UnsupportedModelError, VocabularyError
from engine.memory import OutputMemory
from engine.pair import Pair, load_pair
from engine.prefix import PrefixCache
from engine.settings import K_CONTROLS, DecodeSettings
from engine.stats import Stats, compute_stats
from engine.trace import Alternative, Proposal, Replacement, Step, TokenText, Trace
from engine.verify import EXACT, LOSSY, Verdict, verify_chain, verify_tree
from engine.verify import METHODS as VERIFIERS
from engine.vocabulary import VocabularyReport, check_vocabularies
from engine.weights import WeightsError

__all__ = [
    "DRAFTERS",
    "EXACT",
    "K_CONTROLS",
    "LOSSY",
    "VERIFIERS",
    "Alternative",
    "Batch",
    "BatchError",
    "BatchRow",
    "BatchTotals",
    "Comparison",
    "DecodeSettings",
    "Divergence",
    "EngineError",
    "Generation",
    "OutputMemory",
    "Pair",
    "PrefixCache",
    "Proposal",
    "Race",
    "Replacement",
    "Stats",
    "Step",
    "Stream",
    "TokenText",
    "Trace",
    "TunePoint",
    "UnsupportedModelError",
    "Verdict",
    "VocabularyError",
    "VocabularyReport",
    "WeightsError",
    "best_point",
    "check_vocabularies",
    "compare",
    "compute_stats",
    "first_divergence",
    "generate",
    "generate_batch",
    "load_pair",
    "load_suite",
    "race",
    "stream",
    "tune_k",
    "verify_chain",
    "verify_tree",
]
