"""Trained heads that draft from a target's hidden states: their modules, and the folder formats they come in."""

from engine.heads.eagle import EagleHead, EagleShape
from engine.heads.formats import HeadError
from engine.heads.load import load_head
from engine.heads.medusa import MedusaHeads, MedusaShape
from engine.heads.save import save_head

__all__ = ["EagleHead", "EagleShape", "HeadError", "MedusaHeads", "MedusaShape", "load_head", "save_head"]
