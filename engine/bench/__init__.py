"""Measuring: speculation against plain decoding, interleaved in one run, over prompt suites."""

from engine.bench.compare import Comparison, compare
from engine.bench.divergence import Divergence, first_divergence
from engine.bench.race import Race, race
from engine.bench.suites import BenchPrompt, load_suite
from engine.bench.tune import TunePoint, best_point, tune_k

__all__ = [
    "BenchPrompt",
    "Comparison",
    "Divergence",
    "Race",
    "TunePoint",
    "best_point",
    "compare",
    "first_divergence",
    "load_suite",
    "race",
    "tune_k",
]
