"""From logits to the law that tokens are drawn from, and drawing from it.

The same function makes p (target) and q (draft). Every step is per position: position i sees the context and
the drafted tokens before i. The order is transformers': penalty, temperature, top-k, top-p, min-p.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.errors import EngineError
from engine.settings import DecodeSettings

# A nucleus is nearly always inside the likeliest 512; sorting the whole vocabulary is the exception.
SHORTLIST = 512


def probabilities(
    logits: Tensor, settings: DecodeSettings, context: Sequence[int] = (), drafted: Sequence[int] = ()
) -> Tensor:
    """The law at each position under `settings`.

    logits: [W, V] of W = 1 + len(drafted) consecutive positions; context: the token ids before the first of them.
    Returns [W, V] float32 rows that sum to 1. Temperature 0 puts all mass on the largest logit, the lowest id of a tie.
    Raises EngineError when a row has no finite logit or a NaN: such a model cannot be sampled.
    """
    logits = logits.float()
    best = logits.max(dim=-1).values  # [W]; NaN if any
    if not bool(torch.isfinite(best).all()):
        raise EngineError(
            "the model returned NaN or no finite logits, so there is no distribution to decode from; "
            "load it with dtype='float32' or check its weights"
        )
    if settings.repetition_penalty != 1.0:
        logits = _penalised(logits, settings.repetition_penalty, context, drafted)
        if not bool(torch.isfinite(logits.max(dim=-1).values).all()):
            raise EngineError(
                f"repetition_penalty {settings.repetition_penalty:g} overflows this model's logits; use one nearer to 1"
            )
    if settings.greedy:
        return one_hot(logits.argmax(dim=-1), logits.shape[-1])
    vocab = logits.shape[-1]
    # Which tokens are the largest is asked of the logits: dividing by the temperature and softmax may round two of
    # them to one number, and the tie would then go to the wrong one.
    if 0 < settings.top_k < vocab:
        logits = logits.masked_fill(~_largest(logits, settings.top_k), float("-inf"))
    # Relative to the best, so that no temperature makes an infinity.
    p = torch.softmax((logits - logits.max(dim=-1, keepdim=True).values) / settings.temperature, dim=-1)
    if settings.top_p < 1.0:
        p = _renormalised(p * _largest(logits, _nucleus_size(p, settings.top_p)))
    if settings.min_p > 0.0:
        p = _renormalised(p * (p >= settings.min_p * p.max(dim=-1, keepdim=True).values))
    return p


def one_hot(ids: Tensor, vocab: int) -> Tensor:
    """[W] ids -> [W, vocab] with all mass on each."""
    return torch.zeros(ids.shape[0], vocab, device=ids.device).scatter_(-1, ids[:, None], 1.0)


def draw(p: Tensor, generator: torch.Generator | None) -> int:
    """One token id from p [V], which need not sum to 1 exactly. Never a token of probability 0.

    By inversion with one uniform: `torch.multinomial` draws an exponential a vocabulary entry, ten times the work.
    """
    reach = p.double().cumsum(-1)  # [V]
    u = torch.rand(1, dtype=torch.float64, generator=generator, device=p.device)
    # The first token whose reach lies above u: one of probability 0 reaches no further than the one before it.
    at = int(torch.searchsorted(reach, u * reach[-1], right=True))
    return at if at < p.shape[-1] else int(p.nonzero()[-1])  # u * total rounded up to the total


def _renormalised(p: Tensor) -> Tensor:
    return p / p.sum(dim=-1, keepdim=True)


def _penalised(logits: Tensor, penalty: float, context: Sequence[int], drafted: Sequence[int]) -> Tensor:
    """Seen tokens lose: positive logits are divided, negative ones multiplied (CTRL, section 4.1; transformers')."""
    vocab = logits.shape[-1]
    out = logits.clone()
    for i, row in enumerate(logits):
        seen = [t for t in {*context, *drafted[:i]} if t < vocab]
        if not seen:
            continue
        ids = torch.tensor(seen, device=logits.device)
        score = row[ids]
        out[i, ids] = torch.where(score < 0, score * penalty, score / penalty)
    return out


def _nucleus_size(p: Tensor, top_p: float) -> Tensor:
    """[W]: how many of the likeliest tokens reach top_p; at least one."""
    width = min(SHORTLIST, p.shape[-1])
    ordered = torch.topk(p, width, dim=-1).values.double()
    reach = ordered.cumsum(-1)
    if width < p.shape[-1] and bool((reach[:, -1] < top_p).any()):
        ordered = torch.sort(p, dim=-1, descending=True).values.double()
        reach = ordered.cumsum(-1)
    return ((reach - ordered) < top_p).sum(-1).clamp(min=1)


def _largest(values: Tensor, count: int | Tensor) -> Tensor:
    """[W, V] bool: exactly the `count` (one number, or [W]) largest of each row; a tie goes to the lowest ids."""
    counts = torch.as_tensor(count, device=values.device).expand(values.shape[0])  # [W]
    ordered = torch.topk(values, int(counts.max()), dim=-1).values
    edge = ordered.gather(-1, (counts - 1)[:, None])  # [W, 1]: the smallest value kept
    above = values > edge
    tied = values == edge
    room = counts[:, None] - above.sum(-1, keepdim=True)
    return above | (tied & (tied.cumsum(-1) <= room))
