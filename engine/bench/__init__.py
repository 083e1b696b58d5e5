"""Measuring: speculation against plain decoding, interleaved in one run, over prompt suites."""

from engine.bench.compare import Comparison, compare
from engine.bench.race import Race, race
from engine.bench.suites import BenchPrompt, load_suite
from engine.bench.tune import TunePoint, best_point, tune_k

__all__ = [
    "BenchPrompt",
    "Comparison",
    "Race",
    "TunePoint",
    "best_point",
    "compare",
    "load_suite",
    "race",
    "tune_k",
]
