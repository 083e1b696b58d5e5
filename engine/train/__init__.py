"""Training of draft heads on what their target says itself."""

from engine.train.held_out import HeldOut, evaluate
from engine.train.settings import TrainSettings
from engine.train.train import train_head

__all__ = ["HeldOut", "TrainSettings", "evaluate", "train_head"]
