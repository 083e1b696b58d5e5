"""The verify half of a step, for one sequence or for a batch of them: from logits to verdicts with ONE host read.

Everything until that read is queued on the device, where sampling, accept tests and draws are done. Sequences whose
settings ask for the same arithmetic go through it together, so that a batch launches no more kernels than one row.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from engine.errors import EngineError
from engine.settings import DecodeSettings
from engine.transfer import download, upload
from engine.tree import Parents
from engine.verify.chain import decide
from engine.verify.sampling import law, refuse
from engine.verify.tree import decide_tree
from engine.verify.typical import decide_typical
from engine.verify.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Case:
    """One sequence's draft and what the target said of it.

    logits: [K+1, V] from the last token before the draft on. tokens: the K drafted ids; ids: the same, [K] on the
    device, where they are there already. probs: [K, V] the law they were drawn from, None for a deterministic drafter.
    context: all ids before the draft. parents: a tree's, None for a chain; the logits' rows are then behind the context
    and behind each token.
    """

    logits: Tensor
    tokens: Sequence[int]
    probs: Tensor | None
    context: Sequence[int]
    settings: DecodeSettings
    method: str
    generator: torch.Generator | None
    ids: Tensor | None = None
    parents: Parents | None = None

    @property
    def drafted(self) -> Tensor:
        """[K] on the device"""
        return upload(self.tokens, self.logits.device) if self.ids is None else self.ids


class Judgement(NamedTuple):
    """p: [K+1, V], the target's law, on the device."""

    p: Tensor
    verdict: Verdict


# Numbers that one pass may go over on a CPU: what its caches hold. A GPU goes over a whole batch at once.
TOGETHER_ON_CPU = 2**18


def judge_case(case: Case) -> Judgement:
    """Raises EngineError where the logits are no law, or the draft's law did not hold its token."""
    (found,) = judge_cases([case])
    if isinstance(found, EngineError):
        raise found
    return found


def judge_cases(cases: Sequence[Case]) -> list[Judgement | EngineError]:
    """In the order of `cases`; an error is that sequence's own, and the others are judged all the same."""
    if not cases:
        return []
    groups = list(_alike(cases))
    laws, numbers = zip(*(_decide([cases[i] for i in group]) for group in groups), strict=True)
    read = download(torch.cat([n.flatten() for n in numbers]))
    out: dict[int, Judgement | EngineError] = {}
    at = 0
    for group, p, n in zip(groups, laws, numbers, strict=True):
        for i, row in zip(group, p, strict=True):
            out[i] = _answer(cases[i], row, read[at : at + n.shape[1]])
            at += n.shape[1]
    return [out[i] for i in range(len(cases))]


def _alike(cases: Sequence[Case]) -> Iterable[list[int]]:
    """Which cases go through the same arithmetic. A repetition penalty reads each one's own context."""
    groups: dict[object, list[int]] = {}
    for i, case in enumerate(cases):
        s = case.settings
        # Not `s.greedy or s.temperature`: True equals 1.0.
        asked = (s.greedy, 0.0 if s.greedy else s.temperature, s.top_k, s.top_p, s.min_p)
        large = case.logits.device.type == "cpu" and len(cases) * case.logits.numel() > TOGETHER_ON_CPU
        alone = i if large or s.repetition_penalty != 1.0 else None
        shape = case.logits.shape, case.parents
        groups.setdefault((asked, alone, case.method, *shape, case.probs is None), []).append(i)
    return groups.values()


def _decide(cases: Sequence[Case]) -> tuple[Tensor, Tensor]:
    """The laws [R, K+1, V], and for each case what `decide` says and, behind it, the law's checks."""
    first, rows = cases[0], len(cases)
    width, vocab = first.logits.shape
    logits = first.logits if rows == 1 else torch.cat([c.logits for c in cases])
    p, checks = law(logits, first.settings, first.context, first.tokens, first.parents)
    laws = p.view(rows, width, vocab)
    x = torch.stack([c.drafted for c in cases])
    probs = [c.probs for c in cases if c.probs is not None]
    q = torch.stack(probs) if probs else None
    generators = [c.generator for c in cases]
    if first.method == "typical":
        decided = decide_typical(laws, x, first.parents, generators)
    elif first.parents is not None:
        decided = decide_tree(laws, x, q, first.parents, generators)
    else:
        decided = decide(laws, x, q, first.method, generators)
    checked = checks.view(rows, width, -1).transpose(1, 2).flatten(1)  # [R, checks * (K+1)]
    return laws, torch.cat([decided, checked], 1)


def _answer(case: Case, p: Tensor, numbers: list[float]) -> Judgement | EngineError:
    decided = 3 + 4 * len(case.tokens)
    try:
        refuse(numbers[decided:], p.shape[0], case.settings)
        return Judgement(p, Verdict.of(numbers[:decided], case.parents))
    except EngineError as error:
        return error
