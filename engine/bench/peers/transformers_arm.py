"""transformers: `generate`, its assisted generation and its prompt lookup, on a stock model of its own."""

import time
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch

from engine.bench.peers.base import PeerRun
from engine.bench.peers.setup import PeerSetup
from engine.fast import read_bytes
from engine.weights import resolve

BASELINE = "transformers generate"


class StockModels:
    """The target and the draft as transformers loads them, once for all arms that run them: the engine's own pair may
    hold packed or fused weights, which would be no stock model."""

    def __init__(self, setup: PeerSetup) -> None:
        self.setup = setup

    @cached_property
    def target(self) -> Any:
        return self._load(self.setup.target_source)

    @cached_property
    def draft(self) -> Any:
        source = self.setup.draft_source
        return self._load(source) if source else None

    def release(self) -> None:
        for name in ("target", "draft"):
            self.__dict__.pop(name, None)

    def _load(self, source: str) -> Any:
        from transformers import AutoModelForCausalLM
        from transformers.utils import logging

        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        trust = self.setup.trust_remote_code
        folder = resolve(source, progress=self.setup.progress, trust_remote_code=trust)
        dtype: Any = "auto" if self.setup.dtype == "auto" else getattr(torch, self.setup.dtype)
        model: Any = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, trust_remote_code=trust, use_safetensors=True
        )
        return model.to(self.setup.device).eval()


class TransformersArm:
    """`model.generate` with its own defaults, but for what every arm shares: greedy, no end, k draft tokens."""

    def __init__(self, setup: PeerSetup, stock: Any, name: str = BASELINE, way: str = "plain") -> None:
        self.setup, self.stock, self.way, self.name = setup, stock, way, name
        self.weights = setup.weights
        self.threads: int | None = setup.threads
        self.step_bytes: int | None = None

    def available(self) -> str | None:
        if self.way == "assisted" and self.setup.draft_source is None:
            return "assisted generation needs a draft model and this pair has none; give one with --draft"
        return None

    def load(self, context_tokens: int) -> None:
        from transformers import GenerationConfig

        model = self.stock.target
        self.step_bytes = read_bytes(model, None)
        config: Any = GenerationConfig
        # No end of sequence: every arm goes on to the last token, saying what the model says.
        model.generation_config = config(do_sample=False, pad_token_id=0)
        if self.way == "assisted":
            self.stock.draft.generation_config = config(
                do_sample=False, pad_token_id=0, num_assistant_tokens=self.setup.k,
                num_assistant_tokens_schedule="constant",
            )  # fmt: skip

    @torch.inference_mode()
    def run(self, prompt_ids: Sequence[int], max_new_tokens: int) -> PeerRun:
        watch = _FirstToken()
        how: dict[str, Any] = {}
        if self.way == "assisted":
            how["assistant_model"] = self.stock.draft
        elif self.way == "prompt lookup":
            how["prompt_lookup_num_tokens"] = self.setup.k
        start = time.perf_counter()
        ids = torch.tensor([list(prompt_ids)], device=self.setup.device)  # [1, prompt]
        out = self.stock.target.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=max_new_tokens, streamer=watch, **how
        )
        emitted = tuple(out[0, len(prompt_ids) :].tolist())
        seconds = time.perf_counter() - start
        return PeerRun(emitted, seconds, watch.at - start if watch.at else None)

    def close(self) -> None:
        self.stock.release()


class _FirstToken:
    """A streamer that only looks at the clock: `generate` puts the prompt first, then tokens as they come."""

    def __init__(self) -> None:
        self.puts, self.at = 0, 0.0

    def put(self, value: Any) -> None:
        self.puts += 1
        if self.puts == 2:
            self.at = time.perf_counter()

    def end(self) -> None:
        pass


def transformers_arms(setup: PeerSetup, stock: StockModels) -> list[TransformersArm]:
    ways = ((BASELINE, "plain"), ("transformers assisted", "assisted"), ("transformers prompt lookup", "prompt lookup"))
    return [TransformersArm(setup, stock, name, way) for name, way in ways]
