"""Verification: one file a rule, and the law that they all keep; `typical` alone does not, and says so."""

from engine.verify.chain import judge, verify_chain
from engine.verify.step import Case, Judgement, judge_case, judge_cases
from engine.verify.tree import verify_tree
from engine.verify.verdict import EXACT, LOSSY, METHODS, Verdict

__all__ = [
    "EXACT",
    "LOSSY",
    "METHODS",
    "Case",
    "Judgement",
    "Verdict",
    "judge",
    "judge_case",
    "judge_cases",
    "verify_chain",
    "verify_tree",
]
