"""Measuring: speculation against plain decoding, interleaved in one run, over prompt suites."""

from engine.bench.compare import Comparison, compare
from engine.bench.race import Race, race
from engine.bench.suites import BenchPrompt, load_suite

__all__ = ["BenchPrompt", "Comparison", "Race", "compare", "load_suite", "race"]
