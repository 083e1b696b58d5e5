"""Decode with a draft, watch every step, measure it. Knows nothing of pages, prices or money."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.batch import Batch, BatchError, BatchRow, BatchTotals, generate_batch
    from engine.bench.compare import Comparison, compare
    from engine.bench.divergence import Divergence, first_divergence
    from engine.bench.race import Race, race
    from engine.bench.suites import load_suite
    from engine.bench.tune import TunePoint, best_point, tune_k
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

# Where each name lives. Loaded when first asked for (PEP 562): prices, projections and claims need no torch, whose
# import alone takes seconds. A test holds the list to the imports above.
_HOME = {
    "Batch": "engine.batch",
    "BatchError": "engine.batch",
    "BatchRow": "engine.batch",
    "BatchTotals": "engine.batch",
    "generate_batch": "engine.batch",
    "Comparison": "engine.bench.compare",
    "Divergence": "engine.bench.divergence",
    "Race": "engine.bench.race",
    "TunePoint": "engine.bench.tune",
    "best_point": "engine.bench.tune",
    "compare": "engine.bench.compare",
    "first_divergence": "engine.bench.divergence",
    "load_suite": "engine.bench.suites",
    "race": "engine.bench.race",
    "tune_k": "engine.bench.tune",
    "Generation": "engine.decode",
    "Stream": "engine.decode",
    "generate": "engine.decode",
    "stream": "engine.decode",
    "DRAFTERS": "engine.drafters",
    "EngineError": "engine.errors",
    "UnsupportedModelError": "engine.errors",
    "VocabularyError": "engine.errors",
    "OutputMemory": "engine.memory",
    "Pair": "engine.pair",
    "load_pair": "engine.pair",
    "PrefixCache": "engine.prefix",
    "K_CONTROLS": "engine.settings",
    "DecodeSettings": "engine.settings",
    "Stats": "engine.stats",
    "compute_stats": "engine.stats",
    "Alternative": "engine.trace",
    "Proposal": "engine.trace",
    "Replacement": "engine.trace",
    "Step": "engine.trace",
    "TokenText": "engine.trace",
    "Trace": "engine.trace",
    "EXACT": "engine.verify",
    "LOSSY": "engine.verify",
    "Verdict": "engine.verify",
    "verify_chain": "engine.verify",
    "verify_tree": "engine.verify",
    "VERIFIERS": "engine.verify:METHODS",
    "VocabularyReport": "engine.vocabulary",
    "check_vocabularies": "engine.vocabulary",
    "WeightsError": "engine.weights",
}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, original = home.partition(":")
    value = getattr(import_module(module), original or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
