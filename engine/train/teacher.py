"""What the target says of a text that it reads at once: hidden states for a head to read, and its own next tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.errors import EngineError
from engine.runner import Runner
from engine.transfer import upload

# Positions whose logits over the whole vocabulary stand in memory at once.
HEAD_ROWS = 1024
# Half precision rounds logits to the same number often; of so many the largest is told in float32.
CLOSE = 8


@dataclass(frozen=True, slots=True)
class Lesson:
    """B texts, padded on the right to S tokens, and what the target says of them.

    ids [B, S]; lengths: tokens of each. features [B, S, taps * H]: the tapped states side by side. last [B, S, H]: the
    state behind the final norm, which the target's head reads. best [B, S]: the target's likeliest token behind each.
    """

    ids: Tensor
    lengths: tuple[int, ...]
    features: Tensor
    last: Tensor
    best: Tensor


class Teacher:
    """Reads whole texts with any target, which it never changes. rows: [V, H] in the target's dtype, its head's."""

    def __init__(self, runner: Runner, taps: Sequence[int]) -> None:
        layers = runner.num_layers
        if unknown := [t for t in taps if not -1 <= t < layers]:
            raise EngineError(f"the target has {layers} layers, so a head cannot read the input of layer {unknown[0]}")
        self.runner, self.taps = runner, tuple(taps)
        self.rows = runner.head_rows(None).to(runner.dtype, copy=True)  # no tensor of inference mode
        bias: Tensor | None = getattr(runner.model.get_output_embeddings(), "bias", None)
        self.bias = None if bias is None else bias.detach()[: runner.vocab_size]

    def embed(self, ids: Tensor) -> Tensor:
        """[...] -> [..., H]"""
        return self.runner.embed(ids).clone()

    @torch.no_grad()
    def read(self, texts: Sequence[Sequence[int]]) -> Lesson:
        width = max(map(len, texts))
        padded = [t for text in texts for t in (*text, *[text[-1]] * (width - len(text)))]
        ids = upload(padded, self.runner.device).view(len(texts), width)
        last, states = self._states(texts, ids)
        best = torch.cat([self._best(part) for part in torch.split(last.flatten(0, 1), HEAD_ROWS)])
        return Lesson(ids, tuple(map(len, texts)), torch.cat(states, -1), last, best.view(ids.shape))

    def _states(self, texts: Sequence[Sequence[int]], ids: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The last states, and those of each tap, [B, S, H]."""
        if self.runner.fused is None:
            # Padding stands on the right, where causal masking keeps it out of everybody's sight.
            said = self.runner.model.base_model(input_ids=ids, output_hidden_states=True, use_cache=False)
            last: Tensor = said.last_hidden_state
            return last, [last if t < 0 else said.hidden_states[t] for t in self.taps]
        taps = tuple(dict.fromkeys((*self.taps, -1)))
        shape = (*ids.shape, self.rows.shape[1])
        whole = {tap: torch.zeros(shape, dtype=self.runner.dtype, device=ids.device) for tap in taps}
        for row, text in enumerate(texts):  # one by one: a batch would ask for logits that nobody reads
            hidden = self.runner.read(list(text), self.runner.new_cache(), 1, taps=taps).hidden
            for tap in taps:
                whole[tap][row, : len(text)] = hidden[tap]
        return whole[-1], [whole[tap] for tap in self.taps]

    def _best(self, last: Tensor) -> Tensor:
        """[N, H] -> [N]"""
        logits = torch.nn.functional.linear(last, self.rows, self.bias)
        if logits.dtype == torch.float32:
            return logits.max(-1).indices  # much quicker than argmax on a CPU, and the same
        likely = logits.topk(min(CLOSE, logits.shape[-1]), -1).indices.sort(-1).values  # a tie goes to the lowest id
        exact = (self.rows[likely].float() @ last.float()[..., None])[..., 0]
        if self.bias is not None:
            exact = exact + self.bias[likely].float()
        return likely.gather(-1, exact.max(-1, keepdim=True).indices)[:, 0]
