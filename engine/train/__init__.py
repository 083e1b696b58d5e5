"""Training of draft heads, and of the seed of recycling, on what their target says itself."""

from engine.train.held_out import HeldOut, evaluate
from engine.train.settings import TrainSettings
from engine.train.table import train_table
from engine.train.train import train_head

__all__ = ["HeldOut", "TrainSettings", "evaluate", "train_head", "train_table"]
