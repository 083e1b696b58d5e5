"""From logits to the law that tokens are drawn from, and drawing from it.

The same function makes p (target) and q (draft). Every step is per position: position i sees the context and
the drafted tokens before i. The order is transformers': penalty, temperature, top-k, top-p, min-p.
`law` and `pick` read nothing back from the device; `probabilities` and `draw` do, once. (`torch.where` with a number
would: it copies the number over and waits, which `masked_fill` does not.)
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from engine.errors import EngineError
from engine.settings import DecodeSettings
from engine.transfer import download, send, upload

# A nucleus is nearly always inside the likeliest 512; sorting the whole vocabulary is the exception on a CPU. A GPU
# sorts it always, which costs it less than asking.
SHORTLIST = 512


class Law(NamedTuple):
    """p: [W, V] float32. checks: [W, 1 or 2], 0 where the logits were fit to be sampled and NaN where not; `refuse`
    says it in words. Until it has been asked, p may hold anything."""

    p: Tensor
    checks: Tensor


def probabilities(
    logits: Tensor, settings: DecodeSettings, context: Sequence[int] = (), drafted: Sequence[int] = ()
) -> Tensor:
    """The law at each position under `settings`.

    logits: [W, V] of W = 1 + len(drafted) consecutive positions; context: the token ids before the first of them.
    Returns [W, V] float32 rows that sum to 1. Temperature 0 puts all mass on the largest logit, the lowest id of a tie.
    Raises EngineError when a row has no finite logit or a NaN: such a model cannot be sampled.
    """
    p, checks = law(logits, settings, context, drafted)
    refuse(download(checks.T), checks.shape[0], settings)
    return p


def law(
    logits: Tensor,
    settings: DecodeSettings,
    context: Sequence[int] | Tensor = (),
    drafted: Sequence[int] = (),
    parents: Sequence[int] | None = None,
) -> Law:
    """`probabilities` without the answer to whether they are any: no value is read back from the device.
    context: ids, or an id tensor [n] on the device whose ids are all below V. parents: of a drafted tree, for each of
    its tokens the index of the one before it, -1 for the context; position i + 1 then lies behind token i."""
    logits = logits.float()
    penalised = settings.repetition_penalty != 1.0
    checks = []
    if penalised:
        best = logits.amax(dim=-1)
        checks.append(best - best)
        logits = _penalised(logits, settings.repetition_penalty, context, drafted, parents)
    if settings.greedy:
        best, first = logits.max(dim=-1)  # [W]: the largest, NaN if any is; the lowest id of a tie
    else:
        best = logits.amax(dim=-1)
    checks.append(best - best)  # 0 where finite, else NaN
    fit = torch.stack(checks, -1)
    if settings.greedy:
        return Law(one_hot(first, logits.shape[-1]), fit)
    # Which tokens are the largest is asked of the logits: dividing by the temperature and softmax may round two of
    # them to one number, and the tie would then go to the wrong one.
    if 0 < settings.top_k < logits.shape[-1]:
        ordered = torch.topk(logits, settings.top_k, dim=-1).values
        logits = logits.masked_fill(~_largest(logits, ordered, settings.top_k), float("-inf"))
    # Relative to the best, so that no temperature makes an infinity.
    p = torch.softmax((logits - best[:, None]) / settings.temperature, dim=-1)
    if settings.top_p < 1.0:
        p = _renormalised(p.masked_fill(~_nucleus(logits, p, settings.top_p), 0.0))
    if settings.min_p > 0.0:
        p = _renormalised(p.masked_fill(p < settings.min_p * p.amax(dim=-1, keepdim=True), 0.0))
    return Law(p, fit)


def refuse(checks: Sequence[float], positions: int, settings: DecodeSettings, whose: str = "the model") -> None:
    """checks: a law's, check by check, `positions` numbers each. whose: what made the logits. Raises EngineError where
    one failed."""
    if any(map(math.isnan, checks[:positions])):
        raise EngineError(
            f"{whose} returned NaN or no finite logits, so there is no distribution to decode from; "
            "load it with dtype='float32' or check its weights"
        )
    if any(map(math.isnan, checks[positions:])):
        raise EngineError(
            f"repetition_penalty {settings.repetition_penalty:g} overflows the logits of {whose}; use one nearer to 1"
        )


def one_hot(ids: Tensor, vocab: int) -> Tensor:
    """[W] ids -> [W, vocab] with all mass on each."""
    return torch.zeros(ids.shape[0], vocab, device=ids.device).scatter_(-1, ids[:, None], 1.0)


def draw(p: Tensor, generator: torch.Generator | None) -> int:
    """One token id from p [V], which need not sum to 1 exactly. Never a token of probability 0."""
    return int(pick(p[None], uniforms(1, [generator], p.device)))


def uniforms(count: int, generators: Sequence[torch.Generator | None], device: torch.device) -> Tensor:
    """[R, count] float64 in [0, 1) on `device`, a row from each generator. A generator on the host draws there, and all
    rows go over at once: less work for a GPU than a kernel a row, and a seed means the same numbers on every device."""
    rows = [
        torch.rand(count, dtype=torch.float64, generator=g, device=device if g is None else g.device)
        for g in generators
    ]
    drawn = torch.stack(rows)
    return drawn if drawn.device == device else send(drawn, device)


def pick(p: Tensor, u: Tensor) -> Tensor:
    """Token ids [R, 1] from laws p [R, V], which need not sum to 1 exactly, by their uniforms u [R, 1].

    By inversion with one uniform: `torch.multinomial` draws an exponential a vocabulary entry, ten times the work.
    The first token whose reach lies above u: one of probability 0 reaches no further than the one before it.
    """
    reach = p.cumsum(-1, dtype=torch.float64)  # [R, V]
    total = reach[:, -1:].contiguous()
    # u * total may round up to the total, which no token reaches past.
    wanted = torch.minimum(u * total, torch.nextafter(total, torch.zeros_like(total)))
    # A law of NaN is no law, and its id must be one that the embedding has until that has been noticed.
    return torch.searchsorted(reach, wanted, right=True).clamp_(max=p.shape[-1] - 1)


def _renormalised(p: Tensor) -> Tensor:
    return p / p.sum(dim=-1, keepdim=True)


def seen_ids(context: Sequence[int], vocab: int, device: torch.device) -> Tensor:
    """The context as `law` takes it on the device: each id once, those without a logit left out."""
    return upload([t for t in set(context) if t < vocab], device)


def _penalised(
    logits: Tensor,
    penalty: float,
    context: Sequence[int] | Tensor,
    drafted: Sequence[int],
    parents: Sequence[int] | None,
) -> Tensor:
    """Seen tokens lose: positive logits are divided, negative ones multiplied (CTRL, section 4.1; transformers')."""
    width, vocab = logits.shape
    before = context if isinstance(context, Tensor) else seen_ids(context, vocab, logits.device)  # [n]
    lines: list[list[int]] = [[]]  # what each row has seen of the draft
    for i, t in enumerate(drafted):
        line = lines[i if parents is None else parents[i] + 1]
        lines.append([*line, t] if t < vocab else line)
    lines += [[]] * (width - len(lines))
    rows = [i for i, line in enumerate(lines[:width]) if line or before.numel()]  # rows that have seen nothing stay
    if not rows:
        return logits
    longest = max(len(lines[i]) for i in rows)
    grid = [t for i in rows for t in (*lines[i], *[-1] * (longest - len(lines[i])))]
    later = upload(grid, logits.device).view(len(rows), longest)
    spare = before[:1] if before.numel() else later[:, :1]  # what the row has seen, in place of -1
    seen = torch.cat([before.expand(len(rows), -1), torch.where(later < 0, spare, later)], -1)  # [rows, n + longest]
    at = slice(None) if len(rows) == width else upload(rows, logits.device)
    out = logits.clone()
    out[at] = punished(logits[at], seen, penalty)
    return out


def punished(logits: Tensor, seen: Tensor, penalty: float) -> Tensor:
    """logits [n, V] with those of `seen` [n, m], which may repeat an id, lowered by a repetition penalty."""
    score = logits.gather(-1, seen)
    return logits.scatter(-1, seen, torch.where(score < 0, score * penalty, score / penalty))


def _nucleus(logits: Tensor, p: Tensor, top_p: float) -> Tensor:
    """[W, V] bool: of each row, the likeliest tokens that reach top_p together; at least one."""
    vocab = p.shape[-1]
    on_host = p.device.type == "cpu"
    if on_host and vocab > SHORTLIST:
        ordered = torch.topk(logits, SHORTLIST, dim=-1)
        reach, mass = _reach(p, ordered.indices)
        if bool((reach[:, -1] >= top_p).all()):
            return _nucleus_of(logits, ordered.values, reach, mass, top_p)
    values, indices = torch.sort(logits, dim=-1, descending=True)
    return _nucleus_of(logits, values, *_reach(p, indices), top_p)


def _reach(p: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
    mass = p.gather(-1, indices).double()
    return mass.cumsum(-1), mass


def _nucleus_of(logits: Tensor, ordered: Tensor, reach: Tensor, mass: Tensor, top_p: float) -> Tensor:
    return _largest(logits, ordered, ((reach - mass) < top_p).sum(-1, keepdim=True).clamp_(min=1))


def _largest(values: Tensor, ordered: Tensor, count: int | Tensor) -> Tensor:
    """[W, V] bool: exactly the `count` (one number, or [W, 1]) largest of each row; a tie goes to the lowest ids.
    ordered: [W, n >= count] its largest values, in order."""
    edge = ordered[:, count - 1 : count] if isinstance(count, int) else ordered.gather(-1, count - 1)  # [W, 1]
    room = (count - (ordered > edge).sum(-1, keepdim=True)).to(torch.int32)  # of the tied ones, how many stay
    return (values > edge) | ((tied := values == edge) & (tied.cumsum(-1, dtype=torch.int32) <= room))
