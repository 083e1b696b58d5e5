"""Verification: one file a rule, and the law that they all keep."""

from engine.verify.chain import METHODS, Verdict, judge, verify_chain
from engine.verify.step import Case, Judgement, judge_case, judge_cases

__all__ = ["METHODS", "Case", "Judgement", "Verdict", "judge", "judge_case", "judge_cases", "verify_chain"]
