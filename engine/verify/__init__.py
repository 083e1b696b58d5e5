"""Verification: one file a rule, and the law that they all keep."""

from engine.verify.chain import METHODS, Verdict, judge, verify_chain

__all__ = ["METHODS", "Verdict", "judge", "verify_chain"]
