"""flashspec on the same stock model as transformers: its prompt lookup, and its own choice when there is a draft."""

import logging
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from engine.bench.peers.base import PeerRun
from engine.bench.peers.setup import PeerSetup, missing
from engine.bench.peers.transformers_arm import StockModels


class FlashSpecArm:
    """`SpeculativeEngine.generate` with the settings of its README. It has no plain decoding to compare."""

    def __init__(self, setup: PeerSetup, stock: StockModels, with_draft: bool) -> None:
        self.setup, self.stock, self.with_draft = setup, stock, with_draft
        self.name = "flashspec composite" if with_draft else "flashspec prompt lookup"
        self.weights = setup.weights
        self.threads: int | None = setup.threads
        self.step_bytes: int | None = None
        self.engine: Any = None

    def available(self) -> str | None:
        absent = missing("flashspec", "flashspec", "peers-flashspec")
        if absent is None and self.with_draft and self.setup.draft_source is None:
            return "its composite drafter needs a draft model and this pair has none; give one with --draft"
        return absent

    def load(self, context_tokens: int) -> None:
        from flashspec import BanditConfig, FlashSpecConfig, SamplingConfig, SpeculativeEngine
        from flashspec.engine import HuggingFaceDrafter, NgramDrafter, TargetModel

        logging.getLogger("flashspec").setLevel(logging.ERROR)
        model = self.stock.target
        where, dtype = self.setup.device, next(model.parameters()).dtype
        target = TargetModel("target", where, dtype, model=model)
        drafters = [NgramDrafter()]
        if self.with_draft:
            drafters = [HuggingFaceDrafter("draft", where, dtype, model=self.stock.draft)]
        config = FlashSpecConfig(
            device=str(where), sampling=SamplingConfig(temperature=0.0, gamma=self.setup.k),
            drafter_strategy="auto" if self.with_draft else "bandit", bandit=BanditConfig(n_arms=1),
        )  # fmt: skip
        self.engine = SpeculativeEngine(config, drafters, target)

    def run(self, prompt_ids: Sequence[int], max_new_tokens: int) -> PeerRun:
        with _hushed():
            start = time.perf_counter()
            ids = torch.tensor([list(prompt_ids)], device=self.setup.device)  # [1, prompt]
            result = self.engine.generate(ids, max_new_tokens=max_new_tokens, eos_token_ids=())
            emitted = tuple(result.output_ids[0, : result.n_tokens_generated].tolist())
            seconds = time.perf_counter() - start
        steps = result.arm_steps
        counts = {
            "proposed": sum(s.proposed for s in steps),
            "accepted": sum(s.accepted for s in steps),
            "target_forwards": len(steps),
        }
        return PeerRun(emitted, seconds, None, None, counts)

    def close(self) -> None:
        self.engine = None
        self.stock.release()


@contextmanager
def _hushed() -> Iterator[None]:
    """It calls transformers' cache by its older name, which works and warns in two ways."""
    from transformers.utils import logging as theirs

    before = theirs.get_verbosity()
    theirs.set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            yield
    finally:
        theirs.set_verbosity(before)


def flashspec_arms(setup: PeerSetup, stock: StockModels) -> list[FlashSpecArm]:
    return [FlashSpecArm(setup, stock, with_draft) for with_draft in (False, True)]
