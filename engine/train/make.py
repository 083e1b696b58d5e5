"""A head to begin with, shaped after its target and sharing the target's rows."""

from typing import Any

import torch
from torch import Tensor

from engine.errors import EngineError
from engine.heads.eagle import EagleHead, EagleShape
from engine.heads.medusa import MedusaHeads, MedusaShape
from engine.runner import Runner
from engine.support import text_config
from engine.train.begin import begin_as_target
from engine.train.methods import Head
from engine.train.settings import TrainSettings
from engine.train.teacher import Teacher


def default_taps(layers: int) -> tuple[int, ...]:
    """A low, a middle and a high hidden state, where EAGLE-3's published heads take them."""
    return tuple(sorted({min(2, layers - 1), layers // 2, max(0, layers - 3)}))


def taps_of(settings: TrainSettings, runner: Runner) -> tuple[int, ...]:
    if settings.method == "medusa" or settings.form == "eagle":
        return (-1,)
    return settings.taps or default_taps(runner.num_layers)


def make_head(settings: TrainSettings, teacher: Teacher, draft_to_target: Tensor) -> Head:
    """float32 weights from settings.seed; the target's rows are shared and frozen."""
    runner = teacher.runner
    torch.manual_seed(settings.seed)
    hidden, vocab, count = teacher.rows.shape[1], runner.vocab_size, draft_to_target.shape[0]
    where = runner.device
    rows = teacher.rows[draft_to_target.to(where)].float()
    mapped = draft_to_target.to(where) if count < vocab else None
    if settings.method == "medusa":
        shape = MedusaShape(settings.unroll, hidden, vocab, count, settings.layers)
        return MedusaHeads(shape, rows, mapped).to(where)
    config: Any = text_config(runner.model)
    heads = int(config.num_attention_heads)
    head_dim = int(getattr(config, "head_dim", None) or hidden // heads)
    if head_dim % 2:
        raise EngineError(f"the target's attention heads are {head_dim} wide, and rotary positions need an even width")
    rope = getattr(config, "rope_parameters", None) or {}
    shape_ = EagleShape(
        form="eagle" if settings.form == "eagle" else "eagle3",
        hidden_size=hidden,
        intermediate_size=int(getattr(config, "intermediate_size", None) or 4 * hidden),
        num_heads=heads,
        num_kv_heads=int(getattr(config, "num_key_value_heads", None) or heads),
        head_dim=head_dim,
        vocab_size=vocab,
        draft_vocab_size=count,
        taps=taps_of(settings, runner),
        rms_norm_eps=float(getattr(config, "rms_norm_eps", None) or 1e-5),
        rope_theta=float(rope.get("rope_theta") or getattr(config, "rope_theta", None) or 10000.0),
        input_norm=settings.form != "eagle",
    )
    head = EagleHead(shape_, teacher.embed, rows, mapped).to(where)
    begin_as_target(head, runner)
    return head
