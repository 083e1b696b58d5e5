"""EAGLE: a one-layer head drafts from the target's own hidden states, as a chain or as a dynamic tree.

The head reads at position t the embedding of token t + 1 and the state of position t, and guesses token t + 2. The
state is the target's where the target has read the position, and beyond that what the head itself put out. So a round
first reads the positions that the target has read since the last one, over whatever stood there of the last draft, and
then drafts on from its own output (Li et al. 2024, arXiv 2401.15077, section 4; EAGLE-3, arXiv 2503.01840).
"""

import threading
from collections.abc import Sequence

import torch
from torch import Tensor

from engine.drafters.base import UNSURE, Draft, Gate, Open, Outcome
from engine.drafters.eagle_tree import WHOSE, Tree, refuse_nan
from engine.drafters.hidden import Unused
from engine.drafters.sampled import Chain
from engine.heads.eagle import EagleHead
from engine.heads.fast_eagle import HeadCache, fast_eagle
from engine.runner import PREFILL_CHUNK, Runner
from engine.settings import DecodeSettings
from engine.transfer import upload
from engine.verify.sampling import punished

# States that may wait for the next round; more, as a prompt has, are read at once.
MOST_WAITING = 16


class EagleDrafter:
    """nodes: tokens of the tree; 0 drafts chains, sampled at a temperature from the head's own law under the run's
    settings. A tree takes the likeliest tokens, so it is deterministic.

    Nothing is kept of a draft: its keys lie behind those of the positions that the target has read, and the next round
    writes over them. That makes a stale cache impossible, through steps without a draft too.
    """

    name = "eagle"
    begins_in_pieces = True

    def __init__(
        self,
        head: EagleHead,
        runner: Runner,
        settings: DecodeSettings,
        generator: torch.Generator,
        vocab_size: int,
        nodes: int,
        gate: Gate | None = None,
    ) -> None:
        self.fast = fast_eagle(head, runner, vocab_size)
        self.taps = head.taps
        self.settings, self.generator = settings, generator
        self.gate: Gate = gate or Open()
        self.vocab_size, self.nodes = vocab_size, nodes
        self.cache = HeadCache(self.fast)
        self.start = 0  # the position whose keys stand first in the cache
        self.unused = Unused()  # states of positions whose keys are not in it yet
        self._newest: Tensor | None = None  # [1, hidden]: what the head put out for the last position in it

    def begin(self, prompt: Sequence[int], cancel: threading.Event) -> None:
        """The prompt comes through `read`, with the states that the target has for it."""

    def observe(self, outcome: Outcome) -> None:
        """What stands of the draft comes through `read`, with its true states."""

    @torch.inference_mode()
    def read(self, context: Sequence[int], start: int, hidden: dict[int, Tensor]) -> None:
        """See `Reader.read`."""
        if start != self.unused.end:
            self.start, self._newest = start, None
            self.unused.restart(start)
        taps = [hidden[tap] for tap in self.taps]
        features = taps[0] if len(taps) == 1 else torch.cat(taps, -1)
        if not features.shape[0]:
            return
        self.unused.add(self.fast.fuse(features.to(self.fast.dtype)))
        if self.unused.end - self.unused.start > MOST_WAITING:
            self._catch_up(context)

    def _catch_up(self, context: Sequence[int]) -> None:
        """Reads each position that has its state and the token behind it."""
        while (at := self.unused.start) < (end := min(self.unused.end, len(context) - 1)):
            end = min(end, at + PREFILL_CHUNK)
            ids = upload(context[at + 1 : end + 1], self.fast.device)
            states = self.fast.forward(ids, self.unused.take(end), self.cache, at - self.start, at)
            self._newest = states[-1:]

    @torch.inference_mode()
    def propose(self, context: Sequence[int], k: int) -> Draft:
        if len(context) < 2 or not self.unused.end:
            return Draft(note="the target has read no token before the last one yet")
        self._catch_up(context)
        state = self._newest
        if state is None or self.unused.start != len(context) - 1:
            return Draft(note="the target's hidden states up to here have not been read")
        if self.nodes:
            return self._tree(context, state, k)
        return self._chain(context, state, k)

    def _chain(self, context: Sequence[int], state: Tensor, k: int) -> Draft:
        fast, at = self.fast, self.unused.start

        def read(drawn: list[int] | Tensor) -> Tensor:
            nonlocal state, at
            if isinstance(drawn, Tensor):  # the state in front of the first token is there
                state = fast.forward(fast.rows.target_ids(drawn), state, self.cache, at - self.start, at)
                at += 1
            return fast.logits(state)  # [1, n]

        chain = Chain(self.settings, self.generator, self.vocab_size, context, self.gate, WHOSE, fast.rows)
        return chain.draw(read, [], k)

    def _tree(self, context: Sequence[int], state: Tensor, k: int) -> Draft:
        fast, held, note = self.fast, self.unused.start - self.start, None
        before = self.seen(context)
        tree = Tree(state, lambda states, branch: self._guess(states, branch, before), self.nodes)
        for depth in range(k):
            if depth:
                level, ids = tree.level, fast.rows.target_ids(tree.level.branch[:, -1])
                w, inside = level.sees.shape  # positions of the tree, this level's among them
                at = held + inside - w
                sees = torch.ones(w, at + w, dtype=torch.bool, device=fast.device)
                sees[:, held:] = level.sees
                state = fast.forward(
                    ids, level.states, self.cache, at, self.unused.start + depth - 1, sees, level=True
                )  # [w, hidden]
            if not self.sure(tree.look(state), depth):
                note = UNSURE
                break
            tree.take()
        return tree.kept(fast.rows.target_ids, note)

    def _guess(self, states: Tensor, branch: Tensor, before: Tensor | None) -> Tensor:
        """Log probabilities [w, n] behind branches [w, d], at the run's temperature and penalty: a tree is worth what
        the target takes of it, which has them too."""
        logits, settings = self.fast.logits(states), self.settings
        if before is not None:
            ids = torch.cat([before.expand(len(logits), -1), branch], 1)
            logits = punished(logits, ids, settings.repetition_penalty)
        if not settings.greedy:
            logits = (logits - logits.amax(-1, keepdim=True)) / settings.temperature
        return torch.log_softmax(logits, -1)

    def sure(self, chance: Tensor, depth: int) -> bool:
        """Does the gate want a token at this depth, with this chance that the target takes one?"""
        if not self.gate.asks:
            return True
        found = float(chance)
        refuse_nan([found])  # it would pass for a draft that is not sure
        return self.gate.goes_on(found, depth)

    def seen(self, context: Sequence[int]) -> Tensor | None:
        """The context's ids as the head numbers them; None where no repetition is punished."""
        if self.settings.repetition_penalty == 1.0:
            return None
        ids = upload([t for t in set(context) if t < self.vocab_size], self.fast.device)
        return self.fast.rows.indexes_of(ids, self.vocab_size)
