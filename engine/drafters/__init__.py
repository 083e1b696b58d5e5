"""Drafting methods: one file each, one contract (base.py)."""

from engine.drafters.base import Draft, Drafter, Gate, Open, Outcome, Reader
from engine.drafters.make import DRAFTERS, make_drafter

__all__ = ["DRAFTERS", "Draft", "Drafter", "Gate", "Open", "Outcome", "Reader", "make_drafter"]
